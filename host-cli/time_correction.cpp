#include "host-cli/time_correction.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "host-cli/trace_dat_format.h"

namespace vtrace {
namespace {

using trace_dat::OptionId;
__extension__ using Wide = unsigned __int128;

constexpr std::size_t kSampleSize = 3 * sizeof(std::int64_t);
constexpr std::uint32_t kMaxShift = 63;

// A decimal or 0x number in a z-string; may be negative.
std::int64_t text_number(std::span<const std::byte> payload) {
  const std::string text(as_text(payload));
  const char* const start = text.c_str();
  if (*start == '-') return std::strtoll(start, nullptr, 0);
  return static_cast<std::int64_t>(std::strtoull(start, nullptr, 0));
}

// Two's complement arithmetic, as the field's readers do it: overflow wraps.
std::uint64_t wrapping(std::int64_t value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

TimeCorrection::TimeCorrection(std::span<const std::pair<std::uint16_t, Bytes>> options) {
  std::uint64_t offset = 0;
  for (const auto& [id, payload] : options) {
    switch (static_cast<OptionId>(id)) {
      case OptionId::date:
        offset += wrapping(text_number(payload)) * 1000;
        break;
      case OptionId::offset:
        offset += wrapping(text_number(payload));
        break;
      case OptionId::tsc_to_ns: {
        ByteReader in(payload);
        const std::uint32_t multiplier = in.u32();
        const std::uint32_t shift = in.u32();
        if (in.ok() && shift <= kMaxShift) {
          multiplier_ = multiplier;
          tick_shift_ = shift;
        }
        break;
      }
      case OptionId::time_shift:
        read_shift(payload);
        break;
      default:
        break;
    }
  }
  offset_ns_ = static_cast<std::int64_t>(offset);
}

void TimeCorrection::read_shift(std::span<const std::byte> payload) {
  ByteReader in(payload);
  in.u64();  // the peer's trace id
  const std::uint32_t flags = in.u32();
  const std::uint32_t cpus = in.u32();
  std::vector<std::vector<Sample>> shifts;
  for (std::uint32_t cpu = 0; cpu < cpus && in.ok(); ++cpu) {
    const std::uint32_t count = in.u32();
    if (count > in.left() / kSampleSize) return;
    std::vector<Sample> samples(count);
    for (Sample& sample : samples) sample.time = static_cast<std::int64_t>(in.u64());
    for (Sample& sample : samples) sample.offset = static_cast<std::int64_t>(in.u64());
    for (Sample& sample : samples) sample.scaling = static_cast<std::int64_t>(in.u64());
    shifts.push_back(std::move(samples));
  }
  if (!in.ok()) return;
  for (std::vector<Sample>& samples : shifts) {
    // Older files end before the fractions.
    if (in.left() < samples.size() * sizeof(std::int64_t)) break;
    for (Sample& sample : samples) sample.fraction = static_cast<std::int64_t>(in.u64());
  }
  for (std::vector<Sample>& samples : shifts) {
    std::stable_sort(samples.begin(), samples.end(),
                     [](const Sample& a, const Sample& b) { return a.time < b.time; });
    const auto same =
        std::unique(samples.begin(), samples.end(),
                    [](const Sample& a, const Sample& b) { return a.time == b.time; });
    samples.erase(same, samples.end());
  }
  shifts_ = std::move(shifts);
  interpolate_ = (flags & 1U) != 0;
}

std::uint64_t TimeCorrection::shift(const std::vector<Sample>& samples, std::uint64_t time) const {
  if (samples.empty()) return time;
  // With one sample only its offset counts.
  if (samples.size() == 1) return time + wrapping(samples[0].offset);
  auto after = std::upper_bound(
      samples.begin(), samples.end(), time,
      [](std::uint64_t at, const Sample& sample) { return at < wrapping(sample.time); });
  // The pair around `time`; the first or the last one outside of them all.
  after = std::clamp(after, samples.begin() + 1, samples.end() - 1);
  const Sample& from = *(after - 1);
  const Sample& to = *after;
  const bool behind_last = time >= wrapping(to.time) && after + 1 == samples.end();
  const Sample& base = !interpolate_ && behind_last ? to : from;
  std::uint64_t offset = wrapping(base.offset);
  if (interpolate_) {
    const auto gap = static_cast<std::int64_t>(wrapping(to.time) - wrapping(from.time));
    const auto into = static_cast<std::int64_t>(time - wrapping(from.time));
    const auto rise = static_cast<std::int64_t>(wrapping(to.offset) - wrapping(from.offset));
    if (gap != 0) {
      const auto product = static_cast<std::int64_t>(wrapping(into) * wrapping(rise));
      offset += wrapping((product + gap / 2) / gap);
    }
  }
  const std::uint64_t scaled = (time * wrapping(base.scaling)) >>
                               std::min<std::uint64_t>(wrapping(base.fraction), kMaxShift);
  return scaled + offset;
}

std::uint64_t TimeCorrection::apply(int cpu, std::uint64_t time) const {
  if (cpu >= 0 && static_cast<std::size_t>(cpu) < shifts_.size())
    time = shift(shifts_[static_cast<std::size_t>(cpu)], time);
  if (multiplier_ != 0) {
    const auto wide = static_cast<Wide>(time) * multiplier_;
    time = static_cast<std::uint64_t>(wide >> tick_shift_);
  }
  return time + wrapping(offset_ns_);
}

bool clock_counts_nanoseconds(std::string_view clock) {
  constexpr std::array<std::string_view, 8> kNanoseconds = {"local", "global",   "uptime", "perf",
                                                            "mono",  "mono_raw", "boot",   "tai"};
  return clock.empty() ||
         std::find(kNanoseconds.begin(), kNanoseconds.end(), clock) != kNanoseconds.end();
}

std::string_view current_clock(std::string_view clocks) {
  const std::size_t open = clocks.find('[');
  if (open == std::string_view::npos) return "local";
  const std::size_t close = clocks.find(']', open);
  if (close == std::string_view::npos) return "local";
  return clocks.substr(open + 1, close - open - 1);
}

}  // namespace vtrace
