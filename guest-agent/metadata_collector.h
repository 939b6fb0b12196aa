// Collects what a decoder must know of this kernel, in a thread of its own: thousands of small
// files and megabytes of symbols take seconds in a slow guest, and stop must not wait for them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/metadata.h"
#include "common/result.h"
#include "guest-agent/machine.h"

namespace vtrace {

// What is told of the recorded buffer is kept by the caller, since an instance may be gone by now.
struct RecordedBuffer {
  std::string header_page;
  std::string header_event;
  std::string trace_clock;
};

struct MetadataWish {
  std::uint32_t parts = 0;  // kMetadata… of common/messages.h
  std::string tracefs;      // its root
  RecordedBuffer buffer;
  MachinePlaces places;
};

struct CollectedMetadata {
  Bytes compressed;  // one zstd frame
  std::uint64_t content_bytes = 0;
  std::vector<std::string> notes;
};

// Does the work; an error of kind interrupted when `stop` was asked for. What cannot be read is
// left out with a note; only formats and headers are indispensable.
[[nodiscard]] Result<CollectedMetadata> collect_metadata(const MetadataWish& wish,
                                                         const std::stop_token& stop);

// One job at a time. All functions are called by one thread.
class MetadataCollector {
 public:
  // `done` is signalled when a job has ended; borrowed.
  explicit MetadataCollector(const WakeFd& done) : done_(&done) {}

  // Ends the job that is on, if any, and begins another.
  void begin(MetadataWish wish);
  // The result of the job, once; nothing while it is on.
  [[nodiscard]] std::optional<Result<CollectedMetadata>> take();
  void cancel();

 private:
  const WakeFd* done_;
  std::mutex mutex_;
  std::optional<Result<CollectedMetadata>> result_;
  std::jthread thread_;
};

}  // namespace vtrace
