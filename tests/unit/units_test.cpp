#include "common/units.h"

#include <gtest/gtest.h>

namespace vtrace {
namespace {

using namespace std::chrono_literals;

TEST(Units, ReadASize) {
  EXPECT_EQ(parse_size("0").value(), 0U);
  EXPECT_EQ(parse_size("817").value(), 817U);
  EXPECT_EQ(parse_size("64K").value(), 65536U);
  EXPECT_EQ(parse_size("64k").value(), 65536U);
  EXPECT_EQ(parse_size("3M").value(), 3U << 20U);
  EXPECT_EQ(parse_size("2G").value(), std::uint64_t{2} << 30U);
}

TEST(Units, RefuseWhatIsNoSize) {
  for (const char* const text : {"", "K", "-1", "+1", "1.5M", "1KB", "1T", " 1", "1 ", "0x10",
                                 "18446744073709551616", "18446744073709551615G"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().kind, ErrorKind::usage);
  }
}

TEST(Units, ReadADuration) {
  EXPECT_EQ(parse_duration("5").value(), 5s);
  EXPECT_EQ(parse_duration("5s").value(), 5s);
  EXPECT_EQ(parse_duration("0.5").value(), 500ms);
  EXPECT_EQ(parse_duration("1.5m").value(), 90s);
  EXPECT_EQ(parse_duration("2h").value(), 2h);
  EXPECT_EQ(parse_duration("250ms").value(), 250ms);
}

TEST(Units, RefuseWhatIsNoDuration) {
  for (const char* const text :
       {"", "s", "-1", "-1s", "1d", "1 s", "nan", "inf", "1e400", "1e30h", "5sm"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_EQ(duration.error().kind, ErrorKind::usage);
  }
}

TEST(Units, WriteASizeForPeople) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(817), "817 B");
  EXPECT_EQ(format_size(1468006), "1.4 MiB");
}

}  // namespace
}  // namespace vtrace
