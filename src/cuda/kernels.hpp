// The seam between host code and the kernels, and the list of the kernels that there are.
#pragma once

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

struct arguments {
  elements data;             ///< those that are there: all n, unless they come in parts
  std::size_t n;
  std::size_t first, count;  ///< which of them these are
  result_list how;
  void* workspace;
  stream where;
  bool overlap;
};

// ---- What is compiled: kernels, each in one of the parts, a file each ----------------------------------

/// Which of the kernels of a reduction: one of its own, which `sum` has; the one that all operations of the
/// same base share; or one of several bases (see `company`), fewer first.
enum class kernel_kind { own, shared, extremes, min_and_place, max_and_place, mean_and_variance, softmax, statistics };
inline constexpr kernel_kind companies[] = {kernel_kind::extremes,          kernel_kind::min_and_place, kernel_kind::max_and_place,
                                            kernel_kind::mean_and_variance, kernel_kind::softmax,       kernel_kind::statistics};

enum class part { f16, bf16, f32, f64, in_f64, integer_sums, widened_floats, widened_integers };
inline constexpr int parts = 8;

/// The fold of `sum` itself, which has kernels to itself; other operations share those of their base.
template <class F>
inline constexpr bool is_sum_itself = false;
template <class M>
inline constexpr bool is_sum_itself<fold::summed<M, fold::itself>> = true;
template <class F>
inline constexpr bool is_sum_of_squares = false;
template <class M>
inline constexpr bool is_sum_of_squares<fold::additive<M, fold::square>> = true;

/// Folds that are often asked for together: in the method tree and without a wider accumulator they have one
/// kernel for all. (sum and mean, var and std are of one base each.)
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
using smallest = op::extremum<op::smaller>::base;
using largest = op::extremum<op::larger>::base;
using total = fold::additive<method::tree, fold::itself>;
using variance = op::moments<2>;
/// An extreme and its place, which are one state.
template <bool Largest>
struct company_of<op::place_and_extreme<Largest>> {
  using fold = op::place_and_extreme<Largest>;
  template <class G>
  static constexpr bool has = std::is_same_v<G, typename fold::base> || std::is_same_v<G, typename fold::extreme>;
};
template <kernel_kind>
struct company : company_of<smallest, largest> {};
template <>
struct company<kernel_kind::min_and_place> : company_of<op::place_and_extreme<false>> {};
template <>
struct company<kernel_kind::max_and_place> : company_of<op::place_and_extreme<true>> {};
template <>
struct company<kernel_kind::mean_and_variance> : company_of<total, variance> {};
template <>
struct company<kernel_kind::softmax> : company_of<largest, op::logsumexp_fold> {};
template <>
struct company<kernel_kind::statistics> : company_of<total, smallest, largest, variance> {};

/// Whether a reduction of that base, elements T accumulated in A, is one of them.
template <kernel_kind Kind, class Base, class T, class A>
inline constexpr bool in_company = company<Kind>::template has<Base> && std::is_floating_point_v<A> &&
                                   !std::is_integral_v<T> && std::is_same_v<A, double> == std::is_same_v<T, double>;

/// Whether there is a kernel of a fold for elements T widened to A. With BITFOLD_CUDA_KERNELS=sample, which compiles one of each
/// sort and runs nothing else, there are few.
template <class F, class T, class A>
inline constexpr bool is_compiled =
#ifdef BITFOLD_SAMPLE_OF_KERNELS
    std::is_same_v<F, total> || std::is_same_v<F, fold::summed<method::tree, fold::itself>> ||
    (std::is_same_v<T, float> && std::is_same_v<A, float> && (std::is_same_v<F, variance> || std::is_same_v<F, op::place_fold<true>> || std::is_same_v<F, op::logsumexp_fold> ||
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

/// The kernel of a fold for elements T widened to A: it takes them as they are stored, if that is worth a
/// kernel, or else as anything that A holds.
template <class F, class T, class A>
struct kernel_choice {
  static constexpr bool narrow_to_f64 = std::is_same_v<A, double> && !std::is_same_v<T, double>;
  static constexpr bool stored =
      std::is_integral_v<A> == std::is_integral_v<T> &&
      (is_sum_itself<F> || std::is_same_v<T, double> ||
       (!std::is_integral_v<T> &&
        (!narrow_to_f64 || is_sum_of_squares<F>)));
  static constexpr part in = !stored ? (std::is_integral_v<A> ? part::widened_integers : part::widened_floats)
                             : std::is_integral_v<A>            ? part::integer_sums
                             : narrow_to_f64                    ? part::in_f64
                             : std::is_same_v<T, float16>       ? part::f16
                             : std::is_same_v<T, bfloat16>      ? part::bf16
                             : std::is_same_v<T, float>         ? part::f32
                                                                : part::f64;
};

/// Calls f.template operator()<F, T, A>() for r: the fold of that kernel, its element type, its accumulator.
/// What there is no kernel for gives Result{}.
template <class Result, class Function>
Result with_kernel(kernel_kind kind, const reduction& r, Function&& f) {
  return detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> Result {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering == ordering::canonical) {
      return visit(r.in(), [&]<class T>(std::type_identity<T>) -> Result {
        if constexpr (fold::holds<A, T>()) {
          using Base = typename F::base;
          const auto call = [&]<class Fold>(std::type_identity<Fold>) -> Result {
            if constexpr (is_compiled<Fold, T, A>) return f.template operator()<Fold, T, A>();
            else return Result{};
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
            case kernel_kind::min_and_place: return among.template operator()<kernel_kind::min_and_place>();
            case kernel_kind::max_and_place: return among.template operator()<kernel_kind::max_and_place>();
            case kernel_kind::mean_and_variance: return among.template operator()<kernel_kind::mean_and_variance>();
            case kernel_kind::softmax: return among.template operator()<kernel_kind::softmax>();
            case kernel_kind::statistics: return among.template operator()<kernel_kind::statistics>();
            case kernel_kind::own:
            case kernel_kind::shared: return call(std::type_identity<Base>{});
          }
        }
        return Result{};
      });
    } else {
      return Result{};
    }
  });
}

/// Enqueues the plan of that kernel, which is r's; returns the name of the CUDA error, or null. Each part is
/// compiled in its own file.
template <part P>
const char* launch_part(kernel_kind kind, const reduction& r, const plan& p, const arguments& a);

/// Bytes of workspace for a sort of the keys of n elements. Errors (errc::cuda): CUB's.
std::size_t sort_workspace(dtype in, std::size_t n);
/// Enqueues count_distinct, by a radix sort in sort_workspace's room; likewise.
const char* launch_distinct(const arguments& a);

}  // namespace bitfold::cuda
