// Where tracefs is, and what it tells. Read only but for small settings; mounts nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "common/result.h"
#include "common/subbuffer.h"
#include "guest-agent/buffer_stats.h"

namespace vtrace {

// Where to look. The defaults are the kernel's own places, the new one first.
struct TracefsPlaces {
  std::vector<std::string> roots = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
  std::string mounts = "/proc/self/mounts";
  std::string lockdown = "/sys/kernel/security/lockdown";
};

// Writes a file that is there already (tracefs, procfs) in one write. The error names the path.
[[nodiscard]] Status write_kernel_file(const std::string& path, std::string_view text);

// One ring buffer of the kernel: the top level or an instance. A value: it holds paths, no
// descriptors. The buffer may vanish at any time; then the functions give errors.
class TraceBuffer {
 public:
  TraceBuffer(std::string directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  [[nodiscard]] const std::string& directory() const { return directory_; }
  // "top level", or the instance's name.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string path(std::string_view file) const;
  [[nodiscard]] Result<std::string> read(std::string_view file) const;

  [[nodiscard]] Result<SubbufLayout> layout() const;
  // CPUs that have a per_cpu directory: the possible ones, present or not.
  [[nodiscard]] Result<CpuList> cpus() const;
  // per_cpu/cpuN/trace_pipe_raw, O_NONBLOCK. One descriptor a CPU at a time and never a copy of it:
  // closing one makes another reader of the same buffer see a false end of file.
  [[nodiscard]] Result<Fd> open_raw(int cpu) const;
  [[nodiscard]] Result<std::string> stats_text(int cpu) const;
  [[nodiscard]] Result<BufferStats> stats(int cpu) const;
  // Of one CPU's ring buffer; 0 where it cannot be told.
  [[nodiscard]] std::uint64_t bytes_per_cpu(int cpu) const;

 private:
  std::string directory_;
  std::string name_;
};

class Tracefs {
 public:
  // The first of the places that holds one. The errors tell apart: not mounted (naming all places),
  // and mounted but empty or forbidden (naming the kernel's lockdown level).
  [[nodiscard]] static Result<Tracefs> find(const TracefsPlaces& places);

  [[nodiscard]] const std::string& root() const { return root_; }
  [[nodiscard]] TraceBuffer top_level() const { return {root_, "top level"}; }
  [[nodiscard]] TraceBuffer instance(const std::string& name) const {
    return {root_ + "/instances/" + name, name};
  }
  // The names in a directory below the root, sorted; empty where it is not there.
  [[nodiscard]] std::vector<std::string> list_directories(std::string_view directory) const;
  [[nodiscard]] bool exists(std::string_view file) const;

 private:
  explicit Tracefs(std::string root) : root_(std::move(root)) {}
  std::string root_;
};

}  // namespace vtrace
