// Sub-buffers made by hand, event by event, sound or not.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/subbuffer.h"
#include "common/wire.h"

namespace vtrace::test {

inline constexpr std::uint32_t kLostFlag = 1U << 31U;
inline constexpr std::uint32_t kLostCountFlag = 1U << 30U;

class SubbufBuilder {
 public:
  explicit SubbufBuilder(std::uint64_t timestamp, SubbufLayout layout = {})
      : layout_(layout), timestamp_(timestamp) {}

  // An event whose length is in its type field: 1 to 28 words.
  SubbufBuilder& event(std::uint32_t delta, std::span<const std::byte> payload) {
    word(static_cast<std::uint32_t>((payload.size() + 3) / 4), delta);
    return pad(payload);
  }
  // An event whose length is in a word of its own.
  SubbufBuilder& long_event(std::uint32_t delta, std::span<const std::byte> payload) {
    word(0, delta);
    data_.u32(static_cast<std::uint32_t>(payload.size()) + 4);
    return pad(payload);
  }
  SubbufBuilder& discarded(std::uint32_t delta, std::uint32_t bytes) {
    word(29, delta);
    data_.u32(bytes);
    for (std::uint32_t i = 4; i < bytes; ++i) data_.u8(0xdd);
    return *this;
  }
  SubbufBuilder& rest_unused() { return word(29, 0); }
  SubbufBuilder& extend(std::uint64_t delta) { return two_words(30, delta); }
  SubbufBuilder& stamp(std::uint64_t time) { return two_words(31, time); }
  SubbufBuilder& word(std::uint32_t type, std::uint32_t delta) {
    data_.u32(type | (delta << 5U));
    return *this;
  }
  SubbufBuilder& raw_word(std::uint32_t value) {
    data_.u32(value);
    return *this;
  }

  [[nodiscard]] std::uint32_t data_bytes() const {
    return static_cast<std::uint32_t>(data_.size());
  }
  // `commit` replaces the commit word; `behind` is put behind the data.
  [[nodiscard]] Bytes build() const { return build(data_bytes()); }
  [[nodiscard]] Bytes build(std::uint64_t commit, std::uint64_t behind = 0) const {
    Bytes out(layout_.size());
    put(out, layout_.timestamp_offset, timestamp_, 8);
    put(out, layout_.commit_offset, commit, layout_.commit_size);
    std::copy(data_.bytes().begin(), data_.bytes().end(), out.begin() + layout_.data_offset);
    const std::size_t end = layout_.data_offset + data_.size();
    if (behind != 0) put(out, end, behind, layout_.commit_size);
    return out;
  }

 private:
  static void put(Bytes& out, std::size_t at, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      out.at(at + i) = static_cast<std::byte>(value >> (8 * i));
  }
  SubbufBuilder& pad(std::span<const std::byte> payload) {
    data_.raw(payload);
    for (std::size_t i = payload.size(); i % 4 != 0; ++i) data_.u8(0);
    return *this;
  }
  SubbufBuilder& two_words(std::uint32_t type, std::uint64_t value) {
    word(type, static_cast<std::uint32_t>(value & ((1U << 27U) - 1)));
    data_.u32(static_cast<std::uint32_t>(value >> 27U));
    return *this;
  }

  SubbufLayout layout_;
  std::uint64_t timestamp_;
  ByteWriter data_;
};

}  // namespace vtrace::test
