#include "guest-agent/tracefs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "guest-agent/directories.h"

namespace vtrace {
namespace {

namespace fs = std::filesystem;

// The level in brackets of "none [integrity] confidentiality"; empty without the file.
std::string lockdown_level(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return {};
  const std::size_t open = text->find('[');
  const std::size_t close = text->find(']', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return text->substr(open + 1, close - open - 1);
}

// Is a file system of type tracefs (or debugfs, above it) mounted at `root`?
bool is_mounted(const std::string& mounts, std::string_view root) {
  const auto text = read_file(mounts);
  if (!text) return false;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const std::size_t first = line.find(' ');
    if (first == std::string_view::npos) continue;
    const std::string_view behind = line.substr(first + 1);
    if (behind.starts_with(fmt::format("{} tracefs ", root))) return true;
  }
  return false;
}

std::string lockdown_words(const std::string& level) {
  if (level.empty() || level == "none")
    return "the kernel's lockdown is not the reason; was it built with tracing?";
  return fmt::format(
      "the kernel is locked down ({}), which forbids tracing; boot with lockdown=none or without "
      "secure boot",
      level);
}

struct Look {
  bool usable = false;
  bool empty = false;      // mounted, nothing in it
  bool forbidden = false;  // files there, but not for us
  int errno_value = 0;
};

Look look_at(const std::string& root, const std::string& mounts) {
  Look look;
  const auto clock = open_fd(root + "/trace_clock", O_RDONLY);
  if (clock) {
    look.usable = true;
    return look;
  }
  look.errno_value = clock.error().errno_value;
  look.forbidden = look.errno_value == EPERM || look.errno_value == EACCES;
  look.empty = look.errno_value == ENOENT && is_mounted(mounts, root);
  return look;
}

}  // namespace

Status write_kernel_file(const std::string& path, std::string_view text) {
  VTRACE_TRY(const Fd fd, open_fd(path, O_WRONLY));
  for (;;) {
    // One write: tracefs takes each write for a whole setting.
    const ssize_t put = ::write(fd.get(), text.data(), text.size());
    if (put >= 0) return {};
    if (errno != EINTR) return fail_errno(path, errno);
  }
}

std::string TraceBuffer::path(std::string_view file) const {
  return fmt::format("{}/{}", directory_, file);
}

Result<std::string> TraceBuffer::read(std::string_view file) const {
  return read_file(path(file));
}

Result<SubbufLayout> TraceBuffer::layout() const {
  VTRACE_TRY(const std::string text, read("events/header_page"));
  auto layout = parse_header_page(text);
  if (!layout) return add_context(layout.error(), path("events/header_page"));
  return layout;
}

Result<CpuList> TraceBuffer::cpus() const {
  std::error_code error;
  CpuList cpus;
  fs::directory_iterator at(path("per_cpu"), error);
  if (error) return fail_errno(path("per_cpu"), error.value());
  for (; at != fs::directory_iterator(); at.increment(error)) {
    if (error) return fail_errno(path("per_cpu"), error.value());
    const std::string name = at->path().filename();
    if (!name.starts_with("cpu")) continue;
    int cpu = -1;
    const char* end = name.data() + name.size();
    const auto result = std::from_chars(name.data() + 3, end, cpu);
    if (result.ec == std::errc() && result.ptr == end && cpu >= 0) cpus.push_back(cpu);
  }
  std::ranges::sort(cpus);
  return cpus;
}

Result<Fd> TraceBuffer::open_raw(int cpu) const {
  return open_fd(path(fmt::format("per_cpu/cpu{}/trace_pipe_raw", cpu)), O_RDONLY | O_NONBLOCK);
}

Result<std::string> TraceBuffer::stats_text(int cpu) const {
  return read(fmt::format("per_cpu/cpu{}/stats", cpu));
}

Result<BufferStats> TraceBuffer::stats(int cpu) const {
  VTRACE_TRY(const std::string text, stats_text(cpu));
  return parse_buffer_stats(text);
}

std::uint64_t TraceBuffer::bytes_per_cpu(int cpu) const {
  // "1408", or "7 (expanded: 1408)" for a buffer that was not used yet.
  const auto text = read(fmt::format("per_cpu/cpu{}/buffer_size_kb", cpu));
  if (!text) return 0;
  std::string_view number = *text;
  const std::size_t expanded = number.find("expanded: ");
  if (expanded != std::string_view::npos) number.remove_prefix(expanded + 10);
  std::uint64_t kilobytes = 0;
  std::from_chars(number.data(), number.data() + number.size(), kilobytes);
  return kilobytes * 1024;
}

Result<Tracefs> Tracefs::find(const TracefsPlaces& places) {
  std::string names;
  for (const std::string& root : places.roots) {
    const Look look = look_at(root, places.mounts);
    if (look.usable) return Tracefs(root);
    if (look.empty) {
      return fail(fmt::format("{}: tracefs is mounted but empty: {}", root,
                              lockdown_words(lockdown_level(places.lockdown))));
    }
    if (look.forbidden) {
      const std::string level = lockdown_level(places.lockdown);
      const bool locked = !level.empty() && level != "none";
      return fail(fmt::format("{}/trace_clock: {}: {}", root, errno_text(look.errno_value),
                              locked ? lockdown_words(level) : "run the agent as root"));
    }
    names += (names.empty() ? "" : " nor at ") + root;
  }
  return fail(
      fmt::format("no tracefs at {}: mount it (mount -t tracefs nodev {}) or name its "
                  "place with --tracefs",
                  names, places.roots.front()));
}

std::vector<std::string> Tracefs::list_directories(std::string_view directory) const {
  return directories_in(fmt::format("{}/{}", root_, directory));
}

bool Tracefs::exists(std::string_view file) const {
  std::error_code ignored;
  return fs::exists(fmt::format("{}/{}", root_, file), ignored);
}

}  // namespace vtrace
