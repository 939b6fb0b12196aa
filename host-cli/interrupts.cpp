#include "host-cli/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace vtrace {
namespace {

sigset_t our_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Result<Interrupts> Interrupts::create() {
  const sigset_t set = our_signals();
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0)
    return fail_errno("pthread_sigmask", error);
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno("signalfd", errno);
  return Interrupts(std::move(fd));
}

Interrupts::~Interrupts() {
  if (!fd_) return;
  count();  // a signal already dealt with must not strike when unblocked
  const sigset_t set = our_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int Interrupts::count() {
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) ++count_;
  return count_;
}

}  // namespace vtrace
