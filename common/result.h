// Errors as values. A library function that can fail returns Result<T>; it never prints and
// never exits. The text of an error is one line: what failed, where (path or name), what to do.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace vtrace {

enum class ErrorKind {
  failed,       // the general case: exit code 1
  usage,        // the caller's words are off: exit code 2
  interrupted,  // ended by SIGINT or SIGTERM: exit code 130
  timeout,      // nothing came within the time given
  no_peer,      // nobody has the other end open
  unsupported,  // the other side, or this machine, cannot do it
  refused,      // the other side understood and said no
};

struct Error {
  std::string message;
  ErrorKind kind = ErrorKind::failed;
  int errno_value = 0;  // 0 where no system call failed
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

// An Error of the given text and kind, ready to return.
[[nodiscard]] std::unexpected<Error> fail(std::string message, ErrorKind kind = ErrorKind::failed);

// "WHAT: strerror(errno_value)". Pass errno at once: any other call may change it.
[[nodiscard]] std::unexpected<Error> fail_errno(std::string_view what, int errno_value);

// Puts "CONTEXT: " before an error's text, keeping its kind and errno.
[[nodiscard]] std::unexpected<Error> add_context(Error error, std::string_view context);

// The text of an errno value, safe to call from any thread.
[[nodiscard]] std::string errno_text(int errno_value);

// `text` made fit for one line at a terminal: control characters become escapes, and what is longer
// than `limit` bytes is cut, with "..." behind. For text that comes from another machine or a file.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 200);

}  // namespace vtrace

#define VTRACE_CONCAT_INNER(a, b) a##b
#define VTRACE_CONCAT(a, b) VTRACE_CONCAT_INNER(a, b)

// VTRACE_TRY(auto fd, open_fd(path, O_RDONLY)); returns the error from the enclosing function, or
// goes on with the value.
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define VTRACE_TRY_IMPL(tmp, declaration, expression)           \
  auto tmp = (expression);                                      \
  if (!(tmp)) return std::unexpected(std::move((tmp).error())); \
  declaration = std::move(*(tmp))
// NOLINTEND(bugprone-macro-parentheses)
#define VTRACE_TRY(declaration, expression) \
  VTRACE_TRY_IMPL(VTRACE_CONCAT(vtrace_try_, __LINE__), declaration, expression)

// The same for a Status, or where the value is of no use.
#define VTRACE_CHECK(expression)                                \
  do {                                                          \
    if (auto vtrace_check_ = (expression); !vtrace_check_)      \
      return std::unexpected(std::move(vtrace_check_.error())); \
  } while (false)
