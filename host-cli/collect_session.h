// Draining without a recording: whatever comes out of the FIFOs goes into files as it comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "host-cli/record_session.h"

namespace vtrace {

struct CollectPlan {
  std::string directory;  // of the FIFOs
  std::string output;     // directory of the raw files
  std::optional<std::chrono::milliseconds> duration;
  std::uint64_t max_bytes = 0;  // of all files together; 0: no limit
};

struct CollectSummary {
  std::string output;
  double seconds = 0;
  std::vector<CpuProgress> cpus;
  bool metadata = false;  // an agent gave the metadata that report needs
  bool size_limit = false;
  std::string problem;
};

// Until a signal, the duration, the size limit, or a fault of the disk. Works with the guest off:
// what comes when it is up is taken.
[[nodiscard]] Result<CollectSummary> collect(const CollectPlan& plan, RecordObserver& observer);

}  // namespace vtrace
