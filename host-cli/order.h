// One order to a guest's agent, of the new kind or the kernel's own.
#pragma once

#include <optional>
#include <string>

#include "common/messages.h"
#include "common/result.h"

namespace vtrace {

// What became of a start or stop.
template <typename Answer>
struct OrderOutcome {
  // The agent's answer; nothing when no agent answered in time, so that the order went out in the
  // kernel README's form, which gets none.
  std::optional<Answer> answer;
  std::string channel;  // the FIFO that the order went into
};

// `directory` is that of the FIFOs. Ends within about 2 s when nobody answers.
[[nodiscard]] Result<OrderOutcome<Started>> order_start(const std::string& directory);
[[nodiscard]] Result<OrderOutcome<Stopped>> order_stop(const std::string& directory);
[[nodiscard]] Result<StatusReport> ask_status(const std::string& directory, AgentHello& agent);

}  // namespace vtrace
