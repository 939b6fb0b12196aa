#include "host-cli/subbuf_walker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/fence.h"
#include "common/wire.h"

namespace vtrace {
namespace {

constexpr std::uint32_t kWord = 4;
constexpr std::uint32_t kTypeMask = 31;
constexpr std::uint32_t kDeltaShift = 5;
constexpr std::uint32_t kDeltaBits = 27;
constexpr std::uint32_t kMaxDataType = 28;
constexpr std::uint32_t kPadding = 29;
constexpr std::uint32_t kTimeExtend = 30;

// An absolute stamp has 59 bits. Clocks that count from 1970 need the five above: they are those
// of the running time, one more when the 59 bits have wrapped since.
constexpr std::uint32_t kStampBits = 59;
constexpr std::uint64_t kStampMask = (std::uint64_t{1} << kStampBits) - 1;

std::uint64_t absolute_time(std::uint64_t stamp, std::uint64_t running) {
  const std::uint64_t high = running & ~kStampMask;
  if (high == 0) return stamp;
  const std::uint64_t time = high | (stamp & kStampMask);
  // Slightly lower is time that went back; lower by more than half of the range is a wrap.
  const bool wrapped = time < running && running - time > kStampMask / 2;
  return wrapped ? time + kStampMask + 1 : time;
}

}  // namespace

void SubbufWalker::open(std::span<const std::byte> subbuf) {
  subbuf_ = subbuf;
  header_ = {};
  damage_.reset();
  at_ = end_ = 0;
  cut_off_ = false;

  if (subbuf.size() < layout_.data_offset) {
    damaged(0, fmt::format("cut off in its header, {} bytes are there", subbuf.size()));
    return;
  }
  std::span<const std::byte> whole = subbuf;
  if (subbuf.size() < layout_.size()) {
    padded_.assign(layout_.size(), std::byte{0});
    std::copy(subbuf.begin(), subbuf.end(), padded_.begin());
    whole = padded_;
  }
  auto header = read_subbuf_header(layout_, whole);
  if (!header) {
    damaged(layout_.commit_offset, std::move(header.error().message));
    return;
  }
  header_ = *header;
  if (header_.timestamp == 0 && header_.data_bytes == 0) {
    // A fence between the runs of a raw capture looks like this too, and is no damage.
    if (subbuf.size() == layout_.size() && decode_fence(layout_, subbuf)) return;
    damaged(0, "its header is all zeros");
    return;
  }
  time_ = header_.timestamp;
  at_ = layout_.data_offset;
  end_ = layout_.data_offset + header_.data_bytes;
  if (end_ > subbuf.size()) {
    cut_off_ = true;
    end_ = static_cast<std::uint32_t>(subbuf.size());
  }
}

void SubbufWalker::damaged(std::uint32_t offset, std::string what) {
  damage_ = SubbufDamage{offset, std::move(what)};
  at_ = end_;
}

std::uint32_t SubbufWalker::word_at(std::uint32_t offset) const {
  std::uint32_t word = 0;
  std::memcpy(&word, subbuf_.data() + offset, sizeof word);
  return word;
}

bool SubbufWalker::next(RawEvent& event) {
  bool found = false;
  while (!found && step(event, found)) {
  }
  return found;
}

// One header word further; false when there is nothing more to walk.
bool SubbufWalker::step(RawEvent& event, bool& found) {
  if (at_ == end_) {
    if (cut_off_ && !damage_)
      damaged(end_, fmt::format("cut off, {} bytes are there", subbuf_.size()));
    return false;
  }
  if (end_ - at_ < kWord) {
    damaged(at_, fmt::format("{} bytes are no event", end_ - at_));
    return false;
  }
  const std::uint32_t word = word_at(at_);
  const std::uint32_t type = word & kTypeMask;
  if (type <= kMaxDataType) {
    found = take_data(word, event);
    return found;
  }
  if (type == kPadding) return skip_padding(word);

  if (end_ - at_ < 2 * kWord) {
    damaged(at_, "a time stamp runs past the data");
    return false;
  }
  const std::uint64_t value =
      (std::uint64_t{word_at(at_ + kWord)} << kDeltaBits) + (word >> kDeltaShift);
  time_ = type == kTimeExtend ? time_ + value : absolute_time(value, time_);
  at_ += 2 * kWord;
  return true;
}

bool SubbufWalker::take_data(std::uint32_t word, RawEvent& event) {
  const std::uint32_t room = end_ - at_;
  std::uint32_t skip = kWord;                         // to the payload
  std::uint32_t length = (word & kTypeMask) * kWord;  // of the payload
  std::uint64_t whole = std::uint64_t{kWord} + length;
  if (length == 0) {  // too long for the type field: the next word has it, itself included
    if (room < 2 * kWord) {
      damaged(at_, "an event's length runs past the data");
      return false;
    }
    const std::uint32_t stored = word_at(at_ + kWord);
    if (stored < kWord) {
      damaged(at_, fmt::format("an event of length {}", stored));
      return false;
    }
    skip = 2 * kWord;
    length = stored - kWord;
    whole = kWord + ((std::uint64_t{stored} + kWord - 1) & ~std::uint64_t{kWord - 1});
  }
  if (whole > room) {
    damaged(at_, fmt::format("an event of {} bytes where {} are left", whole, room));
    return false;
  }
  time_ += word >> kDeltaShift;
  event.time = time_;
  event.payload = subbuf_.subspan(at_ + skip, length);
  at_ += static_cast<std::uint32_t>(whole);
  return true;
}

bool SubbufWalker::skip_padding(std::uint32_t word) {
  const std::uint32_t delta = word >> kDeltaShift;
  if (delta == 0) {  // the rest was never used
    at_ = end_;
    return true;
  }
  const std::uint32_t room = end_ - at_;
  const std::uint64_t whole =
      room < 2 * kWord ? 2 * kWord : std::uint64_t{kWord} + word_at(at_ + kWord);
  if (whole > room || whole < 2 * kWord) {
    damaged(at_, fmt::format("a discarded event of {} bytes where {} are left", whole, room));
    return false;
  }
  time_ += delta;
  at_ += static_cast<std::uint32_t>(whole);
  return true;
}

}  // namespace vtrace
