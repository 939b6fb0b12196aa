// vtrace-workload: makes known events in the guest, so that a test can tell what must be in the
// trace.
//
//   vtrace-workload markers N [--instance NAME] [--burst K --gap-us U]
//   vtrace-workload flood BYTES [--instance NAME] [--raw] [--line-size S] [--rate BYTES_PER_SECOND]
//   vtrace-workload load SECONDS
//
// `markers`: a thread pinned to each online CPU writes N lines "vtrace cpuC line I" (I from 0) into
// trace_marker, one write(2) each; with --burst it sleeps U microseconds after every K lines.
// `flood`: the same lines, padded with 'x' to S bytes, as fast as the kernel takes them (or at
// --rate in all), until BYTES are written in all; --raw uses trace_marker_raw (records: u32 id
// 0x76747263, u32 CPU, u64 line, padding). `load`: on each CPU two threads pass a byte back and
// forth, a millisecond apart: sched and irq events, few of them. Both writers end with a line "cpu
// C lines L refused R" for each CPU (refused: the kernel did not take the write, for instance
// because tracing is off) and exit 0 when nothing was refused, else 1.

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kUsage = 2;
constexpr std::uint32_t kRawId = 0x76747263;
constexpr std::size_t kMaxLine = 4000;
constexpr std::string_view kTracefs = "/sys/kernel/tracing";

struct Options {
  std::string command;
  std::uint64_t amount = 0;  // lines of a CPU, bytes of all, or seconds
  std::string instance;
  bool raw = false;
  std::size_t line_size = 1000;
  std::uint64_t burst = 0;
  std::uint64_t gap_us = 0;
  std::uint64_t rate = 0;
};

struct Written {
  int cpu = 0;
  std::uint64_t lines = 0;
  std::uint64_t refused = 0;
};

bool parse_number(const std::string& text, std::uint64_t& number) {
  const auto* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end;
}

bool parse_option(const std::string& name, const std::string& value, Options& options) {
  if (name == "--instance") {
    options.instance = value;
    return !value.empty();
  }
  std::uint64_t number = 0;
  if (!parse_number(value, number)) {
    return false;
  }
  if (name == "--line-size") {
    options.line_size = number;
    return number >= 32 && number <= kMaxLine;
  }
  for (const auto& [known, target] :
       {std::pair{"--burst", &options.burst}, std::pair{"--gap-us", &options.gap_us},
        std::pair{"--rate", &options.rate}}) {
    if (name == known) {
      *target = number;
      return true;
    }
  }
  return false;
}

bool parse(int argc, char** argv, Options& options) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 2 || !parse_number(words[1], options.amount)) {
    return false;
  }
  options.command = words[0];
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (words[i] == "--raw") {
      options.raw = true;
    } else if (i + 1 == words.size() || !parse_option(words[i], words[i + 1], options)) {
      return false;
    } else {
      ++i;
    }
  }
  return options.command == "markers" || options.command == "flood" || options.command == "load";
}

std::vector<int> online_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  // PID 1's children may run anywhere, so the mask of this process is the list of online CPUs.
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

bool pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

// Threads wait here until all are pinned, so that the CPUs write at the same time.
class StartGate {
 public:
  explicit StartGate(std::size_t threads) : missing_(threads) {}

  void pass() {
    missing_.fetch_sub(1);
    while (missing_.load() > 0) {
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<std::ptrdiff_t> missing_;
};

std::size_t fill_record(const Options& options, int cpu, std::uint64_t line,
                        std::vector<char>& buffer) {
  if (options.raw) {
    const std::uint32_t number = static_cast<std::uint32_t>(cpu);
    std::memcpy(buffer.data(), &kRawId, sizeof kRawId);
    std::memcpy(buffer.data() + 4, &number, sizeof number);
    std::memcpy(buffer.data() + 8, &line, sizeof line);
    return options.line_size;
  }
  const bool padded = options.command == "flood";
  const int length = std::snprintf(buffer.data(), buffer.size(), "vtrace cpu%d line %llu%s", cpu,
                                   static_cast<unsigned long long>(line), padded ? " " : "\n");
  auto size = static_cast<std::size_t>(length);
  if (padded) {
    std::fill(buffer.begin() + length, buffer.end(), 'x');
    size = std::max(size + 1, options.line_size);
    buffer[size - 1] = '\n';
  }
  return size;
}

// Sleeps until `written` bytes are due at the wanted rate.
void keep_rate(std::uint64_t written, std::uint64_t rate,
               std::chrono::steady_clock::time_point start) {
  if (rate > 0) {
    const double due = static_cast<double>(written) / static_cast<double>(rate);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::duration<double>(due)));
  }
}

