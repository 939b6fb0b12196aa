#include "host-cli/fifo_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "host-cli/trusted_directory.h"
#include "host-cli/users.h"

namespace vtrace {
namespace {

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

std::string_view type_name(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Status check_fifo(const struct stat& fifo, const struct stat& directory, const std::string& shown) {
  if (!S_ISFIFO(fifo.st_mode)) {
    return fail(fmt::format("{}: {} where a FIFO should be (remove it, then run setup)", shown,
                            type_name(fifo.st_mode)));
  }
  if (fifo.st_nlink > 1) {
    return fail(
        fmt::format("{}: has a second name (a hard link) somewhere (remove it, run setup)", shown));
  }
  // In a directory where others may make files, one of theirs is theirs to swap.
  if (others_may_write(directory) && fifo.st_uid != 0 && fifo.st_uid != ::geteuid() &&
      fifo.st_uid != directory.st_uid) {
    return fail(
        fmt::format("{}: made by {} in a directory that everyone may write (use another --dir)",
                    shown, user_name(fifo.st_uid)));
  }
  return {};
}

Result<std::vector<std::string>> names_in(int directory, std::string_view shown) {
  // A descriptor of its own: a stream moves the offset and closes what it is given.
  VTRACE_TRY(Fd own, open_fd_at(directory, ".", O_RDONLY | O_DIRECTORY, 0, shown));
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(own.get()));
  if (stream == nullptr) return fail_errno(shown, errno);
  (void)own.release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return fail_errno(shown, errno);
  std::ranges::sort(names);
  return names;
}

Result<FifoSet> FifoSet::open(const std::string& directory) {
  VTRACE_TRY(LocatedDirectory located,
             open_trusted_directory(directory, "run virtio-trace setup first"));
  FifoSet set;
  set.path_ = directory;
  set.directory_ = std::move(located.fd);
  set.status_ = located.status;
  VTRACE_CHECK(set.list());
  return set;
}

Status FifoSet::list() {
  VTRACE_TRY(const std::vector<std::string> names, names_in(directory_.get(), path_));
  const std::string suffix = fifo_name("", Direction::out);
  for (const std::string& name : names) {
    if (!name.ends_with(suffix)) continue;
    const auto port = std::string_view(name).substr(0, name.size() - suffix.size());
    if (const auto cpu = cpu_of_port_name(port)) cpus_.push_back(*cpu);
  }
  std::ranges::sort(cpus_);
  has_control_ = std::ranges::binary_search(names, fifo_name(kControlPortName, Direction::in)) &&
                 std::ranges::binary_search(names, fifo_name(kControlPortName, Direction::out));
  return {};
}

std::string FifoSet::fifo_path(std::string_view port_name, Direction direction) const {
  return fmt::format("{}/{}", path_, fifo_name(port_name, direction));
}

Status FifoSet::lock() const {
  if (::flock(directory_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return fail_errno(path_, errno);
  return fail(
      fmt::format("{}: another virtio-trace is collecting from it (stop that one first)", path_),
      ErrorKind::refused);
}

Result<Fd> FifoSet::open_read(std::string_view port_name) const {
  return open_fifo(fifo_name(port_name, Direction::out), O_RDONLY);
}

Result<Fd> FifoSet::open_write(std::string_view port_name) const {
  return open_fifo(fifo_name(port_name, Direction::in), O_WRONLY);
}

Result<Fd> FifoSet::open_keepalive(std::string_view port_name) const {
  return open_fifo(fifo_name(port_name, Direction::out), O_RDWR);
}

Result<Fd> FifoSet::open_fifo(const std::string& name, int flags) const {
  const std::string shown = fmt::format("{}/{}", path_, name);
  struct stat seen{};
  // Looked at before it is opened: opening a device, say, can have effects of its own.
  if (::fstatat(directory_.get(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) < 0)
    return std::unexpected(open_error(name, errno));
  VTRACE_CHECK(check_fifo(seen, status_, shown));
  auto fd =
      open_fd_at(directory_.get(), name, flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, 0, shown);
  if (!fd) return std::unexpected(open_error(name, fd.error().errno_value));
  struct stat opened{};
  if (::fstat(fd->get(), &opened) < 0) return fail_errno(shown, errno);
  VTRACE_CHECK(check_fifo(opened, status_, shown));
  return fd;
}

Error FifoSet::open_error(const std::string& name, int errno_value) const {
  const std::string shown = fmt::format("{}/{}", path_, name);
  Error error{fmt::format("{}: {}", shown, errno_text(errno_value)), ErrorKind::failed,
              errno_value};
  if (errno_value == ENXIO) {
    error.kind = ErrorKind::no_peer;
    error.message = fmt::format(
        "{}: nobody has it open (is the guest running, with these channels in its definition?)",
        shown);
  } else if (errno_value == ENOENT) {
    error.message += " (run virtio-trace setup, then start the guest again)";
  } else if (errno_value == EACCES) {
    struct stat status{};
    if (::fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
      error.message +=
          fmt::format(" for {}: it is {}:{} {:04o} (run as root, or setup --owner and --mode;",
                      user_name(::geteuid()), user_name(status.st_uid), group_name(status.st_gid),
                      status.st_mode & 07777U);
      error.message += ::geteuid() == 0 ? " else see sysctl fs.protected_fifos and AppArmor)"
                                        : " libvirt gives the FIFOs to its QEMU user)";
    }
  }
  return error;
}

}  // namespace vtrace
