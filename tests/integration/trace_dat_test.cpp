// What our writer makes of real sub-buffers, as the field's own reader sees it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "host-cli/trace_dat_writer.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tracefs_recording.h"

namespace vtrace {
namespace {

using test::must;

// Writes the recording as FILE; `numbers` gives recorded CPUs other numbers.
void write_dat(const test::Recording& recording, const std::string& file,
               const std::map<int, int>& numbers = {}) {
  std::vector<Fd> fds;
  std::vector<CpuSource> sources;
  TraceDatExtras extras;
  extras.trace_id = 0x1234;
  for (const auto& [cpu, one] : recording.cpus) {
    const auto renamed = numbers.find(cpu);
    const int number = renamed == numbers.end() ? cpu : renamed->second;
    fds.push_back(must(open_fd(one.file, O_RDONLY)));
    sources.push_back({number, fds.back().get(), 0, one.bytes});
    extras.cpu_stats.emplace_back(number, one.stats);
  }
  TraceDatWriter writer = must(TraceDatWriter::create(file));
  must(writer.write(recording.metadata, extras, sources));
}

std::string trace_cmd_report(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> argv = {"trace-cmd", "report", "-i", file};
  argv.insert(argv.end(), more.begin(), more.end());
  const test::ProcessResult result = test::run_process(argv);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  return result.out;
}

std::string our_report(const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {VTRACE_BIN_DIR "/virtio-trace", "report"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  const test::ProcessResult result = test::run_process(argv);
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  return result.out;
}

// Events per CPU in a report's text.
std::map<int, std::uint64_t> count_events(const std::string& text) {
  std::map<int, std::uint64_t> counts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t bracket = line.find(" [");
    int cpu = 0;
    if (bracket != std::string::npos && line.size() > bracket + 5 && line[bracket + 5] == ']' &&
        std::sscanf(line.c_str() + bracket, " [%d]", &cpu) == 1)
      ++counts[cpu];
    at = end + 1;
  }
  return counts;
}

class TraceDat : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::TracefsInstance::available()) GTEST_SKIP() << "no tracefs to write to";
  }
  test::TempDir dir_;
};
class TraceDatOfSubbufKb : public TraceDat, public ::testing::WithParamInterface<int> {};

TEST_P(TraceDatOfSubbufKb, HoldsEveryEventThatTheKernelCounted) {
  const auto recording = test::record_here(dir_.path().string(), {.subbuf_kb = GetParam()});
  const std::string file = dir_.file("trace.dat");
  write_dat(recording, file);
  const std::string text = trace_cmd_report(file);
  EXPECT_EQ(text.find("UNKNOWN"), std::string::npos);
  EXPECT_EQ(our_report({file}), text);
  const auto counts = count_events(text);
  for (const auto& [cpu, one] : recording.cpus) {
    EXPECT_EQ(one.overrun, 0U);
    EXPECT_GT(one.entries, 1000U);
    EXPECT_EQ(counts.at(cpu), one.entries) << "CPU " << cpu;
  }
}

INSTANTIATE_TEST_SUITE_P(SubbufKb, TraceDatOfSubbufKb, ::testing::Values(4, 8, 64));

TEST_F(TraceDat, KeepsTheNumbersOfSparseCpus) {
  const auto recording = test::record_here(dir_.path().string());
  const std::string file = dir_.file("trace.dat");
  write_dat(recording, file, {{0, 2}, {1, 5}});
  const std::string text = trace_cmd_report(file);
  EXPECT_EQ(our_report({file}), text);
  const auto counts = count_events(text);
  ASSERT_EQ(counts.size(), recording.cpus.size());
  EXPECT_EQ(counts.at(2), recording.cpus.at(0).entries);
  if (recording.cpus.size() > 1) {
    EXPECT_EQ(counts.at(5), recording.cpus.at(1).entries);
  }
}

}  // namespace
}  // namespace vtrace
