#include "common/frame.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "common/crc32c.h"
#include "tests/support/bytes.h"
#include "tests/support/control_streams.h"

namespace vtrace {
namespace {

using test::bytes_of;
using test::to_hex;
using test::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen as used

Frame frame_of(std::uint32_t request_id, std::string_view payload = {}) {
  return Frame{kProtocolVersion, 7, request_id, bytes_of(payload)};
}

// What came out, for comparing at a glance: "1" and "0" for orders, "[ID:PAYLOAD]" for frames.
std::string take_all(ControlDecoder& decoder) {
  std::string text;
  while (const auto item = decoder.next()) {
    if (const auto* const frame = std::get_if<Frame>(&*item)) {
      text += "[" + std::to_string(frame->request_id) + ":" + test::text_of(frame->payload) + "]";
    } else {
      text += std::get<LegacyOrder>(*item) == LegacyOrder::start ? "1" : "0";
    }
  }
  return text;
}

struct Outcome {
  std::string items;
  std::uint64_t skipped = 0;
  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.items << ", " << outcome.skipped << " skipped";
}

// Decodes a stream whole, split at every position, and byte by byte; all must agree.
Outcome decode(const Bytes& stream,
               ControlDecoder::LegacyOrders legacy = ControlDecoder::LegacyOrders::accepted) {
  const auto bytes = std::span<const std::byte>(stream);
  ControlDecoder whole(legacy);
  whole.feed(bytes);
  const Outcome outcome{take_all(whole), whole.skipped_bytes()};
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    ControlDecoder decoder(legacy);
    decoder.feed(bytes.first(split));
    std::string items = take_all(decoder);
    decoder.feed(bytes.subspan(split));
    items += take_all(decoder);
    EXPECT_EQ((Outcome{items, decoder.skipped_bytes()}), outcome) << "split at " << split;
  }
  ControlDecoder slow(legacy);
  for (const std::byte& byte : bytes) slow.feed(std::span(&byte, 1));
  EXPECT_EQ((Outcome{take_all(slow), slow.skipped_bytes()}), outcome) << "byte by byte";
  return outcome;
}

TEST(Frame, HasTheLayoutThatTheProtocolTells) {
  const Bytes bytes = encode_frame(Frame{1, 0x0203, 0x04050607, bytes_of("123456789")});
  EXPECT_EQ(to_hex(std::span(bytes).first(20)),
            "f5565443"
            "0100"
            "0302"
            "07060504"
            "09000000"
            "839206e3");
  EXPECT_EQ(bytes.size(), kFrameHeaderSize + 9);
  EXPECT_EQ(test::text_of(std::span(bytes).subspan(24)), "123456789");
}

TEST(ControlDecoder, FindsAFrameAtAnySplit) {
  EXPECT_EQ(decode(encode_frame(frame_of(5, "hello"))), (Outcome{"[5:hello]", 0}));
  EXPECT_EQ(decode(encode_frame(frame_of(6))), (Outcome{"[6:]", 0}));
}

TEST(ControlDecoder, KeepsVersionTypeAndId) {
  const Frame frame{9, 0xfedc, 0xfffffffe, bytes_of("\n1\n")};
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(encode_frame(frame));
  const auto item = decoder.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(std::get<Frame>(*item), frame);
  EXPECT_FALSE(decoder.next());
  EXPECT_FALSE(decoder.partial());
}

TEST(ControlDecoder, TakesTheLargestPayloadAndNoLarger) {
  Frame frame = frame_of(1);
  frame.payload.assign(kMaxPayload, std::byte{'1'});
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(encode_frame(frame));
  const auto item = decoder.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(std::get<Frame>(*item), frame);

  frame.payload.push_back(std::byte{'1'});
  decoder.feed(encode_frame(frame));
  decoder.feed(encode_frame(frame_of(2)));
  EXPECT_EQ(take_all(decoder), "[2:]");
  EXPECT_EQ(decoder.skipped_bytes(), kMaxPayload + 1 + kFrameHeaderSize);
}

TEST(ControlDecoder, FindsFramesAfterRubbish) {
  const Bytes frame = encode_frame(frame_of(5, "hello"));
  EXPECT_EQ(decode(bytes_of("garbage") + frame), (Outcome{"[5:hello]", 7}));
  EXPECT_EQ(decode(bytes_of("\xf5\xf5VTC\xf5VT") + frame), (Outcome{"[5:hello]", 8}));
  EXPECT_EQ(decode(frame + bytes_of("junk") + frame), (Outcome{"[5:hello][5:hello]", 4}));
}

TEST(ControlDecoder, IsNotHeldUpByATornFrame) {
  const Bytes torn = encode_frame(frame_of(5, "a rather long payload that is never there"));
  const Bytes next = encode_frame(frame_of(6, "x"));
  for (std::size_t cut = 0; cut < torn.size(); ++cut) {
    const Bytes stream =
        Bytes(torn.begin(), torn.begin() + static_cast<std::ptrdiff_t>(cut)) + next;
    EXPECT_EQ(decode(stream), (Outcome{"[6:x]", cut})) << "cut at " << cut;
  }
}

TEST(ControlDecoder, IsNotHeldUpByAHeaderThatClaimsAMebibyte) {
  Frame big = frame_of(5);
  big.payload.resize(kMaxPayload);
  Bytes header = encode_frame(big);
  header.resize(kFrameHeaderSize);
  EXPECT_EQ(decode(header + encode_frame(frame_of(6)) + bytes_of("1\n")), (Outcome{"[6:]1", 24}));
}

TEST(ControlDecoder, PassesOverAChangedFrame) {
  const Bytes good = encode_frame(frame_of(5, "payload"));
  const Bytes next = encode_frame(frame_of(6));
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes changed = good;
    changed[at] ^= std::byte{0x10};
    EXPECT_EQ(decode(changed + next), (Outcome{"[6:]", good.size()})) << "changed at " << at;
  }
}

