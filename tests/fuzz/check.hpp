// What every fuzz target asserts.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <bitfold/error.hpp>

#include "io/arrays.hpp"
#include "io/field.hpp"

namespace fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// An array that was accepted from an input of `input_size` bytes.
inline void check(const bitfold::io::array& a, std::size_t input_size) {
  const auto count = bitfold::io::element_count(a.shape, item_bytes(a.type));
  require(count && *count == a.count);
  require(a.bytes() <= input_size && a.count <= 2 * input_size);
  volatile unsigned char sink = 0;
  for (std::size_t i = 0; i < a.bytes(); ++i) sink = sink ^ static_cast<unsigned char>(a.data[i]);
}

/// An error from the parser: bad_input, "FIELD: WHAT", one printable line of a sensible length.
inline void check(const bitfold::error& e) {
  const std::string_view what = e.what();
  require(e.code() == bitfold::errc::bad_input);
  require(what.find(": ") != std::string_view::npos && what.size() < 1000);
  require(bitfold::io::printable(what) == what);
}

}  // namespace fuzz
