// The agent's own tracefs instance: made, set up, switched and removed through libtracefs.
#pragma once

#include <sys/types.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/messages.h"
#include "common/result.h"
#include "guest-agent/tracefs.h"

struct tracefs_instance;

namespace vtrace {

// Says between two settings whether to give up (the agent is to end).
using Cancelled = std::function<bool()>;

// Are the settings such as this kernel knows? Looks at names only: makes and changes nothing. What
// only the kernel can judge (a filter's text, a size) is left to TraceInstance::configure.
[[nodiscard]] Status check_settings(const Tracefs& tracefs, const Configure& settings);

// "error: Field not found" of the last entry of an error_log, with the command it speaks of, on one
// line; empty when there is none. Pure.
[[nodiscard]] std::string error_log_line(std::string_view last_entry);

// Owns the instance: the destructor removes it, best effort. Used by one thread.
class TraceInstance {
 public:
  // Makes it anew: one of that name left by a killed agent is removed first. Tracing is off.
  [[nodiscard]] static Result<TraceInstance> create(const Tracefs& tracefs, std::string name);
  // Removes an instance that a killed agent left; true when there was one.
  [[nodiscard]] static Result<bool> remove_leftover(const Tracefs& tracefs,
                                                    const std::string& name);

  TraceInstance(TraceInstance&& other) noexcept;
  TraceInstance& operator=(TraceInstance&& other) noexcept;
  TraceInstance(const TraceInstance&) = delete;
  TraceInstance& operator=(const TraceInstance&) = delete;
  ~TraceInstance();

  // Applies the settings, which check_settings has passed. An error carries the kernel's own
  // message where it has one; the instance is of no use then.
  [[nodiscard]] Status configure(const Configure& settings, const Cancelled& cancelled);
  [[nodiscard]] Status set_tracing(bool on);
  // Keeps these threads' events out where the kernel can; a kernel that cannot is no error.
  void keep_out(std::span<const pid_t> threads);
  // Fails with EBUSY while somebody has a file of its ring buffer open; may be tried again.
  [[nodiscard]] Status remove();

  [[nodiscard]] TraceBuffer buffer() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  TraceInstance(std::string root, std::string name, tracefs_instance* handle)
      : root_(std::move(root)), name_(std::move(name)), handle_(handle) {}

  Status write(const std::string& file, const std::string& text);
  Status write_event(const EventSpec& event, const std::string& file, const std::string& text);
  Status enable(const EventSpec& event);
  Status set_wake_level();
  std::string kernel_message();

  std::string root_;
  std::string name_;
  tracefs_instance* handle_ = nullptr;
  bool has_tracer_ = false;
};

}  // namespace vtrace
