#include "common/crc32c.h"

#include <array>

namespace vtrace {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1U) != 0 ? (value >> 1U) ^ kPolynomial : value >> 1U;
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

// A CRC is a polynomial over GF(2), modulo kPolynomial; reflected, so bit 31 is x^0.
constexpr std::uint32_t kOne = 1U << 31U;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1U) != 0 ? (b >> 1U) ^ kPolynomial : b >> 1U;
  }
  return product;
}

// Element k is x^(8 * 2^k): what a CRC is multiplied by when 2^k bytes follow.
constexpr std::array<std::uint32_t, 64> make_byte_powers() {
  std::array<std::uint32_t, 64> powers{};
  powers[0] = kOne >> 8U;
  for (std::size_t k = 1; k < powers.size(); ++k)
    powers[k] = multiply(powers[k - 1], powers[k - 1]);
  return powers;
}

constexpr std::array<std::uint32_t, 64> kBytePowers = make_byte_powers();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  for (const std::byte byte : data)
    crc = (crc >> 8U) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xffU];
  return ~crc;
}

std::uint32_t crc32c_of_tail(std::uint32_t whole, std::uint32_t head, std::uint64_t tail_bytes) {
  // crc(head tail) = crc(head) * x^(8 * tail_bytes) + crc(tail)
  for (std::size_t k = 0; tail_bytes != 0; ++k, tail_bytes >>= 1U) {
    if ((tail_bytes & 1U) != 0) head = multiply(kBytePowers[k], head);
  }
  return whole ^ head;
}

}  // namespace vtrace
