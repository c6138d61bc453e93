// The seam between host code and the kernels, and the list of the kernels that there are.
#pragma once

#include <tuple>

#include <bitfold/cuda/plan.hpp>

#include "../dispatch.hpp"

namespace bitfold::cuda {

/// Where a result goes, and what it depends on besides the state.
struct result {
  void* out;
  dtype type;
  op_id op;
  int ddof;
};
/// The results of one kernel.
inline constexpr int most_results = 8;
struct result_list {
  int count;
  result each[most_results];
};

/// Of a kernel that does any set of reductions (see `members`): which of its members are wanted,
/// and their results.
inline constexpr int most_members = 48, most_member_results = 32;
inline constexpr std::size_t most_record = 368;  ///< bytes: a block has room for 128 of them
struct member_results {
  sizes of;  ///< the states of all that are wanted, one behind the other: a record; and the largest
  std::uint64_t wanted;           ///< a bit for each member
  std::int16_t at[most_members];  ///< of those, where its state is in a record
  int count;
  std::int16_t member[most_member_results];  ///< of each result
  result each[most_member_results];
};

struct arguments {
  elements data;  ///< those that are there: all n, unless they come in parts
  std::size_t n;
  std::size_t first, count;  ///< which of them these are
  result_list how;
  void* workspace;
  stream where;
  bool overlap;
  const member_results* members = nullptr;  ///< instead of `how`, of kernels for any set
};

// ---- What is compiled: kernels, each in one of the parts, a file each ---------------------------

/// Which of the kernels of a reduction: one of its own, which `sum` has; the one that all
/// operations of the same base share; or one of several bases (see `company`), fewer first; or of
/// any of them (see `members`), as they accumulate by themselves, or all in f64.
enum class kernel_kind {
  own,
  shared,
  extremes,
  min_and_place,
  max_and_place,
  mean_and_variance,
  softmax,
  statistics,
  any_set,
  any_set_in_f64
};
inline constexpr kernel_kind companies[] = {
    kernel_kind::extremes,          kernel_kind::min_and_place, kernel_kind::max_and_place,
    kernel_kind::mean_and_variance, kernel_kind::softmax,       kernel_kind::statistics,
    kernel_kind::any_set,           kernel_kind::any_set_in_f64};
/// The last ones are.
constexpr bool is_set(kernel_kind kind) { return kind >= kernel_kind::any_set; }

enum class part { f16, bf16, f32, f64, in_f64, integer_sums, widened_floats, widened_integers };
inline constexpr int parts = 8;

/// The fold of `sum` itself, which has kernels to itself; other operations share those of their
/// base.
template <class F>
inline constexpr bool is_sum_itself = false;
template <class M>
inline constexpr bool is_sum_itself<fold::summed<M, fold::identity>> = true;
template <class F>
inline constexpr bool is_sum_of_squares = false;
template <class M>
inline constexpr bool is_sum_of_squares<fold::additive<M, fold::square>> = true;

/// Folds that are often asked for together: in the method tree and without a wider accumulator they
/// have one kernel for all. (sum and mean, var and std are of one base each.)
template <class... F>
struct company_of;
template <class F>
struct company_of<F> {
  using fold = F;
  template <class G>
  static constexpr bool has = std::is_same_v<F, G>;
};
template <class F, class... Rest>
struct company_of<F, Rest...> {
  using fold = bitfold::fold::both<F, typename company_of<Rest...>::fold>;
  template <class G>
  static constexpr bool has = std::is_same_v<F, G> || company_of<Rest...>::template has<G>;
};
using smallest = op::extremum<op::smaller>::accumulation;
using largest = op::extremum<op::larger>::accumulation;
using total = fold::additive<method::tree, fold::identity>;
using variance = op::moments<2>;
/// An extreme and its place, which are one state.
template <bool Largest>
struct company_of<op::arg_and_extremum<Largest>> {
  using fold = op::arg_and_extremum<Largest>;
  template <class G>
  static constexpr bool has = std::is_same_v<G, typename fold::accumulation> ||
                              std::is_same_v<G, typename fold::extremum_accumulation>;
};
template <kernel_kind>
struct company : company_of<smallest, largest> {};
template <>
struct company<kernel_kind::min_and_place> : company_of<op::arg_and_extremum<false>> {};
template <>
struct company<kernel_kind::max_and_place> : company_of<op::arg_and_extremum<true>> {};
template <>
struct company<kernel_kind::mean_and_variance> : company_of<total, variance> {};
template <>
struct company<kernel_kind::softmax> : company_of<largest, op::logsumexp_fold> {};
template <>
struct company<kernel_kind::statistics> : company_of<total, smallest, largest, variance> {};

/// Whether a reduction of that base, elements T accumulated in A, is one of them.
template <kernel_kind Kind, class Base, class T, class A>
inline constexpr bool in_company =
    company<Kind>::template has<Base> && std::is_floating_point_v<A> && !std::is_integral_v<T> &&
    std::is_same_v<A, double> == std::is_same_v<T, double>;

/// Whether there is a kernel of a fold for elements T widened to A. With
/// BITFOLD_CUDA_KERNELS=sample, which compiles one of each sort and runs nothing else, there are
/// few.
template <class F, class T, class A>
inline constexpr bool is_compiled =
#ifdef BITFOLD_SAMPLE_OF_KERNELS
    std::is_same_v<F, total> || std::is_same_v<F, fold::summed<method::tree, fold::identity>> ||
    (std::is_same_v<T, float> && std::is_same_v<A, float> &&
     (std::is_same_v<F, variance> || std::is_same_v<F, op::arg_fold<true>> ||
      std::is_same_v<F, op::logsumexp_fold> ||
      std::is_same_v<F, company<kernel_kind::extremes>::fold>));
#else
    true;
#endif

/// Likewise of exact sums of many outputs.
template <class T>
inline constexpr bool is_exact_compiled =
#ifdef BITFOLD_SAMPLE_OF_KERNELS
    std::is_same_v<T, float>;
#else
    true;
#endif

/// Elements T that a warp folds at once.
template <class T>
constexpr index tile_of(bool stored, bool two) {
  return stored ? tile_bytes / sizeof(T) : two ? widened_pairs : widened_tile;
}

/// The kernel of a fold for elements T widened to A: it takes them as they are stored, if that is
/// worth a kernel, or else as anything that A holds.
template <class F, class T, class A>
struct kernel_choice {
  static constexpr bool narrow_to_f64 = std::is_same_v<A, double> && !std::is_same_v<T, double>;
  static constexpr bool stored =
      std::is_integral_v<A> == std::is_integral_v<T> &&
      (is_sum_itself<F> || std::is_same_v<T, double> ||
       (!std::is_integral_v<T> && (!narrow_to_f64 || is_sum_of_squares<F>)));
  static constexpr index tile = tile_of<T>(stored, F::element == fold::element_kind::pair);
  /// As in `sizes`.
  static constexpr index by_tiles = !stored ? 0 : is_sum_itself<F> ? 16 * tile : by_tiles_of(tile);
  static constexpr part in =
      !stored ? (std::is_integral_v<A> ? part::widened_integers : part::widened_floats)
      : std::is_integral_v<A>       ? part::integer_sums
      : narrow_to_f64               ? part::in_f64
      : std::is_same_v<T, float16>  ? part::f16
      : std::is_same_v<T, bfloat16> ? part::bf16
      : std::is_same_v<T, float>    ? part::f32
                                    : part::f64;
};

/// Calls f.template operator()<F, T, A>() for r, if its order is the canonical one: its fold, its
/// element type, its accumulator; else gives Result{}.
template <class Result, class Function>
Result with_fold(const reduction& r, Function&& f) {
  return detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> Result {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering == ordering::canonical)
      return visit(r.in(), [&]<class T>(std::type_identity<T>) -> Result {
        if constexpr (fold::holds<A, T>())
          return f.template operator()<F, T, A>();
        else
          return Result{};
      });
    else
      return Result{};
  });
}

