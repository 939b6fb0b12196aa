#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "common/wire.h"
#include "host-cli/event_decoder_tep.h"

namespace vtrace::decoder {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxNodes = 4096;
// The kernel's events are below 64 KiB.
constexpr int kMaxFieldEnd = 1 << 16;

using Kind = ExprNode::Kind;

FieldPlace place_of(const tep_format_field& field) {
  return {.name = field.name == nullptr ? "" : field.name,
          .offset = static_cast<std::uint32_t>(field.offset),
          .size = static_cast<std::uint32_t>(field.size),
          .array = (field.flags & TEP_FIELD_IS_ARRAY) != 0,
          .dynamic = (field.flags & TEP_FIELD_IS_DYNAMIC) != 0,
          .relative = (field.flags & TEP_FIELD_IS_RELATIVE) != 0};
}

bool in_range(const tep_format_field& field) {
  return field.offset >= 0 && field.size >= 0 && field.offset <= kMaxFieldEnd &&
         field.size <= kMaxFieldEnd;
}

const tep_format_field* find_field(tep_event& event, const char* name) {
  return name == nullptr ? nullptr : tep_find_any_field(&event, name);
}

// Bytes that a cast leaves of a value, 8 for all: libtraceevent cuts to the narrow types, signed
// ones too, and lets all others be.
std::uint8_t cast_size(std::string_view type) {
  while (!type.empty() && type.back() == ' ') type.remove_suffix(1);
  if (type.starts_with("unsigned ")) type.remove_prefix(std::string_view("unsigned ").size());
  if (type == "u8" || type == "s8" || type == "char") return 1;
  if (type == "u16" || type == "s16" || type == "short") return 2;
  if (type == "u32" || type == "s32" || type == "int") return 4;
  return 8;
}

std::optional<Kind> binary_kind(std::string_view op) {
  static constexpr std::pair<std::string_view, Kind> kOps[] = {
      {"+", Kind::add},          {"-", Kind::subtract},
      {"*", Kind::multiply},     {"/", Kind::divide},
      {"%", Kind::remainder},    {"<<", Kind::shift_left},
      {">>", Kind::shift_right}, {"&", Kind::bit_and},
      {"|", Kind::bit_or},       {"^", Kind::bit_xor},
      {"==", Kind::equal},       {"!=", Kind::unequal},
      {"<", Kind::less},         {"<=", Kind::less_equal},
      {">", Kind::greater},      {">=", Kind::greater_equal},
      {"&&", Kind::logical_and}, {"||", Kind::logical_or}};
  for (const auto& [name, kind] : kOps) {
    if (name == op) return kind;
  }
  return std::nullopt;
}

class Compiler {
 public:
  explicit Compiler(tep_event& event) : event_(event) {}

  std::optional<std::uint16_t> compile(const tep_print_arg* arg, int depth) {
    if (arg == nullptr || depth > kMaxDepth || expr_.size() > kMaxNodes) return std::nullopt;
    switch (arg->type) {
      case TEP_PRINT_ATOM:
        return constant(arg->atom.atom);
      case TEP_PRINT_FIELD:
        return field(arg->field.name);
      case TEP_PRINT_DYNAMIC_ARRAY_LEN:
        return dynamic_length(arg->dynarray.field);
      case TEP_PRINT_TYPE:
        return cast(arg, depth);
      case TEP_PRINT_OP:
        return operation(arg, depth);
      default:
        return std::nullopt;
    }
  }
  PrintExpr take() { return std::move(expr_); }

 private:
  std::optional<std::uint16_t> constant(const char* text) {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text, &end, 0);
    if (end == text) return std::nullopt;
    return expr_.add({.kind = Kind::constant, .value = value});
  }

  std::optional<std::uint16_t> field(const char* name) {
    const tep_format_field* const found = find_field(event_, name);
    if (found == nullptr || !in_range(*found) || found->size > 8 || found->size == 0)
      return std::nullopt;
    if ((found->flags & (TEP_FIELD_IS_ARRAY | TEP_FIELD_IS_DYNAMIC)) != 0) return std::nullopt;
    return expr_.add({.kind = Kind::field,
                      .size = static_cast<std::uint8_t>(found->size),
                      .offset = static_cast<std::uint32_t>(found->offset)});
  }

  std::optional<std::uint16_t> dynamic_length(const tep_format_field* found) {
    if (found == nullptr || !in_range(*found)) return std::nullopt;
    return expr_.add(
        {.kind = Kind::dynamic_length, .offset = static_cast<std::uint32_t>(found->offset)});
  }

  std::optional<std::uint16_t> cast(const tep_print_arg* arg, int depth) {
    const auto operand = compile(arg->typecast.item, depth + 1);
    if (!operand || arg->typecast.type == nullptr) return std::nullopt;
    const std::uint8_t size = cast_size(arg->typecast.type);
    if (size == 8) return operand;
    return expr_.add({.kind = Kind::cast, .size = size, .a = *operand});
  }

