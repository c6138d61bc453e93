// Several reductions in one pass, each with the bits that it has alone:
//
//   using namespace bitfold;
//   const auto [total, average, top] = reduce(x, ops::sum, ops::mean, ops::max);
//   const auto [product, error] = reduce(pairs(x, y), ops::dot.by<method_id::kahan>(), ops::mse);
//   const double likelihood = reduce(transform(f, x, y), ops::sum.acc<double>());
//   const complex s = reduce(z, complex_sum{});                      // an operation of one's own: own.hpp
//
// The input is a contiguous range, or a source (source.hpp). One operation gives its result, several a
// std::tuple of them, in order. On the CPU; cuda/reduce.cuh does the same on GPUs.
#pragma once

#include <cstring>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <bitfold/cpu/pass.hpp>
#include <bitfold/cpu/scalar.hpp>
#include <bitfold/own.hpp>
#include <bitfold/source.hpp>

namespace bitfold {

/// The C++ type in which Op of elements T comes out by default: as make_reduction (reduction.hpp) says.
template <op_id Op, class T>
using default_output = std::conditional_t<
    info(Op).types == typing::place || info(Op).types == typing::count, std::int64_t,
    std::conditional_t<
        info(Op).types == typing::truth, std::uint8_t,
        std::conditional_t<!std::is_integral_v<T> || info(Op).types == typing::same, T,
                           std::conditional_t<info(Op).types != typing::additive, double,
                                              std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>>>>;

/// An operation of bitfold's, by name: see ops below.
template <op_id Op, method_id Method = method_id::tree, class Acc = void, class Out = void>
struct operation {
  static constexpr op_id id = Op;
  static constexpr method_id method = Method;
  int subtracted = 0;  ///< by ddof

  /// The same by another method.
  template <method_id M>
    requires(takes(Op, M))
  constexpr operation<Op, M, Acc, Out> by() const {
    return {subtracted};
  }
  /// var and std: divided by n - d.
  constexpr operation ddof(int d) const
    requires(Op == op_id::var || Op == op_id::std)
  {
    return {d};
  }
  /// Accumulated in A: float or double.
  template <class A>
  constexpr operation<Op, Method, A, Out> acc() const {
    return {subtracted};
  }
  /// Given as an R.
  template <class R>
  constexpr operation<Op, Method, Acc, R> as() const {
    return {subtracted};
  }

  template <class T>
  using output = std::conditional_t<std::is_void_v<Out>, default_output<Op, T>, Out>;

