#include "host-cli/trace_dat_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>

#include "common/cpu_list.h"
#include "common/subbuffer.h"
#include "common/wire.h"
#include "host-cli/file_copy.h"
#include "host-cli/time_correction.h"
#include "host-cli/trace_dat_format.h"

namespace vtrace {
namespace {

using trace_dat::OptionId;

constexpr std::uint8_t kLittleEndian = 0;
constexpr std::size_t kFlushAt = 256U << 10U;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Status check_sources(std::span<const CpuSource> sources, std::uint32_t subbuf_size) {
  std::vector<bool> seen(kMaxCpuNumber + 1);
  for (const CpuSource& source : sources) {
    if (source.cpu < 0 || source.cpu > kMaxCpuNumber)
      return fail(fmt::format("CPU {} cannot be written to a trace.dat", source.cpu));
    if (seen[static_cast<std::size_t>(source.cpu)])
      return fail(fmt::format("CPU {} was given to the trace.dat twice", source.cpu));
    seen[static_cast<std::size_t>(source.cpu)] = true;
    if (source.size % subbuf_size != 0) {
      return fail(fmt::format("CPU {}: {} bytes of data are not whole sub-buffers of {} bytes",
                              source.cpu, source.size, subbuf_size));
    }
  }
  return {};
}

// Appends to the file through a buffer of bounded size; big pieces go straight.
class HeadWriter {
 public:
  HeadWriter(int fd, std::string_view shown) : fd_(fd), shown_(shown) {}

  ByteWriter& small() { return buffer_; }
  [[nodiscard]] std::uint64_t offset() const { return written_ + buffer_.size(); }

  Status text(std::string_view text) {
    if (buffer_.size() + text.size() <= kFlushAt) {
      buffer_.raw(text);
      return {};
    }
    VTRACE_CHECK(flush());
    written_ += text.size();
    return write_all(fd_, text, shown_);
  }
  // u64 length, then the text.
  Status counted(std::string_view body) {
    buffer_.u64(body.size());
    return text(body);
  }
  Status flush() {
    const Bytes bytes = buffer_.take();
    buffer_ = ByteWriter();
    written_ += bytes.size();
    return write_all(fd_, bytes, shown_);
  }

