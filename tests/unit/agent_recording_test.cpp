// Runs over a made-up tracefs whose ring buffers are FIFOs: which CPUs record, and what goes where.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "common/fence.h"
#include "common/layout.h"
#include "guest-agent/recording_run.h"
#include "tests/support/fake_tree.h"
#include "tests/support/must.h"
#include "tests/support/process.h"

namespace vtrace::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeaderPage =
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
constexpr const char* kStats = "entries: 0\noverrun: 0\nread events: 0\n";
constexpr std::uint64_t kRun = 0xc1;

class FakeMachine {
 public:
  explicit FakeMachine(const std::string& header_page = kHeaderPage)
      : report_(must(WakeFd::create())), ports_({.directory = ports_tree_.root()}) {
    tree_.add("events/header_page", header_page);
  }

  // A CPU as tracefs shows it; one that is not really there has no ring buffer to open.
  void add_cpu(int cpu, bool there) {
    const std::string directory = fmt::format("per_cpu/cpu{}/", cpu);
    tree_.add(directory + "stats", kStats);
    tree_.add(directory + "buffer_size_kb", "64\n");
    if (there) rings_[cpu] = make_fifo(tree_.path(directory + "trace_pipe_raw"));
  }
  void add_port(int cpu) {
    const std::string path = ports_tree_.path(data_port_name(cpu));
    make_fifo(path + ".in");
    sinks_[cpu] = make_fifo(path + ".out");
  }

  std::unique_ptr<RecordingRun> start(CpuList present, std::optional<std::uint64_t> run_id) {
    EXPECT_THAT(ports_.refresh(), ElementsAre());
    return must(RecordingRun::start({.buffer = TraceBuffer(tree_.root(), "fake"),
                                     .target = StartTarget::instance,
                                     .run_id = run_id,
                                     .present = std::move(present)},
                                    ports_, nullptr, report_));
  }

  // Whole sub-buffers that hold this character.
  void record(int cpu, char content, std::size_t subbufs) {
    const std::string data(subbufs * 4096, content);
    must(write_all(rings_.at(cpu).get(), data, "ring buffer"));
  }
  std::string arrived(int cpu) {
    std::string text(1U << 20U, '\0');
    const ssize_t got = ::read(sinks_.at(cpu).get(), text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  [[nodiscard]] int sink(int cpu) const { return sinks_.at(cpu).get(); }
  DataPorts& ports() { return ports_; }

 private:
  static Fd make_fifo(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + path);
    return must(open_fd(path, O_RDWR | O_NONBLOCK));
  }

  FakeTree tree_{};
  FakeTree ports_tree_{};
  WakeFd report_;
  DataPorts ports_;
  std::map<int, Fd> rings_;
  std::map<int, Fd> sinks_;
};

void finish(RecordingRun& run) {
  run.stop();
  ASSERT_TRUE(eventually([&] { return run.finished(); }));
}

TEST(RecordingRun, TakesCpusByNumberAndNotByCount) {
  FakeMachine machine;
  for (const int cpu : {0, 1, 4, 5}) machine.add_cpu(cpu, true);
  for (const int cpu : {4, 5}) machine.add_port(cpu);
  const auto run = machine.start({4, 5}, std::nullopt);
  EXPECT_THAT(run->cpus(), ElementsAre(4, 5));
  machine.record(4, 'a', 2);
  machine.record(5, 'b', 3);
  finish(*run);
  EXPECT_EQ(machine.arrived(4), std::string(2UL * 4096, 'a'));
  EXPECT_EQ(machine.arrived(5), std::string(3UL * 4096, 'b'));
}

TEST(RecordingRun, CpusThatDoNotExistAreOneNoteAndNoError) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 128; ++cpu) {
    machine.add_cpu(cpu, cpu < 2);
    if (cpu < 6) machine.add_port(cpu);
  }
  const auto run = machine.start({}, kRun);
  EXPECT_THAT(run->cpus(), ElementsAre(0, 1));
  EXPECT_THAT(run->notes(), ElementsAre(HasSubstr("CPUs 6-127: no data port"),
                                        HasSubstr("CPUs 2-5: a directory in tracefs, but no CPU")));
  finish(*run);
  EXPECT_TRUE(run->complete());
}

