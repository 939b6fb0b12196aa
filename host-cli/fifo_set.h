// A guest's directory of FIFOs, opened: the host's ends of the control port and of the CPUs' data
// ports. Making and removing it is in fifo_setup.h.
//
// No FIFO is ever opened with O_CREAT, and no open blocks. Every descriptor given out is checked to
// be a FIFO, reached through no link, and O_NONBLOCK.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/cpu_list.h"
#include "common/fd.h"
#include "common/layout.h"
#include "common/result.h"

namespace vtrace {

// Refuses what is no FIFO, or one that another user could have put there. `shown` is its path,
// `directory` the status of the directory that it is in.
[[nodiscard]] Status check_fifo(const struct stat& fifo, const struct stat& directory,
                                const std::string& shown);

// Movable; one thread uses it, and the descriptors that it gives are the caller's.
class FifoSet {
 public:
  // Opens and checks the directory (see trusted_directory.h) and lists the FIFOs in it. A missing
  // one is an error that names setup; one without any of our FIFOs is an empty set.
  [[nodiscard]] static Result<FifoSet> open(const std::string& directory);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return directory_.get(); }
  // The CPUs that have a NAME.out, ascending.
  [[nodiscard]] const CpuList& cpus() const { return cpus_; }
  // Whether both FIFOs of the control port are there.
  [[nodiscard]] bool has_control() const { return has_control_; }
  // The path of a port's FIFO, for messages.
  [[nodiscard]] std::string fifo_path(std::string_view port_name, Direction direction) const;

  // Takes the directory for this FifoSet until it is destroyed, against a second collector. Fails
  // at once, with kind refused, when another has it.
  [[nodiscard]] Status lock() const;

  // NAME.out, to read what the guest sends. Works with no writer: read gives 0 then.
  [[nodiscard]] Result<Fd> open_read(std::string_view port_name) const;
  // NAME.in, to send to the guest. Of kind no_peer when nobody has it open for reading.
  [[nodiscard]] Result<Fd> open_write(std::string_view port_name) const;
  // NAME.out for reading and writing: while it is open, a guest that goes is no end of file.
  [[nodiscard]] Result<Fd> open_keepalive(std::string_view port_name) const;

 private:
  FifoSet() = default;
  [[nodiscard]] Status list();
  [[nodiscard]] Result<Fd> open_fifo(const std::string& name, int flags) const;
  [[nodiscard]] Error open_error(const std::string& name, int errno_value) const;

  std::string path_;
  Fd directory_;
  struct stat status_{};
  CpuList cpus_;
  bool has_control_ = false;
};

// The names in a directory, sorted; "." and ".." left out.
[[nodiscard]] Result<std::vector<std::string>> names_in(int directory, std::string_view shown);

}  // namespace vtrace
