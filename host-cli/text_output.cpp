#include "host-cli/text_output.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace vtrace {
namespace {

std::unexpected<Error> interrupted() {
  return fail("interrupted", ErrorKind::interrupted);
}

}  // namespace

TextOutput::TextOutput(int fd, Interrupts* interrupts) : fd_(fd), interrupts_(interrupts) {
  struct stat now{};
  may_block_ = ::fstat(fd, &now) != 0 || !S_ISREG(now.st_mode);
}

Status TextOutput::wait_until_writable() {
  std::array<pollfd, 2> fds = {pollfd{fd_, POLLOUT, 0},
                               pollfd{interrupts_ == nullptr ? -1 : interrupts_->get(), POLLIN, 0}};
  for (;;) {
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return fail_errno("standard output", errno);
    }
    if (fds[1].revents != 0) return interrupted();
    if (fds[0].revents != 0) return {};
  }
}

Result<std::size_t> TextOutput::write_some(std::string_view text) {
  std::size_t size = text.size();
  if (may_block_) {
    VTRACE_CHECK(wait_until_writable());
    // A pipe that polls writable takes that much without blocking, whatever else is in it.
    size = std::min<std::size_t>(size, PIPE_BUF);
  }
  const ssize_t put = ::write(fd_, text.data(), size);
  if (put < 0 && errno != EINTR && errno != EAGAIN) return fail_errno("standard output", errno);
  return put < 0 ? 0 : static_cast<std::size_t>(put);
}

Result<bool> TextOutput::write(std::string_view text) {
  if (!may_block_ && interrupts_ != nullptr && interrupts_->count() > 0) return interrupted();
  while (!text.empty()) {
    auto put = write_some(text);
    if (!put && put.error().errno_value == EPIPE) return false;
    if (!put) return std::unexpected(std::move(put.error()));
    text.remove_prefix(*put);
  }
  return true;
}

}  // namespace vtrace
