// Walks the events of one ftrace sub-buffer. Pure.
// Every number in the sub-buffer is taken as hostile: nothing outside of the bytes given is read,
// and what does not add up ends the walk of that sub-buffer with a note of where and why; the
// events before it are good.
// Source of the format: events/header_event and Documentation/trace/ring-buffer-design.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/subbuffer.h"

namespace vtrace {

struct RawEvent {
  std::uint64_t time = 0;              // in the recording's clock units
  std::span<const std::byte> payload;  // from the common fields on; of the span given to open()
};

struct SubbufDamage {
  std::uint32_t offset = 0;  // from the sub-buffer's first byte
  std::string what;
};

class SubbufWalker {
 public:
  explicit SubbufWalker(const SubbufLayout& layout) : layout_(layout) {}

  // Starts with a sub-buffer, which must outlive the walk. One that is shorter than the layout
  // says was cut off: its whole events are still given.
  void open(std::span<const std::byte> subbuf);

  // The next event; false at the end of the sub-buffer, or where it is damaged. Padding, discarded
  // events and time stamps are dealt with and not shown.
  [[nodiscard]] bool next(RawEvent& event);

  // Events were lost before the first event of this sub-buffer; how many, where it says so.
  [[nodiscard]] bool events_lost() const { return header_.events_lost; }
  [[nodiscard]] std::optional<std::uint64_t> lost_events() const { return header_.lost_events; }
  // What ended the walk early; complete once next() has returned false.
  [[nodiscard]] const std::optional<SubbufDamage>& damage() const { return damage_; }

 private:
  void damaged(std::uint32_t offset, std::string what);
  bool step(RawEvent& event, bool& found);
  bool take_data(std::uint32_t word, RawEvent& event);
  bool skip_padding(std::uint32_t word);
  [[nodiscard]] std::uint32_t word_at(std::uint32_t offset) const;

  SubbufLayout layout_;
  std::span<const std::byte> subbuf_;
  SubbufHeader header_;
  std::optional<SubbufDamage> damage_;
  std::uint64_t time_ = 0;
  std::uint32_t at_ = 0;           // offset of the next event's header word
  std::uint32_t end_ = 0;          // of the data that is there
  bool cut_off_ = false;           // the header speaks of more data than is there
  std::vector<std::byte> padded_;  // a sub-buffer that was cut off, for its header to be read
};

}  // namespace vtrace
