// The agent under pressure: hosts that are slow, absent or rude, signals in every state, settings
// that the kernel refuses.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "guest-agent/tracefs.h"
#include "tests/guest/agent_rig.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kRun = 0xa1;
constexpr std::uint64_t kNextRun = 0xa2;
constexpr Duration kEndLimit{2000};

Configure settings(std::uint64_t buffer_bytes, std::vector<EventSpec> events = {}) {
  Configure configure;
  configure.buffer_bytes = buffer_bytes;
  configure.events = std::move(events);
  return configure;
}

SubbufLayout begin(AgentRig& rig, std::uint64_t run, std::uint64_t buffer_bytes = 4U << 20U) {
  (void)rig.ask<Configured>(settings(buffer_bytes));
  return must(parse_header_page(rig.ask<Started>(Start{run, StartTarget::instance}).header_page));
}

AgentError refusal(AgentRig& rig, const Configure& configure) {
  return rig.ask<AgentError>(configure);
}

// Ends it by SIGTERM: in time, with exit code 0, and without its instance.
void expect_good_end(AgentRig& rig) {
  rig.agent().signal(SIGTERM);
  const auto result = rig.agent().wait(Duration{5000});
  EXPECT_FALSE(result.timed_out) << result.describe();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_FALSE(rig.instance_exists());
}

// A socket in place of a port, with a host that listens.
Fd listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 1), 0);
  return socket;
}

// How long SIGTERM takes to end it.
Duration time_to_end(AgentRig& rig) {
  const auto from = std::chrono::steady_clock::now();
  expect_good_end(rig);
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - from);
}

TEST(AgentSettings, TheKernelsOwnWordsComeBackForABadFilter) {
  AgentRig rig;
  const auto error = refusal(rig, settings(0, {{"sched", "sched_switch", "nosuchfield == 1"}}));
  EXPECT_EQ(error.code, AgentErrorCode::bad_setting);
  EXPECT_THAT(error.text, AllOf(HasSubstr("nosuchfield == 1"), HasSubstr("sched:sched_switch"),
                                HasSubstr("Field not found"), Not(HasSubstr("\n"))));
  EXPECT_FALSE(rig.instance_exists());
  EXPECT_EQ(rig.ask<AgentError>(Start{kRun, StartTarget::instance}).code,
            AgentErrorCode::not_configured);
}

TEST(AgentSettings, WhatTheGuestDoesNotHaveIsNamedAndNothingIsLeft) {
  AgentRig rig;
  Configure clock;
  clock.clock = "sundial";
  Configure tracer;
  tracer.tracer = "pen";
  for (const auto& [configure, word] : std::vector<std::pair<Configure, std::string>>{
           {settings(0, {{"nosuchsystem", "", ""}}), "nosuchsystem"},
           {settings(0, {{"sched", "nosuchevent", ""}}), "nosuchevent"},
           {clock, "sundial"},
           {tracer, "pen"},
           {settings(1ULL << 43U), "ring buffer"}}) {
    const auto error = refusal(rig, configure);
    EXPECT_EQ(error.code, AgentErrorCode::bad_setting) << error.text;
    EXPECT_THAT(error.text, HasSubstr(word));
    EXPECT_FALSE(rig.instance_exists());
  }
}

TEST(AgentSettings, AreAppliedAndARefusedOneDisturbsNoRun) {
  AgentRig rig;
  Configure configure =
      settings(256U << 10U, {{"sched", "sched_switch", "prev_pid == 0"}, {"irq", "softirq_*", ""}});
  configure.clock = "mono";
  const auto configured = rig.ask<Configured>(configure);
  EXPECT_GE(configured.buffer_bytes, 256U << 10U);
  EXPECT_LT(configured.buffer_bytes, 512U << 10U);
  EXPECT_THAT(configured.clock, HasSubstr("[mono]"));
  const auto read = [&](const std::string& file) {
    return must(read_file(rig.instance_path() + "/" + file));
  };
  EXPECT_EQ(read("tracing_on"), "0\n");
  EXPECT_EQ(read("events/sched/sched_switch/enable"), "1\n");
  EXPECT_EQ(read("events/sched/sched_switch/filter"), "prev_pid == 0\n");
  EXPECT_EQ(read("events/irq/softirq_entry/enable"), "1\n");
  EXPECT_EQ(read("events/irq/irq_handler_entry/enable"), "0\n");
  (void)rig.ask<Started>(Start{kRun, StartTarget::instance});
  EXPECT_EQ(read("tracing_on"), "1\n");
  EXPECT_THAT(read("set_event_notrace_pid"), HasSubstr(fmt::format("{}\n", rig.agent().pid())));
  EXPECT_EQ(refusal(rig, settings(0, {{"nosuchsystem", "", ""}})).code,
            AgentErrorCode::bad_setting);
  EXPECT_EQ(rig.ask<StatusReport>(StatusQuery{}).state, AgentState::recording);
}

