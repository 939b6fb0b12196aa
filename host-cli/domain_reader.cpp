#include "host-cli/domain_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>

namespace vtrace {
namespace {

constexpr std::array<std::string_view, 4> kCharacterDevices = {"channel", "console", "serial",
                                                               "parallel"};

bool is_named(pugi::xml_node node, std::string_view name) {
  return node.type() == pugi::node_element && node.name() == name;
}

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

class Reader {
 public:
  explicit Reader(const XmlText& xml) : xml_(xml) {}

  Result<DomainReading> run() {
    VTRACE_CHECK(check_root());
    const pugi::xml_node root = xml_.root();
    reading_.facts.name = element_text(root.child("name"));
    VTRACE_CHECK(read_vcpus(root.child("vcpu")));
    for (const pugi::xml_node devices : root.children("devices")) {
      reading_.devices.push_back(devices);
      for (const pugi::xml_node device : devices.children()) {
        VTRACE_CHECK(read_device(device));
      }
    }
    if (reading_.devices.empty()) {
      return xml_.error_at(root, "the domain has no <devices>, where channels belong");
    }
    decide_model();
    return std::move(reading_);
  }

 private:
  Status check_root() const {
    const pugi::xml_node root = xml_.root();
    const std::string_view name = root.name();
    if (name == "domstatus") {
      return xml_.error_at(root,
                           "a libvirt status file (<domstatus>), not a domain's definition "
                           "(use the output of virsh dumpxml --inactive)");
    }
    if (name != "domain") {
      return xml_.error_at(root,
                           fmt::format("the root element is <{}>, not a domain's <domain>", name));
    }
    if (root.attribute("xmlns")) {
      return xml_.error_at(root,
                           "<domain> has a default namespace, in which libvirt finds nothing");
    }
    return {};
  }

  Status read_vcpus(pugi::xml_node vcpu) {
    if (!vcpu) return {};
    const std::string text = element_text(vcpu);
    const auto number = number_in(text);
    if (!number || *number == 0)
      return xml_.error_at(vcpu, fmt::format("<vcpu> is \"{}\", not a number of CPUs", text));
    reading_.facts.max_vcpus = *number;
    return {};
  }

  // An attribute that is a number; nothing when it is not there.
  Result<std::optional<int>> number_of(pugi::xml_node node, const char* name) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute) return std::nullopt;
    const auto number = number_in(attribute.value());
    if (!number) {
      return xml_.error_at(node, fmt::format("{}=\"{}\" of <{}> is not a number", name,
                                             attribute.value(), node.name()));
    }
    return number;
  }

  Status read_device(pugi::xml_node device) {
    if (device.type() != pugi::node_element) return {};
    follow(device);
    if (is_named(device, "controller") && device.attribute("type").value() == kVirtioSerial)
      return read_controller(device);
    if (std::ranges::find(kCharacterDevices, std::string_view(device.name())) !=
        kCharacterDevices.end())
      return read_character_device(device);
    return {};
  }

  Status read_controller(pugi::xml_node node) {
    ControllerFact controller;
    controller.element = remember(node);
    VTRACE_TRY(controller.index, number_of(node, "index"));
    VTRACE_TRY(controller.ports, number_of(node, "ports"));
    controller.alias = node.child("alias").attribute("name").value();
    const std::string_view model = node.attribute("model").value();
    if (model.starts_with("virtio")) controller_models_.insert(std::string(model));
    reading_.facts.controllers.push_back(std::move(controller));
    return {};
  }

  Status read_character_device(pugi::xml_node node) {
    CharacterDeviceFact device;
    device.element = remember(node);
    device.kind = node.name();
    device.type = node.attribute("type").value();
    const pugi::xml_node target = node.child("target");
    device.virtio = target.attribute("type").value() == std::string_view("virtio");
    device.target_name = target.attribute("name").value();
    device.path = node.child("source").attribute("path").value();
    device.alias = node.child("alias").attribute("name").value();
    const pugi::xml_node address = node.child("address");
    if (address.attribute("type").value() == kVirtioSerial) {
      VTRACE_TRY(device.controller, number_of(address, "controller"));
      VTRACE_TRY(device.port, number_of(address, "port"));
      if (device.port == 0) device.port.reset();
    }
    reading_.facts.devices.push_back(std::move(device));
    return {};
  }

  // What our controllers take over from the domain's other virtio devices.
  void follow(pugi::xml_node device) {
    const std::string_view alias = device.child("alias").attribute("name").value();
    if (alias.starts_with("ua-virtio-trace-")) return;
    if (device.child("driver").attribute("iommu").value() == std::string_view("on"))
      reading_.facts.iommu = true;
    for (const std::string_view model :
         {device.attribute("model").value(), device.child("model").attribute("type").value()}) {
      if (model == "virtio-transitional" || model == "virtio-non-transitional")
        device_models_.insert(std::string(model));
    }
  }

  // The serial controllers' model where they agree, else that of all virtio devices.
  void decide_model() {
    for (const auto* models : {&controller_models_, &device_models_}) {
      if (models->empty()) continue;
      if (models->size() == 1 && *models->begin() != "virtio")
        reading_.facts.model = *models->begin();
      return;
    }
  }

  std::size_t remember(pugi::xml_node node) {
    reading_.elements.push_back(node);
    return reading_.elements.size() - 1;
  }

  static constexpr std::string_view kVirtioSerial = "virtio-serial";

  const XmlText& xml_;
  DomainReading reading_;
  std::set<std::string> controller_models_;
  std::set<std::string> device_models_;
};

}  // namespace

Result<DomainReading> read_domain(const XmlText& xml) {
  return Reader(xml).run();
}

}  // namespace vtrace
