#include "host-cli/event_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "common/subbuffer.h"
#include "common/wire.h"
#include "host-cli/event_decoder_head.h"
#include "host-cli/event_decoder_tep.h"
#include "host-cli/sched_printer.h"

namespace vtrace {
namespace {

constexpr std::size_t kMaxNotes = 100;
// Behind a record's copy: what a string without an end, or a print format with more arguments than
// the record has, may run over.
constexpr std::size_t kSlack = 4096;
constexpr std::size_t kMaxRawBytes = 64;  // of a record that is shown raw
constexpr std::string_view kUnknownName = "[UNKNOWN EVENT]";

struct TepFree {
  void operator()(tep_handle* tep) const { tep_free(tep); }
};

// An event id's part in the output.
struct EventEntry {
  tep_event* event = nullptr;
  std::string name;  // "sched_switch:", padded to its column
  RecordCheck check;
  decoder::PrintGuard guard;
  bool raw = false;  // never let libtraceevent print it
  // Faster ways to the same text, where there is one. The first records are printed both ways, and
  // the fast one is given up when it differs.
  std::optional<PrintProgram> program;
  std::optional<SchedPrinter> sched;
  int to_verify = 0;
  bool noted = false;  // its trouble has been told
};

void append_padded(std::string& out, std::string_view text, std::size_t width) {
  out += text;
  if (text.size() < width) out.append(width - text.size(), ' ');
}

void append_hex(std::string& out, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes.first(std::min(bytes.size(), kMaxRawBytes)))
    fmt::format_to(std::back_inserter(out), " {:02x}", std::to_integer<unsigned>(byte));
  if (bytes.size() > kMaxRawBytes) out += " ...";
}

// The longest line of printk_formats bounds how many arguments a bprint record can ask for.
std::size_t longest_line(std::string_view text) {
  std::size_t longest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  return longest;
}

}  // namespace

class EventDecoder::Impl {
 public:
  Impl(const Metadata& metadata, const DecoderOptions& options, tep_handle* tep)
      : options_(options), tep_(tep), head_(tep, options) {
    trace_seq_init(&seq_);
    if (options.plugins) plugins_ = tep_load_plugins(tep);
    for (const EventFormat& format : metadata.formats) {
      // What cannot be parsed stays registered as failed, and is printed field by field.
      tep_parse_event(tep, format.text.c_str(), format.text.size(), format.system.c_str());
    }
    if (!metadata.kallsyms.empty()) tep_parse_kallsyms(tep, metadata.kallsyms.c_str());
    if (!metadata.printk_formats.empty())
      tep_parse_printk_formats(tep, metadata.printk_formats.c_str());
    if (!metadata.saved_cmdlines.empty())
      tep_parse_saved_cmdlines(tep, metadata.saved_cmdlines.c_str());
    slack_ = kSlack + 8 * longest_line(metadata.printk_formats);
    find_common_fields();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (plugins_ != nullptr) tep_unload_plugins(plugins_, tep_.get());
    trace_seq_destroy(&seq_);
  }

  void print(int cpu, std::uint64_t time, std::span<const std::byte> payload, std::string& out) {
    EventEntry* const entry = payload.size() >= common_end_ ? entry_of(payload) : nullptr;
    print_head(cpu, time, payload, out);
    if (entry == nullptr || entry->event == nullptr) {
      print_unknown(payload, out);
    } else {
      out += entry->name;
      print_body(*entry, cpu, time, payload, out);
    }
    while (!out.empty() && out.back() == '\n') out.pop_back();
    out += '\n';
  }

  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] std::uint64_t damaged() const { return damaged_; }
  [[nodiscard]] std::uint64_t unknown() const { return unknown_; }

 private:
  void find_common_fields();
  EventEntry* entry_of(std::span<const std::byte> payload);
  EventEntry make_entry(int id);
  void print_head(int cpu, std::uint64_t time, std::span<const std::byte> payload,
                  std::string& out);
  void print_unknown(std::span<const std::byte> payload, std::string& out);
  void print_body(EventEntry& entry, int cpu, std::uint64_t time,
                  std::span<const std::byte> payload, std::string& out);
  void print_checked(EventEntry& entry, int cpu, std::uint64_t time,
                     std::span<const std::byte> payload, std::string& out);
  bool print_fast(const EventEntry& entry, std::span<const std::byte> payload, std::string& out);
  void print_by_library(const EventEntry& entry, int cpu, std::uint64_t time,
                        std::span<const std::byte> payload, std::string& out);
  void print_damaged(EventEntry& entry, const std::string& problem,
                     std::span<const std::byte> payload, std::string& out);
  std::pair<std::string_view, std::uint64_t> find_function(std::uint64_t address);
  void note(std::string text) {
    if (notes_.size() < kMaxNotes) notes_.push_back(std::move(text));
  }

  DecoderOptions options_;
  std::unique_ptr<tep_handle, TepFree> tep_;
  decoder::LineHead head_;
  tep_plugin_list* plugins_ = nullptr;
  trace_seq seq_{};
  FieldPlace type_{.name = "common_type", .offset = 0, .size = 2};
  FieldPlace pid_{.name = "common_pid", .offset = 4, .size = 4};
  std::size_t common_end_ = 8;
  std::map<int, EventEntry> entries_;
  std::vector<EventEntry*> by_id_;  // the same, faster; null: not looked for yet
  std::unordered_map<std::uint64_t, std::pair<std::string_view, std::uint64_t>> functions_;
  const SchedPrinter::LearnTask learn_task_ = [this](int pid, std::string_view comm) {
    head_.learn_task(pid, comm);
  };
  const FindFunction find_function_ = [this](std::uint64_t address) {
    return find_function(address);
  };
  std::vector<std::byte> record_;  // a copy with zeros behind it
  std::size_t slack_ = kSlack;
  std::vector<std::string> notes_;
  std::uint64_t damaged_ = 0;
  std::uint64_t unknown_ = 0;
};

