// Ten thousand random and mutated control streams, split at every position, through the decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "tests/support/bytes.h"
#include "tests/support/control_streams.h"

namespace vtrace {
namespace {

using test::Decoded;

constexpr std::uint64_t kStreams = 10'000;
constexpr std::uint64_t kShare = 2'500;

std::string shown(std::uint64_t seed, const Bytes& stream) {
  return "stream " + std::to_string(seed) + ": " + test::to_hex(stream);
}

void expect_same_at_every_split(const Bytes& stream, bool legacy, std::uint64_t seed) {
  const auto bytes = std::span<const std::byte>(stream);
  const Decoded expected = test::decode_by_the_rules(bytes, legacy);
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    const std::array pieces = {bytes.first(split), bytes.subspan(split)};
    ASSERT_EQ(test::decode_in_pieces(pieces, legacy), expected)
        << "split at " << split << ", " << shown(seed, stream);
  }
  std::vector<std::span<const std::byte>> singles;
  for (std::size_t at = 0; at < bytes.size(); ++at) singles.push_back(bytes.subspan(at, 1));
  ASSERT_EQ(test::decode_in_pieces(singles, legacy), expected)
      << "byte by byte, " << shown(seed, stream);
}

// Shares of the streams, so that they can run beside one another.
class ControlStreams : public ::testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(From, ControlStreams,
                         ::testing::Range(std::uint64_t{0}, kStreams, kShare));

TEST_P(ControlStreams, GiveTheSameAtEverySplitAndLoseNoFrame) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + kShare; ++seed) {
    const test::ControlStream stream = test::random_control_stream(seed);
    const bool legacy = seed % 4 != 0;
    ASSERT_NO_FATAL_FAILURE(expect_same_at_every_split(stream.bytes, legacy, seed));
    const Decoded decoded = test::decode_by_the_rules(stream.bytes, legacy);
    ASSERT_FALSE(decoded.items.empty()) << shown(seed, stream.bytes);
    ASSERT_EQ(decoded.items.back(), ControlItem(stream.last)) << shown(seed, stream.bytes);
  }
}

TEST(ControlStreams, CoverWhatTheyShould) {
  std::size_t rubbish = 0;
  std::size_t orders = 0;
  std::size_t several = 0;
  for (std::uint64_t seed = 0; seed < kStreams; ++seed) {
    const test::ControlStream stream = test::random_control_stream(seed);
    const Decoded decoded = test::decode_by_the_rules(stream.bytes, true);
    if (decoded.skipped > 0) ++rubbish;
    if (decoded.items.size() > 2) ++several;
    orders += static_cast<std::size_t>(std::ranges::count_if(
        decoded.items, [](const ControlItem& item) { return item.index() == 1; }));
  }
  EXPECT_GT(rubbish, kStreams / 3);
  EXPECT_GT(several, kStreams / 10);
  EXPECT_GT(orders, kStreams / 10);
}

}  // namespace
}  // namespace vtrace
