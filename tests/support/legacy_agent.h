// A stand-in for an agent that knows only the kernel README's protocol, over FIFOs.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"

namespace vtrace::test {

// Opens the FIFOs of a directory as QEMU does, for a guest with `cpus` CPUs. Takes the order "1\n"
// or "0\n" when it comes alone in one read of two bytes, and answers nothing ever. While started,
// each CPU sends sub-buffers of 4096 bytes whose every byte is the CPU's number plus one.
class LegacyAgent {
 public:
  LegacyAgent(const std::string& directory, int cpus);

  [[nodiscard]] int starts() const { return starts_; }
  [[nodiscard]] int stops() const { return stops_; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return sent_; }

 private:
  void obey(const std::stop_token& stop);
  void send(const std::stop_token& stop);

  Fd control_;
  std::vector<Fd> data_;
  std::atomic<bool> running_ = false;
  std::atomic<int> starts_ = 0;
  std::atomic<int> stops_ = 0;
  std::atomic<std::uint64_t> sent_ = 0;
  std::jthread orders_;
  std::jthread sender_;
};

}  // namespace vtrace::test
