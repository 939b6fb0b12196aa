// What a trace.dat says about its time stamps: corrections that its options ask for, applied in the
// order in which the field's readers apply them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire.h"

namespace vtrace {

class TimeCorrection {
 public:
  // No correction.
  TimeCorrection() = default;
  // From a file's options (TIME_SHIFT, TSC2NSEC, OFFSET, DATE). Options that are cut short or
  // contradict themselves are left out.
  explicit TimeCorrection(std::span<const std::pair<std::uint16_t, Bytes>> options);

  [[nodiscard]] bool none() const { return shifts_.empty() && multiplier_ == 0 && offset_ns_ == 0; }
  // Time stamps come out in nanoseconds though the clock counts ticks.
  [[nodiscard]] bool makes_nanoseconds() const { return multiplier_ != 0; }
  [[nodiscard]] std::uint64_t apply(int cpu, std::uint64_t time) const;

 private:
  struct Sample {
    std::int64_t time = 0;  // in the file's own clock
    std::int64_t offset = 0;
    std::int64_t scaling = 1;
    std::int64_t fraction = 0;  // bits of `scaling` behind the point
  };
  void read_shift(std::span<const std::byte> payload);
  [[nodiscard]] std::uint64_t shift(const std::vector<Sample>& samples, std::uint64_t time) const;

  std::vector<std::vector<Sample>> shifts_;  // by CPU, ascending in time
  bool interpolate_ = false;
  std::uint32_t multiplier_ = 0;
  std::uint32_t tick_shift_ = 0;
  std::int64_t offset_ns_ = 0;
};

// Clocks whose time stamps are nanoseconds; all others count something else.
[[nodiscard]] bool clock_counts_nanoseconds(std::string_view clock);

// "mono" of "local global [mono] boot"; "local" where none is marked.
[[nodiscard]] std::string_view current_clock(std::string_view clocks);

}  // namespace vtrace
