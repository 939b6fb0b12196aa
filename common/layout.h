// The channel layout: the name of every port, device and FIFO, and which controller a port sits on.
// Pure. The names agent-ctl-path and trace-path-cpuN are those of the kernel's
// tools/virtio/virtio-trace/README.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace vtrace {

inline constexpr std::string_view kControlPortName = "agent-ctl-path";
inline constexpr std::string_view kDataPortPrefix = "trace-path-cpu";

// Above 15 pipe ports on a controller QEMU loses a port's OPEN message at guest boot (its control
// queue has 32 slots, a port needs three messages): the port looks present and is dead.
inline constexpr int kPortsPerController = 15;
// The controller's max_ports: numbers 0 to 15, of which 0 is reserved for a console.
inline constexpr int kControllerPorts = kPortsPerController + 1;
inline constexpr int kMaxCpus = 1024;

// "trace-path-cpu3"
[[nodiscard]] std::string data_port_name(int cpu);
// The CPU number in a data port's name; nothing for any other name ("trace-path-cpu03" too).
[[nodiscard]] std::optional<int> cpu_of_port_name(std::string_view name);

// A FIFO carries one direction; the words are QEMU's, seen from the guest.
enum class Direction {
  in,   // host to guest: NAME.in
  out,  // guest to host: NAME.out
};
[[nodiscard]] std::string fifo_name(std::string_view port_name, Direction direction);

// How a port reaches the host.
enum class Backend {
  pipe,         // a pair of FIFOs, NAME.in and NAME.out
  unix_socket,  // one socket that QEMU listens on
};
// "NAME.sock", which stands beside where the FIFOs would be.
[[nodiscard]] std::string socket_name(std::string_view port_name);
// The longest path that a unix socket's address holds (sun_path less its NUL).
inline constexpr std::size_t kMaxSocketPath = 107;
// "pipe" or "unix", else an error of kind usage.
[[nodiscard]] Result<Backend> parse_backend(std::string_view text);

struct PortPlan {
  std::string port_name;   // what the guest sees
  std::string chardev_id;  // QEMU's id of the host end
  std::string device_id;   // QEMU's id of the virtserialport
  std::string alias;       // libvirt's alias; only a "ua-" alias outlives a define
  std::optional<int> cpu;  // nothing for the control port
  int controller = 0;      // index of its controller
  int number = 0;          // 1 to 15 on that controller
};

struct ControllerPlan {
  int index = 0;
  std::string device_id;
  std::string alias;
};

struct ChannelLayout {
  std::vector<ControllerPlan> controllers;
  std::vector<PortPlan> ports;  // the control port first, then CPU 0 to N-1
};

// Plans N CPUs' data ports and the control port on controllers of our own, whose indexes start at
// `first_controller`. `cpus` is 1 to kMaxCpus (the caller has checked it).
[[nodiscard]] ChannelLayout plan_channels(int cpus, int first_controller);

// The text of a CPU count given by a user: 1 to kMaxCpus, else an error of kind usage.
[[nodiscard]] Result<int> parse_cpu_count(std::string_view text);

// ⌈(cpus+1)/15⌉
[[nodiscard]] int controllers_needed(int cpus);

}  // namespace vtrace
