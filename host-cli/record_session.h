// One recording from the first word to the agent to the finished trace.dat.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/messages.h"
#include "common/result.h"
#include "host-cli/collector.h"
#include "host-cli/control_client.h"

namespace vtrace {

struct RecordPlan {
  std::string directory;      // of the FIFOs
  std::string output;         // the trace.dat
  std::string raw_directory;  // keeps the per-CPU files there; empty: they go
  Configure settings;
  std::optional<std::chrono::milliseconds> duration;   // nothing: until a signal
  std::chrono::milliseconds agent_wait = kAnswerTime;  // for the agent's first answer
  bool kallsyms = true;
};

// Where one CPU's events and bytes are. Events are those of the run.
struct CpuLedger {
  int cpu = 0;
  std::optional<CpuCounts> agent;  // nothing: the agent was gone before it could tell
  CpuProgress host;

  // What does not add up or did not arrive; empty: all that was recorded is in the file.
  std::string problem;

  [[nodiscard]] std::uint64_t delivered_events() const { return agent ? agent->read_events : 0; }
  [[nodiscard]] std::uint64_t lost_events() const {
    return agent ? agent->lost() : host.lost_events;
  }
};

struct RecordSummary {
  std::string output;
  std::uint64_t output_bytes = 0;
  std::string raw_directory;
  std::uint64_t run_id = 0;
  double seconds = 0;  // from start to stop
  AgentHello agent;
  std::vector<CpuLedger> cpus;
  // What ended the run early or left it incomplete; empty: complete. The output is written anyway.
  std::string problem;
};

// Told what goes on; called from the thread that records.
class RecordObserver {
 public:
  virtual ~RecordObserver() = default;
  // A new phase: "waiting for the agent", "recording", …
  virtual void phase(std::string_view what) = 0;
  // Something that the user should know, once: a line.
  virtual void note(std::string_view text) = 0;
  // Every second while recording and draining.
  virtual void tick(double seconds, const std::vector<CpuProgress>& cpus) = 0;
  // Of a phase that can tell: bytes so far and in all.
  virtual void progress(std::uint64_t done, std::uint64_t total) = 0;
};

// SIGINT or SIGTERM end the recording well; a second one ends with ErrorKind::interrupted at once,
// and the raw files stay. Errors before the start leave nothing behind.
[[nodiscard]] Result<RecordSummary> record(const RecordPlan& plan, RecordObserver& observer);

}  // namespace vtrace
