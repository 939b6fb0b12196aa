// One run: from a start order until every CPU's recorder has finished.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_list.h"
#include "common/messages.h"
#include "common/result.h"
#include "guest-agent/port_set.h"
#include "guest-agent/recorder.h"
#include "guest-agent/sink_turn.h"
#include "guest-agent/tracefs.h"

namespace vtrace {

// The standard output in place of all data ports (-o). A value that outlives the runs.
struct SharedSink {
  Fd fd;
  SinkTurn turn;
  Bytes torn;  // as DataPort::torn
};

struct RunPlan {
  TraceBuffer buffer;
  StartTarget target = StartTarget::top_level;
  std::optional<std::uint64_t> run_id = {};  // nothing: a legacy run, without fences
  CpuList present = {};  // CPUs that the machine has; empty: not known, take all
  std::chrono::milliseconds flush_interval{1000};
  std::size_t pipe_bytes = 1U << 20U;
  int realtime_priority = 0;  // SCHED_FIFO; 0: none
};

// Used by one thread.
class RecordingRun {
 public:
  // Starts a recorder for each CPU that is present, has a ring buffer and has a port. `ports`,
  // `shared` (null: ports are used) and `report` must outlive the run; `report` is signalled when a
  // recorder finishes.
  [[nodiscard]] static Result<std::unique_ptr<RecordingRun>> start(RunPlan plan, DataPorts& ports,
                                                                   SharedSink* shared,
                                                                   const WakeFd& report);
  ~RecordingRun();
  RecordingRun(const RecordingRun&) = delete;
  RecordingRun& operator=(const RecordingRun&) = delete;

  void stop();
  // Drops what is pending and waits for the threads, which takes no longer than a wake-up.
  void drop();
  // A legacy start after a legacy stop: what is pending stays. False when all has finished.
  [[nodiscard]] bool resume();

  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool stopping() const { return stopping_; }
  // Every byte and every end fence went to the ports.
  [[nodiscard]] bool complete() const;

  [[nodiscard]] std::uint64_t run_id() const { return plan_.run_id.value_or(0); }
  [[nodiscard]] bool legacy() const { return !plan_.run_id; }
  [[nodiscard]] StartTarget target() const { return plan_.target; }
  [[nodiscard]] const TraceBuffer& buffer() const { return plan_.buffer; }
  [[nodiscard]] const SubbufLayout& layout() const { return layout_; }
  [[nodiscard]] const std::string& header_page() const { return header_page_; }
  [[nodiscard]] CpuList cpus() const;
  [[nodiscard]] std::vector<pid_t> threads() const;
  [[nodiscard]] std::uint64_t running_ns() const;

  // Ordered by CPU. `with_text`: with the kernel's own text of the counts.
  [[nodiscard]] std::vector<CpuCounts> counts(bool with_text) const;
  // What a user should know: at the start, and later also what CPUs without a recorder recorded.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  RecordingRun(RunPlan plan, DataPorts& ports, SharedSink* shared, const WakeFd& report)
      : plan_(std::move(plan)), ports_(&ports), shared_(shared), report_(&report) {}

  Status start_recorders();
  Status start_recorder(int cpu);
  void note_unserved(const CpuList& no_port, const CpuList& absent, const CpuList& unreadable);
  void give_back_sinks();

  RunPlan plan_;
  DataPorts* ports_;
  SharedSink* shared_;
  const WakeFd* report_;
  SubbufLayout layout_;
  std::string header_page_;
  std::vector<std::unique_ptr<CpuRecorder>> recorders_;
  struct Unserved {
    int cpu = 0;
    BufferStats before;
  };
  std::vector<Unserved> unserved_;
  std::vector<std::string> notes_;
  bool stopping_ = false;
  bool given_back_ = false;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// "CPU 3" or "CPUs 1,4-7".
[[nodiscard]] std::string cpu_words(const CpuList& cpus);

}  // namespace vtrace
