#include "host-cli/descriptor_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>

namespace vtrace {

Status ensure_descriptors(std::size_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return fail_errno("RLIMIT_NOFILE", errno);
  if (limit.rlim_cur >= needed) return {};
  if (limit.rlim_max < needed) {
    return fail(
        fmt::format("{} file descriptors are needed, the limit is {}: raise it "
                    "(ulimit -n {})",
                    needed, limit.rlim_max, needed));
  }
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) < 0) return fail_errno("RLIMIT_NOFILE", errno);
  return {};
}

}  // namespace vtrace
