// One CPU's sub-buffers in a file, read a bounded window at a time: stored as they are (raw
// captures, trace.dat without compression) or in zstd chunks (trace.dat version 7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"

namespace vtrace {

struct SubbufPiece {
  std::span<const std::byte> bytes;  // one sub-buffer; shorter where the data was cut off
  std::uint64_t offset = 0;          // of its first byte in this CPU's data, uncompressed
};

class SubbufSource {
 public:
  virtual ~SubbufSource() = default;

  // The next sub-buffer, valid until the next call; empty `bytes` at the end. An error is a place
  // that cannot be read: the call after it goes on behind that place.
  [[nodiscard]] virtual Result<SubbufPiece> next() = 0;
  // Back to the first sub-buffer.
  virtual void rewind() = 0;
  // Bytes of this CPU's data, uncompressed.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
};

// `size` bytes at `offset` of `fd`, which is borrowed and must outlive the source.
[[nodiscard]] std::unique_ptr<SubbufSource> make_plain_source(int fd, std::uint64_t offset,
                                                              std::uint64_t size,
                                                              std::uint32_t subbuf_size,
                                                              std::string shown);

// zstd chunks within `size` bytes at `offset` of `fd`. The chunks' headers are read and checked
// here, their content when it is asked for.
[[nodiscard]] Result<std::unique_ptr<SubbufSource>> make_zstd_source(int fd, std::uint64_t offset,
                                                                     std::uint64_t size,
                                                                     std::uint32_t subbuf_size,
                                                                     std::string shown);

// pread(2) of exactly `into.size()` bytes; an error names `shown` and the offset.
[[nodiscard]] Status read_exactly(int fd, std::uint64_t offset, std::span<std::byte> into,
                                  const std::string& shown);

// What a zstd frame holds, which must be exactly `size` bytes.
[[nodiscard]] Status zstd_decompress(std::span<const std::byte> frame, std::span<std::byte> into,
                                     const std::string& shown);

}  // namespace vtrace
