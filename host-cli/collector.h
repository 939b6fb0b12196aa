// Drains the data ports of one guest into per-CPU files.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/subbuffer.h"
#include "host-cli/run_filter.h"

namespace vtrace {

// One CPU: where its data comes from and goes to. `port` is O_NONBLOCK, `file` is written from its
// current offset on.
struct CollectorInput {
  int cpu = 0;
  Fd port;
  Fd file;
  std::string port_name;  // for errors
  std::string file_name;
};

// A CPU's counts, as of now.
struct CpuProgress {
  int cpu = 0;
  bool begun = false;
  bool ended = false;
  std::uint64_t received_bytes = 0;  // of the run
  std::uint64_t written_bytes = 0;
  std::uint64_t thrown_away = 0;  // of earlier runs
  std::uint64_t lost_events = 0;
  std::uint64_t gaps = 0;
  std::uint64_t damaged = 0;
  std::uint64_t partial_bytes = 0;
  std::optional<Fence> end_fence;
  std::size_t queued_bytes = 0;  // in the FIFO now
  std::size_t queue_size = 0;
};

// One thread reads all ports. It is started at once, so that what an earlier run left is gone
// before a start is ordered. All functions are for the thread that made the collector.
class Collector {
 public:
  // What lies between the fences of `run_id`; `layout` is that of the buffer that will be read.
  struct Run {
    SubbufLayout layout;
    std::uint64_t run_id = 0;
  };

  // Without a run everything is kept as it comes, fences too: for an agent that sends none.
  // `max_bytes`: the files together get no larger; 0: no limit.
  [[nodiscard]] static Result<std::unique_ptr<Collector>> create(std::vector<CollectorInput> inputs,
                                                                 std::optional<Run> run,
                                                                 std::uint64_t max_bytes);
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector();

  [[nodiscard]] std::vector<CpuProgress> progress() const;
  // Every CPU's end fence is here.
  [[nodiscard]] bool all_ended() const;
  // Readable when all have ended, a fault has come, or the size limit is reached.
  [[nodiscard]] int event_fd() const;
  // Takes the event back, before a look at what has come.
  void clear_event() const;
  [[nodiscard]] bool size_limit_reached() const;
  // What stopped the writing (disk full): the ports are drained on, so that the guest does not
  // stand.
  [[nodiscard]] std::optional<Error> fault() const;

  // Reads what is there, then ends the thread. Without it the destructor ends the thread at once.
  void finish();

 private:
  class Worker;
  explicit Collector(std::unique_ptr<Worker> worker);

  std::unique_ptr<Worker> worker_;
  std::jthread thread_;
};

}  // namespace vtrace
