// A client of QEMU's machine protocol (QMP), as much of it as tests need.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/fd.h"

namespace vtrace::test {

// Connects to a unix socket that may not be there yet; throws when the deadline passes first.
[[nodiscard]] Fd connect_unix(const std::string& path, std::chrono::milliseconds deadline);

class QmpClient {
 public:
  // Connects and leaves negotiation mode. Throws when that fails.
  QmpClient(const std::string& path, std::chrono::milliseconds deadline);

  // Sends a command and returns its "return" value; throws with QEMU's words when it is refused or
  // does not answer within 10 s. Events that arrive meanwhile are kept.
  nlohmann::json command(const std::string& name,
                         const nlohmann::json& arguments = nlohmann::json::object());
  // The events so far, oldest first.
  [[nodiscard]] const std::vector<nlohmann::json>& events() const { return events_; }

 private:
  nlohmann::json next_message(std::chrono::steady_clock::time_point end);

  Fd socket_;
  std::string pending_;
  std::vector<nlohmann::json> events_;
};

}  // namespace vtrace::test
