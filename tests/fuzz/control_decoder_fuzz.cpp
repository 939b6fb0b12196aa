// The control decoder against the rules of docs/protocol.md, on any stream and any split.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "common/messages.h"
#include "tests/support/control_streams.h"

namespace {

using namespace vtrace;

// A payload goes through the decoder of every message, whatever it holds.
template <typename... Messages>
void decode_as_any(const Frame& frame) {
  ((void)decode_message<Messages>(frame), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // The first byte tells how long the pieces are, the second whether orders count.
  const std::size_t length = 1U + data[0];
  const bool legacy = (data[1] & 1U) != 0;
  const auto stream = std::as_bytes(std::span(data, size)).subspan(2);
  std::vector<std::span<const std::byte>> pieces;
  for (auto rest = stream; !rest.empty();) {
    pieces.push_back(rest.first(std::min(length, rest.size())));
    rest = rest.subspan(pieces.back().size());
  }
  const test::Decoded decoded = test::decode_in_pieces(pieces, legacy);
  if (stream.size() <= 4096 && decoded != test::decode_by_the_rules(stream, legacy)) std::abort();
  for (const ControlItem& item : decoded.items) {
    if (const auto* const frame = std::get_if<Frame>(&item))
      decode_as_any<HostHello, AgentHello, Configure, Configured, Start, Started, Stop, Stopped,
                    StatusReport, GetMetadata, MetadataChunk, AgentError, Unsupported>(*frame);
  }
  return 0;
}
