// What has to change in a libvirt domain so that it has our channels. Pure: from facts to a plan.
//
// What is ours is known by its alias: "ua-virtio-trace-serialN" on a virtio-serial controller, and
// "ua-virtio-trace-ctl" or "ua-virtio-trace-cpuN" on the channel with that port's name. libvirt
// keeps an alias that starts with "ua-" as it is. All else in the domain is never changed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/layout.h"
#include "common/result.h"

namespace vtrace {

// A <controller type='virtio-serial'>.
struct ControllerFact {
  std::size_t element = 0;   // the caller's number for the element, unique in the domain
  std::optional<int> index;  // nothing: libvirt picks one
  std::optional<int> ports;  // nothing: libvirt's default of 31
  std::string alias;
};

// A character device: <channel>, <console>, <serial> or <parallel>.
struct CharacterDeviceFact {
  std::size_t element = 0;
  std::string kind;         // the element's name
  std::string type;         // "pipe", "unix", "pty", …
  bool virtio = false;      // takes a port of a virtio-serial controller
  std::string target_name;  // the port's name in the guest
  std::string path;         // of the host's end
  std::string alias;
  std::optional<int> controller = {};  // of its virtio-serial address
  std::optional<int> port = {};        // 0 counts as none: libvirt picks one
};

struct DomainFacts {
  std::string name;
  int max_vcpus = 1;   // <vcpu>, whose value is the maximum
  bool iommu = false;  // its virtio devices have <driver iommu='on'/>
  std::string model;   // "virtio-transitional" and the like, where its virtio devices have one
  std::vector<ControllerFact> controllers;
  std::vector<CharacterDeviceFact> devices;
};

struct ChannelRequest {
  std::optional<int> cpus;  // nothing: the domain's maximum
  std::string directory;    // absolute
  Backend backend = Backend::pipe;
};

using PlannedElement = std::variant<ControllerPlan, PortPlan>;

struct DomainPlan {
  int cpus = 0;
  std::vector<std::size_t> drop;                                // elements of ours to take out
  std::vector<std::pair<std::size_t, PlannedElement>> replace;  // elements of ours to put right
  std::vector<PlannedElement> add;                              // new ones, in this order
  std::vector<std::string> notes;                               // for the user, one line each

  [[nodiscard]] bool changes_nothing() const {
    return drop.empty() && replace.empty() && add.empty();
  }
};

// Errors name the domain's device that is in the way. `request.cpus` has been checked.
[[nodiscard]] Result<DomainPlan> plan_domain(const DomainFacts& facts,
                                             const ChannelRequest& request);

// The elements that are ours, controllers first.
[[nodiscard]] std::vector<std::size_t> elements_of_ours(const DomainFacts& facts);

// The CPUs that have a channel of ours, ascending, and whether the control port has one.
struct AttachedPorts {
  bool control = false;
  std::vector<int> cpus;
};
[[nodiscard]] AttachedPorts attached_ports(const DomainFacts& facts);

// The host's end of a port: a FIFO pair's name without suffix, or a socket.
[[nodiscard]] std::string port_path(const ChannelRequest& request, std::string_view port_name);

// The lowest controller index that neither the domain's own virtio-serial controllers have, nor
// those that libvirt adds by itself for channels without an address. Never 0.
[[nodiscard]] int first_free_controller(const DomainFacts& facts);

}  // namespace vtrace
