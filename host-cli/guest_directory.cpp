#include "host-cli/guest_directory.h"

#include <fmt/format.h>

#include <algorithm>

namespace vtrace {
namespace {

constexpr std::size_t kMaxNameBytes = 255;  // NAME_MAX

}  // namespace

Result<std::string> fifo_directory(const DirectoryChoice& choice) {
  if (!choice.directory.empty()) return choice.directory;
  std::string base = choice.base.empty() ? std::string(kDefaultBaseDirectory) : choice.base;
  const std::string& guest = choice.guest;
  if (guest.empty()) return base;
  if (guest == "." || guest == ".." || guest.find('/') != std::string::npos ||
      guest.find('\0') != std::string::npos || guest.size() > kMaxNameBytes) {
    return fail(
        fmt::format("guest \"{}\": cannot be a directory's name below {} (use --dir)", guest, base),
        ErrorKind::usage);
  }
  return fmt::format("{}/{}", base, guest);
}

std::string absolute_path(std::string_view path, std::string_view working_directory) {
  std::string whole;
  if (!path.starts_with('/')) whole = fmt::format("{}/", working_directory);
  whole += path;
  std::string result;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find('/', at), whole.size());
    const std::string_view part = std::string_view(whole).substr(at, end - at);
    if (!part.empty() && part != ".") result.append("/").append(part);
    at = end + 1;
  }
  return result.empty() ? "/" : result;
}

}  // namespace vtrace
