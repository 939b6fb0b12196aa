#include "host-cli/fifo_setup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "common/layout.h"
#include "host-cli/fifo_set.h"
#include "tests/support/must.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uid_t kNobody = 65534;

struct stat status_of(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) < 0) throw std::runtime_error("no " + path);
  return status;
}

mode_t mode_of(const std::string& path) {
  return status_of(path).st_mode & 07777U;
}

std::set<std::string> names_of(const std::filesystem::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

std::string error_of(const auto& result) {
  return result ? "no error" : result.error().message;
}

// setup and teardown in a directory that does not exist yet.
class FifoSetupTest : public testing::Test {
 protected:
  [[nodiscard]] SetupRequest request(int cpus) const { return {.directory = path_, .cpus = cpus}; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  TempDir root_;
  std::string path_ = root_.file("fifos");
};

TEST_F(FifoSetupTest, MakesTwoFifosForEachPort) {
  const SetupReport report = must(set_up_fifos(request(2)));
  EXPECT_TRUE(report.made_directory);
  EXPECT_EQ(report.made, 6);
  EXPECT_THAT(names_of(path_),
              ElementsAre("agent-ctl-path.in", "agent-ctl-path.out", "trace-path-cpu0.in",
                          "trace-path-cpu0.out", "trace-path-cpu1.in", "trace-path-cpu1.out"));
  for (const std::string& name : names_of(path_)) {
    EXPECT_TRUE(S_ISFIFO(status_of(file(name)).st_mode)) << name;
  }
}

TEST_F(FifoSetupTest, SetsModesWhateverTheUmaskIs) {
  const mode_t before = ::umask(0077);
  SetupRequest wanted = request(1);
  wanted.mode = 0666;
  must(set_up_fifos(wanted));
  ::umask(before);
  EXPECT_EQ(mode_of(path_), 0755U);
  EXPECT_EQ(mode_of(file("agent-ctl-path.in")), 0666U);
}

TEST_F(FifoSetupTest, MakesParentsToo) {
  path_ = root_.file("a/b/c");
  must(set_up_fifos(request(1)));
  EXPECT_EQ(mode_of(root_.file("a")), 0755U);
  EXPECT_TRUE(std::filesystem::is_fifo(file("agent-ctl-path.out")));
}

TEST_F(FifoSetupTest, RunAgainMakesWhatIsMissingAndMendsModes) {
  must(set_up_fifos(request(2)));
  ASSERT_EQ(::unlink(file("trace-path-cpu1.out").c_str()), 0);
  ASSERT_EQ(::chmod(file("agent-ctl-path.in").c_str(), 0666), 0);
  const SetupReport report = must(set_up_fifos(request(2)));
  EXPECT_FALSE(report.made_directory);
  EXPECT_EQ(report.made, 1);
  EXPECT_EQ(report.mended, 1);
  EXPECT_EQ(report.kept, 4);
  EXPECT_EQ(mode_of(file("agent-ctl-path.in")), 0600U);
}

TEST_F(FifoSetupTest, RunAgainLosesNoByteThatWaitsInAFifo) {
  must(set_up_fifos(request(1)));
  const Fd both(::open(file("trace-path-cpu0.out").c_str(), O_RDWR | O_NONBLOCK));
  ASSERT_EQ(::write(both.get(), "data", 4), 4);
  SetupRequest wanted = request(1);
  wanted.mode = 0660;
  must(set_up_fifos(wanted));
  char data[8] = {};
  EXPECT_EQ(::read(both.get(), data, sizeof data), 4);
}

TEST_F(FifoSetupTest, KeepsTheModeOfADirectoryThatExists) {
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 0700), 0);
  must(set_up_fifos(request(1)));
  EXPECT_EQ(mode_of(path_), 0700U);
}

TEST_F(FifoSetupTest, GivesTheFifosAndNotTheDirectoryToTheOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  SetupRequest wanted = request(1);
  wanted.owner = Owner{kNobody, 12345};
  wanted.mode = 0660;
  const SetupReport report = must(set_up_fifos(wanted));
  const struct stat fifo = status_of(file("trace-path-cpu0.in"));
  EXPECT_EQ(fifo.st_uid, kNobody);
  EXPECT_EQ(fifo.st_gid, 12345U);
  EXPECT_EQ(fifo.st_mode & 07777U, 0660U);
  EXPECT_EQ(status_of(path_).st_uid, 0U);
  // The temporary directory around it is 0700.
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("nobody may not pass " + root_.path().string())));
}

