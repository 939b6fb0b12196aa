#include "host-cli/fifo_users.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "common/fd.h"

namespace vtrace {
namespace {

std::optional<pid_t> pid_of(const std::string& name) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

bool has_open(const std::filesystem::path& process, const std::set<FileId>& files) {
  std::error_code error;
  for (std::filesystem::directory_iterator fds(process / "fd", error), end; !error && fds != end;
       fds.increment(error)) {
    struct stat status{};
    // Follows the link to the open file itself, whatever has become of its name.
    if (::stat(fds->path().c_str(), &status) == 0 && files.contains({status.st_dev, status.st_ino}))
      return true;
  }
  return false;
}

std::string command_name(const std::filesystem::path& process) {
  auto text = read_file((process / "comm").string());
  if (!text) return "?";
  while (text->ends_with('\n')) text->pop_back();
  return *text;
}

}  // namespace

std::vector<FileUser> processes_with_open(const std::set<FileId>& files, const std::string& proc) {
  std::vector<FileUser> users;
  if (files.empty()) return users;
  std::error_code error;
  for (std::filesystem::directory_iterator entries(proc, error), end; !error && entries != end;
       entries.increment(error)) {
    const auto pid = pid_of(entries->path().filename().string());
    if (!pid || *pid == ::getpid() || !has_open(entries->path(), files)) continue;
    users.push_back({*pid, command_name(entries->path())});
  }
  std::ranges::sort(users, {}, &FileUser::pid);
  return users;
}

std::optional<bool> fifo_is_open(int directory, const std::string& name) {
  // Reading first: a read end of our own never wakes anyone, a write end could give a waiting
  // reader an end of file.
  auto reader = open_fd_at(directory, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0, name);
  auto scratch = make_pipe();
  if (!reader || !scratch) return std::nullopt;
  // tee(2) copies what is in the FIFO without taking it: 0 means that there is no writer, EAGAIN
  // that there is one who has written nothing.
  const ssize_t copied = ::tee(reader->get(), scratch->write.get(), 1, SPLICE_F_NONBLOCK);
  if (copied > 0 || (copied < 0 && errno == EAGAIN)) return true;
  if (copied < 0) return std::nullopt;
  reader->reset();
  const auto writer = open_fd_at(directory, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW, 0, name);
  if (writer) return true;
  if (writer.error().errno_value == ENXIO) return false;
  return std::nullopt;
}

}  // namespace vtrace
