#include "host-cli/subbuf_walker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/fence.h"
#include "tests/support/subbuf_builder.h"

namespace vtrace {
namespace {

using test::SubbufBuilder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Walked {
  std::vector<std::string> events;  // "TIME:PAYLOAD"
  std::optional<SubbufDamage> damage;
  bool lost = false;
  std::optional<std::uint64_t> lost_events;
};

Walked walk(std::span<const std::byte> subbuf, const SubbufLayout& layout = {}) {
  SubbufWalker walker(layout);
  walker.open(subbuf);
  Walked walked;
  RawEvent event;
  while (walker.next(event))
    walked.events.push_back(std::to_string(event.time) + ":" + std::string(as_text(event.payload)));
  EXPECT_FALSE(walker.next(event));  // the end stays the end
  walked.damage = walker.damage();
  walked.lost = walker.events_lost();
  walked.lost_events = walker.lost_events();
  return walked;
}

std::span<const std::byte> text(std::string_view bytes) {
  return as_bytes(bytes);
}

TEST(SubbufWalker, GivesEventsWithTheirTimes) {
  const auto subbuf = SubbufBuilder(1000)
                          .event(0, text("aaaa"))
                          .event(5, text("bbbbbbbb"))
                          .long_event(7, text("cccccc"))
                          .build();
  const Walked walked = walk(subbuf);
  EXPECT_THAT(walked.events, ElementsAre("1000:aaaa", "1005:bbbbbbbb", "1012:cccccc"));
  EXPECT_FALSE(walked.damage);
  EXPECT_FALSE(walked.lost);
}

TEST(SubbufWalker, TakesTheLongestEventOfEachKind) {
  const std::string words(112, 'w');
  const std::string longer(4060, 'x');
  EXPECT_THAT(walk(SubbufBuilder(1).event(0, text(words)).build()).events,
              ElementsAre("1:" + words));
  EXPECT_THAT(walk(SubbufBuilder(1).long_event(0, text(longer)).build()).events,
              ElementsAre("1:" + longer));
}

TEST(SubbufWalker, AddsTimeExtendsBeyondTheDeltasBits) {
  const std::uint64_t far = (std::uint64_t{77} << 27U) + 123;
  const auto subbuf = SubbufBuilder(10).extend(far).event(1, text("aaaa")).build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre(std::to_string(10 + far + 1) + ":aaaa"));
}

TEST(SubbufWalker, ReplacesTheTimeByAnAbsoluteStamp) {
  const auto subbuf =
      SubbufBuilder(10).event(0, text("aaaa")).stamp(5'000'000'000).event(2, text("bbbb")).build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre("10:aaaa", "5000000002:bbbb"));
}

TEST(SubbufWalker, KeepsTheTopFiveBitsOfClocksThatCountFrom1970) {
  const std::uint64_t now = 1'796'042'162'728'029'000;  // above 2^59
  const std::uint64_t later = now + 1'000'000;
  const auto subbuf = SubbufBuilder(now)
                          .stamp(later & ((std::uint64_t{1} << 59U) - 1))
                          .event(0, text("aaaa"))
                          .build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre(std::to_string(later) + ":aaaa"));
}

TEST(SubbufWalker, FollowsAnAbsoluteStampOverTheWrapOfIts59Bits) {
  const std::uint64_t wrap = std::uint64_t{2} << 59U;
  const auto subbuf = SubbufBuilder(wrap - 5).stamp(3).event(0, text("aaaa")).build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre(std::to_string(wrap + 3) + ":aaaa"));
}

TEST(SubbufWalker, LetsTimeGoBackALittle) {
  const std::uint64_t now = 1'796'042'162'728'029'000;
  const std::uint64_t back = now - 1000;
  const auto subbuf = SubbufBuilder(now)
                          .stamp(back & ((std::uint64_t{1} << 59U) - 1))
                          .event(0, text("aaaa"))
                          .build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre(std::to_string(back) + ":aaaa"));
}

