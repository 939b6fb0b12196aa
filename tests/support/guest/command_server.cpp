// vtrace-command-server TTY: runs the test harness's shell commands in the guest.
//
// It talks over a serial line of its own, so that the virtio-serial ports, which are what is
// tested, carry nothing of it. One line a message, payloads in base64, so that the other side finds
// the next message after a reset that cut one short. Harness to guest:
//
//   run ID SCRIPT-IN-BASE64      start /bin/sh -c SCRIPT; ID is the harness's own number; several
//   may run at once kill ID SIGNAL               to that script's process group
//
// Guest to harness:
//
//   vtc ready BOOT-ID            once, when it starts
//   vtc out ID BASE64            some of the script's stdout; `err` likewise
//   vtc exit ID STATUS           it ended: exit status, or 128 + the signal's number
//   vtc bad ID                   a line that was not understood, or a script that could not be
//   started
//
// A script ends with its shell: what its background children print later is not waited for, so they
// redirect.

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base64.h"

namespace {

using vtrace::test::from_base64;
using vtrace::test::to_base64;

struct Stream {
  int fd = -1;
  const char* name = "";
};

struct Job {
  int id = 0;
  pid_t pid = -1;
  Stream out;
  Stream err;
};

class CommandServer {
 public:
  explicit CommandServer(int tty) : tty_(tty) {}

  int serve();

 private:
  void send(const std::string& line) const;
  void read_tty();
  void handle(const std::string& line);
  void run(int id, const std::string& script);
  // Sends on what is there to read, at most a few KiB at a time so that no script keeps the others
  // waiting; closes the stream at its end. False when there is nothing more.
  bool forward(int id, Stream& stream) const;
  void reap();

  int tty_;
  std::string pending_;
  std::vector<Job> jobs_;
};

void CommandServer::send(const std::string& line) const {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(tty_, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) {
      return;
    }
    rest.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

int CommandServer::serve() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  // The empty line first ends whatever an earlier server, or the firmware, left unfinished.
  send("\nvtc ready " + boot_id + "\n");
  while (true) {
    std::vector<pollfd> fds{{.fd = tty_, .events = POLLIN, .revents = 0}};
    for (const Job& job : jobs_) {
      fds.push_back({.fd = job.out.fd, .events = POLLIN, .revents = 0});  // fd -1 is passed over
      fds.push_back({.fd = job.err.fd, .events = POLLIN, .revents = 0});
    }
    // The end of a child raises no event here: SIGCHLD interrupts the poll, and the timeout covers
    // the moment between reap() and poll.
    ::poll(fds.data(), fds.size(), jobs_.empty() ? -1 : 50);
    for (Job& job : jobs_) {
      forward(job.id, job.out);
      forward(job.id, job.err);
    }
    reap();
    if ((fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      return 1;
    }
    if ((fds[0].revents & POLLIN) != 0) {
      read_tty();
    }
  }
}

void CommandServer::read_tty() {
  char buffer[4096];
  const ssize_t count = ::read(tty_, buffer, sizeof buffer);
  if (count > 0) {
    pending_.append(buffer, static_cast<std::size_t>(count));
  }
  for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
    const std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    if (!line.empty()) {
      handle(line);
    }
  }
}

void CommandServer::handle(const std::string& line) {
  std::istringstream words{line};
  std::string verb;
  std::string argument;
  int id = 0;
  words >> verb >> id >> argument;
  if (verb == "run" && words) {
    if (const auto script = from_base64(argument)) {
      run(id, *script);
      return;
    }
  }
  if (verb == "kill" && words) {
    for (const Job& job : jobs_) {
      if (job.id == id) {
        ::kill(-job.pid, std::atoi(argument.c_str()));
      }
    }
    return;
  }
  send("vtc bad " + std::to_string(id) + "\n");
}

void CommandServer::run(int id, const std::string& script) {
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) {
    send("vtc bad " + std::to_string(id) + "\n");
    return;
  }
  if (::pipe2(err, O_CLOEXEC) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    send("vtc bad " + std::to_string(id) + "\n");
    return;
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::signal(SIGCHLD, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  ::fcntl(out[0], F_SETFL, O_NONBLOCK);
  ::fcntl(err[0], F_SETFL, O_NONBLOCK);
  if (pid < 0) {
    ::close(out[0]);
    ::close(err[0]);
    send("vtc bad " + std::to_string(id) + "\n");
    return;
  }
  jobs_.push_back({.id = id, .pid = pid, .out = {out[0], "out"}, .err = {err[0], "err"}});
}

bool CommandServer::forward(int id, Stream& stream) const {
  if (stream.fd < 0) return false;
  char buffer[3072];
  const ssize_t count = ::read(stream.fd, buffer, sizeof buffer);
  if (count > 0) {
    const std::string_view data{buffer, static_cast<std::size_t>(count)};
    send(std::string("vtc ") + stream.name + " " + std::to_string(id) + " " + to_base64(data) +
         "\n");
    return true;
  }
  if (count == 0) {
    ::close(stream.fd);
    stream.fd = -1;
    return false;
  }
  return errno == EINTR;
}

void CommandServer::reap() {
  for (Job& job : jobs_) {
    int status = 0;
    if (::waitpid(job.pid, &status, WNOHANG) != job.pid) {
      continue;
    }
    for (Stream* stream : {&job.out, &job.err}) {
      // A pipe holds 64 KiB; what a background child prints for ever is not waited for.
      for (int i = 0; i < 24 && forward(job.id, *stream); ++i) {
      }
      if (stream->fd >= 0) {
        ::close(stream->fd);
      }
    }
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    send("vtc exit " + std::to_string(job.id) + " " + std::to_string(code) + "\n");
    job.pid = -1;
  }
  std::erase_if(jobs_, [](const Job& job) { return job.pid < 0; });
}

int open_tty(const char* path) {
  const int fd = ::open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios settings{};
  if (fd < 0 || ::tcgetattr(fd, &settings) != 0) {
    return -1;
  }
  ::cfmakeraw(&settings);
  ::cfsetspeed(&settings, B115200);
  settings.c_cflag |= CLOCAL | CREAD;
  ::tcsetattr(fd, TCSANOW, &settings);
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  const int tty = argc == 2 ? open_tty(argv[1]) : -1;
  if (tty < 0) {
    std::fprintf(stderr, "vtrace-command-server: %s: no serial line\n",
                 argc == 2 ? argv[1] : "usage: TTY");
    return 1;
  }
  // Ahead of whatever load a test makes; the scripts themselves run as ordinary tasks.
  const sched_param priority{.sched_priority = 1};
  ::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
  struct sigaction interrupt{};
  interrupt.sa_handler = [](int) {};
  ::sigaction(SIGCHLD, &interrupt, nullptr);
  ::setenv("PATH", "/bin:/sbin", 1);
  ::setenv("HOME", "/", 1);
  ::setenv("TRACEFS", "/sys/kernel/tracing", 1);  // init has mounted it
  return CommandServer{tty}.serve();
}
