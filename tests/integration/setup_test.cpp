// setup and teardown as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kProgram = VTRACE_BIN_DIR "/virtio-trace";
constexpr uid_t kNobody = 65534;

class SetupCommand : public testing::Test {
 protected:
  // The program with a base directory of the test's own.
  ProcessResult run(const std::vector<std::string>& arguments, ProcessOptions options = {}) const {
    std::vector<std::string> argv = {kProgram};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    options.environment.push_back("VIRTIO_TRACE_DIR=" + base_);
    return run_process(argv, options);
  }

  TempDir root_;
  std::string base_ = root_.file("base");
};

// Failed with that exit code and one line on stderr, and said nothing else.
void expect_one_line(const ProcessResult& result, int exit_code) {
  EXPECT_EQ(result.exit_code, exit_code) << result.describe();
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.describe();
  EXPECT_EQ(result.out, "") << result.describe();
}

TEST_F(SetupCommand, RefusesBadCountsAndChangesNothing) {
  for (const char* count : {"0", "-1", "100000", "text", "", "2x", "0x2", "99999999999999999999"}) {
    expect_one_line(run({"setup", "--cpus", count}), 2);
    expect_one_line(run({"setup", "--cpus", count, "--dir", root_.file("other")}), 2);
  }
  expect_one_line(run({"setup"}), 2);
  expect_one_line(run({"setup", "--cpus", "1", "--mode", "9"}), 2);
  expect_one_line(run({"setup", "--cpus", "1", "--owner", "no-such-user"}), 2);
  EXPECT_TRUE(std::filesystem::is_empty(root_.path()));
}

TEST_F(SetupCommand, MakesMendsAndRemoves) {
  const auto made = run({"setup", "--cpus", "4", "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.describe();
  const auto report = nlohmann::json::parse(made.out);
  EXPECT_EQ(report["directory"], base_);
  EXPECT_EQ(report["made"], 10);
  EXPECT_EQ(nlohmann::json::parse(run({"setup", "--cpus", "4", "--json"}).out)["kept"], 10);
  EXPECT_EQ(nlohmann::json::parse(run({"teardown", "--json"}).out)["removed"], 10);
  EXPECT_FALSE(std::filesystem::exists(base_));
  const auto again = run({"teardown"});
  EXPECT_EQ(again.exit_code, 0) << again.describe();
  EXPECT_THAT(again.out, HasSubstr("nothing to remove"));
}

TEST_F(SetupCommand, TakesAnyGuestNameThatCanBeADirectory) {
  const std::vector<std::string> names = {
      "with blank",    "quote's \"both\"",    "$HOME",       "a;touch x",
      "-leading-dash", "größe-日本語",        "back\\slash", "`id`",
      "new\nline",     std::string(200, 'n'), "*",           "a,b=c",
      "tab\there"};
  for (const std::string& name : names) {
    const auto result = run({"setup", "--cpus", "1", "--guest=" + name});
    EXPECT_EQ(result.exit_code, 0) << result.describe();
    EXPECT_TRUE(std::filesystem::is_fifo(std::filesystem::path(base_) / name / "agent-ctl-path.in"))
        << name;
  }
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(base_)),
            static_cast<std::ptrdiff_t>(names.size()));
  for (const std::string& name : names)
    EXPECT_EQ(run({"teardown", "--guest=" + name}).exit_code, 0) << name;
  EXPECT_TRUE(std::filesystem::is_empty(base_));
}

TEST_F(SetupCommand, RefusesGuestNamesThatLeaveTheBase) {
  for (const std::string name : {"..", ".", "a/b", "../x", "/etc"})
    expect_one_line(run({"setup", "--cpus", "1", "--guest=" + name}), 2);
  expect_one_line(run({"setup", "--cpus", "1", "--guest=" + std::string(256, 'n')}), 2);
  EXPECT_TRUE(std::filesystem::is_empty(root_.path()));
}

TEST_F(SetupCommand, RefusesALinkAndADirectoryOfAnotherUser) {
  std::filesystem::create_directory(root_.path() / "real");
  std::filesystem::create_directory_symlink("real", base_);
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"setup", "--cpus", "1"}, {"teardown"}}) {
    const auto result = run(order);
    expect_one_line(result, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr(base_), HasSubstr("symbolic link")));
  }
  if (::geteuid() != 0) return;
  const std::string real = root_.file("real");
  ASSERT_EQ(::chown(real.c_str(), kNobody, kNobody), 0);
  const auto result = run({"setup", "--cpus", "1", "--dir", real});
  expect_one_line(result, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr(real), HasSubstr("nobody")));
  EXPECT_TRUE(std::filesystem::is_empty(real));
}

TEST_F(SetupCommand, AsAUserGivesNothingAwayAndChangesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(root_.path().c_str(), 0755), 0);
  const std::string own = root_.file("own");
  std::filesystem::create_directory(own);
  ASSERT_EQ(::chown(own.c_str(), kNobody, kNobody), 0);
  const ProcessOptions as_nobody{.user = kNobody};
  const auto refused = run({"setup", "--cpus", "1", "--dir", own, "--owner", "root"}, as_nobody);
  expect_one_line(refused, 1);
  EXPECT_TRUE(std::filesystem::is_empty(own));
  const auto made = run({"setup", "--cpus", "1", "--dir", own}, as_nobody);
  EXPECT_EQ(made.exit_code, 0) << made.describe();
  // Where it may not write, it says so and no more.
  expect_one_line(run({"setup", "--cpus", "1", "--dir", root_.file("x")}, as_nobody), 1);
}

TEST_F(SetupCommand, TeardownNamesWhoHasAFifoOpen) {
  ASSERT_EQ(run({"setup", "--cpus", "1"}).exit_code, 0);
  BackgroundProcess holder({"sh", "-c", "exec 3<>\"$1\"; echo open; exec sleep 60", "sh",
                            base_ + "/trace-path-cpu0.out"});
  ASSERT_TRUE(holder.wait_for_out("open"));
  const auto refused = run({"teardown"});
  expect_one_line(refused, 1);
  EXPECT_THAT(refused.err, HasSubstr(std::to_string(holder.pid())));
  EXPECT_TRUE(std::filesystem::exists(base_ + "/agent-ctl-path.in"));
  EXPECT_EQ(run({"teardown", "--force"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(base_));
}

}  // namespace
}  // namespace vtrace::test
