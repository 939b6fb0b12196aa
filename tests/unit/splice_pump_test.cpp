#include "common/splice_pump.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "tests/support/bytes.h"
#include "tests/support/must.h"
#include "tests/support/random.h"
#include "tests/support/splice_script.h"
#include "tests/support/temp_dir.h"

namespace vtrace {
namespace {

using test::must;
using test::SpliceScript;
using test::text_of;
using test::why;
using Call = SpliceScript::Call;

constexpr std::size_t kUnit = 16;

// A source that holds what is put in, and a sink that is read by hand; both real pipes.
class Pump : public ::testing::Test {
 protected:
  Pump() {
    (void)std::signal(SIGPIPE, SIG_IGN);
    in_ = must(make_pipe(1U << 20U, O_NONBLOCK));
    // A splice takes a slot of its own, however short it is: a pipe of 64 KiB has 16.
    out_ = must(make_pipe(1U << 20U, O_NONBLOCK));
    script_ = SpliceScript(in_.read.get());
  }

  SplicePump make(PumpOptions options = {.unit = kUnit}) {
    return must(SplicePump::create(in_.read.get(), out_.write.get(), options, script_));
  }
  void put(std::string_view text) const { must(write_all(in_.write.get(), text, "source")); }
  // What the sink has got and nobody has taken yet.
  [[nodiscard]] std::string get() const {
    std::string got(1U << 16U, '\0');
    const ssize_t size = ::read(out_.read.get(), got.data(), got.size());
    got.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return got;
  }
  // Steps until there is nothing to do but wait, taking from the sink as it fills.
  std::string run(SplicePump& pump) const {
    std::string got;
    for (;;) {
      const auto step = pump.step();
      EXPECT_TRUE(step) << why(step);
      const std::string more = get();
      got += more;
      if (!step || (*step != PumpStep::moved && more.empty())) return got;
    }
  }
  // `units` sub-buffers that tell where they are.
  static std::string subbufs(std::size_t units, char first = 'a') {
    std::string text;
    for (std::size_t i = 0; i < units * kUnit; ++i)
      text += static_cast<char>(first + static_cast<char>(i % 23));
    return text;
  }

