#include "common/subbuffer.h"

#include <fmt/format.h>

#include <charconv>

#include "common/wire.h"

namespace vtrace {
namespace {

constexpr std::uint32_t kLostFlag = 1U << 31U;
constexpr std::uint32_t kLostCountStoredFlag = 1U << 30U;
// Bits 27 to 29 are neither length nor a flag that a kernel sets today.
constexpr std::uint32_t kLengthMask = (1U << 27U) - 1;

struct Field {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

std::optional<std::uint32_t> number_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + key.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end == line.data()) return std::nullopt;
  return number;
}

// The last word before the first ';' of "\tfield: u64 timestamp;\toffset:0;\tsize:8;..." is the
// name.
std::string_view field_name(std::string_view line) {
  const std::size_t start = line.find("field:");
  const std::size_t end = line.find(';');
  if (start == std::string_view::npos || end == std::string_view::npos || end < start) return {};
  std::string_view declaration = line.substr(start, end - start);
  const std::size_t space = declaration.find_last_of(" \t*");
  return space == std::string_view::npos ? std::string_view{} : declaration.substr(space + 1);
}

std::optional<Field> find_field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (field_name(line) != name) continue;
    const auto offset = number_after(line, "offset:");
    const auto size = number_after(line, "size:");
    if (offset && size) return Field{*offset, *size};
  }
  return std::nullopt;
}

}  // namespace

Result<SubbufLayout> parse_header_page(std::string_view text) {
  const auto timestamp = find_field(text, "timestamp");
  const auto commit = find_field(text, "commit");
  const auto data = find_field(text, "data");
  if (!timestamp || !commit || !data) {
    return fail(
        "header_page: no timestamp, commit or data field in it; without them the layout of "
        "a sub-buffer is unknown");
  }
  SubbufLayout layout;
  layout.timestamp_offset = timestamp->offset;
  layout.commit_offset = commit->offset;
  layout.commit_size = commit->size;
  layout.data_offset = data->offset;
  layout.data_size = data->size;
  // Each number is bounded before any sum is made of it: the text comes from another machine.
  const auto before_data = [&](const Field& field) {
    return field.offset <= data->offset && field.size <= data->offset - field.offset;
  };
  const bool sane = timestamp->size == 8 && (commit->size == 8 || commit->size == 4) &&
                    data->size >= kMinSubbufData && data->size <= kMaxSubbufSize &&
                    data->offset <= 4096 && before_data(*timestamp) && before_data(*commit) &&
                    (timestamp->offset + 8 <= commit->offset ||
                     commit->offset + commit->size <= timestamp->offset) &&
                    layout.size() <= kMaxSubbufSize && layout.size() % 8 == 0;
  if (!sane) {
    return fail(
        fmt::format("header_page: fields out of range (commit {} bytes at {}, data {} bytes "
                    "at {})",
                    commit->size, commit->offset, data->size, data->offset));
  }
  return layout;
}

Result<SubbufHeader> read_subbuf_header(const SubbufLayout& layout,
                                        std::span<const std::byte> subbuf) {
  if (subbuf.size() < layout.size())
    return fail(fmt::format("sub-buffer cut off: {} of {} bytes", subbuf.size(), layout.size()));
  const std::uint32_t commit = load_u32(subbuf.subspan(layout.commit_offset));
  SubbufHeader header;
  header.timestamp = load_u64(subbuf.subspan(layout.timestamp_offset));
  header.data_bytes = commit & kLengthMask;
  header.events_lost = (commit & kLostFlag) != 0;
  if (header.data_bytes > layout.data_size) {
    return fail(fmt::format("sub-buffer says {} bytes of data, it has room for {}",
                            header.data_bytes, layout.data_size));
  }
  if (header.events_lost && (commit & kLostCountStoredFlag) != 0 &&
      header.data_bytes + layout.commit_size <= layout.data_size) {
    const auto behind = subbuf.subspan(layout.data_offset + header.data_bytes);
    header.lost_events = layout.commit_size == 8 ? load_u64(behind) : load_u32(behind);
  }
  return header;
}

}  // namespace vtrace
