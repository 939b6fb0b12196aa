#include "host-cli/trusted_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <deque>
#include <string_view>

#include "host-cli/users.h"

namespace vtrace {
namespace {

constexpr int kMaxLinks = 40;  // the kernel's own limit for a path
constexpr mode_t kDirectoryMode = 0755;

bool root_or_us(uid_t user) {
  return user == 0 || user == ::geteuid();
}

std::deque<std::string> components_of(std::string_view path) {
  std::deque<std::string> components;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") components.emplace_back(part);
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return components;
}

Status check_directory(const struct stat& status, const std::string& shown) {
  if (!S_ISDIR(status.st_mode))
    return fail(fmt::format("{}: not a directory (give another with --dir)", shown));
  if (!root_or_us(status.st_uid)) {
    return fail(fmt::format(
        "{}: belongs to {}, who could swap what is in it (run as that user, or use another --dir)",
        shown, user_name(status.st_uid)));
  }
  if (others_may_write(status) && (status.st_mode & S_ISVTX) == 0) {
    return fail(fmt::format(
        "{}: mode {:04o} lets other users swap what is in it (chmod go-w, or use another --dir)",
        shown, status.st_mode & 07777U));
  }
  return {};
}

std::string joined(const std::string& directory, const std::string& name) {
  if (directory == ".") return name;
  return directory.ends_with('/') ? directory + name : fmt::format("{}/{}", directory, name);
}

class Walk {
 public:
  explicit Walk(const std::string& path) : path_(path), left_(components_of(path)) {}

  Result<LocatedDirectory> run() {
    VTRACE_CHECK(start_at(path_.starts_with('/') ? "/" : "."));
    while (!left_.empty()) {
      const std::string name = std::move(left_.front());
      left_.pop_front();
      struct stat status{};
      if (::fstatat(at_.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT) return fail_errno(joined(at_.shown, name), errno);
        VTRACE_CHECK(note_missing(name));
        break;
      }
      if (S_ISLNK(status.st_mode)) {
        VTRACE_CHECK(follow(name, status));
      } else {
        VTRACE_CHECK(enter(name, status));
      }
    }
    return std::move(at_);
  }

 private:
  Status start_at(const std::string& name) {
    at_.shown = name;
    at_.parent = Fd();
    VTRACE_TRY(at_.fd, open_fd(name, O_RDONLY | O_DIRECTORY));
    return check();
  }

  Status check() {
    if (::fstat(at_.fd.get(), &at_.status) < 0) return fail_errno(at_.shown, errno);
    if (at_.closed_at.empty() && (at_.status.st_mode & S_IXOTH) == 0) at_.closed_at = at_.shown;
    return check_directory(at_.status, at_.shown);
  }

  Status enter(const std::string& name, const struct stat& seen) {
    const std::string shown = joined(at_.shown, name);
    // First by what fstatat saw: an open of something else could have effects.
    VTRACE_CHECK(check_directory(seen, shown));
    VTRACE_TRY(Fd below,
               open_fd_at(at_.fd.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, shown));
    at_.parent = name == ".." ? Fd() : std::move(at_.fd);
    at_.name = name;
    at_.fd = std::move(below);
    at_.shown = shown;
    return check();
  }

  Status follow(const std::string& name, const struct stat& link) {
    const std::string shown = joined(at_.shown, name);
    if (left_.empty()) {
      return fail(
          fmt::format("{}: a symbolic link, not a directory (give the path it leads to)", shown));
    }
    if (!root_or_us(link.st_uid)) {
      return fail(fmt::format("{}: a symbolic link of {}, who could lead it elsewhere", shown,
                              user_name(link.st_uid)));
    }
    if (++links_ > kMaxLinks) return fail_errno(shown, ELOOP);
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(at_.fd.get(), name.c_str(), target.data(), target.size());
    if (size < 0) return fail_errno(shown, errno);
    const std::string_view text(target.data(), static_cast<std::size_t>(size));
    const auto more = components_of(text);
    left_.insert(left_.begin(), more.begin(), more.end());
    return text.starts_with('/') ? start_at("/") : Status{};
  }

  Status note_missing(const std::string& name) {
    at_.missing.push_back(name);
    at_.missing.insert(at_.missing.end(), left_.begin(), left_.end());
    for (const std::string& part : at_.missing) {
      if (part == "..") return fail_errno(joined(at_.shown, name), ENOENT);
    }
    return {};
  }

  std::string path_;
  std::deque<std::string> left_;
  LocatedDirectory at_;
  int links_ = 0;
};

}  // namespace

bool others_may_write(const struct stat& directory) {
  if ((directory.st_mode & S_IWOTH) != 0) return true;
  return (directory.st_mode & S_IWGRP) != 0 && directory.st_gid != 0 &&
         directory.st_gid != ::getegid();
}

Result<LocatedDirectory> locate_directory(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    return fail("the directory's path is empty or has a NUL in it", ErrorKind::usage);
  return Walk(path).run();
}

Result<LocatedDirectory> open_trusted_directory(const std::string& path, std::string_view remedy) {
  VTRACE_TRY(LocatedDirectory located, locate_directory(path));
  if (!located.missing.empty()) {
    auto error = fail(fmt::format("{}: no such directory ({})", path, remedy));
    error.error().errno_value = ENOENT;
    return error;
  }
  return located;
}

Status make_missing(LocatedDirectory& located) {
  while (!located.missing.empty()) {
    const std::string name = located.missing.front();
    const std::string shown = joined(located.shown, name);
    const bool made = ::mkdirat(located.fd.get(), name.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return fail_errno(shown, errno);
    VTRACE_TRY(Fd below,
               open_fd_at(located.fd.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, shown));
    struct stat status{};
    if (::fstat(below.get(), &status) < 0) return fail_errno(shown, errno);
    VTRACE_CHECK(check_directory(status, shown));
    // By its descriptor, because mkdir's mode is cut by the umask.
    if (made && ::fchmod(below.get(), kDirectoryMode) < 0) return fail_errno(shown, errno);
    if (::fstat(below.get(), &status) < 0) return fail_errno(shown, errno);
    located.parent = std::move(located.fd);
    located.name = name;
    located.fd = std::move(below);
    located.status = status;
    located.shown = shown;
    located.missing.erase(located.missing.begin());
  }
  return {};
}

}  // namespace vtrace