  /// Its reduction of elements T; errors as make_reduction's.
  template <class T>
  reduction of() const {
    std::optional<dtype> a, r;
    if constexpr (!std::is_void_v<Acc>) a = dtype_of<Acc>;
    if constexpr (!std::is_void_v<Out>) r = dtype_of<Out>;
    return make_reduction(Op, takes(Op, Method) ? std::optional(Method) : std::nullopt, dtype_of<T>, a, r, subtracted);
  }
};

/// Every operation of op.hpp.
namespace ops {
#define BITFOLD_OP(name, ...) inline constexpr operation<op_id::name> name{};
BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
}  // namespace ops

namespace detail {

template <class Op>
inline constexpr bool is_built_in = false;
template <op_id Op, method_id M, class Acc, class Out>
inline constexpr bool is_built_in<operation<Op, M, Acc, Out>> = true;

template <class Source>
inline constexpr bool is_pairs = false;
template <class T>
inline constexpr bool is_pairs<pair_source<T>> = true;

/// The element type that bitfold's operations see in a source; void if it is none of theirs.
template <class Source>
auto find_element_seen() {
  using value = std::remove_cvref_t<value_of<Source>>;
  if constexpr (requires { typename Source::stored; })
    return std::type_identity<typename Source::stored>{};
  else if constexpr (std::is_arithmetic_v<value>)
    return std::type_identity<value>{};
  else
    return std::type_identity<void>{};
}
template <class Source>
using element_seen = typename decltype(find_element_seen<Source>())::type;

template <class Op, class Source>
auto result_type() {
  if constexpr (is_built_in<Op>) {
    using T = element_seen<Source>;
    static_assert(!std::is_void_v<T>, "bitfold: this operation takes arrays of f16, bf16, f32, f64 and integers, and transforms to float, double "
                  "and integers");
    static_assert((info(Op::id).inputs == 2) == is_pairs<Source>,
                  "bitfold: an operation of two inputs takes pairs(x, y), and only such a one does");
    return std::type_identity<typename Op::template output<T>>{};
  } else {
    using F = fold::own<Op, value_of<Source>>;
    return std::type_identity<decltype(F::result(std::declval<typename F::template state<void>>(), 0))>{};
  }
}
template <class Op, class Source>
using result_of = typename decltype(result_type<Op, Source>())::type;

/// A source as the CPU's engine takes it.
template <class Source>
struct made_by {
  using accumulator = value_of<Source>;
  const Source* from;
  order::index first;
  made_by ahead(int elements) const { return {from, first + static_cast<order::index>(elements)}; }
  accumulator elements(int i) const { return element(i); }
  accumulator element(int i) const { return (*from)(first + static_cast<order::index>(i)); }
};

template <class Op, class Source>
cpu::own_fold own_fold_of(const Source& from, void* out) {
  using F = fold::own<Op, value_of<Source>>;
  using state = typename F::template state<void>;
    cpu::own_fold f{};
  f.source = &from;
  f.state_bytes = sizeof(state);
  f.fold = [](const void* source, order::index first, std::size_t n, void* to) {
    const made_by<Source> begin{static_cast<const Source*>(source), first};
    const state s = cpu::scalar_kernels::engine<F, made_by<Source>>::run(
        begin, n / order::leaf, static_cast<int>(n % order::leaf), first);
    std::memcpy(to, &s, sizeof s);
  };
  f.merge = [](void* a, order::index left, const void* b, order::index right) {
    state s, t;
    std::memcpy(static_cast<void*>(&s), a, sizeof s);
    std::memcpy(static_cast<void*>(&t), b, sizeof t);
    s = F::merge(s, t, fold::counts{left, right});
    std::memcpy(a, &s, sizeof s);
  };
  f.finish = [](const void* from_state, order::index n, void* to) {
    state s;
    std::memcpy(static_cast<void*>(&s), from_state, sizeof s);
    *static_cast<result_of<Op, Source>*>(to) = F::result(s, n);
  };
  f.out = out;
  return f;
}

}  // namespace detail

/// See above. Errors: those of make_reduction and cpu::reduce; no elements where an operation has no result for
/// them (errc::usage).
template <detail::input Input, class... Op>
auto reduce(const cpu::options& how, const Input& input, const Op&... op) {
  static_assert(sizeof...(Op) > 0, "bitfold: reduce wants an operation");
  const auto from = detail::source_of(input);
  using S = std::remove_cv_t<decltype(from)>;
  using T = detail::element_seen<S>;
  std::tuple<detail::result_of<Op, S>...> results{};

  constexpr std::size_t built_ins = (std::size_t{detail::is_built_in<Op>} + ...);
  cpu::pass p;
  p.n = from.n;
  p.element = S::element_bytes;
  std::vector<reduction> all;
  std::vector<cpu::own_fold> own;
  if constexpr (built_ins > 0) {
    if constexpr (requires { typename S::stored; }) {
      p.x = from.x;
      if constexpr (detail::is_pairs<S>) p.y = from.y;
    } else {
      p.source = &from;
      p.make = [](const void* source_, order::index first, std::size_t n, void* to, void*) {
        const S& values = *static_cast<const S*>(source_);
        T* out = static_cast<T*>(to);
        for (std::size_t i = 0; i < n; ++i) out[i] = values(first + i);
      };
    }
  }
  const auto ask = [&]<class O>(const O& o, auto& result) {
    if constexpr (detail::is_built_in<O>) {
      all.push_back(o.template of<T>());
    } else {
      if (from.n > 0) {
        own.push_back(detail::own_fold_of<O>(from, &result));
      } else if constexpr (requires { O::empty(); }) {
        result = O::empty();
      } else {
        throw error(errc::usage, "n: a reduction of no elements that has no empty()");
      }
    }
  };
  const auto each = [&](auto&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f(op, std::get<I>(results)), ...); }(
        std::index_sequence_for<Op...>{});
  };
  each(ask);
  p.all = all;
  p.own = own;
  std::vector<scalar> scalars(built_ins);
  cpu::reduce(p, scalars, how);
  std::size_t next = 0;
  each([&]<class O>(const O&, auto& result) {
    if constexpr (detail::is_built_in<O>) store_scalar(scalars[next++], &result);
  });
  if constexpr (sizeof...(Op) == 1)
    return std::get<0>(std::move(results));
  else
    return results;
}
template <detail::input Input, class... Op>
auto reduce(const Input& input, const Op&... op) {
  return reduce(cpu::options{}, input, op...);
}

}  // namespace bitfold
