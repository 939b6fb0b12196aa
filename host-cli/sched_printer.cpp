#include "host-cli/sched_printer.h"

#include <algorithm>
#include <cstring>

#include "common/wire.h"
#include "host-cli/print_program.h"

namespace vtrace {
namespace {

constexpr std::string_view kArrow = " ==> ";
constexpr std::size_t kMaxStates = 256;

const FieldPlace* find(const std::vector<FieldPlace>& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldPlace& field) { return field.name == name; });
  return found == fields.end() || found->dynamic ? nullptr : &*found;
}

bool is_number(const FieldPlace* field) {
  return field != nullptr && (field->size == 4 || field->size == 8);
}

std::uint64_t number(const FieldPlace& field, std::span<const std::byte> payload) {
  return load_le(payload.subspan(field.offset), field.size);
}

std::string_view text_of(const FieldPlace& field, std::span<const std::byte> payload) {
  const std::string_view text = as_text(payload.subspan(field.offset, field.size));
  return text.substr(0, text.find('\0'));
}

}  // namespace

bool SchedPrinter::find_task(const std::vector<FieldPlace>& fields, const std::string& prefix,
                             Task& task) {
  const FieldPlace* const comm = find(fields, prefix + "comm");
  const FieldPlace* const pid = find(fields, prefix + "pid");
  const FieldPlace* const prio = find(fields, prefix + "prio");
  if (comm == nullptr || !is_number(pid) || !is_number(prio)) return false;
  task = {*comm, *pid, *prio, {}};
  return true;
}

std::optional<SchedPrinter> SchedPrinter::create(std::string_view event,
                                                 const std::vector<FieldPlace>& fields) {
  SchedPrinter printer;
  const bool is_switch = event == "sched_switch";
  if (!is_switch && event != "sched_wakeup" && event != "sched_wakeup_new") return std::nullopt;
  const FieldPlace* const detail = find(fields, is_switch ? "prev_state" : "target_cpu");
  if (!is_number(detail) || find(fields, "success") != nullptr) return std::nullopt;
  printer.detail_ = *detail;
  printer.tasks_.resize(is_switch ? 2 : 1);
  // Real-time priorities below zero are shown as such by the one event only.
  const NumberFormat prio{.conversion = is_switch ? 'd' : 'u',
                          .bytes = static_cast<std::uint8_t>(is_switch ? 4 : 8)};
  if (is_switch && !(find_task(fields, "prev_", printer.tasks_[0]) &&
                     find_task(fields, "next_", printer.tasks_[1])))
    return std::nullopt;
  if (!is_switch && !find_task(fields, "", printer.tasks_[0])) return std::nullopt;
  for (Task& task : printer.tasks_) task.prio_format = prio;
  for (const FieldPlace& field : fields)
    printer.reach_ = std::max(printer.reach_, field.offset + field.size);
  return printer;
}

void SchedPrinter::print_task(const Task& task, std::span<const std::byte> payload,
                              const LearnTask& learn_task, std::string& out) {
  const std::string_view comm = text_of(task.comm, payload);
  const std::uint64_t pid = number(task.pid, payload);
  out += comm;
  out += ':';
  append_decimal(out, pid);
  out += " [";
  append_number(out, task.prio_format, number(task.prio, payload));
  out += ']';
  learn_task(static_cast<int>(pid), comm);
}

bool SchedPrinter::print(std::span<const std::byte> payload, const LearnTask& learn_task,
                         std::string& out) const {
  if (payload.size() < reach_) return false;
  const std::uint64_t detail = number(detail_, payload);
  if (tasks_.size() == 1) {
    print_task(tasks_[0], payload, learn_task, out);
    constexpr NumberFormat kCpu{.conversion = 'u', .zeros = true, .width = 3, .bytes = 8};
    out += " CPU:";
    append_number(out, kCpu, detail);
    return true;
  }
  const auto state = states_.find(detail);
  if (state == states_.end()) return false;
  print_task(tasks_[0], payload, learn_task, out);
  out += ' ';
  out += state->second;
  out += kArrow;
  print_task(tasks_[1], payload, learn_task, out);
  return true;
}

void SchedPrinter::learn_state(std::span<const std::byte> payload, std::string_view text) {
  if (tasks_.size() != 2 || payload.size() < reach_ || states_.size() >= kMaxStates) return;
  // Behind the first task's own text, whose name may have an arrow in it.
  std::string before;
  print_task(tasks_[0], payload, [](int, std::string_view) {}, before);
  before += ' ';
  if (!text.starts_with(before)) return;
  text.remove_prefix(before.size());
  const std::size_t end = text.find(kArrow);
  if (end != std::string_view::npos)
    states_.emplace(number(detail_, payload), std::string(text.substr(0, end)));
}

}  // namespace vtrace
