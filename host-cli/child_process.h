// Runs programs: argv, no shell.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

namespace vtrace {

struct ChildOptions {
  bool capture_output = false;  // stdout is read by output(), instead of being ours
  bool to_stderr = false;       // stdout goes to our stderr
  bool own_group = false;       // a terminal's Ctrl-C does not reach it
  std::string error_file = {};  // stderr goes there (appended); empty: ours
};

// A child that is killed when this object goes, and when the thread that started it dies. One
// thread uses the object.
class ChildProcess {
 public:
  // `argv[0]` is looked up in PATH; one that cannot be run is an error that names it.
  [[nodiscard]] static Result<ChildProcess> start(const std::vector<std::string>& argv,
                                                  const ChildOptions& options);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  // Readable when it has ended.
  [[nodiscard]] int exit_fd() const { return exit_fd_.get(); }
  void signal(int number) const;
  // Waits for its end: the exit code, or 128 and the signal's number.
  [[nodiscard]] int wait();
  // What it wrote to a captured stdout, to its end.
  [[nodiscard]] Result<std::string> output();
  // The captured stdout, to be read in pieces.
  [[nodiscard]] int output_fd() const { return output_.get(); }
  // Stops reading: a child that writes on gets EPIPE.
  void close_output() { output_.reset(); }

 private:
  ChildProcess(pid_t pid, Fd exit_fd, Fd output)
      : pid_(pid), exit_fd_(std::move(exit_fd)), output_(std::move(output)) {}

  pid_t pid_;
  Fd exit_fd_;
  Fd output_;
};

}  // namespace vtrace
