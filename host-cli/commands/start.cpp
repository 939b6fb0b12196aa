#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "host-cli/commands/command.h"
#include "host-cli/order.h"

namespace vtrace {
namespace {

struct StartOptions {
  DirectoryOptions directory;
  bool json = false;
};

Result<int> run_start(const StartOptions& options) {
  VTRACE_TRY(const std::string directory, options.directory.resolve());
  VTRACE_TRY(const auto outcome, order_start(directory));
  if (!outcome.answer) {
    if (options.json) {
      fmt::print("{}\n", nlohmann::json{{"answered", false}, {"order", "1"}}.dump(2));
    } else {
      fmt::print("no agent answered: gave the order \"1\" of the kernel's own agent to {}\n",
                 outcome.channel);
    }
    return kExitOk;
  }
  const Started& started = *outcome.answer;
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"answered", true},
                                      {"run_id", fmt::format("{:016x}", started.run_id)},
                                      {"cpus", started.cpus},
                                      {"subbuf_size", started.subbuf_size},
                                      {"notes", started.notes}}
                           .dump(2));
    return kExitOk;
  }
  fmt::print("started: CPUs {}, sub-buffers of {} bytes, run {:016x}\n", started.cpus,
             started.subbuf_size, started.run_id);
  print_notes(started.notes);
  return kExitOk;
}

}  // namespace

void add_start(CommandSet& commands) {
  const auto options = std::make_shared<StartOptions>();
  CLI::App& app = commands.add("start", "Order the agent to send the guest's top-level ring buffer",
                               [options] { return run_start(*options); });
  options->directory.add_to(app);
  app.add_flag("--json", options->json, "The answer as one JSON object");
}

}  // namespace vtrace
