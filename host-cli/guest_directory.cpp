#include "host-cli/guest_directory.h"

#include <fmt/format.h>

namespace vtrace {
namespace {

constexpr std::size_t kMaxNameBytes = 255;  // NAME_MAX

}  // namespace

Result<std::string> fifo_directory(const DirectoryChoice& choice) {
  if (!choice.directory.empty()) return choice.directory;
  const std::string base = choice.base.empty() ? std::string(kDefaultBaseDirectory) : choice.base;
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

}  // namespace vtrace
