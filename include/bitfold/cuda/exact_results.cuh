// What cells become: sums, and of them the results, which are known when a kernel is compiled.
#pragma once

#include <bitfold/cuda/exact_cells.cuh>
#include <bitfold/op.hpp>

namespace bitfold::cuda {

// A number over a warp, N words of it in each thread: a += b + carry. A thread's words pass a carry
// on if they are all ones, and a sum of masks says where all carries go.
template <int N>
__device__ void add_words(word (&a)[N], const word (&b)[N], bool carry) {
  bool over = false, ones = true;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    a[i] = exact::add_carry(a[i], b[i], over);
    ones = ones && a[i] == ~word{0};
  }
  const unsigned gives = ballot(over), passes = ballot(ones);
  over = (((gives | passes) + gives + carry) ^ passes) >> threadIdx.x % warp & 1;
#pragma unroll
  for (int i = 0; i < N; ++i) a[i] = exact::add_carry(a[i], 0, over);
}
// Makes a state, and its front, of cells; by a warp.
template <class S>
__device__ void sum_cells(const std::int64_t* cells, summed<typename S::element>& to) {
  constexpr int words = S::words, own = (words + warp - 1) / warp;
  const int t = threadIdx.x % warp, first_word = t * own;
  signed_wide v[own];
  word w[own], up[own], down[own];
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const std::int64_t* const c = cells + 2 * (first_word + i);
    v[i] = first_word + i < words ? c[0] + (static_cast<signed_wide>(c[1]) << 32) : 0;
  }
  // What is above a word, of either sign, belongs to the next one.
  auto high = static_cast<std::int64_t>(v[own - 1] >> 64);
  high = shuffle_up(high, 1);
  if (t == 0) high = 0;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    w[i] = static_cast<word>(v[i]);
    up[i] = high > 0 ? high : 0;
    down[i] = ~static_cast<word>(high < 0 ? -high : 0);
    high = static_cast<std::int64_t>(v[i] >> 64);
  }
  add_words(w, up, false);
  add_words(w, down, true);

  S& s = *reinterpret_cast<S*>(to.state);
#pragma unroll
  for (int i = 0; i < own; ++i)
    if (first_word + i < words) s.w[first_word + i] = w[i];
  const bool negative = shuffle(w[(words - 1) % own], (words - 1) / own) >> 63;
  if (negative) {
    constexpr word zero[own] = {};
#pragma unroll
    for (word& x : w) x = ~x;
    add_words(w, zero, true);
  }
  int length = 0;  // in bits
#pragma unroll
  for (int i = 0; i < own; ++i) {
    if (first_word + i >= words) w[i] = 0;
    if (w[i]) length = 64 * (first_word + i + 1) - arith::leading_zeros(w[i]);
  }
  length = largest_of_the_warp(length);
  // Bits from `from` on lead: thread t gets word t of five, and what is lost is below.
  const int from = length - 256, at = (from >> 6) + t, shift = from & 63;
  word x = 0;
  bool lost = false;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const word there = shuffle(w[i], max(at, 0) / own);
    if (at >= 0 && at % own == i) x = there;
    const int above = 64 * (first_word + i + 1) - from;  // bits of this word that lead
    lost |= above < 64 && (above <= 0 ? w[i] : w[i] << above) != 0;
  }
  lost = any_of_the_warp(lost);
  const word next = shuffle_down(x, 1);
  if (shift) x = x >> shift | next << (64 - shift);
  word lead[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) lead[i] = shuffle(x, i);
  if (t == 0) {
    s.flags = static_cast<unsigned>(cells[2 * words]);
    exact::kind k = s.kind();
    if (k <= exact::kind::finite && length)
      k = exact::kind::finite;
    else if (k == exact::kind::finite)
      k = exact::kind::empty;
    to.front = {k, negative, {lead[0], lead[1], lead[2], lead[3], S::low + from, lost}};
  }
}

/// The terms of a kernel, whose cells and sums have their numbers.
template <class T, term... What>
struct exact_terms {
  using element = T;
  static constexpr int count = sizeof...(What);
  BITFOLD_HD static constexpr int number_of(term wanted) {
    int number = 0, k = 0;
    ((number = What == wanted ? k : number, ++k), ...);
    return number;
  }
  /// A bit for each that is of degree 2.
  static constexpr unsigned of_degree_2 = [] {
    unsigned all = 0;
    int k = 0;
    ((all |= static_cast<unsigned>(exact::degree(What) - 1) << k, ++k), ...);
    return all;
  }();
  static constexpr unsigned all = (1u << count) - 1;
  static constexpr int most_cells = of_degree_2 ? cells_of<T, 2> : cells_of<T, 1>;
  __device__ static bool is_of_degree_2(int number) {
    return of_degree_2 == all || (of_degree_2 >> number & 1);
  }
  __device__ static int cells(int number) {
    return is_of_degree_2(number) ? cells_of<T, 2> : cells_of<T, 1>;
  }
};
template <class Terms>
__device__ void sum_cells_of(int number, const std::int64_t* cells,
                             summed<typename Terms::element>& to) {
  using T = typename Terms::element;
  if constexpr (Terms::of_degree_2 == Terms::all)
    sum_cells<exact::sum<T, 2>>(cells, to);
  else if (Terms::of_degree_2 == 0 || !Terms::is_of_degree_2(number))
    sum_cells<exact::sum<T, 1>>(cells, to);
  else
    sum_cells<exact::sum<T, 2>>(cells, to);
}