/// Likewise, of that kernel. What there is no kernel for gives Result{}.
template <class Result, class Function>
Result with_kernel(kernel_kind kind, const reduction& r, Function&& f) {
  return with_fold<Result>(r, [&]<class F, class T, class A>() -> Result {
    using Base = typename F::accumulation;
    const auto call = [&]<class Fold>(std::type_identity<Fold>) -> Result {
      if constexpr (is_compiled<Fold, T, A>)
        return f.template operator()<Fold, T, A>();
      else
        return Result{};
    };
    if constexpr (is_sum_itself<F>)
      if (kind == kernel_kind::own) return call(std::type_identity<F>{});
    const auto among = [&]<kernel_kind Kind>() -> Result {
      if constexpr (in_company<Kind, Base, T, A>)
        return call(std::type_identity<typename company<Kind>::fold>{});
      else
        return Result{};
    };
    switch (kind) {
      case kernel_kind::extremes: return among.template operator()<kernel_kind::extremes>();
      case kernel_kind::min_and_place:
        return among.template operator()<kernel_kind::min_and_place>();
      case kernel_kind::max_and_place:
        return among.template operator()<kernel_kind::max_and_place>();
      case kernel_kind::mean_and_variance:
        return among.template operator()<kernel_kind::mean_and_variance>();
      case kernel_kind::softmax: return among.template operator()<kernel_kind::softmax>();
      case kernel_kind::statistics: return among.template operator()<kernel_kind::statistics>();
      case kernel_kind::own:
      case kernel_kind::shared: return call(std::type_identity<Base>{});
      case kernel_kind::any_set:
      case kernel_kind::any_set_in_f64: break;  // these have with_set
    }
    return Result{};
  });
}

