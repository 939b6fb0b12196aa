// check_settings and error_log_line of trace_instance.h: the parts that make nothing.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "guest-agent/trace_instance.h"

namespace vtrace {
namespace {

// A name that goes into a path of tracefs.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         std::ranges::none_of(name, [](char c) { return c == '/' || c == '\0' || c == '\n'; });
}

// The words of a list such as "[local] global counter", brackets taken off.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c == '[' || c == ']') continue;
    if (c == ' ' || c == '\n' || c == '\t') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

Status check_word(const Tracefs& tracefs, const std::string& file, std::string_view what,
                  const std::string& wish) {
  VTRACE_TRY(const std::string text, tracefs.top_level().read(file));
  const std::vector<std::string> known = words_of(text);
  if (std::ranges::find(known, wish) != known.end()) return {};
  std::string list;
  for (const std::string& word : known) list += (list.empty() ? "" : " ") + word;
  return fail(fmt::format("no {} \"{}\" in this guest; it has: {}", what, wish, list));
}

Status check_event(const Tracefs& tracefs, const EventSpec& event) {
  if (!is_plain_name(event.system) || !tracefs.exists("events/" + event.system + "/enable")) {
    return fail(fmt::format("no event system \"{}\" in this guest ({}/events has the list)",
                            event.system, tracefs.root()));
  }
  if (event.event.empty()) return {};
  if (is_plain_name(event.event)) {
    const auto events = tracefs.list_directories("events/" + event.system);
    if (std::ranges::any_of(events, [&](const std::string& name) {
          return ::fnmatch(event.event.c_str(), name.c_str(), 0) == 0;
        }))
      return {};
  }
  return fail(fmt::format("no event \"{}:{}\" in this guest ({}/events/{} has the list)",
                          event.system, event.event, tracefs.root(), event.system));
}

}  // namespace

Status check_settings(const Tracefs& tracefs, const Configure& settings) {
  for (const EventSpec& event : settings.events) VTRACE_CHECK(check_event(tracefs, event));
  if (!settings.tracer.empty())
    VTRACE_CHECK(check_word(tracefs, "available_tracers", "tracer", settings.tracer));
  if (!settings.clock.empty())
    VTRACE_CHECK(check_word(tracefs, "trace_clock", "clock", settings.clock));
  // 16 TiB: beyond that the number of KiB does not fit what the kernel takes.
  if (settings.buffer_bytes > (1ULL << 44U)) {
    return fail(fmt::format("a ring buffer of {} bytes a CPU is more than a kernel takes",
                            settings.buffer_bytes));
  }
  return {};
}

// "[  55.1] event filter parse error: error: Field not found\n  Command: foo == 1\n           ^\n"
std::string error_log_line(std::string_view entry) {
  std::string line;
  bool space = false;
  if (entry.starts_with('[')) {
    const std::size_t close = entry.find("] ");
    if (close != std::string_view::npos) entry.remove_prefix(close + 2);
  }
  for (const char c : entry) {
    if (c == ' ' || c == '\n' || c == '\t') {
      space = true;
      continue;
    }
    // The mark under the command means nothing once the lines are joined.
    if (c == '^') continue;
    if (space && !line.empty()) line += ' ';
    space = false;
    line += c;
  }
  return line;
}

}  // namespace vtrace
