#include <fmt/format.h>

#include <memory>

#include "common/layout.h"
#include "host-cli/commands/command.h"
#include "host-cli/commands/json.h"
#include "host-cli/fifo_setup.h"

namespace vtrace {
namespace {

struct Options {
  DirectoryOptions directory;
  std::string cpus;
  std::string owner;
  std::string mode;
  bool json = false;
};

void print_report(const std::string& directory, int cpus, const SetupReport& report, bool json) {
  if (json) {
    print_json({{"directory", directory},
                {"cpus", cpus},
                {"made_directory", report.made_directory},
                {"made", report.made},
                {"mended", report.mended},
                {"kept", report.kept},
                {"surplus_cpus", report.surplus_cpus},
                {"notes", report.notes}});
    return;
  }
  fmt::print("{}: ready for {} {}: {} FIFOs made, {} mended, {} right already\n", directory, cpus,
             cpus == 1 ? "CPU" : "CPUs", report.made, report.mended, report.kept);
  print_notes(report.notes);
}

Result<int> run(const Options& options) {
  SetupRequest request;
  VTRACE_TRY(request.cpus, parse_cpu_count(options.cpus));
  if (!options.owner.empty()) {
    VTRACE_TRY(request.owner, parse_owner(options.owner));
  }
  if (!options.mode.empty()) {
    VTRACE_TRY(request.mode, parse_fifo_mode(options.mode));
  }
  VTRACE_TRY(request.directory, options.directory.resolve());
  VTRACE_TRY(const SetupReport report, set_up_fifos(request));
  print_report(request.directory, request.cpus, report, options.json);
  return kExitOk;
}

}  // namespace

void add_setup(CommandSet& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = commands.add("setup", "Make or mend a guest's directory of FIFOs",
                                   [options] { return run(*options); });
  options->directory.add_to(command);
  command
      .add_option("--cpus", options->cpus,
                  "How many CPUs the guest can have at most: each gets two FIFOs, and the control "
                  "port two")
      ->required()
      ->type_name("N");
  command
      .add_option("--owner", options->owner,
                  "Who the FIFOs shall belong to: the user that QEMU runs as (default: who runs "
                  "this; another user takes root). The directory stays yours")
      ->type_name("USER[:GROUP]");
  command
      .add_option("--mode", options->mode,
                  "Mode of the FIFOs, octal, whatever the umask is (default: 0600). The directory "
                  "is made with 0755, so that QEMU can pass; one that exists keeps its mode")
      ->type_name("M");
  command.add_flag("--json", options->json, "Print what was done as one JSON object");
  command.footer(
      "Run again it makes what is missing and puts owner and mode right; FIFOs that are there are\n"
      "never emptied. FIFOs of CPUs beyond N are reported and stay.");
}

}  // namespace vtrace
