#pragma once

// Base64 for the line protocol between the test harness and command_server.cpp: both ends include
// this one file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vtrace::test {

inline constexpr std::string_view kBase64Digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// With padding; "" gives "=", since the protocol separates its words by spaces and so has no empty
// ones.
inline std::string to_base64(std::string_view data) {
  if (data.empty()) {
    return "=";
  }
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : data) {
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) {
      text += kBase64Digits[(bits >> static_cast<unsigned>(count - 6)) & 63U];
    }
  }
  if (count > 0) {
    text += kBase64Digits[(bits << static_cast<unsigned>(6 - count)) & 63U];
  }
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

// std::nullopt for what is not base64.
inline std::optional<std::string> from_base64(std::string_view text) {
  std::string data;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const auto digit = kBase64Digits.find(c);
    if (digit == std::string_view::npos) {
      return std::nullopt;
    }
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      data += static_cast<char>((bits >> static_cast<unsigned>(count)) & 255U);
    }
  }
  return data;
}

}  // namespace vtrace::test
