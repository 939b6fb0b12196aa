#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "common/units.h"
#include "host-cli/commands/command.h"
#include "host-cli/commands/progress_printer.h"
#include "host-cli/counts_text.h"
#include "host-cli/event_options.h"
#include "host-cli/record_session.h"

namespace vtrace {
namespace {

struct RecordOptions {
  DirectoryOptions directory;
  std::string output;
  std::vector<std::string> events;
  std::vector<std::string> filters;
  std::string tracer;
  std::string clock;
  std::string buffer_size;
  std::string duration;
  std::string wait;
  std::string raw_directory;
  bool no_kallsyms = false;
  bool fail_on_loss = false;
  bool quiet = false;
  bool json = false;
  CLI::App* app = nullptr;
  CLI::Option* event_option = nullptr;
  CLI::Option* filter_option = nullptr;
};

// A filter belongs to the event before it on the command line.
Result<std::vector<EventSpec>> parse_events(const RecordOptions& options) {
  std::vector<EventSpec> events;
  auto next_event = options.events.begin();
  auto next_filter = options.filters.begin();
  for (const CLI::Option* const option : options.app->parse_order()) {
    if (option == options.event_option) {
      VTRACE_TRY(EventSpec event, parse_event(*next_event++));
      events.push_back(std::move(event));
    } else if (option == options.filter_option) {
      if (events.empty()) {
        return fail(
            fmt::format("filter \"{}\": give the event before its filter (-e EVENT -f FILTER)",
                        *next_filter),
            ErrorKind::usage);
      }
      events.back().filter = *next_filter++;
    }
  }
  return events;
}

Result<RecordPlan> make_plan(const RecordOptions& options) {
  RecordPlan plan;
  VTRACE_TRY(plan.directory, options.directory.resolve());
  VTRACE_TRY(plan.settings.events, parse_events(options));
  plan.output = options.output;
  plan.raw_directory = options.raw_directory;
  plan.settings.tracer = options.tracer;
  plan.settings.clock = options.clock;
  plan.kallsyms = !options.no_kallsyms;
  if (plan.settings.events.empty() && plan.settings.tracer.empty()) {
    return fail("nothing to record: give events (-e sched) or a tracer (-p function)",
                ErrorKind::usage);
  }
  if (!options.buffer_size.empty()) {
    VTRACE_TRY(plan.settings.buffer_bytes, parse_size(options.buffer_size));
    if (plan.settings.buffer_bytes < 4096)
      return fail(fmt::format("buffer size {}: less than a page", options.buffer_size),
                  ErrorKind::usage);
  }
  if (!options.duration.empty()) {
    VTRACE_TRY(plan.duration, parse_duration(options.duration));
  }
  if (!options.wait.empty()) {
    VTRACE_TRY(plan.agent_wait, parse_duration(options.wait));
  }
  return plan;
}

std::uint64_t total_lost(const RecordSummary& summary) {
  std::uint64_t lost = 0;
  for (const CpuLedger& cpu : summary.cpus) lost += cpu.lost_events();
  return lost;
}

Result<int> run_record(const RecordOptions& options) {
  VTRACE_TRY(const RecordPlan plan, make_plan(options));
  ProgressPrinter printer(stderr, options.quiet);
  VTRACE_TRY(const RecordSummary summary, record(plan, printer));
  printer.phase("done");
  const std::uint64_t lost = total_lost(summary);
  if (options.json) {
    fmt::print("{}\n", summary_json(summary).dump(2));
  } else {
    fmt::print("{}", ledger_table(summary.cpus));
    fmt::print("{} ({}), {:.1f} s of {}\n", summary.output, format_size(summary.output_bytes),
               summary.seconds, summary.agent.kernel_release);
  }
  std::fflush(stdout);
  if (lost > 0) {
    printer.note(
        fmt::format("{} events were lost in the guest's ring buffer: give it more room "
                    "(-b) or record less",
                    lost));
  }
  if (!summary.problem.empty()) {
    return fail(fmt::format("{}: incomplete: {}", summary.output, summary.problem));
  }
  return lost > 0 && options.fail_on_loss ? kExitFailed : kExitOk;
}

}  // namespace

void add_record(CommandSet& commands) {
  const auto options = std::make_shared<RecordOptions>();
  CLI::App& app = commands.add("record", "Record the guest's trace into a trace.dat",
                               [options] { return run_record(*options); });
  options->app = &app;
  options->directory.add_to(app);
  app.add_option("-o,--output", options->output, "The trace.dat to write")
      ->type_name("FILE")
      ->default_str("trace.dat");
  options->output = "trace.dat";
  options->event_option =
      app.add_option("-e,--event", options->events,
                     "Events to record: SYSTEM or SYSTEM:EVENT; may be given again")
          ->type_name("EVENT")
          ->allow_extra_args(false);
  options->filter_option =
      app.add_option("-f,--filter", options->filters, "Filter of the event given before it")
          ->type_name("FILTER")
          ->allow_extra_args(false);
  app.add_option("-p,--tracer", options->tracer, "Tracer, such as function")->type_name("TRACER");
  app.add_option("-C,--clock", options->clock, "Trace clock, such as mono or x86-tsc")
      ->type_name("CLOCK");
  app.add_option("-b,--buffer-size", options->buffer_size,
                 "Ring buffer a CPU in the guest, with K, M or G")
      ->type_name("SIZE");
  app.add_option("--duration", options->duration,
                 "Stop after that time: seconds, or with ms, s, m, h; without it Ctrl-C stops")
      ->type_name("TIME");
  app.add_option("--wait", options->wait, "Wait that long for the guest and its agent (2 s)")
      ->type_name("TIME");
  app.add_option("--raw", options->raw_directory, "Keep the raw per-CPU files in this directory")
      ->type_name("DIR");
  app.add_flag("--no-kallsyms", options->no_kallsyms,
               "Leave the kernel's symbols out: addresses stay numbers");
  app.add_flag("--fail-on-loss", options->fail_on_loss, "Exit 1 when events were lost");
  app.add_flag("-q,--quiet", options->quiet, "No progress");
  app.add_flag("--json", options->json, "The result as one JSON object");
}

}  // namespace vtrace
