// Records one CPU: a thread that moves its ring buffer's sub-buffers to its port.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/fd.h"
#include "common/messages.h"
#include "common/result.h"
#include "common/splice_pump.h"
#include "common/subbuffer.h"
#include "guest-agent/buffer_stats.h"
#include "guest-agent/sink_turn.h"
#include "guest-agent/tracefs.h"

namespace vtrace {

struct RecorderPlan {
  int cpu = 0;
  TraceBuffer buffer;
  SubbufLayout layout;
  int sink = -1;                        // the port, O_NONBLOCK; borrowed
  std::optional<std::uint64_t> run_id;  // of the fences; nothing: none are sent
  Bytes torn;                           // goes out first (DataPort::torn)
  std::chrono::milliseconds flush_interval{1000};
  std::size_t pipe_bytes = 1U << 20U;
  int realtime_priority = 0;         // SCHED_FIFO; 0: none
  bool goes_on = false;              // recording may go on after stop(): the top level
  SinkTurn* turn = nullptr;          // where the sink is shared
  const WakeFd* finished = nullptr;  // signalled at the end
  SpliceSystem* system = &SpliceSystem::kernel();
};

// What the thread sends, in this order: the torn rest, the begin fence, sub-buffers, the end fence.
//
// It sleeps until the ring buffer is filled to its wake level, or for the flush interval: then what
// lies in a part-filled sub-buffer is sent too, so that a quiet CPU's events arrive. A sink that
// takes nothing stops the reading, so never more than the pump's pipe is in memory; the ring buffer
// runs over and the kernel counts what that costs.
//
// The constructor's thread gives orders; counts() and finished() may be called from any.
class CpuRecorder {
 public:
  // Opens the ring buffer, notes its counts and starts the thread. The caller switches tracing on
  // after this.
  [[nodiscard]] static Result<std::unique_ptr<CpuRecorder>> start(RecorderPlan plan);
  // Drops what is pending.
  ~CpuRecorder();
  CpuRecorder(const CpuRecorder&) = delete;
  CpuRecorder& operator=(const CpuRecorder&) = delete;

  // Sends what the buffer holds, then the end fence, then finishes; as fast as the sink takes it.
  // What is recorded after this call is sent only as far as it fits what the buffer held.
  void stop();
  // Drops what is pending and finishes at once.
  void drop();
  // Waits for the thread's end, which must be near.
  void join();
  // Takes a stop() back; false when it has finished already. Not for a recorder with fences.
  [[nodiscard]] bool resume();

  [[nodiscard]] bool finished() const;
  [[nodiscard]] int cpu() const { return plan_.cpu; }
  [[nodiscard]] pid_t thread_id() const { return thread_id_.load(); }
  [[nodiscard]] bool pinned() const { return pinned_.load(); }
  // Splice was refused, and read and write have taken over.
  [[nodiscard]] bool fell_back() const { return fell_back_.load(); }
  // Is it scheduled as was wished?
  [[nodiscard]] bool prioritised() const { return prioritised_.load(); }
  // Reads the kernel's part afresh until the ring buffer was emptied for good.
  [[nodiscard]] CpuCounts counts() const;

  // After the end. The rest of a sub-buffer of which the sink has a part; and whether the sink has
  // failed, so that it is to be opened anew.
  [[nodiscard]] Bytes take_torn();
  [[nodiscard]] bool sink_failed() const;

 private:
  enum class Order { record, stop, drop };
  enum class Phase {
    recording,
    emptying,  // stopped: what the ring buffer holds is being read
    closing,   // all is read, what the pump holds goes out
    done,
  };
  using Clock = std::chrono::steady_clock;

  CpuRecorder(RecorderPlan plan, Fd source, BufferStats before, SplicePump pump, WakeFd wake);

  void run();
  void pin();
  void take_order();
  void deliver();
  void record();
  void wait_for_source();
  void empty();
  void settle();
  void drop_pending();
  void fail_source(const Error& error);
  void fail_sink(const Error& error);
  void sleep(bool for_source, std::optional<std::chrono::milliseconds> limit);
  void set_order(Order order);
  void note_moved();
  void publish();
  [[nodiscard]] bool between_subbufs() const;
  [[nodiscard]] std::uint64_t sent() const;
  bool try_finish();
  void keep_final_stats();

  RecorderPlan plan_;
  Fd source_;
  BufferStats before_;
  SplicePump pump_;
  WakeFd wake_;

  // The thread's own.
  Phase phase_ = Phase::recording;
  std::uint64_t torn_before_ = 0;
  std::uint64_t prefix_ = 0;  // bytes before the run's data: torn rest and begin fence
  std::uint64_t discarded_ = 0;
  bool dropped_all_ = false;
  std::uint64_t taken_at_stop_ = 0;
  std::uint64_t buffer_bytes_ = 0;
  int settle_tries_ = 0;
  bool last_part_taken_ = false;
  Clock::time_point flush_at_;
  bool flush_due_ = false;
  bool source_was_ready_ = false;          // by poll's word
  std::chrono::milliseconds back_off_{0};  // not 0: poll's word is not asked for
  bool woken_ = false;
  bool timed_out_ = false;

  std::atomic<Order> order_ = Order::record;
  std::atomic<pid_t> thread_id_ = 0;
  std::atomic<bool> pinned_ = true;
  std::atomic<bool> prioritised_ = true;
  std::atomic<bool> fell_back_ = false;

  mutable std::mutex mutex_;  // what follows
  CpuCounts shown_;           // the agent's part; the kernel's once final_stats_ is there
  std::optional<std::string> final_stats_;
  Bytes torn_after_;
  bool sink_failed_ = false;
  bool finished_ = false;

  std::jthread thread_;  // last: it uses all the above
};

}  // namespace vtrace
