#include "host-cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace vtrace {
namespace {

struct ChildEnds {
  int output = -1;  // becomes stdout
  int error = -1;   // becomes stderr
  int report = -1;  // gets errno when the program cannot be run
};

// In the child, between fork and exec: system calls alone.
[[noreturn]] void run_child(char* const* argv, const ChildOptions& options, const ChildEnds& ends,
                            pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (options.own_group) ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (options.to_stderr) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  if (ends.output >= 0) ::dup2(ends.output, STDOUT_FILENO);
  if (ends.error >= 0) ::dup2(ends.error, STDERR_FILENO);
  ::execvp(argv[0], argv);
  const int error = errno;
  (void)!::write(ends.report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& argv,
                                         const ChildOptions& options) {
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  Pipe output;
  if (options.capture_output) {
    VTRACE_TRY(output, make_pipe());
  }
  Fd error_file;
  if (!options.error_file.empty()) {
    VTRACE_TRY(error_file, open_fd(options.error_file, O_WRONLY | O_CREAT | O_APPEND, 0600));
  }
  VTRACE_TRY(Pipe report, make_pipe());
  const ChildEnds ends{output.write.get(), error_file.get(), report.write.get()};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork", errno);
  if (pid == 0) run_child(words.data(), options, ends, parent);

  Fd exit_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  ChildProcess child(pid, std::move(exit_fd), std::move(output.read));
  report.write.reset();
  int error = 0;
  // The write end goes with a successful exec.
  if (::read(report.read.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    (void)child.wait();
    return fail_errno(fmt::format("{}: cannot be run", argv[0]), error);
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_fd_(std::move(other.exit_fd_)),
      output_(std::move(other.output_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  (void)wait();
}

void ChildProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

int ChildProcess::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Result<std::string> ChildProcess::output() {
  return read_to_end(output_.get(), "pipe");
}

}  // namespace vtrace