// ---- Any set of reductions of the same elements ----

/// A fold, and what it widens elements to.
template <class F, class A>
struct member {
  using fold = F;
  using accumulator = A;
};
template <class... M>
struct members {
  static constexpr int count = sizeof...(M);
  template <int I>
  using at = std::tuple_element_t<I, std::tuple<M...>>;
  static constexpr std::size_t bytes[count + 1] = {
      sizeof(bitfold::fold::partial<typename M::fold,
                                    typename M::accumulator>)...};  ///< of a state; and one more,
                                                                    ///< as there may be none
  /// Which one it is, or -1.
  template <class Wanted>
  static constexpr int find() {
    int i = 0;
    return ((++i, std::is_same_v<M, Wanted>) || ...) ? i - 1 : -1;
  }
};
/// Those of both, each once.
template <class... M>
constexpr auto operator+(members<M...> all, members<>) {
  return all;
}
template <class... M, class First, class... Rest>
constexpr auto operator+(members<M...>, members<First, Rest...>) {
  if constexpr (members<M...>::template find<First>() >= 0)
    return members<M...>{} + members<Rest...>{};
  else
    return members<M..., First>{} + members<Rest...>{};
}

/// The member that Op by method M is, if it is one and compiled.
template <class Op, class M, typing Types, bool Takes, class T, class W, bool Two>
constexpr auto members_of_method() {
  // As make_reduction chooses it; or f64, for what can be asked for in that.
  constexpr bool adds = Types == typing::additive || Types == typing::real;
  using Own = std::conditional_t<std::is_integral_v<W> || std::is_same_v<T, double>, W, float>;
  using A =
      std::conditional_t<Types == typing::wide || (Types == typing::real && std::is_integral_v<W>),
                         double, std::conditional_t<adds, W, Own>>;
  using Like = std::conditional_t<std::is_same_v<A, double> && !std::is_same_v<T, double>, float,
                                  A>;  // as detail::dispatch has it
  using F = typename Op::template fold<M, Like>;
  constexpr bool chosen = std::is_same_v<M, method::tree> || (Takes && !std::is_integral_v<A>);
  if constexpr (!chosen || F::ordering != ordering::canonical)
    return members<>{};
  else if constexpr ((F::element == fold::element_kind::pair) != Two ||
                     !is_compiled<typename F::accumulation, T, A>)
    return members<>{};
  else
    return members<member<typename F::accumulation, A>>{};
}
template <class Op, typing Types, bool Takes, class T, class W, bool Two>
constexpr auto members_of_op() {
  return members<> {}
#define BITFOLD_METHOD(name, ...) +members_of_method<Op, method::name, Types, Takes, T, W, Two>()
  BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
      ;
}
template <class T, class W, bool Two>
constexpr auto members_of_set() {
  return members<> {}
#define BITFOLD_OP(name, inputs, takes_method, has_exact, types, ...) \
  +members_of_op<op::name##_op, typing::types, takes_method, T, W, Two>()
  BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
  // In f64 besides, what bounds of narrower sums are made of.
  +members_of_op<op::norm_l1_op, typing::wide, false, T, W, Two>();
}

