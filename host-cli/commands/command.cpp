#include "host-cli/commands/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "common/say.h"
#include "host-cli/guest_directory.h"

namespace vtrace {
namespace {

// A shell variable that is not set must not mean the base directory.
std::string not_empty(const std::string& value) {
  return value.empty() ? "must not be empty" : std::string();
}

}  // namespace

CLI::App& CommandSet::add(const std::string& name, const std::string& summary, CommandBody body) {
  CLI::App* const command = app_->add_subcommand(name, summary);
  command->callback([this, name, body = std::move(body)] {
    chosen_ = name;
    body_ = body;
  });
  return *command;
}

void DirectoryOptions::add_to(CLI::App& command) {
  command
      .add_option("-g,--guest", guest, "Guest whose FIFOs are meant: the directory below the base")
      ->type_name("GUEST")
      ->check(not_empty);
  command.add_option("-d,--dir", directory, "Directory of the FIFOs (overrides --guest)")
      ->type_name("DIR")
      ->check(not_empty);
}

Result<std::string> DirectoryOptions::resolve() const {
  const char* const base = std::getenv("VIRTIO_TRACE_DIR");
  return fifo_directory(
      {.base = base == nullptr ? "" : base, .guest = guest, .directory = directory});
}

Result<std::string> DirectoryOptions::resolve_absolute() const {
  VTRACE_TRY(const std::string path, resolve());
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (error && !path.starts_with('/')) return fail_errno("the working directory", error.value());
  return absolute_path(path, here.string());
}

int exit_code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::usage:
      return kExitUsage;
    case ErrorKind::interrupted:
      return kExitInterrupted;
    default:
      return kExitFailed;
  }
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say(stderr, "note: {}\n", one_line(note));
}

}  // namespace vtrace
