#include "host-cli/domain_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "common/cpu_list.h"

namespace vtrace {
namespace {

constexpr int kDefaultPorts = 31;         // libvirt's, where a controller does not say
constexpr int kMaxControllerIndex = 255;  // what libvirt's schema allows
constexpr std::string_view kControllerAlias = "ua-virtio-trace-serial";
constexpr std::string_view kOurAliases = "ua-virtio-trace-";

bool is_ours(const ControllerFact& controller) {
  return controller.alias.starts_with(kControllerAlias);
}

// The alias that a port of this name has when it is ours; empty where the name is no port's.
std::string alias_of_port(std::string_view port_name) {
  if (port_name == kControlPortName) return plan_channels(1, 1).ports.front().alias;
  const auto cpu = cpu_of_port_name(port_name);
  return cpu ? fmt::format("{}cpu{}", kOurAliases, *cpu) : "";
}

bool is_ours(const CharacterDeviceFact& device) {
  return device.kind == "channel" && !device.alias.empty() &&
         device.alias == alias_of_port(device.target_name);
}

std::string described(const CharacterDeviceFact& device) {
  if (!device.target_name.empty())
    return fmt::format("<{}> \"{}\"", device.kind, device.target_name);
  return fmt::format("<{}> with the path {}", device.kind, device.path);
}

// Places and compares; one use each.
class Planner {
 public:
  Planner(const DomainFacts& facts, const ChannelRequest& request)
      : facts_(facts), request_(request) {}

  Result<DomainPlan> run() {
    VTRACE_CHECK(decide_cpus());
    wanted_ = plan_channels(plan_.cpus, 1).ports;
    VTRACE_CHECK(check_conflicts());
    take_controllers();
    VTRACE_CHECK(take_ports());
    VTRACE_CHECK(place_the_rest());
    drop_empty_controllers();
    return std::move(plan_);
  }

 private:
  using Slot = std::pair<int, int>;  // controller index, port number

  [[nodiscard]] std::unexpected<Error> error(std::string_view what) const {
    return fail(facts_.name.empty() ? std::string(what)
                                    : fmt::format("domain \"{}\": {}", facts_.name, what));
  }

  Status decide_cpus() {
    plan_.cpus = request_.cpus.value_or(facts_.max_vcpus);
    if (plan_.cpus < 1 || plan_.cpus > kMaxCpus) {
      return error(
          fmt::format("its {} vCPUs are more than the {} that can have a port (give "
                      "--cpus)",
                      plan_.cpus, kMaxCpus));
    }
    if (plan_.cpus < facts_.max_vcpus) {
      plan_.notes.push_back(
          fmt::format("the domain can have {} vCPUs: those from {} on get no port",
                      facts_.max_vcpus, plan_.cpus));
    } else if (plan_.cpus > facts_.max_vcpus) {
      plan_.notes.push_back(
          fmt::format("the domain can have {} vCPUs only: the ports of those "
                      "from {} on stay unused",
                      facts_.max_vcpus, facts_.max_vcpus));
    }
    return {};
  }

  // A name, path or alias that we need and somebody else's device has.
  [[nodiscard]] Status check_conflicts() const {
    std::set<std::string> names;
    std::set<std::string> paths;
    for (const PortPlan& port : wanted_) {
      names.insert(port.port_name);
      paths.insert(port_path(request_, port.port_name));
    }
    for (const CharacterDeviceFact& device : facts_.devices) {
      if (is_ours(device)) continue;
      if (device.virtio && names.contains(device.target_name)) {
        return error(fmt::format("{} is there already and not virtio-trace's (remove it first)",
                                 described(device)));
      }
      if (paths.contains(device.path)) {
        return error(fmt::format("{} has the path {} already (remove it, or use another --dir)",
                                 described(device), device.path));
      }
      if (device.alias.starts_with(kOurAliases)) {
        return error(fmt::format("{} has virtio-trace's alias {} (remove it first)",
                                 described(device), device.alias));
      }
    }
    return {};
  }

  // Our controllers that are there: right as they are, to be put right, or useless.
  void take_controllers() {
    std::set<int> taken;
    for (const ControllerFact& controller : facts_.controllers) {
      if (!is_ours(controller) && controller.index) taken.insert(*controller.index);
    }
    for (const ControllerFact& controller : facts_.controllers) {
      if (!is_ours(controller)) continue;
      if (!controller.index || !taken.insert(*controller.index).second) {
        plan_.drop.push_back(controller.element);
        continue;
      }
      const int index = *controller.index;
      controllers_[index] = controller.element;
      if (controller.ports == kControllerPorts) continue;
      ControllerPlan right = plan_channels(1, index).controllers.front();
      right.alias = controller.alias;
      plan_.replace.emplace_back(controller.element, right);
    }
    for (const CharacterDeviceFact& device : facts_.devices) {
      if (!device.virtio || is_ours(device) || !device.controller || !device.port) continue;
      if (controllers_.contains(*device.controller)) {
        used_.insert({*device.controller, *device.port});
        shared_.insert(*device.controller);
      }
    }
  }

  [[nodiscard]] bool is_right(const CharacterDeviceFact& device, const PortPlan& port) const {
    const std::string_view type = request_.backend == Backend::pipe ? "pipe" : "unix";
    return device.type == type && device.path == port_path(request_, port.port_name);
  }

