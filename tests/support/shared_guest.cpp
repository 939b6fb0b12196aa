#include "tests/support/shared_guest.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>

#include "tests/support/must.h"
#include "tests/support/qmp.h"

namespace vtrace::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Duration kTick = 100ms;

Fd listen_at(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) throw std::invalid_argument(name + ": too long");
  name.copy(address.sun_path, name.size());
  fs::remove(path);
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 8) != 0)
    throw std::runtime_error(fmt::format("{}: {}", name, errno_text(errno)));
  return socket;
}

std::vector<std::string> words_of(const std::string& request) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < request.size();) {
    const std::size_t end = std::min(request.find('\0', at), request.size());
    words.push_back(request.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string request_of(const std::vector<std::string>& words) {
  std::string request;
  for (const std::string& word : words) request += word + '\0';
  return request;
}

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += R"('\'')";
    else
      quoted += c;
  }
  return quoted + "'";
}

bool ready(int fd, short events) {
  pollfd wait{fd, events, 0};
  return ::poll(&wait, 1, 0) > 0;
}

}  // namespace

SharedGuest::SharedGuest(GuestConfig config, const fs::path& socket)
    : config_(std::move(config)), socket_(socket) {
  (void)guest();
  listener_ = listen_at(socket_);
}

SharedGuest::~SharedGuest() {
  std::error_code ignored;
  fs::remove(socket_, ignored);
}

GuestVm& SharedGuest::guest() {
  if (!guest_) guest_ = std::make_unique<GuestVm>(config_);
  return *guest_;
}

GuestAnswer SharedGuest::run(const std::vector<std::string>& words, int client, int stop) {
  std::string script = "exec run-checked";
  for (std::size_t i = 1; i < words.size(); ++i) script += " " + shell_quoted(words[i]);
  try {
    const int id = guest().start(script + " 2>&1");
    // The asking process has shut its own side down, so a hangup means that it has ended.
    while (!guest_->finishes_within(id, kTick)) {
      if (!ready(client, 0) && !ready(stop, POLLIN)) continue;
      guest_.reset();
      return {};
    }
    const CommandResult result = guest_->finish(id);
    return {result.exit_code, result.out};
  } catch (const std::exception& error) {
    guest_.reset();
    return {1, fmt::format("{}\n", error.what())};
  }
}

Fd SharedGuest::serve(int stop) {
  for (;;) {
    std::array<pollfd, 2> fds{pollfd{listener_.get(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return {};
    if (fds[1].revents != 0) return {};
    if (fds[0].revents == 0) continue;
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) continue;
    const auto request = read_to_end(client.get(), "request");
    if (!request) continue;
    const std::vector<std::string> words = words_of(*request);
    if (words.size() == 1 && words[0] == "end") return client;
    if (words.size() < 2 || words[0] != "run") continue;
    const GuestAnswer answer = run(words, client.get(), stop);
    (void)write_all(client.get(), fmt::format("{}\n{}", answer.exit_code, answer.text), "answer");
  }
}

Result<GuestAnswer> run_in_shared_guest(const fs::path& socket,
                                        const std::vector<std::string>& argv) {
  Fd keeper;
  try {
    keeper = connect_unix(socket.string(), 0ms);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  std::vector<std::string> words = {"run"};
  words.insert(words.end(), argv.begin(), argv.end());
  VTRACE_CHECK(write_all(keeper.get(), request_of(words), "request"));
  ::shutdown(keeper.get(), SHUT_WR);
  VTRACE_TRY(const std::string text, read_to_end(keeper.get(), "answer"));
  GuestAnswer answer;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), answer.exit_code);
  if (error != std::errc() || end == text.data() + text.size() || *end != '\n')
    return fail("the guest's keeper ended during the test");
  answer.text = text.substr(static_cast<std::size_t>(end - text.data()) + 1);
  return answer;
}

void end_shared_guest(const fs::path& socket) {
  if (!fs::exists(socket)) return;
  Fd keeper;
  try {
    keeper = connect_unix(socket.string(), 0ms);
  } catch (const std::exception&) {
    return;  // a socket that a killed keeper has left
  }
  if (!write_all(keeper.get(), request_of({"end"}), "request")) return;
  ::shutdown(keeper.get(), SHUT_WR);
  (void)read_to_end(keeper.get(), "answer");
}

}  // namespace vtrace::test
