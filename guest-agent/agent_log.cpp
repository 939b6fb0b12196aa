#include "guest-agent/agent_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/fd.h"

namespace vtrace {
namespace {

int priority(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return 3;
    case LogLevel::warning:
      return 4;
    case LogLevel::info:
      break;
  }
  return 6;
}

}  // namespace

AgentLog::AgentLog(int fd, bool journal, Clock clock)
    : fd_(fd), journal_(journal), clock_(std::move(clock)), refilled_(clock_()) {}

void AgentLog::line(LogLevel level, std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (!take_token()) {
    ++left_out_;
    return;
  }
  const std::uint64_t left_out = std::exchange(left_out_, 0);
  if (left_out > 0)
    write_line(LogLevel::warning, fmt::format("{} log lines were left out", left_out));
  write_line(level, text);
}

bool AgentLog::take_token() {
  const auto now = clock_();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - refilled_);
  if (seconds.count() > 0) {
    tokens_ = static_cast<int>(std::min<std::int64_t>(kBurst, tokens_ + seconds.count()));
    refilled_ += seconds;
  }
  if (tokens_ == 0) return false;
  --tokens_;
  return true;
}

void AgentLog::write_line(LogLevel level, std::string_view text) const {
  std::string line = journal_ ? fmt::format("<{}>", priority(level)) : "virtio-trace-agent: ";
  // A line stays a line, whatever a kernel's message or a peer's text holds.
  for (const char c : text) line += c == '\n' || c == '\r' ? ' ' : c;
  line += '\n';
  // A log that cannot be written is nobody's fault that could be told anywhere.
  (void)write_all(fd_, line, "log");
}

}  // namespace vtrace
