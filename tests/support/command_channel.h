// Runs shell commands in a test guest, over the serial line that
// tests/support/guest/command_server.cpp listens on (the protocol is told there).
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "common/fd.h"

namespace vtrace::test {

struct CommandResult {
  int exit_code = -1;  // 128 + the signal's number when a signal ended it
  std::string out;
  std::string err;

  // Everything, for a failed assertion's message.
  [[nodiscard]] std::string describe() const;
};

// One thread uses the object. Nothing here blocks longer than `poll_for` is told to.
class CommandChannel {
 public:
  // `socket` is QEMU's end of the serial line.
  explicit CommandChannel(Fd socket);

  // Starts a script (at most 2 KiB: the line has a small buffer) and returns its number.
  int start(std::string_view script);
  void kill(int id, int signal);
  // Takes in what the guest sent; waits for it at most `timeout`.
  void poll_for(std::chrono::milliseconds timeout);

  [[nodiscard]] bool finished(int id) const;
  // What the script has printed so far, and its exit code once it has finished.
  [[nodiscard]] const CommandResult& result(int id) const;
  void forget(int id) { jobs_.erase(id); }

  // How often the guest's server has said that it is ready: a number that grows with each boot.
  [[nodiscard]] int ready_count() const { return ready_count_; }
  // The boot id of the guest that said so last.
  [[nodiscard]] const std::string& boot_id() const { return boot_id_; }

 private:
  struct Job {
    CommandResult result;
    bool finished = false;
    int boot = 0;  // ready_count_ when it started
  };

  void handle(const std::string& line);
  [[nodiscard]] const Job& job(int id) const;

  Fd socket_;
  std::string pending_;
  std::map<int, Job> jobs_;
  int next_id_ = 1;
  int ready_count_ = 0;
  std::string boot_id_;
};

}  // namespace vtrace::test