// They are the same in all events of a kernel; their place is the format's word.
void EventDecoder::Impl::find_common_fields() {
  tep_event* const event = tep_get_first_event(tep_.get());
  if (event == nullptr) return;
  for (FieldPlace* place : {&type_, &pid_}) {
    const tep_format_field* const field = tep_find_common_field(event, place->name.c_str());
    const bool usable = field != nullptr && field->offset >= 0 && field->offset < 256 &&
                        (field->size == 2 || field->size == 4);
    if (!usable) continue;
    place->offset = static_cast<std::uint32_t>(field->offset);
    place->size = static_cast<std::uint32_t>(field->size);
  }
  common_end_ = std::max(type_.offset + type_.size, pid_.offset + pid_.size);
}

EventEntry* EventDecoder::Impl::entry_of(std::span<const std::byte> payload) {
  constexpr std::size_t kIds = 65536;
  const auto id = static_cast<std::size_t>(load_le(payload.subspan(type_.offset), type_.size));
  if (id >= kIds) return nullptr;
  if (by_id_.empty()) by_id_.resize(kIds);
  EventEntry*& entry = by_id_[id];
  if (entry == nullptr)
    entry = &entries_.emplace(static_cast<int>(id), make_entry(static_cast<int>(id))).first->second;
  return entry;
}

EventEntry EventDecoder::Impl::make_entry(int id) {
  constexpr std::size_t kNameColumn = 21;
  EventEntry entry;
  entry.to_verify = options_.verified_records;
  entry.event = tep_find_event(tep_.get(), id);
  if (entry.event == nullptr) {
    note(fmt::format("there is no format of event id {}: its events are shown as unknown", id));
    return entry;
  }
  append_padded(entry.name, fmt::format("{}:", entry.event->name), kNameColumn);
  entry.name += ' ';
  const std::string shown = fmt::format("{}:{}", entry.event->system, entry.event->name);
  auto places = decoder::places_of(*entry.event);
  const bool has_handler = entry.event->handler != nullptr;
  if (options_.fast && places && has_handler && std::string_view(entry.event->system) == "sched")
    entry.sched = SchedPrinter::create(entry.event->name, *places);
  if (places) entry.check = RecordCheck(std::move(*places));
  auto guard = decoder::PrintGuard::create(*entry.event);
  if (guard) entry.guard = std::move(*guard);
  const bool failed =
      (static_cast<unsigned>(entry.event->flags) & static_cast<unsigned>(TEP_EVENT_FL_FAILED)) != 0;
  if (!places) {
    entry.raw = true;
    note(fmt::format("{}: its format has fields out of range: its records are shown raw", shown));
  } else if (failed) {
    note(fmt::format("{}: its print format is not understood: its fields are shown one by one",
                     shown));
  } else if (!guard) {
    // libtraceevent still knows the fields.
    entry.event->flags |= TEP_EVENT_FL_PRINTRAW;
    note(
        fmt::format("{}: its print format cannot be followed safely: its fields are shown one by "
                    "one",
                    shown));
  } else if (options_.fast && !has_handler) {
    entry.program = decoder::compile_print(*entry.event);
  }
  return entry;
}

std::pair<std::string_view, std::uint64_t> EventDecoder::Impl::find_function(
    std::uint64_t address) {
  constexpr std::size_t kMaxFunctions = 1U << 20U;
  const auto known = functions_.find(address);
  if (known != functions_.end()) return known->second;
  const char* const name = tep_find_function(tep_.get(), address);
  std::pair<std::string_view, std::uint64_t> found;
  if (name != nullptr) found = {name, tep_find_function_address(tep_.get(), address)};
  if (functions_.size() >= kMaxFunctions) functions_.clear();
  functions_.emplace(address, found);
  return found;
}

void EventDecoder::Impl::print_head(int cpu, std::uint64_t time, std::span<const std::byte> payload,
                                    std::string& out) {
  std::optional<int> pid;
  if (payload.size() >= common_end_)
    pid = static_cast<std::int32_t>(load_le(payload.subspan(pid_.offset), pid_.size));
  head_.print(pid, cpu, time, out);
}

