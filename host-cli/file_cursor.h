// Reads numbers and texts one after another from a region of a file, or from bytes in memory that
// came out of one. Little-endian. After a read past the end, or a length above its limit,
// everything reads as 0 or empty and status() has the error, with the byte where it happened: check
// it at the end, and in loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"
#include "common/wire.h"

namespace vtrace {

class FileCursor {
 public:
  // Bytes `offset` to `end` of `fd` (borrowed).
  FileCursor(int fd, std::uint64_t offset, std::uint64_t end, std::string shown);
  // `content`, which was made from what is at `offset` of the file.
  FileCursor(Bytes content, std::uint64_t offset, std::string shown);

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  // `size` bytes; an error when that is above `limit`. `what` names them in errors.
  std::string text(std::uint64_t size, std::uint64_t limit, std::string_view what);
  Bytes bytes(std::uint64_t size, std::uint64_t limit, std::string_view what);
  // Up to a NUL, which is taken too.
  std::string z_string(std::size_t limit, std::string_view what);
  // True, and taken, when these bytes are next; else nothing moves.
  bool skip_if(std::string_view tag);

  void fail_here(std::string_view why);
  void take_error(Error error);
  [[nodiscard]] bool ok() const { return status_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  // Where the next read begins. In memory: where the content began in the file.
  [[nodiscard]] std::uint64_t offset() const;
  [[nodiscard]] std::uint64_t left() const;

 private:
  std::uint64_t number(std::size_t bytes);
  // The next `size` bytes, not taken; empty when they are not there. `size` is below the window's.
  std::span<const std::byte> peek(std::size_t size);
  void copy(std::span<std::byte> into, std::string_view what);
  bool allowed(std::uint64_t size, std::uint64_t limit, std::string_view what);

  int fd_ = -1;
  std::uint64_t next_ = 0;  // offset of the first byte behind the window
  std::uint64_t end_ = 0;
  std::uint64_t memory_offset_ = 0;
  std::string shown_;
  Bytes window_;
  std::size_t at_ = 0;  // in the window
  Status status_;
};

}  // namespace vtrace
