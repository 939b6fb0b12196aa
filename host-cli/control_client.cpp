#include "host-cli/control_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <random>
#include <utility>

namespace vtrace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A hello can be lost: in a port that the agent has not opened yet, or in one that a reset emptied.
constexpr milliseconds kHelloInterval{500};
// What the metadata of a kernel with every driver and all symbols stays far below, unpacked.
constexpr std::uint64_t kMaxMetadataBytes = 512ULL << 20U;

Result<Metadata> unpack_metadata(const std::string& packed, std::uint64_t content_bytes) {
  if (content_bytes > kMaxMetadataBytes)
    return fail(fmt::format("metadata says it has {} bytes", content_bytes));
  Bytes content(content_bytes);
  const std::size_t got =
      ZSTD_decompress(content.data(), content.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0)
    return fail(fmt::format("metadata does not unpack: {}", ZSTD_getErrorName(got)));
  content.resize(got);
  return decode_metadata(content);
}

}  // namespace

ControlClient::ControlClient(ControlEndpoint endpoint, int cancel)
    : endpoint_(std::move(endpoint)), cancel_(cancel), next_id_(std::random_device{}() | 1U) {}

Status ControlClient::wait(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0)) return fail("no answer in time", ErrorKind::timeout);
    std::array<pollfd, 2> fds = {{{fd, events, 0}, {cancel_, POLLIN, 0}}};
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return fail_errno("poll", errno);
    if (ready <= 0) continue;
    if (fds[1].revents != 0) return fail("interrupted", ErrorKind::interrupted);
    return {};
  }
}

Status ControlClient::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(endpoint_.write.get(), bytes.data(), bytes.size());
    if (put > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
      continue;
    }
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EPIPE) {
      return fail(fmt::format("{}: nobody has it open any more: the guest is gone", endpoint_.name),
                  ErrorKind::no_peer);
    }
    if (put < 0 && errno != EAGAIN) return fail_errno(endpoint_.name, errno);
    if (auto ready = wait(endpoint_.write.get(), POLLOUT, deadline); !ready) {
      if (ready.error().kind != ErrorKind::timeout) return ready;
      return fail(fmt::format("{}: full, the guest takes no orders from it", endpoint_.name),
                  ErrorKind::timeout);
    }
  }
  return {};
}

