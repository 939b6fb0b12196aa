// The payload decoders and the metadata decoder on any bytes.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "common/messages.h"
#include "common/metadata.h"

namespace {

using namespace vtrace;

// What decodes is written and read again the same: nothing is invented on the way.
template <typename Message>
void try_message(const Frame& frame) {
  const auto message = decode_message<Message>(frame);
  if (!message) return;
  ByteWriter once;
  put(once, *message);
  const auto again = decode_message<Message>(Frame{1, 0, 0, once.bytes()});
  if (!again) std::abort();
  ByteWriter twice;
  put(twice, *again);
  if (once.bytes() != twice.bytes()) std::abort();
}

template <typename... Messages>
void try_messages(const Frame& frame) {
  (try_message<Messages>(frame), ...);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Frame frame;
  frame.payload.assign(bytes.begin(), bytes.end());
  try_messages<HostHello, AgentHello, Configure, Configured, Start, Started, Stop, Stopped,
               StatusReport, GetMetadata, MetadataChunk, AgentError, Unsupported>(frame);
  if (const auto metadata = decode_metadata(bytes); metadata) {
    const Bytes encoded = encode_metadata(*metadata);
    const auto again = decode_metadata(encoded);
    if (!again || encode_metadata(*again) != encoded) std::abort();
  }
  return 0;
}