  // Our channels that are there keep their place where it is a good one.
  Status take_ports() {
    std::map<std::string, const PortPlan*> by_name;
    for (const PortPlan& port : wanted_) by_name[port.port_name] = &port;
    for (const CharacterDeviceFact& device : facts_.devices) {
      if (!is_ours(device)) continue;
      const auto wanted = by_name.find(device.target_name);
      if (wanted == by_name.end()) {
        plan_.drop.push_back(device.element);
        continue;
      }
      if (!present_.emplace(device.target_name, &device).second)
        return error(fmt::format("{} is there twice (remove one)", described(device)));
      const Slot slot{device.controller.value_or(0), device.port.value_or(0)};
      const bool good = controllers_.contains(slot.first) && slot.second >= 1 &&
                        slot.second <= kPortsPerController && used_.insert(slot).second;
      if (!good) continue;
      placed_.insert(device.target_name);
      if (is_right(device, *wanted->second)) continue;
      PortPlan right = *wanted->second;
      std::tie(right.controller, right.number) = slot;
      plan_.replace.emplace_back(device.element, right);
    }
    return {};
  }

  [[nodiscard]] std::optional<Slot> free_slot() const {
    for (const auto& [index, element] : controllers_) {
      for (int number = 1; number <= kPortsPerController; ++number) {
        if (!used_.contains({index, number})) return Slot{index, number};
      }
    }
    return std::nullopt;
  }

  Status place_the_rest() {
    int next_index = first_free_controller(facts_);
    for (const auto& [index, element] : controllers_) next_index = std::max(next_index, index + 1);
    for (const PortPlan& wanted : wanted_) {
      if (placed_.contains(wanted.port_name)) continue;
      auto slot = free_slot();
      if (!slot) {
        if (next_index > kMaxControllerIndex) {
          return error(
              fmt::format("a virtio-serial controller of index {} would be needed, {} is "
                          "the last (give fewer --cpus)",
                          next_index, kMaxControllerIndex));
        }
        plan_.add.emplace_back(plan_channels(1, next_index).controllers.front());
        controllers_[next_index] = std::nullopt;
        slot = Slot{next_index++, 1};
      }
      used_.insert(*slot);
      PortPlan port = wanted;
      std::tie(port.controller, port.number) = *slot;
      const auto present = present_.find(port.port_name);
      if (present == present_.end()) {
        plan_.add.emplace_back(std::move(port));
      } else {
        plan_.replace.emplace_back(present->second->element, std::move(port));
      }
    }
    return {};
  }

  void drop_empty_controllers() {
    for (const auto& [index, element] : controllers_) {
      const auto first = used_.lower_bound({index, 0});
      if (!element || (first != used_.end() && first->first == index)) continue;
      plan_.drop.push_back(*element);
      std::erase_if(plan_.replace, [&](const auto& pair) { return pair.first == *element; });
    }
    for (const int index : shared_) {
      plan_.notes.push_back(
          fmt::format("virtio-trace's controller {} carries other channels too; they stay", index));
    }
  }

  const DomainFacts& facts_;
  const ChannelRequest& request_;
  DomainPlan plan_;
  std::vector<PortPlan> wanted_;
  std::map<int, std::optional<std::size_t>> controllers_;  // ours, by index; new ones: no element
  std::map<std::string, const CharacterDeviceFact*> present_;
  std::set<std::string> placed_;
  std::set<Slot> used_;   // on our controllers
  std::set<int> shared_;  // our controllers that carry somebody else's channels
};

}  // namespace

Result<DomainPlan> plan_domain(const DomainFacts& facts, const ChannelRequest& request) {
  return Planner(facts, request).run();
}

std::vector<std::size_t> elements_of_ours(const DomainFacts& facts) {
  std::vector<std::size_t> elements;
  for (const ControllerFact& controller : facts.controllers) {
    if (is_ours(controller)) elements.push_back(controller.element);
  }
  for (const CharacterDeviceFact& device : facts.devices) {
    if (is_ours(device)) elements.push_back(device.element);
  }
  return elements;
}

AttachedPorts attached_ports(const DomainFacts& facts) {
  AttachedPorts ports;
  for (const CharacterDeviceFact& device : facts.devices) {
    if (!is_ours(device)) continue;
    if (const auto cpu = cpu_of_port_name(device.target_name)) {
      ports.cpus.push_back(*cpu);
    } else {
      ports.control = true;
    }
  }
  std::ranges::sort(ports.cpus);
  return ports;
}

std::string port_path(const ChannelRequest& request, std::string_view port_name) {
  const std::string name =
      request.backend == Backend::pipe ? std::string(port_name) : socket_name(port_name);
  return request.directory.ends_with('/') ? request.directory + name
                                          : fmt::format("{}/{}", request.directory, name);
}

int first_free_controller(const DomainFacts& facts) {
  std::map<int, int> room;  // by index: ports that libvirt can still give away
  int unnumbered = 0;
  for (const ControllerFact& controller : facts.controllers) {
    if (is_ours(controller)) continue;
    if (controller.index) {
      room[*controller.index] = controller.ports.value_or(kDefaultPorts) - 1;
    } else {
      ++unnumbered;
    }
  }
  // A controller without an index gets the lowest that is free, as libvirt does it.
  for (int index = 0; unnumbered > 0; ++index) {
    if (room.try_emplace(index, kDefaultPorts - 1).second) --unnumbered;
  }
  int homeless = 0;  // devices for which libvirt must find a port
  for (const CharacterDeviceFact& device : facts.devices) {
    if (!device.virtio || is_ours(device)) continue;
    // Without an address a device implies controller 0.
    const auto at = room.try_emplace(device.controller.value_or(0), kDefaultPorts - 1).first;
    if (device.port.value_or(0) > 0) {
      --at->second;
    } else {
      ++homeless;
    }
  }
  int highest = 0;
  for (const auto& [index, free] : room) {
    highest = std::max(highest, index);
    homeless -= std::max(0, free);
  }
  const int added = homeless > 0 ? (homeless + kDefaultPorts - 2) / (kDefaultPorts - 1) : 0;
  return highest + added + 1;
}

}  // namespace vtrace
