#include "io/field.hpp"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/error.hpp>

namespace bitfold::io {
namespace {

// Bytes of the printable UTF-8 character at the start of s; 0 if there is none (a control character
// or malformed). As in table 3-7 of the Unicode standard, less the C1 controls U+0080..U+009F, what
// ends a line (U+2028, U+2029) and what turns the direction of text (U+202A..U+202E, U+2066..U+2069).
std::size_t character_size(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f;
  const std::size_t size = lead < 0xc2   ? 0
                           : lead < 0xe0 ? 2
                           : lead < 0xf0 ? 3
                           : lead < 0xf5 ? 4
                                         : 0;
  if (size == 0 || s.size() < size) return 0;
  const unsigned lowest = lead == 0xc2 || lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (lead == 0xe2 && ((byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
                       (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9)))
    return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
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
