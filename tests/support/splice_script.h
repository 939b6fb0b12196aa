// The kernel's splice, read and write, with faults where a test wants them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/splice_pump.h"

namespace vtrace::test {

class SpliceScript : public SpliceSystem {
 public:
  enum class Call { splice_in, splice_out, read_source, write_sink };

  struct Turn {
    int error = 0;                                               // not 0: fails so
    bool nothing = false;                                        // returns 0
    std::size_t most = std::numeric_limits<std::size_t>::max();  // moves so much at most
  };
  static Turn fails(int error) { return {.error = error}; }
  static Turn gives_nothing() { return {.nothing = true}; }
  static Turn moves(std::size_t most) { return {.most = most}; }

  explicit SpliceScript(int source) : source_(source) {}

  // What the next calls of this kind do, in order; after them `always`, or the kernel's own.
  void then(Call call, Turn turn) { turns_[call].push_back(turn); }
  void always(Call call, Turn turn) { always_[call] = turn; }

  [[nodiscard]] std::size_t calls(Call call) const;
  // The size of the last splice from the source that was asked for.
  [[nodiscard]] std::size_t asked() const { return asked_; }

  ssize_t splice(int source, int sink, std::size_t bytes, unsigned flags) override;
  ssize_t read(int fd, std::span<std::byte> into) override;
  ssize_t write(int fd, std::span<const std::byte> data) override;

 private:
  // What this call returns at once, if it does not reach the kernel; else what bounds it.
  std::pair<std::optional<ssize_t>, std::size_t> take_turn(Call call);

  int source_;
  std::size_t asked_ = 0;
  std::map<Call, std::deque<Turn>> turns_;
  std::map<Call, Turn> always_;
  std::map<Call, std::size_t> calls_;
};

}  // namespace vtrace::test
