#include "guest-agent/trace_instance.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

#include "guest-agent/tracefs_shim.h"

namespace vtrace {
namespace {

// Wakes a recorder when this part of the ring buffer is filled. Early enough that a scheduling
// delay does not let it run over, late enough that a wake-up moves many sub-buffers.
constexpr std::uint64_t kWakePercent = 25;
// The names of that many tasks are kept, so that a report can tell who a pid was. The kernel's own
// 128 run out within a second of a busy guest. Global to tracefs and left so: putting it back would
// drop the names.
constexpr std::uint64_t kSavedCmdlines = 16384;

Status check_removed(int status, const std::string& name) {
  if (status == 0) return {};
  if (-status == EBUSY) {
    return fail(fmt::format("instance {}: in use: another program has its ring buffer open", name));
  }
  return fail_errno(fmt::format("instance {}: removing it", name), -status);
}

}  // namespace

TraceInstance::TraceInstance(TraceInstance&& other) noexcept
    : root_(std::move(other.root_)),
      name_(std::move(other.name_)),
      handle_(std::exchange(other.handle_, nullptr)),
      has_tracer_(other.has_tracer_) {}

TraceInstance& TraceInstance::operator=(TraceInstance&& other) noexcept {
  if (this != &other) {
    if (handle_ != nullptr) (void)remove();
    if (handle_ != nullptr) vtrace_instance_free(handle_);
    root_ = std::move(other.root_);
    name_ = std::move(other.name_);
    handle_ = std::exchange(other.handle_, nullptr);
    has_tracer_ = other.has_tracer_;
  }
  return *this;
}

TraceInstance::~TraceInstance() {
  if (handle_ == nullptr) return;
  (void)remove();
  if (handle_ != nullptr) vtrace_instance_free(handle_);
}

Result<TraceInstance> TraceInstance::create(const Tracefs& tracefs, std::string name) {
  VTRACE_TRY(const bool leftover, remove_leftover(tracefs, name));
  (void)leftover;
  tracefs_instance* handle = nullptr;
  int is_new = 0;
  const int status = vtrace_instance_create(tracefs.root().c_str(), name.c_str(), &handle, &is_new);
  if (status != 0)
    return fail_errno(fmt::format("{}/instances/{}: making it", tracefs.root(), name), -status);
  TraceInstance instance(tracefs.root(), std::move(name), handle);
  // An instance starts with tracing on.
  VTRACE_CHECK(instance.set_tracing(false));
  return instance;
}

Result<bool> TraceInstance::remove_leftover(const Tracefs& tracefs, const std::string& name) {
  if (!tracefs.exists("instances/" + name)) return false;
  tracefs_instance* handle = nullptr;
  int is_new = 0;
  const int status = vtrace_instance_create(tracefs.root().c_str(), name.c_str(), &handle, &is_new);
  if (status != 0) return fail_errno(fmt::format("{}/instances/{}", tracefs.root(), name), -status);
  TraceInstance leftover(tracefs.root(), name, handle);
  (void)leftover.set_tracing(false);
  VTRACE_CHECK(leftover.remove());
  return true;
}

Status TraceInstance::remove() {
  if (handle_ == nullptr) return {};
  (void)set_tracing(false);
  VTRACE_CHECK(check_removed(vtrace_instance_destroy(root_.c_str(), handle_), name_));
  vtrace_instance_free(std::exchange(handle_, nullptr));
  return {};
}

TraceBuffer TraceInstance::buffer() const {
  return {root_ + "/instances/" + name_, name_};
}

Status TraceInstance::set_tracing(bool on) {
  // The library takes no instance for the top level, which is not ours to switch.
  if (handle_ == nullptr) return fail(fmt::format("instance {}: it was removed", name_));
  const int status = vtrace_instance_tracing(root_.c_str(), handle_, on ? 1 : 0);
  if (status != 0) return fail_errno(buffer().path("tracing_on"), -status);
  return {};
}

Status TraceInstance::configure(const Configure& settings, const Cancelled& cancelled) {
  // The clock first: changing it empties the buffer.
  if (!settings.clock.empty()) VTRACE_CHECK(write("trace_clock", settings.clock));
  if (settings.buffer_bytes > 0) {
    const std::uint64_t kilobytes =
        std::max<std::uint64_t>(1, (settings.buffer_bytes + 1023) / 1024);
    if (const auto sized = write("buffer_size_kb", fmt::format("{}", kilobytes)); !sized) {
      return add_context(sized.error(),
                         fmt::format("a ring buffer of {} KiB for each CPU", kilobytes));
    }
  }
  VTRACE_CHECK(set_wake_level());
  const auto kept = read_file(root_ + "/saved_cmdlines_size");
  if (kept && std::strtoull(kept->c_str(), nullptr, 10) < kSavedCmdlines)
    (void)write_kernel_file(root_ + "/saved_cmdlines_size", fmt::format("{}", kSavedCmdlines));
  if (!settings.tracer.empty()) {
    VTRACE_CHECK(write("current_tracer", settings.tracer));
    has_tracer_ = settings.tracer != "nop";
  }
  for (const EventSpec& event : settings.events) {
    if (cancelled && cancelled()) return fail("interrupted", ErrorKind::interrupted);
    VTRACE_CHECK(enable(event));
  }
  return {};
}

Status TraceInstance::enable(const EventSpec& event) {
  const bool pattern = event.event.find_first_of("*?[") != std::string::npos;
  if (!pattern) {
    // The filter first: an event that is on must not pass a moment unfiltered.
    if (!event.filter.empty()) VTRACE_CHECK(write_event(event, "filter", event.filter));
    return write_event(event, "enable", "1");
  }
  VTRACE_TRY(const Tracefs tracefs,
             Tracefs::find({.roots = {root_}, .mounts = "", .lockdown = ""}));
  for (const std::string& name : tracefs.list_directories("events/" + event.system)) {
    if (::fnmatch(event.event.c_str(), name.c_str(), 0) != 0) continue;
    VTRACE_CHECK(enable({event.system, name, event.filter}));
  }
  return {};
}

// poll(2) on trace_pipe_raw is ready when buffer_percent of the buffer is filled, counting the
// sub-buffer that is being written, which splice does not give. So the level must be two
// sub-buffers at least, or poll would always be ready.
Status TraceInstance::set_wake_level() {
  const TraceBuffer here = buffer();
  std::uint64_t subbufs = 0;
  if (const auto layout = here.layout(); layout) {
    const auto cpus = here.cpus();
    if (cpus && !cpus->empty()) subbufs = here.bytes_per_cpu(cpus->front()) / layout->size();
  }
  const std::uint64_t least = subbufs == 0 ? kWakePercent : (200 + subbufs - 1) / subbufs;
  const std::uint64_t percent = std::clamp<std::uint64_t>(least, kWakePercent, 100);
  // Kernels before 5.0 have no such file and wake at the first whole sub-buffer.
  if (::access(here.path("buffer_percent").c_str(), W_OK) != 0) return {};
  return write("buffer_percent", fmt::format("{}", percent));
}

void TraceInstance::keep_out(std::span<const pid_t> threads) {
  for (const pid_t thread : threads) {
    // Appended, since the files are opened without O_TRUNC.
    const std::string id = fmt::format("{}", thread);
    (void)write_kernel_file(buffer().path("set_event_notrace_pid"), id);
    // Costs a probe at each task switch, so only where a tracer makes use of it.
    if (has_tracer_) (void)write_kernel_file(buffer().path("set_ftrace_notrace_pid"), id);
  }
}

Status TraceInstance::write(const std::string& file, const std::string& text) {
  (void)vtrace_error_clear(root_.c_str(), handle_);
  const int status = vtrace_instance_write(root_.c_str(), handle_, file.c_str(), text.c_str());
  if (status == 0) return {};
  const std::string message = kernel_message();
  if (!message.empty()) return fail(fmt::format("{} refused as {}: {}", text, file, message));
  return fail_errno(fmt::format("{} refused as {}", text, file), -status);
}

Status TraceInstance::write_event(const EventSpec& event, const std::string& file,
                                  const std::string& text) {
  (void)vtrace_error_clear(root_.c_str(), handle_);
  const std::string directory =
      event.event.empty() ? event.system : fmt::format("{}/{}", event.system, event.event);
  const int status = vtrace_instance_write(
      root_.c_str(), handle_, fmt::format("events/{}/{}", directory, file).c_str(), text.c_str());
  if (status == 0) return {};
  const std::string where =
      event.event.empty() ? event.system : fmt::format("{}:{}", event.system, event.event);
  const std::string what = file == "filter" ? fmt::format("filter \"{}\" of event {}", text, where)
                                            : fmt::format("event {}", where);
  const std::string message = kernel_message();
  if (!message.empty()) return fail(fmt::format("{} refused: {}", what, message));
  return fail_errno(fmt::format("{} refused", what), -status);
}

std::string TraceInstance::kernel_message() {
  const std::unique_ptr<char, decltype(&std::free)> last(vtrace_error_last(root_.c_str(), handle_),
                                                         &std::free);
  return last ? error_log_line(last.get()) : std::string();
}

}  // namespace vtrace
