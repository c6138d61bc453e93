#include "io/field.hpp"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/error.hpp>

namespace bitfold::io {
namespace {

// Bytes of the UTF-8 character at the start of s; 0 if it is malformed, as in table 3-7 of the
// Unicode standard.
std::size_t character_size(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t size = lead < 0xc2   ? 0
                           : lead < 0xe0 ? 2
                           : lead < 0xf0 ? 3
                           : lead < 0xf5 ? 4
                                         : 0;
  if (size == 0 || s.size() < size) return 0;
  const unsigned lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return size;
}

// Whether a character is a control character (C0, DEL or C1), ends a line (U+2028, U+2029) or turns
// the direction of text (U+202A..U+202E, U+2066..U+2069).
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (character.size() == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  return byte(0) == 0xe2 && ((byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
                             (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9));
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    std::size_t size = character_size(text);
    if (size > 0 && is_control(text.substr(0, size))) size = 0;
    if (out.size() + std::max<std::size_t>(size, 4) > most) return out + "...";
    if (size == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else
      out += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

void bad(std::string_view field, std::string_view what) {
  throw error(errc::bad_input, printable(field) + ": " + printable(what));
}
void bad_file(int error_number) { bad("file", std::generic_category().message(error_number)); }

std::string in_quotes(std::string_view text) { return "'" + printable(text, 100) + "'"; }

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape,
                                           std::uint64_t item_size) {
  // No elements is no elements, however large the other extents.
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  std::uint64_t count = 1, bytes = item_size;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
    count *= extent;
  }
  return count;
}

}  // namespace bitfold::io
