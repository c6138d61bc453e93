// Operations of the caller's own. Such an operation is a struct of static functions, BITFOLD_HD if
// it is to run on GPUs too:
//
//   struct complex_sum {
//     struct state { double re, im; };  // trivially copyable, default constructible
//     // of one element; two arguments for pairs()
//     BITFOLD_HD static state start(complex x);
//     // of two sets of elements, see below
//     BITFOLD_HD static state merge(state a, state b);
//     // the result for n elements
//     BITFOLD_HD static complex finish(state s, std::uint64_t n);
//   };
//
// and, if wanted: add(state s, element x), which is else merge(s, start(x)), of pairs() add(s, x,
// y); a third argument of merge, bitfold::fold::counts{left, right}, which says how many elements a
// and b have, and then there has to be an add; finish(state) without n; empty(), the result for no
// elements, which is else an error. Members that are not static are never used.
//
// The states are merged in the canonical order (order.hpp), lanes one by one, whatever runs them.
// That is not the order of the array: a leaf's lanes have every 32nd element, so that from 33
// elements on those of a and of b lie among one another. So merge has to commute, but for its
// roundings, as addition and max do. What does not commute, such as composing functions, takes
// in_order(x) for its input, which has a directly left of b; what asks where an element lies,
// indexed(x) (source.hpp).
//
// A state has at most 256 bytes and is aligned to 16 at most; on a GPU that holds for those of all
// operations of a pass together. merge has no side effects and is defined for any two states: a GPU
// also merges some that do not belong together, and does not use what comes of it. A result that is
// a float or a double and NaN is the canonical NaN; of NaNs inside a struct the bits are the
// machine's.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include <bitfold/fold.hpp>

namespace bitfold::detail {
namespace {
// A file with operations of its own must not be compiled with contraction, which no compiler tells.
struct contraction_probe {
  contraction_probe() noexcept {
    const volatile float tenth = 0.1f, ten = 10, one = 1;
    const float a = tenth, b = ten, c = one;
    if (a * b - c == 0) return;  // rounded, the product is 1
    std::fputs(
        "bitfold: a file of this program that includes bitfold/own.hpp is compiled with "
        "contraction of floating-point "
        "expressions, which changes the bits; compile it with -ffp-contract=off\n",
        stderr);
    std::abort();
  }
};
[[maybe_unused]] const contraction_probe contraction_probed;
}  // namespace
}  // namespace bitfold::detail

BITFOLD_HD_BEGIN
namespace bitfold::fold {

/// A state of which nothing is known: moved as words of 32 bits.
template <class S>
struct opaque {
  static_assert(std::is_trivially_copyable_v<S> && std::is_default_constructible_v<S>,
                "bitfold: a state must be trivially copyable and default constructible");
  static_assert(alignof(S) <= 16 && sizeof(S) <= max_state_bytes,
                "bitfold: a state must not be larger than 256 bytes, nor aligned to more than 16");
  static constexpr std::size_t words = (sizeof(S) + 3) / 4;
  S value;

  struct raw {
    std::uint32_t word[words];
  };
  BITFOLD_HD raw split() const {
    raw r{};
    __builtin_memcpy(&r, &value, sizeof value);
    return r;
  }
  BITFOLD_HD static opaque join(const raw& r) {
    opaque o;
    __builtin_memcpy(&o.value, &r, sizeof o.value);
    return o;
  }
  template <class F>
  BITFOLD_HD opaque map(F f) const {
    raw r = split();
    BITFOLD_UNROLL
    for (std::size_t i = 0; i < words; ++i) r.word[i] = f(r.word[i]);
    return join(r);
  }
  template <class F>
  BITFOLD_HD static opaque zip(F f, const opaque& a, const opaque& b) {
    raw r = a.split(), s = b.split();
    BITFOLD_UNROLL
    for (std::size_t i = 0; i < words; ++i) r.word[i] = f(r.word[i], s.word[i]);
    return join(r);
  }
};

/// The operation Op for elements Value, as a fold.
template <class Op, class Value>
struct own {
  using accumulation = own;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr element_kind element = element_kind::single;
  using lane_order = method::in_sequence;

  template <class V>
  BITFOLD_HD static auto first(V x) {
    if constexpr (requires { Op::start(x); })
      return Op::start(x);
    else
      return Op::start(x.x, x.y);
  }
  using kept = decltype(first(std::declval<Value>()));
  static constexpr bool counted = requires(kept s) { Op::merge(s, s, counts{}); };
  template <class>
  using state = opaque<kept>;

  BITFOLD_HD static opaque<kept> start(Value x) { return {first(x)}; }
  BITFOLD_HD static opaque<kept> add(opaque<kept> s, Value x) {
    if constexpr (requires { Op::add(s.value, x); })
      return {Op::add(s.value, x)};
    else if constexpr (requires { Op::add(s.value, x.x, x.y); })
      return {Op::add(s.value, x.x, x.y)};
    else
      return {joined(s.value, first(x), {})};
  }
  BITFOLD_HD static opaque<kept> merge(opaque<kept> a, opaque<kept> b, counts n = {}) {
    return {joined(a.value, b.value, n)};
  }
  template <class>
  BITFOLD_HD static opaque<kept> rebase(opaque<kept> s, order::index) {
    return s;
  }
  BITFOLD_HD static auto result(const opaque<kept>& s, std::uint64_t n) {
    const auto r = [&] {
      if constexpr (requires { Op::finish(s.value, n); })
        return Op::finish(s.value, n);
      else
        return Op::finish(s.value);
    }();
    using R = std::remove_const_t<decltype(r)>;
    static_assert(
        std::is_trivially_copyable_v<R> && std::is_default_constructible_v<R> && alignof(R) <= 16,
        "bitfold: a result must be trivially copyable, default constructible and not aligned to "
        "more than 16");
    if constexpr (std::is_same_v<R, float> || std::is_same_v<R, double>) {
      if (r != r) return arith::canonical_nan<R>;
    }
    return r;
  }

 private:
  BITFOLD_HD static kept joined(const kept& a, const kept& b, counts n) {
    static_assert(
        !counted || requires { Op::add(a, std::declval<Value>()); } ||
            requires { Op::add(a, std::declval<Value>().x, std::declval<Value>().y); },
        "bitfold: an operation whose merge takes counts needs an add");
    if constexpr (counted) {
      static_assert(std::is_same_v<decltype(Op::merge(a, b, n)), kept>,
                    "bitfold: merge must return what start returns");
      return Op::merge(a, b, n);
    } else {
      static_assert(std::is_same_v<decltype(Op::merge(a, b)), kept>,
                    "bitfold: merge must return what start returns");
      return Op::merge(a, b);
    }
  }
};

}  // namespace bitfold::fold
BITFOLD_HD_END
