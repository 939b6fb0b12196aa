// Which directory a guest's FIFOs are in. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/result.h"

namespace vtrace {

// The kernel README's directory.
inline constexpr std::string_view kDefaultBaseDirectory = "/tmp/virtio-trace";

struct DirectoryChoice {
  std::string base;       // VIRTIO_TRACE_DIR; empty: kDefaultBaseDirectory
  std::string guest;      // --guest; empty: none
  std::string directory;  // --dir; empty: none
};

// --dir, else BASE/GUEST, else BASE. A guest's name becomes one path component, so one with '/' or
// NUL, "." and ".." are refused; blanks, quotes and any UTF-8 are fine.
[[nodiscard]] Result<std::string> fifo_directory(const DirectoryChoice& choice);

}  // namespace vtrace
