#include "guest-agent/agent_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace vtrace {

AgentService::AgentService(Parts parts, Send send)
    : options_(parts.options),
      log_(parts.log),
      run_report_(parts.run_report),
      shared_(parts.shared),
      cancelled_(std::move(parts.cancelled)),
      send_(std::move(send)),
      agent_id_(draw_id()),
      ports_(parts.options.ports),
      collector_(parts.metadata_done) {}

AgentService::~AgentService() {
  collector_.cancel();
  if (run_) {
    switch_off();
    run_->drop();
    run_.reset();
  }
  remove_instance();
}

void AgentService::begin() {
  refresh_ports();
  for (const std::string& note : port_notes_) log_.warning(note);
  if (const auto fs = tracefs(); !fs) {
    // The host is told, too, when it asks: tracefs may be mounted later.
    log_.error(fs.error().message);
  } else {
    const auto removed = TraceInstance::remove_leftover(*fs, options_.instance);
    if (!removed) log_.warning(removed.error().message);
    if (removed.value_or(false))
      log_.warning(fmt::format("removed the instance {} of an earlier agent", options_.instance));
  }
  hello(0, ControlChannel::Kind::unasked);
}

void AgentService::refuse(std::uint32_t request_id, AgentErrorCode code, const std::string& text) {
  log_.warning(text);
  answer(request_id, AgentError{code, text});
}

Result<Tracefs> AgentService::tracefs() {
  return Tracefs::find(options_.tracefs);
}

// A live recorder's port must stay as it is.
void AgentService::refresh_ports() {
  if (!run_ && shared_ == nullptr) port_notes_ = ports_.refresh();
}

CpuList AgentService::recordable_cpus(const TraceBuffer& buffer) const {
  const CpuList present = present_cpus(options_.machine);
  CpuList cpus;
  for (const int cpu : buffer.cpus().value_or(CpuList{})) {
    const bool here = present.empty() || std::ranges::binary_search(present, cpu);
    const bool has_port = shared_ != nullptr || std::ranges::binary_search(ports_.cpus(), cpu);
    if (here && has_port) cpus.push_back(cpu);
  }
  return cpus;
}

void AgentService::remember_buffer(const TraceBuffer& buffer) {
  recorded_ = RecordedBuffer{buffer.read("events/header_page").value_or(""),
                             buffer.read("events/header_event").value_or(""),
                             buffer.read("trace_clock").value_or("")};
}

AgentState AgentService::state() const {
  if (!run_) return AgentState::idle;
  return run_->stopping() ? AgentState::draining : AgentState::recording;
}

std::vector<std::string> AgentService::take_notes() {
  return std::exchange(notes_, {});
}

// The run's buffer is switched only when it is ours.
void AgentService::switch_off() {
  if (!run_ || run_->target() != StartTarget::instance || !instance_) return;
  if (const auto off = instance_->set_tracing(false); !off) {
    log_.warning(off.error().message);
    notes_.push_back(off.error().message);
  }
}

void AgentService::remove_instance() {
  if (!instance_) return;
  if (const auto removed = instance_->remove(); !removed) log_.warning(removed.error().message);
  instance_.reset();
}

Status AgentService::begin_run(RunPlan plan) {
  plan.present = present_cpus(options_.machine);
  plan.flush_interval = options_.flush_interval;
  plan.pipe_bytes = options_.pipe_bytes;
  plan.realtime_priority = options_.realtime_priority;
  remember_buffer(plan.buffer);
  VTRACE_TRY(run_, RecordingRun::start(std::move(plan), ports_, shared_, run_report_));
  last_run_.reset();
  last_buffer_ = run_->buffer().name();
  for (const std::string& note : run_->notes()) log_.info(note);
  log_.info(fmt::format("recording {}: {}", run_->buffer().name(), cpu_words(run_->cpus())));
  return {};
}

Stopped AgentService::stopped_message() const {
  Stopped message;
  message.run_id = run_->run_id();
  message.complete = run_->complete();
  message.cpus = run_->counts(true);
  message.notes = run_->notes();
  return message;
}

