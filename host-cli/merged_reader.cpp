#include "host-cli/merged_reader.h"

#include <algorithm>
#include <utility>

namespace vtrace {
namespace {

constexpr std::uint64_t kDamageKept = 16;  // for each CPU

}  // namespace

MergedReader::MergedReader(const SubbufLayout& layout, std::vector<CpuInput> inputs,
                           const TimeCorrection* correction)
    : correction_(correction != nullptr && correction->none() ? nullptr : correction) {
  streams_.reserve(inputs.size());
  for (CpuInput& input : inputs) streams_.emplace_back(input.cpu, std::move(input.source), layout);
}

bool MergedReader::next(MergedEvent& event) {
  if (!started_) {
    started_ = true;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (advance(streams_[i])) heap_.push_back(i);
    }
    for (std::size_t at = heap_.size() / 2; at-- > 0;) sift_down(at);
  } else if (top_given_) {
    top_given_ = false;
    if (!advance(streams_[heap_.front()])) {
      heap_.front() = heap_.back();
      heap_.pop_back();
    }
    sift_down(0);
  }
  if (heap_.empty()) return false;
  Stream& stream = streams_[heap_.front()];
  event.cpu = stream.tally.cpu;
  event.time = stream.time;
  event.payload = stream.event.payload;
  event.gap = std::exchange(stream.gap, {});
  top_given_ = true;
  return true;
}

bool MergedReader::advance(Stream& stream) {
  while (!stream.walker.next(stream.event)) {
    if (const auto& damage = stream.walker.damage(); damage)
      note_damage(stream, stream.subbuf_offset + damage->offset, damage->what);
    if (!open_next_subbuf(stream)) return false;
  }
  const std::uint64_t before = stream.time;
  stream.time = correction_ == nullptr ? stream.event.time
                                       : correction_->apply(stream.tally.cpu, stream.event.time);
  CpuTally& tally = stream.tally;
  if (tally.events++ > 0 && stream.time < before) ++tally.time_back;
  if (!tally.first_time || stream.time < *tally.first_time) tally.first_time = stream.time;
  if (!tally.last_time || stream.time > *tally.last_time) tally.last_time = stream.time;
  return true;
}

bool MergedReader::open_next_subbuf(Stream& stream) {
  for (;;) {
    auto piece = stream.source->next();
    if (!piece) {
      note_damage(stream, stream.subbuf_offset, std::move(piece.error().message));
      continue;
    }
    if (piece->bytes.empty()) return false;
    stream.subbuf_offset = piece->offset;
    stream.walker.open(piece->bytes);
    ++stream.tally.subbufs;
    if (stream.walker.events_lost()) note_loss(stream);
    return true;
  }
}

void MergedReader::note_loss(Stream& stream) {
  const auto count = stream.walker.lost_events();
  EventGap& gap = stream.gap;
  gap.count_known = count.has_value() && (!gap.lost || gap.count_known);
  gap.lost = true;
  gap.lost_events += count.value_or(0);
  stream.tally.lost_events += count.value_or(0);
  if (!count) ++stream.tally.lost_unknown;
}

void MergedReader::note_damage(Stream& stream, std::uint64_t offset, std::string what) {
  stream.gap.damaged = true;
  if (stream.tally.damaged++ < kDamageKept)
    damage_.push_back({stream.tally.cpu, offset, std::move(what)});
}

bool MergedReader::before(std::size_t a, std::size_t b) const {
  const std::uint64_t time_a = streams_[a].time;
  const std::uint64_t time_b = streams_[b].time;
  return time_a != time_b ? time_a < time_b : a < b;
}

void MergedReader::sift_down(std::size_t at) {
  for (;;) {
    std::size_t least = at;
    for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child) {
      if (before(heap_[child], heap_[least])) least = child;
    }
    if (least == at) return;
    std::swap(heap_[at], heap_[least]);
    at = least;
  }
}

std::vector<CpuTally> MergedReader::tallies() const {
  std::vector<CpuTally> tallies;
  tallies.reserve(streams_.size());
  for (const Stream& stream : streams_) tallies.push_back(stream.tally);
  return tallies;
}

}  // namespace vtrace