  std::optional<std::uint16_t> operation(const tep_print_arg* arg, int depth) {
    const std::string_view op = arg->op.op;
    if (op == "?") return choice(arg, depth);
    if (op == "[") return element(arg);
    const tep_print_arg* const left = arg->op.left;
    if (left == nullptr || left->type == TEP_PRINT_NULL) return unary(op, arg->op.right, depth);
    const auto kind = binary_kind(op);
    if (!kind) return std::nullopt;
    const auto a = compile(left, depth + 1);
    const auto b = a ? compile(arg->op.right, depth + 1) : std::nullopt;
    if (!a || !b) return std::nullopt;
    return expr_.add({.kind = *kind, .a = *a, .b = *b});
  }

  // An element of a fixed array, at an index that is a number.
  std::optional<std::uint16_t> element(const tep_print_arg* arg) {
    const tep_print_arg* left = arg->op.left;
    while (left != nullptr && left->type == TEP_PRINT_TYPE) left = left->typecast.item;
    const tep_print_arg* const index = arg->op.right;
    if (left == nullptr || left->type != TEP_PRINT_FIELD || index == nullptr ||
        index->type != TEP_PRINT_ATOM)
      return std::nullopt;
    const tep_format_field* const found = find_field(event_, left->field.name);
    if (found == nullptr || !in_range(*found) || (found->flags & TEP_FIELD_IS_DYNAMIC) != 0)
      return std::nullopt;
    const std::uint64_t at = std::strtoull(index->atom.atom, nullptr, 0);
    const unsigned size = found->elementsize;
    const bool whole = size == 1 || size == 2 || size == 4 || size == 8;
    if (!whole || at >= static_cast<std::uint64_t>(found->size) / size) return std::nullopt;
    return expr_.add({.kind = Kind::field,
                      .size = static_cast<std::uint8_t>(size),
                      .offset = static_cast<std::uint32_t>(found->offset + at * size)});
  }

  std::optional<std::uint16_t> unary(std::string_view op, const tep_print_arg* right, int depth) {
    const auto operand = compile(right, depth + 1);
    if (!operand) return std::nullopt;
    if (op == "-") return expr_.add({.kind = Kind::negate, .a = *operand});
    if (op == "~") return expr_.add({.kind = Kind::invert, .a = *operand});
    if (op == "!") return expr_.add({.kind = Kind::logical_not, .a = *operand});
    return std::nullopt;
  }

  std::optional<std::uint16_t> choice(const tep_print_arg* arg, int depth) {
    const tep_print_arg* const both = arg->op.right;
    if (both == nullptr || both->type != TEP_PRINT_OP) return std::nullopt;
    const auto a = compile(arg->op.left, depth + 1);
    const auto b = a ? compile(both->op.left, depth + 1) : std::nullopt;
    const auto c = b ? compile(both->op.right, depth + 1) : std::nullopt;
    if (!a || !b || !c) return std::nullopt;
    return expr_.add({.kind = Kind::choose, .a = *a, .b = *b, .c = *c});
  }

  tep_event& event_;
  PrintExpr expr_;
};

PrintExpr constant_expr(std::uint64_t value) {
  PrintExpr expr;
  expr.add({.kind = Kind::constant, .value = value});
  return expr;
}

bool is_constant(const PrintExpr& expr) {
  return expr.size() == 1 && expr.nodes()[0].kind == Kind::constant;
}

}  // namespace

std::optional<std::vector<FieldPlace>> places_of(const tep_event& event) {
  std::vector<FieldPlace> places;
  for (const tep_format_field* list : {event.format.common_fields, event.format.fields}) {
    for (const tep_format_field* field = list; field != nullptr; field = field->next) {
      if (!in_range(*field)) return std::nullopt;
      places.push_back(place_of(*field));
    }
  }
  return places;
}

std::optional<PrintExpr> compile_expr(tep_event& event, const tep_print_arg* arg) {
  Compiler compiler(event);
  if (!compiler.compile(arg, 0)) return std::nullopt;
  return compiler.take();
}

std::optional<PrintGuard> PrintGuard::create(tep_event& event) {
  PrintGuard guard;
  for (const tep_print_arg* arg = event.print_fmt.args; arg != nullptr; arg = arg->next) {
    if (!guard.walk(event, arg, 0)) return std::nullopt;
  }
  return guard;
}

