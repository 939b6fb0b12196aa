// header_page, the sub-buffer's header and the fence on any bytes: text up to a NUL, then a
// sub-buffer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "common/fence.h"
#include "common/subbuffer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vtrace;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto nul = std::ranges::find(bytes, std::byte{0});
  const auto text = bytes.first(static_cast<std::size_t>(nul - bytes.begin()));
  const auto layout = parse_header_page(as_text(text));
  if (!layout) return 0;
  if (layout->size() > kMaxSubbufSize || layout->data_offset >= layout->size()) std::abort();

  const auto rest = bytes.subspan(std::min(text.size() + 1, bytes.size()));
  Bytes subbuf(rest.begin(), rest.end());
  (void)read_subbuf_header(*layout, subbuf);
  (void)decode_fence(*layout, subbuf);
  subbuf.resize(layout->size());
  const auto header = read_subbuf_header(*layout, subbuf);
  if (header && header->data_bytes > layout->data_size) std::abort();
  if (const auto fence = decode_fence(*layout, subbuf); fence) {
    if (decode_fence(*layout, encode_fence(*layout, *fence)) != fence) std::abort();
  }
  return 0;
}
