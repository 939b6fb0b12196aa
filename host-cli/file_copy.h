// Moves bytes between regular files inside the kernel where it can.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "common/result.h"

namespace vtrace {

struct FileRange {
  int fd = -1;  // borrowed; its file position is not used
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// Copies `from` to `offset` of `to`: by copy_file_range(2), or through a buffer of bounded size
// where the file systems refuse that. `step` hears of each piece's size; when it returns false the
// copy ends with an error of kind interrupted. A source that ends early is an error.
[[nodiscard]] Status copy_range(const FileRange& from, int to, std::uint64_t offset,
                                std::string_view shown_from, std::string_view shown_to,
                                const std::function<bool(std::uint64_t bytes)>& step);

}  // namespace vtrace
