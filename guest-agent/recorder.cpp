#include "guest-agent/recorder.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/fence.h"

namespace vtrace {
namespace {

using namespace std::chrono_literals;

// A writer that was interrupted on its way may hold a sub-buffer back for a moment.
constexpr int kSettleTries = 20;
constexpr auto kSettlePause = 2ms;
// poll says "ready" and nothing whole is there: pauses that double, from the first to the last of
// these; after that a part-filled sub-buffer is taken instead.
constexpr auto kFirstBackOff = 1ms;
constexpr auto kPatience = 64ms;

bool pin_to(int cpu) {
  const auto cpus = static_cast<std::size_t>(cpu) + 1;
  cpu_set_t* set = CPU_ALLOC(cpus);
  if (set == nullptr) return false;
  const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  const bool done = ::sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return done;
}

bool is_pipe(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

}  // namespace

CpuRecorder::CpuRecorder(RecorderPlan plan, Fd source, BufferStats before, SplicePump pump,
                         WakeFd wake)
    : plan_(std::move(plan)),
      source_(std::move(source)),
      before_(before),
      pump_(std::move(pump)),
      wake_(std::move(wake)) {
  buffer_bytes_ = plan_.buffer.bytes_per_cpu(plan_.cpu);
  torn_before_ = plan_.torn.size();
  pump_.append(std::exchange(plan_.torn, {}));
  // What is torn on a shared sink is mended before anybody else's turn.
  if (plan_.turn != nullptr && torn_before_ > 0) (void)plan_.turn->enter(this, wake_);
  if (plan_.run_id) {
    pump_.append(encode_fence(plan_.layout, {.kind = FenceKind::begin,
                                             .run_id = *plan_.run_id,
                                             .cpu = static_cast<std::uint32_t>(plan_.cpu)}));
  }
  prefix_ = pump_.held();
  shown_.cpu = static_cast<std::uint32_t>(plan_.cpu);
}

Result<std::unique_ptr<CpuRecorder>> CpuRecorder::start(RecorderPlan plan) {
  VTRACE_TRY(Fd source, plan.buffer.open_raw(plan.cpu));
  VTRACE_TRY(const BufferStats before, plan.buffer.stats(plan.cpu));
  VTRACE_TRY(WakeFd wake, WakeFd::create());
  const std::size_t unit = plan.layout.size();
  PumpOptions options{.unit = unit, .pipe_bytes = plan.pipe_bytes};
  options.torn_bytes = plan.torn.size();
  options.splice_to_sink = !is_pipe(plan.sink);
  VTRACE_TRY(SplicePump pump, SplicePump::create(source.get(), plan.sink, options, *plan.system));
  std::unique_ptr<CpuRecorder> recorder(new CpuRecorder(std::move(plan), std::move(source), before,
                                                        std::move(pump), std::move(wake)));
  recorder->thread_ = std::jthread([self = recorder.get()] { self->run(); });
  // The caller wants the thread's id, to keep its events out of the trace.
  recorder->thread_id_.wait(0);
  return recorder;
}

CpuRecorder::~CpuRecorder() {
  drop();
}

void CpuRecorder::set_order(Order order) {
  {
    const std::scoped_lock lock(mutex_);
    order_ = order;
  }
  wake_.signal();
}

void CpuRecorder::stop() {
  if (order_ == Order::record) set_order(Order::stop);
}

void CpuRecorder::drop() {
  set_order(Order::drop);
}

void CpuRecorder::join() {
  if (thread_.joinable()) thread_.join();
}

bool CpuRecorder::resume() {
  {
    const std::scoped_lock lock(mutex_);
    if (finished_) return false;
    order_ = Order::record;
  }
  wake_.signal();
  return true;
}

bool CpuRecorder::finished() const {
  const std::scoped_lock lock(mutex_);
  return finished_;
}

bool CpuRecorder::sink_failed() const {
  const std::scoped_lock lock(mutex_);
  return sink_failed_;
}

Bytes CpuRecorder::take_torn() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(torn_after_, {});
}

CpuCounts CpuRecorder::counts() const {
  CpuCounts counts;
  std::string text;
  {
    const std::scoped_lock lock(mutex_);
    counts = shown_;
    if (final_stats_) text = *final_stats_;
  }
  if (text.empty()) {
    auto now = plan_.buffer.stats_text(plan_.cpu);
    if (now) text = std::move(*now);
  }
  if (const auto stats = parse_buffer_stats(text); stats) {
    count_kernel_events(before_, *stats, counts);
  } else if (counts.error.empty()) {
    counts.error = fmt::format("the kernel's counts are gone: {}",
                               plan_.buffer.path(fmt::format("per_cpu/cpu{}/stats", plan_.cpu)));
  }
  counts.stats_text = std::move(text);
  return counts;
}

void CpuRecorder::run() {
  pin();
  (void)::pthread_setname_np(::pthread_self(), fmt::format("vtrace-cpu{}", plan_.cpu).c_str());
  thread_id_ = ::gettid();
  thread_id_.notify_all();
  flush_at_ = Clock::now() + plan_.flush_interval;
  while (phase_ != Phase::done) {
    take_order();
    if (phase_ == Phase::done) break;
    if (pump_.held() > 0) {
      deliver();
    } else if (phase_ == Phase::recording) {
      record();
    } else if (phase_ == Phase::emptying) {
      empty();
    } else if (try_finish()) {
      break;
    }
    publish();
  }
  if (plan_.turn != nullptr) plan_.turn->leave(this, wake_);
  if (plan_.finished != nullptr) plan_.finished->signal();
}

// A CPU that is offline just now cannot be pinned to: its data is read from elsewhere.
void CpuRecorder::pin() {
  pinned_ = pin_to(plan_.cpu);
  if (plan_.realtime_priority > 0) {
    sched_param parameters{};
    parameters.sched_priority = plan_.realtime_priority;
    prioritised_ = ::sched_setscheduler(0, SCHED_FIFO, &parameters) == 0;
  }
}

void CpuRecorder::take_order() {
  const Order order = order_;
  if (order == Order::drop) {
    drop_pending();
  } else if (order == Order::stop && phase_ == Phase::recording) {
    phase_ = Phase::emptying;
    taken_at_stop_ = pump_.taken();
    settle_tries_ = 0;
    last_part_taken_ = false;
  } else if (order == Order::record && phase_ == Phase::emptying) {
    phase_ = Phase::recording;
  }
}

void CpuRecorder::deliver() {
  if (plan_.turn != nullptr && !plan_.turn->enter(this, wake_)) {
    sleep(false, std::nullopt);
    return;
  }
  const auto step = pump_.drain();
  if (plan_.turn != nullptr && between_subbufs()) plan_.turn->leave(this, wake_);
  if (!step) {
    fail_sink(step.error());
  } else if (*step == PumpStep::blocked) {
    publish();
    sleep(false, std::nullopt);
  }
}

void CpuRecorder::record() {
  const auto step = pump_.fill();
  if (!step) {
    fail_source(step.error());
    return;
  }
  if (*step == PumpStep::moved) {
    note_moved();
    if (!flush_due_) flush_at_ = Clock::now() + plan_.flush_interval;
    return;
  }
  if (flush_due_) {
    flush_due_ = false;
    flush_at_ = Clock::now() + plan_.flush_interval;
    const auto part = pump_.fill_part();
    if (!part) {
      fail_source(part.error());
      return;
    }
    if (*part == PumpStep::moved) {
      note_moved();
      return;
    }
  }
  if (std::exchange(source_was_ready_, false)) {
    // A small buffer, a wake level of 0, or a CPU that was never online: poll would spin.
    const auto longest = std::max(plan_.flush_interval, std::chrono::milliseconds(kPatience));
    back_off_ = back_off_ == 0ms ? std::chrono::milliseconds(kFirstBackOff)
                                 : std::min(back_off_ * 2, longest);
  }
  wait_for_source();
}

void CpuRecorder::note_moved() {
  back_off_ = 0ms;
  source_was_ready_ = false;
}

void CpuRecorder::wait_for_source() {
  const auto now = Clock::now();
  if (now >= flush_at_) {
    flush_due_ = true;
    return;
  }
  // Rounded up: a sleep that ends early would be followed by a second one.
  auto limit = std::chrono::ceil<std::chrono::milliseconds>(flush_at_ - now);
  if (back_off_ > 0ms) limit = std::min(limit, back_off_);
  sleep(back_off_ == 0ms, limit);
  if (woken_ || phase_ == Phase::done) return;
  if (!timed_out_) {
    source_was_ready_ = true;
    return;
  }
  if (Clock::now() >= flush_at_) flush_due_ = true;
  if (back_off_ > 0ms) {
    source_was_ready_ = true;
    if (back_off_ >= kPatience) flush_due_ = true;
  }
}

void CpuRecorder::empty() {
  // More than the buffer holds cannot have been in it when the order came: somebody goes on
  // recording, as is usual at the top level.
  const std::uint64_t most = buffer_bytes_ + 2ULL * plan_.layout.size();
  if (last_part_taken_ || pump_.taken() - taken_at_stop_ >= most) {
    settle();
    return;
  }
  const auto step = pump_.fill();
  if (!step) {
    fail_source(step.error());
    return;
  }
  if (*step == PumpStep::moved) return;
  const auto part = pump_.fill_part();
  if (!part) {
    fail_source(part.error());
    return;
  }
  if (*part == PumpStep::empty) settle();
  // At the top level our own doings may be traced: reading on would give a part for ever.
  if (*part == PumpStep::moved && plan_.goes_on) last_part_taken_ = true;
}

void CpuRecorder::settle() {
  if (!plan_.goes_on && settle_tries_ < kSettleTries) {
    const auto stats = plan_.buffer.stats(plan_.cpu);
    if (stats && stats->entries > 0) {
      ++settle_tries_;
      sleep(false, kSettlePause);
      return;
    }
  }
  keep_final_stats();
  if (plan_.run_id) {
    const std::uint64_t bytes = pump_.taken() - pump_.dropped();
    pump_.append(encode_fence(plan_.layout, {.kind = FenceKind::end,
                                             .run_id = *plan_.run_id,
                                             .cpu = static_cast<std::uint32_t>(plan_.cpu),
                                             .bytes = bytes,
                                             .subbufs = bytes / plan_.layout.size()}));
  }
  phase_ = Phase::closing;
}

void CpuRecorder::keep_final_stats() {
  auto text = plan_.buffer.stats_text(plan_.cpu);
  const std::scoped_lock lock(mutex_);
  if (text && !final_stats_) final_stats_ = std::move(*text);
}

bool CpuRecorder::between_subbufs() const {
  const std::uint64_t delivered = pump_.delivered();
  return delivered >= torn_before_ && (delivered - torn_before_) % plan_.layout.size() == 0;
}

std::uint64_t CpuRecorder::sent() const {
  const std::uint64_t delivered = pump_.delivered();
  return delivered <= prefix_ ? 0 : std::min(delivered - prefix_, pump_.taken() - discarded_);
}

void CpuRecorder::drop_pending() {
  keep_final_stats();
  discarded_ = pump_.taken() - sent();
  dropped_all_ = true;
  auto torn = pump_.discard();
  publish();
  {
    const std::scoped_lock lock(mutex_);
    if (torn) {
      torn_after_ = std::move(*torn);
    } else {
      // Without its rest the stream is out of step: the port is opened anew.
      sink_failed_ = true;
    }
    finished_ = true;
  }
  phase_ = Phase::done;
}

// The sink still works: the host gets its end fence.
void CpuRecorder::fail_source(const Error& error) {
  {
    const std::scoped_lock lock(mutex_);
    shown_.error = error.message;
  }
  settle_tries_ = kSettleTries;
  settle();
}

void CpuRecorder::fail_sink(const Error& error) {
  {
    const std::scoped_lock lock(mutex_);
    shown_.error = error.message;
    sink_failed_ = true;
  }
  drop_pending();
}

bool CpuRecorder::try_finish() {
  const std::scoped_lock lock(mutex_);
  if (order_ == Order::record && !plan_.run_id && shown_.error.empty()) {
    phase_ = Phase::recording;
    final_stats_.reset();
    return false;
  }
  phase_ = Phase::done;
  finished_ = true;
  shown_.end_fence_sent = plan_.run_id.has_value();
  return true;
}

void CpuRecorder::sleep(bool for_source, std::optional<std::chrono::milliseconds> limit) {
  const auto wake = pump_.wait(for_source, wake_.get(), limit);
  if (!wake) {
    fail_sink(wake.error());
    return;
  }
  woken_ = wake->woken;
  timed_out_ = wake->timed_out;
  if (woken_) wake_.clear();
}

void CpuRecorder::publish() {
  // What the port's driver has lost; after a drop the pump counts fences, too.
  if (!dropped_all_) discarded_ = pump_.dropped();
  const std::uint64_t sent_now = sent();
  fell_back_ = pump_.fell_back();
  const std::scoped_lock lock(mutex_);
  shown_.bytes_sent = sent_now;
  shown_.subbufs_sent = sent_now / plan_.layout.size();
  shown_.bytes_discarded = discarded_;
  shown_.bytes_pending = pump_.taken() - sent_now - discarded_;
}

}  // namespace vtrace
