#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "common/fd.h"
#include "common/say.h"
#include "guest-agent/agent_log.h"
#include "guest-agent/agent_loop.h"
#include "guest-agent/agent_options.h"

namespace {

using namespace vtrace;

int exit_code(const Error& error) {
  switch (error.kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::interrupted:
      return 130;
    default:
      return 1;
  }
}

// Six descriptors a CPU: the usual limit of 1024 ends at 165 CPUs.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Result<Fd> take_over_signals() {
  (void)std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) < 0) return fail_errno("sigprocmask", errno);
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return fail_errno("signalfd", errno);
  return signals;
}

Result<int> run(const AgentOptions& options, AgentLog& log) {
  raise_descriptor_limit();
  VTRACE_TRY(const Fd signals, take_over_signals());
  return run_agent(options, log, signals.get());
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  AgentLog log(STDERR_FILENO, std::getenv("JOURNAL_STREAM") != nullptr);
  const auto line = parse_command_line(argc, argv);
  if (!line) {
    log.error(line.error().message);
    return exit_code(line.error());
  }
  if (!line->text.empty())
    return write_all(STDOUT_FILENO, line->text, "standard output") ? EXIT_SUCCESS : EXIT_FAILURE;
  const auto signal = run(line->options, log);
  if (!signal) {
    log.error(signal.error().message);
    return exit_code(signal.error());
  }
  return *signal == SIGINT ? 130 : EXIT_SUCCESS;
}
