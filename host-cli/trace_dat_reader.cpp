#include "host-cli/trace_dat_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "common/cpu_list.h"
#include "host-cli/file_cursor.h"
#include "host-cli/trace_dat_format.h"
#include "host-cli/trace_dat_metadata.h"

namespace vtrace {
namespace {

using trace_dat::OptionId;

// Version 6: everything in its place, one behind the other.
class Version6 {
 public:
  Version6(FileCursor& in, int fd, std::uint64_t file_size, const std::string& shown,
           TraceDatInfo& info)
      : in_(in), fd_(fd), file_size_(file_size), shown_(shown), info_(info) {}

  Status read_all() {
    trace_dat::read_header_info(in_, info_);
    trace_dat::read_ftrace_formats(in_, info_);
    trace_dat::read_event_formats(in_, info_);
    trace_dat::read_kallsyms(in_, info_);
    trace_dat::read_printk_formats(in_, info_);
    trace_dat::read_command_lines(in_, info_);
    cpus_ = in_.u32();
    if (in_.ok() && cpus_ > static_cast<std::uint32_t>(kMaxCpuNumber) + 1)
      in_.fail_here(fmt::format("{} CPUs are not believed", cpus_));
    if (in_.ok() && in_.skip_if(trace_dat::kOptionsTag)) read_options();
    VTRACE_CHECK(in_.status());
    VTRACE_CHECK(read_buffer(in_, ""));
    return read_instances();
  }

 private:
  void read_options() {
    std::uint64_t total = 0;
    for (;;) {
      const std::uint16_t id = in_.u16();
      if (!in_.ok() || id == static_cast<std::uint16_t>(OptionId::done)) return;
      Bytes payload = in_.bytes(in_.u32(), trace_dat::kMaxOption, "an option");
      total += payload.size();
      if (info_.options.size() >= trace_dat::kMaxOptions || total > trace_dat::kMaxBody)
        in_.fail_here("too many options");
      if (!in_.ok()) return;
      trace_dat::take_option(info_, id, std::move(payload));
    }
  }

  Status read_buffer(FileCursor& in, const std::string& name) {
    if (in.skip_if(trace_dat::kLatencyTag)) {
      return fail(
          shown_ +
          ": holds the text of a latency tracer, not events; read it with trace-cmd report");
    }
    if (!in.skip_if(trace_dat::kFlyrecordTag))
      in.fail_here("no table of CPU data where it should be");
    VTRACE_CHECK(in.status());
    TraceDatBuffer buffer;
    buffer.name = name;
    auto layout = trace_dat::layout_of_size(info_, info_.page_size);
    if (!layout) return add_context(layout.error(), shown_);
    buffer.layout = *layout;
    for (std::uint32_t cpu = 0; cpu < cpus_; ++cpu) {
      const std::uint64_t offset = in.u64();
      const std::uint64_t size = in.u64();
      VTRACE_CHECK(in.status());
      trace_dat::add_cpu(info_, buffer, {static_cast<int>(cpu), offset, size}, file_size_);
    }
    // Without the option there may be anything here.
    if (has_clock_option())
      buffer.clock = in.text(in.u64(), trace_dat::kMaxName, "the clock's name");
    std::erase_if(buffer.clock, [](char c) { return c == '[' || c == ']'; });
    info_.buffers.push_back(std::move(buffer));
    return in.status();
  }

  [[nodiscard]] bool has_clock_option() const {
    return std::any_of(info_.options.begin(), info_.options.end(), [](const auto& option) {
      return option.first == static_cast<std::uint16_t>(OptionId::trace_clock);
    });
  }

  Status read_instances() {
    for (const auto& [option, payload] : info_.options) {
      if (option != static_cast<std::uint16_t>(OptionId::buffer)) continue;
      FileCursor entry(payload, 0, shown_ + ": a buffer's option");
      const std::uint64_t offset = entry.u64();
      const std::string name = entry.z_string(trace_dat::kMaxName, "a buffer's name");
      VTRACE_CHECK(entry.status());
      FileCursor in(fd_, offset, file_size_, shown_);
      VTRACE_CHECK(read_buffer(in, name));
    }
    return {};
  }

  FileCursor& in_;
  int fd_;
  std::uint64_t file_size_;
  const std::string& shown_;
  TraceDatInfo& info_;
  std::uint32_t cpus_ = 0;
};

Status read_everything(int fd, std::uint64_t file_size, const std::string& shown,
                       TraceDatInfo& info) {
  FileCursor in(fd, 0, file_size, shown);
  if (!in.skip_if(trace_dat::kMagic)) return fail(shown + ": is no trace.dat file");
  const std::string version = in.z_string(trace_dat::kMaxName, "the file's version");
  const std::uint8_t byte_order = in.u8();
  in.u8();  // size of a long: header_page tells it better
  info.page_size = in.u32();
  VTRACE_CHECK(in.status());
  if (version != "6" && version != "7")
    return fail(fmt::format("{}: is of version \"{}\"; 6 and 7 are understood", shown, version));
  info.version = version == "6" ? 6 : 7;
  if (byte_order != 0) {
    return fail(shown +
                ": is of a big-endian machine, which is not understood here; read it with "
                "trace-cmd report");
  }
  if (info.version == 6) return Version6(in, fd, file_size, shown, info).read_all();
  trace_dat::read_version_7(in, fd, file_size, shown, info);
  return in.status();
}

}  // namespace

Result<TraceDatReader> TraceDatReader::open(const std::string& path) {
  // Without O_NONBLOCK a FIFO in the file's place would hold us until it has a writer.
  VTRACE_TRY(Fd fd, open_fd(path, O_RDONLY | O_NONBLOCK));
  return open(std::move(fd), path);
}

Result<TraceDatReader> TraceDatReader::open(Fd fd, std::string shown) {
  struct stat now{};
  if (::fstat(fd.get(), &now) != 0) return fail_errno(shown, errno);
  if (!S_ISREG(now.st_mode)) return fail(shown + ": is no regular file, so it is no trace.dat");
  TraceDatInfo info;
  VTRACE_CHECK(read_everything(fd.get(), static_cast<std::uint64_t>(now.st_size), shown, info));
  const auto top = std::find_if(info.buffers.begin(), info.buffers.end(),
                                [](const TraceDatBuffer& buffer) { return buffer.name.empty(); });
  if (top == info.buffers.end()) {
    auto layout = trace_dat::layout_of_size(info, info.page_size);
    if (!layout) return add_context(layout.error(), shown);
    TraceDatBuffer none;
    none.layout = *layout;
    info.buffers.insert(info.buffers.begin(), std::move(none));
  } else {
    std::rotate(info.buffers.begin(), top, top + 1);
  }
  return TraceDatReader(std::move(fd), std::move(shown), std::move(info));
}

Result<std::unique_ptr<SubbufSource>> TraceDatReader::source(const TraceDatBuffer& buffer,
                                                             const TraceDatCpu& cpu) const {
  if (buffer.compressed)
    return make_zstd_source(fd_.get(), cpu.offset, cpu.size, buffer.layout.size(), shown_);
  return make_plain_source(fd_.get(), cpu.offset, cpu.size, buffer.layout.size(), shown_);
}

}  // namespace vtrace
