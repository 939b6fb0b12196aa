// The kernels and the initramfs that the tests boot: see tests/support/guest/README.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace vtrace::test {

struct GuestImage {
  std::string kernel;   // "6.1" or "6.12", as asked for
  std::string release;  // what `uname -r` says in it
  std::filesystem::path vmlinuz;
  std::filesystem::path initramfs;
  std::string accelerator;                    // "kvm" or "tcg"
  std::vector<std::string> accelerator_args;  // for QEMU
};

// Makes the image, or brings it up to date with the agent that was built (once a process and
// kernel), and says where it is. Throws with make-guest.sh's words when that fails, for instance
// without a network. In a build with sanitizers, whose agent cannot run in the guest, the release
// build's agent goes in, if there is one. VTRACE_GUEST_DIR replaces build/guest.
[[nodiscard]] const GuestImage& guest_image(const std::string& kernel);

}  // namespace vtrace::test
