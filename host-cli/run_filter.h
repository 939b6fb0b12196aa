// Keeps of one CPU's byte stream what lies between its run's fences. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "common/fence.h"
#include "common/subbuffer.h"
#include "common/wire.h"

namespace vtrace {

// One CPU's data port, from the time the host begins to read. What an earlier run left is thrown
// away up to the begin fence of this run, wherever that starts; then whole sub-buffers are handed
// on, and the end fence ends it. Fences are never handed on.
class RunFilter {
 public:
  // Gets whole sub-buffers in stream order, some at a time. Returns false when it could not take
  // them: the filter then hands on nothing more, but goes on counting.
  using Sink = std::function<bool(std::span<const std::byte>)>;

  RunFilter(const SubbufLayout& layout, std::uint64_t run_id, std::uint32_t cpu)
      : layout_(layout), run_id_(run_id), cpu_(cpu) {}

  void feed(std::span<const std::byte> bytes, const Sink& sink);

  [[nodiscard]] bool begun() const { return begun_; }
  [[nodiscard]] bool ended() const { return end_.has_value(); }
  [[nodiscard]] const std::optional<Fence>& end_fence() const { return end_; }
  // Before the begin fence, and after the end fence.
  [[nodiscard]] std::uint64_t thrown_away() const { return thrown_away_; }
  // Of the run, fences not counted.
  [[nodiscard]] std::uint64_t received_bytes() const { return received_; }
  [[nodiscard]] std::uint64_t kept_bytes() const { return kept_; }
  // Events that the kernel says were lost before a sub-buffer, where it gives a number; and the
  // number of sub-buffers that say so.
  [[nodiscard]] std::uint64_t lost_events() const { return lost_events_; }
  [[nodiscard]] std::uint64_t gaps() const { return gaps_; }
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }
  // Bytes of a sub-buffer whose rest has not come.
  [[nodiscard]] std::size_t partial_bytes() const { return begun_ ? carry_.size() : 0; }

 private:
  // Both take what they can from the front and return how much.
  std::size_t search_begin(std::span<const std::byte> bytes);
  std::size_t take_subbufs(std::span<const std::byte> bytes, const Sink& sink);
  void hand_on(std::span<const std::byte> subbufs, const Sink& sink);
  void look_at_header(std::span<const std::byte> subbuf);

  SubbufLayout layout_;
  std::uint64_t run_id_;
  std::uint32_t cpu_;
  Bytes
      carry_;  // the start of what cannot be judged before more has come; less than two sub-buffers
  bool begun_ = false;
  bool sink_failed_ = false;
  std::optional<Fence> end_;
  std::uint64_t thrown_away_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t kept_ = 0;
  std::uint64_t lost_events_ = 0;
  std::uint64_t gaps_ = 0;
  std::uint64_t damaged_ = 0;
};

}  // namespace vtrace
