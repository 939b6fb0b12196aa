// Puts our channels into a libvirt domain's XML and takes them out again. The text is changed where
// they are and nowhere else: every other byte stays as it was, and taking out what was put in gives
// back the original, byte for byte. Pure but for the templates given to it.
#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "host-cli/domain_plan.h"
#include "host-cli/xml_templates.h"

namespace vtrace {

struct DomainEdit {
  std::string xml;                 // the whole document
  int cpus = 0;                    // that have a channel in it
  int added = 0;                   // elements put in
  int changed = 0;                 // elements of ours that were put right
  int removed = 0;                 // elements of ours taken out
  std::vector<std::string> notes;  // for the user, one line each
};

// `shown` (a path, say) starts the errors about the document. Channels that are there already and
// right stay untouched, so that doing it twice changes nothing.
[[nodiscard]] Result<DomainEdit> add_channels(const std::string& xml, const std::string& shown,
                                              const ChannelRequest& request,
                                              const XmlTemplates& templates);

[[nodiscard]] Result<DomainEdit> remove_channels(const std::string& xml, const std::string& shown);

// What a domain has; for reports.
[[nodiscard]] Result<DomainFacts> inspect_domain(const std::string& xml, const std::string& shown);

// The elements alone, as they stand in a <devices> that has no other virtio-serial device.
// `request.cpus` must be given.
[[nodiscard]] Result<std::string> channel_elements(const ChannelRequest& request,
                                                   const XmlTemplates& templates);

}  // namespace vtrace
