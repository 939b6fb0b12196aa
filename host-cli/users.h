// Users and groups by name and number.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/result.h"

namespace vtrace {

struct Owner {
  uid_t user = 0;
  gid_t group = 0;
};

// USER, USER:GROUP or USER: (names or numbers). Without a group it is the user's login group; a
// number that has no account takes the group of the same number. Unknown names are of kind usage.
[[nodiscard]] Result<Owner> parse_owner(std::string_view text);

// "alice", or "uid 1234" where the number has no name.
[[nodiscard]] std::string user_name(uid_t user);
[[nodiscard]] std::string group_name(gid_t group);

}  // namespace vtrace
