#include "host-cli/collector.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <utility>

namespace vtrace {
namespace {

// One read's size: large enough that a write of it is cheap, small enough that its bytes are still
// in the cache when they are written. The whole collector has one such buffer.
constexpr std::size_t kReadBytes = 1U << 20U;
constexpr std::uint64_t kWakeTag = ~0ULL;

}  // namespace

class Collector::Worker {
 public:
  struct Cpu {
    CollectorInput input;
    std::optional<RunFilter> filter;
    std::uint64_t raw_bytes = 0;
    std::uint64_t written = 0;
    std::size_t queue_size = 0;
    bool hung_up = false;
  };

  Worker(std::vector<CollectorInput> inputs, const std::optional<Run>& run, std::uint64_t max_bytes,
         Fd epoll, WakeFd wake, WakeFd event)
      : max_bytes_(max_bytes),
        epoll_(std::move(epoll)),
        wake_(std::move(wake)),
        event_(std::move(event)),
        buffer_(kReadBytes) {
    for (CollectorInput& input : inputs) {
      Cpu cpu;
      const int size = ::fcntl(input.port.get(), F_GETPIPE_SZ);
      cpu.queue_size = size > 0 ? static_cast<std::size_t>(size) : 0;
      if (run) cpu.filter.emplace(run->layout, run->run_id, static_cast<std::uint32_t>(input.cpu));
      cpu.input = std::move(input);
      cpus_.push_back(std::move(cpu));
    }
  }

  Status watch_all() {
    for (std::size_t i = 0; i < cpus_.size(); ++i)
      VTRACE_CHECK(watch(cpus_[i].input.port.get(), i, cpus_[i].input.port_name));
    return watch(wake_.get(), kWakeTag, "eventfd");
  }

  void run(const std::stop_token& stop) {
    std::array<epoll_event, 64> events{};
    while (!stop.stop_requested()) {
      const int ready = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
      for (int i = 0; i < ready; ++i) {
        if (events[static_cast<std::size_t>(i)].data.u64 == kWakeTag) {
          wake_.clear();
          continue;
        }
        drain_some(cpus_[events[static_cast<std::size_t>(i)].data.u64]);
      }
    }
    if (drain_at_end_) {
      for (Cpu& cpu : cpus_) {
        while (drain_some(cpu)) {
        }
      }
    }
  }

  void request_end(bool drain) { drain_at_end_ = drain; }
  void wake() const { wake_.signal(); }
  [[nodiscard]] int event_fd() const { return event_.get(); }
  void clear_event() const { event_.clear(); }

  [[nodiscard]] std::vector<CpuProgress> progress() const {
    const std::lock_guard lock(mutex_);
    std::vector<CpuProgress> all;
    all.reserve(cpus_.size());
    for (const Cpu& cpu : cpus_) all.push_back(progress_of(cpu));
    return all;
  }

