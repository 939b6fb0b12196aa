#include "tests/support/guest_vm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "tests/support/guest_image.h"

namespace vtrace::test {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kMaxBootAttempts = 5;
constexpr std::size_t kConsoleTail = 3000;

// The guest's init prints it when modules are loaded: tests/support/guest/root/init.
constexpr std::string_view kUp = "vtrace-guest: up";

// The first sign of a kernel that is beyond help, as a line of its console; empty: none.
std::string panic_line(const std::string& console) {
  for (const std::string_view sign : {"Kernel panic - not syncing", "Oops: ", "traps: PANIC"}) {
    const auto found = console.find(sign);
    if (found == std::string::npos) continue;
    const auto begin = console.rfind('\n', found) + 1;  // npos + 1 is 0: the first line
    return console.substr(begin, console.find_first_of("\r\n", found) - begin);
  }
  return {};
}

std::string tail(const std::string& text) {
  return text.substr(text.size() - std::min(text.size(), kConsoleTail));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace

GuestVm::GuestVm(GuestConfig config)
    : config_(std::move(config)), console_path_(directory_.file("console.log")) {
  launch();
  wait_until_up(0);
}

GuestVm::~GuestVm() {
  // While an exception passes, its text has the console already.
  if (!testing::Test::HasFailure() || std::uncaught_exceptions() > 0) return;
  try {
    fmt::print("--- end of the guest's console\n{}\n", tail(console()));
    if (qemu_->running()) fmt::print("--- the agent's log\n{}\n", tail(run("agent log", 5s).out));
  } catch (const std::exception& error) {
    fmt::print("--- no more to be had from the guest: {}\n", error.what());
  }
}

std::string GuestVm::initramfs() const {
  const GuestImage& image = guest_image(config_.kernel);
  if (config_.archives.empty()) return image.initramfs.string();
  // The kernel unpacks one archive after the other; each begins at a multiple of 4 bytes.
  std::string all = read_text(image.initramfs);
  for (const auto& archive : config_.archives) {
    all.resize((all.size() + 3) / 4 * 4);
    all += read_text(archive);
  }
  const std::string path = directory_.file("initramfs.cpio.gz");
  write_text(path, all);
  return path;
}

void GuestVm::launch() {
  const GuestImage& image = guest_image(config_.kernel);
  accelerator_ = image.accelerator;
  write_text(console_path_, "");
  const std::string qmp_path = directory_.file("qmp");
  const std::string commands_path = directory_.file("commands");
  const std::vector<std::string> machine{"-name",    "vtrace-test",
                                         "-machine", "pc",
                                         "-smp",     std::to_string(config_.cpus),
                                         "-m",       std::to_string(config_.memory_mib)};
  const std::vector<std::string> boot{
      "-kernel", image.vmlinuz.string(), "-initrd", initramfs(),
      // An emulated guest on a busy host may miss the ticks by which the kernel tries its timer.
      "-append", "console=ttyS0 no_timer_check panic=0" + joined(config_.kernel_args)};
  // ttyS0 is the kernel's console, ttyS1 the command server's.
  const std::vector<std::string> channels{
      "-serial",  "file:" + console_path_,
      "-chardev", "socket,id=vtc,server=on,wait=off,path=" + commands_path,
      "-serial",  "chardev:vtc",
      "-qmp",     "unix:" + qmp_path + ",server=on,wait=off"};
  std::vector<std::string> argv{"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display",
                                "none"};
  for (const auto* part : std::initializer_list<const std::vector<std::string>*>{
           &machine, &image.accelerator_args, &boot, &channels, &config_.qemu_args})
    argv.insert(argv.end(), part->begin(), part->end());
  qemu_ = std::make_unique<BackgroundProcess>(argv);
  try {
    channel_ = std::make_unique<CommandChannel>(connect_unix(commands_path, 10s));
    qmp_ = std::make_unique<QmpClient>(qmp_path, 10s);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

std::string GuestVm::console_since_reset() const {
  const std::string text = console();
  return text.substr(std::min(console_offset_, text.size()));
}

void GuestVm::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format(
      "guest {} ({} CPUs, {}): {}\n--- QEMU's stderr\n{}\n--- end of the guest's console\n{}",
      config_.kernel, config_.cpus, accelerator_, what, qemu_->err_so_far(),
      tail(console_since_reset())));
}

void GuestVm::check_alive() {
  if (!qemu_->running()) fail("QEMU has ended");
  if (const std::string panic = panic_line(console_since_reset()); !panic.empty())
    fail("its kernel panicked: " + panic);
}

void GuestVm::wait_until_up(int ready_before) {
  auto begin = Clock::now();
  for (int attempt = 1; channel_->ready_count() == ready_before;) {
    channel_->poll_for(50ms);
    if (!qemu_->running()) fail("QEMU has ended");
    const std::string text = console_since_reset();
    const std::string panic = panic_line(text);
    if (!panic.empty() && text.find(kUp) == std::string::npos && attempt < kMaxBootAttempts) {
      ++attempt;
      ++retried_boots_;
      fmt::print("guest {}: kernel panic at boot before anything of ours ran; boot {} of {} ({})\n",
                 config_.kernel, attempt, kMaxBootAttempts, panic);
      console_offset_ += text.size();
      qmp("system_reset");
      begin = Clock::now();
    } else if (!panic.empty()) {
      fail("its kernel panicked: " + panic);
    } else if (Clock::now() - begin > config_.boot_deadline) {
      fail(fmt::format("not up within {} s", config_.boot_deadline / 1s));
    }
  }
  boot_time_ = std::chrono::duration_cast<Duration>(Clock::now() - begin);
}

int GuestVm::start(std::string_view script) {
  return channel_->start(script);
}

bool GuestVm::finishes_within(int id, Duration wait) {
  if (channel_->finished(id)) return true;
  channel_->poll_for(wait);
  check_alive();
  return channel_->finished(id);
}

CommandResult GuestVm::finish(int id, Duration deadline) {
  const auto end = Clock::now() + deadline;
  while (!finishes_within(id, 100ms)) {
    if (Clock::now() > end) {
      channel_->kill(id, SIGKILL);
      fail(fmt::format("a command took longer than {} ms\n{}", deadline.count(),
                       channel_->result(id).describe()));
    }
  }
  CommandResult result = channel_->result(id);
  channel_->forget(id);
  return result;
}

CommandResult GuestVm::run(std::string_view script, Duration deadline) {
  return finish(start(script), deadline);
}

std::string GuestVm::sh(std::string_view script, Duration deadline) {
  const CommandResult result = run(script, deadline);
  if (result.exit_code != 0) fail(fmt::format("`{}` failed\n{}", script, result.describe()));
  return result.out;
}

nlohmann::json GuestVm::qmp(const std::string& name, const nlohmann::json& arguments) {
  return qmp_->command(name, arguments);
}

void GuestVm::reset() {
  const int ready_before = channel_->ready_count();
  console_offset_ = console().size();
  qmp("system_reset");
  wait_until_up(ready_before);
}

void GuestVm::wait_for_reboot() {
  console_offset_ = console().size();
  wait_until_up(channel_->ready_count());
}

void GuestVm::power_off() {
  start("poweroff");
  const auto ended = qemu_->wait(20s);
  if (ended.timed_out) fail("it did not power off");
}

}  // namespace vtrace::test
