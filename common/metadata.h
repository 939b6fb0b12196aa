// What a decoder must know of the traced kernel beside the sub-buffers: carried from agent to host
// in MetadataChunks, stored beside raw captures, written into trace.dat. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "common/wire.h"

namespace vtrace {

struct EventFormat {
  std::string system;  // "sched"; "ftrace" for the kernel's own
  std::string name;    // "sched_switch"
  std::string text;    // events/<system>/<name>/format
};

// Each text as the kernel's file has it; empty where it was not asked for or is not there.
struct Metadata {
  std::string header_page;  // of the buffer that was recorded
  std::string header_event;
  std::vector<EventFormat> formats;
  std::string kallsyms;
  std::string printk_formats;
  std::string saved_cmdlines;
  std::string trace_clock;  // of the buffer that was recorded: all clocks, the current in brackets
  std::string sysname, nodename, kernel_release, machine;
  std::string cpus_possible, cpus_present, cpus_online;  // "0,2-3"

  // Takes over the parts that `other` has.
  void merge(Metadata other);
};

[[nodiscard]] Bytes encode_metadata(const Metadata& metadata);
[[nodiscard]] Result<Metadata> decode_metadata(std::span<const std::byte> bytes);

}  // namespace vtrace
