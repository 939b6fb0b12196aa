// in-guest: the runner of the tests that need a kernel of their own. ctest boots a guest by `keep`
// before the first of them, runs each by `run`, and ends the guest by `end`.
//
//   in-guest keep KERNEL FILE...             boots a guest that has the FILEs at their paths here,
//                                            and returns when it is up. It stays until `end`, or
//                                            until the program that called this one has ended.
//   in-guest run KERNEL PROGRAM [ARG]...     runs PROGRAM in it; its output and exit code
//   in-guest end KERNEL
//
// The list of a test binary's tests (--gtest_list_tests) needs no guest.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "tests/support/must.h"
#include "tests/support/process.h"
#include "tests/support/shared_guest.h"

namespace {

using namespace vtrace;
using namespace vtrace::test;
namespace fs = std::filesystem;

const fs::path kDirectory = fs::path(VTRACE_BINARY_DIR) / "in-guest";

// Programs of the test run in memory: their tmpfs may take half of it.
constexpr int kMemoryMib = 2048;

Fd pidfd_of(pid_t pid) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) throw std::runtime_error("pidfd_open: " + errno_text(errno));
  return fd;
}

// Readable when a signal asks us to end, or when the process behind `caller` has ended.
class EndSigns {
 public:
  explicit EndSigns(Fd caller) {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
    if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) throw std::runtime_error("sigmask");
    signals_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC));
    // Nor does it end us that nobody takes an answer any more.
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    caller_ = std::move(caller);
    epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
    for (const int fd : {signals_.get(), caller_.get()}) {
      epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
      if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw std::runtime_error("epoll_ctl: " + errno_text(errno));
    }
  }
  [[nodiscard]] int get() const { return epoll_.get(); }

 private:
  Fd signals_;
  Fd caller_;
  Fd epoll_;
};

void make_archive(const std::string& archive, const std::vector<std::string>& files) {
  std::vector<std::string> argv = {VTRACE_SOURCE_DIR "/tests/support/guest/make-archive.sh",
                                   archive};
  argv.insert(argv.end(), files.begin(), files.end());
  const ProcessResult made = run_process(argv, {}, std::chrono::minutes(2));
  if (made.exit_code != 0) throw std::runtime_error(made.err);
}

// Keeps the guest: the body of a process that outlives the command. Writes one byte when it is up.
void keep(const std::string& kernel, const std::vector<std::string>& files, Fd caller, Fd up) {
  const EndSigns end(std::move(caller));
  const std::string archive = kernel + ".cpio.gz";
  make_archive(archive, files);
  SharedGuest guest({.kernel = kernel,
                     .cpus = 2,
                     .memory_mib = kMemoryMib,
                     .kernel_args = {"vtrace.agent=off"},
                     .archives = {archive}},
                    kernel + ".socket");
  must(write_all(up.get(), "+", "keeper"));
  up.reset();
  const Fd asker = guest.serve(end.get());
  // `asker` sees the end of its connection when all is gone: it is closed the last.
}

// Everything that the keeper prints goes to a log, so that nobody waits for it on our stdout.
[[noreturn]] void become_keeper(const std::string& kernel, const std::vector<std::string>& files,
                                Fd caller, Fd up, int log) {
  ::setsid();
  const Fd null = must(open_fd("/dev/null", O_RDONLY));
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  int code = 0;
  try {
    keep(kernel, files, std::move(caller), std::move(up));
  } catch (const std::exception& error) {
    fmt::print(stderr, "in-guest: {}\n", error.what());
    code = 1;
  }
  (void)std::fflush(stdout);
  std::_Exit(code);
}

int start_keeper(const std::string& kernel, const std::vector<std::string>& files) {
  end_shared_guest(kernel + ".socket");  // of a ctest that was killed
  Fd caller = pidfd_of(::getppid());
  Pipe up = must(make_pipe());
  const std::string log_name = kernel + ".log";
  const Fd log = must(open_fd(log_name, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644));
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork: " + errno_text(errno));
  if (pid == 0) {
    up.read.reset();
    become_keeper(kernel, files, std::move(caller), std::move(up.write), log.get());
  }
  up.write.reset();
  const bool is_up = !must(read_to_end(up.read.get(), "keeper")).empty();
  fmt::print("{}", must(read_file(log_name)));
  return is_up ? 0 : 1;
}

int run(const std::string& kernel, const std::vector<std::string>& argv) {
  const auto answer = run_in_shared_guest(kernel + ".socket", argv);
  if (!answer) {
    fmt::print(stderr, "in-guest: {}: run it through ctest, which boots the guest\n",
               answer.error().message);
    return 1;
  }
  fmt::print("{}", answer->text);
  return answer->exit_code;
}

int usage() {
  fmt::print(stderr,
             "usage: in-guest keep KERNEL FILE... | run KERNEL PROGRAM [ARG]... | end KERNEL\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 2) return usage();
  const std::vector<std::string> rest(words.begin() + 2, words.end());
  if (words[0] == "run" && std::ranges::find(rest, "--gtest_list_tests") != rest.end()) {
    ::execv(argv[3], argv + 3);
    fmt::print(stderr, "in-guest: {}: {}\n", argv[3], errno_text(errno));
    return 1;
  }
  try {
    // Names of sockets are short: they are relative to here.
    fs::create_directories(kDirectory);
    fs::current_path(kDirectory);
    if (words[0] == "keep" && !rest.empty()) return start_keeper(words[1], rest);
    if (words[0] == "run" && !rest.empty()) return run(words[1], rest);
    if (words[0] == "end" && rest.empty()) {
      end_shared_guest(words[1] + ".socket");
      return 0;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "in-guest: {}\n", error.what());
    return 1;
  }
  return usage();
}