TEST(AgentEnd, SigtermEndsItInEachState) {
  AgentRig rig;
  EXPECT_LT(time_to_end(rig), kEndLimit) << "idle";
  rig.launch();
  (void)rig.ask<Configured>(settings(0));
  EXPECT_LT(time_to_end(rig), kEndLimit) << "configured";
  rig.launch();
  (void)begin(rig, kRun);
  EXPECT_LT(time_to_end(rig), kEndLimit) << "recording, nothing read";
  rig.launch();
  (void)begin(rig, kRun);
  for (const int cpu : rig.cpus()) rig.write_markers(cpu, 30000);
  EXPECT_LT(time_to_end(rig), kEndLimit) << "recording, ports blocked";
  rig.launch();
  (void)begin(rig, kNextRun);
  for (const int cpu : rig.cpus()) rig.write_markers(cpu, 30000);
  EXPECT_FALSE(rig.ask<Stopped>(Stop{kNextRun}).complete);
  EXPECT_LT(time_to_end(rig), kEndLimit) << "draining, ports blocked";
  rig.launch();
  rig.send(GetMetadata{~0U});
  EXPECT_LT(time_to_end(rig), kEndLimit) << "collecting metadata";
}

TEST(AgentEnd, SigtermWithAReadingHostDeliversEverything) {
  AgentRig rig;
  const int cpu = rig.cpus().front();
  PortReader reader(rig.fifo(cpu));
  const SubbufLayout layout = begin(rig, kRun);
  rig.write_markers(cpu, 5000);
  expect_good_end(rig);
  const PortStream stream = cut_run(layout, reader.settled(), kRun);
  EXPECT_TRUE(stream.end.has_value());
  EXPECT_EQ(stream.events(layout), 5000U);
}

TEST(AgentEnd, AKilledAgentsInstanceIsRemovedByTheNext) {
  AgentRig rig;
  const int cpu = rig.cpus().front();
  (void)begin(rig, kRun);
  rig.write_markers(cpu, 30000);
  rig.agent().signal(SIGKILL);
  (void)rig.agent().wait();
  EXPECT_TRUE(rig.instance_exists());
  const auto hello = rig.launch();
  EXPECT_FALSE(rig.instance_exists());
  EXPECT_EQ(hello.state, AgentState::idle);
  // What the killed one left in the FIFO may end within a sub-buffer: the fence finds the next run.
  PortReader reader(rig.fifo(cpu));
  const SubbufLayout layout = begin(rig, kNextRun);
  rig.write_markers(cpu, 1000);
  const auto stopped = rig.ask<Stopped>(Stop{kNextRun});
  const PortStream stream = cut_run(layout, reader.settled(), kNextRun);
  EXPECT_GT(stream.before, 0U);
  EXPECT_EQ(stream.events(layout), 1000U);
  EXPECT_EQ(stream.events(layout), stopped.cpus.front().read_events);
}

TEST(AgentRuns, AnewStartDropsWhatWasPendingAndStaysAligned) {
  AgentRig rig;
  const int cpu = rig.cpus().front();
  const SubbufLayout layout = begin(rig, kRun);
  rig.write_markers(cpu, 40000);
  EXPECT_TRUE(eventually(
      [&] { return rig.ask<StatusReport>(StatusQuery{}).cpus.front().bytes_pending > 0; }));
  EXPECT_EQ(begin(rig, kNextRun), layout);
  // Only now somebody reads: the rest of the old run, whole sub-buffers, then the new run.
  PortReader reader(rig.fifo(cpu));
  rig.write_markers(cpu, 2000);
  const auto stopped = rig.ask<Stopped>(Stop{kNextRun});
  const Bytes bytes = reader.settled();
  const PortStream old = cut_run(layout, bytes, kRun);
  EXPECT_EQ(old.before, 0U);
  EXPECT_TRUE(old.begin.has_value());
  EXPECT_FALSE(old.end.has_value());
  const PortStream stream = cut_run(layout, bytes, kNextRun);
  EXPECT_EQ(stream.before % layout.size(), 0U) << "the stream is still aligned";
  EXPECT_GT(stream.before, 0U);
  ASSERT_TRUE(stream.end.has_value());
  EXPECT_EQ(stream.events(layout), 2000U);
  EXPECT_EQ(stopped.cpus.front().read_events, 2000U);
  EXPECT_TRUE(stopped.cpus.front().end_fence_sent);
}

