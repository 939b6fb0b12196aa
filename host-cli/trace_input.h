// A recording to be read, whichever form it has: a trace.dat, or the directory of a raw capture
// (cpuN.raw beside a file `metadata`).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "common/metadata.h"
#include "common/result.h"
#include "host-cli/merged_reader.h"
#include "host-cli/time_correction.h"
#include "host-cli/trace_dat_reader.h"

namespace vtrace {

// What the traced kernel counted on a CPU: per_cpu/cpuN/stats at the end of the recording, since
// its buffer was made.
struct KernelStats {
  std::uint64_t entries = 0;  // were still in the ring buffer
  std::uint64_t overrun = 0;
  std::uint64_t commit_overrun = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t read_events = 0;
};

struct TraceInputOptions {
  // Another trace.dat, or a metadata file, of the same kernel; empty: the recording's own.
  std::string metadata_from;
  std::string buffer;  // a named instance in a trace.dat; empty: the top-level buffer
};

class TraceInput {
 public:
  [[nodiscard]] static Result<TraceInput> open(const std::string& path,
                                               const TraceInputOptions& options = {});

  [[nodiscard]] const std::string& path() const { return path_; }
  // Of a trace.dat; 0 of a raw capture.
  [[nodiscard]] int version() const { return dat_ ? dat_->info().version : 0; }
  [[nodiscard]] const std::string& writer() const { return writer_; }
  [[nodiscard]] std::uint64_t trace_id() const { return trace_id_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  [[nodiscard]] const SubbufLayout& layout() const { return layout_; }
  [[nodiscard]] const std::string& clock() const { return clock_; }
  [[nodiscard]] bool nanoseconds() const;
  [[nodiscard]] const TimeCorrection& correction() const { return correction_; }
  // Entries of the recording's CPU table, those without data too.
  [[nodiscard]] const CpuList& cpus() const { return cpus_; }
  [[nodiscard]] const std::map<int, KernelStats>& kernel_stats() const { return kernel_stats_; }
  [[nodiscard]] std::vector<std::string> other_buffers() const;
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  // The data of the CPUs wanted (all without a list), fresh from its start; this object must
  // outlive it.
  [[nodiscard]] Result<std::vector<CpuInput>> open_cpus(
      const std::optional<CpuList>& wanted = {}) const;
  // A reader of them, merged.
  [[nodiscard]] Result<MergedReader> merged(const std::optional<CpuList>& wanted = {}) const;

 private:
  struct RawFile {
    Fd fd;
    std::string path;
    std::uint64_t size = 0;
  };
  [[nodiscard]] Status open_dat(const TraceInputOptions& options);
  [[nodiscard]] Status open_directory(const TraceInputOptions& options);
  [[nodiscard]] Status open_raw_files();

  std::string path_;
  std::unique_ptr<TraceDatReader> dat_;
  const TraceDatBuffer* buffer_ = nullptr;  // of dat_
  std::map<int, RawFile> raw_;
  Metadata metadata_;
  SubbufLayout layout_;
  std::string writer_;
  std::uint64_t trace_id_ = 0;
  std::string clock_;
  TimeCorrection correction_;
  CpuList cpus_;
  std::map<int, KernelStats> kernel_stats_;
  std::vector<std::string> notes_;
};

// From a CPUSTAT text: "CPU: 1\nentries: 12\n…". The number of its CPU, -1 where it has none.
[[nodiscard]] std::pair<int, KernelStats> parse_cpu_stat(const std::string& text);

}  // namespace vtrace
