// What the decoder's parts share of libtraceevent. For the decoder alone.
#pragma once

#include <traceevent/event-parse.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host-cli/print_expr.h"
#include "host-cli/print_program.h"
#include "host-cli/record_check.h"

namespace vtrace::decoder {

// An event's fields as checked places; nothing when the format's own numbers are out of range.
[[nodiscard]] std::optional<std::vector<FieldPlace>> places_of(const tep_event& event);

// The expression, when all of it is of the kinds that PrintExpr has.
[[nodiscard]] std::optional<PrintExpr> compile_expr(tep_event& event, const tep_print_arg* arg);

// The event's print format, when PrintProgram has all of its parts.
[[nodiscard]] std::optional<PrintProgram> compile_print(tep_event& event);

// Where a print format reads by numbers out of the record itself, so that libtraceevent would
// follow a record's lie.
class PrintGuard {
 public:
  // Nothing when there is a part that cannot be checked: such a format is never used.
  [[nodiscard]] static std::optional<PrintGuard> create(tep_event& event);
  // What is wrong with the record, or nothing. The record has passed its RecordCheck.
  [[nodiscard]] std::optional<std::string> problem(std::span<const std::byte> payload) const;

 private:
  // `count` times `item` bytes are read from the field on.
  struct Range {
    FieldPlace field;
    PrintExpr count;
    PrintExpr item;
  };
  bool walk(tep_event& event, const tep_print_arg* arg, int depth);
  bool walk_op(tep_event& event, const tep_print_arg* arg, int depth);
  bool add_range(tep_event& event, const tep_print_arg* field, std::optional<PrintExpr> count,
                 std::optional<PrintExpr> item);
  [[nodiscard]] bool range_fits(const Range& range, std::span<const std::byte> payload) const;

  std::vector<Range> ranges_;
  std::vector<PrintExpr> divisors_;
};

}  // namespace vtrace::decoder
