#include "guest-agent/buffer_stats.h"

#include <charconv>
#include <optional>

namespace vtrace {
namespace {

std::optional<std::uint64_t> number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (!line.starts_with(key) || !line.substr(key.size()).starts_with(": ")) continue;
    line.remove_prefix(key.size() + 2);
    std::uint64_t number = 0;
    const auto result = std::from_chars(line.data(), line.data() + line.size(), number);
    if (result.ec == std::errc() && result.ptr != line.data()) return number;
  }
  return std::nullopt;
}

std::uint64_t since(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

}  // namespace

Result<BufferStats> parse_buffer_stats(std::string_view text) {
  const auto entries = number_of(text, "entries");
  if (!entries) return fail("stats: no line \"entries\" in it");
  BufferStats stats;
  stats.entries = *entries;
  stats.overrun = number_of(text, "overrun").value_or(0);
  stats.commit_overrun = number_of(text, "commit overrun").value_or(0);
  stats.dropped_events = number_of(text, "dropped events").value_or(0);
  stats.read_events = number_of(text, "read events").value_or(0);
  return stats;
}

void count_kernel_events(const BufferStats& before, const BufferStats& now, CpuCounts& counts) {
  counts.entries = now.entries;
  counts.read_events = since(before.read_events, now.read_events);
  counts.overrun = since(before.overrun, now.overrun);
  counts.commit_overrun = since(before.commit_overrun, now.commit_overrun);
  counts.dropped_events = since(before.dropped_events, now.dropped_events);
}

}  // namespace vtrace
