// The agent while CPUs go and come.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guest-agent/tracefs.h"
#include "tests/guest/agent_rig.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kRun = 0xc1;
constexpr int kGoing = 1;  // the CPU that goes offline

// Switches a CPU, and back on at the end.
class Offline {
 public:
  Offline() { set("0"); }
  Offline(const Offline&) = delete;
  Offline& operator=(const Offline&) = delete;
  ~Offline() {
    if (off_) set("1");
  }
  void end() { set("1"); }

 private:
  void set(const char* state) {
    must(write_kernel_file(fmt::format("/sys/devices/system/cpu/cpu{}/online", kGoing), state));
    off_ = *state == '0';
  }
  bool off_ = false;
};

struct LiveRun {
  explicit LiveRun(AgentRig& rig) : agent(rig) {
    for (const int cpu : rig.cpus()) readers.push_back(std::make_unique<PortReader>(rig.fifo(cpu)));
    Configure configure;
    configure.buffer_bytes = 8U << 20U;
    (void)rig.ask<Configured>(configure);
    started = rig.ask<Started>(Start{kRun, StartTarget::instance});
    layout = must(parse_header_page(started.header_page));
  }
  // Stops it, and checks that each CPU's events are those that were written, all delivered.
  void expect_all(int first, int going) {
    const auto stopped = agent.ask<Stopped>(Stop{kRun});
    EXPECT_TRUE(stopped.complete);
    ASSERT_EQ(stopped.cpus.size(), 2U);
    for (const std::size_t i : {0U, 1U}) {
      const CpuCounts& counts = stopped.cpus[i];
      SCOPED_TRACE(fmt::format("cpu {}: {} {}", counts.cpu, counts.error, counts.stats_text));
      const auto written = static_cast<std::uint64_t>(i == 0 ? first : going);
      const PortStream stream = cut_run(layout, readers[i]->settled(), kRun);
      EXPECT_TRUE(stream.end.has_value());
      EXPECT_EQ(stream.events(layout), written);
      EXPECT_EQ(counts.recorded(), written);
      EXPECT_EQ(counts.lost(), 0U);
    }
  }

  AgentRig& agent;
  std::vector<std::unique_ptr<PortReader>> readers;
  Started started;
  SubbufLayout layout;
};

TEST(AgentHotplug, ACpuThatGoesOfflineInARunLosesNothing) {
  AgentRig rig;
  LiveRun run(rig);
  for (const int cpu : {0, kGoing}) rig.write_markers(cpu, 3001);
  const Offline offline;
  rig.write_markers(0, 2000);
  EXPECT_EQ(rig.ask<StatusReport>(StatusQuery{}).state, AgentState::recording);
  run.expect_all(5001, 3001);
}

TEST(AgentHotplug, ACpuThatComesBackInARunIsRecordedOn) {
  AgentRig rig;
  LiveRun run(rig);
  for (const int cpu : {0, kGoing}) rig.write_markers(cpu, 1500);
  {
    const Offline offline;
    rig.write_markers(0, 1000);
  }
  rig.write_markers(kGoing, 2000);
  run.expect_all(2500, 3500);
}

TEST(AgentHotplug, ACpuThatIsOfflineAtTheStartIsSaidAndRecordedWhenItComes) {
  AgentRig rig;
  Offline offline;
  LiveRun run(rig);
  EXPECT_THAT(run.started.notes, testing::Contains(HasSubstr("CPU 1: offline")));
  rig.write_markers(0, 1000);
  offline.end();
  rig.write_markers(kGoing, 2000);
  run.expect_all(1000, 2000);
}

}  // namespace
}  // namespace vtrace::test
