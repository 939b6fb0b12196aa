// A command's long output: written in big pieces, ended early without a word by a reader that
// leaves
// (| head) and by SIGINT or SIGTERM, also while the reader does not read.
#pragma once

#include <string_view>

#include "common/result.h"
#include "host-cli/interrupts.h"

namespace vtrace {

class TextOutput {
 public:
  // Writes to `fd` (borrowed, blocking). `interrupts` may be null; it must outlive this.
  TextOutput(int fd, Interrupts* interrupts);

  // Writes all of it. False: nobody reads any more, so that there is no use in going on. An error
  // of kind interrupted: a signal has come.
  [[nodiscard]] Result<bool> write(std::string_view text);

 private:
  [[nodiscard]] Result<std::size_t> write_some(std::string_view text);
  [[nodiscard]] Status wait_until_writable();

  int fd_;
  Interrupts* interrupts_;
  bool may_block_;
};

}  // namespace vtrace
