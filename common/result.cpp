#include "common/result.h"

#include <fmt/format.h>

#include <system_error>

namespace vtrace {

std::unexpected<Error> fail(std::string message, ErrorKind kind) {
  return std::unexpected(Error{std::move(message), kind, 0});
}

std::unexpected<Error> fail_errno(std::string_view what, int errno_value) {
  return std::unexpected(
      Error{fmt::format("{}: {}", what, errno_text(errno_value)), ErrorKind::failed, errno_value});
}

std::unexpected<Error> add_context(Error error, std::string_view context) {
  error.message = fmt::format("{}: {}", context, error.message);
  return std::unexpected(std::move(error));
}

std::string errno_text(int errno_value) {
  return std::generic_category().message(errno_value);
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  if (text.size() > limit) shown += "...";
  return shown;
}

}  // namespace vtrace
