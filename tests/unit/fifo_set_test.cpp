#include "host-cli/fifo_set.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/must.h"
#include "tests/support/temp_dir.h"

namespace vtrace::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A directory with a FIFO of each given name.
class FifoSetTest : public testing::Test {
 protected:
  void make(const std::string& name) {
    ASSERT_EQ(::mkfifo(directory_.file(name).c_str(), 0600), 0) << name;
  }
  void make_pair(const std::string& port) {
    make(port + ".in");
    make(port + ".out");
  }
  [[nodiscard]] std::string path() const { return directory_.path().string(); }

  TempDir directory_;
};

std::string error_of(const auto& result) {
  return result ? "no error" : result.error().message;
}

TEST_F(FifoSetTest, ListsCpusByNumber) {
  for (const char* port : {"trace-path-cpu10", "trace-path-cpu2", "trace-path-cpu0"})
    make_pair(port);
  make("trace-path-cpu03.out");
  make("trace-path-cpu7.in");
  make("other.out");
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_THAT(set.cpus(), ElementsAre(0, 2, 10));
  EXPECT_FALSE(set.has_control());
}

TEST_F(FifoSetTest, HasControlWhenBothDirectionsAreThere) {
  make_pair("agent-ctl-path");
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_TRUE(set.has_control());
  EXPECT_THAT(set.cpus(), IsEmpty());
}

