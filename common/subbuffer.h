// The ftrace sub-buffer ("page" in older words): a header, then event data. Pure.
// Source of the format: the text of the traced kernel's events/header_page, which tells each
// field's offset and size. Neither side's page size plays a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/result.h"

namespace vtrace {

struct SubbufLayout {
  std::uint32_t timestamp_offset = 0;  // u64, ring-buffer time of the first event
  std::uint32_t commit_offset = 8;
  std::uint32_t commit_size = 8;  // 8, or 4 from a 32-bit kernel
  std::uint32_t data_offset = 16;
  std::uint32_t data_size = 4080;

  [[nodiscard]] std::uint32_t size() const { return data_offset + data_size; }
  bool operator==(const SubbufLayout&) const = default;
};

// The largest sub-buffer that is believed: the kernel's own limit is 64 pages of at most 64 KiB.
inline constexpr std::uint32_t kMaxSubbufSize = 4U << 20U;

// The smallest data area that is believed; a fence fits it (common/fence.h).
inline constexpr std::uint32_t kMinSubbufData = 64;

// Layout from the text of events/header_page of the instance that is read.
[[nodiscard]] Result<SubbufLayout> parse_header_page(std::string_view text);

struct SubbufHeader {
  std::uint64_t timestamp = 0;
  std::uint32_t data_bytes = 0;  // event data that follows the header; within the sub-buffer
  bool events_lost = false;      // events were lost before this sub-buffer
  std::optional<std::uint64_t> lost_events;  // how many, where the kernel says so
};

// Reads the header of one whole sub-buffer (`subbuf.size() == layout.size()`), little-endian.
// The commit word's flags (bit 31: events lost, bit 30: their number is stored behind the data) are
// masked off; new kernels sign-extend them, which is masked off too. An error means damage: the
// length runs past the end.
[[nodiscard]] Result<SubbufHeader> read_subbuf_header(const SubbufLayout& layout,
                                                      std::span<const std::byte> subbuf);

}  // namespace vtrace
