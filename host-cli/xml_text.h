// An XML text with its tree: what the elements say (pugixml) and where they are (xml_scanner.h), so
// that the text can be changed in some places and kept, byte for byte, in all others.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "common/result.h"
#include "host-cli/xml_scanner.h"

namespace vtrace {

class XmlText {
 public:
  // `shown` (a path, or "standard input") starts every error.
  [[nodiscard]] static Result<XmlText> parse(std::string text, std::string shown);

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] pugi::xml_node root() const { return document_->document_element(); }
  // Where an element of this text's tree is.
  [[nodiscard]] const ElementSpan& span_of(pugi::xml_node element) const;
  // An error about the element: "SHOWN: line L, column C: WHAT".
  [[nodiscard]] std::unexpected<Error> error_at(pugi::xml_node element,
                                                std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> error(std::string_view what) const;

 private:
  XmlText() = default;

  std::string text_;
  std::string shown_;
  ElementSpans spans_;
  std::unique_ptr<pugi::xml_document> document_;
  std::size_t skipped_ = 0;  // bytes before what pugixml was given
};

// All text in an element, comments and blanks at both ends left out.
[[nodiscard]] std::string element_text(pugi::xml_node element);

}  // namespace vtrace