// Splices are whole sub-buffers of one page, so a torn one needs a larger one and little room.
TEST(AgentRuns, ATornSubbufferIsMendedBeforeTheNextRun) {
  AgentRig rig;
  const int cpu = rig.cpus().front();
  const Fd fifo = must(open_fd(rig.fifo(cpu), O_RDWR | O_NONBLOCK));
  ASSERT_EQ(::fcntl(fifo.get(), F_SETPIPE_SZ, 16384), 16384);
  const std::string size_file = rig.instance_path() + "/buffer_subbuf_size_kb";
  (void)rig.ask<Configured>(settings(4U << 20U));
  if (!write_kernel_file(size_file, "64")) GTEST_SKIP() << "sub-buffers have one size here";
  const auto started = rig.ask<Started>(Start{kRun, StartTarget::instance});
  EXPECT_EQ(started.subbuf_size, 65536U);
  const SubbufLayout layout = must(parse_header_page(started.header_page));
  int waiting = 0;
  EXPECT_TRUE(
      eventually([&] { return ::ioctl(fifo.get(), FIONREAD, &waiting) == 0 && waiting > 0; }));
  std::this_thread::sleep_for(Duration{50});
  ASSERT_EQ(::ioctl(fifo.get(), FIONREAD, &waiting), 0);
  EXPECT_LT(waiting, 65536) << "the begin fence is torn";
  (void)rig.ask<Configured>(settings(4U << 20U));
  must(write_kernel_file(size_file, "64"));
  (void)rig.ask<Started>(Start{kNextRun, StartTarget::instance});
  PortReader reader(rig.fifo(cpu));
  rig.write_markers(cpu, 5000);
  const auto stopped = rig.ask<Stopped>(Stop{kNextRun});
  const PortStream stream = cut_run(layout, reader.settled(), kNextRun);
  EXPECT_EQ(stream.before, layout.size()) << "the old run's fence was mended";
  EXPECT_EQ(stream.events(layout), 5000U);
  EXPECT_EQ(stopped.cpus.front().subbufs_sent, stream.subbufs.size());
}

TEST(AgentRuns, StopIsAnsweredInTimeWhenNobodyReads) {
  AgentRig rig;
  (void)begin(rig, kRun);
  for (const int cpu : rig.cpus()) rig.write_markers(cpu, 30000);
  const auto from = std::chrono::steady_clock::now();
  const auto stopped = rig.ask<Stopped>(Stop{0});
  EXPECT_LT(std::chrono::steady_clock::now() - from, Duration{2000});
  EXPECT_EQ(stopped.run_id, kRun);
  EXPECT_FALSE(stopped.complete);
  for (const CpuCounts& counts : stopped.cpus) {
    EXPECT_GT(counts.bytes_pending, 0U);
    EXPECT_FALSE(counts.end_fence_sent);
    EXPECT_EQ(counts.recorded(), 30000U);
  }
  EXPECT_EQ(rig.ask<StatusReport>(StatusQuery{}).state, AgentState::draining);
  const auto again = rig.ask<Stopped>(Stop{kRun});
  EXPECT_FALSE(again.complete);
}

TEST(AgentRuns, OrdersThatDoNotFitAreRefusedAndHarmless) {
  AgentRig rig;
  EXPECT_EQ(rig.ask<AgentError>(Stop{0}).code, AgentErrorCode::wrong_run);
  EXPECT_EQ(rig.ask<AgentError>(Start{kRun, StartTarget::instance}).code,
            AgentErrorCode::not_configured);
  EXPECT_EQ(rig.ask<AgentError>(Start{0, StartTarget::top_level}).code,
            AgentErrorCode::bad_request);
  Frame unknown;
  unknown.type = 0x66;
  unknown.request_id = 9000;
  rig.send_bytes(encode_frame(unknown));
  EXPECT_EQ(rig.expect<Unsupported>(rig.receive(9000)).type, 0x66);
  Frame cut;
  cut.type = static_cast<std::uint16_t>(MessageType::start);
  cut.request_id = 9001;
  cut.payload = Bytes(3);
  rig.send_bytes(encode_frame(cut));
  EXPECT_EQ(rig.expect<AgentError>(rig.receive(9001)).code, AgentErrorCode::bad_request);
  (void)begin(rig, kRun);
  EXPECT_EQ(rig.ask<Started>(Start{kRun, StartTarget::instance}).run_id, kRun)
      << "a repeated start";
  EXPECT_EQ(rig.ask<AgentError>(Stop{kNextRun}).code, AgentErrorCode::wrong_run);
  EXPECT_EQ(rig.ask<StatusReport>(StatusQuery{}).state, AgentState::recording);
  std::vector<std::unique_ptr<PortReader>> readers;
  for (const int cpu : rig.cpus()) readers.push_back(std::make_unique<PortReader>(rig.fifo(cpu)));
  EXPECT_TRUE(rig.ask<Stopped>(Stop{kRun}).complete);
  EXPECT_TRUE(rig.ask<Stopped>(Stop{kRun}).complete) << "a repeated stop";
  EXPECT_EQ(rig.ask<AgentError>(Start{kRun, StartTarget::instance}).code,
            AgentErrorCode::wrong_run);
}

