#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "host-cli/commands/command.h"
#include "host-cli/counts_text.h"
#include "host-cli/order.h"

namespace vtrace {
namespace {

struct StatusOptions {
  DirectoryOptions directory;
  bool json = false;
};

const char* state_name(AgentState state) {
  switch (state) {
    case AgentState::idle:
      return "idle";
    case AgentState::recording:
      return "recording";
    case AgentState::draining:
      return "draining";
  }
  return "unknown";
}

void print_json(const AgentHello& agent, const StatusReport& report) {
  fmt::print("{}\n",
             nlohmann::json{{"state", state_name(report.state)},
                            {"agent_version", agent.agent_version},
                            {"kernel", agent.kernel_release},
                            {"machine", agent.machine},
                            {"boot_id", agent.boot_id},
                            {"cpus_online", agent.cpus_online},
                            {"cpus_with_port", agent.cpus_with_port},
                            {"buffer", report.buffer},
                            {"run_id", fmt::format("{:016x}", report.run_id)},
                            {"running_seconds", static_cast<double>(report.running_ns) / 1e9},
                            {"cpus", counts_json(report.cpus)},
                            {"notes", agent.notes}}
                 .dump(2));
}

Result<int> run_status(const StatusOptions& options) {
  VTRACE_TRY(const std::string directory, options.directory.resolve());
  AgentHello agent;
  VTRACE_TRY(const StatusReport report, ask_status(directory, agent));
  if (options.json) {
    print_json(agent, report);
    return kExitOk;
  }
  fmt::print("agent {} on {} {}, CPUs online {}, with a port {}\n", agent.agent_version,
             agent.kernel_release, agent.machine, agent.cpus_online, agent.cpus_with_port);
  fmt::print("{}", state_name(report.state));
  if (report.state != AgentState::idle) {
    fmt::print(": {}, {:.1f} s, run {:016x}", report.buffer,
               static_cast<double>(report.running_ns) / 1e9, report.run_id);
  }
  fmt::print("\n");
  if (!report.cpus.empty()) fmt::print("{}", counts_table(report.cpus));
  for (const std::string& note : agent.notes) fmt::print("note: {}\n", one_line(note));
  for (const std::string& note : report.notes) fmt::print("note: {}\n", one_line(note));
  return kExitOk;
}

}  // namespace

void add_status(CommandSet& commands) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App& app = commands.add("status", "Ask the agent what it does, with the counts of each CPU",
                               [options] { return run_status(*options); });
  options->directory.add_to(app);
  app.add_flag("--json", options->json, "The answer as one JSON object");
}

}  // namespace vtrace
