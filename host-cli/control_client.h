// The host's side of the control protocol: requests over one endpoint, each with a time limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/messages.h"
#include "common/metadata.h"
#include "common/result.h"

namespace vtrace {

// The two ends of the control channel: a FIFO pair, or one socket twice. Both O_NONBLOCK.
struct ControlEndpoint {
  Fd read;
  Fd write;
  std::string name;  // for errors
};

// An agent answers within this time, or is taken for the kernel's own, which never answers.
inline constexpr std::chrono::milliseconds kAnswerTime{2000};

// Used by one thread. Answers to requests of other clients, or of earlier ones that are still in
// the channel, are told by their ids and passed over.
class ControlClient {
 public:
  // `cancel` is borrowed: when it becomes readable, a wait ends with ErrorKind::interrupted. -1:
  // none.
  ControlClient(ControlEndpoint endpoint, int cancel);

  // Introduces us, again and again until an answer comes. ErrorKind::timeout when none does.
  [[nodiscard]] Result<AgentHello> hello(std::chrono::milliseconds limit);

  [[nodiscard]] Result<Configured> configure(const Configure& request);
  [[nodiscard]] Result<Started> start(const Start& request);
  [[nodiscard]] Result<Stopped> stop(const Stop& request);
  [[nodiscard]] Result<StatusReport> status();
  // The limit is for the silence between two pieces. `progress` gets (bytes so far, bytes in all).
  using ChunkProgress = std::function<void(std::uint64_t, std::uint64_t)>;
  [[nodiscard]] Result<Metadata> get_metadata(std::uint32_t parts, const ChunkProgress& progress);

  // The kernel README's order: "1\n" or "0\n", by itself in one write.
  [[nodiscard]] Status send_legacy(LegacyOrder order);

  // Looks at what has come without waiting: an agent's unasked hello says that it is a new one (it
  // or the guest was started anew).
  [[nodiscard]] Result<std::optional<AgentHello>> take_announcement();
  // True when nobody has the other end open any more.
  [[nodiscard]] bool peer_gone() const;
  // The channel's name, for messages.
  [[nodiscard]] const std::string& name() const { return endpoint_.name; }
  // To poll for announcements.
  [[nodiscard]] int read_fd() const { return endpoint_.read.get(); }
  [[nodiscard]] int write_fd() const { return endpoint_.write.get(); }

  // From now on no signal ends a wait, or another one does.
  void set_cancel(int cancel) { cancel_ = cancel; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  template <typename Answer, typename Request>
  Result<Answer> call(const Request& request, const char* what);
  Status send(std::span<const std::byte> bytes, Deadline deadline);
  // The next frame that answers `request_id`, or ErrorKind::timeout.
  Result<Frame> receive(std::uint32_t request_id, Deadline deadline);
  Result<std::optional<Frame>> receive_any(Deadline deadline);
  Status wait(int fd, short events, Deadline deadline);
  // Ok for a frame of the wanted type; else the error that it carries.
  [[nodiscard]] Status check_type(const Frame& frame, MessageType wanted) const;

  ControlEndpoint endpoint_;
  int cancel_;
  ControlDecoder decoder_{ControlDecoder::LegacyOrders::ignored};
  std::uint32_t next_id_;
  std::vector<std::uint32_t> hello_ids_;
  std::optional<AgentHello> announcement_;
};

}  // namespace vtrace
