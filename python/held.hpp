// The arrays of a call that wants all of them to lie one behind the other, on one device.
#pragma once

#include "family.hpp"

#include <array>
#include <optional>

namespace bitfold::python {

/// Where so many elements of that type lie, one behind the other, on x's device. Errors:
/// RuntimeError, where they do not.
inline void* expect(const char* argument, const described& d, const described& x, element_type type,
                    std::size_t size) {
  if (!on_one_device(d, x))
    throw std::runtime_error(std::string(argument) +
                             ": Expected all tensors to be on the same device, but found one on "
                             "another than x");
  if (!(d.type == type) || d.size() != size || !d.is_row_major())
    throw std::runtime_error(std::string(argument) + ": " + std::to_string(d.size()) +
                             " elements of " + std::string(d.type.name()) + ", where " +
                             std::to_string(size) + " of " + std::string(type.name()) +
                             " are expected, one behind the other");
  return const_cast<void*>(d.where.data);
}
/// The arrays of a call, held until it ends.
class held {
 public:
  explicit held(const family& by) : by_(by) {}

  const input& take(const char* argument, nb::handle given, taking what = taking::elements) {
    const input& in = held_[used_++].emplace(given, argument, &by_, what);
    needed(in, argument);
    return in;
  }
  /// As `expect`, or null where it is None.
  void* elements(const char* argument, nb::handle given, const described& x, element_type type,
                 std::size_t size, taking what = taking::elements) {
    return given.is_none() ? nullptr
                           : expect(argument, *take(argument, given, what), x, type, size);
  }
  void* result(const char* argument, nb::handle given, const described& x, std::size_t size) {
    return elements(argument, given, x, x.type, size, taking::results);
  }

 private:
  const family& by_;
  std::array<std::optional<input>, 12> held_;
  std::size_t used_ = 0;
};

}  // namespace bitfold::python
