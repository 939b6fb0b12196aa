#include "tests/support/control_streams.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/crc32c.h"
#include "common/messages.h"
#include "tests/support/bytes.h"
#include "tests/support/random.h"

namespace vtrace::test {
namespace {

Bytes random_bytes(Random& random, std::size_t most) {
  Bytes bytes(random.below(most + 1));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

Frame random_frame(Random& random) {
  Frame frame;
  frame.type = static_cast<std::uint16_t>(random.below(0x100));
  frame.request_id = static_cast<std::uint32_t>(random.next());
  switch (random.below(4)) {
    case 0:
      break;
    case 1:
      frame.payload = bytes_of("1\n0\n");
      break;
    case 2:
      frame.payload = random_bytes(random, 24);
      break;
    default:
      frame.payload = bytes_of("x\n1\n") + random_bytes(random, 8);
      break;
  }
  return frame;
}

// A frame whose payload holds another one, whole or not.
Bytes nested_frames(Random& random) {
  Frame outer = random_frame(random);
  const Bytes inner = encode_frame(random_frame(random));
  const auto part = std::span(inner).first(inner.size() - random.below(3));
  outer.payload = outer.payload + part + random_bytes(random, 4);
  return encode_frame(outer);
}

// A header that checks, and claims what never comes.
Bytes lone_header(Random& random) {
  Frame frame = random_frame(random);
  frame.payload.resize(1 + random.below(random.below(4) == 0 ? 4096 : 64));
  Bytes bytes = encode_frame(frame);
  bytes.resize(kFrameHeaderSize);
  return bytes;
}

Bytes text_rubbish(Random& random) {
  static constexpr std::string_view kTexts[] = {
      "1",     "0",      "10",      "1\n",     "0\r\n",       "\n1\n",   "\n0\r\n", "\n1\r", "x\n1",
      "\n",    "\r\n",   "hello",   "start\n", "2\n",         " 1\n",    "\n\n0\n", "01\n",  "\xf5",
      "\xf5V", "\xf5VT", "\xf5VTC", "VTC\xf5", "\xf5\xf5VTC", "\n1\xf5", "\n1",
  };
  return bytes_of(kTexts[random.below(std::size(kTexts))]);
}

Bytes random_piece(Random& random) {
  switch (random.below(8)) {
    case 0:
    case 1:
      return encode_frame(random_frame(random));
    case 2: {
      Bytes torn = encode_frame(random_frame(random));
      torn.resize(random.below(torn.size()));
      return torn;
    }
    case 3: {
      Bytes changed = encode_frame(random_frame(random));
      changed[random.below(changed.size())] ^= static_cast<std::byte>(1U << random.below(8));
      return changed;
    }
    case 4:
      return nested_frames(random);
    case 5:
      return lone_header(random);
    case 6:
      return random_bytes(random, 12);
    default:
      return text_rubbish(random);
  }
}

struct Place {
  std::size_t start = 0;
  std::size_t end = 0;
};

// A valid frame at `start` of the stream, if one lies there.
std::optional<Frame> frame_at(std::span<const std::byte> stream, std::size_t start) {
  const auto at = stream.subspan(start);
  if (at.size() < 24 || std::memcmp(at.data(), "\xf5VTC", 4) != 0) return std::nullopt;
  const std::uint32_t length = load_u32(at.subspan(12));
  if (load_u32(at.subspan(20)) != crc32c(at.first(20)) || length > kMaxPayload) return std::nullopt;
  if (at.size() - 24 < length) return std::nullopt;
  const auto payload = at.subspan(24, length);
  if (load_u32(at.subspan(16)) != crc32c(payload)) return std::nullopt;
  return Frame{load_u16(at.subspan(4)), load_u16(at.subspan(6)), load_u32(at.subspan(8)),
               Bytes(payload.begin(), payload.end())};
}

// Of the frames that start at `from` or later, the one that ends first; of two, the longer.
std::optional<Place> first_frame(std::span<const std::byte> stream, std::size_t from) {
  std::optional<Place> first;
  for (std::size_t start = from; start < stream.size(); ++start) {
    const auto frame = frame_at(stream, start);
    if (!frame) continue;
    const std::size_t end = start + 24 + frame->payload.size();
    if (!first || end < first->end) first = Place{start, end};
  }
  return first;
}

}  // namespace

ControlStream random_control_stream(std::uint64_t seed) {
  Random random(seed);
  ControlStream stream;
  const std::size_t pieces = random.below(5);
  for (std::size_t i = 0; i < pieces; ++i) stream.bytes = stream.bytes + random_piece(random);
  // What came so far may be changed once more, anywhere.
  if (!stream.bytes.empty() && random.below(3) == 0)
    stream.bytes[random.below(stream.bytes.size())] = static_cast<std::byte>(random.below(256));
  stream.last = random_frame(random);
  stream.last.type = static_cast<std::uint16_t>(MessageType::ping);
  stream.bytes = stream.bytes + encode_frame(stream.last);
  return stream;
}

Decoded decode_by_the_rules(std::span<const std::byte> stream, bool legacy) {
  Decoded decoded;
  LegacyOrderScanner orders;
  std::size_t at = 0;
  while (at < stream.size()) {
    const auto place = first_frame(stream, at);
    for (const std::byte byte : stream.subspan(at, (place ? place->start : stream.size()) - at)) {
      if (!legacy) {
        ++decoded.skipped;
      } else if (const auto order = orders.take(static_cast<char>(byte))) {
        decoded.items.emplace_back(*order);
      }
    }
    orders.restart();
    if (!place) break;
    decoded.items.emplace_back(*frame_at(stream, place->start));
    at = place->end;
  }
  decoded.skipped += orders.skipped_bytes();
  return decoded;
}

Decoded decode_in_pieces(std::span<const std::span<const std::byte>> pieces, bool legacy) {
  ControlDecoder decoder(legacy ? ControlDecoder::LegacyOrders::accepted
                                : ControlDecoder::LegacyOrders::ignored);
  Decoded decoded;
  const auto take = [&] {
    while (auto item = decoder.next()) decoded.items.push_back(std::move(*item));
  };
  for (const auto piece : pieces) {
    decoder.feed(piece);
    take();
  }
  decoder.give_up_partial();
  take();
  decoded.skipped = decoder.skipped_bytes();
  return decoded;
}

}  // namespace vtrace::test
