#include "common/cpu_list.h"

#include <fmt/format.h>

#include <bitset>
#include <charconv>

namespace vtrace {
namespace {

// Takes a number off the front of `text`; false where there is none or it is out of range.
bool take_cpu_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMaxCpuNumber) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Result<CpuList> parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const std::string_view whole = text;
  const auto no_list = [&] {
    return fail(fmt::format("not a CPU list: \"{}\"", printable(whole)));
  };
  // Every second one of all CPUs is 20 KiB of text: more than this is no list of a kernel's.
  if (whole.size() > std::size_t{64} * 1024) return no_list();
  // A set of bits first: a list that names the same CPUs over and over costs no memory.
  std::bitset<kMaxCpuNumber + 1> named;
  while (!text.empty()) {
    int first = 0;
    if (!take_cpu_number(text, first)) return no_list();
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_cpu_number(text, last) || last < first) return no_list();
    }
    for (int cpu = first; cpu <= last; ++cpu) named.set(static_cast<std::size_t>(cpu));
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return no_list();
    text.remove_prefix(1);
  }
  CpuList cpus;
  for (int cpu = 0; cpu <= kMaxCpuNumber; ++cpu) {
    if (named.test(static_cast<std::size_t>(cpu))) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(const CpuList& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - i > 1 ? fmt::format("{}-{}", cpus[i], cpus[end - 1]) : fmt::format("{}", cpus[i]);
    i = end;
  }
  return text;
}

}  // namespace vtrace
