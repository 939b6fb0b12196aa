// Running programs from tests: no shell, every wait with a deadline, nothing left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/fd.h"

namespace vtrace::test {

using Duration = std::chrono::milliseconds;
inline constexpr Duration kProcessDeadline{30'000};

struct ProcessOptions {
  std::vector<std::string> environment = {};  // "NAME=VALUE" to add or replace, "NAME" to unset
  std::filesystem::path directory = {};       // to run in; empty: ours
  std::string input = {};                     // its standard input (at most 64 KiB), then EOF
  std::filesystem::path output_file = {};     // stdout goes to this file instead of `out`
  std::optional<uid_t> user = {};             // to run as, with the group of the same number
};

struct ProcessResult {
  int exit_code = -1;      // -1: ended by a signal
  int signal = 0;          // the signal that ended it, or 0
  bool timed_out = false;  // the deadline passed and it was killed
  std::string out;
  std::string err;
  Duration elapsed{0};
  long max_rss_kib = 0;  // its largest resident set

  // Everything, for a failed assertion's message.
  [[nodiscard]] std::string describe() const;
};

// A program that runs beside the test. It gets a process group of its own, which is killed at the
// end of this object's life, and it dies with the thread that started it (PR_SET_PDEATHSIG).
// One thread uses the object.
class BackgroundProcess {
 public:
  // `argv[0]` is looked up in PATH. Throws when it cannot be started.
  explicit BackgroundProcess(const std::vector<std::string>& argv,
                             const ProcessOptions& options = {});
  BackgroundProcess(const BackgroundProcess&) = delete;
  BackgroundProcess& operator=(const BackgroundProcess&) = delete;
  ~BackgroundProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running();
  // To the process alone, not to its group. Nothing happens when it has ended.
  void signal(int number);
  // Waits for its end and kills it when the deadline passes.
  ProcessResult wait(Duration deadline = kProcessDeadline);
  // Waits until stdout (or stderr) has `text`; false when it ended or the deadline passed first.
  bool wait_for_out(std::string_view text, Duration deadline = kProcessDeadline);
  bool wait_for_err(std::string_view text, Duration deadline = kProcessDeadline);
  [[nodiscard]] std::string out_so_far();
  [[nodiscard]] std::string err_so_far();

 private:
  // What one of its output descriptors has given so far.
  struct Capture {
    Fd fd;
    std::string text;
    bool ended = false;
  };

  void collect();
  bool wait_for(const Capture& capture, std::string_view text, Duration deadline);
  bool await_exit(Duration deadline);
  void reap();

  pid_t pid_ = -1;
  std::chrono::steady_clock::time_point started_;
  Fd pid_fd_;
  WakeFd stop_;
  std::mutex mutex_;  // guards the captures
  std::condition_variable grown_;
  Capture out_;
  Capture err_;
  std::optional<ProcessResult> result_;
  std::jthread collector_;
};

// Runs a program to its end.
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& argv,
                                        const ProcessOptions& options = {},
                                        Duration deadline = kProcessDeadline);

// Calls `condition` until it holds; false when the deadline passed first.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition, Duration deadline = Duration{5'000}) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(Duration{10});
  }
  return true;
}

}  // namespace vtrace::test
