#include "common/layout.h"

#include <fmt/format.h>

#include <charconv>

#include "common/cpu_list.h"

namespace vtrace {
namespace {

PortPlan plan_port(std::string port_name, std::string_view short_name, std::optional<int> cpu,
                   int position, int first_controller) {
  PortPlan port;
  port.port_name = std::move(port_name);
  port.chardev_id = fmt::format("virtio-trace-chardev-{}", short_name);
  port.device_id = fmt::format("virtio-trace-port-{}", short_name);
  port.alias = fmt::format("ua-virtio-trace-{}", short_name);
  port.cpu = cpu;
  port.controller = first_controller + position / kPortsPerController;
  port.number = 1 + position % kPortsPerController;
  return port;
}

}  // namespace

std::string data_port_name(int cpu) {
  return fmt::format("{}{}", kDataPortPrefix, cpu);
}

std::optional<int> cpu_of_port_name(std::string_view name) {
  if (!name.starts_with(kDataPortPrefix)) return std::nullopt;
  name.remove_prefix(kDataPortPrefix.size());
  int cpu = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), cpu);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  if (cpu < 0 || cpu > kMaxCpuNumber || fmt::format("{}", cpu) != name) return std::nullopt;
  return cpu;
}

std::string fifo_name(std::string_view port_name, Direction direction) {
  return fmt::format("{}.{}", port_name, direction == Direction::in ? "in" : "out");
}

std::string socket_name(std::string_view port_name) {
  return fmt::format("{}.sock", port_name);
}

Result<Backend> parse_backend(std::string_view text) {
  if (text == "pipe") return Backend::pipe;
  if (text == "unix") return Backend::unix_socket;
  return fail(fmt::format("not a backend: \"{}\" (pipe or unix)", text), ErrorKind::usage);
}

int controllers_needed(int cpus) {
  return (cpus + 1 + kPortsPerController - 1) / kPortsPerController;
}

ChannelLayout plan_channels(int cpus, int first_controller) {
  ChannelLayout layout;
  for (int i = 0; i < controllers_needed(cpus); ++i) {
    const int index = first_controller + i;
    layout.controllers.push_back({index, fmt::format("virtio-trace-serial{}", index),
                                  fmt::format("ua-virtio-trace-serial{}", index)});
  }
  layout.ports.push_back(
      plan_port(std::string(kControlPortName), "ctl", std::nullopt, 0, first_controller));
  for (int cpu = 0; cpu < cpus; ++cpu) {
    layout.ports.push_back(
        plan_port(data_port_name(cpu), fmt::format("cpu{}", cpu), cpu, cpu + 1, first_controller));
  }
  return layout;
}

Result<int> parse_cpu_count(std::string_view text) {
  int cpus = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpus);
  if (error != std::errc() || end != text.data() + text.size() || cpus < 1 || cpus > kMaxCpus) {
    return fail(fmt::format("not a CPU count: \"{}\" (give a whole number from 1 to {})",
                            printable(text), kMaxCpus),
                ErrorKind::usage);
  }
  return cpus;
}

}  // namespace vtrace
