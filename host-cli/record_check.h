// Whether a record's bytes agree with its event's format, as far as reading it safely goes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vtrace {

struct FieldPlace {
  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  bool array = false;     // a fixed array: the kernel may cut its tail off
  bool dynamic = false;   // __data_loc: a word with the offset (low half) and length of the data
  bool relative = false;  // __rel_loc: that offset counts from the field's end
};

class RecordCheck {
 public:
  RecordCheck() = default;
  explicit RecordCheck(std::vector<FieldPlace> fields);

  // What is wrong with the record, or nothing.
  [[nodiscard]] std::optional<std::string> problem(std::span<const std::byte> payload) const;
  // Bytes that the fields reach over, whatever a record's length.
  [[nodiscard]] std::uint32_t reach() const { return reach_; }

 private:
  std::vector<FieldPlace> fields_;
  std::vector<FieldPlace> dynamic_;
  std::uint32_t least_ = 0;  // a record's least length
  std::uint32_t reach_ = 0;
};

}  // namespace vtrace
