#include "tests/support/legacy_agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>

#include "tests/support/must.h"

namespace vtrace::test {

LegacyAgent::LegacyAgent(const std::string& directory, int cpus)
    : control_(must(open_fd(directory + "/agent-ctl-path.in", O_RDWR | O_NONBLOCK))) {
  for (int cpu = 0; cpu < cpus; ++cpu) {
    data_.push_back(
        must(open_fd(fmt::format("{}/trace-path-cpu{}.out", directory, cpu), O_RDWR | O_NONBLOCK)));
  }
  orders_ = std::jthread([this](const std::stop_token& stop) { obey(stop); });
  sender_ = std::jthread([this](const std::stop_token& stop) { send(stop); });
}

void LegacyAgent::obey(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd waiting{control_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 20) <= 0) continue;
    std::array<char, 256> order{};
    const ssize_t got = ::read(control_.get(), order.data(), order.size());
    if (got != 2) continue;
    if (order[0] == '1') {
      running_ = true;
      ++starts_;
    } else if (order[0] == '0') {
      running_ = false;
      ++stops_;
    }
  }
}

void LegacyAgent::send(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    ::poll(nullptr, 0, 5);
    if (!running_) continue;
    for (std::size_t cpu = 0; cpu < data_.size(); ++cpu) {
      std::array<unsigned char, 4096> subbuf{};
      subbuf.fill(static_cast<unsigned char>(cpu + 1));
      const ssize_t put = ::write(data_[cpu].get(), subbuf.data(), subbuf.size());
      if (put > 0) sent_ += static_cast<std::uint64_t>(put);
    }
  }
}

}  // namespace vtrace::test
