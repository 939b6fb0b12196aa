#include "guest-agent/directories.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace vtrace {

std::vector<std::string> directories_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(path, error);
  while (!error && at != std::filesystem::directory_iterator()) {
    std::error_code ignored;
    if (at->is_directory(ignored)) names.push_back(at->path().filename());
    at.increment(error);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace vtrace
