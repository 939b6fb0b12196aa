#include "common/wire.h"

#include <gtest/gtest.h>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::bytes_of;
using test::to_hex;

TEST(ByteWriter, WritesLittleEndian) {
  ByteWriter out;
  out.u8(0x01);
  out.u16(0x0203);
  out.u32(0x04050607);
  out.u64(0x08090a0b0c0d0e0f);
  EXPECT_EQ(to_hex(out.bytes()), "010302070605040f0e0d0c0b0a0908");
  EXPECT_EQ(out.size(), 15U);
}

TEST(ByteWriter, WritesATextsLengthBeforeIt) {
  ByteWriter out;
  out.text("ab");
  out.text("");
  EXPECT_EQ(to_hex(out.bytes()), "02000000616200000000");
}

TEST(ByteReader, ReadsBackWhatWasWritten) {
  ByteWriter out;
  out.u8(0xff);
  out.u16(0xfffe);
  out.u32(0xfffffffd);
  out.u64(0xfffffffffffffffc);
  out.text(std::string_view("a\0b", 3));
  out.raw("tail");
  ByteReader in(out.bytes());
  EXPECT_EQ(in.u8(), 0xffU);
  EXPECT_EQ(in.u16(), 0xfffeU);
  EXPECT_EQ(in.u32(), 0xfffffffdU);
  EXPECT_EQ(in.u64(), 0xfffffffffffffffcU);
  EXPECT_EQ(in.text(), std::string("a\0b", 3));
  EXPECT_EQ(in.left(), 4U);
  EXPECT_EQ(as_text(in.raw(4)), "tail");
  EXPECT_TRUE(in.ok());
  EXPECT_EQ(in.left(), 0U);
}

TEST(ByteReader, ReadsZeroPastTheEndAndSaysSoFromThenOn) {
  const Bytes three = bytes_of("abc");
  ByteReader in(three);
  EXPECT_EQ(in.u32(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u8(), 0U) << "what is left after a failed read must not be taken for data";
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.ok());
}

TEST(ByteReader, DoesNotBelieveATextsLength) {
  ByteWriter out;
  out.u32(0xffffffff);
  out.raw("short");
  ByteReader in(out.bytes());
  EXPECT_EQ(in.text(), "");
  EXPECT_FALSE(in.ok());
}

TEST(ByteReader, TakesNothingFromAnEmptySpanWithoutFailing) {
  ByteReader in({});
  EXPECT_TRUE(in.raw(0).empty());
  EXPECT_TRUE(in.ok());
}

}  // namespace
}  // namespace vtrace
