// The seam between host code and the kernels, and the list of the kernels that there are.
#pragma once

#include "../dispatch.hpp"
#include "plan.hpp"

namespace bitfold::cuda {

/// The input or inputs, as kernels take them.
struct elements {
  const void *x, *y;
  dtype type;
  bool aligned;  // both, to 16 bytes
};
/// Whether a kernel knows that its elements are aligned, knows that they are not, or looks.
enum class alignment { known, missing, asked };

/// Where a result goes, and what it depends on besides the state.
struct result {
  void* out;
  dtype type;
  op_id op;
  int ddof;
};

struct arguments {
  elements data;
  std::size_t n;
  result how;
  void* workspace;
  stream where;
  bool overlap;
};

// ---- What is compiled: for each reduction one kernel, in one of the parts, a file each -----------------

enum class part { f16, bf16, f32, f64, in_f64, integer_sums, widened_floats, widened_integers };
inline constexpr int parts = 8;

/// The fold of `sum` itself, which has kernels to itself; other operations share those of their base.
template <class F>
inline constexpr bool is_plain_sum = false;
template <class M>
inline constexpr bool is_plain_sum<fold::summed<M, fold::itself>> = true;
template <class F>
inline constexpr bool is_sum_of_squares = false;
template <class M>
inline constexpr bool is_sum_of_squares<fold::additive<M, fold::square>> = true;

/// The kernel of a fold for elements T widened to A: it takes them as they are stored, if that is worth a
/// kernel, or else as anything that A holds.
template <class F, class T, class A>
struct kernel_choice {
  static constexpr bool narrow_to_f64 = std::is_same_v<A, double> && !std::is_same_v<T, double>;
  static constexpr bool stored =
      std::is_integral_v<A> == std::is_integral_v<T> &&
      (is_plain_sum<F> || std::is_same_v<T, double> ||
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

/// Calls f.template operator()<F, T, A>() for r: its fold (less the finish, where kernels are shared), its
/// element type, its accumulator; null for what is not in the canonical order.
template <class Result, class Function>
Result with_kernel(const reduction& r, Function&& f) {
  return detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> Result {
    using F = typename Chosen::fold;
    using A = typename Chosen::accumulator;
    if constexpr (F::ordering != ordering::canonical) {
      return Result{};
    } else {
      return visit(r.in(), [&]<class T>(std::type_identity<T>) -> Result {
        constexpr bool held = std::is_integral_v<A> ? std::is_integral_v<T> && std::is_signed_v<T> == std::is_signed_v<A>
                              : std::is_same_v<A, float> ? !std::is_integral_v<T> && !std::is_same_v<T, double>
                                                         : true;
        if constexpr (held)
          return f.template operator()<std::conditional_t<is_plain_sum<F>, F, typename F::base>, T, A>();
        else
          return Result{};
      });
    }
  });
}

/// Enqueues the plan; returns the name of the CUDA error, or null. Each part is compiled in its own file.
template <part P>
const char* launch_part(const reduction& r, const plan& p, const arguments& a);

/// Enqueues count_distinct, by a radix sort in sort_workspace's room; likewise.
const char* launch_distinct(const arguments& a);

}  // namespace bitfold::cuda
