#include "tests/support/traced_guest.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>

namespace vtrace::test {
namespace {

const std::string kCommand = std::string(VTRACE_BIN_DIR) + "/virtio-trace";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TracedGuest::TracedGuest(const std::string& kernel, int cpus, std::vector<std::string> kernel_args)
    : cpus_(cpus) {
  const std::string count = std::to_string(cpus);
  const auto made = run_process({kCommand, "setup", "--cpus", count, "--dir", fifos()});
  if (made.exit_code != 0) throw std::runtime_error(made.describe());
  const auto args =
      run_process({kCommand, "qemu-args", "--cpus", count, "--dir", fifos(), "--format", "lines"});
  if (args.exit_code != 0) throw std::runtime_error(args.describe());
  vm_ = std::make_unique<GuestVm>(GuestConfig{.kernel = kernel,
                                              .cpus = cpus,
                                              .qemu_args = lines_of(args.out),
                                              .kernel_args = std::move(kernel_args)});
}

std::vector<std::string> TracedGuest::command(std::vector<std::string> words) const {
  words.insert(words.begin(), kCommand);
  words.insert(words.end(), {"--dir", fifos()});
  return words;
}

ProcessResult TracedGuest::run(std::vector<std::string> words, Duration deadline) const {
  return run_process(command(std::move(words)), {}, deadline);
}

std::unique_ptr<BackgroundProcess> TracedGuest::start_record(std::vector<std::string> words) const {
  words.insert(words.begin(), {"record", "--wait", "60s"});
  auto record = std::make_unique<BackgroundProcess>(command(std::move(words)));
  if (!record->wait_for_err("recording\n", std::chrono::seconds(90)))
    throw std::runtime_error("record did not begin: " + record->err_so_far());
  return record;
}

}  // namespace vtrace::test
