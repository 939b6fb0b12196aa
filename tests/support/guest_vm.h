// A real guest in QEMU, for the vm tests.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/command_channel.h"
#include "tests/support/process.h"
#include "tests/support/qmp.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {

struct GuestConfig {
  std::string kernel = "6.1";  // or "6.12"
  int cpus = 2;
  int memory_mib = 512;
  std::vector<std::string> qemu_args = {};    // such as the ports of `virtio-trace qemu-args`
  std::vector<std::string> kernel_args = {};  // such as "vtrace.agent=off"
  // Archives to be unpacked over the initramfs: tests/support/guest/make-archive.sh.
  std::vector<std::filesystem::path> archives = {};
  Duration boot_deadline = std::chrono::seconds(90);
};

// Boots in its constructor and is killed in its destructor. Every failure throws, with the end of
// the guest's console in the text. One thread uses the object.
//
// QEMU 7.2's TCG races with a kernel that patches its own code and sometimes makes it panic at
// boot. That is no fault of what is tested: a panic before the guest's init is up is reported on
// stdout, and the boot is tried again.
class GuestVm {
 public:
  explicit GuestVm(GuestConfig config);
  GuestVm(const GuestVm&) = delete;
  GuestVm& operator=(const GuestVm&) = delete;
  // Prints the end of the console and the agent's log when the running test has failed.
  ~GuestVm();

  // Runs a shell script in the guest (busybox; the programs there: tests/support/guest/README.md).
  CommandResult run(std::string_view script, Duration deadline = std::chrono::seconds(30));
  // The same, and throws when it does not exit with 0. Returns its stdout.
  std::string sh(std::string_view script, Duration deadline = std::chrono::seconds(30));
  // Starts a script that runs beside the test; finish() waits for it.
  int start(std::string_view script);
  CommandResult finish(int id, Duration deadline = std::chrono::seconds(30));
  // Waits a while for its end; true when finish() will not wait any more.
  bool finishes_within(int id, Duration wait);

  // QMP: {"execute": name, "arguments": arguments}.
  nlohmann::json qmp(const std::string& name,
                     const nlohmann::json& arguments = nlohmann::json::object());
  // Resets the machine and waits until it is up again.
  void reset();
  // The guest's own way down; QEMU ends with it.
  void power_off();
  // Waits for the end of a reboot that the guest itself began.
  void wait_for_reboot();

  // Changes with each boot.
  [[nodiscard]] const std::string& boot_id() const { return channel_->boot_id(); }
  [[nodiscard]] std::string console() const { return read_text(console_path_); }
  [[nodiscard]] const std::string& accelerator() const { return accelerator_; }
  [[nodiscard]] pid_t pid() const { return qemu_->pid(); }
  // From power-on to the command server's first word, in the boot that succeeded last.
  [[nodiscard]] Duration boot_time() const { return boot_time_; }
  // Boots that were tried again after a panic that TCG made.
  [[nodiscard]] int retried_boots() const { return retried_boots_; }

 private:
  void launch();
  // The image's initramfs with the archives behind it.
  [[nodiscard]] std::string initramfs() const;
  // Waits until the server says "ready" for the time after `ready_before`.
  void wait_until_up(int ready_before);
  [[nodiscard]] std::string console_since_reset() const;
  // Throws when QEMU ended or the guest's kernel panicked.
  void check_alive();
  [[noreturn]] void fail(const std::string& what) const;

  GuestConfig config_;
  TempDir directory_;
  std::string console_path_;
  std::string accelerator_;
  std::unique_ptr<BackgroundProcess> qemu_;
  std::unique_ptr<QmpClient> qmp_;
  std::unique_ptr<CommandChannel> channel_;
  std::size_t console_offset_ = 0;  // where the present boot's part of the console begins
  Duration boot_time_{0};
  int retried_boots_ = 0;
};

}  // namespace vtrace::test
