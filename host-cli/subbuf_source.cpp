#include "host-cli/subbuf_source.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/wire.h"

namespace vtrace {
namespace {

constexpr std::size_t kWindow = 128U << 10U;
// Larger chunks than this are not believed: memory is bounded by them.
constexpr std::uint32_t kMaxChunk = 64U << 20U;
constexpr std::size_t kChunkHeader = 8;

class PlainSource final : public SubbufSource {
 public:
  PlainSource(int fd, std::uint64_t offset, std::uint64_t size, std::uint32_t subbuf_size,
              std::string shown)
      : fd_(fd),
        offset_(offset),
        size_(size),
        subbuf_size_(subbuf_size),
        shown_(std::move(shown)),
        // Whole sub-buffers, and not more memory than there is data.
        window_size_(static_cast<std::size_t>(std::min<std::uint64_t>(
            std::max<std::size_t>(kWindow / subbuf_size, 1) * subbuf_size, size))) {}

  Result<SubbufPiece> next() override {
    if (at_ >= size_) return SubbufPiece{{}, at_};
    if (at_ < window_start_ || at_ >= window_start_ + window_used_) VTRACE_CHECK(fill());
    const std::size_t in_window = static_cast<std::size_t>(at_ - window_start_);
    const std::size_t bytes = std::min<std::size_t>(subbuf_size_, window_used_ - in_window);
    const SubbufPiece piece{std::span(window_).subspan(in_window, bytes), at_};
    at_ += bytes;
    return piece;
  }

  void rewind() override { at_ = 0; }
  [[nodiscard]] std::uint64_t size() const override { return size_; }

 private:
  Status fill() {
    window_.resize(window_size_);
    window_start_ = at_;
    window_used_ = static_cast<std::size_t>(std::min<std::uint64_t>(window_size_, size_ - at_));
    auto good = read_exactly(fd_, offset_ + at_, std::span(window_).first(window_used_), shown_);
    if (!good) {
      at_ += window_used_;
      window_used_ = 0;
    }
    return good;
  }

  int fd_;
  std::uint64_t offset_;
  std::uint64_t size_;
  std::uint32_t subbuf_size_;
  std::string shown_;
  std::size_t window_size_;
  std::vector<std::byte> window_;
  std::uint64_t window_start_ = 0;
  std::size_t window_used_ = 0;
  std::uint64_t at_ = 0;
};

struct Chunk {
  std::uint64_t file_offset = 0;  // of its zstd frame
  std::uint64_t data_offset = 0;  // of its first byte in the CPU's data
  std::uint32_t stored = 0;
  std::uint32_t content = 0;
};

class ZstdSource final : public SubbufSource {
 public:
  ZstdSource(int fd, std::uint32_t subbuf_size, std::string shown, std::vector<Chunk> chunks)
      : fd_(fd), subbuf_size_(subbuf_size), shown_(std::move(shown)), chunks_(std::move(chunks)) {}

  Result<SubbufPiece> next() override {
    while (at_ == content_.size()) {
      if (chunk_ == chunks_.size()) return SubbufPiece{{}, size()};
      VTRACE_CHECK(load(chunks_[chunk_++]));
    }
    const std::size_t bytes = std::min<std::size_t>(subbuf_size_, content_.size() - at_);
    const SubbufPiece piece{std::span(content_).subspan(at_, bytes), content_offset_ + at_};
    at_ += bytes;
    return piece;
  }

  void rewind() override {
    chunk_ = at_ = 0;
    content_.clear();
  }
  [[nodiscard]] std::uint64_t size() const override {
    return chunks_.empty() ? 0 : chunks_.back().data_offset + chunks_.back().content;
  }

 private:
  Status load(const Chunk& chunk) {
    at_ = 0;
    content_.clear();  // where something fails below, this chunk is skipped
    frame_.resize(chunk.stored);
    VTRACE_CHECK(read_exactly(fd_, chunk.file_offset, frame_, shown_));
    std::vector<std::byte> content(std::move(spare_));
    content.resize(chunk.content);
    auto good = zstd_decompress(frame_, content,
                                fmt::format("{}: chunk at byte {}", shown_, chunk.file_offset));
    spare_ = std::move(content_);
    if (!good) return good;
    content_ = std::move(content);
    content_offset_ = chunk.data_offset;
    return {};
  }

  int fd_;
  std::uint32_t subbuf_size_;
  std::string shown_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0;
  std::vector<std::byte> frame_;
  std::vector<std::byte> content_;
  std::vector<std::byte> spare_;  // keeps its memory between chunks
  std::uint64_t content_offset_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<SubbufSource> make_plain_source(int fd, std::uint64_t offset, std::uint64_t size,
                                                std::uint32_t subbuf_size, std::string shown) {
  return std::make_unique<PlainSource>(fd, offset, size, subbuf_size, std::move(shown));
}

Result<std::unique_ptr<SubbufSource>> make_zstd_source(int fd, std::uint64_t offset,
                                                       std::uint64_t size,
                                                       std::uint32_t subbuf_size,
                                                       std::string shown) {
  std::vector<Chunk> chunks;
  std::uint64_t at = offset;
  // Some writers give a size that leaves out the count's own four bytes.
  const std::uint64_t end = offset + size + sizeof(std::uint32_t);
  std::uint32_t count = 0;
  if (size > 0) {
    std::array<std::byte, 4> word{};
    VTRACE_CHECK(read_exactly(fd, at, word, shown));
    count = load_u32(word);
    at += word.size();
  }
  std::uint64_t data_offset = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::array<std::byte, kChunkHeader> header{};
    if (end - at < header.size())
      return fail(
          fmt::format("{}: at byte {}: chunk {} of {} is past the end", shown, at, i, count));
    VTRACE_CHECK(read_exactly(fd, at, header, shown));
    const Chunk chunk{.file_offset = at + header.size(),
                      .data_offset = data_offset,
                      .stored = load_u32(header),
                      .content = load_u32(std::span(header).subspan(4))};
    at += header.size();
    if (chunk.stored > end - at || chunk.stored > kMaxChunk || chunk.content > kMaxChunk) {
      return fail(fmt::format("{}: at byte {}: a chunk of {} bytes for {} is out of range", shown,
                              at - header.size(), chunk.stored, chunk.content));
    }
    at += chunk.stored;
    data_offset += chunk.content;
    chunks.push_back(chunk);
  }
  return std::make_unique<ZstdSource>(fd, subbuf_size, std::move(shown), std::move(chunks));
}

Status read_exactly(int fd, std::uint64_t offset, std::span<std::byte> into,
                    const std::string& shown) {
  for (std::size_t done = 0; done < into.size();) {
    const ssize_t got =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(fmt::format("{}: at byte {}", shown, offset + done), errno);
    if (got == 0) return fail(fmt::format("{}: ends at byte {}", shown, offset + done));
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Status zstd_decompress(std::span<const std::byte> frame, std::span<std::byte> into,
                       const std::string& shown) {
  const std::size_t got = ZSTD_decompress(into.data(), into.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0)
    return fail(fmt::format("{}: cannot be decompressed: {}", shown, ZSTD_getErrorName(got)));
  if (got != into.size())
    return fail(fmt::format("{}: holds {} bytes, not {}", shown, got, into.size()));
  return {};
}

}  // namespace vtrace
