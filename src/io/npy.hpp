// The NumPy array format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/arrays.hpp"

namespace bitfold::io {

/// Whether the file begins as every .npy file does.
bool looks_like_npy(std::span<const std::byte> file);

/// Whether a .npy file says of its elements that they are of that type: of bf16, say, it does not.
bool npy_tells(element_type type);

/// How many bytes come before the data of a file of `size` bytes, as its first 12 tell, or the
/// whole of a shorter one. Errors: errc::bad_input, "FIELD: what is wrong".
std::uint64_t npy_head_size(std::span<const std::byte> start, std::uint64_t size);

/// Where the array lies, from that many bytes. `type` is that of elements of which the file tells
/// nothing but how many bytes they have: NumPy writes bfloat16 so, as V2. Errors as parse_npy's,
/// but for what concerns the data.
array_place parse_npy_head(std::span<const std::byte> head, std::optional<element_type> type);
/// Throws where the data, of so many bytes, are not that array's; `following` is how those after it
/// begin, if there are any.
void check_npy_size(const array_place& p, std::uint64_t bytes,
                    std::span<const std::byte> following);
/// How many bytes of `following` are enough.
inline constexpr std::size_t npy_mark_size = 6;
/// Throws where another array follows.
void refuse_second_npy(std::span<const std::byte> following);

/// The array in the bytes of a .npy file. Its data points into `file`, which `owner` keeps alive,
/// or into a copy of its own where Fortran order or big endian need one. `type` as above.
/// Errors: errc::bad_input, "FIELD: what is wrong".
array parse_npy(std::span<const std::byte> file, std::optional<element_type> type,
                const std::shared_ptr<const void>& owner);

/// The bytes of a .npy file (1.0) with these elements, in row-major order. The type may not be
/// bf16, which the format has not.
std::string npy_text(dtype type, std::span<const std::uint64_t> shape,
                     std::span<const std::byte> elements);

}  // namespace bitfold::io
