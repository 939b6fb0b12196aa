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
    // The number is missing where the kernel found no room for it in the sub-buffer.
    if (std::sscanf(line.c_str(), "CPU:%d [", &gap_cpu) == 1) {
      ++report.gaps[gap_cpu];
      if (std::sscanf(line.c_str(), "CPU:%d [%llu", &gap_cpu, &gap) == 2)
        report.dropped[gap_cpu] += gap;
      continue;
    }
    // "   task-123   [001]    12.345678: print:   tracing_mark_write: text", where without symbols
    // an address stands in place of the function.
    const std::size_t bracket = line.find(" [");
    if (line.starts_with("cpus=") || bracket == std::string::npos) continue;
    const int cpu = std::stoi(line.substr(bracket + 2, 3));
    ++report.events[cpu];
    if (line.find("UNKNOWN") != std::string::npos) report.unknown = line;
    const std::size_t print = line.find(" print: ");
    if (print == std::string::npos) continue;
    const std::size_t text_at = line.find(": ", line.find_first_not_of(' ', print + 8));
    if (text_at != std::string::npos) report.markers[cpu].push_back(line.substr(text_at + 2));
  }
  std::filesystem::remove(text);
  return report;
}

}  // namespace vtrace::test
