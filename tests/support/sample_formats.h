// A small kernel of the tests' own: its header_page and some event formats.
#pragma once

#include <string>
#include <vector>

#include "common/metadata.h"

namespace vtrace::test {

// The common fields that all formats below begin with: 8 bytes, u16 type, u8 flags, u8 preempt
// count, s32 pid.
[[nodiscard]] inline std::string sample_format(const std::string& name, int id,
                                               const std::string& fields,
                                               const std::string& print_fmt) {
  return "name: " + name + "\nID: " + std::to_string(id) +
         "\nformat:\n"
         "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
         "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
         "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
         "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n" +
         fields + "\nprint fmt: " + print_fmt + "\n";
}

[[nodiscard]] inline std::string sample_field(const std::string& declaration, int offset, int size,
                                              bool is_signed = false) {
  return "\tfield:" + declaration + ";\toffset:" + std::to_string(offset) +
         ";\tsize:" + std::to_string(size) + ";\tsigned:" + (is_signed ? "1" : "0") + ";\n";
}

inline constexpr int kNumberId = 400;

[[nodiscard]] inline Metadata sample_metadata(int subbuf_size = 4096) {
  Metadata metadata;
  metadata.header_page =
      "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
      "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
      "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
      "\tfield: char data;\toffset:16;\tsize:" +
      std::to_string(subbuf_size - 16) + ";\tsigned:1;\n";
  metadata.header_event = "# compressed entry header\n";
  metadata.formats.push_back(
      {"ftrace", "print",
       sample_format("print", 5,
                     sample_field("unsigned long ip", 8, 8) + sample_field("char buf[]", 16, 0),
                     "\"%ps: %s\", (void *)REC->ip, REC->buf")});
  metadata.formats.push_back(
      {"test", "number",
       sample_format("number", kNumberId, sample_field("int value", 8, 4, true),
                     "\"value=%d\", REC->value")});
  metadata.trace_clock = "[local] global counter\n";
  metadata.saved_cmdlines = "77 worker\n";
  metadata.sysname = "Linux";
  metadata.nodename = "guest";
  metadata.kernel_release = "6.1.0";
  metadata.machine = "x86_64";
  return metadata;
}

}  // namespace vtrace::test
