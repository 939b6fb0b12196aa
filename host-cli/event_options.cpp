#include "host-cli/event_options.h"

#include <fmt/format.h>

namespace vtrace {
namespace {

// What can stand in a name below events/: a path separator or a blank would be somebody's slip.
bool is_name(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of("/: \t\n,") == std::string_view::npos;
}

}  // namespace

Result<EventSpec> parse_event(std::string_view text) {
  EventSpec event;
  const std::size_t split = text.find_first_of(":/");
  event.system = text.substr(0, split);
  const bool has_event = split != std::string_view::npos;
  if (has_event) event.event = text.substr(split + 1);
  if (!is_name(event.system) || (has_event && !is_name(event.event))) {
    return fail(fmt::format("not an event: \"{}\" (give SYSTEM or SYSTEM:EVENT, such as "
                            "sched:sched_switch)",
                            text),
                ErrorKind::usage);
  }
  return event;
}

}  // namespace vtrace
