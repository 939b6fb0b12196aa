// The host command against an agent that knows only the kernel README's protocol.
#include "tests/support/legacy_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using ::testing::HasSubstr;

const std::string kCommand = std::string(VTRACE_BIN_DIR) + "/virtio-trace";

class LegacyAgentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto made = run_process({kCommand, "setup", "--cpus", "2", "--dir", fifos_});
    ASSERT_EQ(made.exit_code, 0) << made.describe();
  }
  [[nodiscard]] ProcessResult command(std::vector<std::string> words) const {
    words.insert(words.begin(), kCommand);
    words.insert(words.end(), {"--dir", fifos_});
    return run_process(words);
  }

  TempDir temp_;
  std::string fifos_ = temp_.file("fifos");
};

TEST_F(LegacyAgentTest, StartCollectAndStopWork) {
  const LegacyAgent agent(fifos_, 2);
  BackgroundProcess collector(
      {kCommand, "collect", "-o", temp_.file("out"), "--dir", fifos_, "--quiet"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(temp_.file("out/cpu1.raw")); }));

  const auto started = command({"start"});
  EXPECT_EQ(started.exit_code, 0) << started.describe();
  EXPECT_THAT(started.out, HasSubstr("no agent answered"));
  EXPECT_LT(started.elapsed, std::chrono::milliseconds(2500));
  ASSERT_TRUE(eventually([&] { return agent.starts() == 1 && agent.bytes_sent() > 100'000; }));

  const auto stopped = command({"stop"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.describe();
  ASSERT_TRUE(eventually([&] { return agent.stops() == 1; }));

  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  collector.signal(SIGINT);
  const auto collected = collector.wait();
  EXPECT_EQ(collected.exit_code, 0) << collected.describe();
  std::uint64_t total = 0;
  for (const int cpu : {0, 1}) {
    const std::string raw = read_text(temp_.file("out/cpu" + std::to_string(cpu) + ".raw"));
    EXPECT_GT(raw.size(), 0U);
    EXPECT_EQ(raw.size() % 4096, 0U);
    EXPECT_TRUE(std::ranges::all_of(raw, [cpu](char c) { return c == cpu + 1; }));
    total += raw.size();
  }
  EXPECT_EQ(total, agent.bytes_sent());
}

TEST_F(LegacyAgentTest, RecordAndStatusSayWhatTheyCannotHave) {
  const LegacyAgent agent(fifos_, 2);
  const auto recorded = command({"record", "-e", "sched", "-o", temp_.file("trace.dat")});
  EXPECT_EQ(recorded.exit_code, 1) << recorded.describe();
  EXPECT_THAT(recorded.err, HasSubstr("virtio-trace-agent"));
  EXPECT_THAT(recorded.err, HasSubstr("collect"));
  EXPECT_FALSE(std::filesystem::exists(temp_.file("trace.dat")));
  EXPECT_EQ(agent.starts(), 0);

  const auto status = command({"status"});
  EXPECT_EQ(status.exit_code, 1) << status.describe();
  EXPECT_THAT(status.err, HasSubstr("no answer"));
}

TEST_F(LegacyAgentTest, CollectStopsAtItsSizeLimitAndItsDuration) {
  const LegacyAgent agent(fifos_, 2);
  BackgroundProcess collector({kCommand, "collect", "-o", temp_.file("out"), "--dir", fifos_,
                               "--max-size", "64K", "--json"});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(temp_.file("out/cpu1.raw")); }));
  ASSERT_EQ(command({"start"}).exit_code, 0);
  const auto limited = collector.wait();
  EXPECT_EQ(limited.exit_code, 0) << limited.describe();
  EXPECT_THAT(limited.out, HasSubstr("\"size_limit_reached\": true"));
  EXPECT_LE(std::filesystem::file_size(temp_.file("out/cpu0.raw")) +
                std::filesystem::file_size(temp_.file("out/cpu1.raw")),
            65536U);
  ASSERT_EQ(command({"stop"}).exit_code, 0);

  const auto timed = command({"collect", "-o", temp_.file("out2"), "--duration", "300ms"});
  EXPECT_EQ(timed.exit_code, 0) << timed.describe();
}

TEST_F(LegacyAgentTest, WithNobodyThereEachOrderEndsAtOnceAndSaysSo) {
  for (const char* const order : {"start", "stop", "status"}) {
    const auto result = command({order});
    EXPECT_EQ(result.exit_code, 1) << result.describe();
    EXPECT_LT(result.elapsed, std::chrono::milliseconds(2000));
    EXPECT_THAT(result.err, HasSubstr("agent-ctl-path.in"));
    EXPECT_THAT(result.err, HasSubstr("nobody has"));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1);
  }
  const auto recorded = command({"record", "-e", "sched", "-o", temp_.file("trace.dat")});
  EXPECT_EQ(recorded.exit_code, 1) << recorded.describe();
  EXPECT_THAT(recorded.err, HasSubstr("nobody has"));
  for (const auto& entry : std::filesystem::directory_iterator(fifos_))
    EXPECT_TRUE(std::filesystem::is_fifo(entry.status())) << entry.path();
}

TEST_F(LegacyAgentTest, ASecondCollectorIsRefused) {
  BackgroundProcess first({kCommand, "collect", "-o", temp_.file("out"), "--dir", fifos_});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(temp_.file("out/cpu1.raw")); }));
  const auto second = command({"collect", "-o", temp_.file("out2")});
  EXPECT_EQ(second.exit_code, 1) << second.describe();
  EXPECT_THAT(second.err, HasSubstr(fifos_));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 0);
}

}  // namespace
}  // namespace vtrace::test
