#include "common/subbuffer.h"

#include <gtest/gtest.h>

#include <string>

#include "common/wire.h"
#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::why;

// events/header_page as kernels have it.
constexpr std::string_view kKernel61 =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
constexpr std::string_view kKernel612 =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
constexpr std::string_view kKernel618With8K =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:8176;\tsigned:0;\n";
constexpr std::string_view kKernel618With64K =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:65520;\tsigned:0;\n";
constexpr std::string_view k32Bit =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:12;\tsize:4084;\tsigned:1;\n";

SubbufLayout layout_of(std::string_view text) {
  const auto layout = parse_header_page(text);
  EXPECT_TRUE(layout) << why(layout);
  return layout.value_or(SubbufLayout{});
}

TEST(HeaderPage, OfRealKernelsGivesTheirLayout) {
  for (const std::string_view text : {kKernel61, kKernel612}) {
    const SubbufLayout layout = layout_of(text);
    EXPECT_EQ(layout, (SubbufLayout{0, 8, 8, 16, 4080}));
    EXPECT_EQ(layout.size(), 4096U);
  }
  EXPECT_EQ(layout_of(kKernel618With8K).size(), 8192U);
  EXPECT_EQ(layout_of(kKernel618With64K).size(), 65536U);
}

TEST(HeaderPage, OfA32BitKernelHasAFourByteCommit) {
  const SubbufLayout layout = layout_of(k32Bit);
  EXPECT_EQ(layout, (SubbufLayout{0, 8, 4, 12, 4084}));
  EXPECT_EQ(layout.size(), 4096U);
}

TEST(HeaderPage, IsReadWithoutItsLastNewline) {
  EXPECT_EQ(layout_of(kKernel61.substr(0, kKernel61.size() - 1)).size(), 4096U);
}

TEST(HeaderPage, MayHaveFieldsThatAreNotKnown) {
  const std::string text = "\tfield: u32 data_more;\toffset:0;\tsize:4;\tsigned:0;\n" +
                           std::string(kKernel612) +
                           "\tfield: u64 extra;\toffset:8;\tsize:8;\tsigned:0;\n\nrubbish\n";
  EXPECT_EQ(layout_of(text), layout_of(kKernel612));
}

TEST(HeaderPage, WithoutOneOfItsFieldsIsRefused) {
  for (const std::string_view field : {"timestamp", "commit", "data"}) {
    std::string text(kKernel612);
    text.replace(text.find(" " + std::string(field) + ";") + 1, field.size(), "other");
    const auto layout = parse_header_page(text);
    ASSERT_FALSE(layout) << field;
    EXPECT_TRUE(layout.error().message.starts_with("header_page: ")) << layout.error().message;
  }
  EXPECT_FALSE(parse_header_page(""));
  EXPECT_FALSE(parse_header_page("\n\n\n"));
}

std::string text_with(std::string_view timestamp, std::string_view commit, std::string_view data) {
  std::string text = "\tfield: u64 timestamp;\t";
  text.append(timestamp).append("\n\tfield: local_t commit;\t").append(commit);
  return text.append("\n\tfield: char data;\t").append(data).append("\n");
}

TEST(HeaderPage, WithNumbersThatCannotBeIsRefused) {
  const std::string_view time = "offset:0;\tsize:8;";
  const std::string_view commit = "offset:8;\tsize:8;";
  const std::string_view data = "offset:16;\tsize:4080;";
  ASSERT_TRUE(parse_header_page(text_with(time, commit, data)));
  for (const std::string_view bad :
       {"offset:4294967288;\tsize:8;", "offset:12;\tsize:8;", "offset:0;\tsize:4;",
        "offset:8;\tsize:8;", "offset:-8;\tsize:8;", "offset:;\tsize:8;", "offset:0;",
        "offset:99999999999999999999;\tsize:8;"})
    EXPECT_FALSE(parse_header_page(text_with(bad, commit, data))) << "timestamp " << bad;
  for (const std::string_view bad :
       {"offset:4294967292;\tsize:4;", "offset:4294967288;\tsize:8;", "offset:12;\tsize:8;",
        "offset:8;\tsize:2;", "offset:4;\tsize:8;", "offset:8;\tsize:4294967295;"})
    EXPECT_FALSE(parse_header_page(text_with(time, bad, data))) << "commit " << bad;
  for (const std::string_view bad :
       {"offset:16;\tsize:0;", "offset:16;\tsize:48;", "offset:16;\tsize:4081;",
        "offset:8;\tsize:4088;", "offset:16;\tsize:4294967295;", "offset:4294967280;\tsize:4096;",
        "offset:16;\tsize:4194296;", "offset:8192;\tsize:4096;"})
    EXPECT_FALSE(parse_header_page(text_with(time, commit, bad))) << "data " << bad;
}

