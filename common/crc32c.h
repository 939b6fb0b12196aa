// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78, as in RFC 3720). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vtrace {

// The CRC of `data`, or of what `seed` is the CRC of followed by `data`.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed = 0);

}  // namespace vtrace
