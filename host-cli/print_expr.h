// Arithmetic on a record's fields, as print formats do it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vtrace {

// One node of an expression; its operands are indexes of nodes that come earlier in the same
// PrintExpr, so that evaluation needs no recursion.
struct ExprNode {
  enum class Kind : std::uint8_t {
    constant,
    field,           // `size` bytes at `offset`, zero-extended
    dynamic_length,  // length half of the __data_loc word at `offset`
    cast,            // operand a, cut to `size` bytes, sign-extended where is_signed
    negate,          // -a
    invert,          // ~a
    logical_not,     // !a
    choose,          // a ? b : c
    add,
    subtract,
    multiply,
    divide,
    remainder,
    shift_left,
    shift_right,
    bit_and,
    bit_or,
    bit_xor,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
  };
  Kind kind = Kind::constant;
  std::uint8_t size = 0;
  bool is_signed = false;
  std::uint16_t a = 0, b = 0, c = 0;
  std::uint32_t offset = 0;
  std::uint64_t value = 0;
};

class PrintExpr {
 public:
  // Index of the new node, for those that follow. At most 65536 nodes.
  std::uint16_t add(const ExprNode& node);
  // The value of the last node; nothing where a division by zero or a field outside of the record
  // comes up.
  [[nodiscard]] std::optional<std::uint64_t> evaluate(std::span<const std::byte> payload) const;
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] const std::vector<ExprNode>& nodes() const { return nodes_; }

 private:
  std::vector<ExprNode> nodes_;
};

}  // namespace vtrace
