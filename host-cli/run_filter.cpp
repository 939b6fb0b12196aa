#include "host-cli/run_filter.h"

#include <algorithm>
#include <cstring>

namespace vtrace {

void RunFilter::feed(std::span<const std::byte> bytes, const Sink& sink) {
  // Finish the sub-buffer that an earlier feed left unfinished before working in place.
  while (!bytes.empty() && !carry_.empty()) {
    const std::size_t wanted = layout_.size() - carry_.size() % layout_.size();
    const std::size_t taken = std::min(wanted, bytes.size());
    carry_.insert(carry_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    const Bytes whole = std::move(carry_);
    carry_ = {};
    std::size_t used = begun_ ? 0 : search_begin(whole);
    if (begun_) used += take_subbufs(std::span(whole).subspan(used), sink);
    carry_.assign(whole.begin() + static_cast<std::ptrdiff_t>(used), whole.end());
    if (taken < wanted) return;
  }
  if (!begun_) bytes = bytes.subspan(search_begin(bytes));
  if (begun_) bytes = bytes.subspan(take_subbufs(bytes, sink));
  carry_.insert(carry_.end(), bytes.begin(), bytes.end());
}

// Throws away up to this run's begin fence. What is left over holds less than a whole fence.
std::size_t RunFilter::search_begin(std::span<const std::byte> bytes) {
  const auto magic = fence_magic();
  std::size_t from = 0;
  while (bytes.size() - from >= layout_.size()) {
    const std::size_t window = bytes.size() - from - layout_.data_offset;
    const auto* const start = bytes.data() + from + layout_.data_offset;
    const void* const hit = ::memmem(start, window, magic.data(), magic.size());
    if (hit == nullptr) {
      // A magic that is cut off, or one whose header we still hold, may start in the last bytes.
      from = bytes.size() -
             std::min(bytes.size() - from, std::size_t{layout_.data_offset} + magic.size() - 1);
      break;
    }
    from += static_cast<std::size_t>(static_cast<const std::byte*>(hit) - start);
    if (bytes.size() - from < layout_.size()) break;
    const auto fence = decode_fence(layout_, bytes.subspan(from, layout_.size()));
    if (fence && fence->kind == FenceKind::begin && fence->run_id == run_id_ &&
        fence->cpu == cpu_) {
      begun_ = true;
      thrown_away_ += from;
      return from + layout_.size();
    }
    ++from;
  }
  thrown_away_ += from;
  return from;
}

std::size_t RunFilter::take_subbufs(std::span<const std::byte> bytes, const Sink& sink) {
  const std::size_t unit = layout_.size();
  const std::size_t whole = bytes.size() / unit * unit;
  if (end_) {
    thrown_away_ += bytes.size();
    return bytes.size();
  }
  for (std::size_t at = 0; at < whole; at += unit) {
    const auto subbuf = bytes.subspan(at, unit);
    const auto fence = decode_fence(layout_, subbuf);
    if (!fence || fence->run_id != run_id_ || fence->kind != FenceKind::end) {
      look_at_header(subbuf);
      continue;
    }
    hand_on(bytes.first(at), sink);
    end_ = fence;
    thrown_away_ += bytes.size() - at - unit;
    return bytes.size();
  }
  hand_on(bytes.first(whole), sink);
  return whole;
}

void RunFilter::hand_on(std::span<const std::byte> subbufs, const Sink& sink) {
  if (subbufs.empty()) return;
  received_ += subbufs.size();
  if (sink_failed_) return;
  if (sink(subbufs)) {
    kept_ += subbufs.size();
  } else {
    sink_failed_ = true;
  }
}

void RunFilter::look_at_header(std::span<const std::byte> subbuf) {
  const auto header = read_subbuf_header(layout_, subbuf);
  if (!header) {
    ++damaged_;
    return;
  }
  if (header->events_lost) ++gaps_;
  lost_events_ += header->lost_events.value_or(0);
}

}  // namespace vtrace
