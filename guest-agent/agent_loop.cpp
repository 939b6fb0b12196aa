#include "guest-agent/agent_loop.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "common/layout.h"
#include "guest-agent/agent_service.h"

namespace vtrace {
namespace {

using Clock = std::chrono::steady_clock;

Result<OpenPort> open_control(const AgentOptions& options) {
  for (const FoundPort& port : find_ports(options.ports)) {
    if (port.name == kControlPortName) return open_control_port(port);
  }
  const std::string where = options.ports.directory.empty()
                                ? options.ports.sysfs + "/class/virtio-ports"
                                : options.ports.directory;
  return fail(
      fmt::format("{}: no port {} there; add it on the host (virtio-trace xml or "
                  "qemu-args)",
                  where, kControlPortName));
}

class Loop {
 public:
  static Result<std::unique_ptr<Loop>> create(const AgentOptions& options, AgentLog& log,
                                              int signals);
  Result<int> run();

 private:
  Loop(AgentLog& log, int signals, OpenPort control, WakeFd report, WakeFd metadata, Fd epoll)
      : log_(&log),
        signals_(signals),
        channel_(std::move(control)),
        report_(std::move(report)),
        metadata_(std::move(metadata)),
        epoll_(std::move(epoll)) {}

  Status watch(int fd, std::uint32_t events) const;
  Status make_service(const AgentOptions& options);
  [[nodiscard]] int timeout() const;
  Status turn();
  Status read_orders();
  void on_time();
  void take_signal();
  [[nodiscard]] bool signal_waits() const;

  AgentLog* log_;
  int signals_;
  ControlChannel channel_;
  WakeFd report_;
  WakeFd metadata_;
  Fd epoll_;
  SharedSink shared_;
  std::unique_ptr<AgentService> service_;  // after what it refers to
  int signal_ = 0;
};

Result<std::unique_ptr<Loop>> Loop::create(const AgentOptions& options, AgentLog& log,
                                           int signals) {
  VTRACE_TRY(OpenPort control, open_control(options));
  VTRACE_TRY(WakeFd report, WakeFd::create());
  VTRACE_TRY(WakeFd metadata, WakeFd::create());
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1", errno);
  std::unique_ptr<Loop> loop(new Loop(log, signals, std::move(control), std::move(report),
                                      std::move(metadata), std::move(epoll)));
  // Edge-triggered: a port whose host has gone is readable for ever, and says so once.
  const bool two = loop->channel_.writing() != loop->channel_.reading();
  VTRACE_CHECK(loop->watch(loop->channel_.reading(),
                           two ? EPOLLIN | EPOLLET : EPOLLIN | EPOLLOUT | EPOLLET));
  if (two) VTRACE_CHECK(loop->watch(loop->channel_.writing(), EPOLLOUT | EPOLLET));
  VTRACE_CHECK(loop->watch(loop->report_.get(), EPOLLIN));
  VTRACE_CHECK(loop->watch(loop->metadata_.get(), EPOLLIN));
  VTRACE_CHECK(loop->watch(signals, EPOLLIN));
  VTRACE_CHECK(loop->make_service(options));
  return loop;
}

Status Loop::watch(int fd, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0)
    return fail_errno("epoll_ctl", errno);
  return {};
}

Status Loop::make_service(const AgentOptions& options) {
  if (options.to_stdout) {
    VTRACE_TRY(shared_.fd, open_stdout_sink(STDOUT_FILENO));
  }
  service_ = std::make_unique<AgentService>(
      AgentService::Parts{.options = options,
                          .log = *log_,
                          .run_report = report_,
                          .metadata_done = metadata_,
                          .shared = options.to_stdout ? &shared_ : nullptr,
                          .cancelled = [this] { return signal_waits(); }},
      [this](Bytes frame, ControlChannel::Kind kind) { channel_.send(std::move(frame), kind); });
  return {};
}

bool Loop::signal_waits() const {
  pollfd wait{signals_, POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

int Loop::timeout() const {
  if (channel_.more_input()) return 0;
  std::optional<Clock::time_point> first = service_->deadline();
  if (const auto partial = channel_.partial_deadline(); partial && (!first || *partial < *first))
    first = partial;
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

Result<int> Loop::run() {
  service_->begin();
  // What the host sent before this has raised its edge already, or will: reading now loses nothing.
  VTRACE_CHECK(read_orders());
  while (!service_->ended(Clock::now())) VTRACE_CHECK(turn());
  return signal_;
}

Status Loop::turn() {
  std::array<epoll_event, 8> events{};
  const int ready =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout());
  if (ready < 0 && errno != EINTR) return fail_errno("epoll_wait", errno);
  bool control = channel_.more_input();
  for (int i = 0; i < ready; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    if (fd == signals_) {
      take_signal();
    } else if (fd == report_.get()) {
      report_.clear();
      service_->on_run_report();
    } else if (fd == metadata_.get()) {
      metadata_.clear();
      service_->on_metadata();
    } else {
      control = true;
    }
  }
  if (control) {
    VTRACE_CHECK(read_orders());
    VTRACE_CHECK(channel_.flush());
  }
  on_time();
  service_->feed_metadata(channel_.queued_bytes());
  return {};
}

Status Loop::read_orders() {
  const auto now = Clock::now();
  VTRACE_TRY(const auto items, channel_.read(now));
  for (const ControlItem& item : items) service_->handle(item, now);
  return {};
}

void Loop::on_time() {
  const auto now = Clock::now();
  if (const auto partial = channel_.partial_deadline(); partial && *partial <= now) {
    for (const ControlItem& item : channel_.give_up_partial(now)) service_->handle(item, now);
  }
  service_->on_deadline(now);
}

void Loop::take_signal() {
  signalfd_siginfo info{};
  const ssize_t got = ::read(signals_, &info, sizeof info);
  if (got != sizeof info) return;
  signal_ = static_cast<int>(info.ssi_signo);
  service_->begin_end(Clock::now());
}

}  // namespace

Result<Fd> open_stdout_sink(int stdout_fd) {
  struct stat status{};
  if (::fstat(stdout_fd, &status) < 0) return fail_errno("standard output", errno);
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode)) {
    // Opened afresh, O_NONBLOCK is ours alone and not also that of who shares the descriptor.
    auto fresh =
        open_fd(fmt::format("/proc/self/fd/{}", stdout_fd), O_WRONLY | O_NONBLOCK | O_NOCTTY);
    if (fresh) return fresh;
  }
  Fd copy(::fcntl(stdout_fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return fail_errno("standard output", errno);
  const int flags = ::fcntl(copy.get(), F_GETFL);
  if (flags < 0 || ::fcntl(copy.get(), F_SETFL, flags | O_NONBLOCK) < 0)
    return fail_errno("standard output", errno);
  return copy;
}

Result<int> run_agent(const AgentOptions& options, AgentLog& log, int signals) {
  VTRACE_TRY(const auto loop, Loop::create(options, log, signals));
  return loop->run();
}

}  // namespace vtrace
