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
                       columns = columns_of_patch(sizeof(Word), sizeof(T));
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
// inner: elements of a column; stride: from one to the next, 0 where it is not the same for all;
// beside: columns that are neighbours.
template <class F, class Source, class A, class Word>
__global__ void __launch_bounds__(patch_threads, 2)
    fold_patches(const __grid_constant__ output_elements data, index inner, std::int64_t stride,
                 index beside, index rows, index chunks, void* states) {
  using T = typename Source::element;
  using P = patch<T, Word>;
  using E = engine<F, Source, A>;
  using S = typename E::state;
  constexpr int leaf = order::leaf, of_word = P::of_word;
  constexpr int at_once = sizeof(T) > 4 ? 1 : sizeof(S) > 8 ? 2 : 4;  // leaves of a warp
  const P to{reinterpret_cast<T*>(shared_bytes)};
  const int t = threadIdx.x % warp, w = threadIdx.x / warp, warps = patch_threads / warp,
            word = t % P::words, own_row = w * order::lanes + t / P::words;
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
    const int mine = word * of_word;
    const T* const own = x + (find(first_column * inner).x + (mine < here ? mine : 0));
    // The last leaves end in rows behind those that they begin in, unless columns are whole leaves.
    const index last = inner % leaf == 0 ? end : end + (leaf - 1);

    Word next[P::reads];
    const auto load = [&](index v) {  // a leaf's rows from v on, some by each warp
      if (stride != 0 && v + leaf <= inner) {
        const T* at = own + static_cast<std::int64_t>(v + static_cast<index>(own_row)) * stride;
#pragma unroll
        for (int q = 0; q < P::reads; ++q, at += P::rows_at_once * stride)
          next[q] = *reinterpret_cast<const Word*>(at);
        return;
      }
      // Where a row begins is found by one thread. Behind the last row come the first ones of the
      // columns that are `over` further on.
      index row = v + static_cast<index>(w * order::lanes + t);
      int over = 0;
      for (; row >= inner; row -= inner) ++over;
      const std::int64_t begin_of_row =
          find((first_column + static_cast<index>(over)) * inner + row).x;
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
      T* const at = to.row(static_cast<int>(v % rows_of_patch)) + own_row * P::pitch;
#pragma unroll
      for (int q = 0; q < P::reads; ++q)
        reinterpret_cast<Word*>(at + q * P::rows_at_once * P::pitch)[word] = next[q];
    };
    // The last column of all may end with a short leaf.
    const int last_column =
        (first_column + static_cast<index>(here)) * inner == data.n ? here - 1 : -1;
#pragma unroll 1
    for (index v = begin;; v += leaf) {
      if (v < last) load(v);
      // Of each column the leaf that ends among the rows that came before, several at once. It
      // begins `behind` rows before v.
      const int since = v - begin < 2 * leaf ? static_cast<int>(v - begin) : 2 * leaf,
                beyond = v < end ? -1 : static_cast<int>(v - end);
      const auto behind_of = [&](int column) {
        const auto phase =
            (static_cast<std::uint32_t>(first_column) + static_cast<std::uint32_t>(column)) *
                static_cast<std::uint32_t>(inner) +
            static_cast<std::uint32_t>(v);
        return static_cast<int>(phase % leaf) + leaf;
      };
      const auto place_of = [&](int column) {
        return (first_column + static_cast<index>(column)) * inner + v -
               static_cast<index>(behind_of(column));
      };
      const auto size_of_leaf = [&](int column) {
        const int behind = behind_of(column);
        if (column >= here || since < behind || beyond >= behind) return 0;
        if (column != last_column) return leaf;
        const index left = data.n - place_of(column);
        return left < leaf ? static_cast<int>(left) : leaf;
      };
      const auto first_row = [&](int column) {
        return static_cast<int>(
            (static_cast<std::uint32_t>(v) - static_cast<std::uint32_t>(behind_of(column))) %
            rows_of_patch);
      };
      const auto keep_state = [&](const typename E::local& s, int column) {
        if (t != 0) return;
        const index place = place_of(column);
        static_cast<S*>(states)[output * nodes + place / leaf] = F::template rebase<A>(s, place);
      };
      // The rows of a leaf go on at the ring's beginning, unless it is Straight.
      const auto fold_full = [&]<bool Straight>(std::bool_constant<Straight>, int c) {
        T x[at_once][order::rows];
#pragma unroll
        for (int b = 0; b < at_once; ++b) {
          const int first = first_row(c + b * warps) + t;
          const T* const at = to.ring + first * P::pitch + c + b * warps;
#pragma unroll
          for (int r = 0; r < order::rows; ++r)
            x[b][r] = Straight ? at[r * order::lanes * P::pitch]
                               : to.row(first + r * order::lanes)[c + b * warps];
        }
#pragma unroll
        for (int b = 0; b < at_once; ++b) {
          const auto lane = E::lane(
              order::rows, [&](int r) { return Source::made(x[b][r], r * order::lanes + t); });
          keep_state(fold_whole_warp<F>(lane, span_of{order::rows}), c + b * warps);
        }
      };
      for (int c = w; v > begin && c < here; c += at_once * warps) {
        bool full = true, straight = true;
#pragma unroll
        for (int b = 0; b < at_once; ++b) {
          full &= size_of_leaf(c + b * warps) == leaf;
          straight &= first_row(c + b * warps) + leaf <= rows_of_patch;
        }
        if (full && straight) {
          fold_full(std::true_type{}, c);
        } else if (full) {
          fold_full(std::false_type{}, c);
        } else {
#pragma unroll 1
          for (int column = c; column < c + at_once * warps; column += warps) {
            const int size = size_of_leaf(column);
            if (size == 0) continue;
            leaf_of_patch<Source, Word> from{};
            from.from = to, from.first = first_row(column), from.column = column;
            keep_state(engine<F, leaf_of_patch<Source, Word>, A>::fold_leaf(from, 0, size), column);
          }
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