TEST_F(FifoSetupTest, ReportsSurplusCpusAndLeavesThem) {
  must(set_up_fifos(request(4)));
  const SetupReport report = must(set_up_fifos(request(2)));
  EXPECT_THAT(report.surplus_cpus, ElementsAre(2, 3));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("2-3")));
  EXPECT_EQ(names_of(path_).size(), 10U);
}

TEST_F(FifoSetupTest, ChangesNothingWhenAFifoIsARegularFile) {
  std::filesystem::create_directory(path_);
  write_text(file("trace-path-cpu1.out"), "mine");
  EXPECT_THAT(error_of(set_up_fifos(request(2))),
              HasSubstr(file("trace-path-cpu1.out") + ": a regular file"));
  EXPECT_THAT(names_of(path_), ElementsAre("trace-path-cpu1.out"));
  EXPECT_EQ(read_text(file("trace-path-cpu1.out")), "mine");
}

TEST_F(FifoSetupTest, ChangesNothingWhenAFifoIsASymbolicLink) {
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::mkfifo(root_.file("elsewhere").c_str(), 0644), 0);
  std::filesystem::create_symlink(root_.file("elsewhere"), file("agent-ctl-path.in"));
  EXPECT_THAT(error_of(set_up_fifos(request(1))), HasSubstr("a symbolic link where"));
  EXPECT_THAT(names_of(path_), ElementsAre("agent-ctl-path.in"));
  EXPECT_EQ(mode_of(root_.file("elsewhere")), 0644U);
}

TEST_F(FifoSetupTest, RefusesADirectoryThatIsASymbolicLink) {
  std::filesystem::create_directory(root_.path() / "real");
  std::filesystem::create_symlink("real", path_);
  EXPECT_THAT(error_of(set_up_fifos(request(1))), HasSubstr("a symbolic link"));
  EXPECT_THAT(names_of(root_.path() / "real"), IsEmpty());
}

TEST_F(FifoSetupTest, RefusesADirectoryOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::chown(path_.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(error_of(set_up_fifos(request(1))), HasSubstr("belongs to nobody"));
  EXPECT_THAT(names_of(path_), IsEmpty());
}

TEST_F(FifoSetupTest, RefusesToGiveFifosAwayInASharedDirectory) {
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 01777), 0);
  SetupRequest wanted = request(1);
  wanted.owner = Owner{kNobody, kNobody};
  EXPECT_FALSE(set_up_fifos(wanted));
  EXPECT_THAT(names_of(path_), IsEmpty());
}

TEST_F(FifoSetupTest, RefusesAFileInPlaceOfTheDirectory) {
  write_text(path_, "text");
  EXPECT_THAT(error_of(set_up_fifos(request(1))), HasSubstr("not a directory"));
}

TEST_F(FifoSetupTest, TeardownRemovesAllThatSetupMade) {
  must(set_up_fifos(request(3)));
  const TeardownReport report = must(tear_down_fifos(path_, false));
  EXPECT_EQ(report.removed, 8);
  EXPECT_TRUE(report.removed_directory);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FifoSetupTest, TeardownLeavesWhatIsNotOurs) {
  must(set_up_fifos(request(1)));
  write_text(file("notes.txt"), "kept");
  write_text(file("trace-path-cpu7.out"), "kept");
  ASSERT_EQ(::mkfifo(file("other.in").c_str(), 0600), 0);
  const TeardownReport report = must(tear_down_fifos(path_, false));
  EXPECT_FALSE(report.removed_directory);
  EXPECT_THAT(names_of(path_), ElementsAre("notes.txt", "other.in", "trace-path-cpu7.out"));
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("trace-path-cpu7.out is no FIFO"),
                                        HasSubstr("other files in it")));
}

TEST_F(FifoSetupTest, TeardownOfNothingIsNoError) {
  const TeardownReport report = must(tear_down_fifos(path_, false));
  EXPECT_FALSE(report.existed);
}

