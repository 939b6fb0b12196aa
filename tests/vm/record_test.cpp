// The whole way: from the ring buffers of a booted guest to a trace.dat on the host.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/trace_cmd.h"
#include "tests/support/traced_guest.h"

namespace vtrace::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kInstance = "virtio-trace";  // the agent's own, where nothing else is said

// The text that `vtrace-workload markers` writes.
std::string marker(int cpu, int line) {
  return fmt::format("vtrace cpu{} line {}", cpu, line);
}

class RecordInGuest : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(RecordInGuest, BringsEveryLineOnceAndInOrderWithTheKernelsOwnCounts) {
  constexpr int kLines = 10'000;
  const auto [kernel, cpus] = GetParam();
  TracedGuest guest(kernel, cpus);
  const std::string output = guest.file("trace.dat");
  auto record =
      guest.start_record({"-e", "sched", "-e", "irq", "-b", "8M", "-o", output, "--json"});
  const std::string written = guest.vm().sh(
      fmt::format("vtrace-workload markers {} --instance {}", kLines, kInstance), 120s);
  EXPECT_EQ(std::ranges::count(written, '\n'), cpus) << written;
  record->signal(SIGINT);
  const auto result = record->wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["complete"], true);
  EXPECT_EQ(summary["events_lost"], 0);

  const TraceCmdReport report = trace_cmd_report(output);
  EXPECT_EQ(report.unknown, "");
  ASSERT_EQ(summary["cpus"].size(), static_cast<std::size_t>(cpus));
  for (const json& entry : summary["cpus"]) {
    const int cpu = entry["cpu"];
    // What the kernel counted, what was read from it, and what is in the file.
    EXPECT_EQ(entry["events_recorded"], report.events.at(cpu)) << "CPU " << cpu;
    EXPECT_EQ(entry["events_read"], report.events.at(cpu)) << "CPU " << cpu;
    EXPECT_EQ(entry["events_in_ring_buffer"], 0);
    EXPECT_EQ(entry["bytes_sent"], entry["bytes_written"]);
    const auto& lines = report.markers.at(cpu);
    ASSERT_EQ(lines.size(), std::size_t{kLines}) << "CPU " << cpu;
    for (int i = 0; i < kLines; ++i) ASSERT_EQ(lines[static_cast<std::size_t>(i)], marker(cpu, i));
  }
  // Nothing of ours stays, and the kernel has nothing to complain of.
  EXPECT_EQ(guest.vm().sh("ls $TRACEFS/instances"), "");
  EXPECT_EQ(guest.vm().sh("dmesg | grep -E 'WARNING|BUG|Oops|hung' || true"), "");
}

