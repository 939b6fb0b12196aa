#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "common/say.h"
#include "host-cli/commands/command.h"
#include "host-cli/counts_text.h"
#include "host-cli/order.h"

namespace vtrace {
namespace {

struct StopOptions {
  DirectoryOptions directory;
  bool json = false;
};

Result<int> run_stop(const StopOptions& options) {
  VTRACE_TRY(const std::string directory, options.directory.resolve());
  VTRACE_TRY(const auto outcome, order_stop(directory));
  if (!outcome.answer) {
    if (options.json) {
      fmt::print("{}\n", nlohmann::json{{"answered", false}, {"order", "0"}}.dump(2));
    } else {
      fmt::print("no agent answered: gave the order \"0\" of the kernel's own agent to {}\n",
                 outcome.channel);
    }
    return kExitOk;
  }
  const Stopped& stopped = *outcome.answer;
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"answered", true},
                                      {"run_id", fmt::format("{:016x}", stopped.run_id)},
                                      {"complete", stopped.complete},
                                      {"cpus", counts_json(stopped.cpus)},
                                      {"notes", stopped.notes}}
                           .dump(2));
    return kExitOk;
  }
  fmt::print("stopped: run {:016x}\n{}", stopped.run_id, counts_table(stopped.cpus));
  print_notes(stopped.notes);
  if (!stopped.complete)
    say(stderr, "note: data is still on its way: read the trace FIFOs to take it\n");
  return kExitOk;
}

}  // namespace

void add_stop(CommandSet& commands) {
  const auto options = std::make_shared<StopOptions>();
  CLI::App& app = commands.add("stop", "Order the agent to stop, and print what it has sent",
                               [options] { return run_stop(*options); });
  options->directory.add_to(app);
  app.add_flag("--json", options->json, "The answer as one JSON object");
}

}  // namespace vtrace
