#include "host-cli/commands/progress_printer.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/say.h"
#include "common/units.h"

namespace vtrace {
namespace {

std::size_t columns_of(std::FILE* out) {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  if (::ioctl(::fileno(out), TIOCGWINSZ, &size) < 0 || size.ws_col == 0) return kUsual;
  return size.ws_col;
}

}  // namespace

ProgressPrinter::ProgressPrinter(std::FILE* out, bool quiet)
    : out_(out), quiet_(quiet), terminal_(::isatty(::fileno(out)) == 1) {}

ProgressPrinter::~ProgressPrinter() {
  end_line();
}

void ProgressPrinter::draw(const std::string& line) {
  say(out_, "\r{}\x1b[K", line);
  std::fflush(out_);
  drawn_ = true;
}

void ProgressPrinter::end_line() {
  if (drawn_) say(out_, "\r\x1b[K");
  drawn_ = false;
  std::fflush(out_);
}

void ProgressPrinter::phase(std::string_view what) {
  phase_ = what;
  if (quiet_) return;
  if (terminal_) {
    draw(phase_);
  } else {
    say(out_, "{}\n", phase_);
    std::fflush(out_);
  }
}

void ProgressPrinter::note(std::string_view text) {
  end_line();
  say(out_, "note: {}\n", text);
}

void ProgressPrinter::tick(double seconds, const std::vector<CpuProgress>& cpus) {
  if (quiet_) return;
  if (terminal_) {
    draw(fmt::format("{}: {}", phase_,
                     text_.line(seconds, cpus, columns_of(out_) - phase_.size() - 3)));
  } else {
    say(out_, "{}\n", text_.line(seconds, cpus, 0));
    std::fflush(out_);
  }
}

void ProgressPrinter::progress(std::uint64_t done, std::uint64_t total) {
  if (quiet_ || !terminal_ || total == 0) return;
  draw(fmt::format("{}: {} of {}", phase_, format_size(done), format_size(total)));
}

}  // namespace vtrace
