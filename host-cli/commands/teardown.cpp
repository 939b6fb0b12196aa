#include <fmt/format.h>

#include <memory>

#include "host-cli/commands/command.h"
#include "host-cli/commands/json.h"
#include "host-cli/fifo_setup.h"

namespace vtrace {
namespace {

struct Options {
  DirectoryOptions directory;
  bool force = false;
  bool json = false;
};

void print_report(const std::string& directory, const TeardownReport& report, bool json) {
  if (json) {
    print_json({{"directory", directory},
                {"existed", report.existed},
                {"removed", report.removed},
                {"removed_directory", report.removed_directory},
                {"notes", report.notes}});
    return;
  }
  if (!report.existed) {
    fmt::print("{}: not there, nothing to remove\n", directory);
    return;
  }
  fmt::print("{}: {} FIFOs removed, the directory {}\n", directory, report.removed,
             report.removed_directory ? "too" : "stays");
  print_notes(report.notes);
}

Result<int> run(const Options& options) {
  VTRACE_TRY(const std::string directory, options.directory.resolve());
  VTRACE_TRY(const TeardownReport report, tear_down_fifos(directory, options.force));
  print_report(directory, report, options.json);
  return kExitOk;
}

}  // namespace

void add_teardown(CommandSet& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = commands.add("teardown", "Remove what setup made, and nothing else",
                                   [options] { return run(*options); });
  options->directory.add_to(command);
  command.add_flag("--force", options->force,
                   "Remove the FIFOs also while a process has them open: a running guest keeps its "
                   "ends, which nobody can reach any more");
  command.add_flag("--json", options->json, "Print what was done as one JSON object");
  command.footer(
      "Only FIFOs with virtio-trace's names are removed, then the directory when it is empty and\n"
      "yours. A directory that is not there is no error.");
}

}  // namespace vtrace
