#include "host-cli/report_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace vtrace {
namespace {

// Damaged places that are told one by one; all are counted.
constexpr std::size_t kPlacesTold = 16;

std::string time_text(const std::optional<std::uint64_t>& time, bool nanoseconds) {
  constexpr std::uint64_t kNs = 1'000'000'000;
  if (!time) return "-";
  if (!nanoseconds) return fmt::format("{}", *time);
  return fmt::format("{}.{:09}", *time / kNs, *time % kNs);
}

CpuTally sum_of(const std::vector<CpuTally>& cpus) {
  CpuTally sum;
  for (const CpuTally& cpu : cpus) {
    sum.events += cpu.events;
    sum.bytes += cpu.bytes;
    sum.subbufs += cpu.subbufs;
    sum.lost_events += cpu.lost_events;
    sum.lost_unknown += cpu.lost_unknown;
    sum.damaged += cpu.damaged;
    sum.time_back += cpu.time_back;
    if (cpu.first_time) sum.first_time = std::min(sum.first_time.value_or(~0ULL), *cpu.first_time);
    if (cpu.last_time) sum.last_time = std::max(sum.last_time.value_or(0), *cpu.last_time);
  }
  return sum;
}

KernelStats kernel_stats_of(const TraceInput& input, int cpu) {
  const auto found = input.kernel_stats().find(cpu);
  return found == input.kernel_stats().end() ? KernelStats{} : found->second;
}

KernelStats kernel_sum(const TraceInput& input, const std::vector<CpuTally>& cpus) {
  KernelStats sum;
  for (const CpuTally& cpu : cpus) {
    const KernelStats one = kernel_stats_of(input, cpu.cpu);
    sum.entries += one.entries;
    sum.overrun += one.overrun;
    sum.commit_overrun += one.commit_overrun;
    sum.dropped_events += one.dropped_events;
    sum.read_events += one.read_events;
  }
  return sum;
}

// "17", or "17+" where some losses told no number.
std::string lost_text(const CpuTally& cpu) {
  return fmt::format("{}{}", cpu.lost_events, cpu.lost_unknown > 0 ? "+" : "");
}

std::string table_line(const std::string& name, const CpuTally& cpu, const KernelStats& kernel,
                       bool nanoseconds) {
  return fmt::format("{:>5} {:>12} {:>14} {:>10} {:>10} {:>8} {:>20} {:>20}\n", name, cpu.events,
                     cpu.bytes, lost_text(cpu),
                     kernel.overrun + kernel.commit_overrun + kernel.dropped_events, cpu.damaged,
                     time_text(cpu.first_time, nanoseconds), time_text(cpu.last_time, nanoseconds));
}

nlohmann::ordered_json tally_json(const CpuTally& cpu) {
  nlohmann::ordered_json object = {{"events", cpu.events},
                                   {"bytes", cpu.bytes},
                                   {"subbuffers", cpu.subbufs},
                                   {"lost_events", cpu.lost_events},
                                   {"lost_places_without_number", cpu.lost_unknown},
                                   {"damaged", cpu.damaged},
                                   {"time_back", cpu.time_back}};
  object["first_time"] = cpu.first_time ? nlohmann::ordered_json(*cpu.first_time) : nullptr;
  object["last_time"] = cpu.last_time ? nlohmann::ordered_json(*cpu.last_time) : nullptr;
  return object;
}

nlohmann::ordered_json kernel_json(const KernelStats& stats) {
  return {{"entries", stats.entries},
          {"overrun", stats.overrun},
          {"commit_overrun", stats.commit_overrun},
          {"dropped_events", stats.dropped_events},
          {"read_events", stats.read_events}};
}

void warn_of_cpu(const CpuTally& cpu, const KernelStats& kernel, std::vector<std::string>& out) {
  if (cpu.lost_events > 0)
    out.push_back(fmt::format("CPU {}: {} events lost", cpu.cpu, cpu.lost_events));
  if (cpu.lost_unknown > 0) {
    out.push_back(fmt::format("CPU {}: events lost at {} places that do not tell their number",
                              cpu.cpu, cpu.lost_unknown));
  }
  if (cpu.lost_events == 0 && cpu.lost_unknown == 0 &&
      kernel.overrun + kernel.commit_overrun + kernel.dropped_events > 0) {
    out.push_back(
        fmt::format("CPU {}: the traced kernel counted {} events overwritten, {} not "
                    "committed, {} dropped",
                    cpu.cpu, kernel.overrun, kernel.commit_overrun, kernel.dropped_events));
  }
  if (cpu.time_back > 0) {
    out.push_back(fmt::format("CPU {}: time goes back at {} events; their order is kept", cpu.cpu,
                              cpu.time_back));
  }
}

}  // namespace

