// Contributions: arrays that are combined element by element, in the tree over them. A thread takes
// an element of all of them, or neighbouring ones.
#pragma once

#include <bitfold/cuda/contributions.hpp>
#include <bitfold/cuda/exact_results.cuh>
#include <bitfold/cuda/fused.cuh>
#include <bitfold/cuda/packets.cuh>

namespace bitfold::cuda {

// What is done with states, by an operation with a canonical order.
template <op_id Op, class M, class T, class A, class Out>
struct ordered_contributions {
  using element = T;
  using result = Out;
  using F = own::fold_of<Op, M, T, A>;
  using state = fold::partial<F, A>;

  __device__ static state of_one(T x, index which) {
    const A wide = arith::widen<A>(x);
    return F::template rebase<A>(
        method::fold_lane<F, 1>(1,
                                [&](int) {
                                  if constexpr (F::element == fold::element_kind::indexed)
                                    return fold::indexed_element<A, std::int64_t>{wide, 0};
                                  else
                                    return wide;
                                }),
        which);
  }
  __device__ static void merge(state& a, index left, const state& b, index right) {
    a = F::merge(a, b, fold::counts{left, right});
  }
  __device__ static void add(state& a, index left, T x, index which) {
    merge(a, left, of_one(x, which), 1);
  }
  __device__ static Out finish(const state& s, index n, int ddof) {
    return F::template finish<Out>(s, fold::finish_parameters{n, ddof});
  }
};

// By method exact: the sums of an element's terms.
BITFOLD_HD constexpr bool is_exact_of_few(op_id op) {
  return op == op_id::sum || op == op_id::mean;
}
template <op_id Op, class T, class Out>
struct exact_contributions {
  using element = T;
  using result = Out;
  using form = typename operation_of<Op>::type::exact;
  static constexpr int terms = sizeof(form::terms) / sizeof(form::terms[0]);
  static constexpr exact::term first = form::terms[0], last = form::terms[terms - 1];
  struct one_sum {
    exact::sum_of<T, first> a;
  };
  struct two_sums {
    exact::sum_of<T, first> a;
    exact::sum_of<T, last> b;
  };
  using state = std::conditional_t<terms == 1, one_sum, two_sums>;
  static_assert(terms <= 2);

  __device__ static state of_one(T x, index) {
    state s{};
    deposit(s, x);
    return s;
  }
  __device__ static void merge(state& a, index, const state& b, index) {
    a.a.merge(b.a);
    if constexpr (terms == 2) a.b.merge(b.b);
  }
  __device__ static void add(state& a, index, T x, index) { deposit(a, x); }
  __device__ static Out finish(const state& s, index n, int ddof) {
    const fold::finish_parameters how{n, ddof};
    if constexpr (terms == 1)
      return form::template finish<Out>(how, s.a);
    else
      return form::template finish<Out>(how, s.a, s.b);
  }

  /// Of few floats the sum, or the mean: mostly a double has the sum exactly, which is rounded
  /// then.
  static constexpr bool takes_few = is_exact_of_few(Op) && !std::is_integral_v<T> && sizeof(T) <= 4;
  template <int Count, class Get>
  __device__ static Out of_few(Get get, int ddof)
    requires takes_few
  {
    double sum = arith::widen<double>(get(0));
    bool is_exact = true;
#pragma unroll
    for (int k = 1; k < Count; ++k) {
      const auto next = arith::two_sum(sum, arith::widen<double>(get(k)));
      sum = next.sum;
      is_exact = is_exact && next.error == 0;
    }
    if (is_exact && arith::is_finite(sum)) {
      // Rounding the quotient twice is no harm: the middle of two floats times Count is a double,
      // m, and a sum that is not m is so far from it that the quotient, as a double, is not that
      // middle.
      return arith::round_to<Out>(Op == op_id::sum ? sum : sum / Count);
    }
    T x[Count];
#pragma unroll
    for (int k = 0; k < Count; ++k) x[k] = get(k);
    return by_sums(x, ddof);
  }

