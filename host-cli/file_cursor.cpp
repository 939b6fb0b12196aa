#include "host-cli/file_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "host-cli/subbuf_source.h"

namespace vtrace {
namespace {

constexpr std::size_t kWindow = 64U << 10U;

}  // namespace

FileCursor::FileCursor(int fd, std::uint64_t offset, std::uint64_t end, std::string shown)
    : fd_(fd), next_(offset), end_(std::max(offset, end)), shown_(std::move(shown)) {}

FileCursor::FileCursor(Bytes content, std::uint64_t offset, std::string shown)
    : memory_offset_(offset), shown_(std::move(shown)), window_(std::move(content)) {}

std::uint64_t FileCursor::offset() const {
  return fd_ < 0 ? memory_offset_ : next_ - (window_.size() - at_);
}

std::uint64_t FileCursor::left() const {
  return end_ - next_ + (window_.size() - at_);
}

void FileCursor::fail_here(std::string_view why) {
  if (status_) status_ = fail(fmt::format("{}: at byte {}: {}", shown_, offset(), why));
}

void FileCursor::take_error(Error error) {
  if (status_) status_ = std::unexpected(std::move(error));
}

std::span<const std::byte> FileCursor::peek(std::size_t size) {
  const std::size_t have = window_.size() - at_;
  if (have < size && fd_ >= 0 && ok()) {
    window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ = 0;
    const auto more = static_cast<std::size_t>(
        std::min<std::uint64_t>(kWindow - std::min(have, kWindow), end_ - next_));
    window_.resize(have + more);
    auto good = read_exactly(fd_, next_, std::span(window_).subspan(have), shown_);
    if (!good) {
      window_.resize(have);
      status_ = std::move(good);
      return {};
    }
    next_ += more;
  }
  if (window_.size() - at_ < size || !ok()) return {};
  return std::span(window_).subspan(at_, size);
}

std::uint64_t FileCursor::number(std::size_t bytes) {
  const auto here = peek(bytes);
  if (here.empty()) {
    fail_here("the file ends inside a number");
    return 0;
  }
  at_ += bytes;
  return load_le(here, bytes);
}

bool FileCursor::allowed(std::uint64_t size, std::uint64_t limit, std::string_view what) {
  if (!ok()) return false;
  if (size > limit) fail_here(fmt::format("{} of {} bytes is not believed", what, size));
  if (size > left()) fail_here(fmt::format("{} of {} bytes, {} are left", what, size, left()));
  return ok();
}

void FileCursor::copy(std::span<std::byte> into, std::string_view what) {
  const std::size_t here = std::min(into.size(), window_.size() - at_);
  if (here > 0) std::memcpy(into.data(), window_.data() + at_, here);
  at_ += here;
  into = into.subspan(here);
  if (into.empty()) return;
  auto good = read_exactly(fd_, next_, into, shown_);
  if (!good) status_ = add_context(good.error(), what);
  next_ += into.size();
}

std::string FileCursor::text(std::uint64_t size, std::uint64_t limit, std::string_view what) {
  std::string text;
  if (!allowed(size, limit, what)) return text;
  text.resize(static_cast<std::size_t>(size));
  copy(std::as_writable_bytes(std::span(text)), what);
  return text;
}

Bytes FileCursor::bytes(std::uint64_t size, std::uint64_t limit, std::string_view what) {
  Bytes bytes;
  if (!allowed(size, limit, what)) return bytes;
  bytes.resize(static_cast<std::size_t>(size));
  copy(bytes, what);
  return bytes;
}

std::string FileCursor::z_string(std::size_t limit, std::string_view what) {
  std::string text;
  for (;;) {
    const std::uint8_t next = u8();
    if (next == 0) break;
    if (text.size() == limit) {
      fail_here(fmt::format("{} is too long", what));
      break;
    }
    text.push_back(static_cast<char>(next));
  }
  return ok() ? text : std::string();
}

bool FileCursor::skip_if(std::string_view tag) {
  const auto here = peek(tag.size());
  if (here.empty() || as_text(here) != tag) return false;
  at_ += tag.size();
  return true;
}

}  // namespace vtrace
