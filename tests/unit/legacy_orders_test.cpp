#include "common/legacy_orders.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace vtrace {
namespace {

// The orders of a text as "1" and "0", in order.
std::string orders_in(std::string_view text, LegacyOrderScanner& scanner) {
  std::string orders;
  for (const char c : text) {
    if (const auto order = scanner.take(c)) orders += *order == LegacyOrder::start ? '1' : '0';
  }
  return orders;
}
std::string orders_in(std::string_view text) {
  LegacyOrderScanner scanner;
  return orders_in(text, scanner);
}

TEST(LegacyOrders, AreTakenWithAndWithoutTheirNewline) {
  EXPECT_EQ(orders_in("1"), "1");
  EXPECT_EQ(orders_in("1\n"), "1");
  EXPECT_EQ(orders_in("0\r\n"), "0");
  EXPECT_EQ(orders_in("\n\n1\n"), "1");
}

TEST(LegacyOrders, MayComeSeveralAtOnce) {
  EXPECT_EQ(orders_in("1\n0\n"), "10");
  EXPECT_EQ(orders_in("10"), "10");
  EXPECT_EQ(orders_in("0\n1"), "01");
  EXPECT_EQ(orders_in("1\r\n0\r\n1\r\n"), "101");
}

TEST(LegacyOrders, CostNoSkippedBytes) {
  LegacyOrderScanner scanner;
  EXPECT_EQ(orders_in("1\n0\r\n10", scanner), "1010");
  EXPECT_EQ(scanner.skipped_bytes(), 0U);
  EXPECT_FALSE(scanner.unfinished());
}

TEST(LegacyOrders, AfterRubbishMustBeWholeLines) {
  EXPECT_EQ(orders_in("x1\n"), "");
  EXPECT_EQ(orders_in("x1\n1\n"), "1");
  EXPECT_EQ(orders_in("x\n1"), "");
  EXPECT_EQ(orders_in("x\n1\n"), "1");
  EXPECT_EQ(orders_in("x\n1\r\n0"), "10");
  EXPECT_EQ(orders_in("x\n10\n1\n"), "1");
  EXPECT_EQ(orders_in("x\n1\r0\n"), "");
  EXPECT_EQ(orders_in("x\n 1\n"), "");
  EXPECT_EQ(orders_in("x\n\n0\n"), "0");
}

TEST(LegacyOrders, AfterSuchALineAreFreeAgain) {
  EXPECT_EQ(orders_in("x\n1\n0"), "10");
  EXPECT_EQ(orders_in("x\n1\n01"), "101");
}

TEST(LegacyOrders, CountEveryOtherByteOnce) {
  for (const auto& [text, skipped] : {std::pair{"x1\n", 3U},
                                      {"2\n", 2U},
                                      {"x\n1\n", 2U},
                                      {"x\n1y", 4U},
                                      {"x\n1\ry", 5U},
                                      {"x\n11\n", 5U}}) {
    LegacyOrderScanner scanner;
    (void)orders_in(text, scanner);
    EXPECT_EQ(scanner.skipped_bytes(), skipped) << text;
  }
}

TEST(LegacyOrders, BeginAfreshAfterARestart) {
  LegacyOrderScanner scanner;
  EXPECT_EQ(orders_in("rubbish", scanner), "");
  EXPECT_TRUE(scanner.unfinished());
  scanner.restart();
  EXPECT_FALSE(scanner.unfinished());
  EXPECT_EQ(orders_in("1", scanner), "1");
  EXPECT_EQ(scanner.skipped_bytes(), 7U);
}

TEST(LegacyOrders, LoseAWaitingDigitAtARestartAndCountIt) {
  for (const auto& [text, skipped] : {std::pair{"x\n1", 3U}, {"x\n1\r", 4U}}) {
    LegacyOrderScanner scanner;
    EXPECT_EQ(orders_in(text, scanner), "");
    EXPECT_TRUE(scanner.unfinished());
    scanner.restart();
    EXPECT_EQ(scanner.skipped_bytes(), skipped);
    EXPECT_EQ(orders_in("\n0", scanner), "0");
  }
}

}  // namespace
}  // namespace vtrace
