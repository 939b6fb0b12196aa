#include "common/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace vtrace {

Result<std::uint64_t> parse_size(std::string_view text) {
  const auto refuse = [text] {
    return fail(fmt::format("not a size: \"{}\" (give bytes, or a number with K, M or G)", text),
                ErrorKind::usage);
  };
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return refuse();
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  unsigned shift = 0;
  if (unit == "K" || unit == "k") {
    shift = 10;
  } else if (unit == "M" || unit == "m") {
    shift = 20;
  } else if (unit == "G" || unit == "g") {
    shift = 30;
  } else if (!unit.empty()) {
    return refuse();
  }
  if (number > (std::numeric_limits<std::uint64_t>::max() >> shift)) return refuse();
  return number << shift;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto refuse = [text] {
    return fail(
        fmt::format("not a duration: \"{}\" (give seconds, or a number with ms, s, m or h)", text),
        ErrorKind::usage);
  };
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return refuse();
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 1000;
  if (unit == "ms") {
    factor = 1;
  } else if (unit == "m") {
    factor = 60'000;
  } else if (unit == "h") {
    factor = 3'600'000;
  } else if (!unit.empty() && unit != "s") {
    return refuse();
  }
  // A year is longer than anybody records, and keeps every sum of durations in range.
  constexpr double kLongest = 366.0 * 24 * 3'600'000;
  if (!std::isfinite(number) || number < 0 || number * factor > kLongest) return refuse();
  return std::chrono::milliseconds(std::llround(number * factor));
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace vtrace
