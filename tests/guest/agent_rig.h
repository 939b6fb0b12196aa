// The real agent beside a small host of the test's own: FIFOs in a directory, the control protocol,
// readers of the data ports. The agent works on the guest's tracefs, in an instance of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/cpu_list.h"
#include "common/fence.h"
#include "common/frame.h"
#include "common/messages.h"
#include "common/subbuffer.h"
#include "tests/guest/tracefs_root.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {

// What one data port's reader has got, cut into sub-buffers of one run.
struct PortStream {
  std::size_t before = 0;  // bytes before the run's begin fence
  std::vector<Bytes> subbufs;
  std::optional<Fence> begin;
  std::optional<Fence> end;
  std::size_t behind = 0;  // bytes after the end fence

  // Events in them, counted by walking.
  [[nodiscard]] std::uint64_t events(const SubbufLayout& layout) const;
};

// Events in one sub-buffer: data records, by their headers.
[[nodiscard]] std::uint64_t count_events(const SubbufLayout& layout,
                                         std::span<const std::byte> subbuf);
// Finds the fences of a run wherever they stand.
[[nodiscard]] PortStream cut_run(const SubbufLayout& layout, std::span<const std::byte> bytes,
                                 std::uint64_t run_id);

// Reads a FIFO into memory in a thread of its own.
class PortReader {
 public:
  explicit PortReader(const std::string& fifo);
  ~PortReader();
  PortReader(const PortReader&) = delete;
  PortReader& operator=(const PortReader&) = delete;

  [[nodiscard]] std::size_t size();
  [[nodiscard]] Bytes bytes();
  // Until `size()` does not grow for 100 ms.
  [[nodiscard]] Bytes settled();

 private:
  void run(const std::stop_token& stop);
  std::mutex mutex_;
  Bytes bytes_;
  Fd fd_;
  std::jthread thread_;
};

class AgentRig {
 public:
  struct Wish {
    CpuList ports = {};  // empty: the online CPUs
    std::vector<std::string> arguments = {};
    bool start = true;
    std::string tracefs = tracefs_root();
    ProcessOptions process = {};
  };
  AgentRig() : AgentRig(Wish{}) {}
  explicit AgentRig(const Wish& wish);
  ~AgentRig();
  AgentRig(const AgentRig&) = delete;
  AgentRig& operator=(const AgentRig&) = delete;

  // Starts the agent (again) and waits for its unasked hello.
  AgentHello launch();
  [[nodiscard]] BackgroundProcess& agent() { return *agent_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const std::string& instance() const { return instance_; }
  [[nodiscard]] std::string instance_path() const;
  [[nodiscard]] bool instance_exists() const;
  [[nodiscard]] const CpuList& cpus() const { return cpus_; }
  [[nodiscard]] std::string fifo(int cpu) const;

  // Sends bytes, or a message; the request's id.
  void send_bytes(std::span<const std::byte> bytes);
  template <typename Message>
  std::uint32_t send(const Message& message) {
    send_bytes(encode_message(++request_, message));
    return request_;
  }
  // The next frame to request `id`; throws when none comes in time.
  [[nodiscard]] Frame receive(std::uint32_t id, Duration limit = Duration{5000});
  [[nodiscard]] std::optional<Frame> try_receive(std::uint32_t id, Duration limit);
  // Sends and gets the answer as a `Answer`; throws for any other answer.
  template <typename Answer, typename Message>
  Answer ask(const Message& message, Duration limit = Duration{5000}) {
    return expect<Answer>(receive(send(message), limit));
  }
  template <typename Answer>
  Answer expect(const Frame& frame) {
    if (frame.type != static_cast<std::uint16_t>(Answer::kType)) unexpected(frame);
    return must_decode(decode_message<Answer>(frame));
  }

  // Writes `lines` numbered lines into the instance's trace_marker, on that CPU.
  void write_markers(int cpu, int lines, int from = 0) const;
  [[nodiscard]] std::string command_line() const;

 private:
  [[noreturn]] static void unexpected(const Frame& frame);
  template <typename T>
  static T must_decode(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(*result);
  }

  Wish wish_;
  TempDir temp_;
  std::string directory_;
  std::string instance_;
  CpuList cpus_;
  std::unique_ptr<BackgroundProcess> agent_;
  std::vector<Fd> held_;  // the data FIFOs, as QEMU holds them
  Fd orders_;
  Fd answers_;
  ControlDecoder decoder_{ControlDecoder::LegacyOrders::ignored};
  std::deque<Frame> received_;
  std::uint32_t request_ = 100;
};

}  // namespace vtrace::test