bool PrintGuard::walk(tep_event& event, const tep_print_arg* arg, int depth) {
  if (arg == nullptr) return true;
  if (depth > kMaxDepth) return false;
  switch (arg->type) {
    case TEP_PRINT_OP:
      return walk_op(event, arg, depth);
    case TEP_PRINT_TYPE:
      return walk(event, arg->typecast.item, depth + 1);
    case TEP_PRINT_FLAGS:
      return walk(event, arg->flags.field, depth + 1);
    case TEP_PRINT_SYMBOL:
      return walk(event, arg->symbol.field, depth + 1);
    case TEP_PRINT_HEX:
    case TEP_PRINT_HEX_STR:
      return add_range(event, arg->hex.field, compile_expr(event, arg->hex.size), constant_expr(1));
    case TEP_PRINT_INT_ARRAY:
      return add_range(event, arg->int_array.field, compile_expr(event, arg->int_array.count),
                       compile_expr(event, arg->int_array.el_size));
    case TEP_PRINT_DYNAMIC_ARRAY: {
      if (arg->dynarray.index == nullptr || arg->dynarray.field == nullptr) return true;
      auto index = compile_expr(event, arg->dynarray.index);
      if (!index) return false;
      tep_print_arg field{};
      field.type = TEP_PRINT_DYNAMIC_ARRAY;
      field.dynarray.field = arg->dynarray.field;
      const auto item = std::max(arg->dynarray.field->elementsize, 1U);
      const std::uint16_t last = static_cast<std::uint16_t>(index->size() - 1);
      const std::uint16_t one = index->add({.kind = Kind::constant, .value = 1});
      index->add({.kind = Kind::add, .a = last, .b = one});
      return add_range(event, &field, std::move(index), constant_expr(item));
    }
    case TEP_PRINT_FUNC:
      for (const tep_print_arg* one = arg->func.args; one != nullptr; one = one->next) {
        if (!walk(event, one, depth + 1)) return false;
      }
      return true;
    default:
      return true;
  }
}

bool PrintGuard::walk_op(tep_event& event, const tep_print_arg* arg, int depth) {
  const std::string_view op = arg->op.op;
  if (op == "/" || op == "%") {
    auto divisor = compile_expr(event, arg->op.right);
    if (!divisor) return false;
    if (!is_constant(*divisor) || divisor->evaluate({}) == 0)
      divisors_.push_back(std::move(*divisor));
  }
  if (op == "[") {
    auto index = compile_expr(event, arg->op.right);
    const tep_print_arg* left = arg->op.left;
    while (left != nullptr && left->type == TEP_PRINT_TYPE) left = left->typecast.item;
    if (!index || left == nullptr) return false;
    const std::uint16_t last = static_cast<std::uint16_t>(index->size() - 1);
    const std::uint16_t one = index->add({.kind = Kind::constant, .value = 1});
    index->add({.kind = Kind::add, .a = last, .b = one});
    const tep_format_field* const field =
        left->type == TEP_PRINT_FIELD           ? find_field(event, left->field.name)
        : left->type == TEP_PRINT_DYNAMIC_ARRAY ? left->dynarray.field
                                                : nullptr;
    if (field == nullptr) return false;
    return add_range(event, left, std::move(index),
                     constant_expr(std::max(field->elementsize, 1U)));
  }
  return walk(event, arg->op.left, depth + 1) && walk(event, arg->op.right, depth + 1);
}

bool PrintGuard::add_range(tep_event& event, const tep_print_arg* field,
                           std::optional<PrintExpr> count, std::optional<PrintExpr> item) {
  if (field == nullptr || !count || !item) return false;
  const tep_format_field* found = nullptr;
  if (field->type == TEP_PRINT_FIELD) found = find_field(event, field->field.name);
  if (field->type == TEP_PRINT_DYNAMIC_ARRAY) found = field->dynarray.field;
  if (found == nullptr || !in_range(*found)) return false;
  ranges_.push_back({place_of(*found), std::move(*count), std::move(*item)});
  return true;
}

bool PrintGuard::range_fits(const Range& range, std::span<const std::byte> payload) const {
  const auto count = range.count.evaluate(payload);
  const auto item = range.item.evaluate(payload);
  if (!count || !item) return false;
  std::uint64_t start = range.field.offset;
  if (range.field.dynamic) {
    start = load_u32(payload.subspan(range.field.offset)) & 0xffffU;
    if (range.field.relative) start += range.field.offset + range.field.size;
  }
  // A fixed array may have been stored short: what is missing of it reads as zeros.
  const std::uint64_t end =
      std::max<std::uint64_t>(payload.size(), range.field.offset + range.field.size);
  if (start > end || *item > end || *count > end) return *count == 0;
  return *count * *item <= end - start;
}

std::optional<std::string> PrintGuard::problem(std::span<const std::byte> payload) const {
  for (const PrintExpr& divisor : divisors_) {
    if (divisor.evaluate(payload).value_or(0) == 0) return "its print format divides by zero";
  }
  for (const Range& range : ranges_) {
    if (!range_fits(range, payload))
      return "its print format reads " + range.field.name + " past the record";
  }
  return std::nullopt;
}

}  // namespace vtrace::decoder