INSTANTIATE_TEST_SUITE_P(Kernels, RecordInGuest,
                         testing::Combine(testing::Values("6.1", "6.12"), testing::Values(2, 4)),
                         [](const auto& instance) {
                           std::string name =
                               fmt::format("Linux{}With{}Cpus", std::get<0>(instance.param),
                                           std::get<1>(instance.param));
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

// One guest for all that does not need one of its own.
class GuestCommands : public testing::Test {
 protected:
  static void SetUpTestSuite() { guest_ = std::make_unique<TracedGuest>("6.1", 2); }
  static void TearDownTestSuite() { guest_.reset(); }

  static inline std::unique_ptr<TracedGuest> guest_;
};

TEST_F(GuestCommands, ADemoLikeRecordCanBeReportedByUsAndByTraceCmdAlike) {
  const std::string output = guest_->file("alike.dat");
  const auto recorded = guest_->run({"record", "--wait", "60s", "-e", "sched", "-e", "irq",
                                     "--duration", "2s", "-o", output, "--quiet"});
  ASSERT_EQ(recorded.exit_code, 0) << recorded.describe();
  const auto ours =
      run_process({std::string(VTRACE_BIN_DIR) + "/virtio-trace", "report", output}, {}, 60s);
  const auto theirs = run_process({"trace-cmd", "report", output}, {}, 60s);
  ASSERT_EQ(ours.exit_code, 0) << ours.describe();
  EXPECT_GT(std::ranges::count(ours.out, '\n'), 50);
  EXPECT_EQ(ours.out, theirs.out);
}

TEST_F(GuestCommands, StatusTellsTheAgentAndItsCpus) {
  const auto text = guest_->run({"status"});
  EXPECT_EQ(text.exit_code, 0) << text.describe();
  EXPECT_THAT(text.out, HasSubstr("with a port 0-1"));
  EXPECT_THAT(text.out, HasSubstr("idle"));
  const auto result = guest_->run({"status", "--json"});
  const json status = json::parse(result.out);
  EXPECT_EQ(status["state"], "idle");
  EXPECT_EQ(status["cpus_with_port"], "0-1");
}

TEST_F(GuestCommands, TheShellAloneWorksAsInTheKernelReadme) {
  GuestVm& vm = guest_->vm();
  // Formats for the decoding, from a run of the usual kind.
  const auto raw = guest_->run({"record", "--wait", "60s", "-e", "irq", "--duration", "200ms", "-o",
                                guest_->file("formats.dat"), "--raw", guest_->file("formats")});
  ASSERT_EQ(raw.exit_code, 0) << raw.describe();

  const std::string out = guest_->file("shell");
  std::filesystem::create_directory(out);
  std::vector<std::unique_ptr<BackgroundProcess>> cats;
  for (const int cpu : {0, 1}) {
    cats.push_back(std::make_unique<BackgroundProcess>(
        std::vector<std::string>{"sh", "-c", R"(exec cat "$1" >"$2")", "sh",
                                 fmt::format("{}/trace-path-cpu{}.out", guest_->fifos(), cpu),
                                 fmt::format("{}/cpu{}.raw", out, cpu)}));
  }
  const std::string control = guest_->fifos() + "/agent-ctl-path.in";
  const auto order = [&control](const std::string& word) {
    const auto done = run_process({"sh", "-c", R"(echo "$1" >"$2")", "sh", word, control});
    EXPECT_EQ(done.exit_code, 0) << done.describe();
  };
  vm.sh("echo 1 >$TRACEFS/events/sched/enable");
  order("1");
  vm.sh("vtrace-workload markers 2000", 60s);
  vm.sh("echo 0 >$TRACEFS/events/sched/enable");
  order("0");
  // The agent hands over the rest; then nothing more comes.
  const auto size = [&out] {
    return std::filesystem::file_size(out + "/cpu0.raw") +
           std::filesystem::file_size(out + "/cpu1.raw");
  };
  std::uintmax_t last = 0;
  ASSERT_TRUE(eventually(
      [&] {
        std::this_thread::sleep_for(1500ms);
        return std::exchange(last, size()) == size() && size() > 0;
      },
      30s));
  for (const auto& cat : cats) cat->signal(SIGTERM);
  for (const int cpu : {0, 1}) {
    const auto bytes = std::filesystem::file_size(fmt::format("{}/cpu{}.raw", out, cpu));
    EXPECT_GT(bytes, 0U);
    EXPECT_EQ(bytes % 4096, 0U);
  }
  const auto report = run_process({std::string(VTRACE_BIN_DIR) + "/virtio-trace", "report", out,
                                   "--metadata", guest_->file("formats/metadata")},
                                  {}, 60s);
  ASSERT_EQ(report.exit_code, 0) << report.describe();
  for (const int cpu : {0, 1}) {
    for (const int line : {0, 1999}) EXPECT_THAT(report.out, HasSubstr(marker(cpu, line) + "\n"));
  }
  EXPECT_THAT(report.out, HasSubstr("sched_switch"));
}

TEST_F(GuestCommands, ASettingTheGuestRefusesComesBackInItsOwnWords) {
  const auto result =
      guest_->run({"record", "--wait", "60s", "-e", "sched:sched_switch", "-f", "nofield == 1",
                   "--duration", "1s", "-o", guest_->file("refused.dat")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("Field not found"));
  EXPECT_FALSE(std::filesystem::exists(guest_->file("refused.dat")));
}

// The largest resident set of the running agent, in KiB.
long agent_peak_kib(GuestVm& vm) {
  return std::stol(vm.sh("awk '/^VmHWM:/ { print $2 }' /proc/$(agent pid)/status"));
}

// Under a sanitizer memory is its own matter: the bound is for the real thing.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kMemoryLimitKib = 2L << 20;
#else
constexpr long kMemoryLimitKib = 64L << 10;
#endif

TEST_F(GuestCommands, AGibibyteGoesThroughWithLittleMemoryOnBothSides) {
  const std::string output = guest_->file("large.dat");
  // So that the flood does not take the CPU from the agent, and nearly all of it goes through.
  guest_->vm().sh("agent stop && agent start --realtime 1");
  auto record =
      guest_->start_record({"-e", "irq:irq_handler_entry", "-b", "32M", "--json", "-o", output});
  guest_->vm().sh(fmt::format("vtrace-workload flood {} --raw --rate 60000000 --instance {}",
                              1200ULL << 20U, kInstance),
                  240s);
  const long agent_kib = agent_peak_kib(guest_->vm());
  record->signal(SIGINT);
  const auto result = record->wait(120s);
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["complete"], true);
  EXPECT_GT(summary["output_bytes"], 1ULL << 30U);
  EXPECT_LT(result.max_rss_kib, kMemoryLimitKib);
  EXPECT_GT(agent_kib, 0);
  EXPECT_LT(agent_kib, kMemoryLimitKib);
  fmt::print("{} bytes, {} events lost, at most {} KiB in the host command, {} KiB in the agent\n",
             summary["output_bytes"].get<std::uint64_t>(),
             summary["events_lost"].get<std::uint64_t>(), result.max_rss_kib, agent_kib);
  std::filesystem::remove(output);
  guest_->vm().sh("agent stop && agent start");
}

// VTRACE_REBOOTS=100 makes it the long run.
TEST(GuestReboots, EachIsFollowedByACompleteRecordOverTheSameFifos) {
  const char* const wished = std::getenv("VTRACE_REBOOTS");
  const int reboots = wished == nullptr ? 10 : std::atoi(wished);
  TracedGuest guest("6.1", 2);
  for (int i = 0; i < reboots; ++i) {
    guest.vm().qmp("system_reset");
    const std::string output = guest.file("reboot.dat");
    // The host begins before the guest is up, every time.
    const auto result = guest.run({"record", "--wait", "90s", "-e", "sched", "--duration", "300ms",
                                   "-o", output, "--json", "--quiet", "--no-kallsyms"});
    ASSERT_EQ(result.exit_code, 0) << "reboot " << i << ": " << result.describe();
    const json summary = json::parse(result.out);
    ASSERT_EQ(summary["complete"], true);
    ASSERT_GT(summary["events"], 0);
    std::uint64_t reported = 0;
    for (const auto& [cpu, events] : trace_cmd_report(output).events) reported += events;
    ASSERT_EQ(summary["events"], reported) << "reboot " << i;
  }
}

}  // namespace
}  // namespace vtrace::test
