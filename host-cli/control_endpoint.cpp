#include "host-cli/control_endpoint.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>

#include "common/layout.h"

namespace vtrace {
namespace {

using std::chrono::steady_clock;

Status lock_channel(int fd, const std::string& name) {
  constexpr std::chrono::seconds kPatience{1};
  const auto deadline = steady_clock::now() + kPatience;
  while (::flock(fd, LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK) return fail_errno(name, errno);
    if (steady_clock::now() >= deadline) {
      return fail(
          fmt::format("{}: another virtio-trace command is using it; wait for it, or end it", name),
          ErrorKind::refused);
    }
    ::poll(nullptr, 0, 50);
  }
  return {};
}

}  // namespace

Result<ControlEndpoint> open_control(const FifoSet& fifos) {
  if (!fifos.has_control()) {
    return fail(fmt::format("{}: has no {}.in and .out (make them with virtio-trace setup)",
                            fifos.path(), kControlPortName));
  }
  ControlEndpoint endpoint;
  endpoint.name = fifos.fifo_path(kControlPortName, Direction::in);
  VTRACE_TRY(endpoint.write, fifos.open_write(kControlPortName));
  // With a write end of our own open a guest that goes is no end of file.
  VTRACE_TRY(endpoint.read, fifos.open_keepalive(kControlPortName));
  VTRACE_CHECK(lock_channel(endpoint.read.get(), endpoint.name));
  return endpoint;
}

}  // namespace vtrace
