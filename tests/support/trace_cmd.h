// The real trace-cmd as the reader that judges our files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vtrace::test {

// A trace.dat as the real trace-cmd reports it.
struct TraceCmdReport {
  std::map<int, std::uint64_t> events;  // by CPU
  std::map<int, std::vector<std::string>>
      markers;                           // by CPU: texts of trace_marker writes, in order
  std::map<int, int> gaps;               // by CPU: marks where events are lost
  std::map<int, std::uint64_t> dropped;  // by CPU: the numbers in those marks
  std::string unknown;                   // a line of an event that it does not know
};

// Fails the running test when trace-cmd does not exit with 0.
[[nodiscard]] TraceCmdReport trace_cmd_report(const std::string& file);

}  // namespace vtrace::test