Result<std::optional<Frame>> ControlClient::receive_any(Deadline deadline) {
  for (;;) {
    while (auto item = decoder_.next()) {
      if (auto* const frame = std::get_if<Frame>(&*item)) return std::move(*frame);
    }
    std::array<std::byte, 65536> buffer;
    const ssize_t got = ::read(endpoint_.read.get(), buffer.data(), buffer.size());
    if (got > 0) {
      decoder_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
      continue;
    }
    if (got == 0) {
      return fail(fmt::format("{}: the other end has closed it: the guest is gone", endpoint_.name),
                  ErrorKind::no_peer);
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail_errno(endpoint_.name, errno);
    if (steady_clock::now() >= deadline) return std::optional<Frame>{};
    if (auto ready = wait(endpoint_.read.get(), POLLIN, deadline); !ready) {
      if (ready.error().kind == ErrorKind::timeout) return std::optional<Frame>{};
      return std::unexpected(std::move(ready).error());
    }
  }
}

Result<Frame> ControlClient::receive(std::uint32_t request_id, Deadline deadline) {
  for (;;) {
    VTRACE_TRY(std::optional<Frame> frame, receive_any(deadline));
    if (!frame) return fail("no answer in time", ErrorKind::timeout);
    if (frame->request_id == request_id) return std::move(*frame);
    if (frame->request_id == 0 &&
        frame->type == static_cast<std::uint16_t>(MessageType::agent_hello)) {
      if (auto hello = decode_message<AgentHello>(*frame)) announcement_ = std::move(*hello);
    }
  }
}

Status ControlClient::check_type(const Frame& frame, MessageType wanted) const {
  if (frame.type == static_cast<std::uint16_t>(wanted)) return {};
  if (frame.type == static_cast<std::uint16_t>(MessageType::error)) {
    VTRACE_TRY(const AgentError error, decode_message<AgentError>(frame));
    return fail(fmt::format("the agent says: {}", error.text), ErrorKind::refused);
  }
  if (frame.type == static_cast<std::uint16_t>(MessageType::unsupported)) {
    return fail("the agent is too old for this: install the one of this version in the guest",
                ErrorKind::unsupported);
  }
  return fail(fmt::format("the agent gave an answer of an unknown type {:#x}", frame.type));
}

template <typename Answer, typename Request>
Result<Answer> ControlClient::call(const Request& request, const char* what) {
  const std::uint32_t id = ++next_id_;
  const Deadline deadline = steady_clock::now() + kAnswerTime + kAnswerTime;
  VTRACE_CHECK(send(encode_message(id, request), deadline));
  Result<Frame> frame = receive(id, deadline);
  if (!frame && frame.error().kind == ErrorKind::timeout) {
    return fail(fmt::format("{}: no answer to \"{}\" within {} s: the agent or the guest hangs",
                            endpoint_.name, what, (kAnswerTime + kAnswerTime).count() / 1000),
                ErrorKind::timeout);
  }
  if (!frame) return std::unexpected(std::move(frame).error());
  VTRACE_CHECK(check_type(*frame, Answer::kType));
  return decode_message<Answer>(*frame);
}

Result<AgentHello> ControlClient::hello(milliseconds limit) {
  const Deadline deadline = steady_clock::now() + limit;
  Deadline next_try = steady_clock::now();
  while (steady_clock::now() < deadline) {
    if (steady_clock::now() >= next_try) {
      const std::uint32_t id = ++next_id_;
      VTRACE_CHECK(send(encode_message(id, HostHello{.host_version = VTRACE_VERSION}), deadline));
      hello_ids_.push_back(id);
      next_try = steady_clock::now() + kHelloInterval;
    }
    VTRACE_TRY(const std::optional<Frame> frame, receive_any(std::min(deadline, next_try)));
    if (!frame || std::ranges::find(hello_ids_, frame->request_id) == hello_ids_.end()) continue;
    VTRACE_CHECK(check_type(*frame, MessageType::agent_hello));
    return decode_message<AgentHello>(*frame);
  }
  return fail(
      fmt::format("{}: no answer within {:.3g} s: the guest has no virtio-trace-agent running that "
                  "knows this protocol",
                  endpoint_.name, static_cast<double>(limit.count()) / 1000),
      ErrorKind::timeout);
}

Result<Configured> ControlClient::configure(const Configure& request) {
  return call<Configured>(request, "configure");
}
Result<Started> ControlClient::start(const Start& request) {
  return call<Started>(request, "start");
}
Result<Stopped> ControlClient::stop(const Stop& request) {
  return call<Stopped>(request, "stop");
}
Result<StatusReport> ControlClient::status() {
  return call<StatusReport>(StatusQuery{}, "status");
}

Result<Metadata> ControlClient::get_metadata(std::uint32_t parts, const ChunkProgress& progress) {
  // Thousands of format files are read before the first piece comes, on a slow guest.
  constexpr milliseconds kSilence{30'000};
  const std::uint32_t id = ++next_id_;
  VTRACE_CHECK(
      send(encode_message(id, GetMetadata{.parts = parts}), steady_clock::now() + kAnswerTime));
  std::string packed;
  for (;;) {
    Result<Frame> frame = receive(id, steady_clock::now() + kSilence);
    if (!frame && frame.error().kind == ErrorKind::timeout) {
      return fail(fmt::format("{}: the agent stopped sending its metadata", endpoint_.name),
                  ErrorKind::timeout);
    }
    if (!frame) return std::unexpected(std::move(frame).error());
    VTRACE_CHECK(check_type(*frame, MessageType::metadata_chunk));
    VTRACE_TRY(const MetadataChunk chunk, decode_message<MetadataChunk>(*frame));
    const bool fits = chunk.offset == packed.size() && chunk.total_bytes <= kMaxMetadataBytes &&
                      chunk.data.size() <= chunk.total_bytes - chunk.offset;
    if (!fits) return fail("a piece of the agent's metadata is missing");
    packed += chunk.data;
    if (progress) progress(packed.size(), chunk.total_bytes);
    if (packed.size() == chunk.total_bytes) return unpack_metadata(packed, chunk.content_bytes);
    if (chunk.data.empty()) return fail("an empty piece in the agent's metadata");
  }
}

Status ControlClient::send_legacy(LegacyOrder order) {
  return send(as_bytes(order == LegacyOrder::start ? "1\n" : "0\n"),
              steady_clock::now() + kAnswerTime);
}

Result<std::optional<AgentHello>> ControlClient::take_announcement() {
  for (;;) {
    VTRACE_TRY(const std::optional<Frame> frame, receive_any(steady_clock::now()));
    if (!frame) break;
    if (frame->request_id != 0 ||
        frame->type != static_cast<std::uint16_t>(MessageType::agent_hello))
      continue;
    if (auto hello = decode_message<AgentHello>(*frame)) announcement_ = std::move(*hello);
  }
  return std::exchange(announcement_, std::nullopt);
}

bool ControlClient::peer_gone() const {
  pollfd fd{endpoint_.write.get(), 0, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace vtrace