TEST_F(FifoSetupTest, TeardownNeverRemovesASharedDirectory) {
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 01777), 0);
  must(set_up_fifos(request(1)));
  EXPECT_FALSE(must(tear_down_fifos(path_, false)).removed_directory);
  EXPECT_THAT(names_of(path_), IsEmpty());
}

TEST_F(FifoSetupTest, TeardownRefusesWhileAFifoIsOpenUnlessForced) {
  must(set_up_fifos(request(1)));
  {
    const Fd reader(::open(file("trace-path-cpu0.out").c_str(), O_RDONLY | O_NONBLOCK));
    const auto refused = tear_down_fifos(path_, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::refused);
    EXPECT_THAT(refused.error().message, HasSubstr(file("trace-path-cpu0.out")));
    EXPECT_EQ(names_of(path_).size(), 4U);
  }
  const Fd reader(::open(file("trace-path-cpu0.out").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_EQ(must(tear_down_fifos(path_, true)).removed, 4);
}

TEST(FifoUsers, SeesAWriterAndTakesNothing) {
  const TempDir directory;
  ASSERT_EQ(::mkfifo(directory.file("fifo").c_str(), 0600), 0);
  const Fd at(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_EQ(fifo_is_open(at.get(), "fifo"), false);
  const Fd both(::open(directory.file("fifo").c_str(), O_RDWR | O_NONBLOCK));
  EXPECT_EQ(fifo_is_open(at.get(), "fifo"), true);
  ASSERT_EQ(::write(both.get(), "ab", 2), 2);
  EXPECT_EQ(fifo_is_open(at.get(), "fifo"), true);
  char bytes[4] = {};
  EXPECT_EQ(::read(both.get(), bytes, sizeof bytes), 2);
}

TEST(FifoUsers, SeesAReader) {
  const TempDir directory;
  ASSERT_EQ(::mkfifo(directory.file("fifo").c_str(), 0600), 0);
  const Fd at(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY));
  const Fd reader(::open(directory.file("fifo").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_EQ(fifo_is_open(at.get(), "fifo"), true);
}

TEST(FifoUsers, ReadsProcessesFromAGivenProc) {
  const TempDir proc;
  const std::string file = proc.file("target");
  write_text(file, "");
  const struct stat status = status_of(file);
  for (const std::string pid : {"41", "42"}) {
    std::filesystem::create_directories(proc.path() / pid / "fd");
    write_text(proc.path() / pid / "comm", "process-" + pid + "\n");
  }
  std::filesystem::create_symlink(file, proc.path() / "42" / "fd" / "3");
  std::filesystem::create_symlink("/dev/null", proc.path() / "41" / "fd" / "0");
  const auto users = processes_with_open({{status.st_dev, status.st_ino}}, proc.path().string());
  ASSERT_EQ(users.size(), 1U);
  EXPECT_EQ(users[0].pid, 42);
  EXPECT_EQ(users[0].name, "process-42");
}

TEST(FifoMode, TakesOctalWithReadAndWriteForTheOwner) {
  EXPECT_EQ(must(parse_fifo_mode("0660")), 0660U);
  EXPECT_EQ(must(parse_fifo_mode("666")), 0666U);
  for (const char* text : {"", "0400", "0060", "1777", "rw", "0668", "-600", "0600 "}) {
    const auto mode = parse_fifo_mode(text);
    ASSERT_FALSE(mode) << text;
    EXPECT_EQ(mode.error().kind, ErrorKind::usage);
  }
}

TEST(Owner, IsParsedFromNamesAndNumbers) {
  EXPECT_EQ(must(parse_owner("root")).user, 0U);
  EXPECT_EQ(must(parse_owner("nobody")).group, must(parse_owner("nobody:")).group);
  const Owner numbers = must(parse_owner("4321:1234"));
  EXPECT_EQ(numbers.user, 4321U);
  EXPECT_EQ(numbers.group, 1234U);
  EXPECT_EQ(must(parse_owner("4321")).group, 4321U);
}

TEST(Owner, ThatIsUnknownIsAUsageError) {
  for (const char* text : {"no-such-user", "root:no-such-group", "", ":root", "-1", "4294967295"}) {
    const auto owner = parse_owner(text);
    ASSERT_FALSE(owner) << text;
    EXPECT_EQ(owner.error().kind, ErrorKind::usage) << text;
  }
}

}  // namespace
}  // namespace vtrace::test
