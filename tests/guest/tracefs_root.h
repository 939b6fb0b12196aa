// Where tests find tracefs. They change it as they like, so it is never this machine's own.
#pragma once

#include <string>

namespace vtrace::test {

// True in the test guest, whose init leaves a mark: tests/support/guest/root/init.
[[nodiscard]] bool in_test_guest();

// The guest's tracefs. Throws on any other machine.
[[nodiscard]] const std::string& tracefs_root();

}  // namespace vtrace::test
