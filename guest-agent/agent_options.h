// The agent's command line.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "common/result.h"
#include "guest-agent/machine.h"
#include "guest-agent/port_set.h"
#include "guest-agent/tracefs.h"

namespace vtrace {

struct AgentOptions {
  bool to_stdout = false;                 // -o, as the kernel's agent has it
  std::size_t pipe_bytes = 1U << 20U;     // -s
  std::string instance = "virtio-trace";  // of tracefs, the agent's own
  std::chrono::milliseconds flush_interval{1000};
  int realtime_priority = 0;  // of the recorders, SCHED_FIFO; 0: they are scheduled as all others
  PortPlaces ports;
  TracefsPlaces tracefs;
  MachinePlaces machine;
};

// What the command line asks for: options to run with, or a text to print (help, version).
struct CommandLine {
  AgentOptions options;
  std::string text;  // not empty: print this on stdout and exit 0
};

// An error of kind usage when it does not make sense.
[[nodiscard]] Result<CommandLine> parse_command_line(int argc, const char* const* argv);

// "64K", "1M", "65536": the size of a pipe, 64 KiB to 1 MiB as in the kernel's agent.
[[nodiscard]] Result<std::size_t> parse_pipe_size(const std::string& text);
// "1", "0.5s", "2m", "200ms": a duration, seconds without a unit; 10 ms to one hour.
[[nodiscard]] Result<std::chrono::milliseconds> parse_flush_interval(const std::string& text);

}  // namespace vtrace
