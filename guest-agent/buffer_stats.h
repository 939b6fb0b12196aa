// The counts that the kernel keeps per CPU of a ring buffer: per_cpu/cpuN/stats. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/messages.h"
#include "common/result.h"

namespace vtrace {

// Events. All but `entries` count up from the buffer's creation or last reset.
struct BufferStats {
  std::uint64_t entries = 0;  // recorded, neither read nor overwritten
  std::uint64_t overrun = 0;  // overwritten before they were read
  std::uint64_t commit_overrun = 0;
  std::uint64_t dropped_events = 0;  // not recorded, the buffer being full and not overwriting
  std::uint64_t read_events = 0;

  bool operator==(const BufferStats&) const = default;
};

// Lines that are not known are passed over, missing ones read as 0; an error where there is no
// "entries" line at all.
[[nodiscard]] Result<BufferStats> parse_buffer_stats(std::string_view text);

// Fills the kernel's part of `counts` with what happened between two readings of the stats.
//
// What lies in the buffer at the start of a run is read by that run, as the kernel README has it,
// so it belongs to it: `entries` is what lies there now, the others are differences. Then
// recorded() = what lay there at the start + what was recorded since, and each of these events is
// one of read, overwritten or still there. For an instance that the agent made, nothing lies there
// at the start. A counter that went back was reset in between: it counts from that reset.
void count_kernel_events(const BufferStats& before, const BufferStats& now, CpuCounts& counts);

}  // namespace vtrace
