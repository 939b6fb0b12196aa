#include "common/metadata.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::why;

Metadata full() {
  Metadata metadata;
  metadata.header_page = "page\n";
  metadata.header_event = "event\n";
  metadata.formats = {{"ftrace", "print", "name: print\n"}, {"sched", "sched_switch", "name: s\n"}};
  metadata.kallsyms = std::string("ffffffff81000000 T _text\0x", 26);
  metadata.printk_formats = "0xff : \"x\"\n";
  metadata.saved_cmdlines = "1 init\n";
  metadata.trace_clock = "[local] global\n";
  metadata.sysname = "Linux";
  metadata.nodename = "guest";
  metadata.kernel_release = "6.12.0";
  metadata.machine = "x86_64";
  metadata.cpus_possible = "0-7";
  metadata.cpus_present = "0-3";
  metadata.cpus_online = "0,2-3";
  return metadata;
}

void expect_same(const Metadata& left, const Metadata& right) {
  // The encoding holds every field, so equal bytes are equal fields.
  EXPECT_EQ(test::to_hex(encode_metadata(left)), test::to_hex(encode_metadata(right)));
}

TEST(Metadata, ReadsBackWhatWasWritten) {
  const auto back = decode_metadata(encode_metadata(full()));
  ASSERT_TRUE(back) << why(back);
  expect_same(*back, full());
  EXPECT_EQ(back->kallsyms, full().kallsyms);
  EXPECT_EQ(back->cpus_online, "0,2-3");
  ASSERT_EQ(back->formats.size(), 2U);
  EXPECT_EQ(back->formats[1].system, "sched");
  EXPECT_EQ(back->formats[1].name, "sched_switch");
  EXPECT_EQ(back->formats[1].text, "name: s\n");
}

TEST(Metadata, OfNothingIsEmpty) {
  const auto back = decode_metadata(encode_metadata(Metadata{}));
  ASSERT_TRUE(back) << why(back);
  expect_same(*back, Metadata{});
}

TEST(Metadata, TakesOverOnlyThePartsThatAreThere) {
  Metadata metadata = full();
  Metadata other;
  other.trace_clock = "local [boot]\n";
  metadata.merge(other);
  EXPECT_EQ(metadata.trace_clock, "local [boot]\n");
  EXPECT_EQ(metadata.kernel_release, "6.12.0");
  EXPECT_EQ(metadata.formats.size(), 2U);
  other.formats = {{"irq", "irq_handler_entry", "name: i\n"}};
  metadata.merge(other);
  ASSERT_EQ(metadata.formats.size(), 1U);
  EXPECT_EQ(metadata.formats[0].system, "irq");
}

TEST(Metadata, SkipsTagsAndGrowthThatAreNotKnown) {
  ByteWriter out;
  out.raw(encode_metadata(Metadata{}));
  out.u16(9999);
  out.text("from a newer agent");
  ByteWriter format;
  format.text("sched");
  format.text("sched_switch");
  format.text("text");
  format.u64(7);
  out.u16(100);
  out.text(as_text(format.bytes()));
  out.u16(7);
  out.text("Linux");
  const auto metadata = decode_metadata(out.bytes());
  ASSERT_TRUE(metadata) << why(metadata);
  EXPECT_EQ(metadata->sysname, "Linux");
  ASSERT_EQ(metadata->formats.size(), 1U);
  EXPECT_EQ(metadata->formats[0].text, "text");
}

TEST(Metadata, CutOffAnywhereIsAnErrorOrLessOfIt) {
  const Bytes whole = encode_metadata(full());
  std::size_t errors = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = decode_metadata(std::span(whole).first(size));
    // Between two records a cut cannot be seen here: the chunks' total tells it.
    if (!cut) ++errors;
  }
  EXPECT_GE(errors, whole.size() - 16);
}

TEST(Metadata, OfAnotherVersionIsRefused) {
  Bytes bytes = encode_metadata(full());
  bytes[0] = std::byte{2};
  const auto metadata = decode_metadata(bytes);
  ASSERT_FALSE(metadata);
  EXPECT_NE(metadata.error().message.find("version"), std::string::npos);
}

TEST(Metadata, DoesNotBelieveALengthPastTheEnd) {
  ByteWriter out;
  out.u32(1);
  out.u16(3);
  out.u32(0xffffffff);
  out.raw("short");
  EXPECT_FALSE(decode_metadata(out.bytes()));
}

TEST(Metadata, RefusesAFormatThatIsCutShort) {
  ByteWriter record;
  record.text("sched");
  record.u32(50);
  ByteWriter out;
  out.u32(1);
  out.u16(100);
  out.text(as_text(record.bytes()));
  EXPECT_FALSE(decode_metadata(out.bytes()));
}

}  // namespace
}  // namespace vtrace
