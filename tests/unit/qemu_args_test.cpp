#include "host-cli/qemu_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "host-cli/guest_directory.h"
#include "tests/support/must.h"
#include "tests/support/process.h"

namespace vtrace::test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> arguments(int cpus, const std::string& directory = "/fifos",
                                   Backend backend = Backend::pipe) {
  return must(qemu_arguments({.directory = directory, .cpus = cpus, .backend = backend}));
}

// The value of `key` in "driver,key=value,…"; empty when it is not there.
std::string value_of(const std::string& option, const std::string& key) {
  const std::size_t at = option.find("," + key + "=");
  if (at == std::string::npos) return "";
  const std::size_t from = at + key.size() + 2;
  return option.substr(from, option.find(',', from) - from);
}

TEST(QemuArgs, OfOneCpuAreAControllerAndTwoPorts) {
  EXPECT_THAT(
      arguments(1),
      ElementsAre("-device", "virtio-serial-pci,id=virtio-trace-serial1,max_ports=16", "-chardev",
                  "pipe,id=virtio-trace-chardev-ctl,path=/fifos/agent-ctl-path", "-device",
                  "virtserialport,bus=virtio-trace-serial1.0,nr=1,chardev=virtio-trace-chardev-ctl,"
                  "id=virtio-trace-port-ctl,name=agent-ctl-path",
                  "-chardev", "pipe,id=virtio-trace-chardev-cpu0,path=/fifos/trace-path-cpu0",
                  "-device",
                  "virtserialport,bus=virtio-trace-serial1.0,nr=2,chardev=virtio-trace-chardev-"
                  "cpu0,id=virtio-trace-port-cpu0,name=trace-path-cpu0"));
}

TEST(QemuArgs, UseEachNameOnceAndAtMost15PortsOnAController) {
  for (const int cpus : {1, 14, 15, 29, 30, 64, 289, 1024}) {
    std::set<std::string> ids;
    std::set<std::string> chardevs_used;
    std::map<std::string, std::set<int>> ports;
    std::set<std::string> names;
    int devices = 0;
    const auto all = arguments(cpus);
    for (std::size_t i = 1; i < all.size(); i += 2) {
      ids.insert(value_of(all[i], "id"));
      ++devices;
      if (!all[i].starts_with("virtserialport")) continue;
      names.insert(value_of(all[i], "name"));
      chardevs_used.insert(value_of(all[i], "chardev"));
      ports[value_of(all[i], "bus")].insert(std::stoi(value_of(all[i], "nr")));
    }
    const auto count = static_cast<std::size_t>(cpus) + 1;
    EXPECT_THAT(ids, SizeIs(static_cast<std::size_t>(devices))) << cpus;
    EXPECT_THAT(names, SizeIs(count));
    EXPECT_THAT(chardevs_used, SizeIs(count));
    EXPECT_THAT(ports, SizeIs((count + 14) / 15));
    std::size_t placed = 0;
    for (const auto& [bus, numbers] : ports) {
      EXPECT_GE(*numbers.begin(), 1);
      EXPECT_LE(*numbers.rbegin(), 15);
      placed += numbers.size();
    }
    EXPECT_EQ(placed, count);
  }
}

TEST(QemuArgs, DoubleCommasInPaths) {
  EXPECT_THAT(arguments(1, "/a,b,,c")[3], HasSubstr(",path=/a,,b,,,,c/agent-ctl-path"));
  EXPECT_THAT(arguments(1, "/a,b", Backend::unix_socket)[3],
              HasSubstr(",path=/a,,b/agent-ctl-path.sock,server=on,wait=off"));
}

TEST(QemuArgs, RefuseASocketPathThatIsTooLong) {
  const std::string fits = "/" + std::string(kMaxSocketPath - 1 - 20 - 1, 'x');
  EXPECT_TRUE(qemu_arguments({.directory = fits, .cpus = 1, .backend = Backend::unix_socket}));
  const auto refused =
      qemu_arguments({.directory = fits + "x", .cpus = 1, .backend = Backend::unix_socket});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(fits + "x/trace-path-cpu0.sock"));
}

TEST(QemuArgs, InShellFormatComeBackWholeFromAShell) {
  const auto all = arguments(2, "/it's a \"dir\", $HOME `id`; \\ * ~é\t");
  const std::string text = must(format_arguments(all, ArgsFormat::shell));
  const auto result = run_process({"sh", "-c", "printf '%s\\n' \\\n" + text});
  std::string expected;
  for (const std::string& argument : all) expected += argument + "\n";
  EXPECT_EQ(result.out, expected) << result.describe();
}

TEST(QemuArgs, InShellFormatPutADeviceALine) {
  const std::string text = must(format_arguments(arguments(1), ArgsFormat::shell));
  EXPECT_TRUE(
      text.starts_with("-device virtio-serial-pci,id=virtio-trace-serial1,max_ports=16 \\\n"
                       "-chardev pipe,"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  EXPECT_TRUE(text.ends_with("name=trace-path-cpu0\n"));
}

TEST(QemuArgs, InLinesFormatAreUnquoted) {
  EXPECT_EQ(must(format_arguments({"-a", "b 'c'"}, ArgsFormat::lines)), "-a\nb 'c'\n");
}

TEST(QemuArgs, InJsonFormatAreAnArrayOfStrings) {
  const auto all = arguments(3, "/a \"b\"\n");
  const auto parsed = nlohmann::json::parse(must(format_arguments(all, ArgsFormat::json)));
  EXPECT_THAT(parsed.get<std::vector<std::string>>(), ElementsAreArray(all));
}

TEST(QemuArgs, WithANewlineAreRefusedWhereItWouldSplitThem) {
  EXPECT_FALSE(format_arguments({"a\nb"}, ArgsFormat::lines));
  EXPECT_FALSE(format_arguments({"a\nb"}, ArgsFormat::shell));
}

TEST(QemuArgs, ThatAreNoUtf8AreRefusedInJson) {
  EXPECT_FALSE(format_arguments({"a\xff"}, ArgsFormat::json));
  EXPECT_TRUE(format_arguments({"a\xff"}, ArgsFormat::lines));
}

TEST(QemuArgs, FormatsAndBackendsThatAreUnknownAreUsageErrors) {
  EXPECT_EQ(parse_args_format("yaml").error().kind, ErrorKind::usage);
  EXPECT_EQ(parse_backend("tcp").error().kind, ErrorKind::usage);
}

TEST(ShellWord, QuotesOnlyWhereItMust) {
  EXPECT_EQ(shell_word("a-b/c,d=1"), "a-b/c,d=1");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("~"), "'~'");
}

TEST(AbsolutePath, JoinsAndCleans) {
  EXPECT_EQ(absolute_path("a/b", "/home"), "/home/a/b");
  EXPECT_EQ(absolute_path("/a//b/./c/", "/home"), "/a/b/c");
  EXPECT_EQ(absolute_path("../x", "/home"), "/home/../x");
  EXPECT_EQ(absolute_path("/", "/home"), "/");
  EXPECT_EQ(absolute_path(".", "/"), "/");
}

}  // namespace
}  // namespace vtrace::test
