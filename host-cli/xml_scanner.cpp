#include "host-cli/xml_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <set>
#include <vector>

namespace vtrace {
namespace {

// libxml2's own limit; it also bounds the recursion of whoever walks the tree.
constexpr std::size_t kMaxDepth = 256;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBlanks = " \t\r\n";

bool is_blank(char c) {
  return kBlanks.find(c) != std::string_view::npos;
}

// Letters beyond ASCII are let through: which of them may be in a name is libvirt's to say.
bool starts_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalpha(byte) != 0 || c == '_' || c == ':';
}

bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

// How many bytes the UTF-8 sequence at the start of `text` has; 0 when it is none.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return bad ? 0 : size;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_xml_character(std::uint32_t code) {
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  return code < 0xd800 || (code > 0xdfff && code < 0xfffe) || (code > 0xffff && code < 0x110000);
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Result<ElementSpans> run() {
    VTRACE_CHECK(check_encoding());
    at_ = byte_order_mark_size(text_);
    if (looking_at("<?xml") && at_ + 5 < text_.size() && is_blank(text_[at_ + 5]))
      VTRACE_CHECK(declaration());
    VTRACE_CHECK(check_bytes());
    while (at_ < text_.size()) VTRACE_CHECK(text_[at_] == '<' ? markup() : characters());
    if (!open_.empty()) {
      return error_at(open_.back().span.begin,
                      fmt::format("<{}> has no end tag", open_.back().name));
    }
    if (!seen_root_) return error_at(text_.size(), "there is no element");
    return std::move(spans_);
  }

 private:
  struct Open {
    std::string_view name;
    std::size_t name_at;
    ElementSpan span;
  };

