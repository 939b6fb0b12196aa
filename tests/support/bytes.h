// Bytes for tests: from text, from hex, back to hex.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "common/wire.h"

namespace vtrace::test {

// The bytes of a text; a literal's NULs count when it is given with the sv suffix.
[[nodiscard]] Bytes bytes_of(std::string_view text);
[[nodiscard]] std::string text_of(std::span<const std::byte> bytes);

// Hex digits in pairs; white space between them is passed over. Fails the test on anything else.
[[nodiscard]] Bytes from_hex(std::string_view hex);
[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);

[[nodiscard]] Bytes operator+(Bytes left, std::span<const std::byte> right);

// For ASSERT_TRUE(result) << why(result);
template <typename T>
[[nodiscard]] std::string why(const Result<T>& result) {
  return result ? std::string("no error") : result.error().message;
}

}  // namespace vtrace::test
