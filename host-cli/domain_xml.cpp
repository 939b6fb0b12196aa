#include "host-cli/domain_xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <variant>

#include "host-cli/domain_reader.h"
#include "host-cli/xml_text.h"
#include "host-cli/xml_writer.h"

namespace vtrace {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_blank(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return is_blank(c); });
}

// Changes of a text by its own offsets, made all at once.
class TextEdits {
 public:
  void replace(std::size_t from, std::size_t to, std::string text) {
    edits_.push_back({from, to, edits_.size(), std::move(text)});
  }

  [[nodiscard]] std::string apply(std::string_view text) {
    // What is put in goes before a removal that starts there; several in one place stay in the
    // order that they came in.
    std::ranges::sort(edits_, {},
                      [](const Edit& edit) { return std::tuple(edit.from, edit.to, edit.order); });
    std::string result;
    std::size_t at = 0;
    for (const Edit& edit : edits_) {
      result.append(text.substr(at, edit.from - at)).append(edit.text);
      at = edit.to;
    }
    return result.append(text.substr(at));
  }

 private:
  struct Edit {
    std::size_t from;
    std::size_t to;
    std::size_t order;
    std::string text;
  };
  std::vector<Edit> edits_;
};

// The element with the blanks before it, which is what was put in.
std::pair<std::size_t, std::size_t> with_blanks_before(std::string_view text,
                                                       const ElementSpan& span) {
  std::size_t from = span.begin;
  while (from > 0 && is_blank(text[from - 1])) --from;
  return {from, span.end};
}

// An empty <devices> and how it comes back. One that was <devices/> must become a pair of tags, and
// taking ours out must tell it from a pair that was empty before. Blanks in the end tag, which are
// XML and mean nothing, keep the difference: "</devices\t >" was "/>". A pair that had a tab and
// blanks there by itself, if there ever is one, gets a blank more.
constexpr std::string_view kMarkedEndTag = "</devices\t >";

// The blanks behind the tab in the end tag; 0 when it is not of that form.
std::size_t end_tag_blanks(std::string_view text, const ElementSpan& span) {
  std::string_view tag = text.substr(span.content_end, span.end - span.content_end);
  constexpr std::string_view kStart = "</devices\t";
  if (!tag.starts_with(kStart)) return 0;
  tag.remove_prefix(kStart.size());
  const std::size_t blanks = tag.find_first_not_of(' ');
  return blanks + 1 == tag.size() ? blanks : 0;
}

std::string write_planned(const PlannedElement& planned, const ControllerTraits& traits,
                          const ChannelRequest& request, const XmlTemplates& templates,
                          const XmlStyle& style) {
  std::unique_ptr<pugi::xml_document> document;
  if (const auto* const controller = std::get_if<ControllerPlan>(&planned)) {
    document = templates.controller(*controller, traits);
  } else {
    const auto& port = std::get<PortPlan>(planned);
    document = templates.channel(port, port_path(request, port.port_name));
  }
  return write_element(document->document_element(), style, style.indent);
}

class Adder {
 public:
  Adder(const XmlText& xml, const DomainReading& reading, const DomainPlan& plan,
        const ChannelRequest& request, const XmlTemplates& templates)
      : xml_(xml), reading_(reading), plan_(plan), request_(request), templates_(templates) {}

  std::string run() {
    for (const std::size_t element : plan_.drop) {
      const auto [from, to] = with_blanks_before(xml_.text(), span(element));
      edits_.replace(from, to, "");
    }
    for (const auto& [element, planned] : plan_.replace) replace(element, planned);
    if (!plan_.add.empty()) insert();
    return edits_.apply(xml_.text());
  }

 private:
  [[nodiscard]] const ElementSpan& span(std::size_t element) const {
    return xml_.span_of(reading_.elements[element]);
  }

  [[nodiscard]] std::string write(const PlannedElement& planned, const XmlStyle& style) const {
    return write_planned(planned, {.model = reading_.facts.model, .iommu = reading_.facts.iommu},
                         request_, templates_, style);
  }

  void replace(std::size_t element, const PlannedElement& planned) {
    const ElementSpan& old = span(element);
    const XmlStyle style = style_in(xml_, reading_.elements[element].parent());
    edits_.replace(old.begin, old.end, write(planned, style));
  }

  // The <devices> that has children, or else the first.
  [[nodiscard]] pugi::xml_node target() const {
    const auto filled = std::ranges::find_if(reading_.devices, [](pugi::xml_node devices) {
      return std::ranges::any_of(devices.children(), [](pugi::xml_node child) {
        return child.type() == pugi::node_element;
      });
    });
    return filled == reading_.devices.end() ? reading_.devices.front() : *filled;
  }

  // Behind the last of ours that stays, so that they stay together.
  [[nodiscard]] pugi::xml_node last_of_ours() const {
    pugi::xml_node last;
    for (const std::size_t element : elements_of_ours(reading_.facts)) {
      if (std::ranges::find(plan_.drop, element) != plan_.drop.end()) continue;
      const pugi::xml_node node = reading_.elements[element];
      if (!last || xml_.span_of(node).end > xml_.span_of(last).end) last = node;
    }
    return last;
  }

  void insert() {
    const pugi::xml_node neighbour = last_of_ours();
    const pugi::xml_node devices = neighbour ? neighbour.parent() : target();
    const XmlStyle style = style_in(xml_, devices);
    std::string text;
    for (const PlannedElement& planned : plan_.add)
      text += style.separator() + write(planned, style);
    const ElementSpan& place = xml_.span_of(devices);
    if (neighbour) {
      const std::size_t end = xml_.span_of(neighbour).end;
      edits_.replace(end, end, std::move(text));
    } else if (place.self_closing) {
      if (!style.newline.empty()) text += style.newline + style.outer;
      edits_.replace(place.end - 2, place.end, ">" + text + std::string(kMarkedEndTag));
    } else {
      insert_in_pair(place, std::move(text));
    }
  }

