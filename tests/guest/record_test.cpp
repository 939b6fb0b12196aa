// record from end to end over FIFOs, judged by trace-cmd.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "tests/guest/fifo_guest.h"
#include "tests/support/trace_cmd.h"

namespace vtrace::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class RecordTest : public ::testing::Test {
 protected:
  void SetUp() override { guest_.emplace(); }

  // Starts a record in the background and waits until it has begun.
  std::unique_ptr<BackgroundProcess> start_record(std::vector<std::string> words) {
    words.insert(words.begin(), {"record", "-o", output()});
    auto record = std::make_unique<BackgroundProcess>(guest_->command(std::move(words)));
    EXPECT_TRUE(record->wait_for_err("recording\n")) << record->err_so_far();
    return record;
  }
  [[nodiscard]] std::string output() const { return guest_->file("trace.dat"); }
  // Nothing but what is named lies beside the output: no spool, no temporary file.
  void expect_only(std::set<std::string> names) const {
    names.insert("fifos");
    std::set<std::string> found;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(output()).parent_path()))
      found.insert(entry.path().filename().string());
    EXPECT_EQ(found, names);
  }

  std::optional<FifoGuest> guest_;
};

// What is in the file, as trace-cmd sees it; nothing unknown in it.
TraceCmdReport known_report(const std::string& file) {
  TraceCmdReport report = trace_cmd_report(file);
  EXPECT_EQ(report.unknown, "");
  return report;
}

std::uint64_t sum(const std::map<int, std::uint64_t>& by_cpu) {
  std::uint64_t total = 0;
  for (const auto& [cpu, count] : by_cpu) total += count;
  return total;
}

TEST_F(RecordTest, EveryLineIsThereOnceAndInOrderAndTheCountsAgree) {
  constexpr int kLines = 10'000;
  auto record = start_record({"-e", "sched", "-e", "irq", "-b", "8M", "--json"});
  for (int cpu = 0; cpu < guest_->cpus(); ++cpu) guest_->write_markers(cpu, kLines);
  record->signal(SIGINT);
  const auto result = record->wait();
  ASSERT_EQ(result.exit_code, 0) << result.describe();
  const json summary = json::parse(result.out);
  EXPECT_TRUE(summary["complete"]);
  EXPECT_EQ(summary["events_lost"], 0);
  const TraceCmdReport report = known_report(output());
  EXPECT_EQ(sum(report.events), summary["events"]);
  for (int cpu = 0; cpu < guest_->cpus(); ++cpu) {
    const auto found = report.markers.find(cpu);
    ASSERT_NE(found, report.markers.end());
    ASSERT_EQ(found->second.size(), std::size_t{kLines});
    for (int i = 0; i < kLines; ++i)
      ASSERT_EQ(found->second[static_cast<std::size_t>(i)], fmt::format("CPU {} LINE {}", cpu, i));
  }
  for (const json& cpu : summary["cpus"]) {
    EXPECT_EQ(cpu["events_recorded"], cpu["events_read"]);
    EXPECT_EQ(cpu["bytes_sent"], cpu["bytes_written"]);
  }
  expect_only({"trace.dat"});
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(guest_->instance_path("")); }));
}

TEST_F(RecordTest, ADurationEndsItAndTheTableShowsEachCpu) {
  const auto result =
      guest_->run({"record", "-e", "sched:sched_switch", "--duration", "1s", "-o", output()});
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.out, HasSubstr("events"));
  EXPECT_THAT(result.out, HasSubstr(output()));
  EXPECT_LT(result.elapsed, std::chrono::seconds(10));
}

TEST_F(RecordTest, OneRunAfterTheOtherEachHasItsOwnDataAlone) {
  for (int run = 0; run < 3; ++run) {
    auto record = start_record({"-e", "irq", "--no-kallsyms"});
    guest_->write_markers(0, 100 + run);
    record->signal(SIGTERM);
    const auto result = record->wait();
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_EQ(known_report(output()).markers[0].size(), std::size_t(100 + run));
  }
}

TEST_F(RecordTest, KeepsTheRawFilesWhereItIsTold) {
  auto record = start_record({"-e", "sched", "--raw", guest_->file("raw"), "--no-kallsyms"});
  guest_->write_markers(0, 500);
  record->signal(SIGINT);
  ASSERT_EQ(record->wait().exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(guest_->file("raw/cpu0.raw")) % 4096, 0U);
  EXPECT_TRUE(std::filesystem::exists(guest_->file("raw/metadata")));
  const auto again = guest_->run(
      {"record", "-e", "sched", "-o", output(), "--duration", "1", "--raw", guest_->file("raw")});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.err, HasSubstr("capture in it already"));
}

