// The orders of agent_service.h, one function each.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "guest-agent/agent_service.h"

namespace vtrace {
namespace {

// A frame is one write for the port and well below the protocol's limit.
constexpr std::size_t kMetadataChunk = 60U << 10U;
// As much metadata as is queued at a time, so that a stop's answer does not stand behind all of it.
constexpr std::size_t kMetadataAhead = 256U << 10U;

AgentErrorCode code_of(const Error& error) {
  return error.kind == ErrorKind::interrupted ? AgentErrorCode::busy : AgentErrorCode::bad_setting;
}

}  // namespace

void AgentService::hello(std::uint32_t request_id, ControlChannel::Kind kind) {
  const Machine machine = look_at_machine(options_.machine);
  AgentHello hello;
  hello.agent_version = VTRACE_VERSION;
  hello.boot_id = machine.boot_id;
  hello.agent_id = agent_id_;
  hello.sysname = machine.sysname;
  hello.nodename = machine.nodename;
  hello.kernel_release = machine.kernel_release;
  hello.machine = machine.machine;
  hello.cpus_possible = machine.cpus_possible;
  hello.cpus_present = machine.cpus_present;
  hello.cpus_online = machine.cpus_online;
  hello.page_size = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  hello.instance = options_.instance;
  hello.state = state();
  hello.run_id = run_ ? run_->run_id() : 0;
  hello.notes = port_notes_;
  if (const auto fs = tracefs(); fs) {
    const TraceBuffer top = fs->top_level();
    hello.tracefs = fs->root();
    hello.clocks = top.read("trace_clock").value_or("");
    hello.tracers = top.read("available_tracers").value_or("");
    const auto layout = top.layout();
    if (layout) hello.subbuf_size = layout->size();
    if (!layout) hello.notes.push_back(layout.error().message);
    const CpuList cpus = recordable_cpus(top);
    hello.cpus_with_port = format_cpu_list(cpus);
    CpuList without;
    for (const int cpu : present_cpus(options_.machine)) {
      if (!std::ranges::binary_search(cpus, cpu)) without.push_back(cpu);
    }
    if (!without.empty())
      hello.notes.push_back(fmt::format("{}: no data port, not recorded", cpu_words(without)));
    CpuList idle_ports;
    for (const int cpu : ports_.cpus()) {
      if (!std::ranges::binary_search(cpus, cpu)) idle_ports.push_back(cpu);
    }
    if (!idle_ports.empty())
      hello.notes.push_back(fmt::format("{}: a port, but no such CPU", cpu_words(idle_ports)));
  } else {
    hello.notes.push_back(fs.error().message);
  }
  send_(encode_message(request_id, hello), kind);
}

void AgentService::configure(std::uint32_t request_id, const Configure& settings) {
  const auto fs = tracefs();
  if (!fs) return refuse(request_id, AgentErrorCode::no_tracefs, fs.error().message);
  if (const auto checked = check_settings(*fs, settings); !checked)
    return refuse(request_id, AgentErrorCode::bad_setting, checked.error().message);
  drop_run("a configure order");
  remove_instance();
  refresh_ports();
  auto made = TraceInstance::create(*fs, options_.instance);
  if (!made) return refuse(request_id, AgentErrorCode::failed, made.error().message);
  const TraceBuffer buffer = made->buffer();
  const auto done = made->configure(settings, cancelled_);
  const auto layout = buffer.layout();
  if (!done || !layout) {
    if (const auto removed = made->remove(); !removed) log_.warning(removed.error().message);
    if (!done) return refuse(request_id, code_of(done.error()), done.error().message);
    return refuse(request_id, AgentErrorCode::failed, layout.error().message);
  }
  instance_ = std::move(*made);
  remember_buffer(buffer);
  Configured configured;
  configured.instance = options_.instance;
  const CpuList cpus = recordable_cpus(buffer);
  configured.cpus = format_cpu_list(cpus);
  configured.subbuf_size = layout->size();
  configured.header_page = recorded_->header_page;
  configured.clock = recorded_->trace_clock;
  configured.buffer_bytes = cpus.empty() ? 0 : buffer.bytes_per_cpu(cpus.front());
  configured.notes = take_notes();
  answer(request_id, configured);
}

void AgentService::start(std::uint32_t request_id, const Start& order) {
  if (order.run_id == 0)
    return refuse(request_id, AgentErrorCode::bad_request,
                  "start: a run id other than 0 is needed");
  const bool again = run_ && run_->run_id() == order.run_id;
  // A late copy of an old start must not begin a second run under the same id.
  if ((again && run_->stopping()) || (!run_ && last_run_ && last_run_->run_id == order.run_id)) {
    return refuse(request_id, AgentErrorCode::wrong_run,
                  fmt::format("start: run {:016x} was stopped already", order.run_id));
  }
  if (!again) {
    const auto fs = tracefs();
    if (!fs) return refuse(request_id, AgentErrorCode::no_tracefs, fs.error().message);
    const bool own = order.target == StartTarget::instance;
    // The instance of a run that is on is not one that was configured for the next.
    if (own && (!instance_ || (run_ && run_->target() == StartTarget::instance))) {
      return refuse(request_id, AgentErrorCode::not_configured,
                    "start: no instance is configured; send configure first");
    }
    drop_run("a start order");
    refresh_ports();
    RunPlan plan{.buffer = own ? instance_->buffer() : fs->top_level(),
                 .target = order.target,
                 .run_id = order.run_id};
    if (const auto begun = begin_run(std::move(plan)); !begun)
      return refuse(request_id, AgentErrorCode::failed, begun.error().message);
    if (own) {
      std::vector<pid_t> threads = run_->threads();
      threads.push_back(::getpid());
      instance_->keep_out(threads);
      if (const auto on = instance_->set_tracing(true); !on) {
        drop_run("a failure to switch tracing on");
        return refuse(request_id, AgentErrorCode::failed, on.error().message);
      }
    }
  }
  Started started;
  started.run_id = order.run_id;
  started.cpus = format_cpu_list(run_->cpus());
  started.subbuf_size = run_->layout().size();
  started.header_page = run_->header_page();
  started.notes = take_notes();
  for (std::string& note : run_->notes()) started.notes.push_back(std::move(note));
  started.notes.insert(started.notes.end(), port_notes_.begin(), port_notes_.end());
  answer(request_id, started);
}

void AgentService::stop(std::uint32_t request_id, const Stop& order, Clock::time_point now) {
  const bool known = run_ ? order.run_id == 0 || order.run_id == run_->run_id()
                          : last_run_ && (order.run_id == 0 || order.run_id == last_run_->run_id);
  if (!known) {
    if (!run_) return refuse(request_id, AgentErrorCode::wrong_run, "stop: no run is on");
    return refuse(
        request_id, AgentErrorCode::wrong_run,
        fmt::format("stop: run {:016x} is not on, run {:016x} is", order.run_id, run_->run_id()));
  }
  // The answer to an earlier stop may have been lost.
  if (!run_) return answer(request_id, *last_run_);
  pending_stops_.push_back({request_id, now + kStopLimit});
  if (run_->stopping()) return;
  switch_off();
  run_->stop();
}

void AgentService::status(std::uint32_t request_id) {
  StatusReport report;
  report.state = state();
  report.buffer = last_buffer_;
  if (run_) {
    report.run_id = run_->run_id();
    report.running_ns = run_->running_ns();
    report.cpus = run_->counts(false);
    report.notes = run_->notes();
  } else if (last_run_) {
    report.run_id = last_run_->run_id;
    report.cpus = last_run_->cpus;
    for (CpuCounts& counts : report.cpus) counts.stats_text.clear();
    report.notes = last_run_->notes;
  }
  report.notes.insert(report.notes.end(), notes_.begin(), notes_.end());
  answer(request_id, report);
}

// The order of the kernel README: the top-level buffer as it is, no fences, no answer.
void AgentService::handle_legacy(LegacyOrder order) {
  if (end_by_) return;
  if (order == LegacyOrder::stop) {
    if (!run_ || run_->stopping()) return;
    switch_off();
    run_->stop();
    return;
  }
  if (run_ && !run_->legacy() && !run_->stopping()) {
    log_.warning("order 1 ignored: a run of the framed protocol is on");
    return;
  }
  if (run_ && run_->legacy() && (!run_->stopping() || run_->resume())) return;
  drop_run("the order 1");
  refresh_ports();
  const auto fs = tracefs();
  if (!fs) {
    log_.error(fs.error().message);
    return;
  }
  const auto begun = begin_run({.buffer = fs->top_level()});
  if (!begun) log_.error(begun.error().message);
}

void AgentService::get_metadata(std::uint32_t request_id, const GetMetadata& wish) {
  const auto fs = tracefs();
  if (!fs) return refuse(request_id, AgentErrorCode::no_tracefs, fs.error().message);
  // The buffer that was recorded may be gone; without one the top level is meant.
  if (!recorded_) remember_buffer(fs->top_level());
  metadata_.reset();
  metadata_request_ = request_id;
  collector_.begin({.parts = wish.parts,
                    .tracefs = fs->root(),
                    .buffer = *recorded_,
                    .places = options_.machine});
}

void AgentService::on_metadata() {
  auto result = collector_.take();
  if (!result) return;
  if (!*result) return refuse(metadata_request_, AgentErrorCode::failed, result->error().message);
  for (const std::string& note : (*result)->notes) {
    log_.warning(note);
    notes_.push_back(note);
  }
  metadata_ = MetadataAnswer{metadata_request_, std::move(**result), 0};
}

void AgentService::feed_metadata(std::size_t queued_bytes) {
  while (metadata_ && queued_bytes < kMetadataAhead) {
    const Bytes& all = metadata_->metadata.compressed;
    const std::size_t size = std::min(kMetadataChunk, all.size() - metadata_->sent);
    MetadataChunk chunk;
    chunk.total_bytes = all.size();
    chunk.offset = metadata_->sent;
    chunk.content_bytes = metadata_->metadata.content_bytes;
    chunk.data = as_text(std::span(all).subspan(metadata_->sent, size));
    metadata_->sent += size;
    answer(metadata_->request_id, chunk);
    queued_bytes += size;
    if (metadata_->sent == all.size()) metadata_.reset();
  }
}

}  // namespace vtrace
