// A print format, made ready for printing many records fast. Pure.
// It gives the text that libtraceevent gives for the same format and record; where it cannot, it
// says so and the caller lets libtraceevent print.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host-cli/print_expr.h"

namespace vtrace {

// A printf conversion of an integer.
struct NumberFormat {
  char conversion = 'd';  // d u x X o
  bool left = false;
  bool zeros = false;
  bool alternate = false;
  std::uint32_t width = 0;
  std::uint8_t bytes = 4;  // of the type that the length modifier names
};

void append_number(std::string& out, const NumberFormat& format, std::uint64_t value);
void append_decimal(std::string& out, std::uint64_t value);
// Lower-case digits without a prefix.
void append_hexadecimal(std::string& out, std::uint64_t value);

struct PrintPiece {
  enum class Kind : std::uint8_t {
    literal,
    number,
    fixed_string,    // `size` bytes at `offset`, or up to a NUL; size 0: up to the record's end
    dynamic_string,  // where the __data_loc word at `offset` says, up to a NUL
    flags,           // names of the bits of `expr`
    symbol,          // name of the value of `expr`
    pointer,         // `expr` as 0x1f
    function,        // name of the function at the address `expr`, else that address
  };
  Kind kind = Kind::literal;
  bool relative = false;     // dynamic_string: the place counts from the word's end
  bool with_offset = false;  // function: with the distance from its start
  NumberFormat format;
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  std::string text;  // literal, or what stands between flags
  PrintExpr expr;
  std::vector<std::pair<std::uint64_t, std::string>> names;
};

// Name and start of the function that an address is in; an empty name where it is not known.
using FindFunction = std::function<std::pair<std::string_view, std::uint64_t>(std::uint64_t)>;

class PrintProgram {
 public:
  void add(PrintPiece piece);
  // Appends the record's text; false, and nothing appended, where it has to be done otherwise.
  [[nodiscard]] bool run(std::span<const std::byte> payload, const FindFunction& find_function,
                         std::string& out) const;
  [[nodiscard]] bool empty() const { return pieces_.empty(); }

 private:
  std::vector<PrintPiece> pieces_;
};

}  // namespace vtrace
