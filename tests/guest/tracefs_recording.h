// A recording made by the test itself from a private instance of the guest's tracefs: real
// sub-buffers, with what the kernel counted, and the kernel's own description of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/metadata.h"
#include "common/subbuffer.h"

namespace vtrace::test {

// A tracefs instance with a unique name; removed at the end. Throws when it cannot be made.
class TracefsInstance {
 public:
  TracefsInstance();
  TracefsInstance(const TracefsInstance&) = delete;
  TracefsInstance& operator=(const TracefsInstance&) = delete;
  ~TracefsInstance();

  void write(const std::string& file, const std::string& text) const;
  [[nodiscard]] std::string read(const std::string& file) const;
  // As write, for what a kernel may not have: false when it refuses.
  [[nodiscard]] bool try_write(const std::string& file, const std::string& text) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether this kernel (6.8 and later) lets the size of sub-buffers be chosen.
[[nodiscard]] bool has_subbuf_sizes();

struct CpuRecording {
  std::string file;           // raw sub-buffers, padded to whole ones
  std::uint64_t bytes = 0;    // size of that file
  std::uint64_t entries = 0;  // events the kernel had in the ring buffer when it was stopped
  std::uint64_t overrun = 0;  // events it had thrown away by then
  std::string stats;          // per_cpu/cpuN/stats
};

struct Recording {
  std::map<int, CpuRecording> cpus;
  Metadata metadata;
  SubbufLayout layout;

  [[nodiscard]] std::uint64_t entries() const;
};

struct RecordingWish {
  std::vector<std::string> events = {"sched", "irq"};  // "system" or "system/event"
  std::string clock = "local";
  std::string tracer = {};                // empty: nop
  std::vector<std::string> options = {};  // of trace options, each to be set: "stacktrace"
  int subbuf_kb = 4;                      // throws where the kernel cannot
  int buffer_kb = 16384;                  // per CPU
  bool with_kallsyms = false;
  int marker_lines = 1000;  // numbered lines that each CPU writes into trace_marker
  int busy_ms = 200;        // how long tasks switch, sleep and are woken meanwhile
};

// Records into `directory` (cpuN.raw). Throws when something fails.
[[nodiscard]] Recording record_here(const std::string& directory, const RecordingWish& wish = {});

}  // namespace vtrace::test
