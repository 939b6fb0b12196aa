// CPU lists in the kernel's notation, as in /sys/devices/system/cpu/online: "0,2-3\n".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace vtrace {

// CPU numbers, ascending, each once. Numbers, never positions: gaps stay gaps.
using CpuList = std::vector<int>;

// The largest CPU number that is believed; the kernel's own limit is 8192 on x86-64.
inline constexpr int kMaxCpuNumber = 8191;

// Takes a trailing newline and an empty list; refuses everything that is not a list.
[[nodiscard]] Result<CpuList> parse_cpu_list(std::string_view text);
// "0,2-3"; empty for an empty list.
[[nodiscard]] std::string format_cpu_list(const CpuList& cpus);

}  // namespace vtrace