TEST(SubbufWalker, SkipsDiscardedEventsButNotTheirTime) {
  const auto subbuf =
      SubbufBuilder(10).event(0, text("aaaa")).discarded(3, 20).event(4, text("bbbb")).build();
  EXPECT_THAT(walk(subbuf).events, ElementsAre("10:aaaa", "17:bbbb"));
}

TEST(SubbufWalker, EndsAtThePaddingOfTheRest) {
  const auto subbuf =
      SubbufBuilder(10).event(0, text("aaaa")).rest_unused().event(0, text("zzzz")).build();
  const Walked walked = walk(subbuf);
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  EXPECT_FALSE(walked.damage);
}

TEST(SubbufWalker, MasksTheFlagsAndTellsTheLoss) {
  const auto builder = SubbufBuilder(10).event(0, text("aaaa"));
  const std::uint64_t data = builder.data_bytes();
  Walked walked = walk(builder.build(data | test::kLostFlag));
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  EXPECT_TRUE(walked.lost);
  EXPECT_FALSE(walked.lost_events);

  walked = walk(builder.build(data | test::kLostFlag | test::kLostCountFlag, 123));
  EXPECT_EQ(walked.lost_events, 123U);
  // As new kernels store it: the 32 bits are sign-extended.
  walked =
      walk(builder.build(0xffffffff'00000000 | data | test::kLostFlag | test::kLostCountFlag, 9));
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  EXPECT_EQ(walked.lost_events, 9U);
}

TEST(SubbufWalker, TakesAnEmptySubbufAsEmpty) {
  const Walked walked = walk(SubbufBuilder(10).build());
  EXPECT_THAT(walked.events, IsEmpty());
  EXPECT_FALSE(walked.damage);
}

TEST(SubbufWalker, CallsASubbufOfZerosDamaged) {
  const Walked walked = walk(Bytes(4096));
  EXPECT_THAT(walked.events, IsEmpty());
  ASSERT_TRUE(walked.damage);
  EXPECT_EQ(walked.damage->offset, 0U);
}

TEST(SubbufWalker, TakesAFenceForNoDamage) {
  const SubbufLayout layout;
  const Walked walked = walk(encode_fence(layout, {.run_id = 7, .cpu = 1}));
  EXPECT_THAT(walked.events, IsEmpty());
  EXPECT_FALSE(walked.damage);
}

TEST(SubbufWalker, RefusesALengthPastTheEndOfTheSubbuf) {
  const Walked walked = walk(SubbufBuilder(10).event(0, text("aaaa")).build(36364));
  EXPECT_THAT(walked.events, IsEmpty());
  ASSERT_TRUE(walked.damage);
  EXPECT_EQ(walked.damage->offset, 8U);
  EXPECT_THAT(walked.damage->what, HasSubstr("36364"));
}

TEST(SubbufWalker, StopsAtAnEventThatRunsPastTheData) {
  const auto subbuf = SubbufBuilder(10).event(0, text("aaaa")).word(20, 1).build();
  const Walked walked = walk(subbuf);
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  ASSERT_TRUE(walked.damage);
  EXPECT_EQ(walked.damage->offset, 24U);
}

TEST(SubbufWalker, StopsAtAStoredLengthPastTheDataOrTooSmall) {
  for (const std::uint32_t length : {0xffffffffU, 0xfffffffcU, 4076U, 3U, 0U}) {
    const auto subbuf =
        SubbufBuilder(10).event(0, text("aaaa")).word(0, 1).raw_word(length).build();
    const Walked walked = walk(subbuf);
    EXPECT_THAT(walked.events, ElementsAre("10:aaaa")) << length;
    ASSERT_TRUE(walked.damage) << length;
    EXPECT_EQ(walked.damage->offset, 24U);
  }
}

TEST(SubbufWalker, StopsAtTwoWordEntriesOfWhichOneIsThere) {
  for (const std::uint32_t type : {0U, 29U, 30U, 31U}) {
    const Walked walked = walk(SubbufBuilder(10).event(0, text("aaaa")).word(type, 1).build());
    EXPECT_THAT(walked.events, ElementsAre("10:aaaa")) << type;
    EXPECT_TRUE(walked.damage) << type;
  }
}

TEST(SubbufWalker, StopsAtADiscardedEventThatRunsPastTheData) {
  for (const std::uint32_t bytes : {0xffffffffU, 0xfffffffcU, 100U, 0U}) {
    const auto subbuf =
        SubbufBuilder(10).event(0, text("aaaa")).word(29, 1).raw_word(bytes).build();
    const Walked walked = walk(subbuf);
    EXPECT_THAT(walked.events, ElementsAre("10:aaaa")) << bytes;
    EXPECT_TRUE(walked.damage) << bytes;
  }
}

TEST(SubbufWalker, StopsAtATailThatIsNoWord) {
  const auto builder = SubbufBuilder(10).event(0, text("aaaa")).raw_word(0);
  const Walked walked = walk(builder.build(builder.data_bytes() - 2));
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  EXPECT_TRUE(walked.damage);
}

TEST(SubbufWalker, GivesTheWholeEventsOfASubbufThatWasCutOff) {
  const auto subbuf = SubbufBuilder(10)
                          .event(0, text("aaaa"))
                          .event(1, text("bbbb"))
                          .event(1, text("cccc"))
                          .build();
  const std::span<const std::byte> whole = subbuf;
  Walked walked = walk(whole.first(16 + 8 + 8));
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa", "11:bbbb"));
  ASSERT_TRUE(walked.damage);
  walked = walk(whole.first(16 + 8 + 6));
  EXPECT_THAT(walked.events, ElementsAre("10:aaaa"));
  EXPECT_TRUE(walked.damage);
  for (std::size_t size = 0; size < 16; ++size) {
    walked = walk(whole.first(size));
    EXPECT_THAT(walked.events, IsEmpty());
    EXPECT_TRUE(walked.damage);
  }
}

TEST(SubbufWalker, ReadsTheLayoutOf32BitKernelsAndLargeSubbufs) {
  const SubbufLayout narrow{.commit_size = 4, .data_offset = 12, .data_size = 4084};
  EXPECT_THAT(walk(SubbufBuilder(3, narrow).event(1, text("aaaa")).build(), narrow).events,
              ElementsAre("4:aaaa"));
  const SubbufLayout large{.data_size = 65536 - 16};
  const std::string payload(60000, 'p');
  EXPECT_THAT(walk(SubbufBuilder(3, large).long_event(1, text(payload)).build(), large).events,
              ElementsAre("4:" + payload));
}

// Whatever the bytes are: no read outside of them (the sanitizers watch), no endless walk, events
// inside of the sub-buffer.
TEST(SubbufWalker, SurvivesRandomAndMutatedSubbufs) {
  std::mt19937 generator(42);
  const auto random = [&generator] { return static_cast<std::uint32_t>(generator()); };
  const SubbufLayout layout{.data_size = 512 - 16};
  for (int round = 0; round < 20000; ++round) {
    auto builder = SubbufBuilder(random(), layout);
    while (builder.data_bytes() < 300) {
      builder.event(random() % 9, text("abcdefgh"));
      if (random() % 4 == 0) builder.extend(random());
      if (random() % 4 == 0) builder.discarded(1 + random() % 5, 12);
    }
    Bytes subbuf = builder.build();
    const std::size_t changes = round % 3 == 0 ? 400 : 1 + random() % 4;
    for (std::size_t i = 0; i < changes; ++i)
      subbuf[random() % subbuf.size()] = static_cast<std::byte>(random());
    if (round % 2 == 0) subbuf[8] = std::byte{200}, subbuf[9] = std::byte{1};
    subbuf.resize(random() % 4 == 0 ? random() % subbuf.size() : subbuf.size());
    const std::vector<std::byte> exact(subbuf.begin(), subbuf.end());
    SubbufWalker walker(layout);
    walker.open(exact);
    RawEvent event;
    std::size_t events = 0;
    while (walker.next(event)) {
      ASSERT_GE(event.payload.data(), exact.data());
      ASSERT_LE(event.payload.data() + event.payload.size(), exact.data() + exact.size());
      ASSERT_LE(++events, exact.size());
    }
  }
}

}  // namespace
}  // namespace vtrace
