#include "tests/support/trace_dat_v7.h"

#include <zstd.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace vtrace::test {
namespace {

using namespace std::string_view_literals;

Bytes compressed(std::span<const std::byte> bytes) {
  Bytes out(ZSTD_compressBound(bytes.size()));
  const std::size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  if (ZSTD_isError(size) != 0) throw std::runtime_error("zstd");
  out.resize(size);
  return out;
}

void put_counted(ByteWriter& out, std::string_view text) {
  out.u64(text.size());
  out.raw(text);
}

Bytes format_body(const Metadata& metadata, bool of_ftrace) {
  std::map<std::string, std::vector<const EventFormat*>> systems;
  for (const EventFormat& format : metadata.formats) {
    if ((format.system == "ftrace") == of_ftrace) systems[format.system].push_back(&format);
  }
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(of_ftrace ? systems["ftrace"].size() : systems.size()));
  for (const auto& [system, formats] : systems) {
    if (!of_ftrace) {
      out.raw(system);
      out.u8(0);
      out.u32(static_cast<std::uint32_t>(formats.size()));
    }
    for (const EventFormat* format : formats) put_counted(out, format->text);
  }
  return out.take();
}

class Builder {
 public:
  explicit Builder(const V7File& file) : file_(file) {}

  Bytes build() {
    out_.raw("\x17\x08\x44tracing7\0"sv);
    out_.u8(0);
    out_.u8(8);
    out_.u32(file_.page_size);
    out_.raw(file_.zstd ? "zstd\0"sv : "none\0"sv);
    out_.raw(file_.zstd ? "1.5\0"sv : "\0"sv);
    const std::size_t first_options = out_.size();
    out_.u64(0);
    metadata_sections();
    option(99, as_bytes("an option that nobody knows"));
    std::string clock = file_.metadata.trace_clock;
    option(4, as_bytes(std::string_view(clock.c_str(), clock.size() + 1)));
    // Two tables: the buffers are in the second.
    const std::size_t first = out_.size();
    const std::size_t link = write_options();
    for (const V7Buffer& buffer : file_.buffers) add_buffer(buffer);
    const std::size_t second = out_.size();
    write_options();
    Bytes bytes = out_.take();
    patch(bytes, first_options, first);
    patch(bytes, link, second);
    return bytes;
  }

 private:
  static void patch(Bytes& bytes, std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  }

  void section_header(std::uint16_t id, bool zstd, std::uint64_t size) {
    out_.u16(id);
    out_.u16(zstd ? 1 : 0);
    out_.u32(0xffffffff);
    out_.u64(size);
  }

  void section(std::uint16_t id, const Bytes& body) {
    ByteWriter where;
    where.u64(out_.size());
    option(id, where.bytes());
    if (!file_.zstd) {
      section_header(id, false, body.size());
      out_.raw(body);
      return;
    }
    const Bytes packed = compressed(body);
    section_header(id, true, packed.size() + 8);
    out_.u32(static_cast<std::uint32_t>(packed.size()));
    out_.u32(static_cast<std::uint32_t>(body.size()));
    out_.raw(packed);
  }

  void metadata_sections() {
    const Metadata& metadata = file_.metadata;
    ByteWriter head;
    head.raw("header_page\0"sv);
    put_counted(head, metadata.header_page);
    head.raw("header_event\0"sv);
    put_counted(head, metadata.header_event);
    section(16, head.take());
    section(17, format_body(metadata, true));
    section(18, format_body(metadata, false));
    ByteWriter kallsyms;
    kallsyms.text(metadata.kallsyms);
    section(19, kallsyms.take());
    ByteWriter printk;
    printk.text(metadata.printk_formats);
    section(20, printk.take());
    ByteWriter cmdlines;
    put_counted(cmdlines, metadata.saved_cmdlines);
    section(21, cmdlines.take());
  }

  void option(std::uint16_t id, std::span<const std::byte> payload) {
    options_.u16(id);
    options_.u32(static_cast<std::uint32_t>(payload.size()));
    options_.raw(payload);
  }

  // Returns where the next table's offset is to be put.
  std::size_t write_options() {
    option(0, Bytes(8));
    const Bytes body = options_.take();
    options_ = ByteWriter();
    section_header(0, false, body.size());
    out_.raw(body);
    return out_.size() - 8;
  }

  void align(std::uint32_t to) {
    while (out_.size() % to != 0) out_.u8(0);
  }

  void add_buffer(const V7Buffer& buffer) {
    ByteWriter entry;
    entry.u64(out_.size());
    entry.raw(buffer.name);
    entry.u8(0);
    entry.raw("local\0"sv);
    entry.u32(buffer.subbuf_size);
    entry.u32(static_cast<std::uint32_t>(buffer.cpus.size()));
    section_header(3, file_.zstd, 0);
    for (const V7Cpu& cpu : buffer.cpus) {
      align(buffer.subbuf_size);
      const std::size_t start = out_.size();
      file_.zstd ? put_chunks(buffer, cpu.data) : out_.raw(cpu.data);
      entry.u32(cpu.cpu);
      entry.u64(start);
      entry.u64(out_.size() - start);
    }
    option(3, entry.bytes());
  }

  void put_chunks(const V7Buffer& buffer, std::span<const std::byte> data) {
    const std::size_t chunk = std::size_t{file_.subbufs_in_chunk} * buffer.subbuf_size;
    out_.u32(static_cast<std::uint32_t>((data.size() + chunk - 1) / chunk));
    while (!data.empty()) {
      const auto part = data.first(std::min(chunk, data.size()));
      const Bytes packed = compressed(part);
      out_.u32(static_cast<std::uint32_t>(packed.size()));
      out_.u32(static_cast<std::uint32_t>(part.size()));
      out_.raw(packed);
      data = data.subspan(part.size());
    }
  }

  const V7File& file_;
  ByteWriter out_;
  ByteWriter options_;
};

}  // namespace

Bytes make_v7(const V7File& file) {
  return Builder(file).build();
}

}  // namespace vtrace::test