/// What one kernel can do at once for elements like T (integers: i64 or u64) that are read as W, of
/// one input or of two: each base once, in the accumulator that make_reduction chooses for it; or,
/// where W is f64 but T is not, in that, if it can be asked for.
template <class T, class W, bool Two>
struct set_of {
  using element = T;
  using wide = W;
  static constexpr bool two = Two;
  static constexpr bool stored =
      !std::is_integral_v<W> &&
      std::is_same_v<T, double> == std::is_same_v<W, double>;  // as kernel_choice has it
  static constexpr part in = std::is_integral_v<W> ? part::widened_integers
                             : !stored             ? part::widened_floats
                                                   : kernel_choice<void, T, W>::in;
  static constexpr index tile = tile_of<T>(stored, Two);
  using list = decltype(members_of_set<T, W, Two>());
  static_assert(list::count <= most_members);
};

/// Calls f.template operator()<Set>(m) for r: the set, and which member of it r is. What is in no
/// set, or in one of no others, gives Result{}.
template <class Result, class Function>
Result with_set(kernel_kind kind, const reduction& r, Function&& f) {
  return with_fold<Result>(r, [&]<class F, class T, class A>() -> Result {
    const auto in = [&]<class Like, class W>(std::type_identity<Like>,
                                             std::type_identity<W>) -> Result {
      using set = set_of<Like, W, F::element == fold::element_kind::pair>;
      constexpr int at = set::list::template find<member<typename F::accumulation, A>>();
      if constexpr (at >= 0 && set::list::count > 1)
        return f.template operator()<set>(at);
      else
        return Result{};
    };
    if constexpr (!std::is_integral_v<T> && !std::is_same_v<T, double>) {
      if (kind == kernel_kind::any_set)
        return in(std::type_identity<T>{}, std::type_identity<float>{});
      return in(std::type_identity<float>{}, std::type_identity<double>{});
    } else {
      using W =
          std::conditional_t<!std::is_integral_v<T>, double,
                             std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;
      if (kind == kernel_kind::any_set) return in(std::type_identity<W>{}, std::type_identity<W>{});
      return Result{};
    }
  });
}

/// Enqueues the plan of that kernel, which is r's; returns the name of the CUDA error, or null.
/// Each part is compiled in its own file.
template <part P>
const char* launch_part(kernel_kind kind, const reduction& r, const plan& p, const arguments& a);

/// Bytes of workspace for a sort of the keys of n elements. Errors (errc::cuda): CUB's.
std::size_t sort_workspace(dtype in, std::size_t n);
/// Enqueues count_distinct, by a radix sort in sort_workspace's room; likewise.
const char* launch_distinct(const arguments& a);

}  // namespace bitfold::cuda
