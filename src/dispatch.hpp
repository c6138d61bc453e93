// From the run-time description of a reduction to C++ types: the one list of what there is.
#pragma once

#include <bitfold/fold.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::detail {

/// Calls f(fold::chosen<F, A, Types>{}), F from Algebra (bitfold::algebra, or a SIMD target's). All
/// methods agree on integers that add as integers, which use `tree`; u64 wraps like i64, but is
/// kept apart because a float output sees the sign.
template <class Algebra, class F>
decltype(auto) dispatch(const reduction& r, F&& f) {
  const method_id m = r.method().value_or(method_id::tree);
  const auto with = [&]<class T, class A>(std::type_identity<T>,
                                          std::type_identity<A>) -> decltype(auto) {
    return Algebra::template visit<T, A>(r.op(), m, f);
  };
  if (r.acc() == dtype::f32) return with(std::type_identity<float>{}, std::type_identity<float>{});
  if (r.acc() == dtype::i64)
    return with(std::type_identity<std::int64_t>{}, std::type_identity<std::int64_t>{});
  if (r.acc() == dtype::u64)
    return with(std::type_identity<std::uint64_t>{}, std::type_identity<std::uint64_t>{});
  if (r.in() == dtype::f64) return with(std::type_identity<double>{}, std::type_identity<double>{});
  return with(std::type_identity<float>{}, std::type_identity<double>{});
}

/// Whether an operation has an exact form.
template <class Op>
concept has_form = requires { typename Op::exact; };

inline ordering ordering_of(const reduction& r) {
  return dispatch<algebra>(r, []<class Chosen>(Chosen) { return Chosen::fold::ordering; });
}

/// Whether an operation of these types, accumulated in A, may have the output type Out.
template <typing Types, class A, class Out>
BITFOLD_HD constexpr bool gives() {
  constexpr bool is_integer = std::is_integral_v<Out>;
  switch (Types) {
    case typing::additive: return std::is_integral_v<A> || !is_integer;
    case typing::real:
    case typing::wide: return !is_integer;
    case typing::same: return std::is_integral_v<A> == is_integer;
    case typing::place:
    case typing::count: return std::is_same_v<Out, std::int64_t>;
    case typing::truth: return std::is_same_v<Out, std::uint8_t>;
  }
  return false;
}

/// v as a scalar of type Out.
template <class Out>
scalar as_scalar(Out v) {
  using bits = std::conditional_t<
      sizeof(Out) == 8, std::uint64_t,
      std::conditional_t<sizeof(Out) == 4, std::uint32_t,
                         std::conditional_t<sizeof(Out) == 2, std::uint16_t, std::uint8_t>>>;
  return {dtype_of<Out>, arith::bit_cast<bits>(v)};
}

/// The result of a partial of n elements.
template <class Chosen, class S>
scalar finished(const reduction& r, const S& s, order::index n) {
  return visit(r.out(), [&]<class Out>(std::type_identity<Out>) -> scalar {
    if constexpr (gives<Chosen::types, typename Chosen::accumulator, Out>()) {
      return as_scalar(Chosen::fold::template finish<Out>(s, fold::finish_parameters{n, r.ddof()}));
    } else {
      return {};  // not reached: make_reduction gave it a type that it can have
    }
  });
}

/// Refuses (errc::usage) a null pointer with n > 0, and one input too many or too few for r.
[[noreturn]] void refuse_inputs(const reduction& r, const void* x);
inline void check_inputs(const reduction& r, const void* x, const void* y, std::size_t n) {
  if (n > 0 && (x == nullptr || (y != nullptr) != (info(r.op()).inputs == 2))) refuse_inputs(r, x);
}

/// Refuses (errc::usage) two reductions that no pass can do together.
void check_together(const reduction& a, const reduction& b);

/// The result for no elements. Errors (errc::usage): the operation has none.
scalar empty_result(const reduction& r);

}  // namespace bitfold::detail
