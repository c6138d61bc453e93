// Catch2 matchers (version 2 or 3) whose messages show values, bits and distance:
//   CHECK_THAT(sum, WithinUlpsOf(1.5f, 2));
//   CHECK_THAT(result, HasBitsOf(expected));
// The messages need the library.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <bitfold/testing.hpp>

namespace bitfold::testing {
namespace detail {

#if __has_include(<catch2/catch_test_macros.hpp>)
template <class T>
using matcher_base = Catch::Matchers::MatcherBase<T>;
#else
template <class T>
using matcher_base = Catch::MatcherBase<T>;
#endif

/// "1.5 (f32 3fc00000)"
inline std::string text(scalar v) {
  return to_string(v) + " (" + std::string(name(v.type)) + " " + to_hex(v) + ")";
}

inline std::string apart(scalar a, scalar b) {
  const std::uint64_t ulps = ulp_distance(a, b);
  if (ulps == no_distance) return "no distance";
  return std::to_string(ulps) + (ulps == 1 ? " ulp" : " ulps");
}

/// The same bits, or at most `ulps` apart.
inline bool close(scalar actual, scalar expected, std::optional<std::uint64_t> ulps) {
  if (!ulps) return same_bits(actual, expected);
  const std::uint64_t distance = ulp_distance(actual, expected);
  return distance != no_distance && distance <= *ulps;
}

inline std::string wanted(std::optional<std::uint64_t> ulps) {
  return ulps ? "is within " + std::to_string(*ulps) + " ulps of " : "has the bits of ";
}

/// describe() is to say how a mismatch looks, so match() keeps what it saw.
template <class T>
class value_matcher : public matcher_base<T> {
 public:
  value_matcher(T expected, std::optional<std::uint64_t> ulps)
      : expected_(as_scalar(expected)), ulps_(ulps) {}

  bool match(const T& actual) const override {
    this->m_cachedToString.clear();  // of another value
    actual_ = as_scalar(actual);
    return close(actual_, expected_, ulps_);
  }

 protected:
  std::string describe() const override {
    return wanted(ulps_) + text(expected_) + ": got " + text(actual_) + ", " +
           apart(actual_, expected_);
  }

 private:
  scalar expected_;
  std::optional<std::uint64_t> ulps_;
  mutable scalar actual_{};
};

template <class T>
class range_matcher : public matcher_base<std::span<const T>> {
 public:
  range_matcher(std::span<const T> expected, std::optional<std::uint64_t> ulps)
      : expected_(expected.begin(), expected.end()), ulps_(ulps) {}

  bool match(const std::span<const T>& actual) const override {
    this->m_cachedToString.clear();
    if (actual.size() != expected_.size()) {
      found_ = "got " + std::to_string(actual.size()) + " values";
      return false;
    }
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const scalar a = as_scalar(actual[i]), e = as_scalar(expected_[i]);
      if (!close(a, e, ulps_) && wrong++ == 0)
        found_ = "first at [" + std::to_string(i) + "], " + text(a) + " instead of " + text(e) +
                 ", " + apart(a, e);
    }
    found_ = wrong ? std::to_string(wrong) + " not, " + found_ : "all";
    return wrong == 0;
  }

 protected:
  std::string describe() const override {
    return wanted(ulps_) + std::to_string(expected_.size()) + " values: " + found_;
  }

 private:
  std::vector<T> expected_;
  std::optional<std::uint64_t> ulps_;
  mutable std::string found_;
};

}  // namespace detail

/// A value, or a range of as many values, at most `ulps` from the expected one (see ulp_distance).
template <class T>
  requires element<T> || std::is_same_v<T, scalar>
auto WithinUlpsOf(T expected, std::uint64_t ulps) {
  return detail::value_matcher<T>(expected, ulps);
}
template <element_range R>
auto WithinUlpsOf(const R& expected, std::uint64_t ulps) {
  return detail::range_matcher<std::ranges::range_value_t<R>>(expected, ulps);
}

/// A value, or a range of as many values, with exactly these bits (see same_bits).
template <class T>
  requires element<T> || std::is_same_v<T, scalar>
auto HasBitsOf(T expected) {
  return detail::value_matcher<T>(expected, std::nullopt);
}
template <element_range R>
auto HasBitsOf(const R& expected) {
  return detail::range_matcher<std::ranges::range_value_t<R>>(expected, std::nullopt);
}

}  // namespace bitfold::testing

// How Catch2 prints the types that it does not know.
template <>
struct Catch::StringMaker<bitfold::scalar> {
  static std::string convert(bitfold::scalar v) { return bitfold::testing::detail::text(v); }
};
template <>
struct Catch::StringMaker<bitfold::float16> {
  static std::string convert(bitfold::float16 v) {
    return bitfold::testing::detail::text(bitfold::testing::as_scalar(v));
  }
};
template <>
struct Catch::StringMaker<bitfold::bfloat16> {
  static std::string convert(bitfold::bfloat16 v) {
    return bitfold::testing::detail::text(bitfold::testing::as_scalar(v));
  }
};
