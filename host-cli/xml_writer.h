// Writes elements in the style of the text around them. Pure.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "host-cli/xml_text.h"

namespace vtrace {

struct XmlStyle {
  std::string newline = "\n";   // empty: all on one line
  std::string indent = "    ";  // before a child of the element that is written into
  std::string unit = "  ";      // one level more
  std::string outer = "  ";     // before the end tag of the element that is written into
  char quote = '\'';

  // What comes before a child: a line break and its indentation.
  [[nodiscard]] std::string separator() const { return newline.empty() ? "" : newline + indent; }
};

// The style of what is in `parent`: its children's line ends and indentation, its quotes. An empty
// element's is guessed from its own place.
[[nodiscard]] XmlStyle style_in(const XmlText& xml, pugi::xml_node parent);

// `element` without what comes before its '<' and behind its '>'. `indent` is before its end tag.
[[nodiscard]] std::string write_element(pugi::xml_node element, const XmlStyle& style,
                                        std::string_view indent);

}  // namespace vtrace
