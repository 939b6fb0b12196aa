// What the agent does for each order: the state machine between the control channel and the runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/messages.h"
#include "guest-agent/agent_log.h"
#include "guest-agent/agent_options.h"
#include "guest-agent/control_channel.h"
#include "guest-agent/metadata_collector.h"
#include "guest-agent/recording_run.h"
#include "guest-agent/trace_instance.h"

namespace vtrace {

// Used by one thread, which it never keeps waiting but for the kernel's own settings.
//
// One run at a time. A start with a new run id ends the run that is on or draining and drops what
// is pending of it; the same id again is answered as before (its answer may have been lost). The
// agent's instance lives from configure to the end of the run that used it.
class AgentService {
 public:
  using Clock = std::chrono::steady_clock;
  using Send = std::function<void(Bytes frame, ControlChannel::Kind kind)>;

  // Stop is answered within this, whatever the ports do; complete or not.
  static constexpr std::chrono::milliseconds kStopLimit{1500};
  // At the agent's end pending data gets this long.
  static constexpr std::chrono::milliseconds kEndLimit{1000};

  // References must outlive the service. `run_report` and `metadata_done` are the descriptors whose
  // signals on_run_report and on_metadata answer. `shared` is null unless data goes to stdout.
  struct Parts {
    const AgentOptions& options;
    AgentLog& log;
    const WakeFd& run_report;
    const WakeFd& metadata_done;
    SharedSink* shared = nullptr;
    Cancelled cancelled;
  };
  AgentService(Parts parts, Send send);
  ~AgentService();

  // Removes what a killed agent left, and introduces itself.
  void begin();
  void handle(const ControlItem& item, Clock::time_point now);
  void on_run_report();
  void on_metadata();
  // Puts metadata into the channel as long as little is queued there.
  void feed_metadata(std::size_t queued_bytes);
  [[nodiscard]] std::optional<Clock::time_point> deadline() const;
  void on_deadline(Clock::time_point now);

  // The agent is to end: stops the run; ended() is true when nothing is pending any more or the
  // time is over. Then the caller destroys the service.
  void begin_end(Clock::time_point now);
  [[nodiscard]] bool ended(Clock::time_point now) const;

 private:
  struct PendingStop {
    std::uint32_t request_id = 0;
    Clock::time_point until;
  };
  struct MetadataAnswer {
    std::uint32_t request_id = 0;
    CollectedMetadata metadata;
    std::size_t sent = 0;
  };

  template <typename Message>
  void answer(std::uint32_t request_id, const Message& message) {
    send_(encode_message(request_id, message), ControlChannel::Kind::answer);
  }
  void refuse(std::uint32_t request_id, AgentErrorCode code, const std::string& text);

  void handle_frame(const Frame& frame, Clock::time_point now);
  void handle_legacy(LegacyOrder order);
  template <typename Message, typename Handler>
  void decoded(const Frame& frame, Handler handler);

  void hello(std::uint32_t request_id, ControlChannel::Kind kind);
  void configure(std::uint32_t request_id, const Configure& settings);
  void start(std::uint32_t request_id, const Start& order);
  void stop(std::uint32_t request_id, const Stop& order, Clock::time_point now);
  void status(std::uint32_t request_id);
  void get_metadata(std::uint32_t request_id, const GetMetadata& wish);

  Result<Tracefs> tracefs();
  void remember_buffer(const TraceBuffer& buffer);
  void refresh_ports();
  [[nodiscard]] CpuList recordable_cpus(const TraceBuffer& buffer) const;
  Status begin_run(RunPlan plan);
  void switch_off();
  void end_run();
  void drop_run(const std::string& reason);
  void remove_instance();
  [[nodiscard]] Stopped stopped_message() const;
  void answer_stops(const Stopped& message);
  [[nodiscard]] AgentState state() const;
  [[nodiscard]] std::vector<std::string> take_notes();

  const AgentOptions& options_;
  AgentLog& log_;
  const WakeFd& run_report_;
  SharedSink* shared_;
  Cancelled cancelled_;
  Send send_;
  const std::uint64_t agent_id_;
  DataPorts ports_;
  std::vector<std::string> port_notes_;
  std::vector<std::string> notes_;  // for the next answer that carries notes
  std::optional<TraceInstance> instance_;
  std::optional<RecordedBuffer> recorded_;  // of the buffer that was configured or recorded last
  std::unique_ptr<RecordingRun> run_;
  std::vector<PendingStop> pending_stops_;
  std::optional<Stopped> last_run_;  // of the run that has ended
  std::string last_buffer_;
  MetadataCollector collector_;
  std::uint32_t metadata_request_ = 0;
  std::optional<MetadataAnswer> metadata_;
  std::optional<Clock::time_point> end_by_;
};

}  // namespace vtrace
