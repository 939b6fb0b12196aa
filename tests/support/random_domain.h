// Domain documents of every shape, for tests of what edits them.
#pragma once

#include <cstdint>
#include <string>

namespace vtrace::test {

// A well-formed libvirt domain named "random-SEED": with comments, CDATA, namespaces, odd spacing,
// one or more <devices>, serial controllers and channels in any order. The same for the same seed.
[[nodiscard]] std::string random_domain(std::uint32_t seed);

}  // namespace vtrace::test
