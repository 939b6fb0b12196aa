#include "host-cli/event_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/must.h"
#include "tests/support/sample_formats.h"

namespace vtrace {
namespace {

using test::sample_field;
using test::sample_format;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A record's payload: the common fields of event `id` and task 77, then what `fill` appends.
template <typename Fill>
Bytes record(int id, Fill fill) {
  ByteWriter out;
  out.u16(static_cast<std::uint16_t>(id));
  out.u16(0);
  out.u32(77);
  fill(out);
  return out.take();
}

Bytes number_record(std::uint32_t value) {
  return record(test::kNumberId, [&](ByteWriter& out) { out.u32(value); });
}

class EventDecoderTest : public ::testing::Test {
 protected:
  void add(const std::string& system, const std::string& name, int id, const std::string& fields,
           const std::string& print_fmt) {
    metadata_.formats.push_back({system, name, sample_format(name, id, fields, print_fmt)});
  }
  std::string print(std::span<const std::byte> payload, std::uint64_t time = 1'234'567'890) {
    // An exact allocation: the sanitizers see a read past its end.
    const std::vector<std::byte> exact(payload.begin(), payload.end());
    if (!decoder_) decoder_.emplace(test::must(EventDecoder::create(metadata_, options_)));
    std::string text;
    decoder_->print(3, time, exact, text);
    return text;
  }

