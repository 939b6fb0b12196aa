#include "tests/support/trace_cmd.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/support/process.h"

namespace vtrace::test {

TraceCmdReport trace_cmd_report(const std::string& file) {
  const std::string text = file + ".report";
  const auto result =
      run_process({"trace-cmd", "report", file}, {.output_file = text}, std::chrono::seconds(120));
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  TraceCmdReport report;
  std::ifstream in(text);
  for (std::string line; std::getline(in, line);) {
    int gap_cpu = 0;
    unsigned long long gap = 0;
    if (std::sscanf(line.c_str(), "CPU:%d [%llu EVENTS DROPPED]", &gap_cpu, &gap) == 2) {
      report.dropped[gap_cpu] += gap;
      continue;
    }
    // "   task-123   [001]    12.345678: print:   tracing_mark_write: text"
    const std::size_t bracket = line.find(" [");
    if (line.starts_with("cpus=") || line.starts_with("CPU:") || bracket == std::string::npos)
      continue;
    const int cpu = std::stoi(line.substr(bracket + 2, 3));
    ++report.events[cpu];
    if (line.find("UNKNOWN") != std::string::npos) report.unknown = line;
    const std::size_t mark = line.find("tracing_mark_write: ");
    if (mark != std::string::npos) report.markers[cpu].push_back(line.substr(mark + 20));
  }
  std::filesystem::remove(text);
  return report;
}

}  // namespace vtrace::test
