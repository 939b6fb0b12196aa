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

// `path` as seen from the root, for those who run elsewhere (QEMU, libvirt). "." components and
// doubled slashes go; ".." stays, since what it means is up to the links on the way.
[[nodiscard]] std::string absolute_path(std::string_view path, std::string_view working_directory);

}  // namespace vtrace
