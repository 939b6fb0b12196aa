// Turns events into the text that trace-cmd report prints for them, by what is known of the traced
// kernel. The only place that knows libtraceevent. Not for two threads at once.
//
// An event's bytes are taken as hostile: before libtraceevent sees a record, its fields are checked
// against the record's length, and it gets a copy with zeros behind it, so that nothing is read
// out of range. What cannot be printed comes out raw, and is told once in notes().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/metadata.h"
#include "common/result.h"

namespace vtrace {

struct DecoderOptions {
  // Load libtraceevent's plugins, as trace-cmd report does by default: they give some events
  // (sched_switch, kmem, hrtimer, kvm, …) the text that users know.
  bool plugins = true;
  // Time stamps are nanoseconds and shown as seconds; otherwise as the number that they are.
  bool nanoseconds = true;
  // All nine digits behind the seconds instead of six.
  bool full_time = false;
  // Print events without libtraceevent where its text is known to be had faster. The first records
  // of each event are printed both ways, and the fast one is given up where they differ.
  bool fast = true;
  int verified_records = 32;
};

class EventDecoder {
 public:
  [[nodiscard]] static Result<EventDecoder> create(const Metadata& metadata,
                                                   const DecoderOptions& options = {});
  EventDecoder(EventDecoder&&) noexcept;
  EventDecoder& operator=(EventDecoder&&) = delete;
  EventDecoder(const EventDecoder&) = delete;
  EventDecoder& operator=(const EventDecoder&) = delete;
  ~EventDecoder();

  // Appends the event's line (some have more than one), newline included.
  void print(int cpu, std::uint64_t time, std::span<const std::byte> payload, std::string& out);

  // What could not be shown as it should, each kind once, for the user; complete at the end.
  [[nodiscard]] const std::vector<std::string>& notes() const;
  // Records that contradict their format, and so were shown raw.
  [[nodiscard]] std::uint64_t damaged_records() const;
  // Records of events that are not among the formats.
  [[nodiscard]] std::uint64_t unknown_records() const;

 private:
  class Impl;
  explicit EventDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vtrace
