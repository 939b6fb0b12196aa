// The ways of the kernel's own agent: the orders 1 and 0, and data on stdout. And what an agent
// costs that has nothing to do.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>

#include "guest-agent/tracefs.h"
#include "tests/guest/agent_rig.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRun = 0xb1;

// The top level's settings are not ours to change in a test: lines in its trace_marker are enough.
void write_top_level(int lines) {
  const Fd marker = must(open_fd(tracefs_root() + "/trace_marker", O_WRONLY));
  for (int i = 0; i < lines; ++i)
    must(write_all(marker.get(), fmt::format("legacy line {}\n", i), "trace_marker"));
}

SubbufLayout top_level_layout() {
  return must(TraceBuffer(tracefs_root(), "top level").layout());
}

bool top_level_is_on() {
  return must(read_file(tracefs_root() + "/tracing_on")) == "1\n";
}

TEST(AgentLegacy, TheOrders1And0RecordTheTopLevelWithoutFences) {
  if (!top_level_is_on()) GTEST_SKIP() << "somebody has switched the top level's tracing off";
  AgentRig rig;
  std::vector<std::unique_ptr<PortReader>> readers;
  for (const int cpu : rig.cpus()) readers.push_back(std::make_unique<PortReader>(rig.fifo(cpu)));
  rig.send_bytes(as_bytes("1"));
  ASSERT_TRUE(eventually(
      [&] { return rig.ask<StatusReport>(StatusQuery{}).state == AgentState::recording; }));
  write_top_level(2000);
  rig.send_bytes(as_bytes("0\n"));
  ASSERT_TRUE(
      eventually([&] { return rig.ask<StatusReport>(StatusQuery{}).state == AgentState::idle; }));
  EXPECT_TRUE(top_level_is_on());
  const SubbufLayout layout = top_level_layout();
  std::uint64_t events = 0;
  for (const auto& reader : readers) {
    const Bytes bytes = reader->settled();
    EXPECT_EQ(bytes.size() % layout.size(), 0U) << "whole sub-buffers";
    for (std::size_t at = 0; at < bytes.size(); at += layout.size()) {
      const auto subbuf = std::span(bytes).subspan(at, layout.size());
      EXPECT_FALSE(decode_fence(layout, subbuf));
      events += count_events(layout, subbuf);
    }
  }
  // The top level has two sub-buffers a CPU until an event is enabled, so some may be overwritten.
  CpuCounts sum;
  for (const CpuCounts& counts : rig.ask<StatusReport>(StatusQuery{}).cpus) {
    sum.read_events += counts.read_events;
    sum.overrun += counts.overrun;
  }
  EXPECT_EQ(events, sum.read_events);
  EXPECT_GE(sum.recorded(), 2000U);
}

TEST(AgentLegacy, BothOrdersInOneReadBothCountAndOthersAreHarmless) {
  AgentRig rig;
  rig.send_bytes(as_bytes("1\n0\n1\n"));
  EXPECT_TRUE(eventually(
      [&] { return rig.ask<StatusReport>(StatusQuery{}).state == AgentState::recording; }));
  rig.send_bytes(as_bytes("1\n"));
  EXPECT_EQ(rig.ask<StatusReport>(StatusQuery{}).state, AgentState::recording);
  rig.send_bytes(as_bytes("0\n0\n"));
  EXPECT_TRUE(
      eventually([&] { return rig.ask<StatusReport>(StatusQuery{}).state == AgentState::idle; }));
}

TEST(AgentLegacy, AFramedStartReadsTheTopLevelWithFences) {
  if (!top_level_is_on()) GTEST_SKIP() << "somebody has switched the top level's tracing off";
  AgentRig rig;
  std::vector<std::unique_ptr<PortReader>> readers;
  for (const int cpu : rig.cpus()) readers.push_back(std::make_unique<PortReader>(rig.fifo(cpu)));
  write_top_level(100);  // before the start: read all the same
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::top_level});
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  write_top_level(1000);
  const auto stopped = rig.ask<Stopped>(Stop{kRun});
  EXPECT_TRUE(stopped.complete);
  std::uint64_t recorded = 0;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    const PortStream stream = cut_run(layout, readers[i]->settled(), kRun);
    ASSERT_TRUE(stream.end.has_value());
    EXPECT_EQ(stream.events(layout), stopped.cpus[i].read_events);
    recorded += stopped.cpus[i].recorded();
  }
  EXPECT_GE(recorded, 1001U) << "the lines since the start, and at least one from before it";
}

