// The text of the scheduler's two most frequent events as libtraceevent's plugin has it. Pure.
//   sched_switch:  worker:77 [120] S ==> swapper/1:0 [120]
//   sched_wakeup:  worker:77 [120] CPU:001
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host-cli/print_program.h"
#include "host-cli/record_check.h"

namespace vtrace {

class SchedPrinter {
 public:
  // Hears of each task that a record names.
  using LearnTask = std::function<void(int pid, std::string_view comm)>;

  // Nothing for events that are not these, or have other fields.
  [[nodiscard]] static std::optional<SchedPrinter> create(std::string_view event,
                                                          const std::vector<FieldPlace>& fields);

  // Appends the record's text; false, and nothing appended, where it has to be done otherwise: the
  // words for task states are not known here, but learned.
  [[nodiscard]] bool print(std::span<const std::byte> payload, const LearnTask& learn_task,
                           std::string& out) const;
  // Takes the word for this record's task state from its text.
  void learn_state(std::span<const std::byte> payload, std::string_view text);

 private:
  struct Task {
    FieldPlace comm, pid, prio;
    NumberFormat prio_format;
  };
  static bool find_task(const std::vector<FieldPlace>& fields, const std::string& prefix,
                        Task& task);
  static void print_task(const Task& task, std::span<const std::byte> payload,
                         const LearnTask& learn_task, std::string& out);

  std::vector<Task> tasks_;                      // prev and next, or the one that is woken
  FieldPlace detail_;                            // prev_state or target_cpu
  std::map<std::uint64_t, std::string> states_;  // words of prev_state
  std::uint32_t reach_ = 0;
};

}  // namespace vtrace
