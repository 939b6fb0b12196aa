// The limit of open descriptors: known before the first is opened.
#pragma once

#include <cstddef>

#include "common/result.h"

namespace vtrace {

// Raises the soft limit to `needed` where the hard limit allows; else an error with the number
// needed.
[[nodiscard]] Status ensure_descriptors(std::size_t needed);

}  // namespace vtrace
