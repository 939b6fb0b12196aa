#include "host-cli/merged_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "common/fd.h"
#include "tests/support/must.h"
#include "tests/support/subbuf_builder.h"

namespace vtrace {
namespace {

using test::SubbufBuilder;
using ::testing::ElementsAre;

class MergedReaderTest : public ::testing::Test {
 protected:
  // A CPU whose data are these sub-buffers.
  void add(int cpu, const std::vector<Bytes>& subbufs, std::size_t cut = 0) {
    Fd fd(::memfd_create("subbufs", MFD_CLOEXEC));
    std::uint64_t size = 0;
    for (const Bytes& subbuf : subbufs) {
      test::must(write_all(fd.get(), subbuf, "memfd"));
      size += subbuf.size();
    }
    inputs_.push_back({cpu, make_plain_source(fd.get(), 0, size - cut, layout_.size(), "memfd")});
    fds_.push_back(std::move(fd));
  }

  // "CPU@TIME:PAYLOAD", with what was missing before it in front.
  std::vector<std::string> read(const TimeCorrection* correction = nullptr) {
    reader_.emplace(layout_, std::move(inputs_), correction);
    std::vector<std::string> lines;
    MergedEvent event;
    while (reader_->next(event)) {
      std::string line;
      if (event.gap.damaged) line += "damaged ";
      if (event.gap.lost)
        line += event.gap.count_known ? std::to_string(event.gap.lost_events) + " lost " : "lost ";
      line += std::to_string(event.cpu) + "@" + std::to_string(event.time) + ":";
      lines.push_back(line + std::string(as_text(event.payload)));
    }
    return lines;
  }

  static Bytes one(std::uint64_t time, std::string_view payload) {
    return SubbufBuilder(time).event(0, as_bytes(payload)).build();
  }

