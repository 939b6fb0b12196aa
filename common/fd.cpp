#include "common/fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace vtrace {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() {
  return std::exchange(fd_, -1);
}

void Fd::reset() {
  // A close that fails has still freed the number on Linux: trying again could hit a stranger's.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<Fd> open_fd(const std::string& path, int flags, mode_t mode) {
  return open_fd_at(AT_FDCWD, path, flags, mode, path);
}

Result<Fd> open_fd_at(int directory, const std::string& name, int flags, mode_t mode,
                      std::string_view shown) {
  int fd = -1;
  do {
    fd = ::openat(directory, name.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_errno(shown, errno);
  return Fd(fd);
}

Result<Pipe> make_pipe(std::size_t bytes, int flags) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), flags | O_CLOEXEC) < 0) return fail_errno("pipe", errno);
  Pipe pipe{Fd(ends[0]), Fd(ends[1])};
  if (bytes > 0) enlarge_pipe(pipe.write.get(), bytes);
  return pipe;
}

std::size_t enlarge_pipe(int fd, std::size_t bytes) {
  const int now = ::fcntl(fd, F_GETPIPE_SZ);
  if (now < 0) return 0;
  // More than the call's int can say would wrap around, and could make the pipe smaller.
  const std::size_t most = std::min(bytes, std::size_t{1} << 30U);
  for (std::size_t size = most; size > static_cast<std::size_t>(now); size /= 2) {
    const int got = ::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(size));
    if (got >= 0) return static_cast<std::size_t>(got);
  }
  return static_cast<std::size_t>(now);
}

Result<std::string> read_to_end(int fd, std::string_view shown) {
  // By pieces of its own: a text that keeps the room of a large read costs a caller that holds
  // thousands of small files more than a hundred megabytes.
  std::array<char, 16384> piece;
  std::string text;
  for (;;) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(shown, errno);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

Result<std::string> read_file(const std::string& path) {
  VTRACE_TRY(const Fd fd, open_fd(path, O_RDONLY));
  return read_to_end(fd.get(), path);
}

Status write_all(int fd, std::span<const std::byte> data, std::string_view shown) {
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(shown, errno);
    data = data.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Status write_all(int fd, std::string_view data, std::string_view shown) {
  return write_all(fd, std::as_bytes(std::span(data.data(), data.size())), shown);
}

Result<WakeFd> WakeFd::create() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) return fail_errno("eventfd", errno);
  return WakeFd(Fd(fd));
}

void WakeFd::signal() const {
  const std::uint64_t one = 1;
  // EAGAIN means that the counter is full: the sleeper is awake already.
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void WakeFd::clear() const {
  std::uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace vtrace
