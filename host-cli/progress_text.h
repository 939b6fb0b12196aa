// What a long command tells while it works: one line that is drawn over at a terminal, a line a
// second elsewhere. Pure: text out of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "host-cli/collector.h"

namespace vtrace {

class ProgressText {
 public:
  // The line for now, without newline: time, rate since the last call, bytes, events lost. With
  // `width` > 0 also each CPU's FIFO fill, as far as it fits into that many columns.
  [[nodiscard]] std::string line(double seconds, const std::vector<CpuProgress>& cpus,
                                 std::size_t width);

 private:
  double last_seconds_ = 0;
  std::uint64_t last_bytes_ = 0;
};

// "0:▁ 1:█": how full each CPU's FIFO is, as many CPUs as fit.
[[nodiscard]] std::string fill_bars(const std::vector<CpuProgress>& cpus, std::size_t width);

}  // namespace vtrace
