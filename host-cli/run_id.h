// The number that names a run in its fences.
#pragma once

#include <cstdint>

namespace vtrace {

// Drawn at random, never 0.
[[nodiscard]] std::uint64_t draw_run_id();

}  // namespace vtrace
