#include "host-cli/trace_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "host-cli/trace_dat_format.h"

namespace vtrace {
namespace {

constexpr std::string_view kMetadataName = "metadata";

std::uint64_t number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key)) {
      line.remove_prefix(key.size());
      std::uint64_t value = 0;
      std::from_chars(line.data(), line.data() + line.size(), value);
      return value;
    }
    at = end + 1;
  }
  return 0;
}

// N of "cpuN.raw".
std::optional<int> cpu_of_file_name(std::string_view name) {
  constexpr std::string_view kPrefix = "cpu";
  constexpr std::string_view kSuffix = ".raw";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(name.size(), kSuffix.size()));
  int cpu = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), cpu);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  if (cpu < 0 || cpu > kMaxCpuNumber) return std::nullopt;
  return cpu;
}

// A trace.dat's description of its kernel, or a file of encoded metadata.
Result<Metadata> load_metadata(const std::string& path) {
  VTRACE_TRY(Fd fd, open_fd(path, O_RDONLY | O_NONBLOCK));
  struct stat now{};
  if (::fstat(fd.get(), &now) != 0) return fail_errno(path, errno);
  if (!S_ISREG(now.st_mode))
    return fail(path + ": is no regular file; name a trace.dat or a capture's metadata file");
  std::string magic(trace_dat::kMagic.size(), '\0');
  const auto start = std::as_writable_bytes(std::span(magic));
  if (read_exactly(fd.get(), 0, start, path) && magic == trace_dat::kMagic) {
    VTRACE_TRY(TraceDatReader reader, TraceDatReader::open(std::move(fd), path));
    return std::move(reader.info().metadata);
  }
  VTRACE_TRY(const std::string text, read_to_end(fd.get(), path));
  auto metadata = decode_metadata(as_bytes(text));
  if (!metadata) return add_context(metadata.error(), path);
  return metadata;
}

}  // namespace

std::pair<int, KernelStats> parse_cpu_stat(const std::string& text) {
  const std::string_view view = text;
  const int cpu =
      view.starts_with("CPU: ") ? static_cast<int>(number_after(view, "CPU: ") & 0xffffU) : -1;
  return {cpu,
          {.entries = number_after(view, "entries: "),
           .overrun = number_after(view, "overrun: "),
           .commit_overrun = number_after(view, "commit overrun: "),
           .dropped_events = number_after(view, "dropped events: "),
           .read_events = number_after(view, "read events: ")}};
}

Result<TraceInput> TraceInput::open(const std::string& path, const TraceInputOptions& options) {
  TraceInput input;
  input.path_ = path;
  struct stat now{};
  if (::stat(path.c_str(), &now) != 0) return fail_errno(path, errno);
  if (S_ISDIR(now.st_mode)) {
    VTRACE_CHECK(input.open_directory(options));
  } else {
    VTRACE_CHECK(input.open_dat(options));
  }
  std::sort(input.cpus_.begin(), input.cpus_.end());
  return input;
}

Status TraceInput::open_dat(const TraceInputOptions& options) {
  VTRACE_TRY(TraceDatReader reader, TraceDatReader::open(path_));
  dat_ = std::make_unique<TraceDatReader>(std::move(reader));
  TraceDatInfo& info = dat_->info();
  const auto found =
      std::find_if(info.buffers.begin(), info.buffers.end(),
                   [&](const TraceDatBuffer& buffer) { return buffer.name == options.buffer; });
  if (found == info.buffers.end()) {
    return fail(fmt::format("{}: has no buffer \"{}\"; it has: {}", path_, options.buffer,
                            fmt::join(other_buffers(), ", ")));
  }
  buffer_ = &*found;
  layout_ = buffer_->layout;
  metadata_ = std::exchange(info.metadata, {});
  if (!options.metadata_from.empty()) {
    VTRACE_TRY(Metadata other, load_metadata(options.metadata_from));
    metadata_.merge(std::move(other));
  }
  clock_ =
      buffer_->clock.empty() ? std::string(current_clock(metadata_.trace_clock)) : buffer_->clock;
  // Corrections that pair a guest with its host are those of the top-level buffer alone.
  auto corrections = info.options;
  if (!buffer_->name.empty()) {
    std::erase_if(corrections, [](const auto& option) {
      return option.first == static_cast<std::uint16_t>(trace_dat::OptionId::time_shift);
    });
  }
  correction_ = TimeCorrection(corrections);
  for (const TraceDatCpu& cpu : buffer_->cpus) cpus_.push_back(cpu.cpu);
  for (const std::string& text : info.cpu_stats) {
    const auto [cpu, stats] = parse_cpu_stat(text);
    if (cpu >= 0 && buffer_->name.empty()) kernel_stats_[cpu] = stats;
  }
  writer_ = info.writer;
  trace_id_ = info.trace_id;
  notes_ = info.notes;
  return {};
}

