// From libtraceevent's parse of a print format to a PrintProgram.
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "host-cli/event_decoder_tep.h"

namespace vtrace::decoder {
namespace {

using Kind = PrintPiece::Kind;

// The text of "%-08llx", taken apart.
struct Conversion {
  NumberFormat format;
  int length = 0;  // h: below 0, l: above
  char letter = 0;
  char pointer_kind = 0;  // what stands behind a p
  bool plain = true;      // no flags and no width
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  char take() { return at_end() ? '\0' : text_[at_++]; }

  // Behind a '%'. Nothing for what PrintProgram does not have.
  std::optional<Conversion> conversion() {
    Conversion found;
    read_flags(found);
    while (std::isdigit(static_cast<unsigned char>(peek())) != 0) {
      constexpr std::uint32_t kMaxWidth = 1000;
      found.format.width = found.format.width * 10 + static_cast<std::uint32_t>(take() - '0');
      if (found.format.width > kMaxWidth) return std::nullopt;
      found.plain = false;
    }
    read_length(found);
    found.letter = take();
    if (found.letter == 'p' && std::isalnum(static_cast<unsigned char>(peek())) != 0)
      found.pointer_kind = take();
    return finish(found) ? std::optional(found) : std::nullopt;
  }

 private:
  void read_flags(Conversion& found) {
    for (;; take()) {
      if (peek() == '-')
        found.format.left = true;
      else if (peek() == '0')
        found.format.zeros = true;
      else if (peek() == '#')
        found.format.alternate = true;
      else
        return;
      found.plain = false;
    }
  }

  void read_length(Conversion& found) {
    for (;; take()) {
      if (peek() == 'l')
        ++found.length;
      else if (peek() == 'h')
        --found.length;
      else if (peek() == 'L')
        found.length = 2;
      else if (peek() == 'z' || peek() == 'Z' || peek() == 'j')
        found.length = 1;
      else
        return;
    }
  }

  static bool finish(Conversion& found) {
    if (found.length < -2 || found.length > 2) return false;
    constexpr std::uint8_t kBytes[] = {1, 2, 4, 8, 8};
    found.format.bytes = kBytes[found.length + 2];
    found.format.conversion = found.letter == 'i' ? 'd' : found.letter;
    return std::string_view("diuxXosp").find(found.letter) != std::string_view::npos;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

char unescaped(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    default:
      return letter;
  }
}

// The value of a name in a table of flags or symbols; nothing for names of its own kind.
std::optional<std::uint64_t> flag_value(const char* text) {
  if (text == nullptr) return std::nullopt;
  const char* const digits = text[0] == '-' ? text + 1 : text;
  if (std::isdigit(static_cast<unsigned char>(digits[0])) == 0) return std::nullopt;
  if (digits != text) return std::nullopt;
  return std::strtoull(text, nullptr, 0);
}

bool take_names(const tep_print_flag_sym* list, PrintPiece& piece) {
  for (; list != nullptr; list = list->next) {
    const auto value = flag_value(list->value);
    if (!value) return false;
    piece.names.emplace_back(*value, list->str == nullptr ? "" : list->str);
  }
  return true;
}

bool take_expr(tep_event& event, const tep_print_arg* arg, PrintPiece& piece) {
  auto expr = compile_expr(event, arg);
  if (expr) piece.expr = std::move(*expr);
  return expr.has_value();
}

bool take_fixed_string(tep_event& event, const char* name, PrintPiece& piece) {
  const tep_format_field* const field = tep_find_any_field(&event, name);
  if (field == nullptr || field->offset < 0 || field->size < 0) return false;
  if ((field->flags & TEP_FIELD_IS_ARRAY) == 0 || (field->flags & TEP_FIELD_IS_DYNAMIC) != 0)
    return false;
  piece.kind = Kind::fixed_string;
  piece.offset = static_cast<std::uint32_t>(field->offset);
  piece.size = static_cast<std::uint32_t>(field->size);
  return true;
}

bool take_dynamic_string(tep_event& event, const char* name, PrintPiece& piece) {
  const tep_format_field* const field = tep_find_any_field(&event, name);
  if (field == nullptr || field->offset < 0 || field->size != 4) return false;
  if ((field->flags & TEP_FIELD_IS_DYNAMIC) == 0) return false;
  piece.kind = Kind::dynamic_string;
  piece.offset = static_cast<std::uint32_t>(field->offset);
  piece.relative = (field->flags & TEP_FIELD_IS_RELATIVE) != 0;
  return true;
}

bool take_string(tep_event& event, const tep_print_arg* arg, PrintPiece& piece) {
  switch (arg->type) {
    case TEP_PRINT_FIELD:
      return take_fixed_string(event, arg->field.name, piece);
    case TEP_PRINT_STRING:
      return take_dynamic_string(event, arg->string.string, piece);
    case TEP_PRINT_FLAGS:
      piece.kind = Kind::flags;
      piece.text = arg->flags.delim == nullptr ? "" : arg->flags.delim;
      return take_names(arg->flags.flags, piece) && take_expr(event, arg->flags.field, piece);
    case TEP_PRINT_SYMBOL:
      piece.kind = Kind::symbol;
      return take_names(arg->symbol.symbols, piece) && take_expr(event, arg->symbol.field, piece);
    default:
      return false;
  }
}

bool take_argument(tep_event& event, const Conversion& conversion, const tep_print_arg* arg,
                   PrintPiece& piece) {
  if (conversion.letter == 's') return conversion.plain && take_string(event, arg, piece);
  if (conversion.letter == 'p') {
    if (!conversion.plain || conversion.length != 0) return false;
    if (conversion.pointer_kind == '\0') {
      piece.kind = Kind::pointer;
      return take_expr(event, arg, piece);
    }
    piece.kind = Kind::function;
    piece.with_offset = conversion.pointer_kind == 'S' || conversion.pointer_kind == 'F';
    return std::string_view("sSfF").find(conversion.pointer_kind) != std::string_view::npos &&
           take_expr(event, arg, piece);
  }
  piece.kind = Kind::number;
  piece.format = conversion.format;
  return take_expr(event, arg, piece);
}

}  // namespace

std::optional<PrintProgram> compile_print(tep_event& event) {
  if (event.print_fmt.format == nullptr) return std::nullopt;
  PrintProgram program;
  const tep_print_arg* arg = event.print_fmt.args;
  Reader in(event.print_fmt.format);
  while (!in.at_end()) {
    PrintPiece piece;
    const char next = in.take();
    if (next == '\\') {
      piece.text = unescaped(in.take());
    } else if (next != '%') {
      piece.text = next;
    } else if (in.peek() == '%') {
      piece.text = in.take();
    } else {
      const auto conversion = in.conversion();
      if (!conversion || arg == nullptr || !take_argument(event, *conversion, arg, piece))
        return std::nullopt;
      arg = arg->next;
    }
    program.add(std::move(piece));
  }
  return program;
}

}  // namespace vtrace::decoder
