#include "common/legacy_orders.h"

namespace vtrace {
namespace {

std::optional<LegacyOrder> order_of(char byte) {
  if (byte == '1') return LegacyOrder::start;
  if (byte == '0') return LegacyOrder::stop;
  return std::nullopt;
}

}  // namespace

std::optional<LegacyOrder> LegacyOrderScanner::take(char byte) {
  const std::optional<LegacyOrder> order = order_of(byte);
  switch (state_) {
    case State::clean:
      if (!order && byte != '\n' && byte != '\r') skip(byte);
      return order;
    case State::rubbish:
      skip(byte);
      return std::nullopt;
    case State::line_start:
      if (!order) {
        skip(byte);
        return std::nullopt;
      }
      waiting_ = *order;
      state_ = State::digit;
      return std::nullopt;
    case State::digit:
    case State::digit_cr:
      if (byte == '\n') {
        state_ = State::clean;
        return waiting_;
      }
      if (byte == '\r' && state_ == State::digit) {
        state_ = State::digit_cr;
        return std::nullopt;
      }
      skipped_ += state_ == State::digit ? 1 : 2;
      skip(byte);
      return std::nullopt;
  }
  return std::nullopt;
}

void LegacyOrderScanner::restart() {
  if (state_ == State::digit) skipped_ += 1;
  if (state_ == State::digit_cr) skipped_ += 2;
  state_ = State::clean;
}

void LegacyOrderScanner::skip(char byte) {
  ++skipped_;
  state_ = byte == '\n' ? State::line_start : State::rubbish;
}

}  // namespace vtrace
