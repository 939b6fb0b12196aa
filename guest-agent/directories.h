// The folders in a folder, for tracefs' trees of systems and events.
#pragma once

#include <string>
#include <vector>

namespace vtrace {

// Their names, sorted; empty where `path` cannot be read, as a folder that is not there.
[[nodiscard]] std::vector<std::string> directories_in(const std::string& path);

}  // namespace vtrace
