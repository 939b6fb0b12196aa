// Fences: what marks, on a data port, where a run's data begins and ends. Pure.
// A fence is one sub-buffer with commit 0, so any decoder sees an empty one; its unused data area
// carries what is below. docs/protocol.md is normative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/subbuffer.h"
#include "common/wire.h"

namespace vtrace {

enum class FenceKind : std::uint32_t { begin = 1, end = 2 };

struct Fence {
  FenceKind kind = FenceKind::begin;
  std::uint64_t run_id = 0;
  std::uint32_t cpu = 0;
  // Of this run on this port, fences not counted; 0 in a begin fence.
  std::uint64_t bytes = 0;
  std::uint64_t subbufs = 0;

  bool operator==(const Fence&) const = default;
};

// What a search for a fence in a byte stream looks for, and where in the fence it stands: at the
// sub-buffer layout's data_offset.
inline constexpr std::size_t kFenceMagicSize = 16;
[[nodiscard]] std::span<const std::byte, kFenceMagicSize> fence_magic();

// One sub-buffer of `layout.size()` bytes. `layout` is one that parse_header_page believes.
[[nodiscard]] Bytes encode_fence(const SubbufLayout& layout, const Fence& fence);
// The fence in a sub-buffer; nothing when it is none or damaged.
[[nodiscard]] std::optional<Fence> decode_fence(const SubbufLayout& layout,
                                                std::span<const std::byte> subbuf);

}  // namespace vtrace
