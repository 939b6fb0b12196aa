#include "tests/guest/fifo_guest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <thread>

#include "common/fd.h"
#include "tests/guest/tracefs_root.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

constexpr const char* kCommand = VTRACE_BIN_DIR "/virtio-trace";
constexpr const char* kAgent = VTRACE_BIN_DIR "/virtio-trace-agent";

// Runs `work` in a thread of that CPU, to its end.
template <typename Work>
void on_cpu(int cpu, Work work) {
  std::jthread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
      throw std::runtime_error("sched_setaffinity");
    work();
  }).join();
}

}  // namespace

FifoGuest::FifoGuest(std::vector<std::string> agent_options)
    : instance_(fmt::format("vtrace-test-{}-{}", ::getpid(), temp_.path().filename().string())),
      agent_options_(std::move(agent_options)),
      cpus_(static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF))) {
  const auto made = run_process(command({"setup", "--cpus", std::to_string(cpus_)}));
  if (made.exit_code != 0) throw std::runtime_error(made.describe());
  start_agent();
}

std::string FifoGuest::instance_path(const std::string& name) const {
  return fmt::format("{}/instances/{}/{}", tracefs_root(), instance_, name);
}

void FifoGuest::start_agent() {
  std::vector<std::string> argv = {kAgent, "--ports-dir", fifos(), "--instance", instance_};
  argv.insert(argv.end(), agent_options_.begin(), agent_options_.end());
  agent_ = std::make_unique<BackgroundProcess>(argv);
  if (!eventually([this] { return run({"status"}).exit_code == 0; }))
    throw std::runtime_error("the agent does not answer: " + agent_->err_so_far());
}

void FifoGuest::stop_agent(int signal) {
  agent_->signal(signal);
  agent_->wait();
}

std::vector<std::string> FifoGuest::command(std::vector<std::string> words) const {
  words.insert(words.begin(), kCommand);
  words.insert(words.end(), {"--dir", fifos()});
  return words;
}

ProcessResult FifoGuest::run(std::vector<std::string> words, Duration deadline) const {
  return run_process(command(std::move(words)), {}, deadline);
}

void FifoGuest::write_markers(int cpu, int lines) const {
  on_cpu(cpu, [&] {
    const Fd marker = must(open_fd(instance_path("trace_marker"), O_WRONLY));
    for (int i = 0; i < lines; ++i)
      must(write_all(marker.get(), fmt::format("CPU {} LINE {}", cpu, i), "trace_marker"));
  });
}

}  // namespace vtrace::test
