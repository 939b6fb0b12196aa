// Numbers of the trace.dat file format, versions 6 and 7, that its writer and its reader share.
// Source: the man pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5), and files read back.
// All numbers in a file are little-endian here; there is no padding between fields, except before a
// CPU's data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace vtrace::trace_dat {

inline constexpr std::string_view kMagic = "\x17\x08\x44tracing";
inline constexpr std::string_view kHeaderPageTag{"header_page\0", 12};
inline constexpr std::string_view kHeaderEventTag{"header_event\0", 13};
inline constexpr std::string_view kOptionsTag{"options  \0", 10};
inline constexpr std::string_view kFlyrecordTag{"flyrecord\0", 10};
inline constexpr std::string_view kLatencyTag{"latency  \0", 10};

// Ids of options; in version 7 also of sections.
enum class OptionId : std::uint16_t {
  done = 0,
  date = 1,
  cpu_stat = 2,
  buffer = 3,
  trace_clock = 4,
  uname = 5,
  hook = 6,
  offset = 7,
  cpu_count = 8,
  version = 9,
  proc_maps = 10,
  trace_id = 11,
  time_shift = 12,
  guest = 13,
  tsc_to_ns = 14,
  strings = 15,
  header_info = 16,
  ftrace_formats = 17,
  event_formats = 18,
  kallsyms = 19,
  printk_formats = 20,
  command_lines = 21,
  buffer_text = 22,
};

inline constexpr std::uint16_t kSectionCompressed = 1;
inline constexpr std::size_t kSectionHeaderSize = 16;

}  // namespace vtrace::trace_dat
