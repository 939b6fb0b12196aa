// Control streams for tests: random ones, and a slow decoder that is plainly right.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/frame.h"

namespace vtrace::test {

struct ControlStream {
  Bytes bytes;
  Frame last;  // a valid frame: what the stream ends with
};

// Rubbish, orders, frames whole, torn, changed and nested, then `last`. The same seed gives the
// same stream everywhere.
[[nodiscard]] ControlStream random_control_stream(std::uint64_t seed);

struct Decoded {
  std::vector<ControlItem> items;
  std::uint64_t skipped = 0;

  bool operator==(const Decoded&) const = default;
};

// What the rules of docs/protocol.md give for a whole stream, given up at its end. Tries a frame
// at every place, so: for short streams.
[[nodiscard]] Decoded decode_by_the_rules(std::span<const std::byte> stream, bool legacy);

// The same by the real decoder, fed in the given pieces.
[[nodiscard]] Decoded decode_in_pieces(std::span<const std::span<const std::byte>> pieces,
                                       bool legacy);

}  // namespace vtrace::test
