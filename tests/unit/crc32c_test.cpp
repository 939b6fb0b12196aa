#include "common/crc32c.h"

#include <gtest/gtest.h>

#include <span>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::bytes_of;

// RFC 3720, B.4.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c(Bytes(32)), 0x8a9136aaU);
  EXPECT_EQ(crc32c(Bytes(32, std::byte{0xff})), 0x62a8ab43U);
  Bytes up(32);
  Bytes down(32);
  for (std::size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c(up), 0x46dd794eU);
  EXPECT_EQ(crc32c(down), 0x113fdb5cU);
}

TEST(Crc32c, GivesTheUsualCheckValue) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(Crc32c, GoesOnFromASeed) {
  const Bytes all = bytes_of("the quick brown fox jumps over the lazy dog");
  for (std::size_t split = 0; split <= all.size(); ++split) {
    const auto bytes = std::span<const std::byte>(all);
    EXPECT_EQ(crc32c(bytes.subspan(split), crc32c(bytes.first(split))), crc32c(all));
  }
}

TEST(Crc32c, OfATailFollowsFromTheWholeAndTheHead) {
  Bytes all(70'000);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * i >> 3U);
  const auto bytes = std::span<const std::byte>(all);
  const std::uint32_t whole = crc32c(bytes);
  for (const std::size_t tail : {0UZ, 1UZ, 2UZ, 3UZ, 7UZ, 24UZ, 255UZ, 256UZ, 4095UZ, 4096UZ,
                                 65'535UZ, 65'537UZ, 70'000UZ}) {
    const auto head = bytes.first(all.size() - tail);
    EXPECT_EQ(crc32c_of_tail(whole, crc32c(head), tail), crc32c(bytes.last(tail))) << tail;
  }
}

}  // namespace
}  // namespace vtrace
