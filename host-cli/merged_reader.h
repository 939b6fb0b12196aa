// Merges the CPUs of a recording into one sequence of events by time. Memory is bounded by the
// number of CPUs, whatever the recording's size. Damage in one place costs the events of that
// sub-buffer behind it, nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host-cli/subbuf_source.h"
#include "host-cli/subbuf_walker.h"
#include "host-cli/time_correction.h"

namespace vtrace {

struct CpuInput {
  int cpu = 0;
  std::unique_ptr<SubbufSource> source;
};

// Events that are missing before this one.
struct EventGap {
  bool lost = false;              // the kernel, or a collector, says that events were lost
  std::uint64_t lost_events = 0;  // how many of them are known
  bool count_known = false;       // false: at least one loss did not say how many
  bool damaged = false;           // a damaged place was skipped

  [[nodiscard]] bool any() const { return lost || damaged; }
};

struct MergedEvent {
  int cpu = 0;
  std::uint64_t time = 0;              // corrected
  std::span<const std::byte> payload;  // valid until the next call of next()
  EventGap gap;
};

struct DamagedPlace {
  int cpu = 0;
  std::uint64_t offset = 0;  // in the CPU's data, uncompressed
  std::string what;
};

// What was met so far on a CPU.
struct CpuTally {
  int cpu = 0;
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;  // of its data
  std::uint64_t subbufs = 0;
  std::uint64_t lost_events = 0;   // where the number is known
  std::uint64_t lost_unknown = 0;  // places that lost events without saying how many
  std::uint64_t damaged = 0;       // damaged places
  std::uint64_t time_back = 0;     // events whose time was before that of the one before them
  std::optional<std::uint64_t> first_time, last_time;  // lowest and highest
};

class MergedReader {
 public:
  // Of equal times the CPU that comes first in `inputs` goes first. `correction` may be null; it
  // must outlive the reader.
  MergedReader(const SubbufLayout& layout, std::vector<CpuInput> inputs,
               const TimeCorrection* correction);

  // False at the end of all CPUs. Events of one CPU keep their order, also where time goes back.
  [[nodiscard]] bool next(MergedEvent& event);

  [[nodiscard]] std::vector<CpuTally> tallies() const;
  // The first few damaged places of each CPU, in the order they were met.
  [[nodiscard]] const std::vector<DamagedPlace>& damage() const { return damage_; }

 private:
  struct Stream {
    Stream(int number, std::unique_ptr<SubbufSource> data, const SubbufLayout& layout)
        : source(std::move(data)), walker(layout) {
      tally.cpu = number;
      tally.bytes = source->size();
    }
    std::unique_ptr<SubbufSource> source;
    SubbufWalker walker;
    CpuTally tally;
    RawEvent event;
    std::uint64_t time = 0;  // of `event`, corrected
    EventGap gap;            // before `event`
    std::uint64_t subbuf_offset = 0;
  };

  bool advance(Stream& stream);
  bool open_next_subbuf(Stream& stream);
  void note_loss(Stream& stream);
  void note_damage(Stream& stream, std::uint64_t offset, std::string what);
  [[nodiscard]] bool before(std::size_t a, std::size_t b) const;
  void sift_down(std::size_t at);

  std::vector<Stream> streams_;
  std::vector<std::size_t> heap_;  // indexes of streams that have an event; the earliest first
  const TimeCorrection* correction_;
  std::vector<DamagedPlace> damage_;
  bool started_ = false;
  bool top_given_ = false;  // the heap's first event was handed out
};

}  // namespace vtrace
