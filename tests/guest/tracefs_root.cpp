#include "tests/guest/tracefs_root.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

namespace vtrace::test {
namespace {

// Before the first test: a binary that was started by hand outside the guest does nothing.
class GuestOnly : public testing::Environment {
 public:
  void SetUp() override {
    if (!in_test_guest())
      FAIL() << "these tests change the kernel's tracefs and run in the test guest alone: "
                "ctest -L guest";
  }
};

[[maybe_unused]] const testing::Environment* const kGuestOnly =
    testing::AddGlobalTestEnvironment(new GuestOnly);

}  // namespace

bool in_test_guest() {
  return std::filesystem::exists("/run/vtrace-test-guest");
}

const std::string& tracefs_root() {
  static const std::string root = "/sys/kernel/tracing";
  if (!in_test_guest()) throw std::logic_error("a test would use this machine's own tracefs");
  return root;
}

}  // namespace vtrace::test
