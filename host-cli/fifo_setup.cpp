#include "host-cli/fifo_setup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "host-cli/fifo_set.h"
#include "host-cli/trusted_directory.h"

namespace vtrace {
namespace {

constexpr mode_t kModeBits = 07777;
constexpr std::size_t kUsersNamed = 3;

std::vector<std::string> fifo_names(int cpus) {
  std::vector<std::string> names;
  for (const PortPlan& port : plan_channels(cpus, 1).ports) {
    names.push_back(fifo_name(port.port_name, Direction::in));
    names.push_back(fifo_name(port.port_name, Direction::out));
  }
  return names;
}

struct OurName {
  std::optional<int> cpu;  // nothing: the control port
};

// Nothing when `name` is not the name of a FIFO of ours.
std::optional<OurName> our_name(std::string_view name) {
  for (const Direction direction : {Direction::in, Direction::out}) {
    const std::string suffix = fifo_name("", direction);
    if (!name.ends_with(suffix)) continue;
    const std::string_view port = name.substr(0, name.size() - suffix.size());
    if (port == kControlPortName) return OurName{};
    if (const auto cpu = cpu_of_port_name(port)) return OurName{cpu};
  }
  return std::nullopt;
}

bool we_are_in_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(0, count)));
  return std::ranges::find(groups, group) != groups.end();
}

class Setup {
 public:
  explicit Setup(const SetupRequest& request)
      : request_(request),
        wanted_(request.owner.value_or(Owner{::geteuid(), ::getegid()})),
        names_(fifo_names(request.cpus)) {}

  Result<SetupReport> run() {
    VTRACE_CHECK(check_owner());
    VTRACE_TRY(directory_, locate_directory(request_.directory));
    report_.made_directory = !directory_.missing.empty();
    if (!report_.made_directory) {
      VTRACE_CHECK(check_shared_directory());
      VTRACE_CHECK(check_existing());
    }
    VTRACE_CHECK(make_missing(directory_));
    for (const std::string& name : names_) {
      if (auto status = provide(name); !status) {
        undo();
        return std::unexpected(std::move(status.error()));
      }
    }
    note_closed_directory();
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::string shown(const std::string& name) const {
    return fmt::format("{}/{}", request_.directory, name);
  }

  // What chown(2) would refuse is refused before anything is made.
  [[nodiscard]] Status check_owner() const {
    if (::geteuid() == 0) return {};
    if (wanted_.user != ::geteuid()) {
      return fail(fmt::format("owner: only root can give FIFOs to {} (run as root)",
                              user_name(wanted_.user)));
    }
    if (!we_are_in_group(wanted_.group)) {
      return fail(fmt::format("owner: {} is not in the group {} (run as root)",
                              user_name(wanted_.user), group_name(wanted_.group)));
    }
    return {};
  }

  [[nodiscard]] Status check_shared_directory() const {
    if (!others_may_write(directory_.status) || wanted_.user == ::geteuid()) return {};
    return fail(
        fmt::format("{}: everyone may write in it, so FIFOs given to {} could be swapped (use a "
                    "directory of their own)",
                    request_.directory, user_name(wanted_.user)));
  }

  [[nodiscard]] bool is_right(const struct stat& fifo) const {
    return fifo.st_uid == wanted_.user && fifo.st_gid == wanted_.group &&
           (fifo.st_mode & kModeBits) == request_.mode;
  }

  Status check_existing() {
    VTRACE_TRY(const std::vector<std::string> present,
               names_in(directory_.fd.get(), request_.directory));
    for (const std::string& name : present) {
      const auto ours = our_name(name);
      if (!ours) continue;
      if (ours->cpu && *ours->cpu >= request_.cpus) {
        report_.surplus_cpus.push_back(*ours->cpu);
        continue;
      }
      VTRACE_TRY(const struct stat fifo, look_at(name));
      if (!is_right(fifo) && ::geteuid() != 0 && fifo.st_uid != ::geteuid()) {
        return fail(fmt::format("{}: belongs to {}, so only root can put its owner and mode right",
                                shown(name), user_name(fifo.st_uid)));
      }
    }
    if (present.size() < names_.size() &&
        ::faccessat(directory_.fd.get(), ".", W_OK | X_OK, AT_EACCESS) < 0)
      return fail_errno(request_.directory, errno);
    std::ranges::sort(report_.surplus_cpus);
    report_.surplus_cpus.erase(std::ranges::unique(report_.surplus_cpus).begin(),
                               report_.surplus_cpus.end());
    if (!report_.surplus_cpus.empty()) {
      report_.notes.push_back(
          fmt::format("FIFOs of CPUs {} are there too and stay (teardown, then setup, drops them)",
                      format_cpu_list(report_.surplus_cpus)));
    }
    return {};
  }

  [[nodiscard]] Result<struct stat> look_at(const std::string& name) const {
    struct stat fifo{};
    if (::fstatat(directory_.fd.get(), name.c_str(), &fifo, AT_SYMLINK_NOFOLLOW) < 0)
      return fail_errno(shown(name), errno);
    VTRACE_CHECK(check_fifo(fifo, directory_.status, shown(name)));
    return fifo;
  }

  Status provide(const std::string& name) {
    const bool made = ::mkfifoat(directory_.fd.get(), name.c_str(), 0600) == 0;
    if (!made && errno != EEXIST) return fail_errno(shown(name), errno);
    if (made) made_names_.push_back(name);
    VTRACE_TRY(const struct stat fifo, look_at(name));
    if (is_right(fifo)) {
      ++(made ? report_.made : report_.kept);
      return {};
    }
    // By name, and yet safe: nobody else can put another file there (see trusted_directory.h).
    if ((fifo.st_uid != wanted_.user || fifo.st_gid != wanted_.group) &&
        ::fchownat(directory_.fd.get(), name.c_str(), wanted_.user, wanted_.group,
                   AT_SYMLINK_NOFOLLOW) < 0)
      return fail_errno(shown(name), errno);
    // After chown, and not as mkfifo's mode, which the umask cuts.
    if (::fchmodat(directory_.fd.get(), name.c_str(), request_.mode, 0) < 0)
      return fail_errno(shown(name), errno);
    ++(made ? report_.made : report_.mended);
    return {};
  }

  void undo() {
    for (const std::string& name : made_names_) ::unlinkat(directory_.fd.get(), name.c_str(), 0);
    if (report_.made_directory && directory_.parent)
      ::unlinkat(directory_.parent.get(), directory_.name.c_str(), AT_REMOVEDIR);
  }

  void note_closed_directory() {
    if (wanted_.user == ::geteuid() || wanted_.user == 0 || directory_.closed_at.empty()) return;
    report_.notes.push_back(fmt::format("{} may not pass {} (chmod o+x, or use another --dir)",
                                        user_name(wanted_.user), directory_.closed_at));
  }

  const SetupRequest& request_;
  Owner wanted_;
  std::vector<std::string> names_;
  LocatedDirectory directory_;
  std::vector<std::string> made_names_;
  SetupReport report_;
};

class Teardown {
 public:
  Teardown(std::string path, LocatedDirectory directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}