  Pipe in_;
  Pipe out_;
  SpliceScript script_{-1};
};

TEST_F(Pump, MovesEveryByteInOrderThroughSmallPipes) {
  out_ = must(make_pipe(0, O_NONBLOCK));
  std::string sent(900'000, '\0');
  test::Random random(1);
  for (char& c : sent) c = static_cast<char>(random.below(256));
  put(sent);
  SplicePump pump = make({.unit = 100, .pipe_bytes = 65536});
  EXPECT_TRUE(run(pump) == sent);
  EXPECT_EQ(pump.taken(), sent.size());
  EXPECT_EQ(pump.delivered(), sent.size());
  EXPECT_EQ(pump.held(), 0U);
  EXPECT_FALSE(pump.fell_back());
}

TEST_F(Pump, WorksThroughFifos) {
  const test::TempDir dir;
  const std::string path = dir.file("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Fd sink = must(open_fd(path, O_RDWR | O_NONBLOCK));
  SplicePump pump = must(SplicePump::create(in_.read.get(), sink.get(), {.unit = kUnit}, script_));
  put(subbufs(3));
  ASSERT_TRUE(pump.step());
  std::string got(100, '\0');
  got.resize(static_cast<std::size_t>(::read(sink.get(), got.data(), got.size())));
  EXPECT_EQ(got, subbufs(3));
}

TEST_F(Pump, TakesEagainEintrAndNothingFromTheSourceAsNormal) {
  SplicePump pump = make();
  put(subbufs(2));
  script_.then(Call::splice_in, SpliceScript::fails(EAGAIN));
  script_.then(Call::splice_in, SpliceScript::gives_nothing());
  script_.then(Call::splice_in, SpliceScript::fails(EINTR));
  EXPECT_EQ(pump.step().value(), PumpStep::empty);
  EXPECT_EQ(pump.step().value(), PumpStep::empty);
  EXPECT_EQ(pump.step().value(), PumpStep::moved);
  EXPECT_EQ(get(), subbufs(2));
  EXPECT_EQ(pump.step().value(), PumpStep::empty);
}

TEST_F(Pump, AnEmptySourceIsNeverAnEnd) {
  SplicePump pump = make();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pump.step().value(), PumpStep::empty);
  put(subbufs(1));
  EXPECT_EQ(pump.step().value(), PumpStep::moved);
  EXPECT_EQ(get(), subbufs(1));
}

TEST_F(Pump, LosesNothingInShortSplices) {
  SplicePump pump = make();
  put(subbufs(8));
  for (const std::size_t most : {1UZ, 7UZ, 16UZ, 3UZ, 33UZ}) {
    script_.then(Call::splice_in, SpliceScript::moves(most));
    script_.then(Call::splice_out, SpliceScript::moves(most / 2 + 1));
  }
  EXPECT_EQ(run(pump), subbufs(8));
}

TEST_F(Pump, FeedsASinkThatTakesAByteAtATime) {
  for (const bool by_write : {false, true}) {
    SplicePump pump = make();
    if (by_write) script_.always(Call::splice_out, SpliceScript::fails(EINVAL));
    if (!by_write) script_.always(Call::splice_out, SpliceScript::moves(1));
    script_.always(Call::write_sink, SpliceScript::moves(1));
    put(subbufs(3));
    ASSERT_EQ(pump.fill().value(), PumpStep::moved);
    pump.append(as_bytes("then this"));
    EXPECT_EQ(run(pump), subbufs(3) + "then this");
  }
}

TEST_F(Pump, IsBlockedByAFullSinkAndGoesOnWhereItStopped) {
  SplicePump pump = make();
  put(subbufs(4));
  script_.then(Call::splice_out, SpliceScript::moves(5));
  script_.then(Call::splice_out, SpliceScript::fails(EAGAIN));
  script_.then(Call::splice_out, SpliceScript::gives_nothing());
  script_.then(Call::splice_out, SpliceScript::fails(EINTR));
  EXPECT_EQ(pump.step().value(), PumpStep::blocked);
  EXPECT_EQ(pump.delivered(), 5U);
  EXPECT_EQ(pump.held(), 4 * kUnit - 5);
  EXPECT_EQ(pump.step().value(), PumpStep::blocked);
  EXPECT_EQ(pump.step().value(), PumpStep::moved);
  EXPECT_EQ(get(), subbufs(4));
}

TEST_F(Pump, DoesNotFillWhileItHoldsSomething) {
  SplicePump pump = make();
  put(subbufs(1));
  pump.append(as_bytes("first"));
  EXPECT_EQ(pump.fill().value(), PumpStep::blocked);
  EXPECT_EQ(run(pump), "first" + subbufs(1));
}

TEST_F(Pump, ReadsWhereTheSourceRefusesSplice) {
  SplicePump pump = make();
  script_.always(Call::splice_in, SpliceScript::fails(EINVAL));
  script_.then(Call::read_source, SpliceScript::fails(EINTR));
  put(subbufs(5));
  EXPECT_EQ(run(pump), subbufs(5));
  EXPECT_TRUE(pump.fell_back());
  EXPECT_EQ(script_.calls(Call::splice_in), 1U) << "asked once, not at every step";
  EXPECT_EQ(pump.taken(), 5 * kUnit);
  EXPECT_EQ(pump.delivered(), 5 * kUnit);
}

TEST_F(Pump, WritesWhereTheSinkRefusesSplice) {
  SplicePump pump = make();
  put(subbufs(5));
  script_.then(Call::splice_out, SpliceScript::moves(21));
  script_.always(Call::splice_out, SpliceScript::fails(EINVAL));
  script_.then(Call::write_sink, SpliceScript::fails(EINTR));
  script_.then(Call::write_sink, SpliceScript::moves(3));
  script_.then(Call::write_sink, SpliceScript::fails(EAGAIN));
  EXPECT_EQ(pump.step().value(), PumpStep::blocked);
  EXPECT_EQ(pump.delivered(), 24U);
  EXPECT_EQ(run(pump), subbufs(5));
  put(subbufs(2, 'A'));
  EXPECT_EQ(run(pump), subbufs(2, 'A'));
  EXPECT_TRUE(pump.fell_back());
  EXPECT_EQ(script_.calls(Call::splice_out), 2U);
}

TEST_F(Pump, ReadsAndWritesWhereBothRefuseSplice) {
  SplicePump pump = make();
  script_.always(Call::splice_in, SpliceScript::fails(EINVAL));
  script_.always(Call::splice_out, SpliceScript::fails(EINVAL));
  put(subbufs(7));
  EXPECT_EQ(run(pump), subbufs(7));
}

TEST_F(Pump, ReportsASourceThatFails) {
  SplicePump pump = make();
  script_.then(Call::splice_in, SpliceScript::fails(ENODEV));
  const auto step = pump.step();
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().errno_value, ENODEV);
  EXPECT_EQ(step.error().message, "splice from the ring buffer: No such device");
}

TEST_F(Pump, SendsWhatItReadBeforeTheSourceFailed) {
  SplicePump pump = make();
  script_.always(Call::splice_in, SpliceScript::fails(EINVAL));
  script_.then(Call::read_source, SpliceScript::moves(kUnit));
  script_.always(Call::read_source, SpliceScript::fails(ENODEV));
  put(subbufs(1));
  EXPECT_EQ(pump.step().value(), PumpStep::moved);
  EXPECT_EQ(get(), subbufs(1));
  EXPECT_EQ(pump.step().error().errno_value, ENODEV);
}

TEST_F(Pump, ReportsASinkThatIsGone) {
  SplicePump pump = make();
  put(subbufs(1));
  out_.read.reset();
  const auto step = pump.step();
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().errno_value, EPIPE);
  EXPECT_EQ(pump.held(), kUnit);

