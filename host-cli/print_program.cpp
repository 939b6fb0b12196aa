#include "host-cli/print_program.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "common/wire.h"

namespace vtrace {
namespace {

using Kind = PrintPiece::Kind;

std::string_view until_nul(std::span<const std::byte> bytes) {
  const std::string_view text = as_text(bytes);
  const void* const nul = std::memchr(text.data(), 0, text.size());
  return nul == nullptr
             ? text
             : text.substr(0,
                           static_cast<std::size_t>(static_cast<const char*>(nul) - text.data()));
}

bool append_fixed_string(const PrintPiece& piece, std::span<const std::byte> payload,
                         std::string& out) {
  if (piece.offset > payload.size()) return false;
  const auto rest = payload.subspan(piece.offset);
  out += until_nul(piece.size == 0 ? rest
                                   : rest.first(std::min<std::size_t>(piece.size, rest.size())));
  return true;
}

bool append_dynamic_string(const PrintPiece& piece, std::span<const std::byte> payload,
                           std::string& out) {
  constexpr std::uint32_t kWord = 4;
  if (std::uint64_t{piece.offset} + kWord > payload.size()) return false;
  std::uint64_t at = load_u32(payload.subspan(piece.offset)) & 0xffffU;
  if (piece.relative) at += piece.offset + kWord;
  if (at > payload.size()) return false;
  out += until_nul(payload.subspan(at));
  return true;
}

void append_flags(const PrintPiece& piece, std::uint64_t value, std::string& out) {
  bool any = false;
  const auto separate = [&] {
    if (any) out += piece.text;
    any = true;
  };
  for (const auto& [bits, name] : piece.names) {
    const bool negative = static_cast<std::int64_t>(bits) < 0;
    if (value == 0 && negative) {
      out += name;
      return;
    }
    if (bits == 0 || negative || (value & bits) != bits) continue;
    separate();
    out += name;
    value &= ~bits;
  }
  if (value == 0) return;
  separate();
  out += "0x";
  append_hexadecimal(out, value);
}

void append_symbol(const PrintPiece& piece, std::uint64_t value, std::string& out) {
  for (const auto& [number, name] : piece.names) {
    if (number != value) continue;
    out += name;
    return;
  }
  out += "0x";
  append_hexadecimal(out, value);
}

void append_address(std::uint64_t address, std::string& out) {
  out += "0x";
  append_hexadecimal(out, address);
}

void append_pointer(std::uint64_t address, std::string& out) {
  if (address == 0) {
    out += "(nil)";
  } else {
    append_address(address, out);
  }
}

void append_function(const PrintPiece& piece, std::uint64_t address,
                     const FindFunction& find_function, std::string& out) {
  const auto [name, start] = find_function(address);
  if (name.empty()) {
    append_address(address, out);
    return;
  }
  out += name;
  if (!piece.with_offset) return;
  out += '+';
  append_address(address - start, out);
}

std::string_view digits(char conversion, std::uint64_t value, std::array<char, 24>& buffer) {
  const int base = conversion == 'o' ? 8 : conversion == 'x' || conversion == 'X' ? 16 : 10;
  char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, base).ptr;
  if (conversion == 'X') {
    std::transform(buffer.data(), end, buffer.data(), [](char c) {
      return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
    });
  }
  return {buffer.data(), static_cast<std::size_t>(end - buffer.data())};
}

}  // namespace

void append_decimal(std::string& out, std::uint64_t value) {
  std::array<char, 24> buffer;
  out += digits('u', value, buffer);
}

void append_hexadecimal(std::string& out, std::uint64_t value) {
  std::array<char, 24> buffer;
  out += digits('x', value, buffer);
}

void append_number(std::string& out, const NumberFormat& format, std::uint64_t value) {
  const unsigned spare = 64U - 8U * format.bytes;
  bool minus = false;
  if (format.conversion == 'd') {
    const auto number = static_cast<std::int64_t>(value << spare) >> spare;
    minus = number < 0;
    value = minus ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  } else {
    value = (value << spare) >> spare;
  }
  std::array<char, 24> buffer;
  const std::string_view number = digits(format.conversion, value, buffer);
  std::string_view prefix = minus ? "-" : "";
  if (format.alternate && value != 0) {
    if (format.conversion == 'x') prefix = "0x";
    if (format.conversion == 'X') prefix = "0X";
    if (format.conversion == 'o') prefix = "0";
  }
  const std::size_t size = prefix.size() + number.size();
  const std::size_t pad = format.width > size ? format.width - size : 0;
  if (!format.left && !format.zeros) out.append(pad, ' ');
  out += prefix;
  if (!format.left && format.zeros) out.append(pad, '0');
  out += number;
  if (format.left) out.append(pad, ' ');
}

void PrintProgram::add(PrintPiece piece) {
  const bool joins =
      piece.kind == Kind::literal && !pieces_.empty() && pieces_.back().kind == Kind::literal;
  if (joins) {
    pieces_.back().text += piece.text;
  } else {
    pieces_.push_back(std::move(piece));
  }
}

bool PrintProgram::run(std::span<const std::byte> payload, const FindFunction& find_function,
                       std::string& out) const {
  const std::size_t start = out.size();
  for (const PrintPiece& piece : pieces_) {
    bool good = true;
    switch (piece.kind) {
      case Kind::literal:
        out += piece.text;
        continue;
      case Kind::fixed_string:
        good = append_fixed_string(piece, payload, out);
        break;
      case Kind::dynamic_string:
        good = append_dynamic_string(piece, payload, out);
        break;
      default: {
        const auto value = piece.expr.evaluate(payload);
        good = value.has_value();
        if (!good) break;
        if (piece.kind == Kind::number) append_number(out, piece.format, *value);
        if (piece.kind == Kind::flags) append_flags(piece, *value, out);
        if (piece.kind == Kind::symbol) append_symbol(piece, *value, out);
        if (piece.kind == Kind::pointer) append_pointer(*value, out);
        if (piece.kind == Kind::function) append_function(piece, *value, find_function, out);
      }
    }
    if (good) continue;
    out.resize(start);
    return false;
  }
  return true;
}

}  // namespace vtrace
