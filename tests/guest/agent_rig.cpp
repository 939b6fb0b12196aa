#include "tests/guest/agent_rig.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <stdexcept>

#include "common/layout.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void make_fifo(const std::string& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + path);
}

}  // namespace

std::uint64_t count_events(const SubbufLayout& layout, std::span<const std::byte> subbuf) {
  const SubbufHeader header = must(read_subbuf_header(layout, subbuf));
  const auto data = subbuf.subspan(layout.data_offset, header.data_bytes);
  std::uint64_t events = 0;
  for (std::size_t at = 0; at + 4 <= data.size();) {
    const std::uint32_t word = load_u32(data.subspan(at));
    const std::uint32_t kind = word & 31U;
    const std::uint32_t delta = word >> 5U;
    if (kind == 29 && delta == 0) break;
    if (kind == 30 || kind == 31) {
      at += 8;
    } else if (kind == 29) {
      at += 4 + load_u32(data.subspan(at + 4));
    } else {
      ++events;
      at += kind > 0 ? 4 + 4 * kind : 4 + ((load_u32(data.subspan(at + 4)) + 3) & ~3U);
    }
  }
  return events;
}

std::uint64_t PortStream::events(const SubbufLayout& layout) const {
  std::uint64_t events = 0;
  for (const Bytes& subbuf : subbufs) events += count_events(layout, subbuf);
  return events;
}

PortStream cut_run(const SubbufLayout& layout, std::span<const std::byte> bytes,
                   std::uint64_t run_id) {
  PortStream stream;
  const std::size_t unit = layout.size();
  std::size_t at = 0;
  for (; at + unit <= bytes.size(); ++at) {
    const auto fence = decode_fence(layout, bytes.subspan(at, unit));
    if (!fence || fence->run_id != run_id || fence->kind != FenceKind::begin) continue;
    stream.begin = fence;
    break;
  }
  stream.before = at;
  if (!stream.begin) return stream;
  for (at += unit; at + unit <= bytes.size() && !stream.end; at += unit) {
    const auto subbuf = bytes.subspan(at, unit);
    const auto fence = decode_fence(layout, subbuf);
    if (fence && fence->run_id == run_id && fence->kind == FenceKind::end) {
      stream.end = fence;
    } else {
      stream.subbufs.emplace_back(subbuf.begin(), subbuf.end());
    }
  }
  stream.behind = bytes.size() - at;
  return stream;
}

PortReader::PortReader(const std::string& fifo) : fd_(must(open_fd(fifo, O_RDWR | O_NONBLOCK))) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

PortReader::~PortReader() {
  thread_.request_stop();
}

void PortReader::run(const std::stop_token& stop) {
  Bytes piece(1U << 18U);
  while (!stop.stop_requested()) {
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 20) <= 0) continue;
    const ssize_t got = ::read(fd_.get(), piece.data(), piece.size());
    if (got <= 0) continue;
    const std::scoped_lock lock(mutex_);
    bytes_.insert(bytes_.end(), piece.begin(), piece.begin() + got);
  }
}

std::size_t PortReader::size() {
  const std::scoped_lock lock(mutex_);
  return bytes_.size();
}

