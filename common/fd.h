// Ownership of file descriptors. An `Fd` by value in a signature takes the descriptor, an `int`
// borrows it. Every descriptor made here is O_CLOEXEC.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

namespace vtrace {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  [[nodiscard]] int release();
  void reset();

 private:
  int fd_ = -1;
};

// The two ends of a pipe.
struct Pipe {
  Fd read;
  Fd write;
};

// open(2) with O_CLOEXEC added. The error names the path.
[[nodiscard]] Result<Fd> open_fd(const std::string& path, int flags, mode_t mode = 0);
// openat(2) with O_CLOEXEC added. `shown` is the path that an error names.
[[nodiscard]] Result<Fd> open_fd_at(int directory, const std::string& name, int flags, mode_t mode,
                                    std::string_view shown);

// pipe2(2) with O_CLOEXEC added to `flags`; enlarged to `bytes` where the kernel allows, else as
// large as it comes.
[[nodiscard]] Result<Pipe> make_pipe(std::size_t bytes = 0, int flags = 0);

// F_SETPIPE_SZ to `bytes`, or to the largest power of two below it that is allowed. Returns the
// size that the pipe or FIFO has afterwards, 0 when it is neither.
std::size_t enlarge_pipe(int fd, std::size_t bytes);

// Reads a file to its end; sizes that stat reports are not believed (tracefs and procfs say 0).
[[nodiscard]] Result<std::string> read_file(const std::string& path);
[[nodiscard]] Result<std::string> read_to_end(int fd, std::string_view shown);

// Writes all of it to a blocking descriptor, through short writes and EINTR.
[[nodiscard]] Status write_all(int fd, std::span<const std::byte> data, std::string_view shown);
[[nodiscard]] Status write_all(int fd, std::string_view data, std::string_view shown);

// Wakes a thread that sleeps in poll(2). Any thread may signal; one waits.
class WakeFd {
 public:
  [[nodiscard]] static Result<WakeFd> create();

  [[nodiscard]] int get() const { return fd_.get(); }
  void signal() const;
  // Takes back all signals so far, so that the next poll sleeps.
  void clear() const;

 private:
  explicit WakeFd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace vtrace
