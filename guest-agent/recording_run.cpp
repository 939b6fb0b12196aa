#include "guest-agent/recording_run.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/layout.h"

namespace vtrace {
namespace {

// A recorder's ring buffer, pipe, wake-up and epoll; its port is open already. And some to spare.
constexpr std::size_t kFdsPerRecorder = 5;
constexpr std::size_t kSpareFds = 32;

Status check_descriptors(std::size_t recorders) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  // The ports count too, one a CPU.
  const std::size_t need = recorders * (kFdsPerRecorder + 1) + kSpareFds;
  if (limit.rlim_cur >= need) return {};
  return fail(
      fmt::format("{} CPUs need {} open files, the limit is {}: raise it (ulimit -n {}, or "
                  "LimitNOFILE= in the unit)",
                  recorders, need, limit.rlim_cur, need));
}

// Possible CPUs beyond the present ones have files that cannot be opened.
bool is_no_such_cpu(int errno_value) {
  return errno_value == ENODEV || errno_value == ENXIO || errno_value == ENOENT;
}

bool contains(const CpuList& cpus, int cpu) {
  return std::ranges::binary_search(cpus, cpu);
}

}  // namespace

std::string cpu_words(const CpuList& cpus) {
  return fmt::format("CPU{} {}", cpus.size() == 1 ? "" : "s", format_cpu_list(cpus));
}

Result<std::unique_ptr<RecordingRun>> RecordingRun::start(RunPlan plan, DataPorts& ports,
                                                          SharedSink* shared,
                                                          const WakeFd& report) {
  std::unique_ptr<RecordingRun> run(new RecordingRun(std::move(plan), ports, shared, report));
  VTRACE_CHECK(run->start_recorders());
  return run;
}

RecordingRun::~RecordingRun() {
  drop();
}

Status RecordingRun::start_recorders() {
  VTRACE_TRY(header_page_, plan_.buffer.read("events/header_page"));
  VTRACE_TRY(layout_, parse_header_page(header_page_));
  VTRACE_TRY(const CpuList cpus, plan_.buffer.cpus());
  CpuList served;
  CpuList no_port;
  CpuList absent;
  for (const int cpu : cpus) {
    const bool has_port = shared_ != nullptr || ports_->find(cpu) != nullptr;
    const bool here = plan_.present.empty() || contains(plan_.present, cpu);
    if (!here) {
      if (has_port) absent.push_back(cpu);
    } else {
      (has_port ? served : no_port).push_back(cpu);
    }
  }
  VTRACE_CHECK(check_descriptors(served.size()));
  CpuList unreadable;
  std::optional<Error> last_error;
  for (const int cpu : served) {
    const Status started = start_recorder(cpu);
    if (started) continue;
    last_error = started.error();
    if (is_no_such_cpu(last_error->errno_value)) {
      unreadable.push_back(cpu);
    } else {
      notes_.push_back(fmt::format("CPU {} is not recorded: {}", cpu, last_error->message));
    }
  }
  if (recorders_.empty() && last_error) return std::unexpected(*last_error);
  if (recorders_.empty() && shared_ == nullptr)
    return fail(
        fmt::format("no data port for any CPU: {}N is the name of CPU N's port; add ports "
                    "to the guest (virtio-trace xml or qemu-args)",
                    kDataPortPrefix));
  note_unserved(no_port, absent, unreadable);
  return {};
}

Status RecordingRun::start_recorder(int cpu) {
  DataPort* port = shared_ == nullptr ? ports_->find(cpu) : nullptr;
  Bytes& torn = shared_ == nullptr ? port->torn : shared_->torn;
  RecorderPlan plan{.cpu = cpu,
                    .buffer = plan_.buffer,
                    .layout = layout_,
                    .sink = shared_ == nullptr ? port->fd.get() : shared_->fd.get(),
                    .run_id = plan_.run_id,
                    .torn = torn,
                    .flush_interval = plan_.flush_interval,
                    .pipe_bytes = plan_.pipe_bytes,
                    .realtime_priority = plan_.realtime_priority,
                    .goes_on = plan_.target == StartTarget::top_level,
                    .turn = shared_ == nullptr ? nullptr : &shared_->turn,
                    .finished = report_};
  VTRACE_TRY(auto recorder, CpuRecorder::start(std::move(plan)));
  torn.clear();
  recorders_.push_back(std::move(recorder));
  return {};
}