  [[nodiscard]] std::unexpected<Error> error_at(std::size_t offset, std::string_view what) const {
    return fail(fmt::format("{}: {}", text_position(text_, offset), what));
  }
  [[nodiscard]] bool looking_at(std::string_view wanted) const {
    return text_.substr(at_).starts_with(wanted);
  }
  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }

  [[nodiscard]] Status check_encoding() const {
    const std::string_view start = text_.substr(0, 4);
    const bool wide = start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff") ||
                      start.find('\0') != std::string_view::npos;
    if (!wide) return {};
    return fail(
        "line 1, column 1: UTF-16 or UTF-32 cannot be edited in place (convert it to "
        "UTF-8 first)");
  }

  // <?xml …?>, of which only the encoding matters here.
  Status declaration() {
    const std::size_t end = text_.find("?>", at_);
    if (end == std::string_view::npos) return error_at(at_, "the XML declaration has no end");
    const std::string_view inside = text_.substr(at_, end - at_);
    const std::size_t key = inside.find("encoding");
    if (key != std::string_view::npos) {
      const std::size_t open = inside.find_first_of("'\"", key);
      const std::size_t close =
          open == std::string_view::npos ? open : inside.find(inside[open], open + 1);
      if (close == std::string_view::npos) return error_at(at_ + key, "the encoding is not quoted");
      const std::string name = lower(inside.substr(open + 1, close - open - 1));
      utf8_ = name == "utf-8" || name == "utf8";
      if (!utf8_ && name != "us-ascii" && name != "ascii" && !name.starts_with("iso-8859-") &&
          !name.starts_with("windows-125")) {
        return error_at(at_ + key, fmt::format("the encoding \"{}\" cannot be edited in place "
                                               "(convert it to UTF-8 first)",
                                               name));
      }
    }
    at_ = end + 2;
    return {};
  }

  [[nodiscard]] Status check_bytes() const {
    for (std::size_t i = 0; i < text_.size();) {
      const auto byte = static_cast<unsigned char>(text_[i]);
      if (!is_xml_character(byte))
        return error_at(i, fmt::format("byte 0x{:02x} cannot be in XML", byte));
      const std::size_t size = utf8_ ? utf8_sequence(text_.substr(i)) : 1;
      if (size == 0) return error_at(i, "not UTF-8");
      i += size;
    }
    return {};
  }

  Status markup() {
    if (looking_at("<!--")) return comment();
    if (looking_at("<![CDATA[")) return cdata();
    if (looking_at("<!")) {
      return error_at(at_,
                      "a DOCTYPE or other declaration is refused: it could define entities "
                      "(take it out)");
    }
    if (looking_at("<?")) return instruction();
    if (looking_at("</")) return end_tag();
    return start_tag();
  }

  Status comment() {
    const std::size_t dashes = text_.find("--", at_ + 4);
    if (dashes == std::string_view::npos) return error_at(at_, "the comment has no end");
    if (!text_.substr(dashes).starts_with("-->")) return error_at(dashes, "\"--\" in a comment");
    at_ = dashes + 3;
    return {};
  }

  Status cdata() {
    if (open_.empty()) return error_at(at_, "CDATA outside of the root element");
    const std::size_t end = text_.find("]]>", at_);
    if (end == std::string_view::npos) return error_at(at_, "the CDATA section has no end");
    at_ = end + 3;
    return {};
  }

  Status instruction() {
    const std::size_t end = text_.find("?>", at_);
    if (end == std::string_view::npos) return error_at(at_, "the instruction has no end");
    const std::size_t from = at_;
    at_ += 2;
    VTRACE_TRY(const std::string_view name, take_name());
    if (lower(name) == "xml")
      return error_at(from, "an XML declaration is allowed at the very start only");
    if (at_ != end && !is_blank(text_[at_])) return error_at(at_, "a blank is missing");
    at_ = end + 2;
    return {};
  }

  Status characters() {
    const std::size_t end = std::min(text_.find('<', at_), text_.size());
    if (open_.empty()) {
      skip_blanks();
      if (at_ < end) return error_at(at_, "text outside of the root element");
      return {};
    }
    const std::string_view data = text_.substr(at_, end - at_);
    if (const std::size_t bad = data.find("]]>"); bad != std::string_view::npos)
      return error_at(at_ + bad, "\"]]>\" in text");
    VTRACE_CHECK(check_references(at_, end));
    at_ = end;
    return {};
  }

  Result<std::string_view> take_name() {
    if (at_ >= text_.size() || !starts_name(text_[at_])) return error_at(at_, "a name is missing");
    const std::size_t from = at_;
    while (at_ < text_.size() && continues_name(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }

  Status start_tag() {
    if (open_.empty() && seen_root_) return error_at(at_, "a second root element");
    seen_root_ = true;
    if (open_.size() >= kMaxDepth) return error_at(at_, "elements are nested too deep");
    Open element{{}, at_ + 1, {.begin = at_}};
    ++at_;
    VTRACE_TRY(element.name, take_name());
    VTRACE_CHECK(attributes(element));
    element.span.self_closing = looking_at("/>");
    at_ += element.span.self_closing ? 2 : 1;
    element.span.start_tag_end = at_;
    if (element.span.self_closing) {
      element.span.content_end = element.span.end = at_;
      spans_[element.name_at] = element.span;
    } else {
      open_.push_back(element);
    }
    return {};
  }

  // Up to the '>' or '/>' of the start tag.
  Status attributes(const Open& element) {
    std::set<std::string_view> names;
    for (;;) {
      const std::size_t before = at_;
      skip_blanks();
      if (at_ >= text_.size())
        return error_at(element.span.begin,
                        fmt::format("the tag of <{}> has no end", element.name));
      if (looking_at(">") || looking_at("/>")) return {};
      const std::size_t name_at = at_;
      if (at_ == before) return error_at(at_, fmt::format("unexpected '{}'", text_[at_]));
      VTRACE_TRY(const std::string_view name, take_name());
      if (!names.insert(name).second)
        return error_at(name_at, fmt::format("<{}> has {} twice", element.name, name));
      VTRACE_CHECK(attribute_value(name));
    }
  }

  Status attribute_value(std::string_view name) {
    skip_blanks();
    if (!looking_at("=")) return error_at(at_, fmt::format("{} has no value", name));
    ++at_;
    skip_blanks();
    if (!looking_at("'") && !looking_at("\""))
      return error_at(at_, fmt::format("the value of {} is not quoted", name));
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos)
      return error_at(at_, fmt::format("the value of {} has no end", name));
    ++at_;
    if (const std::size_t bad = text_.substr(at_, end - at_).find('<');
        bad != std::string_view::npos)
      return error_at(at_ + bad, fmt::format("'<' in the value of {}", name));
    VTRACE_CHECK(check_references(at_, end));
    at_ = end + 1;
    return {};
  }

  Status end_tag() {
    const std::size_t from = at_;
    at_ += 2;
    VTRACE_TRY(const std::string_view name, take_name());
    skip_blanks();
    if (!looking_at(">")) return error_at(at_, fmt::format("'>' is missing in </{}>", name));
    ++at_;
    if (open_.empty()) return error_at(from, fmt::format("</{}> has no start tag", name));
    Open element = open_.back();
    if (element.name != name) {
      return error_at(from, fmt::format("</{}> where <{}> of {} must end", name, element.name,
                                        text_position(text_, element.span.begin)));
    }
    open_.pop_back();
    element.span.content_end = from;
    element.span.end = at_;
    spans_[element.name_at] = element.span;
    return {};
  }

  // Without a DOCTYPE there are the five predefined entities and character references.
  [[nodiscard]] Status check_references(std::size_t from, std::size_t end) const {
    static constexpr std::array<std::string_view, 5> kEntities = {"amp", "lt", "gt", "quot",
                                                                  "apos"};
    for (;;) {
      const std::size_t ampersand = text_.find('&', from);
      if (ampersand >= end) return {};
      const std::size_t semicolon = text_.find(';', ampersand);
      if (semicolon >= end) return error_at(ampersand, "'&' that starts no entity (write &amp;)");
      const std::string_view name = text_.substr(ampersand + 1, semicolon - ampersand - 1);
      const bool known = name.starts_with('#')
                             ? is_character_reference(name.substr(1))
                             : std::ranges::find(kEntities, name) != kEntities.end();
      if (!known) return error_at(ampersand, fmt::format("unknown entity \"&{};\"", name));
      from = semicolon + 1;
    }
  }

  [[nodiscard]] static bool is_character_reference(std::string_view digits) {
    const unsigned base = digits.starts_with('x') ? 16 : 10;
    if (base == 16) digits.remove_prefix(1);
    if (digits.empty() || digits.size() > 8) return false;
    std::uint64_t code = 0;
    for (const char c : digits) {
      const auto byte = static_cast<unsigned char>(c);
      if (base == 10 ? std::isdigit(byte) == 0 : std::isxdigit(byte) == 0) return false;
      const unsigned digit = std::isdigit(byte) != 0 ? byte - '0' : (byte | 0x20U) - 'a' + 10;
      code = code * base + digit;
    }
    return code < 0x110000 && is_xml_character(static_cast<std::uint32_t>(code));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool utf8_ = true;
  bool seen_root_ = false;
  std::vector<Open> open_;
  ElementSpans spans_;
};

}  // namespace

Result<ElementSpans> scan_xml(std::string_view text) {
  return Scanner(text).run();
}

std::string text_position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  if (start == 0) start = byte_order_mark_size(text);
  const auto column =
      1 + std::ranges::count_if(before.substr(std::min(start, before.size())),
                                [](unsigned char c) { return (c & 0xc0U) != 0x80; });
  return fmt::format("line {}, column {}", line, column);
}

std::size_t byte_order_mark_size(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = utf8_sequence(text.substr(i));
    if (size == 0) return false;
    i += size;
  }
  return true;
}

}  // namespace vtrace