TEST(ControlDecoder, TakesTheFrameThatEndsFirst) {
  const Bytes inner = encode_frame(frame_of(6, "inner"));
  const Bytes outer = encode_frame(frame_of(5, "head" + test::text_of(inner) + "tail"));
  EXPECT_EQ(decode(outer), (Outcome{"[6:inner]", outer.size() - inner.size()}));
}

TEST(ControlDecoder, TakesTheLongerOfTwoFramesThatEndTogether) {
  const Bytes inner = encode_frame(frame_of(6, "inner"));
  const Bytes outer = encode_frame(frame_of(5, test::text_of(inner)));
  EXPECT_EQ(decode(outer), (Outcome{"[5:" + test::text_of(inner) + "]", 0}));
}

TEST(ControlDecoder, TakesOrdersBetweenFramesInTheirPlace) {
  const Bytes frame = encode_frame(frame_of(5));
  EXPECT_EQ(decode(bytes_of("1\n") + frame + bytes_of("0\n1") + frame + bytes_of("0\r\n")),
            (Outcome{"1[5:]01[5:]0", 0}));
  EXPECT_EQ(decode(bytes_of("10")), (Outcome{"10", 0}));
}

TEST(ControlDecoder, TakesNoOrdersFromInsideAFrame) {
  EXPECT_EQ(decode(encode_frame(frame_of(5, "\n1\n0\n"))), (Outcome{"[5:\n1\n0\n]", 0}));
}

TEST(ControlDecoder, TakesOnlyWholeLinesBehindATornFrame) {
  Bytes torn = encode_frame(frame_of(5, "payload"));
  torn.resize(10);
  const Bytes next = encode_frame(frame_of(6));
  // The line that the torn frame is part of is lost, the next one counts.
  EXPECT_EQ(decode(torn + bytes_of("1\n") + next), (Outcome{"[6:]", 12}));
  EXPECT_EQ(decode(torn + bytes_of("1\n0\n") + next), (Outcome{"0[6:]", 12}));
  EXPECT_EQ(decode(torn + bytes_of("1\r\n0\r\n") + next), (Outcome{"0[6:]", 13}));
  EXPECT_EQ(decode(torn + bytes_of("\n1") + next), (Outcome{"[6:]", 12}));
}

TEST(ControlDecoder, IgnoresOrdersWhereThereAreNone) {
  const Bytes frame = encode_frame(frame_of(5));
  EXPECT_EQ(
      decode(bytes_of("1\n") + frame + bytes_of("\n0\n"), ControlDecoder::LegacyOrders::ignored),
      (Outcome{"[5:]", 5}));
}

TEST(ControlDecoder, GivesUpAPartAndBeginsAfresh) {
  Bytes torn = encode_frame(frame_of(5, "payload"));
  torn.resize(torn.size() - 1);
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(torn);
  EXPECT_TRUE(decoder.partial());
  decoder.give_up_partial();
  EXPECT_FALSE(decoder.partial());
  EXPECT_EQ(decoder.skipped_bytes(), torn.size());
  decoder.feed(bytes_of("1"));
  decoder.feed(encode_frame(frame_of(6)));
  EXPECT_EQ(take_all(decoder), "1[6:]");
  EXPECT_EQ(decoder.skipped_bytes(), torn.size());
}

