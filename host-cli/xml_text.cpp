#include "host-cli/xml_text.h"

#include <fmt/format.h>

namespace vtrace {

Result<XmlText> XmlText::parse(std::string text, std::string shown) {
  XmlText result;
  result.text_ = std::move(text);
  result.shown_ = std::move(shown);
  auto spans = scan_xml(result.text_);
  if (!spans) return add_context(std::move(spans.error()), result.shown_);
  result.spans_ = std::move(*spans);
  result.skipped_ = byte_order_mark_size(result.text_);
  result.document_ = std::make_unique<pugi::xml_document>();
  // As UTF-8 whatever is declared: a conversion would move the offsets.
  const pugi::xml_parse_result parsed = result.document_->load_buffer(
      result.text_.data() + result.skipped_, result.text_.size() - result.skipped_,
      pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    const auto offset = static_cast<std::size_t>(parsed.offset) + result.skipped_;
    return result.error(
        fmt::format("{}: {}", text_position(result.text_, offset), parsed.description()));
  }
  return result;
}

const ElementSpan& XmlText::span_of(pugi::xml_node element) const {
  return spans_.at(static_cast<std::size_t>(element.offset_debug()) + skipped_);
}

std::unexpected<Error> XmlText::error_at(pugi::xml_node element, std::string_view what) const {
  return error(fmt::format("{}: {}", text_position(text_, span_of(element).begin), what));
}

std::unexpected<Error> XmlText::error(std::string_view what) const {
  return fail(fmt::format("{}: {}", shown_, what));
}

std::string element_text(pugi::xml_node element) {
  std::string text;
  for (const pugi::xml_node child : element.children()) {
    if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata)
      text += child.value();
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace vtrace