TEST(RecordingRun, APortOfACpuThatIsNotPresentIsNoted) {
  FakeMachine machine;
  for (const int cpu : {0, 1}) {
    machine.add_cpu(cpu, true);
    machine.add_port(cpu);
  }
  const auto run = machine.start({0}, kRun);
  EXPECT_THAT(run->cpus(), ElementsAre(0));
  EXPECT_THAT(run->notes(), Contains(HasSubstr("CPU 1: a port, but no such CPU now")));
}

TEST(RecordingRun, FencesStandAroundTheDataAndCountIt) {
  FakeMachine machine;
  machine.add_cpu(7, true);
  machine.add_port(7);
  const auto run = machine.start({7}, kRun);
  machine.record(7, 'x', 5);
  finish(*run);
  const std::string text = machine.arrived(7);
  ASSERT_EQ(text.size(), 7U * 4096);
  const SubbufLayout layout = run->layout();
  const auto first = decode_fence(layout, as_bytes(text).first(4096));
  const auto last = decode_fence(layout, as_bytes(text).last(4096));
  ASSERT_TRUE(first && last);
  EXPECT_EQ(*first, (Fence{.kind = FenceKind::begin, .run_id = kRun, .cpu = 7}));
  EXPECT_EQ(
      *last,
      (Fence{.kind = FenceKind::end, .run_id = kRun, .cpu = 7, .bytes = 5UL * 4096, .subbufs = 5}));
  EXPECT_EQ(text.substr(4096, 5UL * 4096), std::string(5UL * 4096, 'x'));
  EXPECT_TRUE(run->complete());
}

TEST(RecordingRun, WhatADropLeavesTornIsSentBeforeTheNextRun) {
  // Two pages to a sub-buffer, and one page of room: half a fence goes out.
  std::string header_page = kHeaderPage;
  header_page.replace(header_page.find("4080"), 4, "8176");
  FakeMachine machine(header_page);
  machine.add_cpu(0, true);
  machine.add_port(0);
  ASSERT_EQ(::fcntl(machine.sink(0), F_SETPIPE_SZ, 4096), 4096);
  auto run = machine.start({0}, kRun);
  int waiting = 0;
  ASSERT_TRUE(eventually(
      [&] { return ::ioctl(machine.sink(0), FIONREAD, &waiting) == 0 && waiting == 4096; }));
  run->drop();
  EXPECT_TRUE(run->finished());
  EXPECT_FALSE(run->complete());
  run.reset();
  EXPECT_EQ(machine.ports().find(0)->torn.size(), 4096U);
  run = machine.start({0}, kRun + 1);
  EXPECT_TRUE(machine.ports().find(0)->torn.empty());
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text += machine.arrived(0);
    return text.size() >= 2UL * 8192;
  }));
  const auto old = decode_fence(run->layout(), as_bytes(text).first(8192));
  const auto fence = decode_fence(run->layout(), as_bytes(text).subspan(8192, 8192));
  ASSERT_TRUE(old && fence);
  EXPECT_EQ(old->run_id, kRun);
  EXPECT_EQ(fence->run_id, kRun + 1);
}

TEST(RecordingRun, ALegacyRunGoesOnAfterStopAndStartWithoutALoss) {
  FakeMachine machine;
  machine.add_cpu(0, true);
  machine.add_port(0);
  ASSERT_EQ(::fcntl(machine.sink(0), F_SETPIPE_SZ, 4096), 4096);
  const auto run = machine.start({0}, std::nullopt);
  machine.record(0, 'a', 8);
  run->stop();
  ASSERT_TRUE(run->resume()) << "the port is full, so it cannot have finished";
  EXPECT_FALSE(run->stopping());
  machine.record(0, 'b', 2);
  std::string text;
  EXPECT_TRUE(eventually([&] {
    text += machine.arrived(0);
    return text.size() == 10UL * 4096;
  }));
  EXPECT_EQ(text, std::string(8UL * 4096, 'a') + std::string(2UL * 4096, 'b'));
  finish(*run);
}

TEST(RecordingRun, WithoutAnyPortItSaysWhatToDo) {
  FakeMachine machine;
  machine.add_cpu(0, true);
  WakeFd report = must(WakeFd::create());
  const FakeTree empty{};
  const FakeTree tree{{"events/header_page", kHeaderPage}, {"per_cpu/cpu0/stats", kStats}};
  DataPorts ports({.directory = empty.root()});
  const auto run =
      RecordingRun::start({.buffer = TraceBuffer(tree.root(), "fake")}, ports, nullptr, report);
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("trace-path-cpu"));
}

}  // namespace
}  // namespace vtrace::test
