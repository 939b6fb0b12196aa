#include "host-cli/trace_dat_metadata.h"

#include <fmt/format.h>

#include <utility>

#include "host-cli/trace_dat_format.h"

namespace vtrace::trace_dat {
namespace {

// "sched_switch" of "name: sched_switch\nID: 314\n…".
std::string event_name(std::string_view format) {
  constexpr std::string_view kKey = "name: ";
  const std::size_t at = format.find(kKey);
  if (at == std::string_view::npos) return {};
  format.remove_prefix(at + kKey.size());
  return std::string(format.substr(0, format.find('\n')));
}

// Adds up what a file's formats take, so that many small lies are no large one.
std::uint64_t bytes_of_formats(const TraceDatInfo& info) {
  std::uint64_t sum = 0;
  for (const EventFormat& format : info.metadata.formats) sum += format.text.size();
  return sum;
}

void read_format_list(FileCursor& in, const std::string& system, TraceDatInfo& info) {
  const std::uint32_t count = in.u32();
  std::uint64_t total = bytes_of_formats(info);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    std::string text = in.text(in.u64(), kMaxFormat, "an event's format");
    total += text.size();
    if (info.metadata.formats.size() >= kMaxFormats || total > kMaxBody)
      in.fail_here("more event formats than are believed");
    if (!in.ok()) return;
    std::string name = event_name(text);
    info.metadata.formats.push_back({system, std::move(name), std::move(text)});
  }
}

// The z-string at the front of an option.
std::string option_text(const Bytes& payload) {
  const std::string_view text = as_text(payload);
  return std::string(text.substr(0, text.find('\0')));
}

// "Linux host 6.1.0 x86_64": the release may hold no blank, and no more may come behind it.
void split_uname(const std::string& text, Metadata& metadata) {
  std::string* const parts[] = {&metadata.sysname, &metadata.nodename, &metadata.kernel_release,
                                &metadata.machine};
  std::size_t at = 0;
  for (std::string* part : parts) {
    if (at > text.size()) break;
    const std::size_t end = std::min(text.find(' ', at), text.size());
    part->assign(text, at, end - at);
    at = end + 1;
  }
}

}  // namespace

void read_header_info(FileCursor& in, TraceDatInfo& info) {
  if (!in.skip_if(kHeaderPageTag)) in.fail_here("no header_page where it should be");
  info.metadata.header_page = in.text(in.u64(), kMaxHeaderText, "header_page");
  if (in.ok() && !in.skip_if(kHeaderEventTag)) in.fail_here("no header_event where it should be");
  info.metadata.header_event = in.text(in.u64(), kMaxHeaderText, "header_event");
}

void read_ftrace_formats(FileCursor& in, TraceDatInfo& info) {
  read_format_list(in, "ftrace", info);
}

void read_event_formats(FileCursor& in, TraceDatInfo& info) {
  const std::uint32_t systems = in.u32();
  if (systems > kMaxSystems)
    in.fail_here(fmt::format("{} event systems are not believed", systems));
  for (std::uint32_t i = 0; i < systems && in.ok(); ++i) {
    const std::string system = in.z_string(kMaxName, "an event system's name");
    read_format_list(in, system, info);
  }
}

void read_kallsyms(FileCursor& in, TraceDatInfo& info) {
  info.metadata.kallsyms = in.text(in.u32(), kMaxBody, "kallsyms");
}

void read_printk_formats(FileCursor& in, TraceDatInfo& info) {
  info.metadata.printk_formats = in.text(in.u32(), kMaxBody, "printk_formats");
}

void read_command_lines(FileCursor& in, TraceDatInfo& info) {
  info.metadata.saved_cmdlines = in.text(in.u64(), kMaxBody, "saved_cmdlines");
}

void take_option(TraceDatInfo& info, std::uint16_t id, Bytes payload) {
  switch (static_cast<OptionId>(id)) {
    case OptionId::cpu_stat:
      info.cpu_stats.push_back(option_text(payload));
      break;
    case OptionId::trace_clock:
      info.metadata.trace_clock = option_text(payload);
      break;
    case OptionId::uname:
      split_uname(option_text(payload), info.metadata);
      break;
    case OptionId::version:
      info.writer = option_text(payload);
      break;
    case OptionId::trace_id:
      if (payload.size() >= sizeof(std::uint64_t)) info.trace_id = load_u64(payload);
      break;
    default:
      break;
  }
  info.options.emplace_back(id, std::move(payload));
}

Result<SubbufLayout> layout_of_size(const TraceDatInfo& info, std::uint32_t size) {
  VTRACE_TRY(SubbufLayout layout, parse_header_page(info.metadata.header_page));
  constexpr std::uint32_t kLeastData = 64;
  if (size < layout.data_offset + kLeastData || size > kMaxSubbufSize || size % 8 != 0)
    return fail(fmt::format("sub-buffers of {} bytes are out of range", size));
  layout.data_size = size - layout.data_offset;
  return layout;
}

void add_cpu(TraceDatInfo& info, TraceDatBuffer& buffer, TraceDatCpu cpu, std::uint64_t file_size) {
  constexpr std::size_t kMaxNotes = 100;
  const std::uint64_t room = cpu.offset < file_size ? file_size - cpu.offset : 0;
  if (cpu.size > room) {
    if (info.notes.size() < kMaxNotes)
      info.notes.push_back(fmt::format("the file is cut off: {} of {} bytes of CPU {} are there",
                                       room, cpu.size, cpu.cpu));
    cpu.size = room;
  }
  buffer.cpus.push_back(cpu);
}

}  // namespace vtrace::trace_dat