TEST_F(RecordTest, BadSettingsBringTheGuestsOwnMessageAndChangeNothing) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"-e", "nosuch"}, "nosuch"},
      {{"-e", "sched:nosuch"}, "nosuch"},
      {{"-e", "sched:sched_switch", "-f", "nofield == 1"}, "Field not found"},
      {{"-e", "sched:sched_switch", "-f", "prev_pid =="}, "prev_pid =="},
      {{"-e", "sched", "-C", "noclock"}, "noclock"},
      {{"-p", "notracer"}, "notracer"},
  };
  for (const auto& [words, message] : cases) {
    std::vector<std::string> all = {"record", "-o", output(), "--duration", "1"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = guest_->run(all);
    EXPECT_EQ(result.exit_code, 1) << result.describe();
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(guest_->instance_path("")); }));
    expect_only({});
  }
}

TEST_F(RecordTest, AnOutputThatCannotBeWrittenIsFoundOutBeforeTheStart) {
  for (const std::string& place :
       {std::string("/nonexistent/trace.dat"), guest_->fifos(), std::string("/proc/trace.dat")}) {
    const auto result = guest_->run({"record", "-e", "sched", "-o", place, "--duration", "1"});
    EXPECT_EQ(result.exit_code, 1) << result.describe();
    EXPECT_THAT(result.err, HasSubstr(place));
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("recording")));
  }
}

TEST_F(RecordTest, AnAgentKilledMidRunEndsItWithWhatCameUntilThen) {
  auto record = start_record({"-e", "sched", "-b", "8M"});
  guest_->write_markers(0, 5000);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  guest_->stop_agent(SIGKILL);
  guest_->start_agent();
  const auto result = record->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("incomplete: the guest is gone"));
  EXPECT_GE(known_report(output()).markers[0].size(), 4000U);
  // And the next one is whole again.
  auto next = start_record({"-e", "sched"});
  guest_->write_markers(0, 10);
  next->signal(SIGINT);
  const auto whole = next->wait();
  EXPECT_EQ(whole.exit_code, 0) << whole.describe();
  EXPECT_EQ(known_report(output()).markers[0].size(), 10U);
}

TEST_F(RecordTest, ARunThatAnotherOrderEndsIsNotTakenForComplete) {
  auto record = start_record({"-e", "sched", "--duration", "20s", "--no-kallsyms"});
  write_text(guest_->fifos() + "/agent-ctl-path.in", "0\n");
  const auto result = record->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("another order ended the run"));
  EXPECT_LT(result.elapsed, std::chrono::seconds(15));
}

TEST_F(RecordTest, ProgressThatNobodyCanReadEndsNothing) {
  std::vector<std::string> words = {"sh", "-c", R"(exec "$@" 2>/dev/full)", "sh"};
  for (const std::string& word : guest_->command(
           {"record", "-e", "sched", "--duration", "1s", "--no-kallsyms", "-o", output()}))
    words.push_back(word);
  const auto result = run_process(words);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  expect_only({"trace.dat"});
}

TEST_F(RecordTest, AResultThatCannotBePrintedIsAnError) {
  std::vector<std::string> words = {"sh", "-c", R"(exec "$@" >/dev/full)", "sh"};
  for (const std::string& word : guest_->command({"status"})) words.push_back(word);
  const auto result = run_process(words);
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST_F(RecordTest, LossInTheRingBufferIsCountedAndSaid) {
  // Nobody reads while this one sleeps: the small ring buffer runs over.
  auto record =
      start_record({"-e", "irq:irq_handler_entry", "-b", "16K", "--json", "--fail-on-loss"});
  record->signal(SIGSTOP);
  for (int i = 0; i < 40; ++i) guest_->write_markers(0, 10'000);
  record->signal(SIGCONT);
  record->signal(SIGINT);
  const auto result = record->wait();
  EXPECT_EQ(result.exit_code, 1) << result.describe();
  const json summary = json::parse(result.out);
  EXPECT_TRUE(summary["complete"]);
  const std::uint64_t lost = summary["events_lost"];
  EXPECT_GT(lost, 0U);
  // An interrupt among the lines may be lost like them.
  const std::uint64_t recorded = std::uint64_t{summary["events"]} + lost;
  EXPECT_GE(recorded, 400'000U);
  const TraceCmdReport report = known_report(output());
  EXPECT_EQ(sum(report.events) + lost, recorded);
  EXPECT_GE(report.markers.at(0).size() + lost, 400'000U);
  // The place is marked.
  EXPECT_GT(report.gaps.at(0), 0);
  EXPECT_LE(sum(report.dropped), lost);
  EXPECT_THAT(result.err, HasSubstr("lost"));
}

}  // namespace
}  // namespace vtrace::test