void RecordingRun::note_unserved(const CpuList& no_port, const CpuList& absent,
                                 const CpuList& unreadable) {
  if (!no_port.empty())
    notes_.push_back(fmt::format("{}: no data port, not recorded", cpu_words(no_port)));
  if (!absent.empty())
    notes_.push_back(fmt::format("{}: a port, but no such CPU now", cpu_words(absent)));
  if (!unreadable.empty()) {
    notes_.push_back(fmt::format("{}: a directory in tracefs, but no CPU", cpu_words(unreadable)));
  }
  CpuList offline;
  for (const auto& recorder : recorders_) {
    if (!recorder->pinned()) offline.push_back(recorder->cpu());
  }
  if (!offline.empty()) {
    notes_.push_back(
        fmt::format("{}: offline or not allowed, read from elsewhere", cpu_words(offline)));
  }
  if (std::ranges::any_of(recorders_, [](const auto& one) { return !one->prioritised(); }))
    notes_.emplace_back("the real-time priority was refused: recorders run without it");
  for (const CpuList* list : {&no_port, &absent}) {
    for (const int cpu : *list)
      unserved_.push_back({cpu, plan_.buffer.stats(cpu).value_or(BufferStats{})});
  }
}

void RecordingRun::stop() {
  stopping_ = true;
  for (const auto& recorder : recorders_) recorder->stop();
}

void RecordingRun::drop() {
  stopping_ = true;
  for (const auto& recorder : recorders_) recorder->drop();
  // The recorders never block in a sink or source, so these waits are short.
  for (const auto& recorder : recorders_) recorder->join();
  give_back_sinks();
}

bool RecordingRun::resume() {
  bool all = !recorders_.empty();
  for (const auto& recorder : recorders_) all = recorder->resume() && all;
  if (all) stopping_ = false;
  return all;
}

bool RecordingRun::finished() const {
  return std::ranges::all_of(recorders_, [](const auto& one) { return one->finished(); });
}

bool RecordingRun::complete() const {
  if (!finished()) return false;
  return std::ranges::all_of(recorders_, [this](const auto& one) {
    const CpuCounts counts = one->counts();
    return counts.bytes_pending == 0 && counts.bytes_discarded == 0 &&
           (legacy() || counts.end_fence_sent);
  });
}

void RecordingRun::give_back_sinks() {
  if (std::exchange(given_back_, true)) return;
  for (const auto& recorder : recorders_) {
    if (shared_ != nullptr) {
      Bytes torn = recorder->take_torn();
      if (!torn.empty()) shared_->torn = std::move(torn);
    } else if (recorder->sink_failed()) {
      ports_->forget(recorder->cpu());
    } else if (DataPort* port = ports_->find(recorder->cpu())) {
      port->torn = recorder->take_torn();
    }
  }
}

CpuList RecordingRun::cpus() const {
  CpuList cpus;
  for (const auto& recorder : recorders_) cpus.push_back(recorder->cpu());
  return cpus;
}

std::vector<pid_t> RecordingRun::threads() const {
  std::vector<pid_t> threads;
  threads.reserve(recorders_.size());
  for (const auto& recorder : recorders_) threads.push_back(recorder->thread_id());
  return threads;
}

std::uint64_t RecordingRun::running_ns() const {
  const auto running = std::chrono::steady_clock::now() - started_;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(running).count());
}

std::vector<CpuCounts> RecordingRun::counts(bool with_text) const {
  std::vector<CpuCounts> all;
  for (const auto& recorder : recorders_) {
    all.push_back(recorder->counts());
    if (!with_text) all.back().stats_text.clear();
  }
  return all;
}

std::vector<std::string> RecordingRun::notes() const {
  std::vector<std::string> notes = notes_;
  CpuList slower;
  for (const auto& recorder : recorders_) {
    if (recorder->fell_back()) slower.push_back(recorder->cpu());
  }
  if (!slower.empty())
    notes.push_back(fmt::format("{}: splice refused, read and write instead", cpu_words(slower)));
  for (const Unserved& one : unserved_) {
    const auto now = plan_.buffer.stats(one.cpu);
    if (!now) continue;
    CpuCounts counts;
    count_kernel_events(one.before, *now, counts);
    if (counts.recorded() == 0) continue;
    notes.push_back(fmt::format("CPU {} has no recorder: {} events on it are not delivered",
                                one.cpu, counts.recorded()));
  }
  return notes;
}

}  // namespace vtrace
