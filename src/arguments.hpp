// What functions of floats ask of their arguments. Errors are errc::usage and name the argument.
#pragma once

#include <bitfold/dtype.hpp>
#include <bitfold/error.hpp>
#include <initializer_list>
#include <string>

namespace bitfold::detail {

[[noreturn]] inline void refuse_argument(const char* argument, const std::string& what) {
  throw error(errc::usage, std::string(argument) + ": " + what);
}
inline void check_float(dtype type) {
  if (!is_float(type))
    refuse_argument("type", std::string(name(type)) + ", which is no float type");
}
inline void check_aligned(const char* argument, const void* p, std::size_t size) {
  if (reinterpret_cast<std::uintptr_t>(p) % size)
    refuse_argument(argument, "not aligned to its elements");
}

/// An array of elements of `size` bytes.
struct array_argument {
  const char* argument;
  const void* data;
  bool needed;
};
inline void check_arrays(std::initializer_list<array_argument> all, std::size_t size) {
  for (const array_argument& a : all) {
    if (a.needed && !a.data) refuse_argument(a.argument, "null");
    check_aligned(a.argument, a.data, size);
  }
}
/// The elements of x.
inline std::size_t size_of_x(std::initializer_list<std::size_t> extents) {
  std::size_t size = 1;
  for (const std::size_t extent : extents)
    if (__builtin_mul_overflow(size, extent, &size) || size > std::size_t{1} << 60)
      refuse_argument("x", "more than 2^60 elements");
  return size;
}

}  // namespace bitfold::detail