  script_.then(Call::splice_out, SpliceScript::fails(ENODEV));
  EXPECT_EQ(pump.drain().error().errno_value, ENODEV);
}

TEST_F(Pump, AsksForWholeSubbufsOnly) {
  SplicePump large = make({.unit = 300'000, .pipe_bytes = 4096});
  EXPECT_EQ(large.step().value(), PumpStep::empty);
  EXPECT_EQ(script_.asked(), 300'000U) << "less than a sub-buffer is refused by the ring buffer";
  SplicePump odd = make({.unit = 12'288, .pipe_bytes = 65536});
  EXPECT_EQ(odd.step().value(), PumpStep::empty);
  EXPECT_EQ(script_.asked() % 12'288, 0U);
  EXPECT_GT(script_.asked(), 0U);
}

TEST_F(Pump, PadsThePartThatItReads) {
  SplicePump pump = make();
  put("ten bytes!");
  EXPECT_EQ(pump.fill_part().value(), PumpStep::moved);
  EXPECT_EQ(pump.taken(), kUnit);
  EXPECT_EQ(run(pump), "ten bytes!" + std::string(6, '\0'));
}

TEST_F(Pump, FindsNoPartInAnEmptySource) {
  SplicePump pump = make();
  script_.then(Call::read_source, SpliceScript::gives_nothing());
  script_.then(Call::read_source, SpliceScript::fails(EINTR));
  EXPECT_EQ(pump.fill_part().value(), PumpStep::empty);
  EXPECT_EQ(pump.fill_part().value(), PumpStep::empty);
  EXPECT_EQ(pump.held(), 0U);
  EXPECT_EQ(pump.taken(), 0U);
  script_.then(Call::read_source, SpliceScript::fails(ENODEV));
  EXPECT_EQ(pump.fill_part().error().errno_value, ENODEV);
  EXPECT_EQ(pump.held(), 0U);
}

TEST_F(Pump, SendsOnlyWhatIsAppendedWithoutASource) {
  SplicePump pump = must(SplicePump::create(-1, out_.write.get(), {.unit = kUnit}, script_));
  EXPECT_EQ(pump.step().value(), PumpStep::empty);
  EXPECT_EQ(pump.fill_part().value(), PumpStep::empty);
  pump.append(as_bytes("fence"));
  EXPECT_EQ(pump.step().value(), PumpStep::moved);
  EXPECT_EQ(get(), "fence");
  EXPECT_EQ(pump.step().value(), PumpStep::empty);
}

TEST_F(Pump, RefusesSizesOfZero) {
  EXPECT_FALSE(SplicePump::create(in_.read.get(), out_.write.get(), {.unit = 0}));
  EXPECT_FALSE(SplicePump::create(in_.read.get(), out_.write.get(), {.sink_bytes = 0}));
  EXPECT_FALSE(SplicePump::create(in_.read.get(), -1, {}));
}

// Discarding after every possible number of delivered bytes, with splice and with write.
class PumpDiscards : public Pump, public ::testing::WithParamInterface<bool> {
 protected:
  PumpDiscards() {
    if (GetParam()) script_.always(Call::splice_out, SpliceScript::fails(EINVAL));
  }
  // Lets the sink take `bytes` more and then nothing. `spliced` are in the pump's pipe.
  void deliver(SplicePump& pump, std::size_t bytes, std::size_t spliced) {
    const std::size_t by_splice = GetParam() ? 0 : std::min(bytes, spliced);
    for (std::size_t i = 0; i < by_splice; ++i)
      script_.then(Call::splice_out, SpliceScript::moves(1));
    if (!GetParam()) script_.then(Call::splice_out, SpliceScript::fails(EAGAIN));
    for (std::size_t i = by_splice; i < bytes; ++i)
      script_.then(Call::write_sink, SpliceScript::moves(1));
    script_.then(Call::write_sink, SpliceScript::fails(EAGAIN));
    EXPECT_TRUE(pump.drain());
    script_ = SpliceScript(in_.read.get());
    if (GetParam()) script_.always(Call::splice_out, SpliceScript::fails(EINVAL));
  }
};
INSTANTIATE_TEST_SUITE_P(BySpliceAndWrite, PumpDiscards, ::testing::Bool());

TEST_P(PumpDiscards, AllButTheRestOfATornSubbuf) {
  const std::string all = subbufs(5);
  for (std::size_t sent = 0; sent <= 5 * kUnit; ++sent) {
    SplicePump pump = make();
    put(all.substr(0, 4 * kUnit));
    ASSERT_EQ(pump.fill().value(), PumpStep::moved);
    pump.append(as_bytes(std::string_view(all).substr(4 * kUnit)));
    deliver(pump, sent, 4 * kUnit);
    ASSERT_EQ(pump.delivered(), sent);
    const Bytes rest = must(pump.discard());
    EXPECT_EQ(rest.size(), (kUnit - sent % kUnit) % kUnit);
    EXPECT_EQ(pump.held(), 0U);
    EXPECT_EQ(pump.dropped(), all.size() - sent - rest.size());
    EXPECT_EQ(get() + text_of(rest), all.substr(0, sent + rest.size())) << sent;
  }
}

TEST_P(PumpDiscards, KeepAlignmentFromPumpToPumpWhateverTheUnits) {
  // An old sub-buffer of 40 bytes is torn; the next pumps have units of 16.
  const std::string old = subbufs(3).substr(0, 40);
  const std::string fresh = subbufs(2, 'A');
  for (std::size_t torn = 1; torn < old.size(); ++torn) {
    for (std::size_t sent = 0; sent <= torn + kUnit; ++sent) {
      SplicePump pump = make({.unit = kUnit, .torn_bytes = torn});
      pump.append(as_bytes(std::string_view(old).substr(old.size() - torn)));
      pump.append(as_bytes(fresh));
      deliver(pump, sent, 0);
      const Bytes rest = must(pump.discard());
      const std::string stream = get() + text_of(rest);
      const std::size_t whole =
          sent <= torn ? torn : torn + (sent - torn + kUnit - 1) / kUnit * kUnit;
      EXPECT_EQ(stream, (old.substr(old.size() - torn) + fresh).substr(0, whole))
          << torn << " torn, " << sent << " sent";
    }
  }
}

TEST_P(PumpDiscards, NothingFromAnEmptyPump) {
  SplicePump pump = make();
  EXPECT_TRUE(must(pump.discard()).empty());
  EXPECT_EQ(pump.dropped(), 0U);
}

TEST_P(PumpDiscards, AndGoesOnWithTheRest) {
  SplicePump pump = make();
  put(subbufs(2));
  ASSERT_EQ(pump.fill().value(), PumpStep::moved);
  deliver(pump, 3, 2 * kUnit);
  pump.append(must(pump.discard()));
  put(subbufs(1, 'A'));
  EXPECT_EQ(run(pump), subbufs(1) + subbufs(1, 'A'));
}

}  // namespace
}  // namespace vtrace
