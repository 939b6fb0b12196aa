#include "common/cpu_list.h"

#include <gtest/gtest.h>

#include <string>

namespace vtrace {
namespace {

CpuList parsed(std::string_view text) {
  const auto list = parse_cpu_list(text);
  EXPECT_TRUE(list) << text;
  return list.value_or(CpuList{-1});
}

TEST(CpuList, KeepsNumbersAndGaps) {
  EXPECT_EQ(parsed("0"), (CpuList{0}));
  EXPECT_EQ(parsed("4-5\n"), (CpuList{4, 5}));
  EXPECT_EQ(parsed("0,2-3\n"), (CpuList{0, 2, 3}));
  EXPECT_EQ(parsed("0-3,7"), (CpuList{0, 1, 2, 3, 7}));
  EXPECT_EQ(parsed("8191"), (CpuList{8191}));
}

TEST(CpuList, TakesAnEmptyListAsNoCpus) {
  EXPECT_TRUE(parsed("").empty());
  EXPECT_TRUE(parsed("\n").empty());
  EXPECT_TRUE(parsed(" \n").empty());
}

TEST(CpuList, NamesEachCpuOnceInOrder) {
  EXPECT_EQ(parsed("3,0-1,1,0"), (CpuList{0, 1, 3}));
}

TEST(CpuList, RefusesWhatIsNoList) {
  for (const char* const text :
       {"x", "-1", "-", "1-", "3-1", "1,", ",1", "1,,2", "1 2", "0-3:1/2", "+1", "1x", "0x1",
        "8192", "99999999999999999999", "1-99999999999", "\n0", "1\n2"}) {
    const auto list = parse_cpu_list(text);
    ASSERT_FALSE(list) << text;
    EXPECT_TRUE(list.error().message.starts_with("not a CPU list: ")) << list.error().message;
    EXPECT_EQ(list.error().message.find('\n'), std::string::npos);
  }
}

TEST(CpuList, IsNotTalkedIntoMuchMemoryOrAnEndlessMessage) {
  std::string text;
  while (text.size() < (1U << 20U)) text += "0-8191,";
  text += "0";
  const auto list = parse_cpu_list(text);
  ASSERT_FALSE(list);
  EXPECT_LT(list.error().message.size(), 300U);

  text.clear();
  while (text.size() < 6'000) text += "0-8191,";
  text += "0";
  EXPECT_EQ(parsed(text).size(), 8192U);
}

TEST(CpuList, FormatsRunsAndGaps) {
  EXPECT_EQ(format_cpu_list({}), "");
  EXPECT_EQ(format_cpu_list({5}), "5");
  EXPECT_EQ(format_cpu_list({0, 1}), "0-1");
  EXPECT_EQ(format_cpu_list({0, 2, 3, 4, 9}), "0,2-4,9");
}

TEST(CpuList, ReadsBackWhatItFormats) {
  for (const char* const text : {"", "0", "0-7", "0,2,4,6", "1-3,5,7-4095"})
    EXPECT_EQ(format_cpu_list(parsed(text)), text);
}

}  // namespace
}  // namespace vtrace
