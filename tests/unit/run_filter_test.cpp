#include "host-cli/run_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vtrace {
namespace {

const SubbufLayout kLayout{.data_offset = 16, .data_size = 240};
constexpr std::uint64_t kRun = 0x1122334455667788;
constexpr std::uint32_t kCpu = 3;

// A sub-buffer whose data bytes are all `fill`.
Bytes subbuf(unsigned char fill, std::uint32_t commit_flags = 0, std::uint64_t lost = 0) {
  Bytes bytes(kLayout.size());
  const std::uint32_t data = 200;
  const std::uint32_t commit = data | commit_flags;
  for (std::size_t i = 0; i < 4; ++i) bytes[8 + i] = static_cast<std::byte>(commit >> (8 * i));
  std::fill_n(bytes.begin() + 16, data, std::byte{fill});
  for (std::size_t i = 0; i < 8; ++i)
    bytes[16 + data + i] = static_cast<std::byte>(lost >> (8 * i));
  return bytes;
}

Bytes fence(FenceKind kind, std::uint64_t run = kRun, std::uint64_t subbufs = 0) {
  return encode_fence(kLayout, {.kind = kind,
                                .run_id = run,
                                .cpu = kCpu,
                                .bytes = subbufs * kLayout.size(),
                                .subbufs = subbufs});
}

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Bytes rubbish(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

struct Kept {
  Bytes bytes;
  RunFilter::Sink sink() {
    return [this](std::span<const std::byte> data) {
      EXPECT_EQ(data.size() % kLayout.size(), 0U);
      bytes.insert(bytes.end(), data.begin(), data.end());
      return true;
    };
  }
};

TEST(RunFilter, KeepsWhatLiesBetweenTheFencesAtEverySplitOfTheStream) {
  const Bytes wanted = join({subbuf(1), subbuf(2), subbuf(3)});
  const Bytes stream = join(
      {rubbish(100), fence(FenceKind::begin), wanted, fence(FenceKind::end, kRun, 3), subbuf(9)});
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    RunFilter filter(kLayout, kRun, kCpu);
    Kept kept;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      filter.feed(std::span(stream).subspan(at, std::min(piece, stream.size() - at)), kept.sink());
    }
    ASSERT_EQ(kept.bytes, wanted) << "in pieces of " << piece;
    ASSERT_TRUE(filter.ended());
    ASSERT_EQ(filter.end_fence()->subbufs, 3U);
    ASSERT_EQ(filter.thrown_away(), 100 + kLayout.size()) << "in pieces of " << piece;
    ASSERT_EQ(filter.received_bytes(), wanted.size());
  }
}

TEST(RunFilter, FindsTheBeginFenceWhereverItStarts) {
  for (std::size_t before = 0; before < 2 * kLayout.size() + 3; ++before) {
    const Bytes stream = join({rubbish(before), fence(FenceKind::begin), subbuf(5)});
    RunFilter filter(kLayout, kRun, kCpu);
    Kept kept;
    filter.feed(stream, kept.sink());
    ASSERT_EQ(kept.bytes, subbuf(5)) << before << " bytes before it";
    ASSERT_EQ(filter.thrown_away(), before);
  }
}

TEST(RunFilter, ThrowsAwayAnEarlierRunWithItsFences) {
  const Bytes old_run =
      join({fence(FenceKind::begin, kRun + 1), subbuf(1), subbuf(2),
            fence(FenceKind::end, kRun + 1, 2), fence(FenceKind::begin, kRun + 2)});
  RunFilter filter(kLayout, kRun, kCpu);
  Kept kept;
  filter.feed(join({old_run, fence(FenceKind::begin), subbuf(7)}), kept.sink());
  EXPECT_EQ(kept.bytes, subbuf(7));
  EXPECT_EQ(filter.thrown_away(), old_run.size());
}

TEST(RunFilter, TakesAFenceThatIsDamagedForNone) {
  Bytes damaged = fence(FenceKind::begin);
  damaged[16 + 20] ^= std::byte{1};
  RunFilter filter(kLayout, kRun, kCpu);
  Kept kept;
  filter.feed(join({damaged, subbuf(1), fence(FenceKind::begin), subbuf(2)}), kept.sink());
  EXPECT_EQ(kept.bytes, subbuf(2));
}

TEST(RunFilter, TakesAnotherCpusFenceForNone) {
  RunFilter filter(kLayout, kRun, kCpu + 1);
  Kept kept;
  filter.feed(join({fence(FenceKind::begin), subbuf(1)}), kept.sink());
  EXPECT_FALSE(filter.begun());
  EXPECT_TRUE(kept.bytes.empty());
}

TEST(RunFilter, AddsUpTheLossesThatTheKernelMarks) {
  RunFilter filter(kLayout, kRun, kCpu);
  Kept kept;
  filter.feed(join({fence(FenceKind::begin), subbuf(1), subbuf(2, 0xc0000000U, 40),
                    subbuf(3, 0x80000000U), subbuf(4, 0xc0000000U, 2)}),
              kept.sink());
  EXPECT_EQ(filter.lost_events(), 42U);
  EXPECT_EQ(filter.gaps(), 3U);
  EXPECT_EQ(filter.damaged(), 0U);
}

TEST(RunFilter, CountsASubBufferWhoseLengthRunsPastItsEndAndKeepsIt) {
  Bytes damaged = subbuf(1);
  damaged[9] = std::byte{0x7f};
  RunFilter filter(kLayout, kRun, kCpu);
  Kept kept;
  filter.feed(join({fence(FenceKind::begin), damaged, subbuf(2)}), kept.sink());
  EXPECT_EQ(filter.damaged(), 1U);
  EXPECT_EQ(kept.bytes, join({damaged, subbuf(2)}));
}

TEST(RunFilter, GoesOnCountingAfterItsSinkHasFailed) {
  RunFilter filter(kLayout, kRun, kCpu);
  int calls = 0;
  const auto full = [&calls](std::span<const std::byte> /*data*/) {
    ++calls;
    return false;
  };
  filter.feed(join({fence(FenceKind::begin), subbuf(1)}), full);
  filter.feed(join({subbuf(2), fence(FenceKind::end, kRun, 2)}), full);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(filter.kept_bytes(), 0U);
  EXPECT_EQ(filter.received_bytes(), 2 * kLayout.size());
  EXPECT_TRUE(filter.ended());
}

}  // namespace
}  // namespace vtrace
