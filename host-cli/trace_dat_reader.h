// Reads trace.dat, versions 6 and 7 (stored plain or with zstd), of little-endian machines. Every
// number in the file is taken as hostile: lengths and offsets are checked against the file, sizes
// against what a kernel can have, and an error names the path and the byte. Options and sections
// that are not known are skipped by their length.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/metadata.h"
#include "common/result.h"
#include "common/subbuffer.h"
#include "host-cli/subbuf_source.h"

namespace vtrace {

struct TraceDatCpu {
  int cpu = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t size = 0;    // stored bytes
};

struct TraceDatBuffer {
  std::string name;     // empty: the top-level buffer
  std::string clock;    // current one, without brackets; empty where it is not told
  SubbufLayout layout;  // of its sub-buffers
  bool compressed = false;
  std::vector<TraceDatCpu> cpus;  // as listed in the file; those without data too
};

struct TraceDatInfo {
  int version = 0;
  std::string compression = "none";
  std::uint32_t page_size = 0;         // of the initial header
  Metadata metadata;                   // uname and trace_clock filled from the options
  std::string writer;                  // VERSION
  std::uint64_t trace_id = 0;          // TRACEID
  std::vector<std::string> cpu_stats;  // CPUSTAT texts
  // Every option with its payload, in file order, those used above too.
  std::vector<std::pair<std::uint16_t, Bytes>> options;
  std::vector<TraceDatBuffer> buffers;  // the top-level buffer first
  // What is wrong with the file and can be lived with: data that the file is too short for, ….
  std::vector<std::string> notes;
};

class TraceDatReader {
 public:
  [[nodiscard]] static Result<TraceDatReader> open(const std::string& path);
  // Takes any seekable descriptor (a memfd too); `shown` stands for the path in errors.
  [[nodiscard]] static Result<TraceDatReader> open(Fd fd, std::string shown);

  [[nodiscard]] const TraceDatInfo& info() const { return info_; }
  [[nodiscard]] TraceDatInfo& info() { return info_; }
  [[nodiscard]] const std::string& path() const { return shown_; }

  // The data of one of info().buffers' CPUs; this reader must outlive it.
  [[nodiscard]] Result<std::unique_ptr<SubbufSource>> source(const TraceDatBuffer& buffer,
                                                             const TraceDatCpu& cpu) const;

 private:
  TraceDatReader(Fd fd, std::string shown, TraceDatInfo info)
      : fd_(std::move(fd)), shown_(std::move(shown)), info_(std::move(info)) {}

  Fd fd_;
  std::string shown_;
  TraceDatInfo info_;
};

}  // namespace vtrace
