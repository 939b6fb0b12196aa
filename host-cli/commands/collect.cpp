#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "common/units.h"
#include "host-cli/collect_session.h"
#include "host-cli/commands/command.h"
#include "host-cli/commands/progress_printer.h"

namespace vtrace {
namespace {

struct CollectOptions {
  DirectoryOptions directory;
  std::string output;
  std::string duration;
  std::string max_size;
  bool quiet = false;
  bool json = false;
};

nlohmann::json to_json(const CollectSummary& summary) {
  nlohmann::json cpus = nlohmann::json::array();
  for (const CpuProgress& cpu : summary.cpus) {
    cpus.push_back({{"cpu", cpu.cpu},
                    {"bytes_received", cpu.received_bytes},
                    {"bytes_written", cpu.written_bytes}});
  }
  nlohmann::json object = {{"output", summary.output},
                           {"seconds", summary.seconds},
                           {"metadata", summary.metadata},
                           {"size_limit_reached", summary.size_limit},
                           {"cpus", std::move(cpus)}};
  if (!summary.problem.empty()) object["problem"] = summary.problem;
  return object;
}

void print_text(const CollectSummary& summary) {
  std::uint64_t total = 0;
  for (const CpuProgress& cpu : summary.cpus) {
    fmt::print("{:>5} {:>14} bytes\n", cpu.cpu, cpu.written_bytes);
    total += cpu.written_bytes;
  }
  fmt::print("{}: {} in {:.1f} s{}\n", summary.output, format_size(total), summary.seconds,
             summary.size_limit ? ", ended at the size limit" : "");
}

Result<int> run_collect(const CollectOptions& options) {
  CollectPlan plan;
  VTRACE_TRY(plan.directory, options.directory.resolve());
  plan.output = options.output;
  if (!options.duration.empty()) {
    VTRACE_TRY(plan.duration, parse_duration(options.duration));
  }
  if (!options.max_size.empty()) {
    VTRACE_TRY(plan.max_bytes, parse_size(options.max_size));
  }
  ProgressPrinter printer(stderr, options.quiet);
  VTRACE_TRY(const CollectSummary summary, collect(plan, printer));
  printer.phase("done");
  if (options.json) {
    fmt::print("{}\n", to_json(summary).dump(2));
  } else {
    print_text(summary);
  }
  std::fflush(stdout);
  if (!summary.problem.empty()) return fail(summary.problem);
  return kExitOk;
}

}  // namespace

void add_collect(CommandSet& commands) {
  const auto options = std::make_shared<CollectOptions>();
  CLI::App& app =
      commands.add("collect", "Drain the FIFOs into DIR/cpuN.raw, whatever agent fills them",
                   [options] { return run_collect(*options); });
  options->directory.add_to(app);
  app.add_option("-o,--output", options->output, "Directory for the raw files")
      ->type_name("DIR")
      ->required();
  app.add_option("--duration", options->duration,
                 "Stop after that time: seconds, or with ms, s, m, h; without it Ctrl-C stops")
      ->type_name("TIME");
  app.add_option("--max-size", options->max_size,
                 "Stop before the files together are larger than that, with K, M or G")
      ->type_name("SIZE");
  app.add_flag("-q,--quiet", options->quiet, "No progress");
  app.add_flag("--json", options->json, "The result as one JSON object");
}

}  // namespace vtrace
