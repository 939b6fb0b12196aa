#include "host-cli/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/units.h"

namespace vtrace {

std::string fill_bars(const std::vector<CpuProgress>& cpus, std::size_t width) {
  constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  std::size_t used = 0;
  for (const CpuProgress& cpu : cpus) {
    const std::string label = fmt::format("{}{}:", text.empty() ? "" : " ", cpu.cpu);
    if (used + label.size() + 1 > width) break;
    const std::size_t level =
        cpu.queue_size == 0 ? 0 : cpu.queued_bytes * (kBars.size() - 1) / cpu.queue_size;
    text += label;
    text += kBars[std::min(level, kBars.size() - 1)];
    used += label.size() + 1;
  }
  return text;
}

std::string ProgressText::line(double seconds, const std::vector<CpuProgress>& cpus,
                               std::size_t width) {
  std::uint64_t bytes = 0;
  std::uint64_t lost = 0;
  for (const CpuProgress& cpu : cpus) {
    bytes += cpu.received_bytes;
    lost += cpu.lost_events;
  }
  const double span = std::max(seconds - last_seconds_, 0.001);
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(bytes - last_bytes_) / span);
  last_seconds_ = seconds;
  last_bytes_ = bytes;
  std::string text = fmt::format("{:.0f} s  {}/s  {}  {} events lost", seconds, format_size(rate),
                                 format_size(bytes), lost);
  constexpr std::size_t kLead = 8;  // "  fill: "
  if (width > text.size() + kLead + 4)
    text += fmt::format("  fill: {}", fill_bars(cpus, width - text.size() - kLead));
  return text;
}

}  // namespace vtrace