  Metadata metadata_ = test::sample_metadata();
  DecoderOptions options_;
  std::optional<EventDecoder> decoder_;
};

TEST_F(EventDecoderTest, PrintsTheColumnsOfTraceCmdReport) {
  EXPECT_EQ(print(number_record(5)),
            "          worker-77    [003]     1.234568: number:               value=5\n");
  EXPECT_EQ(print(number_record(0xffffffff), 12'345'678'000'000'499),
            "          worker-77    [003] 12345678.000000: number:               value=-1\n");
  EXPECT_THAT(decoder_->notes(), IsEmpty());
}

TEST_F(EventDecoderTest, PrintsTicksAsTheyAreAndNanosecondsInFullWhenAsked) {
  options_.nanoseconds = false;
  EXPECT_THAT(print(number_record(5), 42), HasSubstr("[003]          42: number:"));
  decoder_.reset();
  options_ = {.full_time = true};
  EXPECT_THAT(print(number_record(5)), HasSubstr("[003]     1.234567890: number:"));
}

TEST_F(EventDecoderTest, PrintsMarkersWithAndWithoutTheirNewline) {
  for (const std::string text : {"hello", "hello\n"}) {
    const Bytes payload = record(5, [&](ByteWriter& out) {
      out.u64(0xffffffff81000000);
      out.raw(text);
      out.u8(0);
    });
    EXPECT_THAT(print(payload), EndsWith("hello\n"));
    EXPECT_THAT(print(payload), Not(EndsWith("\n\n")));
  }
}

TEST_F(EventDecoderTest, ShowsUnknownEventsWithTheirId) {
  const std::string line = print(record(999, [](ByteWriter& out) { out.u32(0x11223344); }));
  EXPECT_THAT(line, HasSubstr("worker-77 "));
  EXPECT_THAT(line, HasSubstr("[UNKNOWN EVENT]"));
  EXPECT_THAT(line, HasSubstr("id=999"));
  EXPECT_THAT(line, HasSubstr("44 33 22 11"));
  EXPECT_EQ(print(record(999, [](ByteWriter&) {})).substr(0, 10), "          ");
  EXPECT_EQ(decoder_->unknown_records(), 2U);
  ASSERT_EQ(decoder_->notes().size(), 1U);
  EXPECT_THAT(decoder_->notes()[0], HasSubstr("999"));
}

TEST_F(EventDecoderTest, ShowsRecordsThatAreTooShortForAnyEvent) {
  const Bytes whole = number_record(1);
  for (std::size_t size = 0; size < 8; ++size)
    EXPECT_THAT(print(std::span(whole).first(size)), HasSubstr("too few")) << size;
}

TEST_F(EventDecoderTest, ShowsARecordShorterThanItsFieldsRaw) {
  const Bytes whole = number_record(0x01020304);
  const std::string line = print(std::span(whole).first(10));
  EXPECT_THAT(line, HasSubstr("number:"));
  EXPECT_THAT(line, HasSubstr("DAMAGED"));
  EXPECT_EQ(decoder_->damaged_records(), 1U);
  EXPECT_THAT(print(number_record(4)), EndsWith("value=4\n"));  // the next one is right
  EXPECT_EQ(decoder_->notes().size(), 1U);
}

TEST_F(EventDecoderTest, PrintsDynamicStringsWhereverTheyLie) {
  add("test", "dynamic", 401,
      sample_field("__data_loc char[] one", 8, 4) + sample_field("__data_loc char[] two", 12, 4),
      "\"one=%s two=%s\", __get_str(one), __get_str(two)");
  const Bytes good = record(401, [](ByteWriter& out) {
    out.u32(20U | (4U << 16U));
    out.u32(16U | (4U << 16U));
    out.raw(std::string_view("two\0one\0", 8));
  });
  EXPECT_THAT(print(good), EndsWith("one=one two=two\n"));
  const Bytes empty = record(401, [](ByteWriter& out) {
    out.u32(16);
    out.u32(16);
  });
  EXPECT_THAT(print(empty), HasSubstr("dynamic:"));
}

TEST_F(EventDecoderTest, ShowsARecordRawWhoseDynamicDataLiesPastItsEnd) {
  add("test", "dynamic", 401, sample_field("__data_loc char[] one", 8, 4),
      "\"one=%s\", __get_str(one)");
  add("test", "relative", 402, sample_field("__rel_loc char[] one", 8, 4),
      "\"one=%s\", __get_rel_str(one)");
  for (const int id : {401, 402}) {
    for (const std::uint32_t location : {0xffffffffU, 60000U | (4U << 16U), 14U | (4000U << 16U)}) {
      const Bytes bad = record(id, [&](ByteWriter& out) {
        out.u32(location);
        out.u32(0x41414141);
      });
      EXPECT_THAT(print(bad), HasSubstr("DAMAGED")) << id << " " << location;
    }
  }
  const Bytes relative = record(402, [&](ByteWriter& out) {
    out.u32(0U | (4U << 16U));
    out.raw(std::string_view("abc\0", 4));
  });
  EXPECT_THAT(print(relative), EndsWith("one=abc\n"));
}

TEST_F(EventDecoderTest, ReadsFieldsByTheirOffsetsNotByAddingUpSizes) {
  // As real-time kernels have it: further common fields, then a gap that nothing describes.
  Metadata rt = test::sample_metadata();
  std::string text =
      sample_format("gap", 403, sample_field("int value", 20, 4, true), "\"value=%d\", REC->value");
  const std::string more = sample_field("unsigned char common_migrate_disable", 8, 1) +
                           sample_field("unsigned char common_preempt_lazy_count", 9, 1);
  text.insert(text.find("\n\n") + 1, more);
  metadata_.formats.push_back({"test", "gap", text});
  const Bytes payload = record(403, [](ByteWriter& out) {
    out.u32(0xffffffff);
    out.u64(0xffffffffffffffff);
    out.u32(12);
  });
  EXPECT_THAT(print(payload), EndsWith("value=12\n"));
}

TEST_F(EventDecoderTest, TakesAnArraysLengthFromItsSizeWhereItsBoundIsAName) {
  add("test", "named", 404,
      sample_field("char comm[TASK_COMM_LEN]", 8, 16) + sample_field("int value", 24, 4, true),
      "\"comm=%s value=%d\", REC->comm, REC->value");
  const Bytes payload = record(404, [](ByteWriter& out) {
    out.raw(std::string_view("task\0\0\0\0\0\0\0\0\0\0\0\0", 16));
    out.u32(9);
  });
  EXPECT_THAT(print(payload), EndsWith("comm=task value=9\n"));
}

TEST_F(EventDecoderTest, ShowsTheFieldsOfAnEventWhosePrintFormatIsOdd) {
  add("test", "odd", 405, sample_field("int value", 8, 4, true),
      "\"value=%d\", __helper_from_the_future(REC->value)");
  add("test", "odder", 406, sample_field("int value", 8, 4, true), "\"%d\", REC->value @ 3");
  EXPECT_THAT(print(record(405, [](ByteWriter& out) { out.u32(8); })), HasSubstr("value="));
  EXPECT_THAT(print(record(406, [](ByteWriter& out) { out.u32(9); })), HasSubstr("value="));
  EXPECT_THAT(print(number_record(4)), EndsWith("value=4\n"));  // others are right
  EXPECT_THAT(decoder_->notes(), ElementsAre(HasSubstr("test:odd:"), HasSubstr("test:odder:")));
}

TEST_F(EventDecoderTest, DoesNotDivideByAFieldThatIsZero) {
  add("test", "division", 407,
      sample_field("int a", 8, 4, true) + sample_field("int b", 12, 4, true),
      "\"%d\", REC->a / REC->b");
  const auto payload = [](std::uint32_t b) {
    return record(407, [&](ByteWriter& out) {
      out.u32(12);
      out.u32(b);
    });
  };
  EXPECT_THAT(print(payload(4)), EndsWith(" 3\n"));
  EXPECT_THAT(print(payload(0)), HasSubstr("DAMAGED"));
}

TEST_F(EventDecoderTest, DoesNotFollowACountPastTheRecord) {
  add("test", "hex", 408,
      sample_field("unsigned int count", 8, 4) + sample_field("unsigned char data[8]", 12, 8),
      "\"%s\", __print_hex(REC->data, REC->count)");
  add("test", "array", 409,
      sample_field("unsigned int count", 8, 4) + sample_field("unsigned char data[8]", 12, 8),
      "\"%s\", __print_array(REC->data, REC->count, 1)");
  const auto payload = [](int id, std::uint32_t count) {
    return record(id, [&](ByteWriter& out) {
      out.u32(count);
      out.u64(0x0807060504030201);
    });
  };
  EXPECT_THAT(print(payload(408, 3)), EndsWith("01 02 03\n"));
  for (const std::uint32_t count : {9U, 100000U, 0xffffffffU}) {
    EXPECT_THAT(print(payload(408, count)), HasSubstr("DAMAGED")) << count;
    EXPECT_THAT(print(payload(409, count)), HasSubstr("DAMAGED")) << count;
  }
}

TEST_F(EventDecoderTest, ShowsEventsWithFieldsOutOfRangeRaw) {
  add("test", "far", 410, sample_field("int value", 1000000, 4, true), "\"%d\", REC->value");
  EXPECT_THAT(print(record(410, [](ByteWriter& out) { out.u32(1); })), HasSubstr("far:"));
  EXPECT_THAT(decoder_->notes(), ElementsAre(HasSubstr("out of range")));
}

TEST_F(EventDecoderTest, TakesFormatTextsThatAreNone) {
  metadata_.formats.push_back({"test", "empty", ""});
  metadata_.formats.push_back({"test", "noise", "\x01\x02 no format at all \"( { ["});
  metadata_.formats.push_back({"", "", "name: \nID: \nformat:\n"});
  metadata_.kallsyms = "this is no symbol table\n";
  metadata_.printk_formats = "neither : this";
  metadata_.saved_cmdlines = "x y\n77 worker\n";
  EXPECT_THAT(print(number_record(5)), EndsWith("value=5\n"));
}

// Random payloads under every sample format: no read out of range, a line for each.
TEST_F(EventDecoderTest, SurvivesRandomRecords) {
  add("test", "dynamic", 401,
      sample_field("__data_loc char[] one", 8, 4) + sample_field("__data_loc u32[] many", 12, 4),
      "\"%s %s\", __get_str(one), __print_array(__get_dynamic_array(many), "
      "__get_dynamic_array_len(many) / 4, 4)");
  add("test", "bits", 402, sample_field("__data_loc unsigned long[] mask", 8, 4),
      "\"%s\", __get_bitmask(mask)");
  add("test", "flags", 403, sample_field("unsigned long flags", 8, 8),
      "\"%s\", __print_flags(REC->flags, \"|\", { 1, \"A\" }, { 2, \"B\" })");
  add("test", "mac", 404, sample_field("unsigned char mac[6]", 8, 6), "\"%pM\", REC->mac");
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    Bytes payload(random() % 64);
    for (std::byte& byte : payload)
      byte = random() % 3 == 0 ? std::byte{0} : static_cast<std::byte>(random());
    const int ids[] = {5, 400, 401, 402, 403, 404};
    if (payload.size() >= 2) {
      const auto id = static_cast<unsigned>(ids[random() % std::size(ids)]);
      payload[0] = static_cast<std::byte>(id & 0xffU);
      payload[1] = static_cast<std::byte>(id >> 8U);
    }
    const std::string line = print(payload);
    ASSERT_EQ(line.back(), '\n');
  }
}

// The fast way and libtraceevent's give the same text, whatever the record.
TEST_F(EventDecoderTest, GivesTheSameTextBothWays) {
  const std::string numbers =
      sample_field("int a", 8, 4, true) + sample_field("u64 b", 16, 8) +
      sample_field("short c", 24, 2, true) + sample_field("char name[6]", 26, 6) +
      sample_field("unsigned long list[3]", 32, 24) + sample_field("__data_loc char[] text", 56, 4);
  add("test", "conversions", 401, numbers,
      "\"%d %5u|%-5d|%05d|%x|%#x|%#llx|%llu|%hd|%hhu|%o|%%|%lX\\t%s\", REC->a, REC->a, REC->a, "
      "REC->a, "
      "REC->a, REC->a, REC->b, REC->b, REC->c, REC->c, REC->a, REC->b, REC->name");
  add("test", "expressions", 402, numbers,
      "\"%d %lu %llx %d %d %lx\", (REC->a & 0xff) << 2, REC->b >> 3, REC->b * 3 - 1, REC->a > 5 ? "
      "1 : 2, "
      "!REC->c, REC->list[1]");
  add("test", "names", 403, numbers,
      "\"%s %s %s\", __print_flags(REC->a, \"|\", { 1, \"A\" }, { 2, \"B\" }, { 0x8, \"C\" }), "
      "__print_symbolic(REC->c, { 0, \"zero\" }, { 7, \"seven\" }), __get_str(text)");
  add("test", "pointers", 404, numbers,
      "\"%p %ps %pS\", (void *)REC->b, (void *)REC->b, (void *)REC->b");
  add("test", "casts", 405, numbers,
      "\"%d %u %lld %d\", (u8)REC->b, (unsigned int)REC->b, (s64)REC->b, (char)REC->a");
  metadata_.kallsyms = "0000000000000010 T first\n0000000000001000 t second\n";
  EventDecoder fast = test::must(EventDecoder::create(metadata_, {.verified_records = 0}));
  EventDecoder slow = test::must(EventDecoder::create(metadata_, {.fast = false}));
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    Bytes payload(60 + 12);
    for (std::byte& byte : payload)
      byte = static_cast<std::byte>(random() % 3 == 0 ? random() : random() % 2 * 7);
    payload.back() = std::byte{0};
    payload[0] = static_cast<std::byte>((401 + round % 5) & 0xff);
    payload[1] = std::byte{1};
    payload[56] = std::byte{60};
    payload[57] = payload[59] = std::byte{0};
    payload[58] = std::byte{12};
    std::string a;
    std::string b;
    fast.print(1, 1000, payload, a);
    slow.print(1, 1000, payload, b);
    ASSERT_EQ(a, b);
  }
}

}  // namespace
}  // namespace vtrace
