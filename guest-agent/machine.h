// What the agent tells of the machine it runs on.
#pragma once

#include <cstdint>
#include <string>

#include "common/cpu_list.h"

namespace vtrace {

struct MachinePlaces {
  std::string sysfs = "/sys";
  std::string proc = "/proc";
};

struct Machine {
  std::string sysname, nodename, kernel_release, machine;
  std::string boot_id;
  std::string cpus_possible, cpus_present, cpus_online;  // "0,2-3"; empty where it is not told
};

[[nodiscard]] Machine look_at_machine(const MachinePlaces& places);
// Empty where the kernel does not tell.
[[nodiscard]] CpuList present_cpus(const MachinePlaces& places);
// Not 0.
[[nodiscard]] std::uint64_t draw_id();

}  // namespace vtrace
