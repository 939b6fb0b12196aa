// The orders that the kernel's own trace agent knows: a line "1" (start) or "0" (stop). Pure.
// docs/protocol.md is normative.
#pragma once

#include <cstdint>
#include <optional>

namespace vtrace {

enum class LegacyOrder { start, stop };

// Finds orders in text that comes one byte at a time, so how it was split plays no part.
//
// As long as nothing but orders has come, a digit is an order at once: no newline is needed, and
// "10" is a start and a stop. After rubbish only a whole line counts, with a line end (LF or CRLF)
// on both sides, so that a torn frame gives no orders.
class LegacyOrderScanner {
 public:
  // The order that ends with this byte.
  [[nodiscard]] std::optional<LegacyOrder> take(char byte);

  // What follows begins afresh, as after a frame. A digit that still waits for its line end
  // becomes rubbish.
  void restart();

  // Has rubbish come whose line, or whose order's line, has not ended?
  [[nodiscard]] bool unfinished() const { return state_ != State::clean && !at_line_start(); }

  // Bytes that were neither an order nor a line end of one.
  [[nodiscard]] std::uint64_t skipped_bytes() const { return skipped_; }

 private:
  enum class State {
    clean,       // nothing but orders so far
    rubbish,     // inside a line of rubbish
    line_start,  // behind the newline of a line of rubbish
    digit,       // then a digit, which is an order if its line ends here
    digit_cr,    // then a carriage return
  };
  [[nodiscard]] bool at_line_start() const { return state_ == State::line_start; }
  void skip(char byte);

  State state_ = State::clean;
  LegacyOrder waiting_ = LegacyOrder::start;  // in digit and digit_cr
  std::uint64_t skipped_ = 0;
};

}  // namespace vtrace