  SubbufLayout layout_;
  std::vector<Fd> fds_;
  std::vector<CpuInput> inputs_;
  std::optional<MergedReader> reader_;
};

TEST_F(MergedReaderTest, OrdersByTimeAndTheLowerCpuFirst) {
  add(0, {one(10, "aaaa"), one(40, "dddd")});
  add(2, {one(10, "bbbb"), one(20, "cccc"), one(50, "eeee")});
  add(5, {});
  EXPECT_THAT(read(), ElementsAre("0@10:aaaa", "2@10:bbbb", "2@20:cccc", "0@40:dddd", "2@50:eeee"));
  const auto tallies = reader_->tallies();
  ASSERT_EQ(tallies.size(), 3U);
  EXPECT_EQ(tallies[1].events, 3U);
  EXPECT_EQ(tallies[1].subbufs, 3U);
  EXPECT_EQ(tallies[1].first_time, 10U);
  EXPECT_EQ(tallies[1].last_time, 50U);
  EXPECT_EQ(tallies[2].events, 0U);
  EXPECT_FALSE(tallies[2].first_time);
}

TEST_F(MergedReaderTest, KeepsTheOrderWhereTimeGoesBackAndCountsIt) {
  add(0, {one(100, "aaaa"), one(90, "bbbb"), one(110, "cccc")});
  add(1, {one(95, "xxxx")});
  EXPECT_THAT(read(), ElementsAre("1@95:xxxx", "0@100:aaaa", "0@90:bbbb", "0@110:cccc"));
  EXPECT_EQ(reader_->tallies()[0].time_back, 1U);
}

TEST_F(MergedReaderTest, MarksALossBeforeTheEventBehindIt) {
  const auto event = SubbufBuilder(20).event(0, as_bytes("bbbb"));
  add(0, {one(10, "aaaa"),
          event.build(event.data_bytes() | test::kLostFlag | test::kLostCountFlag, 7)});
  const auto later = SubbufBuilder(30).event(0, as_bytes("cccc"));
  add(1, {one(25, "xxxx"), later.build(later.data_bytes() | test::kLostFlag)});
  EXPECT_THAT(read(), ElementsAre("0@10:aaaa", "7 lost 0@20:bbbb", "1@25:xxxx", "lost 1@30:cccc"));
  EXPECT_EQ(reader_->tallies()[0].lost_events, 7U);
  EXPECT_EQ(reader_->tallies()[1].lost_unknown, 1U);
}

TEST_F(MergedReaderTest, CarriesALossOverAnEmptySubbuf) {
  const SubbufBuilder empty(15);
  add(0, {one(10, "aaaa"), empty.build(std::uint64_t{test::kLostFlag} | test::kLostCountFlag, 5),
          one(20, "bbbb")});
  EXPECT_THAT(read(), ElementsAre("0@10:aaaa", "5 lost 0@20:bbbb"));
}

TEST_F(MergedReaderTest, GoesOnBehindDamageAndTellsItsPlace) {
  add(3, {one(10, "aaaa"), Bytes(4096), one(20, "bbbb"),
          SubbufBuilder(30).event(0, as_bytes("cccc")).word(28, 1).build(), one(40, "dddd")});
  EXPECT_THAT(read(),
              ElementsAre("3@10:aaaa", "damaged 3@20:bbbb", "3@30:cccc", "damaged 3@40:dddd"));
  EXPECT_EQ(reader_->tallies()[0].damaged, 2U);
  ASSERT_EQ(reader_->damage().size(), 2U);
  EXPECT_EQ(reader_->damage()[0].cpu, 3);
  EXPECT_EQ(reader_->damage()[0].offset, 4096U);
  EXPECT_EQ(reader_->damage()[1].offset, 3 * 4096U + 24);
}

TEST_F(MergedReaderTest, ReadsAFileThatEndsInsideASubbuf) {
  add(0, {one(10, "aaaa"), one(20, "bbbb")}, 4096 - 20);
  EXPECT_THAT(read(), ElementsAre("0@10:aaaa"));
  EXPECT_EQ(reader_->tallies()[0].damaged, 1U);
  add(0, {one(10, "aaaa"), one(20, "bbbb")}, 1000);
  EXPECT_THAT(read(), ElementsAre("0@10:aaaa", "0@20:bbbb"));
}

TEST_F(MergedReaderTest, ReadsManyWindowsOfManyCpus) {
  constexpr int kCpus = 9;
  constexpr std::uint64_t kSubbufs = 100;  // more than one window of 128 KiB
  for (int cpu = 0; cpu < kCpus; ++cpu) {
    std::vector<Bytes> subbufs;
    for (std::uint64_t i = 0; i < kSubbufs; ++i)
      subbufs.push_back(one(100 + i * 10 + static_cast<std::uint64_t>(cpu * 7 % kCpus), "aaaa"));
    add(cpu, subbufs);
  }
  reader_.emplace(layout_, std::move(inputs_), nullptr);
  MergedEvent event;
  std::uint64_t before = 0;
  std::uint64_t count = 0;
  while (reader_->next(event)) {
    EXPECT_LE(before, event.time);
    before = event.time;
    ++count;
  }
  EXPECT_EQ(count, kCpus * kSubbufs);
}

TEST_F(MergedReaderTest, MergesByCorrectedTimes) {
  ByteWriter shift;
  shift.u64(1);  // peer
  shift.u32(0);
  shift.u32(2);  // CPUs
  for (const std::uint64_t offset : {std::uint64_t{1000}, std::uint64_t{0} - 5}) {
    shift.u32(1);
    shift.u64(0);
    shift.u64(offset);
    shift.u64(1);
  }
  std::vector<std::pair<std::uint16_t, Bytes>> options;
  options.emplace_back(12, shift.take());
  const TimeCorrection correction(options);
  add(0, {one(10, "aaaa")});
  add(1, {one(20, "bbbb")});
  EXPECT_THAT(read(&correction), ElementsAre("1@15:bbbb", "0@1010:aaaa"));
}

}  // namespace
}  // namespace vtrace
