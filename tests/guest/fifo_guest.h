// Host and guest in one machine: the real command and the real agent, with FIFOs in place of ports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {

// Directory, FIFOs and agent, with a tracefs instance of a name of its own.
class FifoGuest {
 public:
  explicit FifoGuest(std::vector<std::string> agent_options = {});

  [[nodiscard]] std::string fifos() const { return temp_.file("fifos"); }
  [[nodiscard]] std::string file(const std::string& name) const { return temp_.file(name); }
  [[nodiscard]] const std::string& instance() const { return instance_; }
  // A file of the instance below tracefs.
  [[nodiscard]] std::string instance_path(const std::string& name) const;
  [[nodiscard]] BackgroundProcess& agent() { return *agent_; }

  // Starts the agent (anew) and waits until it answers.
  void start_agent();
  void stop_agent(int signal);

  // virtio-trace WORDS... --dir FIFOS
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> words) const;
  [[nodiscard]] ProcessResult run(std::vector<std::string> words,
                                  Duration deadline = kProcessDeadline) const;
  // "CPU C LINE I" for I from 0 on, `lines` of them, written from CPU C into the instance's marker.
  void write_markers(int cpu, int lines) const;
  [[nodiscard]] int cpus() const { return cpus_; }

 private:
  TempDir temp_;
  std::string instance_;
  std::vector<std::string> agent_options_;
  int cpus_;
  std::unique_ptr<BackgroundProcess> agent_;
};

}  // namespace vtrace::test
