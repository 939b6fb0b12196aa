#include "tests/support/qmp.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include "tests/support/must.h"

namespace vtrace::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kAnswerDeadline{10};

}  // namespace

Fd connect_unix(const std::string& path, std::chrono::milliseconds deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw std::runtime_error(fmt::format("{}: too long for a socket", path));
  path.copy(address.sun_path, path.size());
  const auto end = Clock::now() + deadline;
  while (true) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) throw std::runtime_error(fmt::format("{}: {}", path, errno_text(errno)));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return socket;
    const int error = errno;
    if (Clock::now() >= end)
      throw std::runtime_error(fmt::format("{}: cannot connect: {}", path, errno_text(error)));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

QmpClient::QmpClient(const std::string& path, std::chrono::milliseconds deadline)
    : socket_(connect_unix(path, deadline)) {
  if (!next_message(Clock::now() + kAnswerDeadline).contains("QMP"))
    throw std::runtime_error(fmt::format("{}: no QMP greeting", path));
  command("qmp_capabilities");
}

nlohmann::json QmpClient::command(const std::string& name, const nlohmann::json& arguments) {
  const std::string order =
      nlohmann::json{{"execute", name}, {"arguments", arguments}}.dump() + "\n";
  must(write_all(socket_.get(), order, "QMP socket"));
  const auto end = Clock::now() + kAnswerDeadline;
  while (true) {
    nlohmann::json message = next_message(end);
    if (message.contains("return")) return message["return"];
    if (message.contains("error"))
      throw std::runtime_error(fmt::format("QMP {}: {}", name, message["error"].dump()));
    if (message.contains("event")) events_.push_back(std::move(message));
  }
}

nlohmann::json QmpClient::next_message(Clock::time_point end) {
  while (true) {
    if (const auto line = pending_.find('\n'); line != std::string::npos) {
      const std::string text = pending_.substr(0, line);
      pending_.erase(0, line + 1);
      return nlohmann::json::parse(text);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd readable{socket_.get(), POLLIN, 0};
    const int ready = left > 0 ? ::poll(&readable, 1, static_cast<int>(left)) : 0;
    if (ready == 0) throw std::runtime_error("QMP: no answer");
    if (ready < 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(socket_.get(), buffer.data(), buffer.size());
    if (count <= 0) throw std::runtime_error("QMP: the connection ended");
    pending_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace vtrace::test
