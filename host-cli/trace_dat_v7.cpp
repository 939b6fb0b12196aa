// Version 7 of trace.dat: sections that are found through chained tables of options.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/cpu_list.h"
#include "host-cli/trace_dat_format.h"
#include "host-cli/trace_dat_metadata.h"

namespace vtrace::trace_dat {
namespace {

struct SectionHeader {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint64_t size = 0;
  std::uint64_t payload = 0;  // offset of what follows the header
};

class Version7 {
 public:
  Version7(int fd, std::uint64_t file_size, const std::string& shown, TraceDatInfo& info)
      : fd_(fd), file_size_(file_size), shown_(shown), info_(info) {}

  Status read_all(std::uint64_t first_options) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t at = first_options; at != 0;) {
      if (!seen.insert(at).second || seen.size() > kMaxOptions)
        return fail(fmt::format("{}: at byte {}: the tables of options form a ring", shown_, at));
      VTRACE_TRY(at, read_options(at));
    }
    // The sections' texts come first: a buffer's layout hangs on header_page.
    VTRACE_CHECK(read_sections());
    return read_buffers();
  }

 private:
  FileCursor cursor_at(std::uint64_t offset) const { return {fd_, offset, file_size_, shown_}; }

  Result<SectionHeader> section_at(std::uint64_t offset, OptionId wanted) const {
    FileCursor in = cursor_at(offset);
    SectionHeader header;
    header.id = in.u16();
    header.flags = in.u16();
    in.u32();  // its title
    header.size = in.u64();
    header.payload = in.offset();
    VTRACE_CHECK(in.status());
    if (header.id != static_cast<std::uint16_t>(wanted)) {
      return fail(fmt::format("{}: at byte {}: a section {} where a {} should be", shown_, offset,
                              header.id, static_cast<int>(wanted)));
    }
    return header;
  }

  // The section's content, decompressed where need be.
  Result<FileCursor> open_section(std::uint64_t offset, OptionId id) const {
    VTRACE_TRY(const SectionHeader header, section_at(offset, id));
    FileCursor in = cursor_at(header.payload);
    if ((header.flags & kSectionCompressed) == 0) return in;
    const std::uint32_t stored = in.u32();
    const std::uint32_t content = in.u32();
    if (content > kMaxBody + kMaxHeaderText)
      in.fail_here(fmt::format("a section of {} bytes is not believed", content));
    const Bytes frame = in.bytes(stored, kMaxBody, "a compressed section");
    VTRACE_CHECK(in.status());
    Bytes bytes(content);
    VTRACE_CHECK(
        zstd_decompress(frame, bytes, fmt::format("{}: section at byte {}", shown_, offset)));
    return FileCursor(std::move(bytes), header.payload, shown_);
  }

  // Returns the offset of the next table, 0 at the last.
  Result<std::uint64_t> read_options(std::uint64_t offset) {
    VTRACE_TRY(FileCursor in, open_section(offset, OptionId::done));
    for (;;) {
      const std::uint16_t id = in.u16();
      Bytes payload = in.bytes(in.u32(), kMaxOption, "an option");
      VTRACE_CHECK(in.status());
      if (id == static_cast<std::uint16_t>(OptionId::done))
        return payload.size() >= sizeof(std::uint64_t) ? load_u64(payload) : 0;
      option_bytes_ += payload.size();
      if (info_.options.size() >= kMaxOptions || option_bytes_ > kMaxBody)
        return fail(fmt::format("{}: at byte {}: too many options", shown_, in.offset()));
      take_option(info_, id, std::move(payload));
    }
  }

  Status read_sections() {
    using Body = void (*)(FileCursor&, TraceDatInfo&);
    constexpr std::pair<OptionId, Body> kBodies[] = {
        {OptionId::header_info, read_header_info},
        {OptionId::ftrace_formats, read_ftrace_formats},
        {OptionId::event_formats, read_event_formats},
        {OptionId::kallsyms, read_kallsyms},
        {OptionId::printk_formats, read_printk_formats},
        {OptionId::command_lines, read_command_lines},
    };
    for (const auto& [id, body] : kBodies) {
      for (const auto& [option, payload] : info_.options) {
        if (option != static_cast<std::uint16_t>(id)) continue;
        if (payload.size() < sizeof(std::uint64_t))
          return fail(fmt::format("{}: option {} is too short", shown_, option));
        VTRACE_TRY(FileCursor in, open_section(load_u64(payload), id));
        body(in, info_);
        VTRACE_CHECK(in.status());
        break;  // one of a kind
      }
    }
    return {};
  }

  Status read_buffers() {
    for (const auto& [option, payload] : info_.options) {
      if (option == static_cast<std::uint16_t>(OptionId::buffer))
        VTRACE_CHECK(read_buffer(payload));
      if (option == static_cast<std::uint16_t>(OptionId::buffer_text))
        info_.notes.emplace_back("a buffer holds text of a latency tracer, which is not shown");
    }
    return {};
  }

  Status read_buffer(const Bytes& payload) {
    FileCursor in(payload, 0, shown_ + ": a buffer's option");
    const std::uint64_t offset = in.u64();
    TraceDatBuffer buffer;
    buffer.name = in.z_string(kMaxName, "a buffer's name");
    buffer.clock = in.z_string(kMaxName, "a clock's name");
    std::uint32_t subbuf_size = in.u32();
    const std::uint32_t cpus = in.u32();
    VTRACE_CHECK(in.status());
    VTRACE_TRY(const SectionHeader header, section_at(offset, OptionId::buffer));
    buffer.compressed = (header.flags & kSectionCompressed) != 0;
    // Readers take the initial header's word for the top-level buffer.
    if (buffer.name.empty()) subbuf_size = info_.page_size;
    auto layout = layout_of_size(info_, subbuf_size);
    if (!layout) return add_context(layout.error(), shown_);
    buffer.layout = *layout;
    for (std::uint32_t i = 0; i < cpus && in.ok(); ++i) {
      const std::uint32_t number = in.u32();
      const std::uint64_t data = in.u64();
      const std::uint64_t size = in.u64();
      if (in.ok() && number > static_cast<std::uint32_t>(kMaxCpuNumber))
        in.fail_here(fmt::format("CPU {} is not believed", number));
      if (in.ok()) add_cpu(info_, buffer, {static_cast<int>(number), data, size}, file_size_);
    }
    VTRACE_CHECK(in.status());
    info_.buffers.push_back(std::move(buffer));
    return {};
  }

  int fd_;
  std::uint64_t file_size_;
  const std::string& shown_;
  TraceDatInfo& info_;
  std::uint64_t option_bytes_ = 0;
};

}  // namespace

void read_version_7(FileCursor& in, int fd, std::uint64_t file_size, const std::string& shown,
                    TraceDatInfo& info) {
  info.compression = in.z_string(kMaxName, "the compression's name");
  in.z_string(kMaxName, "the compression's version");
  const std::uint64_t first_options = in.u64();
  if (in.ok() && info.compression != "none" && info.compression != "zstd") {
    in.fail_here(
        fmt::format("compressed with {}, which is not understood here; trace-cmd convert "
                    "makes a file without it",
                    info.compression));
  }
  if (!in.ok()) return;
  if (auto good = Version7(fd, file_size, shown, info).read_all(first_options); !good)
    in.take_error(std::move(good.error()));
}

}  // namespace vtrace::trace_dat
