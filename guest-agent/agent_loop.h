// The agent's one event loop: the control port, the recorders' reports, metadata and signals.
#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "guest-agent/agent_log.h"
#include "guest-agent/agent_options.h"

namespace vtrace {

// Runs until `signals` (a signalfd of SIGTERM and SIGINT, borrowed) says to end: returns the
// signal's number. The signals are blocked in the calling thread, SIGPIPE is ignored. An error when
// the control port is missing or goes away.
[[nodiscard]] Result<int> run_agent(const AgentOptions& options, AgentLog& log, int signals);

// Standard output as a sink for all CPUs, O_NONBLOCK where that has a meaning.
[[nodiscard]] Result<Fd> open_stdout_sink(int stdout_fd);

}  // namespace vtrace
