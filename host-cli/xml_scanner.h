// Where the elements of an XML text are, byte by byte, and whether the text is well-formed. Pure.
//
// A parser that builds a tree (pugixml) tells where an element starts, not where it ends, and lets
// much pass that libvirt refuses. This one keeps to "Extensible Markup Language 1.0" (W3C), in the
// part that a document without a DOCTYPE needs; a DOCTYPE is refused, so that no entity is ever
// expanded or fetched.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "common/result.h"

namespace vtrace {

// Byte offsets into the text.
struct ElementSpan {
  std::size_t begin = 0;          // its '<'
  std::size_t start_tag_end = 0;  // just behind the '>' of the start tag
  std::size_t content_end = 0;    // the '<' of the end tag; start_tag_end when there is none
  std::size_t end = 0;            // just behind the element
  bool self_closing = false;      // <name/>
};

// Keyed by the offset of the element's name, which is where pugixml says that a node is.
using ElementSpans = std::map<std::size_t, ElementSpan>;

// Checks a whole document in UTF-8 (with or without a byte order mark) or in a declared encoding
// that has ASCII in its lower half. Errors start with "line L, column C: ".
[[nodiscard]] Result<ElementSpans> scan_xml(std::string_view text);

// "line L, column C", both from 1; columns count characters of UTF-8.
[[nodiscard]] std::string text_position(std::string_view text, std::size_t offset);

// The bytes of the byte order mark that `text` starts with: 0 or 3.
[[nodiscard]] std::size_t byte_order_mark_size(std::string_view text);

// Whether `text` is UTF-8 throughout: shortest forms only, no surrogates.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace vtrace
