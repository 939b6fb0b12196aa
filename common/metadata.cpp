#include "common/metadata.h"

#include <array>
#include <utility>

namespace vtrace {
namespace {

constexpr std::uint32_t kMetadataVersion = 1;
constexpr std::uint32_t kMaxFormats = 1U << 20U;

// Tags of the texts; a format carries system, name and text under kFormatTag. Unknown tags are
// skipped by their length.
constexpr std::uint16_t kFormatTag = 100;

using TextMember = std::string Metadata::*;
constexpr std::array<std::pair<std::uint16_t, TextMember>, 13> kTexts = {{
    {1, &Metadata::header_page},
    {2, &Metadata::header_event},
    {3, &Metadata::kallsyms},
    {4, &Metadata::printk_formats},
    {5, &Metadata::saved_cmdlines},
    {6, &Metadata::trace_clock},
    {7, &Metadata::sysname},
    {8, &Metadata::nodename},
    {9, &Metadata::kernel_release},
    {10, &Metadata::machine},
    {11, &Metadata::cpus_possible},
    {12, &Metadata::cpus_present},
    {13, &Metadata::cpus_online},
}};

}  // namespace

void Metadata::merge(Metadata other) {
  for (const auto& [tag, member] : kTexts) {
    if (!(other.*member).empty()) this->*member = std::move(other.*member);
  }
  if (!other.formats.empty()) formats = std::move(other.formats);
}

Bytes encode_metadata(const Metadata& metadata) {
  ByteWriter out;
  out.u32(kMetadataVersion);
  for (const auto& [tag, member] : kTexts) {
    if ((metadata.*member).empty()) continue;
    out.u16(tag);
    out.text(metadata.*member);
  }
  for (const EventFormat& format : metadata.formats) {
    ByteWriter record;
    record.text(format.system);
    record.text(format.name);
    record.text(format.text);
    out.u16(kFormatTag);
    out.text(as_text(record.bytes()));
  }
  return out.take();
}

Result<Metadata> decode_metadata(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.u32() != kMetadataVersion) return fail("metadata: of a version that is not known here");
  Metadata metadata;
  while (in.ok() && in.left() > 0) {
    const std::uint16_t tag = in.u16();
    const auto value = in.raw(in.u32());
    if (!in.ok()) break;
    if (tag == kFormatTag) {
      ByteReader record(value);
      EventFormat format;
      format.system = record.text();
      format.name = record.text();
      format.text = record.text();
      if (!record.ok() || metadata.formats.size() >= kMaxFormats)
        return fail("metadata: an event format is cut short");
      metadata.formats.push_back(std::move(format));
      continue;
    }
    for (const auto& [known, member] : kTexts) {
      if (known == tag) (metadata.*member).assign(as_text(value));
    }
  }
  if (!in.ok()) return fail("metadata: cut short");
  return metadata;
}

}  // namespace vtrace
