#include "host-cli/counts_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/units.h"

namespace vtrace {
namespace {

using nlohmann::json;

json counts_entry(const CpuCounts& cpu) {
  json entry = {{"cpu", cpu.cpu},
                {"events_recorded", cpu.recorded()},
                {"events_read", cpu.read_events},
                {"events_in_ring_buffer", cpu.entries},
                {"overrun", cpu.overrun},
                {"commit_overrun", cpu.commit_overrun},
                {"dropped_events", cpu.dropped_events},
                {"events_lost", cpu.lost()},
                {"bytes_sent", cpu.bytes_sent},
                {"subbufs_sent", cpu.subbufs_sent},
                {"bytes_pending", cpu.bytes_pending},
                {"bytes_discarded", cpu.bytes_discarded}};
  if (!cpu.error.empty()) entry["error"] = cpu.error;
  return entry;
}

}  // namespace

std::string counts_table(const std::vector<CpuCounts>& cpus) {
  std::string text = fmt::format("{:>5} {:>14} {:>14} {:>12} {:>14} {:>12}\n", "CPU", "events read",
                                 "still to read", "lost", "bytes sent", "pending");
  CpuCounts total;
  const auto row = [&text](const auto& name, const CpuCounts& cpu) {
    text += fmt::format("{:>5} {:>14} {:>14} {:>12} {:>14} {:>12}\n", name, cpu.read_events,
                        cpu.entries, cpu.lost(), cpu.bytes_sent, cpu.bytes_pending);
  };
  for (const CpuCounts& cpu : cpus) {
    row(cpu.cpu, cpu);
    if (!cpu.error.empty()) text += fmt::format("      ended early: {}\n", cpu.error);
    total.read_events += cpu.read_events;
    total.entries += cpu.entries;
    total.overrun += cpu.lost();
    total.bytes_sent += cpu.bytes_sent;
    total.bytes_pending += cpu.bytes_pending;
  }
  row("all", total);
  return text;
}

json counts_json(const std::vector<CpuCounts>& cpus) {
  json list = json::array();
  for (const CpuCounts& cpu : cpus) list.push_back(counts_entry(cpu));
  return list;
}

std::string ledger_table(const std::vector<CpuLedger>& cpus) {
  std::string text = fmt::format("{:>5} {:>14} {:>12} {:>14} {:>14} {:>14}\n", "CPU", "events",
                                 "lost", "bytes sent", "received", "written");
  CpuLedger total;
  total.agent.emplace();
  std::uint64_t lost = 0;
  const auto row = [&text](const auto& name, const CpuLedger& cpu) {
    const auto known = [&cpu](std::uint64_t value) {
      return cpu.agent ? fmt::format("{}", value) : std::string("?");
    };
    text += fmt::format("{:>5} {:>14} {:>12} {:>14} {:>14} {:>14}\n", name,
                        known(cpu.delivered_events()), cpu.lost_events(),
                        known(cpu.agent ? cpu.agent->bytes_sent : 0), cpu.host.received_bytes,
                        cpu.host.written_bytes);
  };
  for (const CpuLedger& cpu : cpus) {
    row(cpu.cpu, cpu);
    if (!cpu.problem.empty()) text += fmt::format("      {}\n", cpu.problem);
    lost += cpu.lost_events();
    if (!cpu.agent) total.agent.reset();
    if (total.agent && cpu.agent) {
      total.agent->read_events += cpu.delivered_events();
      total.agent->bytes_sent += cpu.agent->bytes_sent;
    }
    total.host.received_bytes += cpu.host.received_bytes;
    total.host.written_bytes += cpu.host.written_bytes;
  }
  if (total.agent) total.agent->overrun = lost;
  total.host.lost_events = lost;
  row("all", total);
  return text;
}

json summary_json(const RecordSummary& summary) {
  json cpus = json::array();
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
  for (const CpuLedger& cpu : summary.cpus) {
    json entry = cpu.agent ? counts_entry(*cpu.agent) : json{{"cpu", cpu.cpu}};
    entry["events_lost"] = cpu.lost_events();
    entry["bytes_received"] = cpu.host.received_bytes;
    entry["bytes_written"] = cpu.host.written_bytes;
    entry["bytes_of_earlier_runs"] = cpu.host.thrown_away;
    entry["gaps"] = cpu.host.gaps;
    entry["damaged_subbufs"] = cpu.host.damaged;
    if (!cpu.problem.empty()) entry["problem"] = cpu.problem;
    events += cpu.delivered_events();
    lost += cpu.lost_events();
    cpus.push_back(std::move(entry));
  }
  json object = {{"output", summary.output},
                 {"output_bytes", summary.output_bytes},
                 {"run_id", fmt::format("{:016x}", summary.run_id)},
                 {"seconds", summary.seconds},
                 {"kernel", summary.agent.kernel_release},
                 {"agent_version", summary.agent.agent_version},
                 {"events", events},
                 {"events_lost", lost},
                 {"complete", summary.problem.empty()},
                 {"cpus", std::move(cpus)}};
  if (!summary.raw_directory.empty()) object["raw_directory"] = summary.raw_directory;
  if (!summary.problem.empty()) object["problem"] = summary.problem;
  return object;
}

}  // namespace vtrace
