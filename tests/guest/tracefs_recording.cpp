#include "tests/guest/tracefs_recording.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "tests/guest/tracefs_root.h"
#include "tests/support/must.h"

namespace vtrace::test {
namespace {

namespace fs = std::filesystem;

std::string read_or_empty(const std::string& path) {
  auto text = read_file(path);
  return text ? *text : std::string();
}

void write_existing(const std::string& path, const std::string& text) {
  const Fd fd = must(open_fd(path, O_WRONLY | O_TRUNC));
  must(write_all(fd.get(), text, path));
}

CpuList online_cpus() {
  return must(parse_cpu_list(must(read_file("/sys/devices/system/cpu/online"))));
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("sched_setaffinity");
}

void write_markers(const TracefsInstance& instance, int cpu, int lines) {
  pin_to(cpu);
  const Fd marker = must(open_fd(instance.path() + "/trace_marker", O_WRONLY));
  for (int i = 0; i < lines; ++i) {
    // Every second line without its newline: both kinds are common.
    must(write_all(marker.get(),
                   fmt::format("marker cpu {} line {}{}", cpu, i, i % 2 == 0 ? "\n" : ""),
                   "trace_marker"));
  }
}

void keep_busy(int milliseconds) {
  std::atomic<bool> stop = false;
  const auto nap = [&stop] {
    while (!stop) std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  std::jthread one(nap);
  std::jthread two(nap);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  stop = true;
}

std::uint64_t stat_value(const std::string& stats, std::string_view key) {
  const std::size_t at = stats.find(fmt::format("{}: ", key));
  if (at == std::string::npos) return 0;
  std::uint64_t value = 0;
  const char* const from = stats.data() + at + key.size() + 2;
  std::from_chars(from, stats.data() + stats.size(), value);
  return value;
}

// One read gives one sub-buffer.
std::uint64_t drain(const std::string& from, const std::string& to, std::uint32_t subbuf_size) {
  const Fd in = must(open_fd(from, O_RDONLY | O_NONBLOCK));
  const Fd out = must(open_fd(to, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  std::string buffer(subbuf_size, '\0');
  std::uint64_t bytes = 0;
  for (;;) {
    const ssize_t got = ::read(in.get(), buffer.data(), buffer.size());
    if (got <= 0) return bytes;
    std::fill(buffer.begin() + got, buffer.end(), '\0');
    must(write_all(out.get(), buffer, to));
    bytes += subbuf_size;
  }
}

void add_formats(const std::string& root, const std::string& system, Metadata& metadata) {
  for (const auto& event : fs::directory_iterator(root + "/events/" + system)) {
    const std::string format = read_or_empty(event.path().string() + "/format");
    if (!format.empty())
      metadata.formats.push_back({system, event.path().filename().string(), format});
  }
}

Metadata describe(const TracefsInstance& instance, const RecordingWish& wish) {
  Metadata metadata;
  metadata.header_page = instance.read("events/header_page");
  metadata.header_event = instance.read("events/header_event");
  add_formats(tracefs_root(), "ftrace", metadata);
  for (const auto& system : fs::directory_iterator(tracefs_root() + "/events")) {
    const std::string name = system.path().filename().string();
    if (system.is_directory() && name != "ftrace") add_formats(tracefs_root(), name, metadata);
  }
  if (wish.with_kallsyms) metadata.kallsyms = must(read_file("/proc/kallsyms"));
  metadata.printk_formats = read_or_empty(tracefs_root() + "/printk_formats");
  metadata.saved_cmdlines = read_or_empty(tracefs_root() + "/saved_cmdlines");
  metadata.trace_clock = instance.read("trace_clock");
  struct utsname names{};
  ::uname(&names);
  metadata.sysname = names.sysname;
  metadata.nodename = names.nodename;
  metadata.kernel_release = names.release;
  metadata.machine = names.machine;
  return metadata;
}

}  // namespace

TracefsInstance::TracefsInstance() {
  static std::atomic<int> next = 0;
  path_ = fmt::format("{}/instances/vtrace-test-{}-{}", tracefs_root(), ::getpid(), next++);
  if (::mkdir(path_.c_str(), 0700) != 0) throw std::runtime_error("cannot make " + path_);
}

TracefsInstance::~TracefsInstance() {
  ::rmdir(path_.c_str());
}

void TracefsInstance::write(const std::string& file, const std::string& text) const {
  write_existing(path_ + "/" + file, text);
}

bool TracefsInstance::try_write(const std::string& file, const std::string& text) const {
  auto fd = open_fd(path_ + "/" + file, O_WRONLY);
  return fd && write_all(fd->get(), text, file);
}

std::string TracefsInstance::read(const std::string& file) const {
  return must(read_file(path_ + "/" + file));
}

bool has_subbuf_sizes() {
  return fs::exists(tracefs_root() + "/buffer_subbuf_size_kb");
}

std::uint64_t Recording::entries() const {
  std::uint64_t sum = 0;
  for (const auto& [cpu, recording] : cpus) sum += recording.entries;
  return sum;
}

Recording record_here(const std::string& directory, const RecordingWish& wish) {
  const TracefsInstance instance;
  instance.write("tracing_on", "0");
  if (wish.subbuf_kb != 4) instance.write("buffer_subbuf_size_kb", std::to_string(wish.subbuf_kb));
  instance.write("buffer_size_kb", std::to_string(wish.buffer_kb));
  instance.write("trace_clock", wish.clock);
  if (!wish.tracer.empty()) instance.write("current_tracer", wish.tracer);
  for (const std::string& option : wish.options) instance.write("options/" + option, "1");
  for (const std::string& event : wish.events) instance.write("events/" + event + "/enable", "1");
  instance.write("tracing_on", "1");
  std::vector<std::jthread> markers;
  for (const int cpu : online_cpus())
    markers.emplace_back(write_markers, std::cref(instance), cpu, wish.marker_lines);
  keep_busy(wish.busy_ms);
  markers.clear();
  instance.write("tracing_on", "0");

  Recording recording;
  recording.metadata = describe(instance, wish);
  recording.layout = must(parse_header_page(recording.metadata.header_page));
  for (const int cpu : online_cpus()) {
    const std::string per_cpu = fmt::format("per_cpu/cpu{}/", cpu);
    CpuRecording& one = recording.cpus[cpu];
    one.stats = instance.read(per_cpu + "stats");
    one.entries = stat_value(one.stats, "entries");
    one.overrun = stat_value(one.stats, "overrun");
    one.file = fmt::format("{}/cpu{}.raw", directory, cpu);
    one.bytes = drain(instance.path() + "/" + per_cpu + "trace_pipe_raw", one.file,
                      recording.layout.size());
  }
  return recording;
}

}  // namespace vtrace::test