  Result<TeardownReport> run(bool force) {
    report_.existed = true;
    VTRACE_CHECK(find_fifos());
    if (!force) VTRACE_CHECK(check_unused());
    for (const std::string& name : fifos_) {
      if (::unlinkat(directory_.fd.get(), name.c_str(), 0) < 0 && errno != ENOENT)
        return fail_errno(fmt::format("{}/{}", path_, name), errno);
      ++report_.removed;
    }
    VTRACE_CHECK(remove_directory());
    return std::move(report_);
  }

 private:
  Status find_fifos() {
    VTRACE_TRY(const std::vector<std::string> present, names_in(directory_.fd.get(), path_));
    for (const std::string& name : present) {
      struct stat status{};
      if (!our_name(name) ||
          ::fstatat(directory_.fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) < 0)
        continue;
      if (!S_ISFIFO(status.st_mode)) {
        report_.notes.push_back(fmt::format("{}/{} is no FIFO and stays", path_, name));
        continue;
      }
      fifos_.push_back(name);
      ids_.insert({status.st_dev, status.st_ino});
    }
    return {};
  }

  [[nodiscard]] Status check_unused() const {
    const std::vector<FileUser> users = processes_with_open(ids_);
    if (!users.empty()) {
      std::vector<std::string> named;
      for (const FileUser& user : users) {
        if (named.size() < kUsersNamed)
          named.push_back(fmt::format("{} ({})", user.pid, user.name));
      }
      if (users.size() > named.size())
        named.push_back(fmt::format("{} more", users.size() - named.size()));
      return fail(fmt::format("{}: in use by process {} (stop it, or use --force)", path_,
                              fmt::join(named, ", ")),
                  ErrorKind::refused);
    }
    for (const std::string& name : fifos_) {
      if (fifo_is_open(directory_.fd.get(), name).value_or(false)) {
        return fail(fmt::format("{}/{}: somebody has it open, a process of another user perhaps "
                                "(stop it, or use --force)",
                                path_, name),
                    ErrorKind::refused);
      }
    }
    return {};
  }

  Status remove_directory() {
    VTRACE_TRY(const std::vector<std::string> left, names_in(directory_.fd.get(), path_));
    if (!left.empty()) {
      report_.notes.push_back(fmt::format("{} stays: there are other files in it", path_));
      return {};
    }
    const bool ours = directory_.status.st_uid == ::geteuid() &&
                      (directory_.status.st_mode & S_ISVTX) == 0 && directory_.parent;
    if (!ours) return {};
    if (::unlinkat(directory_.parent.get(), directory_.name.c_str(), AT_REMOVEDIR) < 0) {
      report_.notes.push_back(fmt::format("{} stays: {}", path_, errno_text(errno)));
      return {};
    }
    report_.removed_directory = true;
    return {};
  }

  std::string path_;
  LocatedDirectory directory_;
  std::vector<std::string> fifos_;
  std::set<FileId> ids_;
  TeardownReport report_;
};

}  // namespace

Result<mode_t> parse_fifo_mode(std::string_view text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 0777 ||
      (mode & 0600U) != 0600U) {
    return fail(fmt::format("not a mode for FIFOs: \"{}\" (octal, 0600 to 0777, with read and "
                            "write for the owner)",
                            text),
                ErrorKind::usage);
  }
  return static_cast<mode_t>(mode);
}

Result<SetupReport> set_up_fifos(const SetupRequest& request) {
  return Setup(request).run();
}

Result<TeardownReport> tear_down_fifos(const std::string& directory, bool force) {
  VTRACE_TRY(LocatedDirectory located, locate_directory(directory));
  if (!located.missing.empty()) return TeardownReport{};
  return Teardown(directory, std::move(located)).run(force);
}

}  // namespace vtrace
