// The QEMU arguments of a guest's channels. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/layout.h"
#include "common/result.h"

namespace vtrace {

struct QemuArgsRequest {
  std::string directory;  // absolute: QEMU has a working directory of its own
  int cpus = 0;           // checked by the caller (parse_cpu_count)
  Backend backend = Backend::pipe;
};

// Arguments in order, unquoted: an option and its value are one each. Controllers of our own with
// 15 ports each, then a chardev and a virtserialport for each port; no PCI address is given, QEMU
// picks one. A path that QEMU cannot take (too long for a socket) is an error.
[[nodiscard]] Result<std::vector<std::string>> qemu_arguments(const QemuArgsRequest& request);

enum class ArgsFormat {
  shell,  // to be pasted into a POSIX shell: an option and its value a line, continued by '\'
  lines,  // one argument a line, unquoted, in order
  json,   // an array of strings
};
[[nodiscard]] Result<ArgsFormat> parse_args_format(std::string_view text);

// Ends with a newline. An error where the format cannot carry an argument: a newline in lines and
// shell, bytes that are no UTF-8 in json.
[[nodiscard]] Result<std::string> format_arguments(const std::vector<std::string>& arguments,
                                                   ArgsFormat format);

// `text` as one word of a POSIX shell; quoted only where it must be.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace vtrace