TEST(AgentRuns, SeveralOrdersInOneReadAreAllDone) {
  AgentRig rig;
  Bytes all = encode_message(1, Configure{});
  for (const Bytes& next : {encode_message(2, Start{kRun, StartTarget::instance}),
                            encode_message(3, StatusQuery{}), encode_message(4, Ping{})})
    all.insert(all.end(), next.begin(), next.end());
  rig.send_bytes(as_bytes("rubbish \x01\x02"));
  rig.send_bytes(all);
  (void)rig.expect<Configured>(rig.receive(1));
  (void)rig.expect<Started>(rig.receive(2));
  EXPECT_EQ(rig.expect<StatusReport>(rig.receive(3)).state, AgentState::recording);
  (void)rig.expect<Pong>(rig.receive(4));
}

TEST(AgentRuns, AnInstanceRemovedUnderTheAgentIsToldAtStart) {
  AgentRig rig;
  (void)rig.ask<Configured>(settings(0));
  ASSERT_EQ(::rmdir(rig.instance_path().c_str()), 0);
  const auto error = rig.ask<AgentError>(Start{kRun, StartTarget::instance});
  EXPECT_THAT(error.text, HasSubstr(rig.instance()));
  (void)begin(rig, kNextRun);
}

TEST(AgentRuns, APortWhoseHostIsGoneEndsThatCpuAlone) {
  AgentRig rig({.start = false});
  const int broken = rig.cpus()[0];
  const int fine = rig.cpus()[1];
  PortReader reader(rig.fifo(fine));
  // A FIFO that this agent cannot be disconnected from is no port that can fail: a socket is.
  for (const char* end : {".in", ".out"}) {
    std::filesystem::remove(fmt::format("{}/trace-path-cpu{}{}", rig.directory(), broken, end));
  }
  const Fd host = listen_at(fmt::format("{}/trace-path-cpu{}", rig.directory(), broken));
  rig.launch();
  const SubbufLayout layout = begin(rig, kRun);
  // The host takes the connection and goes.
  ASSERT_TRUE(Fd(::accept4(host.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  for (const int cpu : {broken, fine}) rig.write_markers(cpu, 3000);
  const auto stopped = rig.ask<Stopped>(Stop{kRun});
  ASSERT_EQ(stopped.cpus.size(), 2U);
  EXPECT_NE(stopped.cpus[0].error, "");
  EXPECT_FALSE(stopped.cpus[0].end_fence_sent);
  EXPECT_EQ(stopped.cpus[0].recorded(), 3000U) << "counted, though not delivered";
  EXPECT_EQ(stopped.cpus[1].error, "");
  EXPECT_EQ(cut_run(layout, reader.settled(), kRun).events(layout), 3000U);
  EXPECT_FALSE(stopped.complete);
}

TEST(AgentStart, WithoutAControlPortItSaysWhereAndWhat) {
  AgentRig rig({.start = false});
  const TempDir empty;
  const auto result = run_process(
      {std::string(VTRACE_BIN_DIR) + "/virtio-trace-agent", "--ports-dir", empty.path().string()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(empty.path().string()), HasSubstr("agent-ctl-path")));
  EXPECT_EQ(run_process({std::string(VTRACE_BIN_DIR) + "/virtio-trace-agent", "-x"}).exit_code, 2);
}

TEST(AgentStart, WithoutTracefsItStaysAndTellsTheHost) {
  const TempDir empty;
  AgentRig rig({.tracefs = empty.path().string() + "/nowhere"});
  EXPECT_EQ(rig.ask<AgentHello>(HostHello{}).tracefs, "");
  const auto error = rig.ask<AgentError>(Configure{});
  EXPECT_EQ(error.code, AgentErrorCode::no_tracefs);
  EXPECT_THAT(error.text, HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace vtrace::test
