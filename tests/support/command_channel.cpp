#include "tests/support/command_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <stdexcept>

#include "tests/support/guest/base64.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

// The guest's line discipline holds 4095 bytes, and drops what comes beyond.
constexpr std::size_t kMaxScript = 2048;

}  // namespace

std::string CommandResult::describe() const {
  return fmt::format("in the guest: exit code {}\n--- stdout\n{}\n--- stderr\n{}\n", exit_code, out,
                     err);
}

CommandChannel::CommandChannel(Fd socket) : socket_(std::move(socket)) {}

int CommandChannel::start(std::string_view script) {
  if (script.size() > kMaxScript) throw std::invalid_argument("a guest script beyond 2 KiB");
  const int id = next_id_++;
  jobs_[id].boot = ready_count_;
  must(write_all(socket_.get(), fmt::format("run {} {}\n", id, to_base64(script)), "guest"));
  return id;
}

void CommandChannel::kill(int id, int signal) {
  must(write_all(socket_.get(), fmt::format("kill {} {}\n", id, signal), "guest"));
}

void CommandChannel::poll_for(std::chrono::milliseconds timeout) {
  pollfd readable{socket_.get(), POLLIN, 0};
  if (::poll(&readable, 1, static_cast<int>(timeout.count())) <= 0) return;
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(socket_.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return;
  if (count <= 0) throw std::runtime_error("the guest's serial line ended: QEMU is gone");
  pending_.append(buffer.data(), static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    handle(pending_.substr(begin, end - begin));
  pending_.erase(0, begin);
}

void CommandChannel::handle(const std::string& line) {
  std::istringstream words(line);
  std::string mark;
  std::string verb;
  words >> mark >> verb;
  if (mark != "vtc") return;  // what a reset cut short, or the firmware
  if (verb == "ready") {
    words >> boot_id_;
    ++ready_count_;
    return;
  }
  int id = 0;
  std::string value;
  words >> id >> value;
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (verb == "out" || verb == "err") {
    const auto text = from_base64(value);
    if (!text)
      throw std::runtime_error(fmt::format("the guest's serial line is garbled: {}", line));
    (verb == "out" ? job.result.out : job.result.err) += *text;
  } else if (verb == "exit") {
    job.result.exit_code = std::stoi(value);
    job.finished = true;
  } else if (verb == "bad") {
    throw std::runtime_error(fmt::format("the guest did not understand command {}", id));
  }
}

const CommandChannel::Job& CommandChannel::job(int id) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) throw std::logic_error(fmt::format("no guest command {}", id));
  return found->second;
}

bool CommandChannel::finished(int id) const {
  if (!job(id).finished && job(id).boot != ready_count_)
    throw std::runtime_error("the guest was booted anew while it ran a command");
  return job(id).finished;
}

const CommandResult& CommandChannel::result(int id) const {
  return job(id).result;
}

}  // namespace vtrace::test
