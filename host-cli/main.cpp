#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "common/say.h"
#include "host-cli/commands/command.h"

namespace {

// A parse error of CLI11 in our form: one line, exit 2. Help and version go to stdout with exit 0.
int finish_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  vtrace::say(stderr, "virtio-trace: {} (see virtio-trace --help)\n",
              vtrace::one_line(error.what()));
  return vtrace::kExitUsage;
}

// Runs a command's body. What it printed is on its way when it ends: a full disk behind stdout is
// an error, a reader that has left is none.
vtrace::Result<int> run(const vtrace::CommandBody& body) {
  try {
    vtrace::Result<int> code = body();
    errno = 0;
    const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    if (code && !printed && errno != EPIPE)
      return vtrace::fail_errno("standard output", errno == 0 ? EIO : errno);
    return code;
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE) return vtrace::kExitOk;
    return vtrace::fail_errno("standard output", error.code().value());
  }
}

}  // namespace

int main(int argc, char** argv) {
  vtrace::keep_standard_streams();
  // A reader that leaves (a pipe into head) is seen as EPIPE where it is written to.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("Brings a KVM/QEMU guest's kernel trace to the host.", "virtio-trace");
  app.set_version_flag("--version", "virtio-trace " VTRACE_VERSION);
  app.require_subcommand(1);
  vtrace::CommandSet commands(app);
  vtrace::add_setup(commands);
  vtrace::add_teardown(commands);
  vtrace::add_start(commands);
  vtrace::add_stop(commands);
  vtrace::add_status(commands);
  vtrace::add_collect(commands);
  vtrace::add_record(commands);
  vtrace::add_demo(commands);
  vtrace::add_qemu_args(commands);
  vtrace::add_report(commands);
  vtrace::add_xml(commands);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return finish_parse(app, error);
  }
  const vtrace::Result<int> code = run(commands.body());
  if (code) return *code;
  vtrace::say(stderr, "virtio-trace {}: {}\n", commands.chosen(),
              vtrace::one_line(code.error().message));
  return vtrace::exit_code_of(code.error());
}
