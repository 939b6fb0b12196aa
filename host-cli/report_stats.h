// What `report` tells of a recording beside its events: counts, losses, damage. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host-cli/merged_reader.h"
#include "host-cli/trace_input.h"

namespace vtrace {

// A table, one line a CPU and one for all.
[[nodiscard]] std::string stats_table(const TraceInput& input, const std::vector<CpuTally>& cpus);
[[nodiscard]] nlohmann::ordered_json stats_json(const TraceInput& input,
                                                const std::vector<CpuTally>& cpus,
                                                const std::vector<DamagedPlace>& damage);

// Lines for the user about what is missing or wrong in the data; empty when all is well.
[[nodiscard]] std::vector<std::string> stats_warnings(const TraceInput& input,
                                                      const std::vector<CpuTally>& cpus,
                                                      const std::vector<DamagedPlace>& damage);

// Events are missing, by the data's own word or the kernel's.
[[nodiscard]] bool events_missing(const TraceInput& input, const std::vector<CpuTally>& cpus);

}  // namespace vtrace
