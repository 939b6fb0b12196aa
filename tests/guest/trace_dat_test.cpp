// What our writer makes of real sub-buffers, as the field's own reader sees it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "host-cli/trace_dat_writer.h"
#include "tests/guest/tracefs_recording.h"
#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

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
  test::TempDir dir_;
};
class TraceDatOfSubbufKb : public TraceDat, public ::testing::WithParamInterface<int> {};

TEST_P(TraceDatOfSubbufKb, HoldsEveryEventThatTheKernelCounted) {
  if (GetParam() != 4 && !test::has_subbuf_sizes())
    GTEST_SKIP() << "this kernel's sub-buffers have one size";
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

TEST_F(TraceDat, ReadsWhatTraceCmdConvertsToVersion7) {
  const auto recording = test::record_here(dir_.path().string());
  const std::string file = dir_.file("trace.dat");
  write_dat(recording, file);
  const std::string text = trace_cmd_report(file);
  for (const std::string compression : {"none", "zstd"}) {
    const std::string converted = dir_.file(compression + ".dat");
    const auto result = test::run_process({"trace-cmd", "convert", "-i", file, "-o", converted,
                                           "--file-version", "7", "--compression", compression});
    ASSERT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_EQ(our_report({converted}), text) << compression;
  }
}

TEST_F(TraceDat, ShowsEveryClockAsTraceCmdDoes) {
  for (const std::string clock : {"mono", "x86-tsc", "counter", "tai", "perf"}) {
    const auto recording = test::record_here(dir_.path().string(),
                                             {.clock = clock, .marker_lines = 50, .busy_ms = 20});
    write_dat(recording, dir_.file("trace.dat"));
    EXPECT_EQ(our_report({dir_.file("trace.dat")}), trace_cmd_report(dir_.file("trace.dat")));
  }
}

TEST_F(TraceDat, ReportsARawCaptureDirectory) {
  const auto recording = test::record_here(dir_.path().string());
  const std::string file = dir_.file("trace.dat");
  write_dat(recording, file);
  const test::ProcessResult without =
      test::run_process({VTRACE_BIN_DIR "/virtio-trace", "report", dir_.path().string()});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.err, ::testing::HasSubstr("--metadata"));
  EXPECT_EQ(our_report({dir_.path().string(), "--metadata", file}), our_report({file}));
  const Bytes encoded = encode_metadata(recording.metadata);
  test::write_text(dir_.file("metadata"), as_text(encoded));
  EXPECT_EQ(our_report({dir_.path().string()}), our_report({file}));
}

TEST_F(TraceDat, MarksLossAndDamageWhereTheyHappened) {
  const auto recording = test::record_here(dir_.path().string());
  const std::string file = dir_.file("trace.dat");
  // The second sub-buffer of the first CPU says that 123 events were lost, the fourth is zeros.
  const test::CpuRecording& first = recording.cpus.begin()->second;
  ASSERT_GE(first.bytes, 5 * 4096U);
  std::string raw = test::read_text(first.file);
  const std::uint32_t data = load_u32(as_bytes(raw).subspan(4096 + 8)) & 0x7ffffff;
  ASSERT_LE(data + 24, 4096U);
  raw[4096 + 8 + 3] = static_cast<char>(0xc0);
  raw[4096 + 16 + data] = 123;
  std::fill_n(raw.begin() + 3 * 4096, 4096, '\0');
  test::write_text(first.file, raw);
  write_dat(recording, file);

  const test::ProcessResult result =
      test::run_process({VTRACE_BIN_DIR "/virtio-trace", "report", file});
  EXPECT_EQ(result.exit_code, 0);
  const std::string mark = fmt::format("CPU:{} ", recording.cpus.begin()->first);
  EXPECT_THAT(result.out, ::testing::HasSubstr(mark + "[123 EVENTS DROPPED]\n"));
  EXPECT_THAT(result.out, ::testing::HasSubstr(mark + "[DAMAGED DATA SKIPPED]\n"));
  EXPECT_THAT(result.err, ::testing::HasSubstr("123 events lost"));
  EXPECT_THAT(result.err, ::testing::HasSubstr("damaged at byte 12288"));
  const test::ProcessResult json = test::run_process(
      {VTRACE_BIN_DIR "/virtio-trace", "report", "--json", "--fail-on-loss", file});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_THAT(json.out, ::testing::HasSubstr("\"lost_events\": 123"));
  EXPECT_THAT(json.out, ::testing::HasSubstr("\"damaged\": 1"));
}

TEST_F(TraceDat, EndsQuietlyWhenNobodyReadsOn) {
  const auto recording = test::record_here(dir_.path().string(), {.marker_lines = 20000});
  write_dat(recording, dir_.file("trace.dat"));
  const auto head =
      test::run_process({"sh", "-c", "{ \"$0\" report \"$1\"; echo \"rc=$?\" >&2; } | head -n 3",
                         VTRACE_BIN_DIR "/virtio-trace", dir_.file("trace.dat")});
  EXPECT_EQ(std::count(head.out.begin(), head.out.end(), '\n'), 3);
  EXPECT_EQ(head.err, "rc=0\n");
}

TEST_F(TraceDat, EndsOnInterruptThoughNobodyReads) {
  const auto recording = test::record_here(dir_.path().string(), {.marker_lines = 20000});
  write_dat(recording, dir_.file("trace.dat"));
  const std::string fifo = dir_.file("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Fd nobody = test::must(open_fd(fifo, O_RDWR));  // has it open, and reads nothing
  test::ProcessOptions options;
  options.output_file = fifo;
  test::BackgroundProcess report({VTRACE_BIN_DIR "/virtio-trace", "report", dir_.file("trace.dat")},
                                 options);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ASSERT_TRUE(report.running());
  report.signal(SIGINT);
  EXPECT_EQ(report.wait(test::Duration{5000}).exit_code, 130);
}

}  // namespace
}  // namespace vtrace
