#include "tests/support/splice_script.h"

#include <algorithm>
#include <cerrno>

namespace vtrace::test {

std::size_t SpliceScript::calls(Call call) const {
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::pair<std::optional<ssize_t>, std::size_t> SpliceScript::take_turn(Call call) {
  ++calls_[call];
  Turn turn;
  if (auto& turns = turns_[call]; !turns.empty()) {
    turn = turns.front();
    turns.pop_front();
  } else if (const auto found = always_.find(call); found != always_.end()) {
    turn = found->second;
  }
  // A call that goes well leaves errno as it was: stale, and of no meaning.
  errno = EAGAIN;
  if (turn.nothing) return {0, 0};
  if (turn.error != 0) {
    errno = turn.error;
    return {-1, 0};
  }
  return {std::nullopt, turn.most};
}

ssize_t SpliceScript::splice(int source, int sink, std::size_t bytes, unsigned flags) {
  if (source == source_) asked_ = bytes;
  const auto [result, most] = take_turn(source == source_ ? Call::splice_in : Call::splice_out);
  return result ? *result : SpliceSystem::splice(source, sink, std::min(bytes, most), flags);
}

ssize_t SpliceScript::read(int fd, std::span<std::byte> into) {
  if (fd != source_) return SpliceSystem::read(fd, into);
  const auto [result, most] = take_turn(Call::read_source);
  return result ? *result : SpliceSystem::read(fd, into.first(std::min(into.size(), most)));
}

ssize_t SpliceScript::write(int fd, std::span<const std::byte> data) {
  const auto [result, most] = take_turn(Call::write_sink);
  return result ? *result : SpliceSystem::write(fd, data.first(std::min(data.size(), most)));
}

}  // namespace vtrace::test