Status TraceInput::open_raw_files() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    const auto cpu = cpu_of_file_name(entry.path().filename().string());
    if (!cpu) continue;
    RawFile file;
    file.path = entry.path().string();
    VTRACE_TRY(file.fd, open_fd(file.path, O_RDONLY | O_NONBLOCK));
    struct stat now{};
    if (::fstat(file.fd.get(), &now) != 0) return fail_errno(file.path, errno);
    if (!S_ISREG(now.st_mode)) return fail(file.path + ": is no regular file");
    file.size = static_cast<std::uint64_t>(now.st_size);
    cpus_.push_back(*cpu);
    raw_.emplace(*cpu, std::move(file));
  }
  if (error) return fail_errno(path_, error.value());
  if (raw_.empty()) {
    return fail(path_ +
                ": has no cpuN.raw in it; name a trace.dat, or the directory of a raw "
                "capture (collect -o, record --raw)");
  }
  return {};
}

Status TraceInput::open_directory(const TraceInputOptions& options) {
  VTRACE_CHECK(open_raw_files());
  const std::string own = fmt::format("{}/{}", path_, kMetadataName);
  const std::string& from = options.metadata_from.empty() ? own : options.metadata_from;
  auto metadata = load_metadata(from);
  if (!metadata && metadata.error().errno_value == ENOENT && options.metadata_from.empty()) {
    return fail(own +
                ": is not there, and without it the raw data cannot be read; give a trace.dat "
                "or a metadata file of the same guest kernel (--metadata FROM)");
  }
  if (!metadata) return std::unexpected(std::move(metadata.error()));
  metadata_ = std::move(*metadata);
  auto layout = parse_header_page(metadata_.header_page);
  if (!layout) return add_context(layout.error(), from);
  layout_ = *layout;
  clock_ = current_clock(metadata_.trace_clock);
  return {};
}

bool TraceInput::nanoseconds() const {
  return correction_.makes_nanoseconds() || clock_counts_nanoseconds(clock_);
}

std::vector<std::string> TraceInput::other_buffers() const {
  std::vector<std::string> names;
  if (!dat_) return names;
  for (const TraceDatBuffer& buffer : dat_->info().buffers) {
    if (&buffer != buffer_ && !buffer.name.empty()) names.push_back(buffer.name);
  }
  return names;
}

Result<std::vector<CpuInput>> TraceInput::open_cpus(const std::optional<CpuList>& wanted) const {
  const auto is_wanted = [&](int cpu) {
    return !wanted || std::find(wanted->begin(), wanted->end(), cpu) != wanted->end();
  };
  std::vector<CpuInput> inputs;
  if (dat_) {
    for (const TraceDatCpu& cpu : buffer_->cpus) {
      if (!is_wanted(cpu.cpu)) continue;
      VTRACE_TRY(auto source, dat_->source(*buffer_, cpu));
      inputs.push_back({cpu.cpu, std::move(source)});
    }
  }
  for (const auto& [cpu, file] : raw_) {
    if (!is_wanted(cpu)) continue;
    inputs.push_back(
        {cpu, make_plain_source(file.fd.get(), 0, file.size, layout_.size(), file.path)});
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const CpuInput& a, const CpuInput& b) { return a.cpu < b.cpu; });
  return inputs;
}

Result<MergedReader> TraceInput::merged(const std::optional<CpuList>& wanted) const {
  VTRACE_TRY(auto inputs, open_cpus(wanted));
  return MergedReader(layout_, std::move(inputs), &correction_);
}

}  // namespace vtrace
