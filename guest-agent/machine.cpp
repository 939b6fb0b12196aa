#include "guest-agent/machine.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>

#include "common/fd.h"

namespace vtrace {
namespace {

std::string first_line(const std::string& path) {
  auto text = read_file(path);
  if (!text) return {};
  return text->substr(0, text->find('\n'));
}

std::string cpu_file(const MachinePlaces& places, std::string_view name) {
  return first_line(fmt::format("{}/devices/system/cpu/{}", places.sysfs, name));
}

}  // namespace

Machine look_at_machine(const MachinePlaces& places) {
  Machine machine;
  utsname names{};
  if (::uname(&names) == 0) {
    machine.sysname = names.sysname;
    machine.nodename = names.nodename;
    machine.kernel_release = names.release;
    machine.machine = names.machine;
  }
  machine.boot_id = first_line(places.proc + "/sys/kernel/random/boot_id");
  machine.cpus_possible = cpu_file(places, "possible");
  machine.cpus_present = cpu_file(places, "present");
  machine.cpus_online = cpu_file(places, "online");
  return machine;
}

CpuList present_cpus(const MachinePlaces& places) {
  return parse_cpu_list(cpu_file(places, "present")).value_or(CpuList{});
}

std::uint64_t draw_id() {
  std::uint64_t id = 0;
  // Never waits: early at boot the pool may not be ready, and a weaker number does here.
  if (::getrandom(&id, sizeof id, GRND_INSECURE) != sizeof id || id == 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    id = (static_cast<std::uint64_t>(now) << 16U) ^ static_cast<std::uint64_t>(::getpid());
  }
  return id == 0 ? 1 : id;
}

}  // namespace vtrace
