// Holds what the agent counted beside what the host received, CPU by CPU. Pure.
#pragma once

#include <vector>

#include "common/messages.h"
#include "host-cli/collector.h"
#include "host-cli/record_session.h"

namespace vtrace {

// The counts of one CPU in a list; nullptr when it is not there.
[[nodiscard]] CpuCounts* find_counts(std::vector<CpuCounts>& list, int cpu);
[[nodiscard]] const CpuCounts* find_counts(const std::vector<CpuCounts>& list, int cpu);

// One entry a CPU, in the order of `host`. `agent` is nullptr when the agent is gone.
[[nodiscard]] std::vector<CpuLedger> make_ledger(const std::vector<CpuProgress>& host,
                                                 const std::vector<CpuCounts>* agent);

}  // namespace vtrace
