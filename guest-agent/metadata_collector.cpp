#include "guest-agent/metadata_collector.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/messages.h"
#include "guest-agent/directories.h"

namespace vtrace {
namespace {

std::unexpected<Error> stopped_early() {
  return fail("interrupted", ErrorKind::interrupted);
}

// read_file, but gives up between two reads: kallsyms of a slow guest takes a second.
Result<std::string> read_slowly(const std::string& path, const std::stop_token& stop) {
  VTRACE_TRY(const Fd fd, open_fd(path, O_RDONLY));
  std::string text;
  std::string piece(1U << 16U, '\0');
  for (;;) {
    if (stop.stop_requested()) return stopped_early();
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(path, errno);
    if (got == 0) return text;
    text.append(piece, 0, static_cast<std::size_t>(got));
  }
}

Status collect_formats(const MetadataWish& wish, const std::stop_token& stop, Metadata& metadata) {
  const std::string events = wish.tracefs + "/events";
  for (const std::string& system : directories_in(events)) {
    for (const std::string& event : directories_in(fmt::format("{}/{}", events, system))) {
      if (stop.stop_requested()) return stopped_early();
      // An event may go away with its module, between the listing and this.
      auto text = read_file(fmt::format("{}/{}/{}/format", events, system, event));
      if (text && !text->empty()) metadata.formats.push_back({system, event, std::move(*text)});
    }
  }
  if (metadata.formats.empty())
    return fail(fmt::format("{}: no event formats can be read there", events));
  metadata.header_page = wish.buffer.header_page;
  metadata.header_event = wish.buffer.header_event;
  return {};
}

// Addresses that kptr_restrict hides read as zeros, and would give every symbol to every address.
bool addresses_hidden(std::string_view kallsyms) {
  for (std::size_t line = 0; line < kallsyms.size();) {
    const std::size_t space = kallsyms.find(' ', line);
    if (space == std::string_view::npos) break;
    // Per-CPU symbols begin at 0 even when nothing is hidden: one other than 0 is enough.
    if (kallsyms.substr(line, space - line).find_first_not_of('0') != std::string_view::npos)
      return false;
    const std::size_t end = kallsyms.find('\n', space);
    if (end == std::string_view::npos) break;
    line = end + 1;
  }
  return true;
}

struct Part {
  std::uint32_t bit;
  std::string path;
  std::string Metadata::* into;
};

Status collect_texts(const MetadataWish& wish, const std::stop_token& stop, Metadata& metadata,
                     std::vector<std::string>& notes) {
  const Part parts[] = {
      {kMetadataKallsyms, wish.places.proc + "/kallsyms", &Metadata::kallsyms},
      {kMetadataTasks, wish.tracefs + "/saved_cmdlines", &Metadata::saved_cmdlines},
      {kMetadataPrintk, wish.tracefs + "/printk_formats", &Metadata::printk_formats},
  };
  for (const Part& part : parts) {
    if ((wish.parts & part.bit) == 0) continue;
    auto text = read_slowly(part.path, stop);
    if (text) {
      metadata.*part.into = std::move(*text);
    } else if (text.error().kind == ErrorKind::interrupted) {
      return std::unexpected(text.error());
    } else {
      notes.push_back(fmt::format("left out: {}", text.error().message));
    }
  }
  if (!metadata.kallsyms.empty() && addresses_hidden(metadata.kallsyms)) {
    metadata.kallsyms.clear();
    notes.push_back(
        fmt::format("left out: {}/kallsyms: its addresses are hidden; set kernel.kptr_restrict=0 "
                    "in the guest",
                    wish.places.proc));
  }
  return {};
}

void add_system(const MetadataWish& wish, Metadata& metadata) {
  const Machine machine = look_at_machine(wish.places);
  metadata.sysname = machine.sysname;
  metadata.nodename = machine.nodename;
  metadata.kernel_release = machine.kernel_release;
  metadata.machine = machine.machine;
  metadata.cpus_possible = machine.cpus_possible;
  metadata.cpus_present = machine.cpus_present;
  metadata.cpus_online = machine.cpus_online;
  metadata.trace_clock = wish.buffer.trace_clock;
}

// The level that costs the guest least; formats and symbols shrink to a tenth with it.
constexpr int kZstdLevel = 1;

Result<Bytes> compress(const Bytes& content, const std::stop_token& stop) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(),
                                                                     &ZSTD_freeCCtx);
  if (!context) return fail("zstd: out of memory");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), content.size());
  constexpr std::size_t kSlice = 1U << 20U;
  Bytes result;
  Bytes piece(ZSTD_CStreamOutSize());
  std::size_t at = 0;
  for (bool last = false; !last;) {
    if (stop.stop_requested()) return stopped_early();
    const std::size_t size = std::min(kSlice, content.size() - at);
    last = at + size == content.size();
    ZSTD_inBuffer in{content.data() + at, size, 0};
    std::size_t left = 1;
    while (last ? left != 0 : in.pos < in.size) {
      ZSTD_outBuffer out{piece.data(), piece.size(), 0};
      left = ZSTD_compressStream2(context.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left) != 0) return fail(fmt::format("zstd: {}", ZSTD_getErrorName(left)));
      result.insert(result.end(), piece.begin(),
                    piece.begin() + static_cast<std::ptrdiff_t>(out.pos));
    }
    at += size;
  }
  return result;
}

}  // namespace

Result<CollectedMetadata> collect_metadata(const MetadataWish& wish, const std::stop_token& stop) {
  CollectedMetadata collected;
  Bytes content;
  {
    Metadata metadata;
    if ((wish.parts & kMetadataFormats) != 0) VTRACE_CHECK(collect_formats(wish, stop, metadata));
    VTRACE_CHECK(collect_texts(wish, stop, metadata, collected.notes));
    if ((wish.parts & kMetadataSystem) != 0) add_system(wish, metadata);
    content = encode_metadata(metadata);
  }
  collected.content_bytes = content.size();
  VTRACE_TRY(collected.compressed, compress(content, stop));
  return collected;
}

void MetadataCollector::begin(MetadataWish wish) {
  cancel();
  thread_ = std::jthread([this, wish = std::move(wish)](const std::stop_token& stop) {
    (void)::pthread_setname_np(::pthread_self(), "vtrace-metadata");
    auto result = collect_metadata(wish, stop);
    {
      const std::scoped_lock lock(mutex_);
      result_ = std::move(result);
    }
    done_->signal();
  });
}

std::optional<Result<CollectedMetadata>> MetadataCollector::take() {
  std::optional<Result<CollectedMetadata>> result;
  {
    const std::scoped_lock lock(mutex_);
    result.swap(result_);
  }
  if (result && thread_.joinable()) thread_.join();
  return result;
}

void MetadataCollector::cancel() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  const std::scoped_lock lock(mutex_);
  result_.reset();
}

}  // namespace vtrace
