// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78, as in RFC 3720). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vtrace {

// The CRC of `data`, or of what `seed` is the CRC of followed by `data`.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t seed = 0);

// The CRC of the last `tail_bytes` bytes of data whose CRC is `whole`, where `head` is the CRC of
// what comes before them. Takes the same few steps for any length, so the CRCs of many overlapping
// pieces of a stream cost one pass over it.
[[nodiscard]] std::uint32_t crc32c_of_tail(std::uint32_t whole, std::uint32_t head,
                                           std::uint64_t tail_bytes);

}  // namespace vtrace
