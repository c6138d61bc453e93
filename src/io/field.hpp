// What the parsers share: errors that name a field, and sizes that cannot overflow unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace bitfold::io {

/// `text` fit for one line of a terminal: control characters, those of the direction of text among
/// them, and bytes that are not UTF-8 become \xNN, and what exceeds `most` bytes becomes "...".
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

bool is_utf8(std::string_view text);

/// Bytes of a file as text.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Throws errc::bad_input with "FIELD: WHAT", which the caller prefixes with the file's name. Text
/// that comes from the file may be passed as it is.
[[noreturn]] void bad(std::string_view field, std::string_view what);
/// The same of the file itself, for what a system call says.
[[noreturn]] void bad_file(int error_number);

/// Text from a file, quoted and cut to a length that suits a message.
std::string in_quotes(std::string_view text);

/// "[2,3]".
std::string shape_text(std::span<const std::uint64_t> shape);

/// The product of the shape; nothing if it, times item_size, does not fit in 64 bits.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape,
                                           std::uint64_t item_size);

}  // namespace bitfold::io
