#include "host-cli/print_expr.h"

#include <array>

#include "common/wire.h"

namespace vtrace {
namespace {

using Kind = ExprNode::Kind;
using Value = std::optional<std::uint64_t>;

std::int64_t as_signed(std::uint64_t value) {
  return static_cast<std::int64_t>(value);
}

std::uint64_t cut(std::uint64_t value, std::uint8_t size, bool is_signed) {
  if (size >= sizeof value) return value;
  const unsigned spare = 64U - 8U * size;
  const std::uint64_t high = value << spare;
  return is_signed ? static_cast<std::uint64_t>(as_signed(high) >> spare) : high >> spare;
}

Value load(const ExprNode& node, std::span<const std::byte> payload, std::size_t size) {
  if (std::uint64_t{node.offset} + size > payload.size()) return std::nullopt;
  return load_le(payload.subspan(node.offset), size);
}

// Of a count above the width the low bits count, as in the machine's own shifts.
Value shift(std::uint64_t a, std::uint64_t b, bool left) {
  constexpr std::uint64_t kCountBits = 63;
  return left ? a << (b & kCountBits) : a >> (b & kCountBits);
}

Value binary(Kind kind, std::uint64_t a, std::uint64_t b) {
  switch (kind) {
    case Kind::add:
      return a + b;
    case Kind::subtract:
      return a - b;
    case Kind::multiply:
      return a * b;
    case Kind::divide:
      return b == 0 ? std::nullopt : Value(a / b);
    case Kind::remainder:
      return b == 0 ? std::nullopt : Value(a % b);
    case Kind::shift_left:
      return shift(a, b, true);
    case Kind::shift_right:
      return shift(a, b, false);
    case Kind::bit_and:
      return a & b;
    case Kind::bit_or:
      return a | b;
    case Kind::bit_xor:
      return a ^ b;
    case Kind::equal:
      return a == b ? 1 : 0;
    case Kind::unequal:
      return a != b ? 1 : 0;
    case Kind::less:
      return a < b ? 1 : 0;
    case Kind::less_equal:
      return a <= b ? 1 : 0;
    case Kind::greater:
      return a > b ? 1 : 0;
    case Kind::greater_equal:
      return a >= b ? 1 : 0;
    case Kind::logical_and:
      return a != 0 && b != 0 ? 1 : 0;
    case Kind::logical_or:
      return a != 0 || b != 0 ? 1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::uint16_t PrintExpr::add(const ExprNode& node) {
  nodes_.push_back(node);
  return static_cast<std::uint16_t>(nodes_.size() - 1);
}

std::optional<std::uint64_t> PrintExpr::evaluate(std::span<const std::byte> payload) const {
  if (nodes_.empty()) return std::nullopt;
  // The common sizes do without an allocation.
  std::array<Value, 16> few;
  std::vector<Value> many;
  if (nodes_.size() > few.size()) many.resize(nodes_.size());
  Value* const values = nodes_.size() > few.size() ? many.data() : few.data();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const ExprNode& node = nodes_[i];
    const Value a = i == 0 ? Value(0) : values[node.a];
    switch (node.kind) {
      case Kind::constant:
        values[i] = node.value;
        break;
      case Kind::field:
        values[i] = load(node, payload, node.size);
        break;
      case Kind::dynamic_length: {
        const Value word = load(node, payload, sizeof(std::uint32_t));
        values[i] = word ? Value(*word >> 16U) : word;
        break;
      }
      case Kind::cast:
        values[i] = a ? Value(cut(*a, node.size, node.is_signed)) : a;
        break;
      case Kind::negate:
        values[i] = a ? Value(0 - *a) : a;
        break;
      case Kind::invert:
        values[i] = a ? Value(~*a) : a;
        break;
      case Kind::logical_not:
        values[i] = a ? Value(*a == 0 ? 1 : 0) : a;
        break;
      case Kind::choose:
        values[i] = !a ? a : *a != 0 ? values[node.b] : values[node.c];
        break;
      default: {
        const Value b = values[node.b];
        values[i] = a && b ? binary(node.kind, *a, *b) : std::nullopt;
      }
    }
  }
  return values[nodes_.size() - 1];
}

}  // namespace vtrace
