// The one object that a command prints for --json.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace vtrace {

// Members stay in the order that they were added in.
using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 (in a path, say) are replaced, since JSON cannot carry them.
inline void print_json(const Json& object) {
  fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace vtrace