// One sub-buffer of the given layout.
Bytes subbuf_with(const SubbufLayout& layout, std::uint64_t commit) {
  Bytes bytes(layout.size(), std::byte{0xee});
  const auto store = [&](std::uint32_t offset, std::uint64_t value, std::uint32_t size) {
    for (std::uint32_t i = 0; i < size; ++i)
      bytes[offset + i] = static_cast<std::byte>(value >> (8 * i));
  };
  store(layout.timestamp_offset, 0x1122334455667788, 8);
  store(layout.commit_offset, commit, layout.commit_size);
  const auto length = static_cast<std::uint32_t>(commit & 0x7ffffff);
  if (length + layout.commit_size <= layout.data_size)
    store(layout.data_offset + length, 0xffffffff00000003 + length, layout.commit_size);
  return bytes;
}

class SubbufHeaderOf : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kernels, SubbufHeaderOf,
                         ::testing::Values(kKernel61, kKernel618With64K, k32Bit));

TEST_P(SubbufHeaderOf, GivesTimeAndLength) {
  const SubbufLayout layout = layout_of(GetParam());
  const auto header = read_subbuf_header(layout, subbuf_with(layout, 1000));
  ASSERT_TRUE(header) << why(header);
  EXPECT_EQ(header->timestamp, 0x1122334455667788U);
  EXPECT_EQ(header->data_bytes, 1000U);
  EXPECT_FALSE(header->events_lost);
  EXPECT_FALSE(header->lost_events);
}

TEST_P(SubbufHeaderOf, TellsALossWithoutANumber) {
  const SubbufLayout layout = layout_of(GetParam());
  const auto header = read_subbuf_header(layout, subbuf_with(layout, 0x80000000U + 1000));
  ASSERT_TRUE(header) << why(header);
  EXPECT_EQ(header->data_bytes, 1000U);
  EXPECT_TRUE(header->events_lost);
  EXPECT_FALSE(header->lost_events);
}

TEST_P(SubbufHeaderOf, TellsHowManyWereLost) {
  const SubbufLayout layout = layout_of(GetParam());
  const auto header = read_subbuf_header(layout, subbuf_with(layout, 0xc0000000U + 1000));
  ASSERT_TRUE(header) << why(header);
  EXPECT_EQ(header->data_bytes, 1000U);
  EXPECT_TRUE(header->events_lost);
  const std::uint64_t stored = 0xffffffff00000003U + 1000;
  EXPECT_EQ(header->lost_events, layout.commit_size == 8 ? stored : stored & 0xffffffffU);
}

TEST_P(SubbufHeaderOf, MasksFlagsThatAreSignExtended) {
  const SubbufLayout layout = layout_of(GetParam());
  const auto header = read_subbuf_header(layout, subbuf_with(layout, 0xffffffffc0000fe0));
  ASSERT_TRUE(header) << why(header);
  EXPECT_EQ(header->data_bytes, 0xfe0U);
  EXPECT_TRUE(header->events_lost);
  EXPECT_TRUE(header->lost_events);
}

TEST_P(SubbufHeaderOf, ReadsNoNumberWhereThereIsNoRoomForOne) {
  const SubbufLayout layout = layout_of(GetParam());
  for (std::uint32_t room = 0; room <= layout.commit_size; ++room) {
    const auto header =
        read_subbuf_header(layout, subbuf_with(layout, 0xc0000000U + layout.data_size - room));
    ASSERT_TRUE(header) << why(header);
    EXPECT_TRUE(header->events_lost);
    EXPECT_EQ(header->lost_events.has_value(), room == layout.commit_size) << room;
  }
}

TEST_P(SubbufHeaderOf, CallsALengthPastTheEndDamage) {
  const SubbufLayout layout = layout_of(GetParam());
  EXPECT_TRUE(read_subbuf_header(layout, subbuf_with(layout, layout.data_size)));
  for (const std::uint64_t commit : {std::uint64_t{layout.data_size} + 1, std::uint64_t{0x07ffffff},
                                     std::uint64_t{0xc7ffffff}}) {
    const auto header = read_subbuf_header(layout, subbuf_with(layout, commit));
    ASSERT_FALSE(header) << commit;
    EXPECT_NE(header.error().message.find("room for"), std::string::npos);
  }
}

TEST_P(SubbufHeaderOf, RefusesATruncatedSubbuf) {
  const SubbufLayout layout = layout_of(GetParam());
  Bytes bytes = subbuf_with(layout, 0xc0000000U);
  for (const std::size_t size : {std::size_t{0}, std::size_t{8}, bytes.size() - 1}) {
    bytes.resize(size);
    EXPECT_FALSE(read_subbuf_header(layout, bytes)) << size;
    bytes = subbuf_with(layout, 0xc0000000U);
  }
}

TEST(SubbufHeader, OfZerosIsAnEmptyOne) {
  const auto header = read_subbuf_header(SubbufLayout{}, Bytes(4096));
  ASSERT_TRUE(header) << why(header);
  EXPECT_EQ(header->data_bytes, 0U);
  EXPECT_EQ(header->timestamp, 0U);
}

}  // namespace
}  // namespace vtrace
