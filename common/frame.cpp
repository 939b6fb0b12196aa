#include "common/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/crc32c.h"

namespace vtrace {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{0xf5}, std::byte{'V'}, std::byte{'T'},
                                             std::byte{'C'}};

enum class HeaderCheck { valid, invalid, incomplete };

struct Header {
  std::uint16_t version = 0;
  std::uint16_t type = 0;
  std::uint32_t request_id = 0;
  std::uint32_t length = 0;
  std::uint32_t payload_crc = 0;
};

// `at` starts where a header may start; it may be cut off anywhere.
HeaderCheck check_header(std::span<const std::byte> at, Header& header) {
  const std::size_t seen = std::min(at.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(seen), at.begin()))
    return HeaderCheck::invalid;
  if (at.size() < kFrameHeaderSize) return HeaderCheck::incomplete;
  if (crc32c(at.first(kFrameHeaderSize - 4)) != load_u32(at.subspan(kFrameHeaderSize - 4)))
    return HeaderCheck::invalid;
  header = {load_u16(at.subspan(4)), load_u16(at.subspan(6)), load_u32(at.subspan(8)),
            load_u32(at.subspan(12)), load_u32(at.subspan(16))};
  return header.length <= kMaxPayload ? HeaderCheck::valid : HeaderCheck::invalid;
}

std::optional<LegacyOrder> order_of(std::byte byte) {
  if (byte == std::byte{'1'}) return LegacyOrder::start;
  if (byte == std::byte{'0'}) return LegacyOrder::stop;
  return std::nullopt;
}

constexpr std::byte kNewline{'\n'};

}  // namespace

Bytes encode_frame(const Frame& frame) {
  ByteWriter out;
  out.raw(kMagic);
  out.u16(frame.version);
  out.u16(frame.type);
  out.u32(frame.request_id);
  out.u32(static_cast<std::uint32_t>(frame.payload.size()));
  out.u32(crc32c(frame.payload));
  out.u32(crc32c(out.bytes()));
  out.raw(frame.payload);
  return out.take();
}

void ControlDecoder::feed(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  scan();
}

std::optional<ControlItem> ControlDecoder::next() {
  if (items_.empty()) return std::nullopt;
  ControlItem item = std::move(items_.front());
  items_.pop_front();
  return item;
}

void ControlDecoder::give_up_partial() {
  if (buffer_.empty()) return;
  candidates_.clear();
  scan_text(buffer_.size(), true);
  consume(buffer_.size());
  dirty_ = false;
  at_line_start_ = true;
}

// Drops the first `bytes` of the buffer; offsets move along.
void ControlDecoder::consume(std::size_t bytes) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
  searched_ = searched_ > bytes ? searched_ - bytes : 0;
  while (!candidates_.empty() && candidates_.front() < bytes) candidates_.pop_front();
  for (std::size_t& offset : candidates_) offset -= bytes;
}

void ControlDecoder::scan() {
  do {
    find_candidates();
  } while (take_frame());
  // What lies before the first possible header is text or rubbish for certain.
  const std::size_t certain =
      candidates_.empty() ? searched_ : std::min(candidates_.front(), searched_);
  consume(scan_text(certain, false));
}

// Searches the bytes that are new for headers.
void ControlDecoder::find_candidates() {
  while (searched_ < buffer_.size()) {
    const std::byte* const start = buffer_.data() + searched_;
    const auto* const hit = static_cast<const std::byte*>(
        std::memchr(start, std::to_integer<int>(kMagic[0]), buffer_.size() - searched_));
    if (hit == nullptr) {
      searched_ = buffer_.size();
      return;
    }
    searched_ += static_cast<std::size_t>(hit - start);
    Header header;
    const HeaderCheck check = check_header(std::span(buffer_).subspan(searched_), header);
    if (check == HeaderCheck::incomplete) return;
    if (check == HeaderCheck::valid) candidates_.push_back(searched_);
    ++searched_;
  }
}

// Takes the first candidate that is whole, whatever lies before it; false when there is none.
bool ControlDecoder::take_frame() {
  for (auto candidate = candidates_.begin(); candidate != candidates_.end();) {
    Header header;
    const auto at = std::span<const std::byte>(buffer_).subspan(*candidate);
    check_header(at, header);
    if (at.size() - kFrameHeaderSize < header.length) {
      ++candidate;
      continue;
    }
    const auto payload = at.subspan(kFrameHeaderSize, header.length);
    if (crc32c(payload) != header.payload_crc) {
      candidate = candidates_.erase(candidate);
      continue;
    }
    const std::size_t start = *candidate;
    Frame frame{header.version, header.type, header.request_id,
                Bytes(payload.begin(), payload.end())};
    scan_text(start, true);
    items_.emplace_back(std::move(frame));
    dirty_ = false;
    at_line_start_ = true;
    consume(start + kFrameHeaderSize + header.length);
    return true;
  }
  return false;
}

// Reads legacy orders in the first `limit` bytes of the buffer and counts the rest as skipped.
// Returns how many bytes it has dealt with: all, unless a digit after rubbish still waits for its
// newline.
std::size_t ControlDecoder::scan_text(std::size_t limit, bool final_part) {
  std::size_t at = 0;
  while (at < limit) {
    const std::byte byte = buffer_[at];
    const auto order = legacy_ ? order_of(byte) : std::nullopt;
    if (!dirty_ && (order || byte == kNewline || byte == std::byte{'\r'})) {
      if (order) items_.emplace_back(*order);
      if (!legacy_) ++skipped_;
      ++at;
      continue;
    }
    if (dirty_ && order && at_line_start_) {
      // After rubbish an order must be a whole line.
      const bool known = at + 1 < limit;
      if (!known && !final_part && at + 1 >= buffer_.size()) return at;
      if (known && buffer_[at + 1] == kNewline) {
        items_.emplace_back(*order);
        dirty_ = false;
        at += 2;
        continue;
      }
    }
    dirty_ = true;
    at_line_start_ = byte == kNewline;
    ++skipped_;
    ++at;
  }
  return at;
}

}  // namespace vtrace
