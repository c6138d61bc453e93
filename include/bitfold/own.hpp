// Operations of the caller's own. Such an operation is a struct of static functions, BITFOLD_HD if it is to
// run on GPUs too:
//
//   struct complex_sum {
//     struct state { double re, im; };                     // any trivially copyable type, up to 256 bytes
//     BITFOLD_HD static state start(complex x);            // of one element; two arguments for pairs()
//     BITFOLD_HD static state merge(state a, state b);     // of two neighbouring runs, a left of b
//     BITFOLD_HD static complex finish(state s, std::uint64_t n);  // the result for n elements
//   };
//
// and, if wanted: add(state s, element x), which is else merge(s, start(x)); a third argument of merge,
// fold::counts, which says how many elements a and b have; finish(state) without n; empty(), the result for no
// elements, which is else an error. The states are merged in the canonical order (order.hpp), lanes one
// by one, whatever runs them.
#pragma once

#include <type_traits>

#include <bitfold/fold.hpp>

BITFOLD_HD_BEGIN
namespace bitfold::fold {

/// A state of which nothing is known: moved as words of 32 bits.
template <class S>
struct opaque {
  static_assert(std::is_trivially_copyable_v<S>, "bitfold: a state must be trivially copyable");
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
  using base = own;
  static constexpr auto ordering = bitfold::ordering::canonical;
  static constexpr input takes = input::one;
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
  BITFOLD_HD static opaque<kept> settle(opaque<kept> s, order::index) {
    return s;
  }
  BITFOLD_HD static auto result(const opaque<kept>& s, std::uint64_t n) {
    if constexpr (requires { Op::finish(s.value, n); })
      return Op::finish(s.value, n);
    else
      return Op::finish(s.value);
  }

 private:
  BITFOLD_HD static kept joined(const kept& a, const kept& b, counts n) {
    static_assert(!counted || requires { Op::add(a, std::declval<Value>()); } ||
                      requires { Op::add(a, std::declval<Value>().x, std::declval<Value>().y); },
                  "bitfold: an operation whose merge takes counts needs an add");
    if constexpr (counted)
      return Op::merge(a, b, n);
    else
      return Op::merge(a, b);
  }
};

}  // namespace bitfold::fold
BITFOLD_HD_END
