#include "host-cli/qemu_args.h"

#include <fmt/format.h>

#include <memory>

#include "host-cli/commands/command.h"

namespace vtrace {
namespace {

struct Options {
  DirectoryOptions directory;
  std::string cpus;
  std::string format = "shell";
  std::string backend = "pipe";
};

Result<int> run(const Options& options) {
  QemuArgsRequest request;
  VTRACE_TRY(request.cpus, parse_cpu_count(options.cpus));
  VTRACE_TRY(const ArgsFormat format, parse_args_format(options.format));
  VTRACE_TRY(request.backend, parse_backend(options.backend));
  VTRACE_TRY(request.directory, options.directory.resolve_absolute());
  VTRACE_TRY(const std::vector<std::string> arguments, qemu_arguments(request));
  VTRACE_TRY(const std::string text, format_arguments(arguments, format));
  fmt::print("{}", text);
  return kExitOk;
}

}  // namespace

void add_qemu_args(CommandSet& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = commands.add("qemu-args",
                                   "Print the QEMU arguments of the channels, for a guest without "
                                   "libvirt",
                                   [options] { return run(*options); });
  options->directory.add_to(command);
  command
      .add_option("--cpus", options->cpus,
                  "How many CPUs the guest can have at most: one port each, and the control port")
      ->required()
      ->type_name("N");
  command
      .add_option("--format", options->format,
                  "shell: to paste into a command line, quoted where it must be (default); "
                  "lines: one argument a line, unquoted, in order; json: an array of strings")
      ->type_name("shell|lines|json");
  command
      .add_option("--backend", options->backend,
                  "pipe: the FIFOs that setup makes (default); unix: a socket for each port, "
                  "NAME.sock in the same directory, which QEMU makes and listens on")
      ->type_name("pipe|unix");
  command.footer(
      "With --backend pipe run setup first: QEMU opens the FIFOs when it starts, and does not "
      "make\n"
      "them. At most 15 ports share a controller, because QEMU leaves further ones dead.");
}

}  // namespace vtrace
