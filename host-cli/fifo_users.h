// Who has a FIFO open.
#pragma once

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"

namespace vtrace {

using FileId = std::pair<dev_t, ino_t>;

struct FileUser {
  pid_t pid = 0;
  std::string name;  // the process's command name
};

// The processes that have one of `files` open, this one left out. Without root it sees only the
// user's own. `proc` is the mount point of procfs; an unreadable one gives an empty list.
[[nodiscard]] std::vector<FileUser> processes_with_open(const std::set<FileId>& files,
                                                        const std::string& proc = "/proc");

// Whether anyone at all, of any user, has this FIFO open. Takes no byte out of it. Nothing when we
// may not open it. `directory` and `name` are as in openat(2).
[[nodiscard]] std::optional<bool> fifo_is_open(int directory, const std::string& name);

}  // namespace vtrace