 private:
  int fd_;
  std::string_view shown_;
  ByteWriter buffer_;
  std::uint64_t written_ = 0;
};

Status put_format_list(HeadWriter& out, const std::vector<const EventFormat*>& formats) {
  out.small().u32(static_cast<std::uint32_t>(formats.size()));
  for (const EventFormat* format : formats) VTRACE_CHECK(out.counted(format->text));
  return {};
}

Status put_formats(HeadWriter& out, const std::vector<EventFormat>& formats) {
  std::map<std::string_view, std::vector<const EventFormat*>> systems;
  for (const EventFormat& format : formats) systems[format.system].push_back(&format);
  VTRACE_CHECK(put_format_list(out, systems["ftrace"]));
  systems.erase("ftrace");
  out.small().u32(static_cast<std::uint32_t>(systems.size()));
  for (const auto& [system, members] : systems) {
    out.small().raw(system);
    out.small().u8(0);
    VTRACE_CHECK(put_format_list(out, members));
  }
  return {};
}

// u32 length, then the text.
Status put_u32_counted(HeadWriter& out, std::string_view what, std::string_view body) {
  if (body.size() > UINT32_MAX)
    return fail(fmt::format("{}: {} bytes do not fit into a trace.dat", what, body.size()));
  out.small().u32(static_cast<std::uint32_t>(body.size()));
  return out.text(body);
}

Status put_metadata(HeadWriter& out, const Metadata& metadata, const SubbufLayout& layout) {
  out.small().raw(trace_dat::kMagic);
  out.small().raw(std::string_view("6\0", 2));
  out.small().u8(kLittleEndian);
  out.small().u8(static_cast<std::uint8_t>(layout.commit_size));
  out.small().u32(layout.size());
  out.small().raw(trace_dat::kHeaderPageTag);
  VTRACE_CHECK(out.counted(metadata.header_page));
  out.small().raw(trace_dat::kHeaderEventTag);
  VTRACE_CHECK(out.counted(metadata.header_event));
  VTRACE_CHECK(put_formats(out, metadata.formats));
  VTRACE_CHECK(put_u32_counted(out, "kallsyms", metadata.kallsyms));
  VTRACE_CHECK(put_u32_counted(out, "printk_formats", metadata.printk_formats));
  return out.counted(metadata.saved_cmdlines);
}

void put_option(ByteWriter& out, OptionId id, std::span<const std::byte> payload) {
  out.u16(static_cast<std::uint16_t>(id));
  out.u32(static_cast<std::uint32_t>(payload.size()));
  out.raw(payload);
}

void put_text_option(ByteWriter& out, OptionId id, const std::string& text) {
  put_option(out, id, std::as_bytes(std::span(text.c_str(), text.size() + 1)));
}

void put_options(ByteWriter& out, const Metadata& metadata, const TraceDatExtras& extras) {
  out.raw(trace_dat::kOptionsTag);
  for (const auto& [cpu, text] : extras.cpu_stats)
    put_text_option(out, OptionId::cpu_stat, fmt::format("CPU: {}\n{}", cpu, text));
  if (!metadata.trace_clock.empty())
    put_text_option(out, OptionId::trace_clock, metadata.trace_clock);
  if (!metadata.kernel_release.empty()) {
    put_text_option(out, OptionId::uname,
                    fmt::format("{} {} {} {}", metadata.sysname, metadata.nodename,
                                metadata.kernel_release, metadata.machine));
  }
  put_text_option(out, OptionId::version, extras.writer);
  if (extras.trace_id != 0) {
    ByteWriter id;
    id.u64(extras.trace_id);
    put_option(out, OptionId::trace_id, id.bytes());
  }
  for (const TraceDatOption& option : extras.options)
    put_option(out, static_cast<OptionId>(option.id), option.payload);
  out.u16(static_cast<std::uint16_t>(OptionId::done));
}

// Where each CPU's data goes. The table is by position, so CPUs that are missing have a place too.
struct DataPlan {
  struct Place {
    std::uint64_t offset = 0;
    const CpuSource* source = nullptr;
  };
  std::vector<Place> places;
  std::uint64_t file_size = 0;
  std::uint64_t data_size = 0;
};

DataPlan plan_data(std::span<const CpuSource> sources, std::uint64_t head_size,
                   std::uint32_t subbuf_size) {
  DataPlan plan;
  plan.places.resize(1);  // readers want at least one CPU
  for (const CpuSource& source : sources) {
    const auto at = static_cast<std::size_t>(source.cpu);
    if (at >= plan.places.size()) plan.places.resize(at + 1);
    plan.places[at].source = &source;
  }
  constexpr std::uint64_t kTableEntry = 16;
  plan.file_size = round_up(head_size + plan.places.size() * kTableEntry, subbuf_size);
  for (DataPlan::Place& place : plan.places) {
    place.offset = plan.file_size;
    if (place.source == nullptr) continue;
    plan.file_size += place.source->size;
    plan.data_size += place.source->size;
  }
  return plan;
}

std::size_t cpu_entries(std::span<const CpuSource> sources) {
  int highest = 0;
  for (const CpuSource& source : sources) highest = std::max(highest, source.cpu);
  return static_cast<std::size_t>(highest) + 1;
}

// Asks for the room before anything is moved: a disk that is too small is found out at once.
Status reserve(int fd, std::uint64_t size, std::string_view shown) {
  if (::fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0) return {};
  if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return {};  // cannot be reserved here
  const int error = errno;
  struct statvfs room{};
  std::string have;
  if (::fstatvfs(fd, &room) == 0)
    have = fmt::format(", {} are free", static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize);
  auto failed = fail_errno(shown, error);
  failed.error().message +=
      fmt::format(": {} bytes are needed{}; make room or write to another disk", size, have);
  return failed;
}

// A new file takes the mode of the one that it replaces, else what the umask leaves.
mode_t output_mode(const struct stat* existing) {
  if (existing != nullptr) return existing->st_mode & 0777U;
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return 0666U & ~mask;
}

}  // namespace

Result<TraceDatWriter> TraceDatWriter::create(const std::string& path) {
  if (path.empty()) return fail("the output's name is empty", ErrorKind::usage);
  std::string final_path = path;
  struct stat now{};
  const bool exists = ::lstat(path.c_str(), &now) == 0;
  if (!exists && errno != ENOENT) return fail_errno(path, errno);
  if (exists && S_ISLNK(now.st_mode)) {
    std::error_code error;
    final_path = std::filesystem::canonical(path, error).string();
    if (error) return fail(path + ": is a symlink that leads nowhere; name another output");
    if (::stat(final_path.c_str(), &now) != 0) return fail_errno(final_path, errno);
  }
  if (exists && S_ISDIR(now.st_mode))
    return fail(path + ": is a directory; name a file in it as the output");
  if (exists && !S_ISREG(now.st_mode))
    return fail(path + ": is no regular file; a trace.dat cannot be written to it");
  if (exists && ::access(final_path.c_str(), W_OK) != 0) return fail_errno(path, errno);

  std::string temporary = final_path + ".partial-XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) {
    return fail_errno(fmt::format("{}: cannot make a file beside it", path), errno);
  }
  TraceDatWriter writer(std::move(final_path), std::move(temporary), Fd(fd));
  if (::fchmod(fd, output_mode(exists ? &now : nullptr)) != 0) return fail_errno(path, errno);
  return writer;
}

