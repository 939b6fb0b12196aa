#include "guest-agent/agent_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

namespace vtrace {
namespace {

constexpr std::size_t kLeastPipe = 64U << 10U;
constexpr std::size_t kMostPipe = 1U << 20U;
constexpr double kMostMilliseconds = 3600.0 * 1000;
constexpr double kLeastMilliseconds = 10;

Status check_instance_name(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
      name.size() < 256)
    return {};
  return fail(fmt::format("--instance: \"{}\" is no name for a tracefs instance", name),
              ErrorKind::usage);
}

}  // namespace

Result<std::size_t> parse_pipe_size(const std::string& text) {
  std::uint64_t size = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, size);
  bool fine = error == std::errc() && size <= kMostPipe;
  if (fine && at != end) {
    if (*at == 'k' || *at == 'K') {
      size <<= 10U;
    } else if (*at == 'm' || *at == 'M') {
      size <<= 20U;
    } else {
      fine = false;
    }
    fine = fine && at + 1 == end;
  }
  if (!fine || size < kLeastPipe || size > kMostPipe) {
    return fail(fmt::format("-s: \"{}\" is no pipe size: 64K to 1M", text), ErrorKind::usage);
  }
  return static_cast<std::size_t>(size);
}

Result<std::chrono::milliseconds> parse_flush_interval(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(at, static_cast<std::size_t>(end - at));
  double scale = 0;
  if (unit.empty() || unit == "s") scale = 1000;
  if (unit == "ms") scale = 1;
  if (unit == "m") scale = 60.0 * 1000;
  if (unit == "h") scale = kMostMilliseconds;
  const double milliseconds = number * scale;
  if (error != std::errc() || !(milliseconds >= kLeastMilliseconds) ||
      milliseconds > kMostMilliseconds) {
    return fail(fmt::format("--flush-interval: \"{}\" is no duration from 10ms to 1h", text),
                ErrorKind::usage);
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
}

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  CommandLine line;
  AgentOptions& options = line.options;
  std::string pipe_size;
  std::string flush_interval;
  std::string tracefs;
  CLI::App app("Sends this guest's kernel trace to the host through virtio-serial ports.",
               "virtio-trace-agent");
  app.set_help_flag("-h,--help", "Show this help and exit");
  app.set_version_flag("--version", std::string("virtio-trace-agent ") + VTRACE_VERSION);
  app.add_flag("-o", options.to_stdout, "Write trace data to stdout instead of the data ports");
  app.add_option("-s", pipe_size, "Size of each CPU's pipe, 64K to 1M (default 1M)")
      ->type_name("SIZE");
  app.add_option("--instance", options.instance,
                 "Name of the agent's own tracefs instance (default virtio-trace)")
      ->type_name("NAME");
  app.add_option("--ports-dir", options.ports.directory,
                 "Find ports in DIR, as NAME or as the FIFOs NAME.in and NAME.out")
      ->type_name("DIR");
  app.add_option("--tracefs", tracefs,
                 "Where tracefs is mounted (default /sys/kernel/tracing, then "
                 "/sys/kernel/debug/tracing)")
      ->type_name("DIR");
  app.add_option("--flush-interval", flush_interval,
                 "Longest time that a quiet CPU's events wait while recording (default 1s)")
      ->type_name("TIME");
  app.add_option("--realtime", options.realtime_priority,
                 "Real-time priority of the recorders, 1 to 99: fewer losses at high rates, at the "
                 "expense of other tasks (default none)")
      ->type_name("PRIORITY")
      ->check(CLI::Range(1, 99));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::CallForVersion& version) {
    line.text = std::string(version.what()) + "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    return fail(fmt::format("{}; -h lists the options", error.what()), ErrorKind::usage);
  }
  if (!pipe_size.empty()) {
    VTRACE_TRY(options.pipe_bytes, parse_pipe_size(pipe_size));
  }
  if (!flush_interval.empty()) {
    VTRACE_TRY(options.flush_interval, parse_flush_interval(flush_interval));
  }
  VTRACE_CHECK(check_instance_name(options.instance));
  if (!tracefs.empty()) options.tracefs.roots = {tracefs};
  return line;
}

}  // namespace vtrace
