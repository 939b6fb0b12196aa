#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "common/say.h"
#include "host-cli/commands/command.h"
#include "host-cli/commands/json.h"
#include "host-cli/event_decoder.h"
#include "host-cli/interrupts.h"
#include "host-cli/report_stats.h"
#include "host-cli/text_output.h"
#include "host-cli/trace_input.h"

namespace vtrace {
namespace {

constexpr std::size_t kFlushAt = 256U << 10U;

struct ReportOptions {
  std::string file;
  TraceInputOptions input;
  std::string cpus;
  bool stats = false;
  bool json = false;
  bool no_plugins = false;
  bool full_time = false;
  bool fail_on_loss = false;
};

void warn(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) say(stderr, "virtio-trace report: warning: {}\n", line);
}

// A gap's line stands before the event that comes after it, in the words of trace-cmd report.
void print_gap(const MergedEvent& event, std::string& out) {
  const auto to = std::back_inserter(out);
  if (event.gap.damaged) fmt::format_to(to, "CPU:{} [DAMAGED DATA SKIPPED]\n", event.cpu);
  if (!event.gap.lost) return;
  if (event.gap.count_known) {
    fmt::format_to(to, "CPU:{} [{} EVENTS DROPPED]\n", event.cpu, event.gap.lost_events);
  } else {
    fmt::format_to(to, "CPU:{} [EVENTS DROPPED]\n", event.cpu);
  }
}

// False when nobody reads on.
Result<bool> print_events(const TraceInput& input, MergedReader& events, EventDecoder& decoder,
                          Interrupts& interrupts) {
  TextOutput output(STDOUT_FILENO, &interrupts);
  std::string text = fmt::format("cpus={}\n", input.cpus().size());
  MergedEvent event;
  while (events.next(event)) {
    if (event.gap.any()) print_gap(event, text);
    decoder.print(event.cpu, event.time, event.payload, text);
    if (text.size() < kFlushAt) continue;
    VTRACE_TRY(const bool going_on, output.write(text));
    if (!going_on) return false;
    text.clear();
  }
  return output.write(text);
}

Status count_events(MergedReader& events, Interrupts& interrupts) {
  constexpr std::uint64_t kLookEvery = 1U << 16U;
  MergedEvent event;
  for (std::uint64_t count = 0; events.next(event); ++count) {
    if (count % kLookEvery == 0 && interrupts.count() > 0)
      return fail("interrupted", ErrorKind::interrupted);
  }
  return {};
}

Result<std::optional<CpuList>> wanted_cpus(const ReportOptions& options, const TraceInput& input) {
  if (options.cpus.empty()) return std::nullopt;
  auto list = parse_cpu_list(options.cpus);
  if (!list)
    return fail(fmt::format("--cpu {}: {}", options.cpus, list.error().message), ErrorKind::usage);
  for (const int cpu : *list) {
    const CpuList& have = input.cpus();
    if (std::find(have.begin(), have.end(), cpu) == have.end()) {
      return fail(
          fmt::format("{}: has no CPU {}; it has {}", input.path(), cpu, format_cpu_list(have)));
    }
  }
  return std::optional(std::move(*list));
}

int exit_code(const ReportOptions& options, const TraceInput& input,
              const std::vector<CpuTally>& tallies) {
  return options.fail_on_loss && events_missing(input, tallies) ? kExitFailed : kExitOk;
}

Result<int> run_report(const ReportOptions& options) {
  VTRACE_TRY(Interrupts interrupts, Interrupts::create());
  VTRACE_TRY(const TraceInput input, TraceInput::open(options.file, options.input));
  VTRACE_TRY(const std::optional<CpuList> cpus, wanted_cpus(options, input));
  VTRACE_TRY(MergedReader events, input.merged(cpus));

  if (options.stats || options.json) {
    VTRACE_CHECK(count_events(events, interrupts));
    const std::vector<CpuTally> tallies = events.tallies();
    if (options.json) {
      print_json(stats_json(input, tallies, events.damage()));
    } else {
      fmt::print("{}", stats_table(input, tallies));
    }
    std::fflush(stdout);
    warn(stats_warnings(input, tallies, events.damage()));
    return exit_code(options, input, tallies);
  }

  VTRACE_TRY(EventDecoder decoder,
             EventDecoder::create(input.metadata(), {.plugins = !options.no_plugins,
                                                     .nanoseconds = input.nanoseconds(),
                                                     .full_time = options.full_time}));
  VTRACE_TRY(const bool read_to_end, print_events(input, events, decoder, interrupts));
  if (!read_to_end) return kExitOk;
  warn(stats_warnings(input, events.tallies(), events.damage()));
  warn(decoder.notes());
  return exit_code(options, input, events.tallies());
}

}  // namespace

void add_report(CommandSet& commands) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App& app =
      commands.add("report", "Show a trace.dat, or the directory of a raw capture, as text",
                   [options] { return run_report(*options); });
  app.add_option("FILE", options->file, "trace.dat, or a directory with cpuN.raw and metadata")
      ->default_str("trace.dat");
  options->file = "trace.dat";
  app.add_flag("--stats", options->stats, "A table of events, bytes, losses and times by CPU");
  app.add_flag("--json", options->json, "The counts of --stats as one JSON object");
  app.add_option("--cpu", options->cpus, "Only these CPUs, as in 0,2-3")->type_name("LIST");
  app.add_option("--buffer", options->input.buffer,
                 "A named instance in the file instead of the top-level buffer")
      ->type_name("NAME");
  app.add_option("--metadata", options->input.metadata_from,
                 "Event formats and symbols from a trace.dat or metadata file of the same kernel")
      ->type_name("FROM");
  app.add_flag("-N,--no-plugins", options->no_plugins,
               "Print events by their formats alone, without libtraceevent's plugins");
  app.add_flag("-t,--full-time", options->full_time, "Nine digits behind the seconds, not six");
  app.add_flag("--fail-on-loss", options->fail_on_loss,
               "Exit 1 when events are lost or damaged in the recording");
  app.footer(
      "The text is that of trace-cmd report. Times are in seconds where the trace clock counts\n"
      "nanoseconds (boot too), else in the clock's own ticks. Where events are missing a line\n"
      "CPU:N [n EVENTS DROPPED] or CPU:N [DAMAGED DATA SKIPPED] stands in their place; damage and\n"
      "losses are summed up on stderr and leave the exit code 0, unless --fail-on-loss is given.");
}

}  // namespace vtrace
