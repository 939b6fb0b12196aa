#include "host-cli/record_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "common/units.h"
#include "host-cli/control_endpoint.h"
#include "host-cli/descriptor_limit.h"
#include "host-cli/fifo_set.h"
#include "host-cli/interrupts.h"
#include "host-cli/ledger.h"
#include "host-cli/run_id.h"
#include "host-cli/spool.h"
#include "host-cli/trace_dat_writer.h"

namespace vtrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{1000};
// After a stop, data comes as fast as the agent can push it; so long a silence means that none
// comes.
constexpr milliseconds kDrainSilence{10'000};
// Slack for a host that is late, as far as the machine's limits allow.
constexpr std::size_t kFifoBytes = 1U << 20U;
// Descriptors besides two a CPU: standard streams, control, locks, epoll, eventfds, the output.
constexpr std::size_t kOtherDescriptors = 32;

class RecordSession {
 public:
  RecordSession(const RecordPlan& plan, RecordObserver& observer, Interrupts interrupts,
                TraceDatWriter writer, FifoSet fifos, Spool spool)
      : plan_(plan),
        observer_(observer),
        interrupts_(std::move(interrupts)),
        writer_(std::move(writer)),
        fifos_(std::move(fifos)),
        spool_(std::move(spool)) {}

  Result<RecordSummary> run() {
    VTRACE_CHECK(greet());
    VTRACE_CHECK(configure());
    VTRACE_CHECK(fetch_metadata(kMetadataFormats | kMetadataSystem));
    VTRACE_CHECK(open_data());
    VTRACE_CHECK(start());
    VTRACE_CHECK(keep_on_error(record_until_end()));
    VTRACE_CHECK(keep_on_error(stop_and_drain()));
    collector_->finish();
    settle();
    if (agent_there_) VTRACE_CHECK(keep_on_error(fetch_late_metadata()));
    VTRACE_CHECK(keep_on_error(write_output()));
    return std::move(summary_);
  }

 private:
  // From the start on, an error must not cost the data that is already here.
  Status keep_on_error(Status status) {
    if (status) return status;
    spool_.keep();
    Error error = std::move(status).error();
    error.message += fmt::format(" (the raw data is kept in {})", spool_.path());
    return std::unexpected(std::move(error));
  }

  Status greet() {
    observer_.phase("waiting for the agent");
    const auto deadline = steady_clock::now() + plan_.agent_wait;
    for (;;) {
      auto endpoint = open_control(fifos_);
      if (endpoint) {
        client_.emplace(std::move(*endpoint), interrupts_.get());
        break;
      }
      // With a wait wished for, a guest that is not up yet is what is waited for.
      if (endpoint.error().kind != ErrorKind::no_peer || plan_.agent_wait <= kAnswerTime ||
          steady_clock::now() >= deadline)
        return std::unexpected(std::move(endpoint).error());
      pollfd signal{interrupts_.get(), POLLIN, 0};
      if (::poll(&signal, 1, 200) > 0) return fail("interrupted", ErrorKind::interrupted);
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    auto hello = client_->hello(std::max(left, kAnswerTime));
    if (!hello && hello.error().kind == ErrorKind::timeout) {
      return fail(fmt::format("{}; the kernel's own agent can only do \"collect\", \"start\" and "
                              "\"stop\"; for a guest that still boots give --wait",
                              hello.error().message),
                  ErrorKind::timeout);
    }
    if (!hello) return std::unexpected(std::move(hello).error());
    summary_.agent = std::move(*hello);
    for (const std::string& note : summary_.agent.notes) observer_.note(note);
    return {};
  }

  Status configure() {
    observer_.phase("configuring the guest");
    VTRACE_TRY(configured_, client_->configure(plan_.settings));
    for (const std::string& note : configured_.notes) observer_.note(note);
    VTRACE_TRY(layout_, parse_header_page(configured_.header_page));
    VTRACE_TRY(cpus_, parse_cpu_list(configured_.cpus));
    if (cpus_.empty()) {
      return fail(
          fmt::format("{}: the guest has no data port for any of its CPUs; its ports are "
                      "made by setup and qemu-args or xml, and need a guest start",
                      fifos_.path()));
    }
    return {};
  }

  Status fetch_metadata(std::uint32_t parts) {
    observer_.phase("fetching event formats");
    VTRACE_TRY(Metadata part, client_->get_metadata(parts, [this](auto done, auto total) {
      observer_.progress(done, total);
    }));
    metadata_.merge(std::move(part));
    metadata_.header_page = configured_.header_page;
    metadata_.trace_clock = configured_.clock;
    return spool_.save_metadata(metadata_);
  }

  Status open_data() {
    VTRACE_CHECK(ensure_descriptors(kOtherDescriptors + 2 * cpus_.size()));
    std::vector<CollectorInput> inputs;
    for (const int cpu : cpus_) {
      CollectorInput input;
      input.cpu = cpu;
      VTRACE_TRY(input.port, fifos_.open_keepalive(data_port_name(cpu)));
      enlarge_pipe(input.port.get(), kFifoBytes);
      VTRACE_TRY(input.file, spool_.create_cpu_file(cpu));
      input.port_name = fifos_.fifo_path(data_port_name(cpu), Direction::out);
      input.file_name = spool_.cpu_file_path(cpu);
      // The file is read again for the output.
      VTRACE_TRY(Fd reader, open_fd(input.file_name, O_RDONLY));
      readers_.push_back(std::move(reader));
      inputs.push_back(std::move(input));
    }
    summary_.run_id = draw_run_id();
    VTRACE_TRY(collector_,
               Collector::create(std::move(inputs), Collector::Run{layout_, summary_.run_id}, 0));
    return {};
  }

  Status start() {
    VTRACE_TRY(const Started started,
               client_->start({.run_id = summary_.run_id, .target = StartTarget::instance}));
    for (const std::string& note : started.notes) observer_.note(note);
    started_ = steady_clock::now();
    observer_.phase("recording");
    return {};
  }

  // Until the duration is over, a signal, or a reason to stop that is not the user's.
  Status record_until_end() {
    const auto end = plan_.duration ? started_ + *plan_.duration : steady_clock::time_point::max();
    auto next_tick = started_ + kTick;
    while (summary_.problem.empty() && interrupts_.count() == 0) {
      const auto now = steady_clock::now();
      if (now >= end) break;
      if (now >= next_tick) {
        tick();
        next_tick += kTick;
        continue;
      }
      sleep_until(std::min(end, next_tick));
      VTRACE_CHECK(look_for_trouble());
      if (summary_.problem.empty() && collector_->all_ended()) {
        summary_.problem =
            fmt::format("another order ended the run after {:.1f} s",
                        std::chrono::duration<double>(steady_clock::now() - started_).count());
      }
    }
    summary_.seconds = std::chrono::duration<double>(steady_clock::now() - started_).count();
    return {};
  }

  void tick() {
    observer_.tick(std::chrono::duration<double>(steady_clock::now() - started_).count(),
                   collector_->progress());
  }

  // Sleeps until then, or until something has come that is worth a look.
  void sleep_until(steady_clock::time_point then) {
    const auto left = std::chrono::ceil<milliseconds>(then - steady_clock::now());
    std::array<pollfd, 4> fds = {{{interrupts_.get(), POLLIN, 0},
                                  {collector_->event_fd(), POLLIN, 0},
                                  {client_->read_fd(), POLLIN, 0},
                                  {client_->write_fd(), 0, 0}}};
    const auto count = agent_there_ ? fds.size() : fds.size() - 2;
    ::poll(fds.data(), count, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
  }

  Status look_for_trouble() {
    collector_->clear_event();
    if (const auto fault = collector_->fault()) {
      summary_.problem = fault->message;
      return {};
    }
    if (client_->peer_gone()) {
      lose_agent("the guest is gone (nobody has the control FIFO open any more)");
      return {};
    }
    auto announcement = client_->take_announcement();
    if (!announcement && announcement.error().kind != ErrorKind::no_peer)
      return std::unexpected(std::move(announcement).error());
    if (!announcement) {
      lose_agent(announcement.error().message);
    } else if (*announcement && (*announcement)->agent_id != summary_.agent.agent_id) {
      lose_agent((*announcement)->boot_id == summary_.agent.boot_id
                     ? "the agent in the guest was started anew"
                     : "the guest was started anew");
    }
    return {};
  }

  void lose_agent(std::string why) {
    agent_there_ = false;
    if (summary_.problem.empty()) summary_.problem = std::move(why);
  }

  Status stop_and_drain() {
    observer_.phase("stopping");
    if (agent_there_) {
      auto stopped = client_->stop({.run_id = summary_.run_id});
      if (stopped) {
        for (const std::string& note : stopped->notes) observer_.note(note);
        stopped_ = std::move(*stopped);
      } else if (stopped.error().kind == ErrorKind::interrupted) {
        return std::unexpected(std::move(stopped).error());
      } else {
        lose_agent(stopped.error().message);
      }
    }
    if (!agent_there_) return {};
    VTRACE_CHECK(drain());
    if (!stopped_->complete) VTRACE_CHECK(refresh_counts());
    return {};
  }

  // Waits for the end fences of all CPUs whose recorders can still send one.
  Status drain() {
    const int signals = interrupts_.count();
    std::uint64_t last_bytes = 0;
    auto last_change = steady_clock::now();
    auto next_tick = steady_clock::now() + kTick;
    while (agent_there_ && !all_that_can_have_ended()) {
      sleep_until(std::min(next_tick, last_change + kDrainSilence));
      if (interrupts_.count() > signals)
        return fail("interrupted while the rest came in", ErrorKind::interrupted);
      VTRACE_CHECK(look_for_trouble());
      std::uint64_t bytes = 0;
      for (const CpuProgress& cpu : collector_->progress())
        bytes += cpu.received_bytes + cpu.thrown_away + cpu.partial_bytes;
      const auto now = steady_clock::now();
      if (bytes != last_bytes) last_change = now;
      last_bytes = bytes;
      if (now - last_change >= kDrainSilence) return {};  // settle() names the CPUs
      if (now >= next_tick) {
        tick();
        next_tick = now + kTick;
      }
    }
    return {};
  }

  [[nodiscard]] bool all_that_can_have_ended() const {
    const auto progress = collector_->progress();
    return std::ranges::all_of(progress, [this](const CpuProgress& cpu) {
      if (cpu.ended) return true;
      const CpuCounts* const counts = find_counts(stopped_->cpus, cpu.cpu);
      return counts == nullptr || !counts->error.empty();
    });
  }

  // What was pending when the stop was answered is delivered now: the counts have changed.
  Status refresh_counts() {
    auto report = client_->status();
    if (!report && report.error().kind == ErrorKind::interrupted)
      return std::unexpected(std::move(report).error());
    if (!report || report->run_id != summary_.run_id) return {};
    for (CpuCounts& fresh : report->cpus) {
      CpuCounts* const known = find_counts(stopped_->cpus, static_cast<int>(fresh.cpu));
      if (known == nullptr) continue;
      fresh.stats_text = std::move(known->stats_text);
      *known = std::move(fresh);
    }
    return {};
  }

  // The ledger: every CPU's counts side by side, and what does not add up.
  void settle() {
    summary_.cpus = make_ledger(collector_->progress(), stopped_ ? &stopped_->cpus : nullptr);
    for (const CpuLedger& cpu : summary_.cpus) {
      if (cpu.problem.empty() || !summary_.problem.empty()) continue;
      summary_.problem = fmt::format("CPU {}: {}", cpu.cpu, cpu.problem);
    }
  }

  Status fetch_late_metadata() {
    std::uint32_t parts = kMetadataTasks | kMetadataPrintk;
    if (plan_.kallsyms) parts |= kMetadataKallsyms;
    observer_.phase("fetching task names and symbols");
    auto late = client_->get_metadata(
        parts, [this](auto done, auto total) { observer_.progress(done, total); });
    if (!late && late.error().kind == ErrorKind::interrupted)
      return std::unexpected(std::move(late).error());
    // Without them the trace shows numbers in place of names, no more.
    if (!late) {
      observer_.note(fmt::format("no task names and symbols: {}", late.error().message));
      return {};
    }
    metadata_.merge(std::move(*late));
    return spool_.save_metadata(metadata_);
  }

  Status write_output() {
    observer_.phase("writing");
    std::vector<CpuSource> sources;
    TraceDatExtras extras;
    extras.trace_id = summary_.run_id;
    for (std::size_t i = 0; i < summary_.cpus.size(); ++i) {
      const CpuLedger& cpu = summary_.cpus[i];
      sources.push_back({cpu.cpu, readers_[i].get(), 0, cpu.host.written_bytes});
      if (cpu.agent && !cpu.agent->stats_text.empty())
        extras.cpu_stats.emplace_back(cpu.cpu, cpu.agent->stats_text);
    }
    VTRACE_CHECK(writer_.write(metadata_, extras, sources, [this](auto done, auto total) {
      observer_.progress(done, total);
      return interrupts_.count() < 2;
    }));
    summary_.output = writer_.path();
    summary_.raw_directory = plan_.raw_directory;
    struct stat info{};
    if (::stat(summary_.output.c_str(), &info) == 0)
      summary_.output_bytes = static_cast<std::uint64_t>(info.st_size);
    return {};
  }

  const RecordPlan& plan_;
  RecordObserver& observer_;
  Interrupts interrupts_;  // before the collector, so that its thread has the signals blocked
  TraceDatWriter writer_;
  FifoSet fifos_;
  Spool spool_;
  std::optional<ControlClient> client_;
  Configured configured_;
  SubbufLayout layout_;
  CpuList cpus_;
  Metadata metadata_;
  std::vector<Fd> readers_;  // of the spool's files, in the order of the collector's CPUs
  std::unique_ptr<Collector> collector_;
  steady_clock::time_point started_;
  bool agent_there_ = true;
  std::optional<Stopped> stopped_;
  RecordSummary summary_;
};

}  // namespace

Result<RecordSummary> record(const RecordPlan& plan, RecordObserver& observer) {
  VTRACE_TRY(Interrupts interrupts, Interrupts::create());
  VTRACE_TRY(TraceDatWriter writer, TraceDatWriter::create(plan.output));
  VTRACE_TRY(FifoSet fifos, FifoSet::open(plan.directory));
  VTRACE_CHECK(fifos.lock());
  VTRACE_TRY(Spool spool, plan.raw_directory.empty() ? Spool::create_beside(writer.path())
                                                     : Spool::create_at(plan.raw_directory));
  RecordSession session(plan, observer, std::move(interrupts), std::move(writer), std::move(fifos),
                        std::move(spool));
  return session.run();
}

}  // namespace vtrace
