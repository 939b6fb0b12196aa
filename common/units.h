// Sizes and durations as a user writes and reads them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"

namespace vtrace {

// Bytes: a whole number, plain or with K, M, G (or k, m, g): powers of 1024. Errors are of kind
// usage.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

// A number, whole or decimal, plain (seconds) or with ms, s, m, h. Errors are of kind usage.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// "817 B", "1.4 MiB"
[[nodiscard]] std::string format_size(std::uint64_t bytes);

}  // namespace vtrace
