#include "host-cli/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/units.h"

namespace vtrace {
namespace {

std::string problem_of(const CpuProgress& host, const CpuCounts* agent) {
  if (!host.begun) return "no data of this run came from the guest";
  if (agent != nullptr && !agent->error.empty())
    return fmt::format("the agent stopped recording: {}", agent->error);
  if (!host.ended) {
    return fmt::format("the end of the data did not come ({} received{})",
                       format_size(host.received_bytes),
                       agent != nullptr ? fmt::format(", {} sent", format_size(agent->bytes_sent))
                                        : std::string());
  }
  if (host.end_fence->bytes != host.received_bytes) {
    return fmt::format("{} bytes sent, {} received", host.end_fence->bytes, host.received_bytes);
  }
  if (agent != nullptr && agent->bytes_sent != host.received_bytes)
    return fmt::format("{} bytes sent, {} received", agent->bytes_sent, host.received_bytes);
  if (host.written_bytes != host.received_bytes)
    return fmt::format("{} bytes received, {} written", host.received_bytes, host.written_bytes);
  if (agent != nullptr && agent->entries != 0)
    return fmt::format("{} events were left in the guest's ring buffer", agent->entries);
  if (agent != nullptr && agent->bytes_discarded != 0)
    return fmt::format("the agent dropped {} bytes that it could not deliver",
                       agent->bytes_discarded);
  return {};
}

}  // namespace

CpuCounts* find_counts(std::vector<CpuCounts>& list, int cpu) {
  const auto found = std::ranges::find(list, static_cast<std::uint32_t>(cpu), &CpuCounts::cpu);
  return found == list.end() ? nullptr : &*found;
}

const CpuCounts* find_counts(const std::vector<CpuCounts>& list, int cpu) {
  const auto found = std::ranges::find(list, static_cast<std::uint32_t>(cpu), &CpuCounts::cpu);
  return found == list.end() ? nullptr : &*found;
}

std::vector<CpuLedger> make_ledger(const std::vector<CpuProgress>& host,
                                   const std::vector<CpuCounts>* agent) {
  std::vector<CpuLedger> ledger;
  for (const CpuProgress& progress : host) {
    CpuLedger entry;
    entry.cpu = progress.cpu;
    entry.host = progress;
    const CpuCounts* const counts = agent == nullptr ? nullptr : find_counts(*agent, progress.cpu);
    if (counts != nullptr) entry.agent = *counts;
    entry.problem = problem_of(progress, counts);
    ledger.push_back(std::move(entry));
  }
  return ledger;
}

}  // namespace vtrace
