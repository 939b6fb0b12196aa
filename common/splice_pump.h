// Moves sub-buffers from a ring buffer to a port: source -splice-> pipe of its own -splice-> sink,
// without touching them. One thread owns a pump; only the wake-up descriptor is shared.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace vtrace {

// The system calls that a pump makes, as the kernel has them (-1 and errno). Tests put faults here.
class SpliceSystem {
 public:
  virtual ~SpliceSystem() = default;
  virtual ssize_t splice(int source, int sink, std::size_t bytes, unsigned flags);
  virtual ssize_t read(int fd, std::span<std::byte> into);
  virtual ssize_t write(int fd, std::span<const std::byte> data);
  // Bytes that wait in a pipe (FIONREAD).
  virtual ssize_t waiting(int pipe);

  // The kernel's own; stateless, so all threads may share it.
  static SpliceSystem& kernel();
};

struct PumpOptions {
  std::size_t unit = 4096;             // the sub-buffer's size: data is aligned to it
  std::size_t pipe_bytes = 1U << 20U;  // wished; less where the kernel allows less
  // The most that is taken from the source at a time, and so that one splice hands to the sink. A
  // virtio-serial port queues 128 of them in guest memory before it blocks, so this bounds what is
  // in flight (64 KiB: 8 MiB a port).
  std::size_t sink_bytes = 64U << 10U;
  // So many of the first bytes appended are the rest of a sub-buffer that an earlier pump's
  // discard() gave for this sink; this pump's own alignment is counted from there on.
  std::size_t torn_bytes = 0;
  // False where the sink is a pipe or a FIFO and the source a ring buffer. A splice from pipe to
  // pipe moves the ring buffer's pages themselves, and they keep a pointer to the ring buffer
  // without keeping it alive (ftrace's buffer_ref, seen up to 6.18): when the instance is removed
  // before they are read, the kernel frees them into memory that is not its own any more. A
  // virtio-serial port copies, and so is safe.
  bool splice_to_sink = true;
};

enum class PumpStep {
  moved,    // something went on
  empty,    // the source has nothing whole just now (which is never an end)
  blocked,  // the sink takes nothing just now
};

struct PumpWake {
  bool woken = false;  // the wake-up descriptor was signalled (it is not cleared)
  bool timed_out = false;
};

class SplicePump {
 public:
  // Both descriptors are borrowed, must outlive the pump and be O_NONBLOCK. `source` may be -1 for
  // a pump that only sends what is appended. The process must ignore SIGPIPE if the sink is a pipe
  // or a socket.
  [[nodiscard]] static Result<SplicePump> create(int source, int sink, const PumpOptions& options,
                                                 SpliceSystem& system = SpliceSystem::kernel());

  // Takes from the source if nothing is held, then hands to the sink. `moved` as long as there may
  // be more to do at once. Errors are the sink's or the source's own (EPIPE, ENODEV, …).
  [[nodiscard]] Result<PumpStep> step();
  // Hands what is held to the sink: `empty` when nothing is held (any more).
  [[nodiscard]] Result<PumpStep> drain();
  // Takes whole sub-buffers from the source into an empty pump; `blocked` when it holds something.
  [[nodiscard]] Result<PumpStep> fill();
  // Takes one sub-buffer by read(2), part-filled or not, and pads it to a whole one. For the flush
  // of a quiet CPU and the rest at a stop. The pump must hold nothing.
  [[nodiscard]] Result<PumpStep> fill_part();

  // Puts bytes of the caller's behind what is held.
  void append(std::span<const std::byte> bytes);
  // Drops what is held and returns the rest of the sub-buffer that the sink has a part of: to be
  // sent before anything else, so that the stream stays aligned. `dropped()` grows by what was
  // lost.
  [[nodiscard]] Result<Bytes> discard();

  // Sleeps until the source has data (if `for_source`), the sink takes some (if something is held),
  // `wake` is signalled, or the time is over (nothing: no limit; below 0: over). A signal to the
  // thread ends it too. A sink that hangs up without taking anything (a socket port without a host)
  // does not make it spin, as long as drain() or step() is called in between.
  [[nodiscard]] Result<PumpWake> wait(bool for_source, int wake,
                                      std::optional<std::chrono::milliseconds> timeout);

  [[nodiscard]] std::uint64_t taken() const { return taken_; }  // from the source, padding too
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }  // to the sink, appended too
  // By discard(), or lost by the sink's driver (see find_lost in the source).
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t held() const { return in_pipe_ + (tail_.size() - tail_sent_); }
  // Splice was refused on one side (EINVAL), and read and write have taken over.
  [[nodiscard]] bool fell_back() const {
    return !splice_in_ || (options_.splice_to_sink && !splice_out_);
  }

 private:
  SplicePump(int source, int sink, Pipe pipe, Fd sink_events, const PumpOptions& options,
             SpliceSystem& system);
  Result<PumpStep> fill_by_read();
  Result<PumpStep> drain_pipe();
  Result<PumpStep> drain_tail();
  PumpStep sink_blocked();
  Status pipe_to_tail();
  Status find_lost();

  int source_;
  int sink_;
  Pipe pipe_;
  Fd sink_events_;  // an epoll that holds the sink, edge-triggered; none where epoll refuses it
  PumpOptions options_;
  SpliceSystem* system_;
  bool sink_woken_ = false;  // an event of the sink's came, and it has not refused data since
  bool splice_in_ = true;
  bool splice_out_ = true;
  std::size_t in_pipe_ = 0;
  Bytes tail_;  // goes out after the pipe's content
  std::size_t tail_sent_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace vtrace
