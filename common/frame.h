// Frames of the control protocol, and the decoder that finds them in any stream. Pure.
// docs/protocol.md is normative.
//
// A frame: magic (4 bytes f5 'V' 'T' 'C'), version u16, type u16, request id u32, payload length
// u32, CRC-32C of the payload u32, CRC-32C of the 20 header bytes so far u32; then the payload.
// Little-endian. Beside frames the stream from the host may carry the legacy orders
// (common/legacy_orders.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "common/legacy_orders.h"
#include "common/wire.h"

namespace vtrace {

inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kFrameHeaderSize = 24;
inline constexpr std::size_t kMaxPayload = 1U << 20U;

struct Frame {
  std::uint16_t version = kProtocolVersion;
  std::uint16_t type = 0;
  std::uint32_t request_id = 0;
  Bytes payload;

  bool operator==(const Frame&) const = default;
};

using ControlItem = std::variant<Frame, LegacyOrder>;

// `frame.payload` is at most kMaxPayload bytes: no decoder takes a longer one.
[[nodiscard]] Bytes encode_frame(const Frame& frame);

// Finds frames and legacy orders in a stream that is fed in pieces of any size. What it finds
// depends on the stream alone, never on how it was split.
//
// A frame may start after any rubbish. One that is cut off does not swallow the next: of frames
// that overlap, the one that ends first is taken (of two that end together, the longer), so a
// whole frame within the space that an unfinished one claims ends the unfinished one. What is no
// frame is read as legacy orders; what is neither is counted.
//
// Holds what an unfinished frame may need, so about 2 MiB at most; takes time proportional to the
// bytes, whatever they are.
class ControlDecoder {
 public:
  enum class LegacyOrders { accepted, ignored };

  explicit ControlDecoder(LegacyOrders legacy) : legacy_(legacy == LegacyOrders::accepted) {}

  void feed(std::span<const std::byte> bytes);
  // The next item, in stream order; nothing when more bytes are needed.
  [[nodiscard]] std::optional<ControlItem> next();

  // Does part of a frame, or a line of rubbish, wait for its end?
  [[nodiscard]] bool partial() const { return held() > 0 || (legacy_ && orders_.unfinished()); }
  // Gives up a part that has waited too long (its writer died): it becomes rubbish, and what
  // follows begins afresh. The caller owns the clock.
  void give_up_partial();

  // Bytes that were neither frame nor order. Those that may still become a frame are not in it.
  [[nodiscard]] std::uint64_t skipped_bytes() const { return skipped_ + orders_.skipped_bytes(); }

 private:
  // A valid header whose payload is not there yet. Positions count from the stream's start.
  struct Candidate {
    Frame frame;  // without its payload
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint32_t payload_crc = 0;
    std::uint32_t crc_before = 0;  // the running CRC where the payload starts
  };

  void scan();
  bool find_header();
  bool end_candidate();
  void add_candidate(Candidate candidate);
  void advance_crc(std::uint64_t position);
  void read_text(std::uint64_t end);

  [[nodiscard]] std::size_t held() const { return buffer_.size() - head_; }
  [[nodiscard]] std::uint64_t available() const { return begin_ + held(); }
  [[nodiscard]] std::span<const std::byte> from(std::uint64_t position) const {
    return std::span(buffer_).subspan(head_ + static_cast<std::size_t>(position - begin_));
  }

  bool legacy_;
  Bytes buffer_;              // from head_ on: the stream from begin_ to available()
  std::size_t head_ = 0;      // what is before it is dealt with, and removed now and then
  std::uint64_t begin_ = 0;   // position of the first byte that is not dealt with
  std::uint64_t search_ = 0;  // position before which every header is found
  std::map<std::uint64_t, Candidate> candidates_;             // by start
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_end_;  // (end, start) of each of them
  // CRC of the stream from the first candidate's payload to crc_end_; valid while there is one.
  std::uint32_t crc_ = 0;
  std::uint64_t crc_end_ = 0;
  LegacyOrderScanner orders_;
  std::deque<ControlItem> items_;
  std::uint64_t skipped_ = 0;  // where legacy orders are ignored
};

}  // namespace vtrace
