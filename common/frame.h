// Frames of the control protocol, and the decoder that finds them in any stream. Pure.
// docs/protocol.md is normative.
//
// A frame: magic (4 bytes f5 'V' 'T' 'C'), version u16, type u16, request id u32, payload length
// u32, CRC-32C of the payload u32, CRC-32C of the 20 header bytes so far u32; then the payload.
// Little-endian. Beside frames the stream from the host may carry the legacy orders: a line "1" or
// "0", with or without its newline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <variant>

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

enum class LegacyOrder { start, stop };

using ControlItem = std::variant<Frame, LegacyOrder>;

// `frame.payload` is at most kMaxPayload bytes.
[[nodiscard]] Bytes encode_frame(const Frame& frame);

// Finds frames and legacy orders in a stream that is fed in pieces of any size.
//
// A frame may start after any rubbish. One that is cut off does not swallow the next: a whole valid
// frame within the space that an unfinished one claims ends the unfinished one. Rubbish is counted.
//
// Legacy orders are taken where a line can begin: at the start, after a frame or another order.
// After rubbish only a whole line counts, newline on both sides, so that a torn frame gives no
// orders.
class ControlDecoder {
 public:
  enum class LegacyOrders { accepted, ignored };

  explicit ControlDecoder(LegacyOrders legacy) : legacy_(legacy == LegacyOrders::accepted) {}

  void feed(std::span<const std::byte> bytes);
  // The next item, in stream order; nothing when more bytes are needed.
  [[nodiscard]] std::optional<ControlItem> next();

  // Is part of a frame waiting for its rest?
  [[nodiscard]] bool partial() const { return !buffer_.empty(); }
  // Gives up a part that has waited too long (its writer died): it becomes rubbish, and what
  // follows begins afresh. The caller owns the clock.
  void give_up_partial();

  // Bytes that were neither frame nor order.
  [[nodiscard]] std::uint64_t skipped_bytes() const { return skipped_; }

 private:
  void scan();
  void find_candidates();
  bool take_frame();
  std::size_t scan_text(std::size_t limit, bool final_part);
  void consume(std::size_t bytes);

  bool legacy_;
  bool dirty_ = false;         // rubbish since the last frame, order or line end
  bool at_line_start_ = true;  // the last rubbish byte was a newline
  Bytes buffer_;
  std::size_t searched_ = 0;  // no candidate header starts before this offset, but for candidates_
  std::deque<std::size_t> candidates_;  // offsets of valid headers whose payload is incomplete
  std::deque<ControlItem> items_;
  std::uint64_t skipped_ = 0;
};

}  // namespace vtrace
