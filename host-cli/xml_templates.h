// The libvirt elements that we add, made from template files that an administrator can override.
#pragma once

#include <memory>
#include <pugixml.hpp>
#include <string>
#include <vector>

#include "common/layout.h"
#include "common/result.h"

namespace vtrace {

// What a domain's other virtio devices have and ours must have too.
struct ControllerTraits {
  std::string model;  // empty: none
  bool iommu = false;
};

// The templates of one backend. Immutable after loading.
class XmlTemplates {
 public:
  // controller.xml and channel.xml or channel-unix.xml, each from the first directory that has it.
  // A template that is broken, or has no place for what must be filled in, is an error that names
  // its path.
  [[nodiscard]] static Result<XmlTemplates> load(const std::vector<std::string>& directories,
                                                 Backend backend);

  // A document whose root is the filled element.
  [[nodiscard]] std::unique_ptr<pugi::xml_document> controller(
      const ControllerPlan& plan, const ControllerTraits& traits) const;
  // `path` is the host's end (port_path in domain_plan.h).
  [[nodiscard]] std::unique_ptr<pugi::xml_document> channel(const PortPlan& plan,
                                                            const std::string& path) const;

 private:
  XmlTemplates() = default;
  std::unique_ptr<pugi::xml_document> controller_;
  std::unique_ptr<pugi::xml_document> channel_;
};

// Where templates are looked for, in this order: VIRTIO_TRACE_TEMPLATES (given as `override`, may
// be empty), the system's configuration, beside the program (`program` is the path of the running
// executable, may be empty), the installed data.
[[nodiscard]] std::vector<std::string> template_directories(const std::string& override,
                                                            const std::string& program);
// The same for this process.
[[nodiscard]] std::vector<std::string> template_directories();

}  // namespace vtrace
