#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "common/fd.h"
#include "common/layout.h"
#include "host-cli/commands/command.h"
#include "host-cli/domain_xml.h"
#include "host-cli/xml_templates.h"

namespace vtrace {
namespace {

struct Options {
  DirectoryOptions directory;
  std::optional<std::string> cpus;
  std::string domain;
  std::string backend = "pipe";
  bool remove = false;
};

Result<std::string> read_domain_file(const std::string& path, const std::string& shown) {
  return path == "-" ? read_to_end(STDIN_FILENO, shown) : read_file(path);
}

// The bytes as they are; a full disk behind stdout is an error.
Status print_text(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return {};
  return fail_errno("standard output", errno);
}

Result<DomainEdit> edit_domain(const Options& options, const ChannelRequest& request) {
  const std::string shown = options.domain == "-" ? "standard input" : options.domain;
  VTRACE_TRY(const std::string xml, read_domain_file(options.domain, shown));
  if (options.remove) return remove_channels(xml, shown);
  VTRACE_TRY(const XmlTemplates templates,
             XmlTemplates::load(template_directories(), request.backend));
  return add_channels(xml, shown, request, templates);
}

Result<int> run(const Options& options) {
  ChannelRequest request;
  if (options.cpus) {
    VTRACE_TRY(request.cpus, parse_cpu_count(*options.cpus));
  }
  VTRACE_TRY(request.backend, parse_backend(options.backend));
  VTRACE_TRY(request.directory, options.directory.resolve_absolute());
  if (!options.domain.empty()) {
    VTRACE_TRY(const DomainEdit edit, edit_domain(options, request));
    VTRACE_CHECK(print_text(edit.xml));
    print_notes(edit.notes);
    return kExitOk;
  }
  if (options.remove)
    return fail("--remove takes channels out of a domain: give it with --domain", ErrorKind::usage);
  if (!request.cpus)
    return fail("how many CPUs? (give --cpus, or a domain with --domain)", ErrorKind::usage);
  VTRACE_TRY(const XmlTemplates templates,
             XmlTemplates::load(template_directories(), request.backend));
  VTRACE_TRY(const std::string elements, channel_elements(request, templates));
  VTRACE_CHECK(print_text(elements));
  return kExitOk;
}

}  // namespace

void add_xml(CommandSet& commands) {
  const auto options = std::make_shared<Options>();
  CLI::App& command = commands.add("xml",
                                   "Print the libvirt elements of the channels, or a domain "
                                   "with them",
                                   [options] { return run(*options); });
  options->directory.add_to(command);
  command
      .add_option("--cpus", options->cpus,
                  "How many CPUs get a channel (with --domain: default is the maximum in <vcpu>)")
      ->type_name("N");
  command
      .add_option("--domain", options->domain,
                  "A domain's XML (virsh dumpxml --inactive GUEST), - for standard input. It is "
                  "printed whole, with the channels added; the file itself stays as it is")
      ->type_name("FILE|-");
  command.add_flag(
      "--remove", options->remove,
      "Take the channels out of the domain again, which gives back the original bytes");
  command
      .add_option("--backend", options->backend,
                  "pipe: channels end in the FIFOs that setup makes (default); unix: in sockets, "
                  "NAME.sock in the same directory, which QEMU listens on")
      ->type_name("pipe|unix");
  command.footer(
      "Without --domain the elements alone are printed, to be put into <devices>. With it, "
      "nothing\n"
      "but the insertion changes; doing it twice changes nothing, another --cpus extends or "
      "shrinks\n"
      "what is there. The channels get virtio-serial controllers of their own, 15 on each, "
      "because\n"
      "QEMU leaves further ones dead. The elements are made from controller.xml, channel.xml and\n"
      "channel-unix.xml, looked up in $VIRTIO_TRACE_TEMPLATES, " VTRACE_SYSCONF_DIR
      "/xml-templates\nand the installed ones.");
}

}  // namespace vtrace
