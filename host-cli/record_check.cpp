#include "host-cli/record_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/wire.h"

namespace vtrace {

RecordCheck::RecordCheck(std::vector<FieldPlace> fields) : fields_(std::move(fields)) {
  for (const FieldPlace& field : fields_) {
    const std::uint32_t end = field.offset + field.size;
    reach_ = std::max(reach_, end);
    // The last field may be an array of which only the used part was stored (kernel_stack).
    const bool may_be_short = field.array && !field.dynamic && &field == &fields_.back();
    least_ = std::max(least_, may_be_short ? field.offset : end);
    if (field.dynamic && field.size >= sizeof(std::uint32_t)) dynamic_.push_back(field);
  }
}

std::optional<std::string> RecordCheck::problem(std::span<const std::byte> payload) const {
  if (payload.size() < least_)
    return fmt::format("{} bytes where its fields need {}", payload.size(), least_);
  for (const FieldPlace& field : dynamic_) {
    const std::uint32_t location = load_u32(payload.subspan(field.offset));
    std::uint64_t offset = location & 0xffffU;
    const std::uint64_t length = location >> 16U;
    if (field.relative) offset += field.offset + field.size;
    if (offset + length > payload.size()) {
      return fmt::format("{} lies at {} to {}, the record has {} bytes", field.name, offset,
                         offset + length, payload.size());
    }
  }
  return std::nullopt;
}

}  // namespace vtrace
