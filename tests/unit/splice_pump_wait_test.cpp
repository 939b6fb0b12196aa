#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "common/splice_pump.h"
#include "tests/support/bytes.h"
#include "tests/support/must.h"
#include "tests/support/splice_script.h"
#include "tests/support/temp_dir.h"

namespace vtrace {
namespace {

using namespace std::chrono_literals;
using test::must;
using test::SpliceScript;
using Clock = std::chrono::steady_clock;

// A pump over real pipes, and a wake-up descriptor.
class PumpWait : public ::testing::Test {
 protected:
  PumpWait() {
    (void)std::signal(SIGPIPE, SIG_IGN);
    in_ = must(make_pipe(0, O_NONBLOCK));
    out_ = must(make_pipe(0, O_NONBLOCK));
  }
  SplicePump make() { return must(SplicePump::create(in_.read.get(), out_.write.get(), {})); }
  // Fills the sink, and leaves the pump blocked with more for it.
  void block(SplicePump& pump) const {
    pump.append(Bytes(1U << 20U, std::byte{'x'}));
    ASSERT_EQ(pump.drain().value(), PumpStep::blocked);
  }
  void take_from_sink() const {
    std::string got(1U << 20U, '\0');
    ASSERT_GT(::read(out_.read.get(), got.data(), got.size()), 0);
  }

  Pipe in_;
  Pipe out_;
  WakeFd wake_ = must(WakeFd::create());
};

TEST_F(PumpWait, EndsWithItsTime) {
  SplicePump pump = make();
  const auto start = Clock::now();
  const PumpWake wake = must(pump.wait(true, wake_.get(), 30ms));
  EXPECT_TRUE(wake.timed_out);
  EXPECT_FALSE(wake.woken);
  EXPECT_GE(Clock::now() - start, 29ms);
}

TEST_F(PumpWait, EndsAtOnceWhenItsTimeIsOver) {
  SplicePump pump = make();
  EXPECT_TRUE(must(pump.wait(true, wake_.get(), 0ms)).timed_out);
  EXPECT_TRUE(must(pump.wait(true, wake_.get(), -1ms)).timed_out);
  EXPECT_TRUE(must(pump.wait(true, wake_.get(), std::chrono::milliseconds::min())).timed_out);
}

TEST_F(PumpWait, IsEndedByAnotherThread) {
  SplicePump pump = make();
  block(pump);
  for (int i = 0; i < 3; ++i) {
    (void)pump.drain();
    (void)pump.wait(true, -1, 0ms);
  }
  const std::jthread other([this] { wake_.signal(); });
  PumpWake wake;
  while (!wake.woken) wake = must(pump.wait(true, wake_.get(), std::chrono::milliseconds::max()));
  EXPECT_FALSE(wake.timed_out);
  wake_.clear();
  EXPECT_FALSE(must(pump.wait(false, wake_.get(), 0ms)).woken);
}

TEST_F(PumpWait, IsEndedByData) {
  SplicePump pump = make();
  must(write_all(in_.write.get(), std::string_view("x"), "source"));
  EXPECT_FALSE(must(pump.wait(true, wake_.get(), 10s)).timed_out);
  EXPECT_TRUE(must(pump.wait(false, wake_.get(), 10ms)).timed_out) << "not asked for the source";
}

TEST_F(PumpWait, IsEndedByASinkThatTakesSomeAgain) {
  SplicePump pump = make();
  block(pump);
  const std::jthread reader([this] {
    std::this_thread::sleep_for(20ms);
    take_from_sink();
  });
  while (pump.drain().value() == PumpStep::blocked && pump.delivered() <= 65536)
    ASSERT_FALSE(must(pump.wait(false, wake_.get(), 10s)).timed_out);
  EXPECT_GT(pump.delivered(), 65536U);
}

TEST_F(PumpWait, DoesNotLoseTheSinksWakeUpToTheOtherOne) {
  SplicePump pump = make();
  block(pump);
  // The first event may be an old one: it says that the sink took data before it was full.
  while (!must(pump.wait(false, wake_.get(), 0ms)).timed_out) (void)pump.drain();
  wake_.signal();
  take_from_sink();
  EXPECT_TRUE(must(pump.wait(false, wake_.get(), 10s)).woken);
  wake_.clear();
  const PumpWake wake = must(pump.wait(false, wake_.get(), 10s));
  EXPECT_FALSE(wake.timed_out);
  EXPECT_FALSE(wake.woken);
}

TEST_F(PumpWait, SleepsWhileTheSinkIsFull) {
  SplicePump pump = make();
  block(pump);
  int returns = 0;
  const auto end = Clock::now() + 200ms;
  while (Clock::now() < end) {
    EXPECT_EQ(pump.drain().value(), PumpStep::blocked);
    (void)must(pump.wait(false, wake_.get(), 50ms));
    ++returns;
  }
  EXPECT_LE(returns, 6) << "a return now and then is the time's; more is a spin";
}

// A port whose host end hangs up shows POLLHUP for ever and takes nothing: EAGAIN.
TEST_F(PumpWait, SleepsWhileTheSinkIsHungUp) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd sink(ends[0]);
  Fd peer(ends[1]);
  SpliceScript script(in_.read.get());
  script.always(SpliceScript::Call::write_sink, SpliceScript::fails(EAGAIN));
  SplicePump pump = must(SplicePump::create(in_.read.get(), sink.get(), {}, script));
  pump.append(as_bytes("nobody takes this"));
  peer.reset();
  int returns = 0;
  const auto end = Clock::now() + 200ms;
  while (Clock::now() < end) {
    EXPECT_EQ(pump.drain().value(), PumpStep::blocked);
    (void)must(pump.wait(false, wake_.get(), 50ms));
    ++returns;
  }
  EXPECT_LE(returns, 6);
}

TEST_F(PumpWait, FeedsASocketAndWaitsForItsReader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd sink(ends[0]);
  const Fd peer(ends[1]);
  SplicePump pump = must(SplicePump::create(-1, sink.get(), {}));
  pump.append(Bytes(3U << 20U, std::byte{'x'}));
  std::size_t got = 0;
  std::string buffer(1U << 16U, '\0');
  // A socket tells of room only when most of what it holds is taken.
  const auto take_all = [&] {
    for (;;) {
      const ssize_t size = ::read(peer.get(), buffer.data(), buffer.size());
      if (size <= 0) return;
      got += static_cast<std::size_t>(size);
    }
  };
  while (pump.drain().value() == PumpStep::blocked) {
    take_all();
    ASSERT_FALSE(must(pump.wait(false, wake_.get(), 10s)).timed_out);
  }
  take_all();
  EXPECT_EQ(got, 3U << 20U);
}

TEST_F(PumpWait, DoesNotWaitForARegularFile) {
  const test::TempDir dir;
  const Fd sink = must(open_fd(dir.file("file"), O_WRONLY | O_CREAT, 0600));
  SplicePump pump = must(SplicePump::create(in_.read.get(), sink.get(), {.unit = 4}));
  must(write_all(in_.write.get(), std::string_view("data"), "source"));
  pump.append(as_bytes("more"));
  const auto start = Clock::now();
  EXPECT_FALSE(must(pump.wait(false, wake_.get(), 10s)).timed_out);
  EXPECT_LT(Clock::now() - start, 5s);
  while (pump.step().value() == PumpStep::moved) {
  }
  EXPECT_EQ(must(read_file(dir.file("file"))), "moredata");
}

}  // namespace
}  // namespace vtrace
