#include "common/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace vtrace {
namespace {

TEST(Result, CarriesTheTextAndTheKind) {
  const Result<int> result = fail("guest web: no such guest", ErrorKind::usage);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "guest web: no such guest");
  EXPECT_EQ(result.error().kind, ErrorKind::usage);
  EXPECT_EQ(result.error().errno_value, 0);
}

TEST(Result, SaysWhatTheSystemSaid) {
  const Status status = fail_errno("/tmp/x", ENOENT);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "/tmp/x: No such file or directory");
  EXPECT_EQ(status.error().errno_value, ENOENT);
}

TEST(Result, KeepsKindAndErrnoUnderAContext) {
  const Status status = add_context(Error{"inner", ErrorKind::timeout, EAGAIN}, "outer");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "outer: inner");
  EXPECT_EQ(status.error().kind, ErrorKind::timeout);
  EXPECT_EQ(status.error().errno_value, EAGAIN);
}

Result<int> half(int value) {
  if (value % 2 != 0) return fail("odd");
  return value / 2;
}
Status must_be_even(int value) {
  if (value % 2 != 0) return fail("odd");
  return {};
}
Result<int> quarter(int value) {
  VTRACE_CHECK(must_be_even(value));
  VTRACE_TRY(const int once, half(value));
  VTRACE_TRY(const int twice, half(once));
  return twice;
}

TEST(Result, TryHandsOnTheValueOrReturnsTheError) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_EQ(quarter(5).error().message, "odd");
}

TEST(Printable, KeepsTextAndMakesControlCharactersVisible) {
  EXPECT_EQ(printable("plain \xc3\xa9"), "plain \xc3\xa9");
  EXPECT_EQ(printable("two\nlines\t\x1b[2J\x7f"), "two\\nlines\\t\\x1b[2J\\x7f");
}

TEST(Printable, CutsWhatIsTooLong) {
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("abc", 3), "abc");
}

}  // namespace
}  // namespace vtrace
