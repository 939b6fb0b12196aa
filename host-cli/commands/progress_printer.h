// Shows a recording's progress on a stream, as ProgressText has it.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "host-cli/progress_text.h"
#include "host-cli/record_session.h"

namespace vtrace {

class ProgressPrinter : public RecordObserver {
 public:
  // `out` is borrowed. A `quiet` one shows notes alone.
  ProgressPrinter(std::FILE* out, bool quiet);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  ~ProgressPrinter() override;

  void phase(std::string_view what) override;
  void note(std::string_view text) override;
  void tick(double seconds, const std::vector<CpuProgress>& cpus) override;
  void progress(std::uint64_t done, std::uint64_t total) override;

 private:
  void draw(const std::string& line);  // over the line that is shown
  void end_line();

  std::FILE* out_;
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  std::string phase_;
  ProgressText text_;
};

}  // namespace vtrace
