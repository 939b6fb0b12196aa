// Making, mending and removing a guest's directory of FIFOs.
//
// The directory belongs to who runs setup and has mode 0755 when setup makes it, so that QEMU can
// pass as another user; what the FIFOs let through is told by their own owner and mode. One that
// exists keeps its mode.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "host-cli/fifo_users.h"
#include "host-cli/users.h"

namespace vtrace {

inline constexpr mode_t kDefaultFifoMode = 0600;

// "0660" (octal digits, at most 0777, with read and write for the owner); else kind usage.
[[nodiscard]] Result<mode_t> parse_fifo_mode(std::string_view text);

struct SetupRequest {
  std::string directory;
  int cpus = 0;                     // checked by the caller (parse_cpu_count)
  std::optional<Owner> owner = {};  // nothing: who runs this
  mode_t mode = kDefaultFifoMode;
};

struct SetupReport {
  bool made_directory = false;
  int made = 0;                    // FIFOs made
  int mended = 0;                  // FIFOs whose owner or mode was put right
  int kept = 0;                    // FIFOs that were right
  std::vector<int> surplus_cpus;   // CPUs beyond the count that have FIFOs; left alone
  std::vector<std::string> notes;  // what the user should know, one line each
};

// Checks everything first and changes nothing when something is wrong; what it made is removed
// again when a later step fails. Existing FIFOs are never emptied or replaced.
[[nodiscard]] Result<SetupReport> set_up_fifos(const SetupRequest& request);

struct TeardownReport {
  bool existed = false;
  int removed = 0;  // FIFOs
  bool removed_directory = false;
  std::vector<std::string> notes;
};

// Removes the FIFOs with our names, then the directory when nothing else is in it. Unless `force`,
// refuses (kind refused) while a process has one of them open. A missing directory is no error.
[[nodiscard]] Result<TeardownReport> tear_down_fifos(const std::string& directory, bool force);

}  // namespace vtrace
