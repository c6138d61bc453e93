// The canonical order walked by one thread, one element at a time: what the reference does, and what
// the trace of the accuracy suite does with numbers that count.
#pragma once

#include <cstdint>
#include <type_traits>

#include <bitfold/method.hpp>

namespace bitfold::detail {

/// The state of n >= 1 elements under method M; element(i) is element i in the accumulator's type.
template <class M, class Element>
auto walk(std::uint64_t n, Element element) {
  if constexpr (std::is_same_v<M, method::sequential>) {
    auto s = M::start(element(0));
    for (std::uint64_t i = 1; i < n; ++i) s = M::add(s, element(i));
    return s;
  } else {
    return order::interpret(
        n, [](int count, auto get) { return method::fold_lane<M, order::rows>(count, get); },
        [](auto a, auto b) { return M::merge(a, b); }, element);
  }
}

}  // namespace bitfold::detail