  [[nodiscard]] bool all_ended() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(cpus_,
                               [](const Cpu& cpu) { return cpu.filter && cpu.filter->ended(); });
  }
  [[nodiscard]] bool size_limit_reached() const {
    const std::lock_guard lock(mutex_);
    return limit_reached_;
  }
  [[nodiscard]] std::optional<Error> fault() const {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  Status watch(int fd, std::uint64_t tag, std::string_view name) {
    epoll_event wish{};
    wish.events = EPOLLIN;
    wish.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wish) < 0) return fail_errno(name, errno);
    return {};
  }

  static CpuProgress progress_of(const Cpu& cpu) {
    CpuProgress p;
    p.cpu = cpu.input.cpu;
    p.written_bytes = cpu.written;
    p.queue_size = cpu.queue_size;
    int queued = 0;
    if (::ioctl(cpu.input.port.get(), FIONREAD, &queued) == 0 && queued > 0)
      p.queued_bytes = static_cast<std::size_t>(queued);
    if (!cpu.filter) {
      p.begun = cpu.raw_bytes > 0;
      p.received_bytes = cpu.raw_bytes;
      return p;
    }
    p.begun = cpu.filter->begun();
    p.ended = cpu.filter->ended();
    p.received_bytes = cpu.filter->received_bytes();
    p.thrown_away = cpu.filter->thrown_away();
    p.lost_events = cpu.filter->lost_events();
    p.gaps = cpu.filter->gaps();
    p.damaged = cpu.filter->damaged();
    p.partial_bytes = cpu.filter->partial_bytes();
    p.end_fence = cpu.filter->end_fence();
    return p;
  }

  // One read; false when there is nothing to read.
  bool drain_some(Cpu& cpu) {
    const ssize_t got = ::read(cpu.input.port.get(), buffer_.data(), buffer_.size());
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) {
      // A socket whose other end has gone reads as 0 for ever: no longer watched.
      if (got == 0 || errno != EAGAIN)
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, cpu.input.port.get(), nullptr);
      return false;
    }
    const auto bytes = std::span(buffer_).first(static_cast<std::size_t>(got));
    const std::lock_guard lock(mutex_);
    const auto sink = [this, &cpu](std::span<const std::byte> data) { return store(cpu, data); };
    if (!cpu.filter) {
      cpu.raw_bytes += bytes.size();
      sink(bytes);
      return true;
    }
    const bool ended = cpu.filter->ended();
    cpu.filter->feed(bytes, sink);
    if (!ended && cpu.filter->ended()) event_.signal();
    return true;
  }

  bool store(Cpu& cpu, std::span<const std::byte> data) {
    if (fault_ || limit_reached_) return false;
    if (max_bytes_ != 0 && stored_ + data.size() > max_bytes_) {
      limit_reached_ = true;
      event_.signal();
      return false;
    }
    if (auto written = write_all(cpu.input.file.get(), data, cpu.input.file_name); !written) {
      fault_ = std::move(written).error();
      // Half a sub-buffer would shift all that is behind it for a reader.
      (void)::ftruncate(cpu.input.file.get(), static_cast<off_t>(cpu.written));
      event_.signal();
      return false;
    }
    cpu.written += data.size();
    stored_ += data.size();
    return true;
  }

  std::uint64_t max_bytes_;
  Fd epoll_;
  WakeFd wake_;
  WakeFd event_;
  std::vector<std::byte> buffer_;
  std::atomic<bool> drain_at_end_ = false;

  mutable std::mutex mutex_;  // over everything below
  std::vector<Cpu> cpus_;
  std::uint64_t stored_ = 0;
  bool limit_reached_ = false;
  std::optional<Error> fault_;
};

Collector::Collector(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {
  thread_ = std::jthread(
      [worker_ptr = worker_.get()](const std::stop_token& stop) { worker_ptr->run(stop); });
}

Collector::~Collector() {
  thread_.request_stop();
  worker_->wake();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Collector>> Collector::create(std::vector<CollectorInput> inputs,
                                                     std::optional<Run> run,
                                                     std::uint64_t max_bytes) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1", errno);
  VTRACE_TRY(WakeFd wake, WakeFd::create());
  VTRACE_TRY(WakeFd event, WakeFd::create());
  auto worker = std::make_unique<Worker>(std::move(inputs), run, max_bytes, std::move(epoll),
                                         std::move(wake), std::move(event));
  VTRACE_CHECK(worker->watch_all());
  return std::unique_ptr<Collector>(new Collector(std::move(worker)));
}

std::vector<CpuProgress> Collector::progress() const {
  return worker_->progress();
}
bool Collector::all_ended() const {
  return worker_->all_ended();
}
void Collector::clear_event() const {
  worker_->clear_event();
}
int Collector::event_fd() const {
  return worker_->event_fd();
}
bool Collector::size_limit_reached() const {
  return worker_->size_limit_reached();
}
std::optional<Error> Collector::fault() const {
  return worker_->fault();
}

void Collector::finish() {
  worker_->request_end(true);
  thread_.request_stop();
  worker_->wake();
  thread_.join();
}

}  // namespace vtrace
