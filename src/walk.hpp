// Runs the canonical order on one thread, one element at a time. The reference does so, and so does
// the trace of the accuracy suite, with numbers that count their additions.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <bitfold/fold.hpp>

namespace bitfold::detail {

/// The state of n >= 1 elements under fold F; element(i) is element i as F takes it.
template <class F, class Element>
auto walk(std::uint64_t n, Element element) {
  if constexpr (F::ordering == ordering::sequential) {
    auto s = F::start(element(0));
    for (std::uint64_t i = 1; i < n; ++i) s = F::add(s, element(i));
    return s;
  } else {
    // A state, and how many elements it is of.
    const auto lane = [](int count, auto get) {
      return std::pair(method::fold_lane<F, order::rows>(count, get),
                       static_cast<order::index>(count));
    };
    const auto merge = [](const auto& a, const auto& b) {
      return std::pair(F::merge(a.first, b.first, fold::counts{a.second, b.second}),
                       a.second + b.second);
    };
    return order::interpret(n, lane, merge, element).first;
  }
}

}  // namespace bitfold::detail