/// What results are made of: each gives the front of a term's sum, or its state.
template <class Terms>
struct sums_of_cells {
  using terms = Terms;
  const summed<typename Terms::element>* each;
  template <term What, bool Front>
  __device__ const auto& get() const {
    const auto& of = each[Terms::number_of(What)];
    if constexpr (Front)
      return of.front;
    else
      return *reinterpret_cast<const exact::sum_of<typename Terms::element, What>*>(of.state);
  }
};

template <op_id>
struct operation_of;
#define BITFOLD_OP(name, ...)        \
  template <>                        \
  struct operation_of<op_id::name> { \
    using type = op::name##_op;      \
  };
BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
template <class Form>
inline constexpr bool is_sum = false;
template <term What>
inline constexpr bool is_sum<fold::exact_sum<What>> = true;

/// One result: of an operation with an exact form, rounded to Out.
template <op_id Op, class Out>
struct exact_output {
  using type = Out;
  using form = typename operation_of<Op>::type::exact;
  static constexpr int terms = sizeof(form::terms) / sizeof(form::terms[0]);
  /// Whether the fronts of sums will do: not for a variance, nor modulo 2^bits.
  static constexpr bool of_fronts =
      !std::is_integral_v<Out> &&
      exact::degree(form::terms[0]) == exact::degree(form::terms[terms - 1]);

  template <class Sums>
  __device__ static Out result(const Sums& sums, fold::finish_parameters how) {
    constexpr term first = form::terms[0], last = form::terms[terms - 1];
    const auto& one = sums.template get<first, of_fronts>();
    if constexpr (is_sum<form> && of_fronts && Sums::terms::count == 1)
      return one.kind == exact::kind::finite  // without a call
                 ? one.bits.template round<Out>(one.negative)
                 : exact::detail::of_kind<Out>(one.kind);
    else if constexpr (terms == 1)
      return form::template finish<Out>(how, one);
    else
      return form::template finish<Out>(how, one, sums.template get<last, of_fronts>());
  }
};

/// The sum of a term itself.
template <class T, term What>
struct exact_state {
  using type = exact::sum_of<T, What>;
  static constexpr bool of_fronts = false;
  template <class Sums>
  __device__ static type result(const Sums& sums, fold::finish_parameters) {
    return sums.template get<What, false>();
  }
};

/// The results of a kernel.
template <class... Output>
struct exact_results {
  static constexpr bool of_fronts = (Output::of_fronts && ...);
  result_place place[sizeof...(Output)];

  /// Of an output, whose number is 0 where it is the only one: those that this thread makes.
  template <class Sums, class Mine>
  __device__ void write(const Sums& sums, index n, index output, Mine is_mine) const {
    int k = 0;
    (
        [&] {
          if (is_mine(k))
            static_cast<typename Output::type*>(place[k].to)[output] =
                Output::result(sums, fold::finish_parameters{n, static_cast<int>(place[k].ddof)});
          ++k;
        }(),
        ...);
  }
  __device__ void write_empty(index output) const {
    int k = 0;
    ((write_bits<typename Output::type>(place[k].to, output, place[k].empty), ++k), ...);
  }

 private:
  template <class Out>
  __device__ static void write_bits(void* to, index output, std::uint64_t bits) {
    static_cast<Out*>(to)[output] =
        arith::bit_cast<Out>(static_cast<typename pack<Out>::bits>(bits));
  }
};

// The cells of all terms, added up over the blocks, become results; by a block.
template <class Terms, class Results>
__device__ __noinline__ void write_results(const std::int64_t* const (&cells)[Terms::count],
                                           index n, const Results& how,
                                           summed<typename Terms::element>* sums) {
  const int w = threadIdx.x / warp, t = threadIdx.x % warp,
            warps = static_cast<int>(blockDim.x / warp);
  for (int k = w; k < Terms::count; k += warps) sum_cells_of<Terms>(k, cells[k], sums[k]);
  wait_for_the_block();
  how.write(sums_of_cells<Terms>{sums}, n, 0, [=](int k) { return t == 0 && k % warps == w; });
}

}  // namespace bitfold::cuda
