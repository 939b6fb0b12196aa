#include "common/fence.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/crc32c.h"

namespace vtrace {
namespace {

constexpr std::array<std::byte, kFenceMagicSize> make_magic() {
  constexpr std::array<unsigned char, kFenceMagicSize> kBytes = {
      0xf5, 'v', 't', 'r', 'a', 'c', 'e', '-', 'f', 'e', 'n', 'c', 'e', 0x0d, 0x0a, 0x1a};
  std::array<std::byte, kFenceMagicSize> magic{};
  for (std::size_t i = 0; i < kFenceMagicSize; ++i) magic[i] = std::byte{kBytes[i]};
  return magic;
}
constexpr std::array<std::byte, kFenceMagicSize> kMagic = make_magic();

constexpr std::uint32_t kFenceVersion = 1;
// magic, version, kind, run id, cpu, reserved, bytes, sub-buffers; then the CRC.
constexpr std::size_t kFenceBody = kFenceMagicSize + 4 + 4 + 8 + 4 + 4 + 8 + 8;

static_assert(kFenceBody + 4 <= kMinSubbufData,
              "a fence fits the smallest sub-buffer that is believed");

}  // namespace

std::span<const std::byte, kFenceMagicSize> fence_magic() {
  return kMagic;
}

Bytes encode_fence(const SubbufLayout& layout, const Fence& fence) {
  ByteWriter body;
  body.raw(kMagic);
  body.u32(kFenceVersion);
  body.u32(static_cast<std::uint32_t>(fence.kind));
  body.u64(fence.run_id);
  body.u32(fence.cpu);
  body.u32(0);
  body.u64(fence.bytes);
  body.u64(fence.subbufs);
  body.u32(crc32c(body.bytes()));
  Bytes subbuf(layout.size());
  std::ranges::copy(body.bytes(), subbuf.begin() + static_cast<std::ptrdiff_t>(layout.data_offset));
  return subbuf;
}

std::optional<Fence> decode_fence(const SubbufLayout& layout, std::span<const std::byte> subbuf) {
  if (subbuf.size() < layout.size() || layout.data_size < kMinSubbufData) return std::nullopt;
  const auto at = subbuf.subspan(layout.data_offset, layout.data_size);
  if (!std::equal(kMagic.begin(), kMagic.end(), at.begin())) return std::nullopt;
  // A commit other than 0 is event data that happens to hold a fence's bytes.
  if (load_le(subbuf.subspan(layout.commit_offset), layout.commit_size) != 0) return std::nullopt;
  if (load_u32(at.subspan(kFenceBody)) != crc32c(at.first(kFenceBody))) return std::nullopt;
  ByteReader in(at.subspan(kFenceMagicSize));
  if (in.u32() != kFenceVersion) return std::nullopt;
  const std::uint32_t kind = in.u32();
  if (kind != 1 && kind != 2) return std::nullopt;
  Fence fence;
  fence.kind = static_cast<FenceKind>(kind);
  fence.run_id = in.u64();
  fence.cpu = in.u32();
  in.u32();
  fence.bytes = in.u64();
  fence.subbufs = in.u64();
  return fence;
}

}  // namespace vtrace
