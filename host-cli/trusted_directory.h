// Directories that no other user can swap for something else while we work in them.
//
// A path is walked one component at a time on directory descriptors. Each directory on the way must
// belong to root or to us, and must not let others rename what is in it: not writable for everyone
// or for a group other than root's and ours, unless it is sticky (as /tmp is). A symbolic link is
// followed inside the path when root or we made it (/var/run), and refused as the last component.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

namespace vtrace {

struct LocatedDirectory {
  Fd fd;                             // the deepest directory that exists
  struct stat status{};              // what it is
  std::vector<std::string> missing;  // the components below it that do not exist; empty: all do
  std::string shown;                 // its path, for messages
  Fd parent;                         // the directory that it is in, where known; and
  std::string name;                  // its name there
  std::string closed_at;             // the first directory on the way that others cannot pass
};

// Finds as much of `path` as exists, checking all of it. Changes nothing.
[[nodiscard]] Result<LocatedDirectory> locate_directory(const std::string& path);

// The same where the whole path must exist; `remedy` ends the error of a missing one.
[[nodiscard]] Result<LocatedDirectory> open_trusted_directory(const std::string& path,
                                                              std::string_view remedy);

// Makes the missing components, each of mode 0755 whatever the umask is.
[[nodiscard]] Status make_missing(LocatedDirectory& located);

// True where others than its owner may make files in it (which then takes the sticky bit).
[[nodiscard]] bool others_may_write(const struct stat& directory);

}  // namespace vtrace
