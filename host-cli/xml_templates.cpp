#include "host-cli/xml_templates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "common/fd.h"
#include "host-cli/xml_text.h"

namespace vtrace {
namespace {

using Document = std::unique_ptr<pugi::xml_document>;

void set(pugi::xml_node node, const char* name, const std::string& value) {
  pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute) attribute = node.append_attribute(name);
  attribute.set_value(value.c_str());
}

void set(pugi::xml_node node, const char* name, int value) {
  set(node, name, std::to_string(value));
}

Document copy_of(const Document& document) {
  auto copy = std::make_unique<pugi::xml_document>();
  copy->append_copy(document->document_element());
  return copy;
}

// A template's root must be <NAME type='TYPE'> and have exactly one of each child that we fill.
Status check_template(const XmlText& xml, std::string_view name, std::string_view type,
                      const std::vector<const char*>& children) {
  const pugi::xml_node root = xml.root();
  if (root.name() != name || root.attribute("type").value() != type) {
    return xml.error_at(root, fmt::format("the template must be a <{} type='{}'> (mend or remove "
                                          "this file)",
                                          name, type));
  }
  for (const char* const child : children) {
    const auto found = root.children(child);
    const auto count = std::distance(found.begin(), found.end());
    if (count == 1) continue;
    return xml.error_at(root, fmt::format("the template has {} <{}>, which virtio-trace must fill "
                                          "in (mend or remove this file)",
                                          count == 0 ? "no" : "more than one", child));
  }
  return {};
}

// The attributes that tell what kind of channel it is; a template cannot change them.
Status check_kind(const XmlText& xml, const char* child, const char* attribute,
                  std::string_view value) {
  const pugi::xml_node node = xml.root().child(child);
  if (node.attribute(attribute).value() == value) return {};
  return xml.error_at(node, fmt::format("<{}> of the template must have {}='{}' (mend or remove "
                                        "this file)",
                                        child, attribute, value));
}

Result<XmlText> load_first(const std::vector<std::string>& directories, std::string_view name) {
  for (const std::string& directory : directories) {
    const std::string path = fmt::format("{}/{}", directory, name);
    auto text = read_file(path);
    if (text) return XmlText::parse(std::move(*text), path);
    const int number = text.error().errno_value;
    if (number != ENOENT && number != ENOTDIR) return std::unexpected(std::move(text.error()));
  }
  return fail(
      fmt::format("{}: no such template in {} (install virtio-trace, or set "
                  "VIRTIO_TRACE_TEMPLATES)",
                  name, fmt::join(directories, ", ")));
}

Document tree_of(const XmlText& xml) {
  auto document = std::make_unique<pugi::xml_document>();
  document->append_copy(xml.root());
  return document;
}

}  // namespace

Result<XmlTemplates> XmlTemplates::load(const std::vector<std::string>& directories,
                                        Backend backend) {
  const bool pipe = backend == Backend::pipe;
  XmlTemplates templates;
  VTRACE_TRY(const XmlText controller, load_first(directories, "controller.xml"));
  VTRACE_CHECK(check_template(controller, "controller", "virtio-serial", {"alias"}));
  VTRACE_TRY(const XmlText channel,
             load_first(directories, pipe ? "channel.xml" : "channel-unix.xml"));
  VTRACE_CHECK(check_template(channel, "channel", pipe ? "pipe" : "unix",
                              {"source", "target", "alias", "address"}));
  VTRACE_CHECK(check_kind(channel, "target", "type", "virtio"));
  VTRACE_CHECK(check_kind(channel, "address", "type", "virtio-serial"));
  if (!pipe) VTRACE_CHECK(check_kind(channel, "source", "mode", "bind"));
  templates.controller_ = tree_of(controller);
  templates.channel_ = tree_of(channel);
  return templates;
}

Document XmlTemplates::controller(const ControllerPlan& plan,
                                  const ControllerTraits& traits) const {
  Document document = copy_of(controller_);
  pugi::xml_node root = document->document_element();
  set(root, "index", plan.index);
  set(root, "ports", kControllerPorts);
  if (!traits.model.empty()) set(root, "model", traits.model);
  if (traits.iommu) {
    pugi::xml_node driver = root.child("driver");
    if (!driver) driver = root.prepend_child("driver");
    set(driver, "iommu", "on");
  }
  set(root.child("alias"), "name", plan.alias);
  return document;
}

Document XmlTemplates::channel(const PortPlan& plan, const std::string& path) const {
  Document document = copy_of(channel_);
  const pugi::xml_node root = document->document_element();
  set(root.child("source"), "path", path);
  set(root.child("target"), "name", plan.port_name);
  set(root.child("alias"), "name", plan.alias);
  set(root.child("address"), "controller", plan.controller);
  set(root.child("address"), "bus", 0);
  set(root.child("address"), "port", plan.number);
  return document;
}

std::vector<std::string> template_directories(const std::string& override,
                                              const std::string& program) {
  std::vector<std::string> directories;
  if (!override.empty()) directories.push_back(override);
  directories.emplace_back(VTRACE_SYSCONF_DIR "/xml-templates");
  if (!program.empty()) {
    // bin/virtio-trace and share/virtio-trace stand together, where it is installed and where it is
    // built.
    const auto prefix = std::filesystem::path(program).parent_path().parent_path();
    directories.push_back((prefix / "share" / "virtio-trace" / "xml-templates").string());
  }
  directories.emplace_back(VTRACE_DATA_DIR "/xml-templates");
  return directories;
}

std::vector<std::string> template_directories() {
  const char* const override = std::getenv("VIRTIO_TRACE_TEMPLATES");
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return template_directories(override == nullptr ? "" : override, error ? "" : program.string());
}

}  // namespace vtrace
