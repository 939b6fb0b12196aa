#include "tests/support/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <stdexcept>
#include <system_error>

#include "tests/support/must.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has no header for it

namespace vtrace::test {
namespace {

using Clock = std::chrono::steady_clock;

// After its end, how long to wait for output that a grandchild may hold open for ever.
constexpr Duration kLastOutput{300};

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::system_category(), what);
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& change : changes) {
    const auto equals = change.find('=');
    if (equals == std::string::npos) {
      variables.erase(change);
    } else {
      variables[change.substr(0, equals)] = change.substr(equals + 1);
    }
  }
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables)
    environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

std::vector<char*> c_strings(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// What the child needs, prepared before fork: after it only async-signal-safe calls are allowed.
struct Launch {
  std::vector<char*> argv;
  std::vector<char*> envp;
  const char* directory;
  std::optional<uid_t> user;
  int input;
  int output;
  int error;
  int report;  // takes errno when exec fails; closed by exec
  pid_t parent;
};

[[noreturn]] void become(const Launch& launch) {
  ::setpgid(0, 0);
  const bool ready =
      ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::getppid() == launch.parent &&
      ::dup2(launch.input, STDIN_FILENO) >= 0 && ::dup2(launch.output, STDOUT_FILENO) >= 0 &&
      ::dup2(launch.error, STDERR_FILENO) >= 0 &&
      (launch.directory == nullptr || ::chdir(launch.directory) == 0) &&
      (!launch.user || (::setgroups(0, nullptr) == 0 && ::setgid(*launch.user) == 0 &&
                        ::setuid(*launch.user) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0));
  if (ready) {
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvpe(launch.argv[0], launch.argv.data(), launch.envp.data());
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(launch.report, &error, sizeof error);
  ::_exit(127);
}

int remaining_ms(Clock::time_point end) {
  const auto left = std::chrono::ceil<Duration>(end - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

}  // namespace

std::string ProcessResult::describe() const {
  return fmt::format("exit code {}, signal {}{}, after {} ms\n--- stdout\n{}\n--- stderr\n{}\n",
                     exit_code, signal, timed_out ? ", timed out" : "", elapsed.count(), out, err);
}

BackgroundProcess::BackgroundProcess(const std::vector<std::string>& argv,
                                     const ProcessOptions& options)
    : started_(Clock::now()), stop_(must(WakeFd::create())) {
  if (argv.empty()) throw std::invalid_argument("a program to run needs a name");
  Pipe input = must(make_pipe(64U << 10U));
  Pipe output = must(make_pipe());
  Pipe error = must(make_pipe());
  Pipe report = must(make_pipe());
  Fd file;
  if (!options.output_file.empty())
    file = must(open_fd(options.output_file.string(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  if (options.input.size() > (64U << 10U)) throw std::invalid_argument("input beyond 64 KiB");
  must(write_all(input.write.get(), options.input, "standard input"));
  input.write.reset();

  std::vector<std::string> arguments = argv;
  std::vector<std::string> environment = merged_environment(options.environment);
  const std::string directory = options.directory.string();
  const Launch launch{.argv = c_strings(arguments),
                      .envp = c_strings(environment),
                      .directory = directory.empty() ? nullptr : directory.c_str(),
                      .user = options.user,
                      .input = input.read.get(),
                      .output = file ? file.get() : output.write.get(),
                      .error = error.write.get(),
                      .report = report.write.get(),
                      .parent = ::getpid()};
  pid_ = ::fork();
  if (pid_ == 0) become(launch);
  if (pid_ < 0) throw_errno("fork");
  ::setpgid(pid_, pid_);  // both sides do it, so that neither is too early
  report.write.reset();
  output.write.reset();
  error.write.reset();
  int failure = 0;
  if (::read(report.read.get(), &failure, sizeof failure) == sizeof failure) {
    ::waitpid(pid_, nullptr, 0);
    errno = failure;
    throw_errno(argv[0]);
  }
  pid_fd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!pid_fd_) throw_errno("pidfd_open");
  out_.fd = std::move(output.read);
  err_.fd = std::move(error.read);
  collector_ = std::jthread([this] { collect(); });
}

BackgroundProcess::~BackgroundProcess() {
  if (!result_) {
    ::kill(-pid_, SIGKILL);
    await_exit(Duration{-1});
    reap();
  }
}

// Runs in collector_: takes output as it comes, so that the program never blocks on us.
void BackgroundProcess::collect() {
  std::array<char, 65536> buffer{};
  while (!out_.ended || !err_.ended) {
    std::array<pollfd, 3> fds{pollfd{out_.ended ? -1 : out_.fd.get(), POLLIN, 0},
                              pollfd{err_.ended ? -1 : err_.fd.get(), POLLIN, 0},
                              pollfd{stop_.get(), POLLIN, 0}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[2].revents != 0) return;
    for (Capture* capture : {&out_, &err_}) {
      if (fds.at(capture == &out_ ? 0 : 1).revents == 0) continue;
      const ssize_t count = ::read(capture->fd.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      const std::scoped_lock lock(mutex_);
      if (count > 0) {
        capture->text.append(buffer.data(), static_cast<std::size_t>(count));
      } else {
        capture->ended = true;
      }
      grown_.notify_all();
    }
  }
}

bool BackgroundProcess::await_exit(Duration deadline) {
  const auto end = Clock::now() + deadline;
  while (true) {
    pollfd exited{pid_fd_.get(), POLLIN, 0};
    const int ready = ::poll(&exited, 1, deadline.count() < 0 ? -1 : remaining_ms(end));
    if (ready > 0) return true;
    if (ready == 0) return false;
  }
}

bool BackgroundProcess::running() {
  return !result_ && !await_exit(Duration{0});
}

void BackgroundProcess::signal(int number) {
  // Not reaped yet, so the number is still this process's own.
  if (!result_) ::kill(pid_, number);
}

// Takes the exit status of the ended process and stops the collector.
void BackgroundProcess::reap() {
  int status = 0;
  rusage usage{};
  while (::wait4(pid_, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  const auto elapsed = std::chrono::duration_cast<Duration>(Clock::now() - started_);
  {
    std::unique_lock lock(mutex_);
    grown_.wait_for(lock, kLastOutput, [this] { return out_.ended && err_.ended; });
  }
  stop_.signal();
  collector_.join();
  ::kill(-pid_, SIGKILL);  // whatever it left in its group
  result_ = ProcessResult{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                          .out = out_.text,
                          .err = err_.text,
                          .elapsed = elapsed,
                          .max_rss_kib = usage.ru_maxrss};
}

ProcessResult BackgroundProcess::wait(Duration deadline) {
  if (result_) return *result_;
  const bool in_time = await_exit(deadline);
  if (!in_time) {
    ::kill(-pid_, SIGKILL);
    await_exit(Duration{-1});
  }
  reap();
  result_->timed_out = !in_time;
  return *result_;
}

bool BackgroundProcess::wait_for(const Capture& capture, std::string_view text, Duration deadline) {
  std::unique_lock lock(mutex_);
  grown_.wait_for(lock, deadline,
                  [&] { return capture.ended || capture.text.find(text) != std::string::npos; });
  return capture.text.find(text) != std::string::npos;
}

bool BackgroundProcess::wait_for_out(std::string_view text, Duration deadline) {
  return wait_for(out_, text, deadline);
}

bool BackgroundProcess::wait_for_err(std::string_view text, Duration deadline) {
  return wait_for(err_, text, deadline);
}

std::string BackgroundProcess::out_so_far() {
  const std::scoped_lock lock(mutex_);
  return out_.text;
}

std::string BackgroundProcess::err_so_far() {
  const std::scoped_lock lock(mutex_);
  return err_.text;
}

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options,
                          Duration deadline) {
  return BackgroundProcess(argv, options).wait(deadline);
}

}  // namespace vtrace::test