  // Behind the last byte in <devices> that is no blank.
  void insert_in_pair(const ElementSpan& place, std::string text) {
    const std::string_view whole = xml_.text();
    std::size_t at = place.content_end;
    while (at > place.start_tag_end && is_blank(whole[at - 1])) --at;
    edits_.replace(at, at, std::move(text));
    if (at == place.start_tag_end && end_tag_blanks(whole, place) > 0)
      edits_.replace(place.end - 1, place.end - 1, " ");
  }

  const XmlText& xml_;
  const DomainReading& reading_;
  const DomainPlan& plan_;
  const ChannelRequest& request_;
  const XmlTemplates& templates_;
  TextEdits edits_;
};

Status check_path(const ChannelRequest& request) {
  const std::string& directory = request.directory;
  const bool control = std::ranges::any_of(directory, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
  if (control || !is_utf8(directory)) {
    return fail(
        fmt::format("{}: a path with control characters, or not in UTF-8, cannot be in XML "
                    "(use another --dir)",
                    directory));
  }
  if (request.backend == Backend::unix_socket) {
    const std::string longest =
        port_path(request, data_port_name(request.cpus.value_or(kMaxCpus) - 1));
    if (longest.size() > kMaxSocketPath) {
      return fail(
          fmt::format("{}: {} bytes are too long for a unix socket's path, {} is the most "
                      "(use a shorter --dir)",
                      longest, longest.size(), kMaxSocketPath));
    }
  }
  return {};
}

class Remover {
 public:
  Remover(const XmlText& xml, const DomainReading& reading) : xml_(xml) {
    for (const std::size_t element : elements_of_ours(reading.facts)) {
      const pugi::xml_node node = reading.elements[element];
      ours_.push_back(with_blanks_before(xml.text(), xml.span_of(node)));
    }
    std::ranges::sort(ours_);
    for (const pugi::xml_node devices : reading.devices) take_out_of(xml.span_of(devices));
  }

  [[nodiscard]] int count() const { return static_cast<int>(ours_.size()); }
  [[nodiscard]] std::string run() { return edits_.apply(xml_.text()); }

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  void take_out_of(const ElementSpan& devices) {
    const std::string_view text = xml_.text();
    std::vector<Range> inside;
    std::string left;  // what stays between the tags
    std::size_t at = devices.start_tag_end;
    for (const Range& range : ours_) {
      if (range.first < devices.start_tag_end || range.second > devices.content_end) continue;
      inside.push_back(range);
      left += text.substr(at, range.first - at);
      at = range.second;
    }
    if (inside.empty()) return;
    left += text.substr(at, devices.content_end - at);
    const std::size_t blanks = is_blank(left) ? end_tag_blanks(text, devices) : 0;
    if (blanks == 1) {
      edits_.replace(devices.start_tag_end - 1, devices.end, "/>");
      return;
    }
    for (const auto& [from, to] : inside) edits_.replace(from, to, "");
    if (blanks > 1) edits_.replace(devices.end - 2, devices.end - 1, "");
  }

  const XmlText& xml_;
  std::vector<Range> ours_;
  TextEdits edits_;
};

}  // namespace

Result<DomainEdit> add_channels(const std::string& xml, const std::string& shown,
                                const ChannelRequest& request, const XmlTemplates& templates) {
  VTRACE_CHECK(check_path(request));
  VTRACE_TRY(const XmlText text, XmlText::parse(xml, shown));
  VTRACE_TRY(const DomainReading reading, read_domain(text));
  auto plan = plan_domain(reading.facts, request);
  if (!plan) return add_context(std::move(plan.error()), shown);
  DomainEdit edit;
  edit.xml = Adder(text, reading, *plan, request, templates).run();
  edit.cpus = plan->cpus;
  edit.added = static_cast<int>(plan->add.size());
  edit.changed = static_cast<int>(plan->replace.size());
  edit.removed = static_cast<int>(plan->drop.size());
  edit.notes = std::move(plan->notes);
  return edit;
}

Result<DomainEdit> remove_channels(const std::string& xml, const std::string& shown) {
  VTRACE_TRY(const XmlText text, XmlText::parse(xml, shown));
  VTRACE_TRY(const DomainReading reading, read_domain(text));
  Remover remover(text, reading);
  DomainEdit edit;
  edit.xml = remover.run();
  edit.removed = remover.count();
  if (edit.removed == 0) edit.notes.emplace_back("the domain has nothing of virtio-trace");
  return edit;
}

Result<DomainFacts> inspect_domain(const std::string& xml, const std::string& shown) {
  VTRACE_TRY(const XmlText text, XmlText::parse(xml, shown));
  VTRACE_TRY(DomainReading reading, read_domain(text));
  return std::move(reading.facts);
}

Result<std::string> channel_elements(const ChannelRequest& request, const XmlTemplates& templates) {
  VTRACE_CHECK(check_path(request));
  DomainFacts facts;
  facts.max_vcpus = request.cpus.value_or(1);
  VTRACE_TRY(const DomainPlan plan, plan_domain(facts, request));
  const XmlStyle style;
  std::string text;
  for (const PlannedElement& planned : plan.add)
    text += style.indent + write_planned(planned, {}, request, templates, style) + style.newline;
  return text;
}

}  // namespace vtrace