void AgentService::answer_stops(const Stopped& message) {
  for (const PendingStop& stop : std::exchange(pending_stops_, {}))
    answer(stop.request_id, message);
}

// All recorders have finished, or were told to drop what they had.
void AgentService::end_run() {
  run_->drop();
  Stopped message = stopped_message();
  for (std::string& note : notes_) message.notes.push_back(std::move(note));
  notes_.clear();
  for (const CpuCounts& counts : message.cpus) {
    if (!counts.error.empty()) log_.warning(fmt::format("CPU {}: {}", counts.cpu, counts.error));
  }
  const bool was_instance = run_->target() == StartTarget::instance;
  log_.info(fmt::format("run ended, {}", message.complete ? "complete" : "incomplete"));
  answer_stops(message);
  last_run_ = std::move(message);
  run_.reset();
  if (was_instance) remove_instance();
}

void AgentService::drop_run(const std::string& reason) {
  if (!run_) return;
  switch_off();
  log_.warning(fmt::format("the run is dropped: {}", reason));
  const std::uint64_t id = run_->run_id();
  end_run();
  if (!last_run_->complete) {
    notes_.push_back(
        fmt::format("run {:016x} was ended by {}; its pending data was dropped", id, reason));
  }
}

void AgentService::on_run_report() {
  if (!run_ || !run_->finished()) return;
  // A run that was not stopped ends by itself when every port has failed.
  if (!run_->stopping()) {
    log_.warning("every recorder has ended early");
    switch_off();
  }
  end_run();
}

std::optional<AgentService::Clock::time_point> AgentService::deadline() const {
  std::optional<Clock::time_point> first = end_by_;
  for (const PendingStop& stop : pending_stops_) {
    if (!first || stop.until < *first) first = stop.until;
  }
  return first;
}

void AgentService::on_deadline(Clock::time_point now) {
  const bool due = std::ranges::any_of(
      pending_stops_, [now](const PendingStop& stop) { return stop.until <= now; });
  if (due && run_) answer_stops(stopped_message());
}

void AgentService::begin_end(Clock::time_point now) {
  if (end_by_) return;
  end_by_ = now + kEndLimit;
  collector_.cancel();
  metadata_.reset();
  if (!run_) return;
  switch_off();
  run_->stop();
  on_run_report();
}

bool AgentService::ended(Clock::time_point now) const {
  return end_by_ && (!run_ || now >= *end_by_);
}

void AgentService::handle(const ControlItem& item, Clock::time_point now) {
  if (const auto* order = std::get_if<LegacyOrder>(&item)) {
    handle_legacy(*order);
  } else {
    handle_frame(std::get<Frame>(item), now);
  }
}

template <typename Message, typename Handler>
void AgentService::decoded(const Frame& frame, Handler handler) {
  auto message = decode_message<Message>(frame);
  if (message) {
    handler(*message);
  } else {
    refuse(frame.request_id, AgentErrorCode::bad_request, message.error().message);
  }
}

void AgentService::handle_frame(const Frame& frame, Clock::time_point now) {
  const std::uint32_t id = frame.request_id;
  if (end_by_) return refuse(id, AgentErrorCode::busy, "the agent is ending");
  switch (static_cast<MessageType>(frame.type)) {
    case MessageType::hello:
      refresh_ports();
      hello(id, ControlChannel::Kind::answer);
      return;
    case MessageType::configure:
      decoded<Configure>(frame, [&](const Configure& message) { configure(id, message); });
      return;
    case MessageType::start:
      decoded<Start>(frame, [&](const Start& message) { start(id, message); });
      return;
    case MessageType::stop:
      decoded<Stop>(frame, [&](const Stop& message) { stop(id, message, now); });
      return;
    case MessageType::status:
      status(id);
      return;
    case MessageType::get_metadata:
      decoded<GetMetadata>(frame, [&](const GetMetadata& message) { get_metadata(id, message); });
      return;
    case MessageType::ping:
      answer(id, Pong{});
      return;
    default:
      answer(id, Unsupported{.type = frame.type});
  }
}

}  // namespace vtrace
