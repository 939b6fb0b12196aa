#include "common/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/crc32c.h"

namespace vtrace {
namespace {

constexpr std::array<std::byte, 4> kMagic = {std::byte{0xf5}, std::byte{'V'}, std::byte{'T'},
                                             std::byte{'C'}};

// How much is taken in before what is in the buffer is dealt with: bounds the buffer.
constexpr std::size_t kFeedPiece = 64U << 10U;

enum class HeaderCheck { valid, invalid, incomplete };

// `at` starts where a header may start; it may be cut off anywhere.
HeaderCheck check_header(std::span<const std::byte> at) {
  const std::size_t seen = std::min(at.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(seen), at.begin()))
    return HeaderCheck::invalid;
  if (at.size() < kFrameHeaderSize) return HeaderCheck::incomplete;
  const std::size_t checked = kFrameHeaderSize - 4;
  if (crc32c(at.first(checked)) != load_u32(at.subspan(checked))) return HeaderCheck::invalid;
  return load_u32(at.subspan(12)) <= kMaxPayload ? HeaderCheck::valid : HeaderCheck::invalid;
}

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
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kFeedPiece));
    bytes = bytes.subspan(piece.size());
    // Moving what is left only when it is the smaller half keeps the cost per byte constant.
    if (head_ > buffer_.size() / 2) {
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    buffer_.insert(buffer_.end(), piece.begin(), piece.end());
    scan();
  }
}

std::optional<ControlItem> ControlDecoder::next() {
  if (items_.empty()) return std::nullopt;
  std::optional<ControlItem> item(std::move(items_.front()));
  items_.pop_front();
  return item;
}

void ControlDecoder::give_up_partial() {
  candidates_.clear();
  by_end_.clear();
  search_ = available();
  read_text(search_);
  orders_.restart();
}

// Headers and ends of candidates are dealt with in the order of their positions, as if the stream
// came one byte at a time.
void ControlDecoder::scan() {
  while (find_header() || end_candidate()) {
  }
  // What lies before the first possible header is no frame for certain.
  read_text(candidates_.empty() ? search_ : candidates_.begin()->first);
}

// Finds the next header that is complete before the first candidate ends; false when there is none.
bool ControlDecoder::find_header() {
  const std::uint64_t limit =
      by_end_.empty() ? available() : std::min(available(), by_end_.begin()->first);
  while (search_ < limit) {
    const auto at = from(search_).first(static_cast<std::size_t>(limit - search_));
    const void* const hit = std::memchr(at.data(), std::to_integer<int>(kMagic[0]), at.size());
    if (hit == nullptr) {
      search_ = limit;
      return false;
    }
    search_ += static_cast<std::uint64_t>(static_cast<const std::byte*>(hit) - at.data());
    const auto header = from(search_).first(static_cast<std::size_t>(limit - search_));
    const HeaderCheck check = check_header(header);
    if (check == HeaderCheck::incomplete) return false;
    if (check == HeaderCheck::valid) {
      Candidate candidate;
      candidate.frame = {load_u16(header.subspan(4)), load_u16(header.subspan(6)),
                         load_u32(header.subspan(8)), Bytes{}};
      candidate.start = search_;
      candidate.end = search_ + kFrameHeaderSize + load_u32(header.subspan(12));
      candidate.payload_crc = load_u32(header.subspan(16));
      add_candidate(std::move(candidate));
      ++search_;
      return true;
    }
    ++search_;
  }
  return false;
}

void ControlDecoder::add_candidate(Candidate candidate) {
  const std::uint64_t payload = candidate.start + kFrameHeaderSize;
  if (candidates_.empty()) {
    crc_ = 0;
    crc_end_ = payload;
  }
  advance_crc(payload);
  candidate.crc_before = crc_;
  by_end_.emplace(candidate.end, candidate.start);
  const std::uint64_t start = candidate.start;
  candidates_.emplace(start, std::move(candidate));
}

// Takes or drops the candidate that ends first; false while its end is not there.
bool ControlDecoder::end_candidate() {
  if (by_end_.empty() || by_end_.begin()->first > available()) return false;
  const std::uint64_t start = by_end_.begin()->second;
  by_end_.erase(by_end_.begin());
  Candidate candidate = std::move(candidates_.extract(start).mapped());
  advance_crc(candidate.end);
  const std::uint64_t payload = start + kFrameHeaderSize;
  const std::uint64_t length = candidate.end - payload;
  if (crc32c_of_tail(crc_, candidate.crc_before, length) != candidate.payload_crc) return true;

  read_text(start);
  orders_.restart();
  const auto content = from(payload).first(static_cast<std::size_t>(length));
  candidate.frame.payload.assign(content.begin(), content.end());
  items_.emplace_back(std::move(candidate.frame));
  // Every other candidate starts before this frame's end, so it was none.
  candidates_.clear();
  by_end_.clear();
  head_ += static_cast<std::size_t>(candidate.end - begin_);
  begin_ = candidate.end;
  search_ = candidate.end;
  return true;
}

void ControlDecoder::advance_crc(std::uint64_t position) {
  if (position <= crc_end_) return;
  crc_ = crc32c(from(crc_end_).first(static_cast<std::size_t>(position - crc_end_)), crc_);
  crc_end_ = position;
}

// Reads what lies before `end` as legacy orders, and is done with it.
void ControlDecoder::read_text(std::uint64_t end) {
  const std::size_t bytes = static_cast<std::size_t>(end - begin_);
  if (legacy_) {
    for (const std::byte byte : from(begin_).first(bytes)) {
      const auto order = orders_.take(static_cast<char>(byte));
      if (order) items_.emplace_back(*order);
    }
  } else {
    skipped_ += bytes;
  }
  head_ += bytes;
  begin_ = end;
}

}  // namespace vtrace