TEST_F(FifoSetTest, OpensForReadingWithNoWriter) {
  make_pair("trace-path-cpu0");
  const FifoSet set = must(FifoSet::open(path()));
  const Fd fd = must(set.open_read("trace-path-cpu0"));
  char byte = 0;
  EXPECT_EQ(::read(fd.get(), &byte, 1), 0);
  EXPECT_NE(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(FifoSetTest, WritingWithNobodyThereSaysSo) {
  make_pair("agent-ctl-path");
  const FifoSet set = must(FifoSet::open(path()));
  const auto fd = set.open_write("agent-ctl-path");
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().kind, ErrorKind::no_peer);
  EXPECT_THAT(fd.error().message,
              AllOf(HasSubstr(path() + "/agent-ctl-path.in"), HasSubstr("nobody has it open")));
}

TEST_F(FifoSetTest, WritesToWhoeverReads) {
  make_pair("agent-ctl-path");
  const FifoSet set = must(FifoSet::open(path()));
  const Fd peer(::open(directory_.file("agent-ctl-path.in").c_str(), O_RDWR | O_NONBLOCK));
  const Fd fd = must(set.open_write("agent-ctl-path"));
  ASSERT_EQ(::write(fd.get(), "1\n", 2), 2);
  char bytes[2] = {};
  ASSERT_EQ(::read(peer.get(), bytes, 2), 2);
  EXPECT_EQ(std::string(bytes, 2), "1\n");
}

TEST_F(FifoSetTest, KeepaliveMakesALeavingWriterNoEndOfFile) {
  make_pair("trace-path-cpu0");
  const FifoSet set = must(FifoSet::open(path()));
  const Fd reader = must(set.open_read("trace-path-cpu0"));
  const Fd keepalive = must(set.open_keepalive("trace-path-cpu0"));
  {
    const Fd writer(::open(directory_.file("trace-path-cpu0.out").c_str(), O_WRONLY | O_NONBLOCK));
    ASSERT_TRUE(writer);
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(FifoSetTest, NeverMakesAFileWhereNoneIs) {
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_FALSE(set.open_read("trace-path-cpu0"));
  EXPECT_THAT(error_of(set.open_write("agent-ctl-path")), HasSubstr("run virtio-trace setup"));
  EXPECT_FALSE(set.open_keepalive("trace-path-cpu0"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(FifoSetTest, RefusesARegularFile) {
  write_text(directory_.file("trace-path-cpu0.out"), "kept");
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_THAT(error_of(set.open_read("trace-path-cpu0")),
              AllOf(HasSubstr("trace-path-cpu0.out"), HasSubstr("a regular file where a FIFO")));
  EXPECT_THAT(error_of(set.open_keepalive("trace-path-cpu0")), HasSubstr("a regular file"));
  EXPECT_EQ(read_text(directory_.file("trace-path-cpu0.out")), "kept");
}

TEST_F(FifoSetTest, RefusesAFifoThatIsASymbolicLink) {
  make("real");
  std::filesystem::create_symlink("real", directory_.path() / "trace-path-cpu0.out");
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_THAT(error_of(set.open_read("trace-path-cpu0")), HasSubstr("a symbolic link where"));
}

TEST_F(FifoSetTest, RefusesAFifoWithASecondName) {
  make("trace-path-cpu0.out");
  ASSERT_EQ(
      ::link(directory_.file("trace-path-cpu0.out").c_str(), directory_.file("second").c_str()), 0);
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_THAT(error_of(set.open_read("trace-path-cpu0")), HasSubstr("hard link"));
}

TEST_F(FifoSetTest, LocksOutASecondCollector) {
  const FifoSet first = must(FifoSet::open(path()));
  const FifoSet second = must(FifoSet::open(path()));
  ASSERT_TRUE(first.lock());
  const Status status = second.lock();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::refused);
  EXPECT_THAT(status.error().message, HasSubstr(path()));
}

TEST_F(FifoSetTest, FreesTheLockWhenItGoes) {
  {
    EXPECT_TRUE(must(FifoSet::open(path())).lock());
  }
  EXPECT_TRUE(must(FifoSet::open(path())).lock());
}

TEST_F(FifoSetTest, RefusesADirectoryThatIsMissing) {
  const auto set = FifoSet::open(directory_.file("none"));
  EXPECT_THAT(error_of(set), AllOf(HasSubstr(directory_.file("none")), HasSubstr("setup")));
}

TEST_F(FifoSetTest, RefusesADirectoryThatIsASymbolicLink) {
  std::filesystem::create_directory(directory_.path() / "real");
  std::filesystem::create_symlink("real", directory_.path() / "link");
  EXPECT_TRUE(FifoSet::open(directory_.file("real")));
  EXPECT_THAT(error_of(FifoSet::open(directory_.file("link"))), HasSubstr("a symbolic link"));
  EXPECT_THAT(error_of(FifoSet::open(directory_.file("link/"))), HasSubstr("a symbolic link"));
}

TEST_F(FifoSetTest, FollowsALinkOfOursInsideThePath) {
  std::filesystem::create_directories(directory_.path() / "real" / "fifos");
  std::filesystem::create_symlink("real", directory_.path() / "link");
  EXPECT_TRUE(FifoSet::open(directory_.file("link/fifos")));
}

TEST_F(FifoSetTest, RefusesALinkOfAnotherUserInsideThePath) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::filesystem::create_directories(directory_.path() / "real" / "fifos");
  std::filesystem::create_symlink("real", directory_.path() / "link");
  ASSERT_EQ(::lchown(directory_.file("link").c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of(FifoSet::open(directory_.file("link/fifos"))),
              HasSubstr("lead it elsewhere"));
}

TEST_F(FifoSetTest, EndsOnALoopOfLinks) {
  std::filesystem::create_symlink("loop", directory_.path() / "loop");
  EXPECT_FALSE(FifoSet::open(directory_.file("loop/fifos")));
}

TEST_F(FifoSetTest, RefusesADirectoryOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chown(path().c_str(), 65534, 65534), 0);
  EXPECT_THAT(error_of(FifoSet::open(path())), HasSubstr("belongs to nobody"));
}

TEST_F(FifoSetTest, RefusesADirectoryThatEveryoneMayWrite) {
  ASSERT_EQ(::chmod(path().c_str(), 0777), 0);
  EXPECT_THAT(error_of(FifoSet::open(path())), HasSubstr("mode 0777"));
}

TEST_F(FifoSetTest, RefusesAParentThatEveryoneMayWrite) {
  std::filesystem::create_directories(directory_.path() / "open" / "fifos");
  ASSERT_EQ(::chmod(directory_.file("open").c_str(), 0777), 0);
  EXPECT_THAT(error_of(FifoSet::open(directory_.file("open/fifos"))),
              HasSubstr(directory_.file("open") + ": mode 0777"));
}

TEST_F(FifoSetTest, InAStickySharedDirectoryRefusesTheFifoOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::chmod(path().c_str(), 01777), 0);
  make_pair("trace-path-cpu0");
  ASSERT_EQ(::chown(directory_.file("trace-path-cpu0.out").c_str(), 65534, 65534), 0);
  const FifoSet set = must(FifoSet::open(path()));
  EXPECT_THAT(error_of(set.open_read("trace-path-cpu0")), HasSubstr("made by nobody"));
}

}  // namespace
}  // namespace vtrace::test