void write_lines(const Options& options, int fd, std::uint64_t lines, std::uint64_t rate,
                 Written& result) {
  std::vector<char> buffer(kMaxLine + 64, 'x');
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t bytes = 0;
  for (std::uint64_t line = 0; line < lines; ++line) {
    const std::size_t size = fill_record(options, result.cpu, line, buffer);
    if (::write(fd, buffer.data(), size) == static_cast<ssize_t>(size)) {
      ++result.lines;
    } else {
      ++result.refused;
    }
    bytes += size;
    if (options.burst > 0 && (line + 1) % options.burst == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(options.gap_us));
    }
    keep_rate(bytes, rate, start);
  }
}

int write_from_every_cpu(const Options& options) {
  std::string path{kTracefs};
  path += options.instance.empty() ? "" : "/instances/" + options.instance;
  path += options.raw ? "/trace_marker_raw" : "/trace_marker";
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    std::fprintf(stderr, "vtrace-workload: %s: %s\n", path.c_str(), std::strerror(errno));
    return 1;
  }
  const std::vector<int> cpus = online_cpus();
  const std::uint64_t lines = options.command == "markers"
                                  ? options.amount
                                  : options.amount / cpus.size() / options.line_size;
  std::vector<Written> results(cpus.size());
  std::atomic<bool> pinned{true};
  StartGate gate{cpus.size()};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      threads.emplace_back([&, i] {
        results[i].cpu = cpus[i];
        if (!pin_to(cpus[i])) {
          pinned = false;
        }
        gate.pass();
        write_lines(options, fd, lines, options.rate / cpus.size(), results[i]);
      });
    }
  }
  ::close(fd);
  std::uint64_t refused = 0;
  for (const Written& result : results) {
    std::printf("cpu %d lines %llu refused %llu\n", result.cpu,
                static_cast<unsigned long long>(result.lines),
                static_cast<unsigned long long>(result.refused));
    refused += result.refused;
  }
  if (!pinned) {
    std::fprintf(stderr, "vtrace-workload: a thread could not be pinned to its CPU\n");
  }
  return refused == 0 && pinned ? 0 : 1;
}

// Reads a byte, waits, passes it on. Ends when the other side closed its pipe.
void pass_bytes(int cpu, int from, int to, const std::stop_token& stop) {
  pin_to(cpu);
  char byte = 0;
  while (!stop.stop_requested() && ::read(from, &byte, 1) == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (::write(to, &byte, 1) != 1) {
      break;
    }
  }
  ::close(from);
  ::close(to);
}

int load_every_cpu(std::uint64_t seconds) {
  // At the end one thread of a pair is first to close its pipes.
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<int> cpus = online_cpus();
  std::vector<std::jthread> threads;
  threads.reserve(2 * cpus.size());
  for (const int cpu : cpus) {
    int ping[2];
    int pong[2];
    if (::pipe2(ping, O_CLOEXEC) != 0 || ::pipe2(pong, O_CLOEXEC) != 0) {
      std::fprintf(stderr, "vtrace-workload: pipe: %s\n", std::strerror(errno));
      return 1;
    }
    threads.emplace_back(
        [=](const std::stop_token& stop) { pass_bytes(cpu, ping[0], pong[1], stop); });
    threads.emplace_back(
        [=](const std::stop_token& stop) { pass_bytes(cpu, pong[0], ping[1], stop); });
    if (::write(ping[1], "x", 1) != 1) {
      return 1;
    }
  }
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc < 3 || !parse(argc, argv, options)) {
    std::fputs(
        "usage: vtrace-workload markers N [--instance NAME] [--burst K --gap-us U]\n"
        "       vtrace-workload flood BYTES [--instance NAME] [--raw] [--line-size S] [--rate "
        "BYTES_PER_SECOND]\n"
        "       vtrace-workload load SECONDS\n",
        stderr);
    return kUsage;
  }
  return options.command == "load" ? load_every_cpu(options.amount) : write_from_every_cpu(options);
}
