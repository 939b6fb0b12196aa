#include "tests/support/guest_image.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

fs::path guest_dir() {
  const char* const given = std::getenv("VTRACE_GUEST_DIR");
  return given != nullptr ? fs::path(given) : fs::path(VTRACE_SOURCE_DIR) / "build/guest";
}

GuestImage make_image(const std::string& kernel) {
  const fs::path directory = guest_dir();
  const fs::path make_guest = fs::path(VTRACE_SOURCE_DIR) / "tests/support/guest/make-guest.sh";
  const fs::path tools(VTRACE_GUEST_TOOLS_DIR);
  std::vector<std::string> argv{
      make_guest.string(),
      kernel,
      directory.string(),
      "--workload",
      (tools / "vtrace-workload").string(),
      "--command-server",
      (tools / "vtrace-command-server").string(),
  };
  const fs::path agent(VTRACE_GUEST_AGENT);
  if (fs::exists(agent)) argv.insert(argv.end(), {"--agent", agent.string()});
  const auto made = run_process(argv, {}, std::chrono::minutes(10));
  if (made.exit_code != 0)
    throw std::runtime_error(fmt::format("guest {}: {}", kernel, trimmed(made.err)));
  fmt::print("{}", made.out);
  return {.kernel = kernel,
          .release = trimmed(read_text(directory / kernel / "release")),
          .vmlinuz = directory / kernel / "vmlinuz",
          .initramfs = directory / kernel / "initramfs.cpio.gz",
          .accelerator = trimmed(read_text(directory / "accel")),
          .accelerator_args = lines(read_text(directory / "accel.args"))};
}

}  // namespace

const GuestImage& guest_image(const std::string& kernel) {
  static std::map<std::string, GuestImage> images;
  auto found = images.find(kernel);
  if (found == images.end()) found = images.emplace(kernel, make_image(kernel)).first;
  return found->second;
}

}  // namespace vtrace::test
