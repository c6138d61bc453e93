// The folds, for scalars on host and device. See fold.inl for what a fold is, ops/ for one per
// operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <bitfold/arith.hpp>
#include <bitfold/exact.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/method.hpp>
#include <bitfold/op.hpp>
#include <bitfold/order.hpp>

namespace bitfold::fold {

/// Room for the partial of any fold.
inline constexpr std::size_t max_state_bytes = 256;

/// What a fold takes for an element.
enum class element_kind : std::uint8_t { single, pair, indexed };

/// The numbers of elements of the two states that a merge joins.
struct counts {
  order::index left = 0, right = 0;
};

/// What a result depends on besides the state.
struct finish_parameters {
  order::index n = 0;
  int ddof = 0;
};

/// The result of dispatch: a fold, the type to which elements are widened, and the operation's
/// typing.
template <class F, class A, typing Types>
struct chosen {
  using fold = F;
  using accumulator = A;  ///< float, double, int64_t or uint64_t
  static constexpr typing types = Types;
};

/// Whether operations of these types accumulate in A.
template <typing Types, class A>
constexpr bool accumulates() {
  if (Types == typing::wide) return std::is_same_v<A, double>;
  if (Types == typing::real) return !std::is_integral_v<A>;
  return true;
}

/// Whether elements T may be widened to A.
template <class A, class T>
BITFOLD_HD constexpr bool holds() {
  if (std::is_integral_v<A>)
    return std::is_integral_v<T> && std::is_signed_v<T> == std::is_signed_v<A>;
  return std::is_same_v<A, double> || (!std::is_integral_v<T> && !std::is_same_v<T, double>);
}

}  // namespace bitfold::fold

namespace bitfold {
#define BITFOLD_INLINE BITFOLD_HD inline
#define BITFOLD_LAMBDA
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ on array bounds of type int
#include <bitfold/ops.inl>
#pragma GCC diagnostic pop
#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
}  // namespace bitfold

namespace bitfold::fold {
/// The rebased state of F for elements widened to A. Its indices count from the start of the array,
/// so that chunks, passes and parts can hand it on.
template <class F, class A>
using partial = decltype(F::template rebase<A>(std::declval<typename F::template state<A>>(), 0));
}  // namespace bitfold::fold
