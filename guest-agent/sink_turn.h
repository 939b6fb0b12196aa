// Turns on a sink that several recorders share (-o: all CPUs' data on stdout), so that no
// sub-buffer is torn by another.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "common/fd.h"

namespace vtrace {

// Any thread. A turn is given back only at the end of a sub-buffer.
class SinkTurn {
 public:
  // True: it is the caller's turn, until leave(). False: `wake` is signalled when it is worth
  // asking again.
  [[nodiscard]] bool enter(const void* who, const WakeFd& wake) {
    const std::scoped_lock lock(mutex_);
    if (owner_ == nullptr || owner_ == who) {
      owner_ = who;
      return true;
    }
    if (std::ranges::find(waiting_, &wake) == waiting_.end()) waiting_.push_back(&wake);
    return false;
  }

  // Does nothing for one whose turn it is not. `wake` is not used any more after this.
  void leave(const void* who, const WakeFd& wake) {
    const std::scoped_lock lock(mutex_);
    std::erase(waiting_, &wake);
    if (owner_ != who) return;
    owner_ = nullptr;
    for (const WakeFd* waiting : waiting_) waiting->signal();
    waiting_.clear();
  }

 private:
  std::mutex mutex_;
  const void* owner_ = nullptr;
  std::vector<const WakeFd*> waiting_;
};

}  // namespace vtrace
