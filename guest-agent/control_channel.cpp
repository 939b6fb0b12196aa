#include "guest-agent/control_channel.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace vtrace {

Result<std::vector<ControlItem>> ControlChannel::read(Clock::time_point now) {
  std::array<std::byte, 1U << 16U> buffer;
  more_input_ = false;
  for (int round = 0;; ++round) {
    if (round == kMostAtOnce) {
      more_input_ = true;
      break;
    }
    const ssize_t got = ::read(port_.reading(), buffer.data(), buffer.size());
    if (got > 0) {
      decoder_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
      continue;
    }
    // 0: no host has the port open just now. EIO: the same of a terminal.
    if (got == 0 || errno == EAGAIN || errno == EIO) break;
    if (errno == EINTR) continue;
    return fail_errno("control port", errno);
  }
  return take_items(now);
}

std::vector<ControlItem> ControlChannel::take_items(Clock::time_point now) {
  std::vector<ControlItem> items;
  while (auto item = decoder_.next()) items.push_back(std::move(*item));
  if (!decoder_.partial()) {
    partial_until_.reset();
  } else if (!partial_until_ || !items.empty()) {
    partial_until_ = now + kPartialLimit;
  }
  return items;
}

std::vector<ControlItem> ControlChannel::give_up_partial(Clock::time_point now) {
  decoder_.give_up_partial();
  partial_until_.reset();
  return take_items(now);
}

void ControlChannel::send(Bytes frame, Kind kind) {
  queued_bytes_ += frame.size();
  queue_.push_back({std::move(frame), kind});
  while (queued_bytes_ > kMaxQueuedBytes) {
    if (!drop_oldest(Kind::unasked) && !drop_oldest(Kind::answer)) break;
  }
  // A port that is gone shows itself to the reader, too.
  (void)flush();
}

// The newest frame is never dropped, nor one that was begun.
bool ControlChannel::drop_oldest(Kind kind) {
  const std::size_t first = front_sent_ > 0 ? 1 : 0;
  for (std::size_t i = first; i + 1 < queue_.size(); ++i) {
    if (queue_[i].kind != kind) continue;
    queued_bytes_ -= queue_[i].bytes.size();
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
    ++dropped_frames_;
    return true;
  }
  return false;
}

Status ControlChannel::flush() {
  while (!queue_.empty()) {
    const Bytes& front = queue_.front().bytes;
    const ssize_t put =
        ::write(port_.writing(), front.data() + front_sent_, front.size() - front_sent_);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN && errno != EIO) return fail_errno("control port", errno);
    if (put <= 0) return {};
    front_sent_ += static_cast<std::size_t>(put);
    queued_bytes_ -= static_cast<std::size_t>(put);
    if (front_sent_ < front.size()) continue;
    queue_.pop_front();
    front_sent_ = 0;
  }
  return {};
}

}  // namespace vtrace
