// Writes trace.dat version 6, which trace-cmd report, libtracecmd and KernelShark open: from what
// is known of the traced kernel and per-CPU runs of raw sub-buffers. The data goes to the file's
// top-level buffer, wherever it was recorded: readers apply time corrections to that one only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/metadata.h"
#include "common/result.h"

namespace vtrace {

// One CPU's data: `size` bytes, whole sub-buffers in time order, at `offset` of a regular file.
struct CpuSource {
  int cpu = 0;
  int fd = -1;  // borrowed; its file position is not used and not moved
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: a CPU that recorded nothing
};

// An option in the file's own form, for those that have no field below.
struct TraceDatOption {
  std::uint16_t id = 0;
  Bytes payload;
};

struct TraceDatExtras {
  std::string writer = "virtio-trace " VTRACE_VERSION;  // VERSION
  std::uint64_t trace_id = 0;                           // TRACEID; left out when 0
  // CPUSTAT: CPU number and the text of its per_cpu/cpuN/stats.
  std::vector<std::pair<int, std::string>> cpu_stats;
  std::vector<TraceDatOption> options;
};

// Bytes of CPU data written so far, and of all. Returning false ends the writing with an error of
// kind interrupted.
using WriteProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// The output file of one recording. It is made beside its final place under a name of its own,
// and gets the final name when everything is in it and on the disk: a writing that fails or is
// interrupted leaves what was at `path` before.
class TraceDatWriter {
 public:
  // Opens the output, so that whether it can be written is known before a recording starts. An
  // existing regular file is replaced at the end, through a symlink too; a directory, FIFO or
  // device is refused.
  [[nodiscard]] static Result<TraceDatWriter> create(const std::string& path);

  TraceDatWriter(TraceDatWriter&& other) noexcept;
  TraceDatWriter& operator=(TraceDatWriter&&) = delete;
  TraceDatWriter(const TraceDatWriter&) = delete;
  TraceDatWriter& operator=(const TraceDatWriter&) = delete;
  // Removes the unfinished file, if there is one.
  ~TraceDatWriter();

  // Writes everything and gives the file its name; to be called once. `sources` name each CPU
  // once, in any order; numbers that are missing become CPUs without data. Memory use does not
  // depend on the sources' size. The sources are left alone in any case.
  [[nodiscard]] Status write(const Metadata& metadata, const TraceDatExtras& extras,
                             std::span<const CpuSource> sources,
                             const WriteProgress& progress = {});

  // The final name, symlinks followed.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  TraceDatWriter(std::string path, std::string temporary, Fd fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {}
  void discard();

  std::string path_;
  std::string temporary_;  // empty once renamed or removed
  Fd fd_;
};

}  // namespace vtrace
