#include "tests/support/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <system_error>

#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using namespace std::chrono_literals;

TEST(Process, GivesExitCodeAndBothOutputs) {
  const auto result = run_process({"sh", "-c", "echo to out; echo to err >&2; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.out, "to out\n");
  EXPECT_EQ(result.err, "to err\n");
}

TEST(Process, TakesMoreOutputThanAPipeHolds) {
  const auto result =
      run_process({"sh", "-c", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"});
  EXPECT_EQ(result.out.size(), 3'000'000U);
  EXPECT_EQ(result.err.size(), 3'000'000U);
}

TEST(Process, IsKilledWithItsChildrenAtTheDeadline) {
  const auto result = run_process({"sh", "-c", "echo started; sleep 60 & sleep 60"}, {}, 300ms);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(result.out, "started\n");
  EXPECT_LT(result.elapsed, 5s);
}

TEST(Process, GetsInputEnvironmentAndDirectory) {
  const TempDir directory;
  const auto result = run_process(
      {"sh", "-c", "cat; echo $GIVEN; echo ${HOME-unset}; pwd"},
      {.environment = {"GIVEN=value", "HOME"}, .directory = directory.path(), .input = "typed\n"});
  EXPECT_EQ(result.out, "typed\nvalue\nunset\n" + directory.path().string() + "\n");
}

TEST(Process, WritesItsOutputToAFile) {
  const TempDir directory;
  const auto result = run_process({"echo", "kept"}, {.output_file = directory.file("out")});
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(read_text(directory.file("out")), "kept\n");
}

TEST(Process, ThatDoesNotExistThrowsWithItsName) {
  try {
    (void)run_process({"/no/such/program"});
    FAIL() << "it started";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/no/such/program"));
  }
}

TEST(BackgroundProcess, CanBeWaitedForSignalledAndReaped) {
  BackgroundProcess process(
      {"sh", "-c", "trap 'echo got it; exit 3' INT; echo ready; while :; do sleep 0.05; done"});
  ASSERT_TRUE(process.wait_for_out("ready\n"));
  EXPECT_TRUE(process.running());
  process.signal(SIGINT);
  const auto result = process.wait(5s);
  EXPECT_EQ(result.exit_code, 3) << result.describe();
  EXPECT_EQ(result.out, "ready\ngot it\n");
  EXPECT_FALSE(process.running());
}

TEST(BackgroundProcess, DiesWithItsOwner) {
  pid_t pid = -1;
  {
    const BackgroundProcess process({"sleep", "60"});
    pid = process.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(BackgroundProcess, WaitsInVainForTextThatNeverComes) {
  BackgroundProcess process({"sh", "-c", "echo this; sleep 60"});
  EXPECT_FALSE(process.wait_for_out("that", 200ms));
  EXPECT_TRUE(process.wait_for_out("this"));
}

TEST(TempDir, IsRemovedWithItsContent) {
  std::filesystem::path path;
  {
    const TempDir directory;
    path = directory.path();
    write_text(directory.file("file"), "text");
    EXPECT_EQ(read_text(directory.file("file")), "text");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace vtrace::test
