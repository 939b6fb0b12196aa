// The whole chain on a guest of our own: each step is the command that a user would give, shown
// before it is run.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>

#include "common/units.h"
#include "host-cli/child_process.h"
#include "host-cli/commands/command.h"
#include "host-cli/interrupts.h"
#include "host-cli/qemu_args.h"

namespace vtrace {
namespace {

constexpr int kCpus = 2;
constexpr int kReportLines = 20;
// A guest is up in seconds, under emulation on a busy machine in ten times that.
constexpr const char* kBootTime = "120s";

struct DemoOptions {
  std::string guest;
  std::string output = "trace.dat";
  std::string duration = "5s";
  bool json = false;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

class Demo {
 public:
  Demo(const DemoOptions& options, std::string self, Interrupts interrupts, std::string directory)
      : options_(options),
        self_(std::move(self)),
        interrupts_(std::move(interrupts)),
        directory_(std::move(directory)) {}
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // Whatever happens, nothing is left running or lying about.
  ~Demo() {
    qemu_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  Result<int> run() {
    VTRACE_CHECK(step({"setup", "--cpus", fmt::format("{}", kCpus), "--dir", fifos()}));
    VTRACE_CHECK(boot());
    VTRACE_CHECK(record());
    VTRACE_CHECK(report());
    qemu_.reset();
    VTRACE_CHECK(step({"teardown", "--dir", fifos()}));
    if (!options_.json) {
      fmt::print(
          "\nThe trace is in {}; look at it with\n  virtio-trace report {}\n"
          "  trace-cmd report {}\n  kernelshark {}\n",
          output_, output_, output_, output_);
    }
    return kExitOk;
  }

 private:
  [[nodiscard]] std::string fifos() const { return directory_ + "/fifos"; }
  [[nodiscard]] std::string console() const { return directory_ + "/console.log"; }

  void show(const std::vector<std::string>& words, std::string_view ending = "") const {
    std::string line = "$";
    for (const std::string& word : words) line += fmt::format(" {}", shell_word(word));
    fmt::print(options_.json ? stderr : stdout, "{}{}\n", line, ending);
    std::fflush(stdout);
  }

  Result<ChildProcess> start(std::vector<std::string> words, const ChildOptions& options) const {
    words.insert(words.begin(), self_);
    return ChildProcess::start(words, options);
  }

  // Waits for `child`; ends it when the guest dies or a signal comes to us.
  Result<int> finish(ChildProcess& child) {
    for (;;) {
      std::array<pollfd, 3> fds = {{{child.exit_fd(), POLLIN, 0},
                                    {interrupts_.get(), POLLIN, 0},
                                    {qemu_ ? qemu_->exit_fd() : -1, POLLIN, 0}}};
      if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
        return fail_errno("poll", errno);
      if (fds[0].revents != 0) return child.wait();
      if (fds[1].revents != 0) {
        interrupted_ = interrupts_.count() > 0;
        child.signal(SIGTERM);
      }
      if (fds[2].revents != 0) return fail("QEMU has ended:" + console_end());
    }
  }

  Status step(const std::vector<std::string>& words) {
    std::vector<std::string> shown = words;
    shown.insert(shown.begin(), "virtio-trace");
    show(shown);
    VTRACE_TRY(ChildProcess child, start(words, {.to_stderr = options_.json}));
    VTRACE_TRY(const int code, finish(child));
    if (interrupted_) return fail("interrupted", ErrorKind::interrupted);
    if (code != 0) return fail(fmt::format("{} failed (exit code {})", words[0], code));
    return {};
  }

  Status boot() {
    const std::vector<std::string> words = {
        "qemu-args", "--cpus", fmt::format("{}", kCpus), "--dir", fifos(), "--format", "lines"};
    std::vector<std::string> shown = words;
    shown.insert(shown.begin(), "virtio-trace");
    show(shown);
    VTRACE_TRY(ChildProcess child, start(words, {.capture_output = true}));
    VTRACE_TRY(const std::string ports, child.output());
    if (child.wait() != 0) return fail("qemu-args failed");
    VTRACE_TRY(
        const std::string accel,
        read_file((std::filesystem::path(options_.guest).parent_path() / "accel.args").string()));

    std::vector<std::string> argv = {"qemu-system-x86_64",
                                     "-nodefaults",
                                     "-no-user-config",
                                     "-display",
                                     "none",
                                     "-no-reboot",
                                     "-smp",
                                     fmt::format("{}", kCpus),
                                     "-m",
                                     "512",
                                     "-kernel",
                                     options_.guest + "/vmlinuz",
                                     "-initrd",
                                     options_.guest + "/initramfs.cpio.gz",
                                     "-append",
                                     "console=ttyS0 no_timer_check panic=-1 vtrace.run=demo-load",
                                     "-serial",
                                     "file:" + console()};
    for (const std::string& text : {accel, ports}) {
      for (const std::string& word : lines_of(text)) argv.push_back(word);
    }
    show({"qemu-system-x86_64", "-kernel", options_.guest + "/vmlinuz"}, " … &");
    VTRACE_TRY(
        ChildProcess qemu,
        ChildProcess::start(argv, {.to_stderr = true, .own_group = true, .error_file = console()}));
    qemu_ = std::make_unique<ChildProcess>(std::move(qemu));
    return {};
  }

  Status record() {
    std::vector<std::string> words = {
        "record",     "--dir",           fifos(),  "-e",      "sched", "-e",   "irq",
        "--duration", options_.duration, "--wait", kBootTime, "-o",    output_};
    std::vector<std::string> shown = words;
    shown.insert(shown.begin(), "virtio-trace");
    show(shown);
    if (options_.json) words.emplace_back("--json");
    VTRACE_TRY(ChildProcess child, start(words, {}));
    VTRACE_TRY(const int code, finish(child));
    if (code == kExitInterrupted || (interrupted_ && code != 0))
      return fail("interrupted", ErrorKind::interrupted);
    if (code != 0) return fail("record failed; the guest's console ends with:" + console_end());
    return {};
  }

  Status report() {
    std::FILE* const out = options_.json ? stderr : stdout;
    show({"virtio-trace", "report", output_}, fmt::format(" | head -n {}", kReportLines));
    VTRACE_TRY(ChildProcess child, start({"report", output_}, {.capture_output = true}));
    std::string text;
    std::array<char, 4096> buffer{};
    // Only as much as is shown: the whole would be long.
    while (lines_of(text).size() <= kReportLines) {
      const ssize_t got = ::read(child.output_fd(), buffer.data(), buffer.size());
      if (got <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    child.close_output();
    (void)child.wait();
    std::vector<std::string> lines = lines_of(text);
    if (lines.empty()) return fail(fmt::format("{}: report showed nothing", output_));
    if (lines.size() > kReportLines) lines.resize(kReportLines);
    for (const std::string& line : lines) fmt::print(out, "{}\n", line);
    return {};
  }

  // The console's last lines on one line: an error has one.
  [[nodiscard]] std::string console_end() const {
    const auto text = read_file(console());
    const std::vector<std::string> lines = lines_of(text.value_or(""));
    std::string end;
    for (std::size_t i = lines.size() > 3 ? lines.size() - 3 : 0; i < lines.size(); ++i)
      end += fmt::format(" | {}", lines[i]);
    return end.empty() ? " (the console shows nothing)" : end;
  }

  const DemoOptions& options_;
  std::string self_;
  Interrupts interrupts_;
  std::string directory_;
  std::string output_ = options_.output;
  std::unique_ptr<ChildProcess> qemu_;
  bool interrupted_ = false;
};

// The guest's files: given, or those of the build tree that this program lies in.
Result<std::string> find_guest(const std::string& given, const std::filesystem::path& self) {
  std::string guest =
      !given.empty() ? given : (self.parent_path() / "../../guest/6.1").lexically_normal().string();
  for (const char* const file : {"vmlinuz", "initramfs.cpio.gz", "../accel.args"}) {
    if (std::filesystem::exists(std::filesystem::path(guest) / file)) continue;
    return fail(
        fmt::format("{}/{}: not there; \"./run demo\" in the source tree makes the guest, or "
                    "name one with --guest-files",
                    guest, file));
  }
  return guest;
}

Result<int> run_demo(DemoOptions options) {
  VTRACE_CHECK(parse_duration(options.duration));
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail_errno("/proc/self/exe", error.value());
  VTRACE_TRY(options.guest, find_guest(options.guest, self));
  VTRACE_TRY(Interrupts interrupts, Interrupts::create());
  const char* const base = std::getenv("TMPDIR");
  std::string directory =
      fmt::format("{}/virtio-trace-demo.XXXXXX", base == nullptr ? "/tmp" : base);
  if (::mkdtemp(directory.data()) == nullptr) return fail_errno(directory, errno);
  Demo demo(options, self.string(), std::move(interrupts), std::move(directory));
  return demo.run();
}

}  // namespace

void add_demo(CommandSet& commands) {
  const auto options = std::make_shared<DemoOptions>();
  CLI::App& app =
      commands.add("demo", "Boot a guest of our own in QEMU, record it and show the report",
                   [options] { return run_demo(*options); });
  app.add_option("-o,--output", options->output, "The trace.dat to write (trace.dat)")
      ->type_name("FILE");
  app.add_option("--duration", options->duration, "How long to record (5s)")->type_name("TIME");
  app.add_option("--guest-files", options->guest,
                 "Directory with the guest's vmlinuz and initramfs.cpio.gz")
      ->type_name("DIR");
  app.add_flag("--json", options->json,
               "The recording's result as one JSON object on stdout, all else on stderr");
}

}  // namespace vtrace
