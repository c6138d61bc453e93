// What is put together by scatters: the folds of places' elements, and how their results meet what
// lay there (bitfold/scatter.hpp).
#pragma once

#include <bitfold/cuda/folds.cuh>
#include <bitfold/cuda/fused.cuh>
#include <bitfold/cuda/scatter.hpp>

namespace bitfold::cuda {

/// Elements T by operation Op in A, in which the result is made, too.
template <op_id Op, class M, class T, class A>
struct scattered {
  using element = T;
  using number = A;
  using fold = own::fold_of<Op, M, T, A>;
  using state = bitfold::fold::partial<fold, A>;
  static constexpr bool places = false;

  __device__ static A taken(A x, index) { return x; }
  __device__ static A result(const state& s, index n) {
    return fold::template finish<A>(s, bitfold::fold::finish_parameters{n, 0});
  }
  __device__ static A joined(A before, A with) {
    if constexpr (Op == op_id::sum)
      return arith::add(before, with);
    else if constexpr (Op == op_id::prod)
      return arith::mul(before, with);
    else
      return result(fold::merge(fold::start(before), fold::start(with)), 2);
  }
};

/// The largest, and the number of the first one that equals it.
template <class A>
struct numbered {
  A x;
  std::uint32_t number;
};
struct first_largest {
  static constexpr auto ordering = bitfold::ordering::canonical;
  using lane_order = method::in_sequence;
  template <class A>
  __device__ static numbered<A> start(const numbered<A>& e) {
    return e;
  }
  template <class A>
  __device__ static numbered<A> add(const numbered<A>& a, const numbered<A>& b) {
    return merge(a, b);
  }
  template <class A>
  __device__ static numbered<A> merge(const numbered<A>& a, const numbered<A>& b,
                                      bitfold::fold::counts = {}) {
    const std::uint32_t first = a.number < b.number ? a.number : b.number;
    return {arith::maximum(a.x, b.x), a.x == b.x ? first : a.x > b.x ? a.number : b.number};
  }
};
template <class T, class A>
struct scattered_largest {
  using element = T;
  using number = A;
  using fold = first_largest;
  using state = numbered<A>;
  static constexpr bool places = true;

  __device__ static state taken(A x, index at) { return {x, static_cast<std::uint32_t>(at)}; }
  __device__ static A result(const state& s, index) { return s.x; }
  __device__ static A joined(A before, A with) { return arith::maximum(before, with); }
};

/// x / n, of integers rounded down.
template <class A>
__device__ A quotient(A x, index n) {
  const A by = static_cast<A>(n);
  if constexpr (std::is_floating_point_v<A>)
    return arith::div(x, by);
  else
    return static_cast<A>(x / by - (x % by < 0));
}

/// What a place has of `n` elements, at least one, whose result is that.
template <class What>
__device__ typename What::element met(const meeting& by, typename What::number result, index n,
                                      typename What::element before) {
  using T = typename What::element;
  using A = typename What::number;
  if (by.joins) result = What::joined(arith::widen<A>(before), result);
  if (by.means) result = quotient(result, n + static_cast<index>(by.joins));
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(result);
  else
    return arith::round_to<T>(result);
}

/// A leaf of `size` rows of Many neighbouring columns, by one thread: load(row, begin, step, count)
/// reads rows begin, begin + step, ..., at most `count` different ones; taken(row, i, p) is what
/// the fold takes of column p of row i.
template <class What, int Many, class Row, class Load, class Taken>
__device__ auto fold_leaf_by_thread(int size, Load load, Taken taken) {
  using fold = typename What::fold;
  using of_many = states_of_many<typename What::state, Many>;
  using of_columns = fold_of_many<fold, Many>;
  constexpr int beside = order::rows;
  // Most have few rows, of a lane each: several lanes at once, so that many loads are on their way.
  if (size <= order::lanes) {
    thread_counter<of_columns, of_many, 3> parts;
#pragma unroll 1
    for (int l = 0; l < size; l += beside) {
      const int count = min(beside, size - l);
      Row row[beside];
      load(row, l, 1, count);
      of_many s[beside];
#pragma unroll
      for (int r = 0; r < beside; ++r)
#pragma unroll
        for (int p = 0; p < Many; ++p) s[r].each[p] = fold::start(taken(row[r], l + r, p));
      fold_owned<of_columns>(s, count, [](int, int width) { return static_cast<index>(width); });
      parts.push(s[0], static_cast<index>(count));
    }
    return parts.total();
  }
  thread_counter<of_columns, of_many, 6> lanes;
#pragma unroll 1
  for (int l = 0; l < order::lanes; ++l) {
    const int rows = order::lane_size(size, l);
    Row row[beside];
    load(row, l, order::lanes, rows);
    of_many s;
#pragma unroll
    for (int p = 0; p < Many; ++p)
      s.each[p] = method::fold_lane<fold, order::rows>(
          rows, [&](int r) { return taken(row[r], r * order::lanes + l, p); });
    lanes.push(s, static_cast<index>(rows));
  }
  return lanes.total();
}

/// Of places whose results lie one behind the other: those of place k are of numbers offsets[k] to
/// offsets[k + 1] - 1.
template <class What, class Result>
__global__ void __launch_bounds__(threads_on_places)
    meet_places(const Result* results, const std::int64_t* offsets, index places,
                const __grid_constant__ meeting by, typename What::element* out) {
  using T = typename What::element;
  using A = typename What::number;
  const T* const base = static_cast<const T*>(by.base);
  for (index k = index{blockIdx.x} * blockDim.x + threadIdx.x; k < places;
       k += index{gridDim.x} * blockDim.x) {
    const auto n = static_cast<index>(offsets[k + 1] - offsets[k]);
    const T before = base ? base[k] : T{};
    out[k] = n > 0 ? met<What>(by, arith::widen<A>(results[k]), n, before) : before;
  }
}

}  // namespace bitfold::cuda
