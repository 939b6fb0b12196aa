// Little-endian numbers and counted strings: what the control protocol, the fences and the file
// writers are made of. Pure.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vtrace {

using Bytes = std::vector<std::byte>;

// `at` holds at least as many bytes as are loaded.
[[nodiscard]] inline std::uint64_t load_le(std::span<const std::byte> at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
  return value;
}
[[nodiscard]] inline std::uint16_t load_u16(std::span<const std::byte> at) {
  return static_cast<std::uint16_t>(load_le(at, 2));
}
[[nodiscard]] inline std::uint32_t load_u32(std::span<const std::byte> at) {
  return static_cast<std::uint32_t>(load_le(at, 4));
}
[[nodiscard]] inline std::uint64_t load_u64(std::span<const std::byte> at) {
  return load_le(at, 8);
}

[[nodiscard]] inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Appends to a buffer that it owns.
class ByteWriter {
 public:
  void u8(std::uint8_t value) { le(value, 1); }
  void u16(std::uint16_t value) { le(value, 2); }
  void u32(std::uint32_t value) { le(value, 4); }
  void u64(std::uint64_t value) { le(value, 8); }
  void raw(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void raw(std::string_view text) { raw(as_bytes(text)); }
  // u32 length, then the bytes.
  void text(std::string_view text) {
    u32(static_cast<std::uint32_t>(text.size()));
    raw(text);
  }

  [[nodiscard]] std::size_t size() const { return out_.size(); }
  [[nodiscard]] const Bytes& bytes() const { return out_; }
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  void le(std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  Bytes out_;
};

// Reads from a borrowed span. After a read past the end everything reads as 0 or empty and ok() is
// false: check once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> in) : in_(in) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(le(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(le(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(le(4)); }
  std::uint64_t u64() { return le(8); }
  std::span<const std::byte> raw(std::size_t bytes) {
    if (bytes > in_.size()) {
      ok_ = false;
      in_ = {};
      return {};
    }
    const auto taken = in_.first(bytes);
    in_ = in_.subspan(bytes);
    return taken;
  }
  std::string text() {
    const std::uint32_t length = u32();
    return std::string(as_text(raw(length)));
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::size_t left() const { return in_.size(); }

 private:
  std::uint64_t le(std::size_t bytes) {
    const auto taken = raw(bytes);
    return taken.empty() ? 0 : load_le(taken, bytes);
  }
  std::span<const std::byte> in_;
  bool ok_ = true;
};

}  // namespace vtrace
