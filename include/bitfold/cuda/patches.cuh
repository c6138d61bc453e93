// Kernels of outputs whose elements lie across their order: an axis in the middle is the one along
// which they are neighbours, as in a transposed array. A column is what lies behind one element of
// that axis: its elements follow each other in the order, and lie far apart.
#pragma once

#include <bitfold/cuda/elements.cuh>

namespace bitfold::cuda {

// A ring of rows of neighbouring columns in shared memory, a Word of each row for each thread.
template <class T, class Word>
struct patch {
  static constexpr int of_word = sizeof(Word) / sizeof(T), words = words_of_patch(sizeof(Word)),
                       columns = words * of_word;
  static constexpr int pitch = (words + 1) * of_word;        // rows begin in different banks
  static constexpr int rows_at_once = warp / words;          // that a warp reads,
  static constexpr int reads = order::lanes / rows_at_once;  // so often for a leaf's rows
  static_assert(warp % words == 0 && order::leaf / order::lanes == patch_threads / warp);
  T* ring;

  __device__ T* row(int v) const { return ring + v % rows_of_patch * pitch; }
};

// A leaf of a column in a patch.
template <class Source, class Word>
struct leaf_of_patch : Source {
  using T = typename Source::element;
  patch<T, Word> from;
  int first, column;  // its first row in the ring
  __device__ T one(int i) const { return from.row(first + i)[column]; }
};

// A block takes neighbouring columns, of each the leaves that begin in `rows` of its rows, and
// leaves their states. It reads a leaf's rows at a time; those of the next leaf are on their way
// while warps fold the leaves that have come, of each column the one that ends among these rows.
// Behind a column's last row, for the leaf that goes on there, come those of the column behind it.
// inner: elements of a column; beside: columns that are neighbours.
template <class F, class Source, class A, class Word>
__global__ void __launch_bounds__(patch_threads, 2)
    fold_patches(const __grid_constant__ output_elements data, index inner, index beside,
                 index rows, index chunks, void* states) {
  using T = typename Source::element;
  using P = patch<T, Word>;
  using E = engine<F, Source, A>;
  using S = typename E::state;
  constexpr int leaf = order::leaf, of_word = P::of_word;
  constexpr int at_once = sizeof(S) <= 8 ? 4 : 2;  // leaves of a warp
  const P to{reinterpret_cast<T*>(shared_bytes)};
  const int t = threadIdx.x % warp, w = threadIdx.x / warp, warps = patch_threads / warp,
            word = t % P::words;
  const index groups = (beside + P::columns - 1) / P::columns, planes = data.n / inner / beside,
              items = data.outputs * planes * chunks * groups, nodes = (data.n + leaf - 1) / leaf;
  for (index item = blockIdx.x; item < items; item += gridDim.x) {
    index left = item / groups;
    const index group = item % groups * P::columns, chunk = left % chunks;
    left /= chunks;
    const index output = left / planes, first_column = left % planes * beside + group,
                begin = chunk * rows, end = begin + rows < inner ? begin + rows : inner;
    // Columns from the group's first one on: to the plane's end, and those of the group.
    const int beside_here = beside - group < 1 << 30 ? static_cast<int>(beside - group) : 1 << 30,
              here = min(beside_here, P::columns);
    const finder find = finder::of(data, output);
    const T* const x = static_cast<const T*>(data.x);
    // The last leaves end in rows behind those that they begin in, unless columns are whole leaves.
    const index last = inner % leaf == 0 ? end : end + (leaf - 1);

    Word next[P::reads];
    const auto load = [&](index v) {  // a leaf's rows from v on, some by each warp
      v += static_cast<index>(w * order::lanes);
      // Where a row begins is found by one thread. Behind the last row come the first ones of the
      // columns that are `over` further on.
      index row = v + static_cast<index>(t);
      int over = 0;
      for (; row >= inner; row -= inner) ++over;
      const std::int64_t begin_of_row =
          find((first_column + static_cast<index>(over)) * inner + row).x;
      const int mine = word * of_word;
      if (v + order::lanes <= inner) {
        const T* const from = x + (mine < here ? mine : 0);
#pragma unroll
        for (int q = 0; q < P::reads; ++q)
          next[q] = *reinterpret_cast<const Word*>(
              from + shuffle(begin_of_row, q * P::rows_at_once + t / P::words));
        return;
      }
      // Columns over the last one of a plane are the first ones of the plane behind it.
      const index plane_behind = first_column - group + beside;
      const bool is_last_plane = plane_behind * inner >= data.n;
      const std::int64_t begin_behind = is_last_plane ? 0 : find(plane_behind * inner + row).x;
#pragma unroll
      for (int q = 0; q < P::reads; ++q) {
        const int k = q * P::rows_at_once + t / P::words, further = shuffle(over, k);
        const std::int64_t at = shuffle(begin_of_row, k), behind = shuffle(begin_behind, k);
        struct {
          T each[of_word];
        } some;
#pragma unroll
        for (int e = 0; e < of_word; ++e) {
          const int column = mine + e, past = column + further - beside_here;
          const bool is_there = column < here && (past < 0 || !is_last_plane);
          some.each[e] = x[!is_there ? 0 : past < 0 ? at + column : behind + past];
        }
        next[q] = arith::bit_cast<Word>(some);
      }
    };
    const auto keep = [&](index v) {
      const int first = static_cast<int>(v % rows_of_patch);
#pragma unroll
      for (int q = 0; q < P::reads; ++q) {
        const int k = w * order::lanes + q * P::rows_at_once + t / P::words;
        reinterpret_cast<Word*>(to.row(first + k))[word] = next[q];
      }
    };
    struct leaf_in_patch {
      index place;
      int first, size;  // its first row in the ring; 0: there is none
    };
    const auto found_leaf = [&](int column, index v) {
      const index before = (first_column + static_cast<index>(column)) * inner,
                  behind = (before + v) % leaf + leaf, place = before + v - behind;
      const bool is_there = column < here && v >= begin + behind && v - behind < end;
      return leaf_in_patch{place, static_cast<int>((v - behind) % rows_of_patch),
                           !is_there               ? 0
                           : data.n - place < leaf ? static_cast<int>(data.n - place)
                                                   : leaf};
    };
#pragma unroll 1
    for (index v = begin;; v += leaf) {
      if (v < last) load(v);
      // Of each column the leaf that ends among the rows that came before, several at once.
      for (int c = w; v > begin && c < here; c += at_once * warps) {
        const auto leaf_of = [&](int b) { return found_leaf(c + b * warps, v); };
        const auto keep_state = [&](const typename E::local& s, index place) {
          if (t == 0)
            static_cast<S*>(states)[output * nodes + place / leaf] =
                F::template rebase<A>(s, place);
        };
        bool all_are_full = true;
#pragma unroll
        for (int b = 0; b < at_once; ++b) all_are_full &= leaf_of(b).size == leaf;
        if (all_are_full) {
          T x[at_once][order::rows];
#pragma unroll
          for (int b = 0; b < at_once; ++b)
#pragma unroll
            for (int r = 0; r < order::rows; ++r)
              x[b][r] = to.row(leaf_of(b).first + r * order::lanes + t)[c + b * warps];
#pragma unroll
          for (int b = 0; b < at_once; ++b) {
            const auto lane = E::lane(
                order::rows, [&](int r) { return Source::made(x[b][r], r * order::lanes + t); });
            keep_state(fold_whole_warp<F>(lane, span_of{order::rows}), leaf_of(b).place);
          }
          continue;
        }
#pragma unroll 1
        for (int b = 0; b < at_once; ++b) {
          const auto found = leaf_of(b);
          leaf_of_patch<Source, Word> from{};
          from.from = to, from.first = found.first, from.column = c + b * warps;
          if (found.size > 0)
            keep_state(engine<F, leaf_of_patch<Source, Word>, A>::fold_leaf(from, 0, found.size),
                       found.place);
        }
      }
      if (v >= last) break;
      wait_for_the_block();  // for the leaves in the rows that are replaced
      keep(v);
      wait_for_the_block();
    }
  }
}

}  // namespace bitfold::cuda
