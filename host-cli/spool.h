// The directory of a capture's raw files: cpuN.raw, one a CPU, and `metadata`.
#pragma once

#include <string>
#include <vector>

#include "common/fd.h"
#include "common/metadata.h"
#include "common/result.h"

namespace vtrace {

class Spool {
 public:
  // A directory beside `output`, mode 0700, removed with its files at the end unless keep() is
  // called.
  [[nodiscard]] static Result<Spool> create_beside(const std::string& output);
  // `directory` itself, made if missing, kept. One that has a capture in it already is refused.
  [[nodiscard]] static Result<Spool> create_at(const std::string& directory);

  Spool(Spool&& other) noexcept;
  Spool& operator=(Spool&&) = delete;
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;
  ~Spool();

  // A new empty file, open for reading and writing.
  [[nodiscard]] Result<Fd> create_cpu_file(int cpu);
  [[nodiscard]] Status save_metadata(const Metadata& metadata);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string cpu_file_path(int cpu) const;
  void keep() { temporary_ = false; }

 private:
  Spool(std::string path, Fd directory, bool temporary)
      : path_(std::move(path)), directory_(std::move(directory)), temporary_(temporary) {}
  [[nodiscard]] Result<Fd> create_file(const std::string& name);

  std::string path_;
  Fd directory_;
  bool temporary_;
  std::vector<std::string> files_;
};

}  // namespace vtrace
