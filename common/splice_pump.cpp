#include "common/splice_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

namespace vtrace {
namespace {

constexpr unsigned kSpliceFlags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;

// The errno of a call is looked at only when the call failed.
bool would_block(int errno_value) {
  return errno_value == EAGAIN || errno_value == EWOULDBLOCK;
}

}  // namespace

ssize_t SpliceSystem::splice(int source, int sink, std::size_t bytes, unsigned flags) {
  return ::splice(source, nullptr, sink, nullptr, bytes, flags);
}
ssize_t SpliceSystem::read(int fd, std::span<std::byte> into) {
  return ::read(fd, into.data(), into.size());
}
ssize_t SpliceSystem::write(int fd, std::span<const std::byte> data) {
  return ::write(fd, data.data(), data.size());
}

ssize_t SpliceSystem::waiting(int pipe) {
  int bytes = 0;
  return ::ioctl(pipe, FIONREAD, &bytes) < 0 ? -1 : bytes;
}

SpliceSystem& SpliceSystem::kernel() {
  static SpliceSystem system;
  return system;
}

SplicePump::SplicePump(int source, int sink, Pipe pipe, Fd sink_events, const PumpOptions& options,
                       SpliceSystem& system)
    : source_(source),
      sink_(sink),
      pipe_(std::move(pipe)),
      sink_events_(std::move(sink_events)),
      options_(options),
      system_(&system),
      splice_out_(options.splice_to_sink) {}

Result<SplicePump> SplicePump::create(int source, int sink, const PumpOptions& options,
                                      SpliceSystem& system) {
  if (options.unit == 0 || options.sink_bytes == 0)
    return fail("splice pump: the sub-buffer's size and the sink's share must not be 0");
  PumpOptions real = options;
  VTRACE_TRY(Pipe pipe, make_pipe(options.pipe_bytes, O_NONBLOCK));
  const int size = ::fcntl(pipe.write.get(), F_GETPIPE_SZ);
  if (size > 0) real.pipe_bytes = static_cast<std::size_t>(size);
  // The ring buffer refuses to splice less than a sub-buffer. A pipe's slot holds one of any size,
  // so a pipe that is smaller than a sub-buffer on paper takes one all the same.
  real.pipe_bytes = std::max(real.pipe_bytes / options.unit, std::size_t{1}) * options.unit;
  real.sink_bytes = std::max(real.sink_bytes / options.unit, std::size_t{1}) * options.unit;
  real.sink_bytes = std::min(real.sink_bytes, real.pipe_bytes);
  Fd events(::epoll_create1(EPOLL_CLOEXEC));
  if (!events) return fail_errno("epoll_create1", errno);
  epoll_event wish{};
  wish.events = EPOLLOUT | EPOLLET;
  // A regular file is refused (EPERM): it takes data at any time, there is nothing to wait for.
  if (::epoll_ctl(events.get(), EPOLL_CTL_ADD, sink, &wish) < 0) {
    if (errno != EPERM) return fail_errno("epoll_ctl for the port", errno);
    events.reset();
  }
  return SplicePump(source, sink, std::move(pipe), std::move(events), real, system);
}

Result<PumpStep> SplicePump::step() {
  if (held() == 0) {
    VTRACE_TRY(const PumpStep filled, fill());
    if (filled != PumpStep::moved) return filled;
  }
  VTRACE_TRY(const PumpStep drained, drain());
  return drained == PumpStep::blocked ? PumpStep::blocked : PumpStep::moved;
}

Result<PumpStep> SplicePump::fill() {
  if (held() > 0) return PumpStep::blocked;
  if (source_ < 0) return PumpStep::empty;
  if (!splice_in_) return fill_by_read();
  for (;;) {
    const ssize_t got =
        system_->splice(source_, pipe_.write.get(), options_.sink_bytes, kSpliceFlags);
    if (got > 0) {
      in_pipe_ += static_cast<std::size_t>(got);
      taken_ += static_cast<std::uint64_t>(got);
      return PumpStep::moved;
    }
    if (got == 0 || would_block(errno)) return PumpStep::empty;
    if (errno == EINTR) continue;
    if (errno != EINVAL) return fail_errno("splice from the ring buffer", errno);
    splice_in_ = false;
    return fill_by_read();
  }
}

Result<PumpStep> SplicePump::fill_by_read() {
  PumpStep step = PumpStep::empty;
  // A read gives one sub-buffer at most; some together make the write worth its while.
  while (tail_.size() < options_.sink_bytes) {
    const auto part = fill_part();
    // An error after some data comes again with the next read; the data goes first.
    if (!part && step == PumpStep::moved) break;
    if (!part) return part;
    if (*part != PumpStep::moved) break;
    step = PumpStep::moved;
  }
  return step;
}

Result<PumpStep> SplicePump::fill_part() {
  if (source_ < 0) return PumpStep::empty;
  const std::size_t used = tail_.size();
  tail_.resize(used + options_.unit);
  for (;;) {
    const ssize_t got = system_->read(source_, std::span(tail_).subspan(used));
    if (got > 0) {
      taken_ += options_.unit;
      return PumpStep::moved;
    }
    if (got < 0 && errno == EINTR) continue;
    const int error = got < 0 ? errno : EAGAIN;
    tail_.resize(used);
    if (would_block(error)) return PumpStep::empty;
    return fail_errno("read from the ring buffer", error);
  }
}

Result<PumpStep> SplicePump::drain() {
  if (in_pipe_ > 0) {
    VTRACE_TRY(const PumpStep step, drain_pipe());
    if (step == PumpStep::blocked) return step;
  }
  return drain_tail();
}

Result<PumpStep> SplicePump::drain_pipe() {
  while (in_pipe_ > 0) {
    if (!splice_out_) {
      VTRACE_CHECK(pipe_to_tail());
      break;
    }
    // Never a part of what the pipe holds: virtio_console sizes its scatter list by the pipe's
    // content and sends the entries that it did not fill too, as buffers of size zero, at which
    // QEMU gives up the device.
    const ssize_t put = system_->splice(pipe_.read.get(), sink_, in_pipe_, kSpliceFlags);
    if (put > 0) {
      in_pipe_ -= static_cast<std::size_t>(put);
      delivered_ += static_cast<std::uint64_t>(put);
      continue;
    }
    if (put == 0) {
      VTRACE_CHECK(find_lost());
      return in_pipe_ > 0 ? sink_blocked() : PumpStep::empty;
    }
    if (would_block(errno)) return sink_blocked();
    if (errno == EINTR) continue;
    if (errno != EINVAL) return fail_errno("splice to the port", errno);
    splice_out_ = false;
  }
  return PumpStep::empty;
}

Result<PumpStep> SplicePump::drain_tail() {
  while (tail_sent_ < tail_.size()) {
    const ssize_t put = system_->write(sink_, std::span(tail_).subspan(tail_sent_));
    if (put > 0) {
      tail_sent_ += static_cast<std::size_t>(put);
      delivered_ += static_cast<std::uint64_t>(put);
      continue;
    }
    if (put == 0 || would_block(errno)) return sink_blocked();
    if (errno == EINTR) continue;
    return fail_errno("write to the port", errno);
  }
  tail_.clear();
  tail_sent_ = 0;
  return PumpStep::empty;
}

PumpStep SplicePump::sink_blocked() {
  sink_woken_ = false;
  return PumpStep::blocked;
}

// virtio_console takes data out of the pipe before it has room for them in its queue: when there is
// none it answers 0, and they are gone. Counted here, or the pump would wait for them for ever.
Status SplicePump::find_lost() {
  const ssize_t there = system_->waiting(pipe_.read.get());
  if (there < 0) return fail_errno("the pump's own pipe", errno);
  const auto left = static_cast<std::size_t>(there);
  if (left >= in_pipe_) return {};
  dropped_ += in_pipe_ - left;
  in_pipe_ = left;
  return {};
}

// Brings the pipe's content into memory, in front of the tail, where write(2) sends it.
Status SplicePump::pipe_to_tail() {
  Bytes content(in_pipe_);
  std::size_t used = 0;
  while (used < content.size()) {
    const ssize_t got = system_->read(pipe_.read.get(), std::span(content).subspan(used));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail_errno("read from the pump's own pipe", got < 0 ? errno : EIO);
    used += static_cast<std::size_t>(got);
  }
  in_pipe_ = 0;
  content.insert(content.end(), tail_.begin() + static_cast<std::ptrdiff_t>(tail_sent_),
                 tail_.end());
  tail_ = std::move(content);
  tail_sent_ = 0;
  return {};
}

void SplicePump::append(std::span<const std::byte> bytes) {
  tail_.insert(tail_.end(), bytes.begin(), bytes.end());
}

Result<Bytes> SplicePump::discard() {
  VTRACE_CHECK(pipe_to_tail());
  std::uint64_t torn = 0;
  if (delivered_ < options_.torn_bytes) {
    torn = options_.torn_bytes - delivered_;
  } else {
    const std::uint64_t into_unit = (delivered_ - options_.torn_bytes) % options_.unit;
    torn = into_unit == 0 ? 0 : options_.unit - into_unit;
  }
  const std::size_t kept = std::min(static_cast<std::size_t>(torn), tail_.size());
  dropped_ += tail_.size() - kept;
  Bytes rest(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(kept));
  tail_.clear();
  return rest;
}

Result<PumpWake> SplicePump::wait(bool for_source, int wake,
                                  std::optional<std::chrono::milliseconds> timeout) {
  const bool for_sink = held() > 0;
  // A negative descriptor is passed over by poll.
  std::array<pollfd, 3> fds = {{{wake, POLLIN, 0},
                                {for_source ? source_ : -1, POLLIN, 0},
                                {for_sink ? sink_events_.get() : -1, POLLIN, 0}}};
  int limit = -1;
  if (timeout) {
    using Count = std::chrono::milliseconds::rep;
    const Count most = std::numeric_limits<int>::max();
    limit = static_cast<int>(std::clamp(timeout->count(), Count{0}, most));
  }
  const bool at_once = for_sink && (!sink_events_ || sink_woken_);
  const int ready = ::poll(fds.data(), fds.size(), at_once ? 0 : limit);
  if (ready < 0 && errno != EINTR) return fail_errno("poll", errno);
  PumpWake result;
  result.timed_out = ready == 0 && !at_once;
  result.woken = ready > 0 && fds[0].revents != 0;
  if (ready > 0 && fds[2].revents != 0) {
    // Taking the event back re-arms the edge. It is remembered until the sink has been tried.
    sink_woken_ = true;
    epoll_event event{};
    while (::epoll_wait(sink_events_.get(), &event, 1, 0) < 0 && errno == EINTR) {
    }
  }
  return result;
}

}  // namespace vtrace
