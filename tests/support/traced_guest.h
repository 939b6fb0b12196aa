// A guest with our ports and our agent, as a user sets it up: setup, qemu-args, boot.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/guest_vm.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {

class TracedGuest {
 public:
  // The FIFOs and ports are for as many CPUs as the guest has.
  TracedGuest(const std::string& kernel, int cpus, std::vector<std::string> kernel_args = {});

  [[nodiscard]] GuestVm& vm() { return *vm_; }
  [[nodiscard]] int cpus() const { return cpus_; }
  [[nodiscard]] std::string fifos() const { return temp_.file("fifos"); }
  [[nodiscard]] std::string file(const std::string& name) const { return temp_.file(name); }

  // virtio-trace WORDS… --dir FIFOS
  [[nodiscard]] std::vector<std::string> command(std::vector<std::string> words) const;
  [[nodiscard]] ProcessResult run(std::vector<std::string> words,
                                  Duration deadline = std::chrono::seconds(120)) const;
  // record in the background, once it has begun; waits for an agent that is not up yet.
  [[nodiscard]] std::unique_ptr<BackgroundProcess> start_record(
      std::vector<std::string> words) const;

 private:
  TempDir temp_;
  int cpus_;
  std::unique_ptr<GuestVm> vm_;
};

}  // namespace vtrace::test
