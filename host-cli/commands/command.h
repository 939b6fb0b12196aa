// How a subcommand joins the program: each file of this folder has one add_NAME(CommandSet&),
// called by main.cpp; it declares its options and gives its body. A body prints its result on
// stdout and returns the exit code, or an Error that main prints, once.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace vtrace {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

using CommandBody = std::function<Result<int>()>;

class CommandSet {
 public:
  explicit CommandSet(CLI::App& app) : app_(&app) {}

  // A new subcommand; `body` runs after all options are parsed, when it is the one chosen.
  CLI::App& add(const std::string& name, const std::string& summary, CommandBody body);

  // The chosen one's name and body; empty before parsing.
  [[nodiscard]] const std::string& chosen() const { return chosen_; }
  [[nodiscard]] const CommandBody& body() const { return body_; }

 private:
  CLI::App* app_;
  std::string chosen_;
  CommandBody body_;
};

// Where the FIFOs are: --dir, else --guest below the base directory, else the base directory.
struct DirectoryOptions {
  std::string guest;
  std::string directory;

  void add_to(CLI::App& command);
  [[nodiscard]] Result<std::string> resolve() const;
  // The same from the root on, for QEMU and libvirt, which run elsewhere.
  [[nodiscard]] Result<std::string> resolve_absolute() const;
};

// Option values with units ("4M", "30s"): parsed by CLI11 as text, checked when the body runs so
// that the error is ours.
[[nodiscard]] int exit_code_of(const Error& error);

// `text` with its control characters (a newline in a path, say) written as \n or \xNN, so that it
// stays on one line and does nothing to a terminal.
[[nodiscard]] std::string one_line(std::string_view text);

// "note: NOTE" on stderr, a line each.
void print_notes(const std::vector<std::string>& notes);

void add_setup(CommandSet& commands);
void add_teardown(CommandSet& commands);
void add_xml(CommandSet& commands);
void add_qemu_args(CommandSet& commands);
void add_start(CommandSet& commands);
void add_stop(CommandSet& commands);
void add_status(CommandSet& commands);
void add_collect(CommandSet& commands);
void add_record(CommandSet& commands);
void add_report(CommandSet& commands);
void add_demo(CommandSet& commands);

}  // namespace vtrace
