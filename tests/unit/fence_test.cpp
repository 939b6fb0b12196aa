#include "common/fence.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

constexpr Fence kBegin{FenceKind::begin, 0x1122334455667788, 3, 0, 0};
constexpr Fence kEnd{FenceKind::end, 0xffffffffffffffff, 8191, 0x123456789abcd000, 0x123456789abcd};

class FenceIn : public ::testing::TestWithParam<SubbufLayout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, FenceIn,
                         ::testing::Values(SubbufLayout{}, SubbufLayout{0, 8, 4, 12, 4084},
                                           SubbufLayout{0, 8, 8, 16, 65520},
                                           SubbufLayout{0, 8, 8, 16, 64}));

TEST_P(FenceIn, IsOneSubbufThatReadsBack) {
  for (const Fence& fence : {kBegin, kEnd}) {
    const Bytes subbuf = encode_fence(GetParam(), fence);
    EXPECT_EQ(subbuf.size(), GetParam().size());
    EXPECT_EQ(decode_fence(GetParam(), subbuf), fence);
  }
}

TEST_P(FenceIn, IsEmptyToAnyDecoder) {
  const auto header = read_subbuf_header(GetParam(), encode_fence(GetParam(), kEnd));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->data_bytes, 0U);
  EXPECT_FALSE(header->events_lost);
}

TEST_P(FenceIn, HasItsMagicAtTheDataOffset) {
  const Bytes subbuf = encode_fence(GetParam(), kBegin);
  const auto at = std::span(subbuf).subspan(GetParam().data_offset, kFenceMagicSize);
  EXPECT_TRUE(std::ranges::equal(at, fence_magic()));
}

TEST_P(FenceIn, IsNoneWhenAnyOfItsBytesIsChanged) {
  const Bytes good = encode_fence(GetParam(), kEnd);
  for (std::size_t i = 0; i < 60; ++i) {
    Bytes changed = good;
    changed[GetParam().data_offset + i] ^= std::byte{1};
    EXPECT_FALSE(decode_fence(GetParam(), changed)) << "byte " << i;
  }
}

TEST_P(FenceIn, IsNoneWhenItHasEvents) {
  for (std::uint32_t i = 0; i < GetParam().commit_size; ++i) {
    Bytes subbuf = encode_fence(GetParam(), kBegin);
    subbuf[GetParam().commit_offset + i] = std::byte{4};
    EXPECT_FALSE(decode_fence(GetParam(), subbuf)) << "commit byte " << i;
  }
}

TEST_P(FenceIn, IsNoneWhenCutOff) {
  const Bytes subbuf = encode_fence(GetParam(), kBegin);
  EXPECT_FALSE(decode_fence(GetParam(), std::span(subbuf).first(subbuf.size() - 1)));
  EXPECT_FALSE(decode_fence(GetParam(), {}));
}

TEST(Fence, IsNotAnEmptySubbuf) {
  EXPECT_FALSE(decode_fence(SubbufLayout{}, Bytes(4096)));
}

TEST(Fence, HasAMagicThatCannotOverlapItself) {
  const auto magic = fence_magic();
  EXPECT_EQ(std::ranges::count(magic, magic[0]), 1);
}

}  // namespace
}  // namespace vtrace