 private:
  template <int Count>
  __device__ __noinline__ static Out by_sums(const T (&x)[Count], int ddof) {
    state s{};
#pragma unroll 1
    for (int k = 0; k < Count; ++k) deposit(s, x[k]);
    return finish(s, Count, ddof);
  }
  __device__ static void deposit(state& s, T x) {
    exact::deposit<first>(s.a, x);
    if constexpr (terms == 2) exact::deposit<last>(s.b, x);
  }
};

// What becomes of a state: a result of all contributions, or the state itself.
template <class By, bool Finish>
using written = std::conditional_t<Finish, typename By::result, typename By::state>;
template <class By, bool Finish>
__device__ written<By, Finish> written_of(const typename By::state& s, index n, int ddof) {
  if constexpr (Finish)
    return By::finish(s, n, ddof);
  else
    return s;
}

// ---- Nodes of any kind --------------------------------------------------------------------------

// Of element i the states that all nodes leave on the stack, which has room for Depth: the result,
// if there is one; or all of them, one array behind the other. (Arrays that were left so may be
// among the nodes, and be written again.)
template <class By, bool Finish, int Depth>
__global__ void __launch_bounds__(threads_on_contributions)
    fold_nodes_of_contributions(const __grid_constant__ listed_nodes from, index n, int ddof,
                                written<By, Finish>* out) {
  using T = typename By::element;
  using state = typename By::state;
  const index threads = index{gridDim.x} * blockDim.x;
#pragma unroll 1
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += threads) {
    state kept[Depth];
    index counts[Depth];
    int top = 0;
#pragma unroll 1
    for (std::uint32_t k = 0; k < from.count; ++k) {
      const listed_node& node = from.each[k];
      std::uint32_t merges = node.merges;
      if (node.is_elements && merges > 0) {
        By::add(kept[top - 1], counts[top - 1], static_cast<const T*>(node.data)[i], node.first);
        ++counts[top - 1];
        --merges;
      } else {
        kept[top] = node.is_elements ? By::of_one(static_cast<const T*>(node.data)[i], node.first)
                                     : static_cast<const state*>(node.data)[i];
        counts[top] = node.count;
        ++top;
      }
#pragma unroll 1
      for (; merges > 0; --merges) {
        --top;
        By::merge(kept[top - 1], counts[top - 1], kept[top], counts[top]);
        counts[top - 1] += counts[top];
      }
    }
#pragma unroll 1
    for (int k = 0; k < top; ++k)
      out[static_cast<index>(k) * n + i] = written_of<By, Finish>(kept[k], counts[k], ddof);
  }
}

// ---- Few, as elements ---------------------------------------------------------------------------

// The state of contributions First to First + Count - 1, of those from `first` on; get(k) is the
// element of number k.
template <class By, int First, int Count, class Get>
__device__ typename By::state fold_tree(index first, Get get) {
  static_assert(Count <= most_of_few);
  if constexpr (Count == 1) {
    return By::of_one(get(First), first + First);
  } else {
    constexpr int left = Count > 4 ? 4 : Count > 2 ? 2 : 1, right = Count - left;
    typename By::state s = fold_tree<By, First, left>(first, get);
    if constexpr (right == 1)
      By::add(s, left, get(First + left), first + First + left);
    else
      By::merge(s, left, fold_tree<By, First + left, right>(first, get), right);
    return s;
  }
}

// What becomes of few contributions from `first` on.
template <class By, bool Finish, int Count, class Get>
__device__ written<By, Finish> fold_few(index first, int ddof, Get get) {
  if constexpr (Finish && requires { By::takes_few; })
    return By::template of_few<Count>(get, ddof);
  else
    return written_of<By, Finish>(fold_tree<By, 0, Count>(first, get), Count, ddof);
}

// N neighbouring results, as packets of at most 16 bytes.
template <class Result, int N>
struct packets_of_results {
  static constexpr int each = N * sizeof(Result) < 16 ? N : 16 / sizeof(Result), count = N / each;
  packet<Result, each> of[count];
};
// Packets of N neighbours, one of each contribution, from `first` on, become as many results.
template <class By, int Count, int N>
__device__ auto results_of_packets(const packet<typename By::element, N> (&x)[Count], index first,
                                   int ddof) {
  packets_of_results<typename By::result, N> results;
#pragma unroll
  for (int i = 0; i < N; ++i)
    results.of[i / results.each].set(
        i % results.each, fold_few<By, true, Count>(first, ddof, [&](int k) { return x[k][i]; }));
  return results;
}
// Or states, to an address that is a multiple of 16 bytes.
template <class By, bool Finish, int Count, int N>
__device__ void fold_packets(const packet<typename By::element, N> (&x)[Count], index first,
                             int ddof, written<By, Finish>* out) {
  if constexpr (Finish) {
    const auto results = results_of_packets<By>(x, first, ddof);
#pragma unroll
    for (int k = 0; k < results.count; ++k) results.of[k].store(out + k * results.each);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      out[i] = fold_tree<By, 0, Count>(first, [&](int k) { return x[k][i]; });
  }
}

// A thread takes packets of N neighbours, which lie at multiples of 16 bytes; or, where N is 1, and
// behind the last packet, single ones.
template <class By, bool Finish, int Count, int N>
__global__ void __launch_bounds__(threads_on_contributions)
    fold_few_contributions(const __grid_constant__ few_contributions from, index n, int ddof,
                           written<By, Finish>* out) {
  using T = typename By::element;
  const index thread = index{blockIdx.x} * blockDim.x + threadIdx.x,
              threads = index{gridDim.x} * blockDim.x, packets = N > 1 ? n / N : 0;
  if constexpr (N > 1) {
#pragma unroll 1
    for (index p = thread; p < packets; p += threads) {
      packet<T, N> x[Count];
#pragma unroll
      for (int k = 0; k < Count; ++k)
        x[k] = packet<T, N>::load(static_cast<const T*>(from.data[k]) + p * N);
      fold_packets<By, Finish>(x, from.first, ddof, out + p * N);
    }
  }
#pragma unroll 1
  for (index i = packets * N + thread; i < n; i += threads)
    out[i] = fold_few<By, Finish, Count>(
        from.first, ddof, [&](int k) { return static_cast<const T*>(from.data[k])[i]; });
}

}  // namespace bitfold::cuda
