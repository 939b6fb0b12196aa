#include "host-cli/run_id.h"

#include <random>

namespace vtrace {

std::uint64_t draw_run_id() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U | device()) | 1U;
}

}  // namespace vtrace
