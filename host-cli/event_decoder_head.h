// The first columns of an event's line: task, CPU, time. For the decoder alone.
#pragma once

#include <traceevent/event-parse.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "host-cli/event_decoder.h"

namespace vtrace::decoder {

class LineHead {
 public:
  // `tep` is borrowed.
  LineHead(tep_handle* tep, const DecoderOptions& options) : tep_(tep), options_(options) {}

  // "          worker-77    [003]     1.234568: "; without a pid where a record has none.
  void print(std::optional<int> pid, int cpu, std::uint64_t time, std::string& out);
  void learn_task(int pid, std::string_view comm);

 private:
  void print_task(int pid, std::string& out);
  void print_time(std::uint64_t time, std::string& out) const;

  tep_handle* tep_;
  DecoderOptions options_;
  std::unordered_map<int, std::string> tasks_;  // what print_task prints, by pid
};

}  // namespace vtrace::decoder
