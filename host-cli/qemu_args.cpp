#include "host-cli/qemu_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace vtrace {
namespace {

// QEMU splits an option's value at commas; a doubled one stands for itself.
std::string escape_commas(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c;
    if (c == ',') escaped += c;
  }
  return escaped;
}

Result<std::string> chardev(const PortPlan& port, const QemuArgsRequest& request) {
  if (request.backend == Backend::pipe) {
    // QEMU itself adds ".in" and ".out".
    return fmt::format("pipe,id={},path={}/{}", port.chardev_id, escape_commas(request.directory),
                       port.port_name);
  }
  const std::string path = fmt::format("{}/{}", request.directory, socket_name(port.port_name));
  if (path.size() > kMaxSocketPath) {
    return fail(
        fmt::format("{}: {} bytes are too long for a unix socket's path, {} is the most "
                    "(use a shorter --dir)",
                    path, path.size(), kMaxSocketPath));
  }
  return fmt::format("socket,id={},path={},server=on,wait=off", port.chardev_id,
                     escape_commas(path));
}

constexpr std::string_view kPlainBytes =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";

Status check_no_newline(const std::vector<std::string>& arguments) {
  const auto bad = std::ranges::find_if(
      arguments, [](const std::string& argument) { return argument.contains('\n'); });
  if (bad == arguments.end()) return {};
  return fail("the directory's name has a newline in it (use another --dir, or --format json)");
}

std::string shell_text(const std::vector<std::string>& arguments) {
  std::string text;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool starts_line = i % 2 == 0;
    if (i > 0) text += starts_line ? " \\\n" : " ";
    text += shell_word(arguments[i]);
  }
  return text + '\n';
}

}  // namespace

Result<std::vector<std::string>> qemu_arguments(const QemuArgsRequest& request) {
  const ChannelLayout layout = plan_channels(request.cpus, 1);
  std::vector<std::string> arguments;
  for (const ControllerPlan& controller : layout.controllers) {
    arguments.insert(arguments.end(),
                     {"-device", fmt::format("virtio-serial-pci,id={},max_ports={}",
                                             controller.device_id, kControllerPorts)});
  }
  const int first = layout.controllers.front().index;
  for (const PortPlan& port : layout.ports) {
    VTRACE_TRY(std::string value, chardev(port, request));
    arguments.insert(arguments.end(), {"-chardev", std::move(value)});
    const ControllerPlan& controller =
        layout.controllers[static_cast<std::size_t>(port.controller - first)];
    arguments.insert(
        arguments.end(),
        {"-device",
         fmt::format("virtserialport,bus={}.0,nr={},chardev={},id={},name={}", controller.device_id,
                     port.number, port.chardev_id, port.device_id, port.port_name)});
  }
  return arguments;
}

Result<ArgsFormat> parse_args_format(std::string_view text) {
  if (text == "shell") return ArgsFormat::shell;
  if (text == "lines") return ArgsFormat::lines;
  if (text == "json") return ArgsFormat::json;
  return fail(fmt::format("not a format: \"{}\" (shell, lines or json)", text), ErrorKind::usage);
}

std::string shell_word(std::string_view text) {
  if (!text.empty() && text.find_first_not_of(kPlainBytes) == std::string_view::npos)
    return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + '\'';
}

Result<std::string> format_arguments(const std::vector<std::string>& arguments, ArgsFormat format) {
  if (format == ArgsFormat::json) {
    try {
      return nlohmann::json(arguments).dump(2) + '\n';
    } catch (const nlohmann::json::exception&) {
      return fail("the directory's name is no UTF-8, which JSON cannot carry (use --format lines)");
    }
  }
  VTRACE_CHECK(check_no_newline(arguments));
  if (format == ArgsFormat::shell) return shell_text(arguments);
  std::string text;
  for (const std::string& argument : arguments) text.append(argument).append("\n");
  return text;
}

}  // namespace vtrace
