#include "host-cli/file_copy.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace vtrace {
namespace {

// One call's worth: large enough to cost nothing, small enough that an interrupt is heard soon.
constexpr std::uint64_t kPiece = 16U << 20U;
constexpr std::size_t kBuffer = 1U << 20U;

bool kernel_copy_refused(int error) {
  return error == EXDEV || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP ||
         error == EPERM || error == EBADF;
}

class Copier {
 public:
  Copier(const FileRange& from, int to, std::uint64_t offset, std::string_view shown_from,
         std::string_view shown_to)
      : from_(from), to_(to), offset_(offset), shown_from_(shown_from), shown_to_(shown_to) {}

  // Copies at most `want` bytes of what is left; returns how many.
  Result<std::uint64_t> piece(std::uint64_t want) {
    if (in_kernel_) {
      auto in = static_cast<off64_t>(from_.offset + done_);
      auto out = static_cast<off64_t>(offset_ + done_);
      const ssize_t got = ::copy_file_range(from_.fd, &in, to_, &out, want, 0);
      if (got > 0) return advance(static_cast<std::uint64_t>(got));
      if (got < 0 && errno == EINTR) return 0;
      if (got < 0 && !kernel_copy_refused(errno)) return fail_errno(shown_to_, errno);
      // Some file systems answer 0 where they mean "not by me": the buffer finds out.
      in_kernel_ = false;
    }
    return through_buffer(want);
  }

 private:
  Result<std::uint64_t> advance(std::uint64_t bytes) {
    done_ += bytes;
    return bytes;
  }

  Result<std::uint64_t> through_buffer(std::uint64_t want) {
    buffer_.resize(kBuffer);
    const std::size_t size = std::min<std::uint64_t>(want, kBuffer);
    const ssize_t got =
        ::pread(from_.fd, buffer_.data(), size, static_cast<off_t>(from_.offset + done_));
    if (got < 0 && errno == EINTR) return 0;
    if (got < 0) return fail_errno(shown_from_, errno);
    if (got == 0) {
      return fail(fmt::format("{}: ends at byte {}, {} bytes early", shown_from_,
                              from_.offset + done_, from_.size - done_));
    }
    for (ssize_t put = 0; put < got;) {
      const ssize_t now = ::pwrite(to_, buffer_.data() + put, static_cast<std::size_t>(got - put),
                                   static_cast<off_t>(offset_ + done_) + put);
      if (now < 0 && errno == EINTR) continue;
      if (now < 0) return fail_errno(shown_to_, errno);
      put += now;
    }
    return advance(static_cast<std::uint64_t>(got));
  }

  const FileRange& from_;
  int to_;
  std::uint64_t offset_;
  std::string_view shown_from_;
  std::string_view shown_to_;
  std::uint64_t done_ = 0;
  bool in_kernel_ = true;
  std::vector<char> buffer_;
};

}  // namespace

Status copy_range(const FileRange& from, int to, std::uint64_t offset, std::string_view shown_from,
                  std::string_view shown_to, const std::function<bool(std::uint64_t bytes)>& step) {
  Copier copier(from, to, offset, shown_from, shown_to);
  for (std::uint64_t left = from.size; left > 0;) {
    VTRACE_TRY(const std::uint64_t got, copier.piece(std::min(left, kPiece)));
    left -= got;
    if (step && !step(got))
      return fail(fmt::format("{}: writing was interrupted", shown_to), ErrorKind::interrupted);
  }
  return {};
}

}  // namespace vtrace
