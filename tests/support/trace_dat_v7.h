// A trace.dat version 7 made by hand: sections, chained options, plain or in zstd chunks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/metadata.h"
#include "common/wire.h"

namespace vtrace::test {

struct V7Cpu {
  std::uint32_t cpu = 0;
  Bytes data;
};

struct V7Buffer {
  std::string name;
  std::uint32_t subbuf_size = 4096;
  std::vector<V7Cpu> cpus;
};

struct V7File {
  Metadata metadata;
  std::uint32_t page_size = 4096;
  bool zstd = false;
  std::uint32_t subbufs_in_chunk = 3;
  std::vector<V7Buffer> buffers;
};

[[nodiscard]] Bytes make_v7(const V7File& file);

}  // namespace vtrace::test
