#include "tests/support/random_domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace vtrace::test {
namespace {

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : seed_(seed), random_(seed) {
    newline_ = pick({"\n", "\n", "\r\n", ""});
    unit_ = pick({"  ", "\t", "   ", "    "});
    quote_ = pick({"'", "\""});
  }

  std::string document() {
    std::string text;
    const bool mark = one_in(8);
    if (mark) text += "\xef\xbb\xbf";
    if (one_in(3)) text += "<?xml version=\"1.0\" encoding='UTF-8'?>" + newline_;
    if (one_in(3)) text += comment() + newline_;
    text += element(
        "domain",
        attribute("type", "test") + " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'",
        sections(), 0);
    return text + std::string(pick({"", "\n", "\n\n", "\r\n"}));
  }

 private:
  using Parts = std::vector<std::string>;

  bool one_in(unsigned n) { return random_() % n == 0; }
  std::string pick(const Parts& parts) { return parts[random_() % parts.size()]; }
  int number(int from, int to) {
    return from + static_cast<int>(random_() % static_cast<unsigned>(to - from + 1));
  }

  std::string attribute(const std::string& name, const std::string& value) {
    const std::string quote = one_in(6) ? pick({"'", "\""}) : quote_;
    const std::string equals = one_in(12) ? " = " : "=";
    return std::string(one_in(12) ? "  " : " ") + name + equals + quote + value + quote;
  }

  std::string gap(int depth) {
    std::string text = newline_;
    if (newline_.empty()) return one_in(10) ? " " : "";
    if (one_in(15)) text += newline_;
    for (int i = 0; i < depth; ++i) text += unit_;
    if (one_in(20)) text += " ";
    return text;
  }

  std::string comment() {
    return "<!--" +
           pick({" plain ", " </devices> ", "<channel type='pipe'/>", " <controller index='99'> ",
                 " größe & <unfinished ", ""}) +
           "-->";
  }

  std::string element(const std::string& name, const std::string& attributes, const Parts& children,
                      int depth) {
    if (children.empty() && !one_in(4))
      return fmt::format("<{}{}{}/>", name, attributes, one_in(5) ? " " : "");
    std::string text = fmt::format("<{}{}{}>", name, attributes, one_in(12) ? " " : "");
    for (const std::string& child : children) {
      text += gap(depth + 1) + child;
      if (one_in(12)) text += gap(depth + 1) + comment();
    }
    if (!children.empty() || one_in(2)) text += gap(depth);
    return text + fmt::format("</{}{}>", name, pick({"", "", "", "", " ", "  ", "\t"}));
  }

  Parts sections() {
    Parts parts = {
        fmt::format("<name>random-{}</name>", seed_),
        "<memory unit='KiB'>65536</memory>",
        element("os", "", {"<type arch='x86_64'>hvm</type>"}, 1),
    };
    if (!one_in(4)) parts.push_back(fmt::format("<vcpu>{}</vcpu>", number(1, 40)));
    if (one_in(3))
      parts.emplace_back("<description><![CDATA[</devices> & <devices>]]></description>");
    if (one_in(3)) {
      parts.emplace_back(
          "<metadata><a:devices xmlns:a='urn:a'><a:channel/></a:devices>"
          "<b xmlns='urn:b'><devices><channel/></devices></b></metadata>");
    }
    if (one_in(4)) {
      parts.emplace_back(
          "<qemu:commandline><qemu:arg value='&quot;&amp;&lt;'/></qemu:commandline>");
    }
    for (int i = one_in(5) ? number(2, 3) : 1; i > 0; --i)
      parts.push_back(element("devices", "", devices(), 1));
    std::ranges::shuffle(parts, random_);
    return parts;
  }

  Parts devices() {
    Parts parts;
    if (one_in(4)) return parts;
    for (int i = number(1, 8); i > 0; --i) {
      switch (number(0, 5)) {
        case 0:
          parts.push_back(controller());
          break;
        case 1:
        case 2:
          parts.push_back(channel());
          break;
        case 3:
          parts.push_back("<input" + attribute("type", "tablet") + attribute("bus", "usb") + "/>");
          break;
        case 4:
          parts.push_back(comment());
          break;
        default:
          parts.emplace_back(pick({"<emulator>/usr/bin/qemu</emulator>", "<?instruction <x> ?>",
                                   "<memballoon model='virtio'/>", "words &amp; &#x41;"}));
      }
    }
    return parts;
  }

  std::string controller() {
    const int index = number(0, 6);
    if (!controllers_.insert(index).second) return comment();
    std::string attributes =
        attribute("type", "virtio-serial") + attribute("index", std::to_string(index));
    if (one_in(3)) attributes += attribute("ports", std::to_string(number(2, 31)));
    return element("controller", attributes, {}, 2);
  }

  std::string channel() {
    Parts parts = {
        "<source" + attribute("mode", "bind") +
            attribute("path", fmt::format("/run/channel-{}-{}", seed_, ++channels_)) + "/>",
        "<target" + attribute("type", "virtio") +
            attribute("name", fmt::format("org.example.{}", channels_)) + "/>",
    };
    if (one_in(2)) {
      const int controller = number(0, 8);
      const int port = number(1, 3);
      if (ports_.insert({controller, port}).second) {
        parts.push_back("<address" + attribute("type", "virtio-serial") +
                        attribute("controller", std::to_string(controller)) +
                        attribute("bus", "0") + attribute("port", std::to_string(port)) + "/>");
      }
    }
    std::ranges::shuffle(parts, random_);
    return element("channel", attribute("type", "unix"), parts, 2);
  }

  std::uint32_t seed_;
  std::mt19937 random_;
  std::string newline_;
  std::string unit_;
  std::string quote_;
  std::set<int> controllers_;
  std::set<std::pair<int, int>> ports_;
  int channels_ = 0;
};

}  // namespace

std::string random_domain(std::uint32_t seed) {
  return Generator(seed).document();
}

}  // namespace vtrace::test
