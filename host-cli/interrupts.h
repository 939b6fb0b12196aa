// SIGINT, SIGTERM and SIGHUP as something to poll: a record ends well on the first and at once on
// the second.
#pragma once

#include "common/fd.h"
#include "common/result.h"

namespace vtrace {

// Blocks these signals for the calling thread and those it starts later, so make it before any
// thread. On destruction the signals do again what they did before.
class Interrupts {
 public:
  [[nodiscard]] static Result<Interrupts> create();
  Interrupts(Interrupts&&) = default;
  Interrupts& operator=(Interrupts&&) = delete;
  ~Interrupts();

  // Readable while a signal waits.
  [[nodiscard]] int get() const { return fd_.get(); }
  // Takes the waiting signals; how many have come in all.
  int count();

 private:
  explicit Interrupts(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
  int count_ = 0;
};

}  // namespace vtrace
