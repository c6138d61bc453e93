// Arrays that are hard on exact sums, of any float type and of integers.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <bitfold/exact.hpp>

#include "data.hpp"

namespace bitfold::test {

template <class T>
struct hard_array {
  std::string name;
  std::vector<T> values;
};

template <class T>
T from_bits(std::uint64_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
template <class T>
std::uint64_t bits_of(T x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

/// A float of a biased exponent and some fraction.
template <class T>
T make_float(bool negative, int biased, std::uint64_t fraction) {
  using R = exact::range<T>;
  const std::uint64_t low = (1ull << R::mantissa) - 1;
  return from_bits<T>(static_cast<std::uint64_t>(negative) << (R::width - 1) |
                      static_cast<std::uint64_t>(biased) << R::mantissa | (fraction & low));
}

/// All of them have n elements. Of these names alone, where any is given.
template <class T>
std::vector<hard_array<T>> hard_arrays(std::size_t n, std::uint64_t seed,
                                       const std::vector<std::string>& only = {}) {
  random_bits next{seed};
  std::vector<hard_array<T>> out;
  const auto add = [&](std::string name, auto make) {
    if (!only.empty() && std::find(only.begin(), only.end(), name) == only.end()) return;
    std::vector<T> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = make(i);
    out.push_back({std::move(name), std::move(v)});
  };
  if constexpr (!is_float(dtype_of<T>)) {
    add("any", [&](std::size_t) { return static_cast<T>(next()); });
    add("largest", [&](std::size_t) { return std::numeric_limits<T>::max(); });
    add("smallest", [&](std::size_t) { return std::numeric_limits<T>::min(); });
    add("ends", [&](std::size_t) {
      return next() & 1 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
    });
  } else {
    using R = exact::range<T>;
    const int top = 2 * R::bias, middle = R::bias;  // biased exponents; the largest finite one
    const auto sign = [&] { return (next() >> 40 & 1) != 0; };
    const auto within = [&](int low, int high) {
      return std::clamp(low + static_cast<int>(next() >> 20) % (high - low + 1), 0, top);
    };
    const auto binade = [&](int low, int high) {
      return make_float<T>(sign(), within(low, high), next());
    };
    add("near one", [&](std::size_t) { return binade(middle - 3, middle); });
    add("positive",
        [&](std::size_t) { return make_float<T>(false, within(middle - 3, middle), next()); });
    add("30 binades", [&](std::size_t) { return binade(middle - 15, middle + 15); });
    add("100 binades", [&](std::size_t) { return binade(middle - 50, middle + 50); });
    add("300 binades", [&](std::size_t) { return binade(middle - 150, middle + 150); });
    add("any finite", [&](std::size_t) { return binade(0, top); });
    add("bottom", [&](std::size_t) { return binade(0, 40); });
    add("top", [&](std::size_t) { return binade(top - 40, top); });
    add("largest", [&](std::size_t) { return make_float<T>(false, top, ~0ull); });
    add("largest, minus", [&](std::size_t) { return make_float<T>(true, top, ~0ull); });
    add("tiniest", [&](std::size_t) { return make_float<T>(sign(), 0, 1); });
    add("subnormal", [&](std::size_t) { return make_float<T>(sign(), 0, next()); });
    add("one bin", [&](std::size_t) { return make_float<T>(false, middle, ~0ull); });
    add("powers of two", [&](std::size_t) { return make_float<T>(sign(), within(0, top), 0); });
    add("growing", [&](std::size_t i) {
      return make_float<T>(sign(), static_cast<int>(i * static_cast<std::size_t>(top) / n), next());
    });
    add("shrinking", [&](std::size_t i) {
      return make_float<T>(sign(), static_cast<int>((n - i) * static_cast<std::size_t>(top) / n),
                           next());
    });
    add("blocks large and small", [&](std::size_t i) {
      return i / 1024 % 3 ? binade(middle - 2, middle) : binade(top / 8, top / 8 + 5);
    });
    add("one tiny thing in each thousand", [&](std::size_t i) {
      return i % 1000 == 500 ? make_float<T>(sign(), 0, 1) : binade(middle - 2, middle);
    });
    add("one large thing in each thousand", [&](std::size_t i) {
      return i % 1000 == 500 ? make_float<T>(sign(), top, 1) : binade(middle - 2, middle);
    });
    add("large things that cancel later", [&](std::size_t i) {  // in the same lane of a vector
      const std::size_t at = i < 3000 ? 0 : i % 1000;
      return at == 500 || at == 532 ? make_float<T>(at == 532, std::min(middle + 40, top), 1)
                                    : binade(middle - 3, middle);
    });
    add("cancelling", [&, last = T{}](std::size_t i) mutable {
      if (i % 2) return from_bits<T>(bits_of(last) ^ 1ull << (R::width - 1));
      return last = binade(0, top);
    });
    add("ties", [&](std::size_t i) {  // 1 and half of its last place, of both signs
      return i % 2 ? make_float<T>(sign(), middle, 0)
                   : make_float<T>(sign(), std::max(0, middle - R::mantissa - 1), 0);
    });
    add("rests of one sign",
        [&](std::size_t) {  // almost half of the first level's last place, for f64
          return make_float<T>(false, middle, next() << 8 | 0x7f);
        });
    add("zeros", [&](std::size_t) { return make_float<T>(sign(), 0, 0); });
    add("minus zeros", [&](std::size_t) { return make_float<T>(true, 0, 0); });
    add("minus zeros and one zero", [&](std::size_t i) { return make_float<T>(i + 1 != n, 0, 0); });
    add("half zeros", [&](std::size_t) { return next() & 1 ? T{} : binade(middle - 3, middle); });
    add("any bits", [&](std::size_t) { return from_bits<T>(next() >> (64 - R::width)); });
    add("any finite and infinities",
        [&](std::size_t) { return make_float<T>(false, within(0, top + 1), 0); });
    add("one infinity", [&](std::size_t i) {
      return i == n / 2 ? make_float<T>(false, top + 1, 0) : binade(middle - 3, middle);
    });
    add("one minus infinity", [&](std::size_t i) {
      return i + 1 == n ? make_float<T>(true, top + 1, 0) : binade(0, top);
    });
    add("both infinities", [&](std::size_t i) {
      return i < 2 ? make_float<T>(i == 0, top + 1, 0) : binade(middle - 3, middle);
    });
    add("one nan", [&](std::size_t i) {
      return i + 1 == n ? make_float<T>(true, top + 1, 1) : binade(middle - 3, middle);
    });
    add("nans", [&](std::size_t) { return make_float<T>(sign(), top + 1, 1); });
  }
  return out;
}

/// Calls f(type_identity<T>) for all types.
template <class F>
void for_each_type(F f) {
  for (const dtype t : all_dtypes) visit(t, f);
}

}  // namespace bitfold::test
