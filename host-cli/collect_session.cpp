#include "host-cli/collect_session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "common/layout.h"
#include "host-cli/control_endpoint.h"
#include "host-cli/descriptor_limit.h"
#include "host-cli/fifo_set.h"
#include "host-cli/interrupts.h"
#include "host-cli/spool.h"

namespace vtrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kFifoBytes = 1U << 20U;
constexpr std::size_t kOtherDescriptors = 32;

Result<std::unique_ptr<Collector>> open_collector(const FifoSet& fifos, Spool& spool,
                                                  std::uint64_t max_bytes) {
  if (fifos.cpus().empty()) {
    return fail(fmt::format("{}: no {}N.out in it (make them with virtio-trace setup)",
                            fifos.path(), kDataPortPrefix));
  }
  VTRACE_CHECK(ensure_descriptors(kOtherDescriptors + 2 * fifos.cpus().size()));
  std::vector<CollectorInput> inputs;
  for (const int cpu : fifos.cpus()) {
    const std::string port = data_port_name(cpu);
    CollectorInput input;
    input.cpu = cpu;
    VTRACE_TRY(input.port, fifos.open_keepalive(port));
    enlarge_pipe(input.port.get(), kFifoBytes);
    VTRACE_TRY(input.file, spool.create_cpu_file(cpu));
    input.port_name = fifos.fifo_path(port, Direction::out);
    input.file_name = spool.cpu_file_path(cpu);
    inputs.push_back(std::move(input));
  }
  return Collector::create(std::move(inputs), std::nullopt, max_bytes);
}

// What makes the raw files readable, from an agent that can give it. The kernel's own cannot.
Status save_metadata(const FifoSet& fifos, Spool& spool, int cancel, RecordObserver& observer) {
  VTRACE_TRY(ControlEndpoint endpoint, open_control(fifos));
  ControlClient client(std::move(endpoint), cancel);
  VTRACE_CHECK(client.hello(kAnswerTime));
  observer.phase("fetching event formats");
  VTRACE_TRY(
      const Metadata metadata,
      client.get_metadata(
          kMetadataFormats | kMetadataSystem | kMetadataTasks | kMetadataPrintk | kMetadataKallsyms,
          [&observer](auto done, auto total) { observer.progress(done, total); }));
  return spool.save_metadata(metadata);
}

void wait_for_end(const CollectPlan& plan, Interrupts& interrupts, const Collector& collector,
                  steady_clock::time_point started, RecordObserver& observer) {
  const auto end = plan.duration ? started + *plan.duration : steady_clock::time_point::max();
  auto next_tick = started + std::chrono::seconds(1);
  while (interrupts.count() == 0 && !collector.fault() && !collector.size_limit_reached()) {
    const auto now = steady_clock::now();
    if (now >= end) return;
    if (now >= next_tick) {
      observer.tick(std::chrono::duration<double>(now - started).count(), collector.progress());
      next_tick += std::chrono::seconds(1);
      continue;
    }
    const auto left = std::chrono::ceil<milliseconds>(std::min(end, next_tick) - now);
    std::array<pollfd, 2> fds = {
        {{interrupts.get(), POLLIN, 0}, {collector.event_fd(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
  }
}

}  // namespace

Result<CollectSummary> collect(const CollectPlan& plan, RecordObserver& observer) {
  VTRACE_TRY(Interrupts interrupts, Interrupts::create());
  VTRACE_TRY(const FifoSet fifos, FifoSet::open(plan.directory));
  VTRACE_CHECK(fifos.lock());
  VTRACE_TRY(Spool spool, Spool::create_at(plan.output));
  VTRACE_TRY(const auto collector, open_collector(fifos, spool, plan.max_bytes));
  const auto started = steady_clock::now();
  observer.phase("collecting");
  wait_for_end(plan, interrupts, *collector, started, observer);
  collector->finish();

  CollectSummary summary;
  summary.output = spool.path();
  summary.seconds = std::chrono::duration<double>(steady_clock::now() - started).count();
  summary.cpus = collector->progress();
  summary.size_limit = collector->size_limit_reached();
  if (const auto fault = collector->fault()) summary.problem = fault->message;
  if (summary.problem.empty()) {
    if (auto saved = save_metadata(fifos, spool, interrupts.get(), observer); saved) {
      summary.metadata = true;
    } else if (saved.error().kind != ErrorKind::interrupted) {
      observer.note(
          fmt::format("no event formats ({}): report needs them from elsewhere (--metadata)",
                      saved.error().message));
    }
  }
  return summary;
}

}  // namespace vtrace
