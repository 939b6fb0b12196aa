#include "guest-agent/port_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/layout.h"

namespace vtrace {
namespace {

namespace fs = std::filesystem;

bool is_our_name(std::string_view name) {
  return name == kControlPortName || cpu_of_port_name(name).has_value();
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator at(directory, error);
  while (!error && at != fs::directory_iterator()) {
    names.push_back(at->path().filename());
    at.increment(error);
  }
  std::ranges::sort(names);
  return names;
}

std::vector<FoundPort> find_in_sysfs(const PortPlaces& places) {
  const std::string directory = places.sysfs + "/class/virtio-ports";
  std::vector<FoundPort> found;
  for (const std::string& node : names_in(directory)) {
    auto name = read_file(fmt::format("{}/{}/name", directory, node));
    if (!name) continue;
    while (!name->empty() && name->back() == '\n') name->pop_back();
    if (is_our_name(*name)) found.push_back({*name, places.dev + "/" + node, false});
  }
  return found;
}

std::vector<FoundPort> find_in_directory(const std::string& directory) {
  constexpr std::string_view kIn = ".in";
  std::vector<FoundPort> found;
  for (const std::string& entry : names_in(directory)) {
    if (is_our_name(entry)) {
      found.push_back({entry, fmt::format("{}/{}", directory, entry), false});
    } else if (entry.ends_with(kIn)) {
      const std::string name = entry.substr(0, entry.size() - kIn.size());
      if (is_our_name(name)) found.push_back({name, fmt::format("{}/{}", directory, name), true});
    }
  }
  return found;
}

// A FIFO is opened for both directions, as QEMU does: no end of file when the other side leaves,
// and no waiting for it in open.
Result<Fd> open_fifo(const std::string& path) {
  VTRACE_TRY(Fd fd, open_fd(path, O_RDWR | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  if (::fstat(fd.get(), &status) < 0) return fail_errno(path, errno);
  if (!S_ISFIFO(status.st_mode))
    return fail(fmt::format("{}: not a FIFO; make it with virtio-trace setup", path));
  return fd;
}

Result<Fd> connect_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(fmt::format("{}: too long for a socket's path", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno(path, errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0)
    return fail_errno(path, errno);
  return fd;
}

// A terminal would change newlines and answer by itself.
void make_raw(int fd) {
  termios settings{};
  if (::isatty(fd) == 0 || ::tcgetattr(fd, &settings) < 0) return;
  ::cfmakeraw(&settings);
  (void)::tcsetattr(fd, TCSANOW, &settings);
}

Result<Fd> open_node(const std::string& path, int direction) {
  struct stat status{};
  if (::stat(path.c_str(), &status) < 0) return fail_errno(path, errno);
  if (S_ISSOCK(status.st_mode)) return connect_socket(path);
  if (!S_ISCHR(status.st_mode))
    return fail(fmt::format("{}: neither a device node nor a socket", path));
  auto fd = open_fd(path, direction | O_NONBLOCK | O_NOCTTY);
  if (!fd && fd.error().errno_value == EBUSY)
    return fail(fmt::format("{}: another program has this port open (is an agent running?)", path));
  if (fd) make_raw(fd->get());
  return fd;
}

}  // namespace

std::vector<FoundPort> find_ports(const PortPlaces& places) {
  std::vector<FoundPort> found =
      places.directory.empty() ? find_in_sysfs(places) : find_in_directory(places.directory);
  std::ranges::sort(found, {}, &FoundPort::name);
  return found;
}

Result<OpenPort> open_control_port(const FoundPort& port) {
  OpenPort open;
  if (port.fifos) {
    VTRACE_TRY(open.in, open_fifo(port.path + ".in"));
    VTRACE_TRY(open.out, open_fifo(port.path + ".out"));
  } else {
    VTRACE_TRY(open.in, open_node(port.path, O_RDWR));
  }
  return open;
}

Result<Fd> open_data_port(const FoundPort& port) {
  return port.fifos ? open_fifo(port.path + ".out") : open_node(port.path, O_WRONLY);
}

std::vector<std::string> DataPorts::refresh() {
  std::vector<std::string> notes;
  std::vector<DataPort> kept;
  for (const FoundPort& found : find_ports(places_)) {
    const std::optional<int> cpu = cpu_of_port_name(found.name);
    if (!cpu) continue;
    if (std::ranges::find(kept, *cpu, &DataPort::cpu) != kept.end()) {
      notes.push_back(fmt::format("port {}: there are two of that name; {} is not used", found.name,
                                  found.path));
      continue;
    }
    DataPort* known = find(*cpu);
    if (known != nullptr && known->path == found.path) {
      kept.push_back(std::move(*known));
      known->cpu = -1;
      continue;
    }
    auto fd = open_data_port(found);
    if (!fd) {
      notes.push_back(fmt::format("port {}: {}", found.name, fd.error().message));
      continue;
    }
    kept.push_back({*cpu, found.path, std::move(*fd), {}});
  }
  std::ranges::sort(kept, {}, &DataPort::cpu);
  ports_ = std::move(kept);
  return notes;
}

void DataPorts::forget(int cpu) {
  std::erase_if(ports_, [cpu](const DataPort& port) { return port.cpu == cpu; });
}

DataPort* DataPorts::find(int cpu) {
  const auto at = std::ranges::find(ports_, cpu, &DataPort::cpu);
  return at == ports_.end() ? nullptr : &*at;
}

CpuList DataPorts::cpus() const {
  CpuList cpus;
  for (const DataPort& port : ports_) cpus.push_back(port.cpu);
  return cpus;
}

}  // namespace vtrace