std::string stats_table(const TraceInput& input, const std::vector<CpuTally>& cpus) {
  const bool ns = input.nanoseconds();
  std::string text = fmt::format(
      "{:>5} {:>12} {:>14} {:>10} {:>10} {:>8} {:>20} {:>20}\n", "cpu", "events", "bytes", "lost",
      "overrun", "damaged", ns ? "first (s)" : "first (ticks)", ns ? "last (s)" : "last (ticks)");
  for (const CpuTally& cpu : cpus)
    text += table_line(fmt::format("{}", cpu.cpu), cpu, kernel_stats_of(input, cpu.cpu), ns);
  return text + table_line("all", sum_of(cpus), kernel_sum(input, cpus), ns);
}

nlohmann::ordered_json stats_json(const TraceInput& input, const std::vector<CpuTally>& cpus,
                                  const std::vector<DamagedPlace>& damage) {
  nlohmann::ordered_json object = {{"file", input.path()},
                                   {"format", input.version() == 0 ? "raw" : "trace.dat"},
                                   {"version", input.version()},
                                   {"writer", input.writer()},
                                   {"trace_id", input.trace_id()},
                                   {"kernel", input.metadata().kernel_release},
                                   {"clock", input.clock()},
                                   {"time_unit", input.nanoseconds() ? "ns" : "ticks"},
                                   {"subbuffer_size", input.layout().size()},
                                   {"other_buffers", input.other_buffers()}};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CpuTally& cpu : cpus) {
    nlohmann::ordered_json one = {{"cpu", cpu.cpu}};
    one.update(tally_json(cpu));
    const auto kernel = input.kernel_stats().find(cpu.cpu);
    if (kernel != input.kernel_stats().end()) one["kernel"] = kernel_json(kernel->second);
    list.push_back(std::move(one));
  }
  object["cpus"] = std::move(list);
  object["total"] = tally_json(sum_of(cpus));
  nlohmann::ordered_json places = nlohmann::ordered_json::array();
  for (const DamagedPlace& place : damage)
    places.push_back({{"cpu", place.cpu}, {"offset", place.offset}, {"what", place.what}});
  object["damaged_places"] = std::move(places);
  object["warnings"] = stats_warnings(input, cpus, damage);
  return object;
}

std::vector<std::string> stats_warnings(const TraceInput& input, const std::vector<CpuTally>& cpus,
                                        const std::vector<DamagedPlace>& damage) {
  std::vector<std::string> lines = input.notes();
  for (const CpuTally& cpu : cpus) warn_of_cpu(cpu, kernel_stats_of(input, cpu.cpu), lines);
  std::size_t told = 0;
  for (const DamagedPlace& place : damage) {
    if (told++ == kPlacesTold) break;
    lines.push_back(fmt::format("CPU {}: damaged at byte {} of its data: {}; the rest is decoded",
                                place.cpu, place.offset, place.what));
  }
  const std::uint64_t all = sum_of(cpus).damaged;
  if (all > kPlacesTold) lines.push_back(fmt::format("{} damaged places in all", all));
  return lines;
}

bool events_missing(const TraceInput& input, const std::vector<CpuTally>& cpus) {
  const CpuTally sum = sum_of(cpus);
  const KernelStats kernel = kernel_sum(input, cpus);
  return sum.lost_events > 0 || sum.lost_unknown > 0 || sum.damaged > 0 ||
         kernel.overrun + kernel.commit_overrun + kernel.dropped_events > 0;
}

}  // namespace vtrace
