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

}  // namespace vtrace
