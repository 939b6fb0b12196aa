// The agent's log: one line each on a descriptor, for a terminal or for systemd's journal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace vtrace {

enum class LogLevel { error, warning, info };

// Where lines go. Any thread may write.
class AgentLog {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // `fd` is borrowed. `journal` puts the priority of syslog ("<4>") before each line, which systemd
  // takes off again.
  AgentLog(int fd, bool journal, Clock clock = std::chrono::steady_clock::now);

  // At most kBurst lines at once and one a second after that; how many were left out is said by the
  // next line that comes through.
  void line(LogLevel level, std::string_view text);
  void info(std::string_view text) { line(LogLevel::info, text); }
  void warning(std::string_view text) { line(LogLevel::warning, text); }
  void error(std::string_view text) { line(LogLevel::error, text); }

  static constexpr int kBurst = 40;

 private:
  bool take_token();
  void write_line(LogLevel level, std::string_view text) const;

  int fd_;
  bool journal_;
  Clock clock_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point refilled_;
  int tokens_ = kBurst;
  std::uint64_t left_out_ = 0;
};

}  // namespace vtrace
