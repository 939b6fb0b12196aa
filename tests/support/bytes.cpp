#include "tests/support/bytes.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>

namespace vtrace::test {
namespace {

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

}  // namespace

Bytes bytes_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(as_text(bytes));
}

Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  std::optional<unsigned> high;
  for (const char c : hex) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    const auto digit = digit_of(c);
    if (!digit) {
      ADD_FAILURE() << "not hex: '" << c << "'";
      return {};
    }
    if (high) {
      bytes.push_back(static_cast<std::byte>(*high * 16 + *digit));
      high.reset();
    } else {
      high = digit;
    }
  }
  EXPECT_FALSE(high) << "an odd number of hex digits";
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return hex;
}

Bytes operator+(Bytes left, std::span<const std::byte> right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace vtrace::test
