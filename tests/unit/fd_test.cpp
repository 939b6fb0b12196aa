#include "common/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/support/bytes.h"

namespace vtrace {
namespace {

using test::why;

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}
bool closes_on_exec(int fd) {
  return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

Fd dev_null() {
  auto fd = open_fd("/dev/null", O_RDWR);
  EXPECT_TRUE(fd) << why(fd);
  return fd ? std::move(*fd) : Fd();
}

TEST(Fd, ClosesWhatItOwns) {
  int number = -1;
  {
    const Fd fd = dev_null();
    number = fd.get();
    EXPECT_TRUE(is_open(number));
    EXPECT_TRUE(closes_on_exec(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, HandsOwnershipOnWhenMoved) {
  Fd first = dev_null();
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_EQ(second.get(), number);
  Fd third = dev_null();
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(Fd, IsFalseWhenItOwnsNothing) {
  Fd fd;
  EXPECT_FALSE(fd);
  fd = dev_null();
  EXPECT_TRUE(fd);
  const int number = fd.release();
  EXPECT_FALSE(fd);
  EXPECT_TRUE(is_open(number));
  fd = Fd(number);
  fd.reset();
  EXPECT_FALSE(fd);
  EXPECT_FALSE(is_open(number));
}

TEST(OpenFd, NamesThePathInItsError) {
  const auto fd = open_fd("/no/such/file", O_RDONLY);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().message, "/no/such/file: No such file or directory");
  EXPECT_EQ(fd.error().errno_value, ENOENT);
}

TEST(OpenFdAt, OpensBelowADirectoryAndShowsTheWholePath) {
  const auto root = open_fd("/dev", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(root) << why(root);
  EXPECT_TRUE(open_fd_at(root->get(), "null", O_RDONLY, 0, "/dev/null"));
  const auto missing = open_fd_at(root->get(), "no-such", O_RDONLY, 0, "/dev/no-such");
  ASSERT_FALSE(missing);
  EXPECT_TRUE(missing.error().message.starts_with("/dev/no-such: "));
}

TEST(MakePipe, MakesBothEndsCloseOnExec) {
  const auto pipe = make_pipe(0, O_NONBLOCK);
  ASSERT_TRUE(pipe) << why(pipe);
  EXPECT_TRUE(closes_on_exec(pipe->read.get()));
  EXPECT_TRUE(closes_on_exec(pipe->write.get()));
  EXPECT_NE(::fcntl(pipe->read.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(EnlargePipe, GivesTheSizeThatThePipeHas) {
  const auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << why(pipe);
  const int fd = pipe->write.get();
  EXPECT_EQ(enlarge_pipe(fd, 1U << 18U), 1U << 18U);
  EXPECT_EQ(enlarge_pipe(fd, 1), 1U << 18U) << "a pipe is never made smaller";
  const std::size_t huge = enlarge_pipe(fd, std::size_t{1} << 40U);
  EXPECT_GE(huge, 1U << 18U);
  EXPECT_EQ(static_cast<int>(huge), ::fcntl(fd, F_GETPIPE_SZ));
}

TEST(EnlargePipe, GivesZeroForWhatIsNoPipe) {
  EXPECT_EQ(enlarge_pipe(dev_null().get(), 1U << 20U), 0U);
  EXPECT_EQ(enlarge_pipe(-1, 1U << 20U), 0U);
}

TEST(ReadFile, ReadsFilesWhoseSizeIsSaidToBeZero) {
  struct stat info{};
  ASSERT_EQ(::stat("/proc/self/maps", &info), 0);
  EXPECT_EQ(info.st_size, 0);
  const auto text = read_file("/proc/self/maps");
  ASSERT_TRUE(text) << why(text);
  EXPECT_NE(text->find("\n"), std::string::npos);
}

TEST(ReadFile, SaysWhichFileIsMissing) {
  const auto text = read_file("/proc/self/no-such");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "/proc/self/no-such: No such file or directory");
}

TEST(WriteAll, CarriesMoreThanAPipeHoldsToItsReader) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << why(pipe);
  std::string sent(3'000'000, 'x');
  for (std::size_t i = 0; i < sent.size(); i += 7) sent[i] = static_cast<char>('a' + i % 26);
  std::jthread writer([&] {
    EXPECT_TRUE(write_all(pipe->write.get(), std::string_view(sent), "pipe"));
    pipe->write.reset();
  });
  const auto got = read_to_end(pipe->read.get(), "pipe");
  ASSERT_TRUE(got) << why(got);
  EXPECT_EQ(*got, sent);
}

TEST(WriteAll, NamesWhatItCouldNotWrite) {
  const auto full = open_fd("/dev/full", O_WRONLY);
  ASSERT_TRUE(full) << why(full);
  const Status status = write_all(full->get(), std::string_view("x"), "/dev/full");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "/dev/full: No space left on device");
}

bool readable(int fd) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

TEST(WakeFd, StaysSignalledUntilCleared) {
  const auto wake = WakeFd::create();
  ASSERT_TRUE(wake) << why(wake);
  EXPECT_FALSE(readable(wake->get()));
  wake->signal();
  wake->signal();
  EXPECT_TRUE(readable(wake->get()));
  EXPECT_TRUE(readable(wake->get()));
  wake->clear();
  EXPECT_FALSE(readable(wake->get()));
  wake->clear();  // does not block
}

TEST(WakeFd, WakesASleeperInAnotherThread) {
  const auto wake = WakeFd::create();
  ASSERT_TRUE(wake) << why(wake);
  std::jthread other([&] { wake->signal(); });
  pollfd poll{wake->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&poll, 1, 10'000), 1);
}

}  // namespace
}  // namespace vtrace