TEST(ControlDecoder, FindsTheOrdersOfWhatItGivesUp) {
  Bytes torn = encode_frame(frame_of(5, "payload of some length"));
  torn.resize(30);
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(torn + bytes_of("\n1\n0"));
  EXPECT_EQ(take_all(decoder), "") << "all of it may still be the frame's payload";
  decoder.give_up_partial();
  EXPECT_EQ(take_all(decoder), "10");
  EXPECT_EQ(decoder.skipped_bytes(), 31U);
}

TEST(ControlDecoder, CallsALineOfRubbishPartialUntilItEnds) {
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.feed(bytes_of("rubbish"));
  EXPECT_TRUE(decoder.partial());
  decoder.feed(bytes_of("\n"));
  EXPECT_FALSE(decoder.partial());
  decoder.feed(bytes_of("1"));
  EXPECT_TRUE(decoder.partial());
  decoder.feed(bytes_of("\n"));
  EXPECT_FALSE(decoder.partial());
  EXPECT_EQ(take_all(decoder), "1");
}

TEST(ControlDecoder, GivesUpNothingWhenNothingWaits) {
  ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
  decoder.give_up_partial();
  decoder.feed({});
  EXPECT_EQ(take_all(decoder), "");
  EXPECT_EQ(decoder.skipped_bytes(), 0U);
}

// Streams that make a careless decoder go over its buffer again and again. The bound is generous
// for a slow machine; quadratic work on these takes minutes.
class HostileStream : public ::testing::Test {
 protected:
  // A header that checks, of a payload that never comes.
  static Bytes header_claiming(std::size_t payload) {
    Bytes header = encode_frame(frame_of(1));
    header.resize(12);
    ByteWriter out;
    out.raw(header);
    out.u32(static_cast<std::uint32_t>(payload));
    out.u32(0x12345678);
    out.u32(crc32c(out.bytes()));
    return out.take();
  }
  static void expect_quick(const std::function<void(ControlDecoder&)>& feed,
                           std::string_view what) {
    const auto start = std::chrono::steady_clock::now();
    ControlDecoder decoder(ControlDecoder::LegacyOrders::accepted);
    feed(decoder);
    decoder.give_up_partial();
    while (decoder.next()) {
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << what;
  }
  static Bytes repeated(const Bytes& piece, std::size_t size) {
    Bytes all;
    all.reserve(size + piece.size());
    while (all.size() < size) all.insert(all.end(), piece.begin(), piece.end());
    return all;
  }
  static constexpr std::size_t kSize = 2U << 20U;
};

TEST_F(HostileStream, OfTinyFramesIsQuick) {
  const Bytes stream = repeated(encode_frame(frame_of(1)), kSize);
  expect_quick([&](ControlDecoder& decoder) { decoder.feed(stream); }, "in one piece");
}

TEST_F(HostileStream, OfHeadersThatAllClaimAMebibyteIsQuick) {
  const Bytes stream = repeated(header_claiming(kMaxPayload), kSize);
  expect_quick([&](ControlDecoder& decoder) { decoder.feed(stream); }, "in one piece");
  expect_quick(
      [&](ControlDecoder& decoder) {
        for (const std::byte& byte : stream) decoder.feed(std::span(&byte, 1));
      },
      "byte by byte");
}

TEST_F(HostileStream, OfHeadersThatAllEndTogetherIsQuick) {
  Bytes stream;
  while (stream.size() + kFrameHeaderSize <= kMaxPayload) {
    const Bytes header = header_claiming(kMaxPayload - stream.size() - kFrameHeaderSize);
    stream.insert(stream.end(), header.begin(), header.end());
  }
  expect_quick(
      [&](ControlDecoder& decoder) {
        for (int i = 0; i < 4; ++i) decoder.feed(stream);
      },
      "in one piece");
}

TEST_F(HostileStream, OfHeadersThatEndOneAfterTheOtherIsQuick) {
  const Bytes stream = repeated(header_claiming(kMaxPayload / 2), kSize);
  expect_quick(
      [&](ControlDecoder& decoder) {
        for (std::size_t at = 0; at < stream.size(); at += 24)
          decoder.feed(std::span(stream).subspan(at, 24));
      },
      "a header at a time");
}

TEST_F(HostileStream, OfMagicBytesIsQuick) {
  expect_quick([&](ControlDecoder& decoder) { decoder.feed(Bytes(kSize, std::byte{0xf5})); },
               "first byte");
  expect_quick([&](ControlDecoder& decoder) { decoder.feed(repeated(bytes_of("\xf5VTC"), kSize)); },
               "whole magic");
}

}  // namespace
}  // namespace vtrace
