// Per-CPU counts as tables and as JSON. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/messages.h"
#include "host-cli/record_session.h"

namespace vtrace {

// What the agent counts: a table with a heading, a CPU a line, and the totals.
[[nodiscard]] std::string counts_table(const std::vector<CpuCounts>& cpus);
[[nodiscard]] nlohmann::json counts_json(const std::vector<CpuCounts>& cpus);

// What became of a recording, CPU by CPU.
[[nodiscard]] std::string ledger_table(const std::vector<CpuLedger>& cpus);
[[nodiscard]] nlohmann::json summary_json(const RecordSummary& summary);

}  // namespace vtrace