TraceDatWriter::TraceDatWriter(TraceDatWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)) {}

TraceDatWriter::~TraceDatWriter() {
  discard();
}

void TraceDatWriter::discard() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  fd_.reset();
}

Status TraceDatWriter::write(const Metadata& metadata, const TraceDatExtras& extras,
                             std::span<const CpuSource> sources, const WriteProgress& progress) {
  if (!fd_) return fail(path_ + ": is written already");
  auto layout = parse_header_page(metadata.header_page);
  if (!layout) return add_context(layout.error(), path_ + ": cannot be written");
  if (auto good = check_sources(sources, layout->size()); !good)
    return add_context(good.error(), path_);

  HeadWriter head(fd_.get(), path_);
  VTRACE_CHECK(put_metadata(head, metadata, *layout));
  head.small().u32(static_cast<std::uint32_t>(cpu_entries(sources)));
  put_options(head.small(), metadata, extras);
  head.small().raw(trace_dat::kFlyrecordTag);
  const std::string clock = fmt::format("[{}]", current_clock(metadata.trace_clock));
  const DataPlan plan =
      plan_data(sources, head.offset() + sizeof(std::uint64_t) + clock.size(), layout->size());
  for (const DataPlan::Place& place : plan.places) {
    head.small().u64(place.offset);
    head.small().u64(place.source == nullptr ? 0 : place.source->size);
  }
  VTRACE_CHECK(head.counted(clock));
  VTRACE_CHECK(head.flush());
  VTRACE_CHECK(reserve(fd_.get(), plan.file_size, path_));
  // Where no room could be reserved the file still gets its length.
  if (::ftruncate(fd_.get(), static_cast<off_t>(plan.file_size)) != 0)
    return fail_errno(path_, errno);

  std::uint64_t done = 0;
  const auto step = [&](std::uint64_t bytes) {
    done += bytes;
    return !progress || progress(done, plan.data_size);
  };
  for (const DataPlan::Place& place : plan.places) {
    if (place.source == nullptr) continue;
    const CpuSource& source = *place.source;
    VTRACE_CHECK(copy_range({source.fd, source.offset, source.size}, fd_.get(), place.offset,
                            fmt::format("data of CPU {}", source.cpu), path_, step));
  }
  // The recording's only other copy may be removed next, so this one has to be on the disk; a
  // write that was only put off until now fails here.
  if (::fsync(fd_.get()) != 0) return fail_errno(path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail_errno(path_, errno);
  temporary_.clear();
  fd_.reset();
  return {};
}

}  // namespace vtrace