Bytes PortReader::bytes() {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

Bytes PortReader::settled() {
  std::size_t last = size();
  for (;;) {
    std::this_thread::sleep_for(Duration{100});
    const std::size_t now = size();
    if (now == last) return bytes();
    last = now;
  }
}

AgentRig::AgentRig(const Wish& wish) : wish_(wish), directory_(temp_.path().string()) {
  static std::atomic<int> number = 0;
  instance_ = fmt::format("vtrace-agent-test-{}-{}", ::getpid(), ++number);
  cpus_ = wish.ports.empty()
              ? must(parse_cpu_list(must(read_file("/sys/devices/system/cpu/online"))))
              : wish.ports;
  std::vector<std::string> names = {std::string(kControlPortName)};
  for (const int cpu : cpus_) names.push_back(data_port_name(cpu));
  for (const std::string& name : names) {
    make_fifo(directory_ + "/" + name + ".in");
    make_fifo(directory_ + "/" + name + ".out");
  }
  for (const int cpu : cpus_) held_.push_back(must(open_fd(fifo(cpu), O_RDWR | O_NONBLOCK)));
  // Open for both directions: what the test sends before the agent is there waits in the FIFO.
  const std::string control = directory_ + "/" + std::string(kControlPortName);
  orders_ = must(open_fd(control + ".in", O_RDWR | O_NONBLOCK));
  answers_ = must(open_fd(control + ".out", O_RDWR | O_NONBLOCK));
  if (wish.start) launch();
}

AgentRig::~AgentRig() {
  if (agent_ && agent_->running()) {
    agent_->signal(SIGTERM);
    (void)agent_->wait(Duration{5000});
  }
  if (instance_exists()) {
    // Left by an agent that a test has killed.
    (void)::rmdir(instance_path().c_str());
  }
}

AgentHello AgentRig::launch() {
  agent_.reset();
  std::vector<std::string> command = {std::string(VTRACE_BIN_DIR) + "/virtio-trace-agent",
                                      "--ports-dir",
                                      directory_,
                                      "--instance",
                                      instance_,
                                      "--tracefs",
                                      wish_.tracefs};
  command.insert(command.end(), wish_.arguments.begin(), wish_.arguments.end());
  agent_ = std::make_unique<BackgroundProcess>(command, wish_.process);
  const auto frame = try_receive(0, Duration{10000});
  if (!frame) throw std::runtime_error("no hello from the agent: " + agent_->err_so_far());
  return expect<AgentHello>(*frame);
}

std::string AgentRig::instance_path() const {
  return fmt::format("{}/instances/{}", wish_.tracefs, instance_);
}

bool AgentRig::instance_exists() const {
  return fs::exists(instance_path());
}

std::string AgentRig::fifo(int cpu) const {
  return fmt::format("{}/{}.out", directory_, data_port_name(cpu));
}

void AgentRig::send_bytes(std::span<const std::byte> bytes) {
  must(write_all(orders_.get(), bytes, "orders"));
}

std::optional<Frame> AgentRig::try_receive(std::uint32_t id, Duration limit) {
  const auto until = Clock::now() + limit;
  Bytes piece(1U << 16U);
  for (;;) {
    const auto at = std::ranges::find(received_, id, &Frame::request_id);
    if (at != received_.end()) {
      Frame frame = std::move(*at);
      received_.erase(at);
      return frame;
    }
    if (Clock::now() >= until) return std::nullopt;
    pollfd wait{answers_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 10) <= 0) continue;
    const ssize_t got = ::read(answers_.get(), piece.data(), piece.size());
    if (got <= 0) continue;
    decoder_.feed(std::span(piece).first(static_cast<std::size_t>(got)));
    while (auto item = decoder_.next()) received_.push_back(std::get<Frame>(std::move(*item)));
  }
}

Frame AgentRig::receive(std::uint32_t id, Duration limit) {
  auto frame = try_receive(id, limit);
  if (!frame) {
    throw std::runtime_error(
        fmt::format("no answer to request {}; the agent says: {}", id, agent_->err_so_far()));
  }
  return std::move(*frame);
}

void AgentRig::unexpected(const Frame& frame) {
  if (frame.type == static_cast<std::uint16_t>(AgentError::kType)) {
    const auto error = must(decode_message<AgentError>(frame));
    throw std::runtime_error(fmt::format("the agent refused: {}", error.text));
  }
  throw std::runtime_error(fmt::format("an answer of type {:#x} came", frame.type));
}

void AgentRig::write_markers(int cpu, int lines, int from) const {
  std::jthread([this, cpu, lines, from] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) return;
    const Fd marker = must(open_fd(instance_path() + "/trace_marker", O_WRONLY));
    for (int i = from; i < from + lines; ++i)
      must(write_all(marker.get(), fmt::format("line {} of cpu {}\n", i, cpu), "trace_marker"));
  }).join();
}

}  // namespace vtrace::test