TEST(AgentStdout, AllCpusDataGoThereInWholeSubbuffers) {
  const TempDir temp;
  const SubbufLayout layout = top_level_layout();
  for (const bool file : {true, false}) {
    AgentRig::Wish wish{.arguments = {"-o", "-s", "64K"}};
    if (file) wish.process.output_file = temp.file("out");
    AgentRig rig(wish);
    (void)rig.ask<Configured>(Configure{});
    (void)rig.ask<Started>(Start{kRun, StartTarget::instance});
    for (const int cpu : rig.cpus()) rig.write_markers(cpu, 5000);
    EXPECT_TRUE(rig.ask<Stopped>(Stop{kRun}).complete);
    rig.agent().signal(SIGTERM);
    const auto result = rig.agent().wait();
    EXPECT_EQ(result.exit_code, 0);
    const std::string text = file ? must(read_file(temp.file("out"))) : result.out;
    ASSERT_EQ(text.size() % layout.size(), 0U);
    std::uint64_t events = 0;
    std::size_t fences = 0;
    for (std::size_t at = 0; at < text.size(); at += layout.size()) {
      const auto subbuf = as_bytes(text).subspan(at, layout.size());
      if (decode_fence(layout, subbuf)) ++fences;
      events += count_events(layout, subbuf);
    }
    EXPECT_EQ(events, rig.cpus().size() * 5000);
    EXPECT_EQ(fences, rig.cpus().size() * 2);
  }
}

struct Cost {
  std::uint64_t ticks = 0;     // utime + stime
  std::uint64_t switches = 0;  // voluntary
  bool operator==(const Cost&) const = default;
};

Cost cost_of(pid_t pid) {
  Cost cost;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    const std::string status = must(read_file(task.path() / "status"));
    const std::size_t at = status.find("\nvoluntary_ctxt_switches:") + 26;
    std::uint64_t switches = 0;
    std::from_chars(status.data() + at, status.data() + status.size(), switches);
    cost.switches += switches;
    const std::string stat = must(read_file(task.path() / "stat"));
    std::vector<std::string> words;
    std::string word;
    for (const char c : stat.substr(stat.rfind(')') + 2)) {
      if (c == ' ')
        words.push_back(std::exchange(word, {}));
      else
        word += c;
    }
    cost.ticks += std::stoull(words.at(11)) + std::stoull(words.at(12));
  }
  return cost;
}

TEST(AgentCost, AnIdleAgentNeverWakesUp) {
  AgentRig rig;
  (void)rig.ask<Pong>(Ping{});
  std::this_thread::sleep_for(Duration{200});
  const Cost before = cost_of(rig.agent().pid());
  std::this_thread::sleep_for(Duration{10000});
  EXPECT_EQ(cost_of(rig.agent().pid()).switches, before.switches);
  EXPECT_EQ(cost_of(rig.agent().pid()).ticks, before.ticks);
}

// A wake level of 0 makes poll say "ready" for a part-filled sub-buffer, which splice does not
// give.
TEST(AgentCost, AQuietRecordingDoesNotSpinEvenWhenPollSaysReady) {
  AgentRig rig({.arguments = {"--flush-interval", "1h"}});
  (void)rig.ask<Configured>(Configure{});
  must(write_kernel_file(rig.instance_path() + "/buffer_percent", "0"));
  (void)rig.ask<Started>(Start{kRun, StartTarget::instance});
  PortReader reader(rig.fifo(rig.cpus().front()));
  const Cost before = cost_of(rig.agent().pid());
  for (int i = 0; i < 20; ++i) {
    rig.write_markers(rig.cpus().front(), 1, i);
    std::this_thread::sleep_for(Duration{100});
  }
  const Cost after = cost_of(rig.agent().pid());
  EXPECT_LT(after.switches - before.switches, 400U);
  EXPECT_LT(after.ticks - before.ticks, 20U);
}

TEST(AgentCost, ABlockedPortCostsNothing) {
  AgentRig rig;
  (void)rig.ask<Configured>(Configure{});
  (void)rig.ask<Started>(Start{kRun, StartTarget::instance});
  for (const int cpu : rig.cpus()) rig.write_markers(cpu, 30000);
  std::this_thread::sleep_for(Duration{300});
  const Cost before = cost_of(rig.agent().pid());
  std::this_thread::sleep_for(Duration{2000});
  EXPECT_EQ(cost_of(rig.agent().pid()).switches, before.switches);
}

}  // namespace
}  // namespace vtrace::test
