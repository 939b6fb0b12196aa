// The agent's side of the control port: finds orders in what comes, and sends answers without ever
// waiting for the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/frame.h"
#include "common/result.h"
#include "guest-agent/port_set.h"

namespace vtrace {

class ControlChannel {
 public:
  using Clock = std::chrono::steady_clock;

  // More than this is not kept for a host that does not read.
  static constexpr std::size_t kMaxQueuedBytes = 2U << 20U;
  // Part of a frame whose rest has not come by then is rubbish: its writer died.
  static constexpr std::chrono::milliseconds kPartialLimit{1000};

  explicit ControlChannel(OpenPort port) : port_(std::move(port)) {}

  [[nodiscard]] int reading() const { return port_.reading(); }
  [[nodiscard]] int writing() const { return port_.writing(); }

  // Reads until nothing is left (the port is watched edge-triggered) or `kMostAtOnce` was read:
  // then more_input() is true. An error means that the port is gone; a host that hangs up is none.
  [[nodiscard]] Result<std::vector<ControlItem>> read(Clock::time_point now);
  [[nodiscard]] bool more_input() const { return more_input_; }
  // When a partial frame is to be given up; nothing while there is none.
  [[nodiscard]] std::optional<Clock::time_point> partial_deadline() const { return partial_until_; }
  [[nodiscard]] std::vector<ControlItem> give_up_partial(Clock::time_point now);
  [[nodiscard]] std::uint64_t skipped_bytes() const { return decoder_.skipped_bytes(); }

  enum class Kind { answer, unasked };
  // Queues a frame and sends what the port takes. When the queue is full the oldest unasked frames
  // that were not begun go first, then the oldest answers.
  void send(Bytes frame, Kind kind);
  // Sends on. An error means that the port is gone.
  [[nodiscard]] Status flush();
  [[nodiscard]] std::size_t queued_bytes() const { return queued_bytes_; }
  [[nodiscard]] std::uint64_t dropped_frames() const { return dropped_frames_; }

 private:
  struct Queued {
    Bytes bytes;
    Kind kind = Kind::answer;
  };
  static constexpr int kMostAtOnce = 16;  // times 64 KiB

  std::vector<ControlItem> take_items(Clock::time_point now);
  bool drop_oldest(Kind kind);

  OpenPort port_;
  ControlDecoder decoder_{ControlDecoder::LegacyOrders::accepted};
  std::optional<Clock::time_point> partial_until_;
  bool more_input_ = false;
  std::deque<Queued> queue_;
  std::size_t front_sent_ = 0;
  std::size_t queued_bytes_ = 0;
  std::uint64_t dropped_frames_ = 0;
};

}  // namespace vtrace
