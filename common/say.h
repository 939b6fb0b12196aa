// Words for a person on a stream that may be gone: a full disk or a closed pipe behind stderr must
// not end a recording.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace vtrace {

// As fmt::print, but a write that fails is no matter.
template <typename... Args>
void say(std::FILE* out, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  (void)std::fwrite(text.data(), 1, text.size(), out);
}

// Puts /dev/null behind each standard stream that is closed, so that no file or FIFO that is opened
// later becomes one. For the start of main.
void keep_standard_streams();

}  // namespace vtrace
