#include "host-cli/event_decoder_head.h"

#include <fmt/format.h>

#include <utility>

#include "host-cli/print_program.h"

namespace vtrace::decoder {
namespace {

constexpr std::string_view kNoName = "<...>";

}  // namespace

void LineHead::print(std::optional<int> pid, int cpu, std::uint64_t time, std::string& out) {
  if (pid) {
    print_task(*pid, out);
  } else {
    fmt::format_to(std::back_inserter(out), "{:>16}-{:<5} [", kNoName, 0);
  }
  constexpr NumberFormat kCpu{.zeros = true, .width = 3};
  append_number(out, kCpu, static_cast<std::uint64_t>(cpu));
  out += ']';
  print_time(time, out);
  out += ": ";
}

// "          worker-77    [", once for each task whose name is known.
void LineHead::print_task(int pid, std::string& out) {
  constexpr std::size_t kMaxTasks = 1U << 20U;
  const auto known = tasks_.find(pid);
  if (known != tasks_.end()) {
    out += known->second;
    return;
  }
  const char* const comm = tep_data_comm_from_pid(tep_, pid);
  const std::string_view name = comm == nullptr ? kNoName : comm;
  std::string text = fmt::format("{:>16}-{:<5} [", name, pid);
  out += text;
  if (name == kNoName) return;  // it may still be learned
  if (tasks_.size() >= kMaxTasks) tasks_.clear();
  tasks_.emplace(pid, std::move(text));
}

// As libtraceevent's plugin does when it prints the record: the first name stays.
void LineHead::learn_task(int pid, std::string_view comm) {
  if (pid == 0 || tasks_.contains(pid) || tep_is_pid_registered(tep_, pid)) return;
  tep_register_comm(tep_, std::string(comm).c_str(), pid);
}

void LineHead::print_time(std::uint64_t time, std::string& out) const {
  constexpr std::uint64_t kNsPerUs = 1000;
  constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
  constexpr NumberFormat kTicks{.conversion = 'u', .width = 12, .bytes = 8};
  constexpr NumberFormat kSeconds{.conversion = 'u', .width = 5, .bytes = 8};
  constexpr NumberFormat kMicroseconds{.conversion = 'u', .zeros = true, .width = 6};
  constexpr NumberFormat kNanoseconds{.conversion = 'u', .zeros = true, .width = 9};
  if (!options_.nanoseconds) {
    append_number(out, kTicks, time);
    return;
  }
  if (!options_.full_time) time += kNsPerUs / 2;
  out += ' ';
  append_number(out, kSeconds, time / kNsPerSecond);
  out += '.';
  if (options_.full_time) {
    append_number(out, kNanoseconds, time % kNsPerSecond);
  } else {
    append_number(out, kMicroseconds, time % kNsPerSecond / kNsPerUs);
  }
}

}  // namespace vtrace::decoder
