#include "host-cli/xml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace vtrace {
namespace {

constexpr std::size_t kWidestUnit = 8;

// Everything that is not plain ASCII becomes a character reference, which means the same in every
// encoding that the document may have.
std::string escape(std::string_view text, char quote) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (text[i] == '&') {
      result += "&amp;";
    } else if (text[i] == '<') {
      result += "&lt;";
    } else if (text[i] == '>') {
      result += "&gt;";
    } else if (text[i] == quote) {
      result += quote == '"' ? "&quot;" : "&apos;";
    } else if (byte < 0x20) {
      result += fmt::format("&#{};", byte);
    } else if (byte < 0x80) {
      result += text[i];
    } else {
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      std::uint32_t code = byte & (0x3fU >> static_cast<unsigned>(more));
      for (int left = more; left > 0 && i + 1 < text.size(); --left)
        code = (code << 6U) | (static_cast<unsigned char>(text[++i]) & 0x3fU);
      result += fmt::format("&#x{:x};", code);
    }
  }
  return result;
}

bool has_element_child(pugi::xml_node node) {
  return std::ranges::any_of(
      node.children(), [](pugi::xml_node child) { return child.type() == pugi::node_element; });
}

struct Indentation {
  std::string newline;
  std::string indent;
};

// The line break and indentation before `offset`; nothing when something else stands between.
std::optional<Indentation> indentation_before(std::string_view text, std::size_t offset) {
  std::size_t from = offset;
  while (from > 0 && (text[from - 1] == ' ' || text[from - 1] == '\t')) --from;
  if (from == 0 || text[from - 1] != '\n') return std::nullopt;
  const bool carriage_return = from > 1 && text[from - 2] == '\r';
  return Indentation{carriage_return ? "\r\n" : "\n",
                     std::string(text.substr(from, offset - from))};
}

}  // namespace

XmlStyle style_in(const XmlText& xml, pugi::xml_node parent) {
  const std::string_view text = xml.text();
  const ElementSpan& span = xml.span_of(parent);
  XmlStyle style;
  const std::string_view inside = text.substr(span.begin, span.end - span.begin);
  const auto singles = inside.find("='");
  const auto doubles = inside.find("=\"");
  if (doubles < singles) style.quote = '"';

  const auto own = indentation_before(text, span.begin);
  std::optional<Indentation> child_indentation;
  bool has_child = false;
  for (const pugi::xml_node child : parent.children()) {
    if (child.type() != pugi::node_element) continue;
    has_child = true;
    if (auto found = indentation_before(text, xml.span_of(child).begin)) child_indentation = found;
  }
  style.outer = own ? own->indent : "";
  if (child_indentation) {
    style.newline = child_indentation->newline;
    style.indent = child_indentation->indent;
    const std::string_view indent = style.indent;
    const bool deeper = indent.size() > style.outer.size() && indent.starts_with(style.outer) &&
                        indent.size() - style.outer.size() <= kWidestUnit;
    style.unit = deeper                                   ? indent.substr(style.outer.size())
                 : indent.find('\t') != std::string::npos ? "\t"
                                                          : "  ";
  } else if (!has_child && own) {
    style.newline = own->newline;
    style.unit = own->indent.starts_with('\t') ? "\t" : "  ";
    style.indent = own->indent + style.unit;
  } else {
    style.newline = "";
  }
  return style;
}

std::string write_element(pugi::xml_node element, const XmlStyle& style, std::string_view indent) {
  std::string text = fmt::format("<{}", element.name());
  for (const pugi::xml_attribute attribute : element.attributes()) {
    text += fmt::format(" {}={}{}{}", attribute.name(), style.quote,
                        escape(attribute.value(), style.quote), style.quote);
  }
  if (!element.first_child()) return text + "/>";
  text += '>';
  if (!has_element_child(element))
    return text + escape(element_text(element), style.quote) + fmt::format("</{}>", element.name());
  const std::string deeper = std::string(indent) + style.unit;
  const bool lines = !style.newline.empty();
  for (const pugi::xml_node child : element.children()) {
    if (child.type() != pugi::node_element) continue;
    if (lines) text += style.newline + deeper;
    text += write_element(child, style, deeper);
  }
  if (lines) text.append(style.newline).append(indent);
  return text + fmt::format("</{}>", element.name());
}

}  // namespace vtrace
