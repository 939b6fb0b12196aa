// The words of -e and -f. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/messages.h"
#include "common/result.h"

namespace vtrace {

// "SYSTEM", "SYSTEM:EVENT" or "SYSTEM/EVENT". Whether they exist only the guest can tell. Errors
// are of kind usage.
[[nodiscard]] Result<EventSpec> parse_event(std::string_view text);

}  // namespace vtrace
