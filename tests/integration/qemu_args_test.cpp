// The arguments that qemu-args prints, given to a real QEMU that does not run its guest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/layout.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

const std::string kProgram = VTRACE_BIN_DIR "/virtio-trace";
const std::string kQuit =
    "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"query-chardev\"}\n{\"execute\":\"quit\"}\n";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> qemu_command(const std::string& machine) {
  return {"qemu-system-x86_64", "-accel", "tcg",  "-S",   "-nodefaults", "-M", machine, "-m", "64",
          "-display",           "none",   "-qmp", "stdio"};
}

// The labels of our chardevs in QMP's answer to query-chardev.
std::vector<std::string> chardevs_in(const std::string& qmp_output) {
  std::vector<std::string> labels;
  for (const std::string& line : lines_of(qmp_output)) {
    const auto answer = nlohmann::json::parse(line, nullptr, false);
    if (!answer.is_object() || !answer.contains("return") || !answer["return"].is_array()) continue;
    for (const auto& chardev : answer["return"]) {
      const std::string label = chardev["label"];
      if (label.starts_with("virtio-trace-")) labels.push_back(label);
    }
  }
  return labels;
}

struct Case {
  std::string machine;
  int cpus;
};

void PrintTo(const Case& given, std::ostream* out) {
  *out << given.machine << " with " << given.cpus << " CPUs";
}

class QemuStarts : public testing::TestWithParam<Case> {};

TEST_P(QemuStarts, WithThePipesOfSetup) {
  const auto [machine, cpus] = GetParam();
  const TempDir root;
  const std::string fifos = root.file("a, b's \"dir\"");
  const std::string count = std::to_string(cpus);
  const auto setup = run_process({kProgram, "setup", "--cpus", count, "--dir", fifos});
  ASSERT_EQ(setup.exit_code, 0) << setup.describe();
  const auto printed =
      run_process({kProgram, "qemu-args", "--cpus", count, "--dir", fifos, "--format", "lines"});
  ASSERT_EQ(printed.exit_code, 0) << printed.describe();
  auto command = qemu_command(machine);
  for (const std::string& argument : lines_of(printed.out)) command.push_back(argument);
  const auto qemu = run_process(command, {.input = kQuit});
  EXPECT_EQ(qemu.exit_code, 0) << qemu.describe();
  EXPECT_EQ(chardevs_in(qemu.out).size(), static_cast<std::size_t>(cpus) + 1) << qemu.describe();
}

INSTANTIATE_TEST_SUITE_P(Machines, QemuStarts,
                         testing::Values(Case{"q35", 1}, Case{"q35", 14}, Case{"q35", 15},
                                         Case{"q35", 30}, Case{"q35", 64}, Case{"pc", 1},
                                         Case{"pc", 14}, Case{"pc", 15}, Case{"pc", 30},
                                         Case{"pc", 64}),
                         [](const auto& given) {
                           return given.param.machine + "With" + std::to_string(given.param.cpus);
                         });

TEST(QemuArgsCommand, PastedIntoAShellStartsQemu) {
  const TempDir root;
  const std::string fifos = root.file("it's $HOME; a \"guest\"");
  ASSERT_EQ(run_process({kProgram, "setup", "--cpus", "2", "--dir", fifos}).exit_code, 0);
  const auto printed = run_process({kProgram, "qemu-args", "--cpus", "2", "--dir", fifos});
  ASSERT_EQ(printed.exit_code, 0) << printed.describe();
  std::string script;
  for (const std::string& word : qemu_command("q35")) script += word + " ";
  const auto qemu = run_process({"sh", "-c", script + "\\\n" + printed.out}, {.input = kQuit});
  EXPECT_EQ(qemu.exit_code, 0) << qemu.describe();
  EXPECT_EQ(chardevs_in(qemu.out).size(), 3U) << qemu.describe();
}

TEST(QemuArgsCommand, WithUnixSocketsLetsTheHostConnect) {
  const TempDir root;
  const auto printed = run_process({kProgram, "qemu-args", "--cpus", "2", "--dir",
                                    root.path().string(), "--format", "json", "--backend", "unix"});
  ASSERT_EQ(printed.exit_code, 0) << printed.describe();
  auto command = qemu_command("q35");
  for (const std::string argument : nlohmann::json::parse(printed.out)) command.push_back(argument);
  // -qmp stdio ends QEMU's input at once; this one waits for its sockets to be tried instead.
  std::ranges::replace(command, std::string("stdio"), std::string("null"));
  BackgroundProcess qemu(command);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = root.file("agent-ctl-path.sock");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_TRUE(eventually(
      [&] {
        return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address),
                         sizeof address) == 0;
      },
      Duration{10'000}))
      << qemu.err_so_far();
}

TEST(QemuArgsCommand, RefusesBadCountsInOneLine) {
  for (const char* count : {"0", "-1", "100000", "text", "", "1.5", " 2"}) {
    const auto result = run_process({kProgram, "qemu-args", "--cpus", count});
    EXPECT_EQ(result.exit_code, 2) << result.describe();
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.describe();
    EXPECT_EQ(result.out, "");
  }
}

TEST(QemuArgsCommand, MakesARelativeDirectoryAbsolute) {
  const TempDir root;
  const auto result = run_process({kProgram, "qemu-args", "--cpus", "1", "--dir", "some/where"},
                                  {.directory = root.path()});
  EXPECT_THAT(result.out, testing::HasSubstr("path=" + root.file("some/where/agent-ctl-path")));
}

}  // namespace
}  // namespace vtrace::test
