// Reads what the plan needs to know out of a libvirt domain's tree.
#pragma once

#include <pugixml.hpp>
#include <vector>

#include "common/result.h"
#include "host-cli/domain_plan.h"
#include "host-cli/xml_text.h"

namespace vtrace {

struct DomainReading {
  DomainFacts facts;
  std::vector<pugi::xml_node> elements;  // what the facts' element numbers stand for
  std::vector<pugi::xml_node> devices;   // the <devices> elements, at least one
};

// Refuses what is no domain definition (another root, a status file, no <devices>) and numbers that
// are none, with line and column.
[[nodiscard]] Result<DomainReading> read_domain(const XmlText& xml);

}  // namespace vtrace