void EventDecoder::Impl::print_unknown(std::span<const std::byte> payload, std::string& out) {
  constexpr std::size_t kColumn = 22;
  append_padded(out, kUnknownName, kColumn);
  if (payload.size() < common_end_) {
    ++damaged_;
    fmt::format_to(std::back_inserter(out), "{} bytes are too few for an event:", payload.size());
  } else {
    ++unknown_;
    fmt::format_to(std::back_inserter(out),
                   "id={} size={}:", load_le(payload.subspan(type_.offset), type_.size),
                   payload.size());
  }
  append_hex(out, payload);
}

void EventDecoder::Impl::print_damaged(EventEntry& entry, const std::string& problem,
                                       std::span<const std::byte> payload, std::string& out) {
  ++damaged_;
  if (!std::exchange(entry.noted, true)) {
    note(fmt::format("{}:{}: a record is damaged ({}): shown raw, as are others like it",
                     entry.event->system, entry.event->name, problem));
  }
  fmt::format_to(std::back_inserter(out), "[DAMAGED RECORD: {}]", problem);
  append_hex(out, payload);
}

void EventDecoder::Impl::print_body(EventEntry& entry, int cpu, std::uint64_t time,
                                    std::span<const std::byte> payload, std::string& out) {
  if (entry.raw) {
    append_hex(out, payload);
    return;
  }
  auto problem = entry.check.problem(payload);
  if (!problem) problem = entry.guard.problem(payload);
  if (problem) {
    print_damaged(entry, *problem, payload, out);
    return;
  }
  print_checked(entry, cpu, time, payload, out);
}

// The fast way where there is one that has proved itself, else libtraceevent's.
void EventDecoder::Impl::print_checked(EventEntry& entry, int cpu, std::uint64_t time,
                                       std::span<const std::byte> payload, std::string& out) {
  const bool fast = entry.program || entry.sched;
  if (fast && entry.to_verify == 0 && print_fast(entry, payload, out)) return;
  const std::size_t start = out.size();
  print_by_library(entry, cpu, time, payload, out);
  if (!fast) return;
  const std::string_view slow = std::string_view(out).substr(start);
  if (entry.sched) entry.sched->learn_state(payload, slow);
  if (entry.to_verify == 0) return;
  std::string text;
  if (!print_fast(entry, payload, text)) return;
  if (text == slow) {
    --entry.to_verify;
  } else {
    entry.program.reset();
    entry.sched.reset();
  }
}

bool EventDecoder::Impl::print_fast(const EventEntry& entry, std::span<const std::byte> payload,
                                    std::string& out) {
  return entry.sched ? entry.sched->print(payload, learn_task_, out)
                     : entry.program->run(payload, find_function_, out);
}

void EventDecoder::Impl::print_by_library(const EventEntry& entry, int cpu, std::uint64_t time,
                                          std::span<const std::byte> payload, std::string& out) {
  record_.assign(std::max<std::size_t>(payload.size(), entry.check.reach()) + slack_, std::byte{0});
  std::copy(payload.begin(), payload.end(), record_.begin());
  tep_record record{};
  record.ts = time;
  record.cpu = cpu;
  record.data = record_.data();
  record.size = static_cast<int>(payload.size());
  record.record_size = record.size;
  trace_seq_reset(&seq_);
  tep_print_event(tep_.get(), &seq_, &record, "%s", TEP_PRINT_INFO);
  trace_seq_terminate(&seq_);
  out += seq_.buffer;
}

EventDecoder::EventDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventDecoder::EventDecoder(EventDecoder&&) noexcept = default;
EventDecoder::~EventDecoder() = default;

Result<EventDecoder> EventDecoder::create(const Metadata& metadata, const DecoderOptions& options) {
  VTRACE_TRY(const SubbufLayout layout, parse_header_page(metadata.header_page));
  // Libraries of ours do not print, and this one is asked for its errors.
  tep_set_loglevel(TEP_LOG_NONE);
  tep_handle* const tep = tep_alloc();
  if (tep == nullptr) return fail("not enough memory for the event formats");
  tep_set_file_bigendian(tep, TEP_LITTLE_ENDIAN);
  tep_set_local_bigendian(tep, TEP_LITTLE_ENDIAN);
  std::string header_page = metadata.header_page;
  tep_set_long_size(tep, static_cast<int>(layout.commit_size));
  tep_parse_header_page(tep, header_page.data(), header_page.size(),
                        static_cast<int>(layout.commit_size));
  tep_set_page_size(tep, static_cast<int>(layout.size()));
  return EventDecoder(std::make_unique<Impl>(metadata, options, tep));
}

void EventDecoder::print(int cpu, std::uint64_t time, std::span<const std::byte> payload,
                         std::string& out) {
  impl_->print(cpu, time, payload, out);
}

const std::vector<std::string>& EventDecoder::notes() const {
  return impl_->notes();
}

std::uint64_t EventDecoder::damaged_records() const {
  return impl_->damaged();
}

std::uint64_t EventDecoder::unknown_records() const {
  return impl_->unknown();
}

}  // namespace vtrace
