// The guest itself: that it boots, can be told what to do, and comes back. What fails here is the
// harness or the machine, not the product.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/guest_image.h"
#include "tests/support/guest_vm.h"

namespace vtrace::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A control port of its own, nothing behind it.
const std::vector<std::string> kOnePort{
    "-device",  "virtio-serial-pci,id=vt0,max_ports=16",
    "-chardev", "null,id=port0",
    "-device",  "virtserialport,bus=vt0.0,nr=1,chardev=port0,name=test-port"};

class Boot : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Boot, GivesAGuestThatRunsCommandsAndSurvivesAReset) {
  const auto [kernel, cpus] = GetParam();
  GuestVm guest(
      {.kernel = kernel, .cpus = cpus, .qemu_args = kOnePort, .kernel_args = {"vtrace.agent=off"}});
  RecordProperty("boot_ms", static_cast<int>(guest.boot_time().count()));
  fmt::print("guest {}, {} CPUs, {}: up after {} ms\n", kernel, cpus, guest.accelerator(),
             guest.boot_time().count());

  EXPECT_EQ(guest.sh("uname -r"), guest_image(kernel).release + "\n");
  EXPECT_EQ(guest.sh("nproc"), fmt::format("{}\n", cpus));
  EXPECT_EQ(guest.sh("cat /sys/class/virtio-ports/*/name"), "test-port\n");
  EXPECT_EQ(guest.sh("ls /dev/virtio-ports 2>/dev/null || echo none"), "none\n");
  EXPECT_EQ(guest.sh("agent pid || echo off"), "off\n");

  const auto failed = guest.run("echo to out; echo to err >&2; exit 7");
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_EQ(failed.out, "to out\n");
  EXPECT_EQ(failed.err, "to err\n");

  const std::string boot_id = guest.boot_id();
  guest.reset();
  EXPECT_NE(guest.boot_id(), boot_id);
  EXPECT_EQ(guest.sh("cat /proc/sys/kernel/random/boot_id"), guest.boot_id() + "\n");
}

INSTANTIATE_TEST_SUITE_P(Kernels, Boot,
                         testing::Combine(testing::Values("6.1", "6.12"), testing::Values(2, 4)),
                         [](const auto& instance) {
                           std::string name =
                               fmt::format("Linux{}With{}Cpus", std::get<0>(instance.param),
                                           std::get<1>(instance.param));
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

class Guest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    guest_ = std::make_unique<GuestVm>(GuestConfig{.kernel_args = {"vtrace.agent=off"}});
  }
  static void TearDownTestSuite() { guest_.reset(); }

  static inline std::unique_ptr<GuestVm> guest_;
};

TEST_F(Guest, SendsMuchOutputWhole) {
  const auto result = guest_->run("seq 20000; seq 5000 >&2");
  std::string expected;
  for (int i = 1; i <= 20'000; ++i) expected += fmt::format("{}\n", i);
  EXPECT_TRUE(result.out == expected) << "got " << result.out.size() << " bytes";
  EXPECT_EQ(result.err.size(), 23'893U);
}

TEST_F(Guest, RunsSeveralCommandsAtOnce) {
  const int slow = guest_->start("sleep 1; echo slow");
  EXPECT_EQ(guest_->sh("echo quick"), "quick\n");
  EXPECT_EQ(guest_->finish(slow).out, "slow\n");
}

TEST_F(Guest, EndsACommandThatTakesTooLong) {
  EXPECT_THROW((void)guest_->run("sleep 61.7", 500ms), std::runtime_error);
  EXPECT_TRUE(eventually([] { return guest_->run("ps | grep '[s]leep 61.7'").exit_code != 0; }));
}

TEST_F(Guest, WritesNumberedLinesFromEachCpuIntoAnInstance) {
  guest_->sh("mkdir $TRACEFS/instances/lines");
  EXPECT_EQ(guest_->sh("vtrace-workload markers 100 --instance lines"),
            "cpu 0 lines 100 refused 0\ncpu 1 lines 100 refused 0\n");
  const std::string trace = guest_->sh("cat $TRACEFS/instances/lines/trace");
  for (int cpu = 0; cpu < 2; ++cpu)
    for (int line = 0; line < 100; ++line)
      EXPECT_THAT(trace, HasSubstr(fmt::format("vtrace cpu{} line {}\n", cpu, line)));
  const std::string entries =
      guest_->sh("grep -h entries $TRACEFS/instances/lines/per_cpu/cpu*/stats");
  EXPECT_EQ(entries, "entries: 100\nentries: 100\n");
  guest_->sh("rmdir $TRACEFS/instances/lines");
}

TEST_F(Guest, CountsLinesThatTheKernelRefuses) {
  guest_->sh(
      "mkdir $TRACEFS/instances/off; echo 0 "
      ">$TRACEFS/instances/off/tracing_on");
  const auto result = guest_->run("vtrace-workload markers 10 --instance off");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "cpu 0 lines 0 refused 10\ncpu 1 lines 0 refused 10\n");
  guest_->sh("rmdir $TRACEFS/instances/off");
}

TEST_F(Guest, FloodsAndLoads) {
  guest_->sh("mkdir $TRACEFS/instances/flood");
  EXPECT_EQ(guest_->sh("vtrace-workload flood 2000000 --line-size 500 --instance flood"),
            "cpu 0 lines 2000 refused 0\ncpu 1 lines 2000 refused 0\n");
  EXPECT_EQ(guest_->sh("vtrace-workload flood 2000000 --raw --rate 10000000 --instance flood"),
            "cpu 0 lines 1000 refused 0\ncpu 1 lines 1000 refused 0\n");
  guest_->sh("rmdir $TRACEFS/instances/flood");
  EXPECT_EQ(guest_->sh("vtrace-workload load 1"), "");
}

TEST(GuestPower, GoesOffWhenTold) {
  GuestVm guest({.kernel_args = {"vtrace.agent=off"}});
  guest.power_off();
  EXPECT_THAT(guest.console(), HasSubstr("Power down"));
}

TEST(GuestVm, SaysWhatQemuSaidWhenItDoesNotStart) {
  try {
    const GuestVm guest({.qemu_args = {"-device", "no-such-device"}});
    FAIL() << "it started";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-device"));
  }
}

}  // namespace
}  // namespace vtrace::test
