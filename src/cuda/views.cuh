// Kernels of many outputs, each the canonical order over elements of its own. Where the elements of
// an output are neighbours: by blocks, whose warps take tiles, by a warp each, or by teams of
// threads. Where outputs are neighbours, or are short: by threads, each of which takes an output,
// some, or parts of them. What takes what shows in no bit.
#pragma once

#include "folds.cuh"
#include "places.cuh"
#include "results.cuh"

namespace bitfold::cuda {
namespace {

// Elements T of an output from `place` on: a source for the engine (engine.cuh). What is read as it
// is stored has one input.
template <class Take, class T>
struct found_elements {
  static_assert(!Take::two);
  static constexpr bool two = false, in_packs = false, has_lines = true;
  static constexpr int owned = 16 / sizeof(T);
  using element = T;
  using single = T;
  using raw = single;  // it has no packs
  finder find;
  index place;
  const T* x;  // where the input begins

  __device__ static found_elements at(const output_elements& from, const finder& find,
                                      index place) {
    return {find, place, static_cast<const T*>(from.x)};
  }
  __device__ found_elements ahead(index k) const { return {find, place + k, x}; }

  /// What lies at equal distances.
  struct line_of {
    const T* x;
    std::int64_t stride;
    __device__ single one(int i) const { return x[i * stride]; }
  };
  __device__ bool is_line() const { return find.linear; }
  __device__ line_of line() const { return {x + find(place).x, find.stride.x}; }
  __device__ single one(int i) const { return x[find(place + static_cast<index>(i)).x]; }
  BITFOLD_HD static auto made(single x, int at) { return Take::element(x, at); }
};

// Some rows of a leaf, of `owned` lanes of a thread each.
template <class Take, class T, int Most>
struct lane_packs {
  pack<T> x[Most];
  __device__ auto get(int r, int i, int at) const { return Take::element(x[r][i], at); }
};

// Elements that are neighbours in packs, on several axes; or on one, at any address.
template <class Take, class T>
struct run_elements : found_elements<Take, T> {
  using base = found_elements<Take, T>;
  using base::find, base::owned, base::place;
  static constexpr bool in_packs = true;
  using raw = lane_packs<Take, T, order::rows>;
  __device__ static run_elements at(const output_elements& from, const finder& find, index place) {
    return {base::at(from, find, place)};
  }
  __device__ run_elements ahead(index k) const { return {base::ahead(k)}; }

  template <alignment>
  __device__ raw load() const {
    raw v;
    if (find.from->unaligned) {
      const T* const p = this->x + (find.begin.x + static_cast<std::int64_t>(place));
      if constexpr (sizeof(T) == 2) {
        load_leaf_across(p, v.x);
      } else {  // of larger ones it is as quick to read one after the other
#pragma unroll
        for (int r = 0; r < order::rows; ++r)
#pragma unroll
          for (int i = 0; i < owned; ++i) v.x[r].set(i, load_one(p + r * order::lanes + i));
      }
      return v;
    }
    std::int64_t at[order::rows];
    if (find.from->runs == runs_of::leaves) {
      at[0] = find(place).x;
#pragma unroll
      for (int r = 1; r < order::rows; ++r) at[r] = at[0] + r * order::lanes;
    } else if (find.from->runs == runs_of::lanes) {
      // The threads on a leaf look for its rows together.
      constexpr int group = order::lanes / owned,
                    each = group < order::rows ? order::rows / group : 1;
      const int t = threadIdx.x % warp, lane = t % group * owned;
      const unsigned together = (group < warp ? (1u << group % warp) - 1 : all_threads)
                                << t / group * group;
      std::int64_t found[each];
#pragma unroll
      for (int k = 0; k < each; ++k)
        found[k] = find(place - static_cast<index>(lane) +
                        static_cast<index>((t % group + k * group) % order::rows * order::lanes))
                       .x;
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        at[r] = __shfl_sync(together, found[r / group], r % group, group) + lane;
    } else {
#pragma unroll
      for (int r = 0; r < order::rows; ++r) at[r] = find(place + r * order::lanes).x;
    }
#pragma unroll
    for (int r = 0; r < order::rows; ++r) v.x[r] = load_pack<true>(this->x + at[r]);
    return v;
  }
  __device__ static auto get(const raw& v, int r, int i, int at) { return v.get(r, i, at); }
};

// Rows: elements that are neighbours in packs, on one axis.
template <class Take, class T>
struct row_elements : stored_elements<Take, T> {
  using base = stored_elements<Take, T>;
  static constexpr bool in_packs = true;
  using taken = Take;
  using element = T;
  __device__ static row_elements at(const output_elements& from, const finder& find, index place) {
    return {{static_cast<const T*>(from.x) + (find.begin.x + static_cast<std::int64_t>(place)),
             nullptr, true}};
  }
  __device__ row_elements ahead(index k) const { return {{this->x + k, nullptr, true}}; }

  /// The first `count` <= Most rows of a leaf.
  template <int Most>
  __device__ lane_packs<Take, T, Most> load_some(int count) const {
    lane_packs<Take, T, Most> v;
#pragma unroll
    for (int r = 0; r < Most; ++r)
      if (r < count) v.x[r] = load_pack<true>(this->x + r * order::lanes);
    return v;
  }
};

// The same of any type that A holds, told at run time.
template <class Take, class A>
struct found_values {
  static constexpr bool two = Take::two, in_packs = false, has_lines = false;
  static constexpr int owned = 4;
  using single = std::conditional_t<two, fold::pair_of<A>, A>;
  finder find;
  index place;

  using raw = single;  // it has no packs
  __device__ static found_values at(const output_elements&, const finder& find, index place) {
    return {find, place};
  }
  __device__ found_values ahead(index k) const { return {find, place + k}; }
  __device__ __noinline__ single one(int i) const {
    const offset at = find(place + static_cast<index>(i));
    return visit(find.from->type, [&]<class T>(std::type_identity<T>) -> single {
      if constexpr (fold::holds<A, T>()) {
        const A x = arith::widen<A>(static_cast<const T*>(find.from->x)[at.x]);
        if constexpr (two)
          return {x, arith::widen<A>(static_cast<const T*>(find.from->y)[at.y])};
        else
          return x;
      } else {
        return {};
      }
    });
  }
  BITFOLD_HD static auto made(const single& s, int at) { return Take::made(s, at); }
};

// Writes the results of one output.
template <class F, class A, class S>
__device__ __noinline__ void write_all(S s, index n, index output, const output_results& how) {
  for (int k = 0; k < how.list.count; ++k) {
    result one = how.list.each[k];
    one.out = static_cast<std::byte*>(one.out) + output * static_cast<index>(how.bytes[k]);
    write_shared<F, A>(s, n, one);
  }
}
// The operation that is asked for most of those with the base F, if its result is soon made: where
// outputs are short, looking for it would take most of the time.
template <class F>
struct most_asked {
  static constexpr bool known = false;
};
template <class Op, op_id Id>
struct most_asked_is {
  static constexpr bool known = true;
  static constexpr op_id id = Id;
  template <class A>
  using fold = typename Op::template fold<method::tree, A>;
};
template <>
struct most_asked<total> : most_asked_is<op::sum_op, op_id::sum> {};
template <>
struct most_asked<smallest> : most_asked_is<op::min_op, op_id::min> {};
template <>
struct most_asked<largest> : most_asked_is<op::max_op, op_id::max> {};

template <class T, class S>
__device__ __noinline__ T mean_of(S s, index n) {
  return op::mean_op::fold<method::tree, S>::template finish<T>(s, fold::finish_parameters{n, 0});
}
// One result of the elements' type, of sum, mean, min or max, is made here.
template <class F, class Source, class A, class S>
__device__ void write_output(const S& s, index n, index output, const output_results& how) {
  if constexpr (most_asked<F>::known && requires { typename Source::element; }) {
    using T = typename Source::element;
    T* const to = static_cast<T*>(how.list.each[0].out) + output;
    if (how.alone == output_results::most_asked) {
      *to = most_asked<F>::template fold<A>::template finish<T>(s, fold::finish_parameters{n, 0});
      return;
    }
    if constexpr (std::is_same_v<F, total>)
      if (how.alone == output_results::mean) {
        *to = mean_of<T>(s, n);
        return;
      }
  }
  write_all<F, A>(s, n, output, how);
}
template <class F, class Source>
output_results with_the_most_asked(output_results how) {
  if constexpr (most_asked<F>::known && requires { typename Source::element; })
    if (const result& r = how.list.each[0];
        how.list.count == 1 && r.type == dtype_of<typename Source::element>) {
      if (r.op == most_asked<F>::id) how.alone = output_results::most_asked;
      if (std::is_same_v<F, total> && r.op == op_id::mean) how.alone = output_results::mean;
    }
  return how;
}

// A leaf of `rows` full rows by one thread, of elements at equal distances: four lanes at a time,
// so that many loads are on their way.
template <class F, class Source, class A, bool Full, class Line>
__device__ auto fold_leaf_by_thread(const Line& line, int begin, int rows) {
  if constexpr (Full) rows = order::rows;
  using local = typename engine<F, Source, A>::local;
  constexpr int beside = 4;
  thread_counter<F, local, 4> lanes;
#pragma unroll 1
  for (int l = 0; l < order::lanes; l += beside) {
    typename Source::single x[order::rows][beside];
#pragma unroll
    for (int r = 0; r < order::rows; ++r)
#pragma unroll
      for (int k = 0; k < beside; ++k)
        if (Full || r < rows) x[r][k] = line.one(begin + r * order::lanes + l + k);
    local s[beside];
#pragma unroll
    for (int k = 0; k < beside; ++k)
      s[k] = method::fold_lane<F, order::rows>(
          rows, [&](int r) { return Source::made(x[r][k], begin + r * order::lanes + l + k); });
    fold_owned<F>(s, beside, [=](int, int width) { return static_cast<index>(width * rows); });
    lanes.push(s[0], static_cast<index>(beside * rows));
  }
  return lanes.pending[3];
}

// A leaf of up to two rows, or one, the last of which may be short; likewise.
template <class F, class Source, class A, int Rows, class Line>
__device__ auto fold_short_by_thread(const Line& line, int begin, int size) {
  using local = typename engine<F, Source, A>::local;
  constexpr int beside = 8;
  thread_counter<F, local, 3> lanes;
#pragma unroll 1
  for (int l = 0; l < order::lane_count(size); l += beside) {
    typename Source::single x[Rows][beside];
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int k = 0; k < beside; ++k)
        if (r * order::lanes + l + k < size) x[r][k] = line.one(begin + r * order::lanes + l + k);
    local s[beside];
#pragma unroll
    for (int k = 0; k < beside; ++k)
      s[k] = method::fold_lane<F, Rows>(Rows == 1 ? 1 : order::lane_size(size, l + k), [&](int r) {
        return Source::made(x[r][k], begin + r * order::lanes + l + k);
      });
    const int count = min(beside, order::lane_count(size) - l);
    const auto elements = [=](int first, int width) {
      return Rows == 1 ? static_cast<index>(width) : leaf_lanes{size}(l + first, width);
    };
    fold_owned<F>(s, count, elements);
    if (order::lane_count(size) <= beside) return s[0];
    lanes.push(s[0], elements(0, count));
  }
  return lanes.total();
}

// `n` elements from `first` on, up to most_leaves_of_thread leaves, by one thread.
template <class F, class Source, class A>
__device__ auto fold_by_thread(const Source& from, index first, index n) {
  using local = typename engine<F, Source, A>::local;
  thread_counter<F, local, 7> leaves;
#pragma unroll 1
  for (int begin = 0; begin < static_cast<int>(n); begin += order::leaf) {
    const int size = min(order::leaf, static_cast<int>(n) - begin), lanes = order::lane_count(size);
    if constexpr (Source::has_lines)
      if (const bool of_whole_rows = size % order::lanes == 0;
          from.is_line() && (of_whole_rows || size <= 2 * order::lanes)) {
        leaves.push(
            size == order::leaf ? fold_leaf_by_thread<F, Source, A, true>(from.line(), begin, 0)
            : of_whole_rows
                ? fold_leaf_by_thread<F, Source, A, false>(from.line(), begin, size / order::lanes)
                : fold_short_by_thread<F, Source, A, 2>(from.line(), begin, size),
            static_cast<index>(size));
        continue;
      }
    thread_counter<F, local, 6> of_leaf;
#pragma unroll 1
    for (int l = 0; l < lanes; ++l) {
      const int rows = order::lane_size(size, l);
      typename Source::single x[order::rows];
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
        if (r < rows) x[r] = from.one(begin + r * order::lanes + l);
      of_leaf.push(
          method::fold_lane<F, order::rows>(
              rows, [&](int r) { return Source::made(x[r], begin + r * order::lanes + l); }),
          static_cast<index>(rows));
    }
    leaves.push(of_leaf.total(), static_cast<index>(size));
  }
  return F::template rebase<A>(leaves.total(), first);
}

// The first n < pack<T>::size elements at p.
template <class T>
__device__ pack<T> part_of(const T* p, int n) {
  pack<T> v{};
#pragma unroll
  for (int i = 0; i < pack<T>::size; ++i)
    if (i < n) v.set(i, arith::bit_cast<typename pack<T>::bits>(p[i]));
  return v;
}

// Rows of n elements that follow each other without gaps: a warp brings a row for each of its
// threads to shared memory, in packs, and each thread folds its own.
template <class F, class Source, class A>
__global__ void __launch_bounds__(64)
    fold_staged_rows(const __grid_constant__ output_elements data, int pitch,
                     const __grid_constant__ output_results how) {
  using T = typename Source::element;
  const int t = threadIdx.x % warp, n = static_cast<int>(data.n);
  T* const rows = reinterpret_cast<T*>(shared_bytes) + (threadIdx.x / warp) * warp * pitch;
  const auto bits = [](T* p) { return reinterpret_cast<typename pack<T>::bits*>(p); };
  const index stride = index{gridDim.x} * blockDim.x;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * warp;
       first < data.outputs; first += stride) {
    const int here = data.outputs - first < warp ? static_cast<int>(data.outputs - first) : warp,
              count = here * n;
    const T* const from = static_cast<const T*>(data.x) + first * data.n;
    int row = t * Source::owned / n, column = t * Source::owned % n;
    const int rows_on = warp * Source::owned / n, columns_on = warp * Source::owned % n;
    constexpr int ahead = 8;
    __syncwarp();
    for (int i = t * Source::owned; i < count; i += ahead * warp * Source::owned) {
      pack<T> v[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (const int at = i + k * warp * Source::owned; at < count)
          v[k] = at + Source::owned <= count ? load_pack<true>(from + at)
                                             : part_of(from + at, count - at);
#pragma unroll
      for (int k = 0; k < ahead; ++k) {
        int r = row, c = column;
#pragma unroll
        for (int e = 0; e < Source::owned; ++e) {
          if (i + k * warp * Source::owned + e < count)
            bits(rows)[r * pitch + c] = arith::bit_cast<typename pack<T>::bits>(v[k][e]);
          if (++c == n) c = 0, ++r;
        }
        row += rows_on;
        column += columns_on;
        if (column >= n) column -= n, ++row;
      }
    }
    __syncwarp();
    if (t < here) {
      const Source own{{&data, {0, 0}, {1, 1}, true}, 0, rows + t * pitch};
      write_output<F, Source, A>(fold_by_thread<F, Source, A>(own, 0, data.n), data.n,
                                 first + static_cast<index>(t), how);
    }
  }
}

template <class F, class Source, class A>
__global__ void __launch_bounds__(256)
    fold_outputs_by_threads(const __grid_constant__ output_elements data, index node, index nodes,
                            void* states, const __grid_constant__ output_results how) {
  using S = fold::partial<F, A>;
  const index items = data.outputs * nodes;
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < items;
       i += index{gridDim.x} * blockDim.x) {
    index k = i, output = i;
    if (nodes > 1)
      output = i % data.outputs, k = i / data.outputs;
    else
      k = 0;
    const index first = k * node;
    if (data.n == 0) {
      write_empty(output, how);
      continue;
    }
    const S s = fold_by_thread<F, Source, A>(Source::at(data, finder::of(data, output), first),
                                             first, data.n - first < node ? data.n - first : node);
    if (nodes == 1)
      write_output<F, Source, A>(s, data.n, output, how);
    else
      static_cast<S*>(states)[output * nodes + k] = s;
  }
}

// Elements of as many neighbours, read together; volatile, as load_pack.
template <class T, int Many>
struct alignas(Many * sizeof(T)) neighbours {
  std::uint32_t word[Many * sizeof(T) / 4];

  __device__ static neighbours load(const T* p) {
    neighbours v;
    if constexpr (sizeof v == 16)
      asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
                   : "l"(p));
    else if constexpr (sizeof v == 8)
      asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];"
                   : "=r"(v.word[0]), "=r"(v.word[1])
                   : "l"(p));
    else
      asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v.word[0]) : "l"(p));
    return v;
  }
  __device__ T operator[](int i) const {
    pack<T> of{};
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(neighbours) / 4); ++k) of.word[k] = word[k];
    return of[i];
  }
};

// Outputs whose elements lie at equal distances, and which are neighbours: a thread takes Many of
// them, and of each some leaves, or of a single leaf one in `split` of its lanes, a part; a block
// `parts` neighbouring ones, a node, of as many outputs as it has room for.
template <class F, class Source, class A, int Many>
__global__ void __launch_bounds__(128, Many * sizeof(fold::partial<F, A>) <= 16 ? 4 : 2)
    fold_columns(const __grid_constant__ output_elements data, int parts, int split, index node,
                 index nodes, void* states, const __grid_constant__ output_results how) {
  using T = typename Source::element;
  using S = fold::partial<F, A>;
  using local = typename engine<F, Source, A>::local;
  using of_many = states_of_many<local, Many>;
  using of_columns = fold_of_many<F, Many>;
  struct in_rows {
    neighbours<T, Many> x[order::rows];
  };
  S* const of_parts = reinterpret_cast<S*>(shared_bytes);
  const index groups = data.outputs / Many,
              part = node * static_cast<index>(split) / static_cast<index>(parts);
  const int width = static_cast<int>(blockDim.x) / parts,
            j = static_cast<int>(threadIdx.x) / width;                // the part
  const int lanes = order::lanes / split, begin = j % split * lanes;  // its lanes of each leaf
  const index stripes = (groups + width - 1) / width, items = stripes * nodes;
  for (index i = blockIdx.x; i < items; i += gridDim.x) {
    const index group = i % stripes * width + threadIdx.x % width, output = group * Many,
                k = i / stripes;
    const index of_node = k * node, first = of_node + static_cast<index>(j / split) * part;
    const index left = data.n - of_node, here = left < node ? left : node;
    of_many total;
    if (group < groups && first < data.n) {
      const finder find = finder::of(data, output);
      const T* const x = static_cast<const T*>(data.x) + find(first).x;
      const int n = static_cast<int>(data.n - first < part ? data.n - first : part);
      const std::int64_t stride = find.stride.x;
      const auto load = [&](int at, int rows) {  // the lane that begins there
        const T* p = x + at * stride;
        in_rows v;
#pragma unroll
        for (int r = 0; r < order::rows; ++r) {
          if (r < rows) v.x[r] = neighbours<T, Many>::load(p);
          p += order::lanes * stride;
        }
        return v;
      };
      const auto lane = [&](const in_rows& v, int rows, int at) {
        of_many s;
#pragma unroll
        for (int p = 0; p < Many; ++p)
          s.each[p] = method::fold_lane<F, order::rows>(
              rows, [&](int r) { return Source::made(v.x[r][p], at + r * order::lanes); });
        return s;
      };
      thread_counter<of_columns, of_many, 7> leaves;
      int at = 0;
      in_rows next;
      if (n >= order::leaf) next = load(begin, order::rows);
#pragma unroll 1
      for (; n - at >= order::leaf; at += order::leaf) {
        thread_counter<of_columns, of_many, 5> of_leaf;
#pragma unroll 1
        for (int l = at + begin, end = l + lanes; l < end; l += 2) {
          in_rows v = next;
          next = load(l + 1, order::rows);
          const of_many left = lane(v, order::rows, l);
          v = next;
          // The next lane, or of the next leaf the first; the last once more.
          next = load(l + 2 < end                 ? l + 2
                      : n - at >= 2 * order::leaf ? at + order::leaf + begin
                                                  : l + 1,
                      order::rows);
          of_leaf.push(of_columns::merge(left, lane(v, order::rows, l + 1),
                                         fold::counts{order::rows, order::rows}),
                       2 * order::rows);
        }
        leaves.push(split == 1 ? of_leaf.pending[4] : of_leaf.total(),
                    static_cast<index>(order::leaf / split));
      }
      if (const int size = n - at, end = min(order::lane_count(size), begin + lanes);
          size > 0 && begin < end) {
        thread_counter<of_columns, of_many, 6> of_leaf;
        if (size <= order::lanes) {  // of one row: several lanes at once, so that many loads are on
                                     // their way
          constexpr int beside = order::rows;
#pragma unroll 1
          for (int l = begin; l < end; l += beside) {
            const int count = min(beside, end - l);
            in_rows v;
#pragma unroll
            for (int r = 0; r < beside; ++r)
              if (r < count) v.x[r] = neighbours<T, Many>::load(x + (at + l + r) * stride);
            of_many s[beside];
#pragma unroll
            for (int r = 0; r < beside; ++r) {
              in_rows one;
              one.x[0] = v.x[r];
              s[r] = lane(one, 1, at + l + r);
            }
            fold_owned<of_columns>(s, count,
                                   [](int, int width) { return static_cast<index>(width); });
            of_leaf.push(s[0], static_cast<index>(count));
          }
        } else {
          next = load(at + begin, order::lane_size(size, begin));
#pragma unroll 1
          for (int l = begin; l < end; ++l) {
            const int rows = order::lane_size(size, l);
            const in_rows v = next;
            if (l + 1 < end) next = load(at + l + 1, order::lane_size(size, l + 1));
            of_leaf.push(lane(v, rows, at + l), static_cast<index>(rows));
          }
        }
        leaves.push(of_leaf.total(), leaf_lanes{size}(begin, lanes));
      }
      total = leaves.total();
    }
    S s[Many];
#pragma unroll
    for (int p = 0; p < Many; ++p) s[p] = F::template rebase<A>(total.each[p], first);
    // The elements of `d` parts from part q on, if any.
    const auto elements = [&](int q, int d) -> index {
      const index before = static_cast<index>(q / split) * part;
      if (before >= here) return 0;
      if (d >= split) return equal_runs{part, here}(q / split, d / split);
      return leaf_lanes{here - before < order::leaf ? static_cast<int>(here - before)
                                                    : order::leaf}(q % split * lanes, d * lanes);
    };
    for (int d = 1; d < parts; d *= 2) {
      if (j % (2 * d) == d)
#pragma unroll
        for (int p = 0; p < Many; ++p) of_parts[p * blockDim.x + threadIdx.x] = s[p];
      __syncthreads();
      if (j % (2 * d) == 0)
        if (const index right = elements(j + d, d); right > 0)
#pragma unroll
          for (int p = 0; p < Many; ++p)
            s[p] = F::merge(s[p], of_parts[p * blockDim.x + threadIdx.x + d * width],
                            fold::counts{elements(j, d), right});
      __syncthreads();
    }
    if (j == 0 && group < groups)
#pragma unroll
      for (int p = 0; p < Many; ++p) {
        if (nodes == 1)
          write_output<F, Source, A>(s[p], data.n, output + static_cast<index>(p), how);
        else
          static_cast<S*>(states)[(output + static_cast<index>(p)) * nodes + k] = s[p];
      }
  }
}

// The same of up to Rows rows of a leaf each: a thread takes Many whole outputs, and reads half of
// a leaf's lanes at a time, or fewer.
template <class F, class Source, class A, int Many, int Rows>
__global__ void __launch_bounds__(128)
    fold_short_columns(const __grid_constant__ output_elements data,
                       const __grid_constant__ output_results how) {
  using of_many = states_of_many<typename engine<F, Source, A>::local, Many>;
  using of_columns = fold_of_many<F, Many>;
  using some = neighbours<typename Source::element, Many>;
  constexpr int beside = order::lanes / (sizeof(of_many) <= 16 ? 2 : 4) / Rows;
  const int n = static_cast<int>(data.n), lanes = order::lane_count(n);
  const index groups = data.outputs / Many, stride = index{gridDim.x} * blockDim.x;
  for (index i = index{blockIdx.x} * blockDim.x + threadIdx.x; i < groups; i += stride) {
    const index output = i * Many;
    const finder find = finder::of(data, output);
    const auto* const x = static_cast<const typename Source::element*>(data.x) + find(0).x;
    thread_counter<of_columns, of_many, Rows == 1 ? 3 : 4> parts;
#pragma unroll 1
    for (int l = 0; l < lanes; l += beside) {
      const int count = min(beside, lanes - l);
      some v[Rows][beside];
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int k = 0; k < beside; ++k)
          if (const int at = r * order::lanes + l + k; at < n && k < count)
            v[r][k] = some::load(x + at * find.stride.x);
      of_many s[beside];
#pragma unroll
      for (int k = 0; k < beside; ++k) {
        const int rows = Rows == 1 ? 1 : order::lane_size(n, l + k);
#pragma unroll
        for (int p = 0; p < Many; ++p)
          s[k].each[p] = method::fold_lane<F, order::rows>(rows, [&](int r) {
            return Source::made(v[r < Rows ? r : 0][k][p], l + k + r * order::lanes);
          });
      }
      // With one row a lane is one element, so counts are widths, which the compiler knows.
      const auto elements = [=](int first, int width) {
        return Rows == 1 ? static_cast<index>(width) : leaf_lanes{n}(l + first, width);
      };
      fold_owned<of_columns>(s, count, elements);
      parts.push(s[0], elements(0, count));
    }
    const of_many all = parts.total();
#pragma unroll
    for (int p = 0; p < Many; ++p)
      write_output<F, Source, A>(F::template rebase<A>(all.each[p], 0), data.n,
                                 output + static_cast<index>(p), how);
  }
}

// The elements of the output that thread k of the warp has found.
template <class Source>
__device__ Source found_by(int k, const finder& mine, const output_elements& data) {
  finder of = mine;
  of.begin = {__shfl_sync(all_threads, mine.begin.x, k), __shfl_sync(all_threads, mine.begin.y, k)};
  return Source::at(data, of, 0);
}

// Lists the nodes of a segment of n elements, by a warp. (There is room for those of any offsets
// that are some.)
__device__ inline void add_nodes(const node_list& list, index segment, index n) {
  const int t = threadIdx.x % warp;
  const index nodes = (n - 1) / list.node + 1;
  const auto next = [](index& count, index many) {
    return static_cast<index>(atomicAdd(reinterpret_cast<unsigned long long*>(&count), many));
  };
  index first = t == 0 ? next(list.counts[0], nodes) : 0;
  first = __shfl_sync(all_threads, first, 0);
  for (index k = static_cast<index>(t); k < nodes; k += warp) list.nodes[first + k] = {segment, k};
  if (t == 0 && nodes > 1) list.several[next(list.counts[1], 1)] = {segment, first};
}

// Of segments: a thread takes the short ones of four at a time, and those without elements; the
// nodes of those that are for blocks are listed, in any order, as that shows nowhere.
template <class F, class Source, class A>
__global__ void __launch_bounds__(256)
    fold_short_segments(const __grid_constant__ output_elements data,
                        const __grid_constant__ node_list list,
                        const __grid_constant__ output_results how) {
  static_assert(most_by_thread == order::lanes);
  constexpr int each = 4;
  const int t = threadIdx.x % warp;
  const index stride = index{gridDim.x} * blockDim.x;
  for (index first = index{blockIdx.x} * blockDim.x + threadIdx.x - static_cast<index>(t);
       first < data.outputs; first += each * stride) {
    const auto output_of = [&](int thread, int k) {
      return first + static_cast<index>(thread) + static_cast<index>(k) * stride;
    };
    unsigned are_short = 0, are_long = 0;
#pragma unroll
    for (int k = 0; k < each; ++k)
      if (const index output = output_of(t, k); output < data.outputs) {
        const index n = elements_of(data, output);
        are_short |= static_cast<unsigned>(n <= most_by_thread) << k;
        are_long |= static_cast<unsigned>(n > most_by_warp) << k;
      }
#pragma unroll 1
    for (; are_short; are_short &= are_short - 1) {
      const index output = output_of(t, __ffs(static_cast<int>(are_short)) - 1),
                  n = elements_of(data, output);
      if (n == 0)
        write_empty(output, how);
      else
        write_output<F, Source, A>(
            F::template rebase<A>(
                fold_short_by_thread<F, Source, A, 1>(Source::at(data, finder::of(data, output), 0),
                                                      0, static_cast<int>(n)),
                0),
            n, output, how);
    }
#pragma unroll 1
    for (int k = 0; k < each; ++k)
      for (unsigned which = __ballot_sync(all_threads, are_long >> k & 1); which;
           which &= which - 1) {
        const index output = output_of(__ffs(static_cast<int>(which)) - 1, k);
        add_nodes(list, output, elements_of(data, output));
      }
  }
}

// A leaf of `size` elements on a line by a team of threads, `owned` lanes each, of which this one's
// first is `lane`; the state is that of the thread with the first. at: the leaf's place in the
// output.
template <class F, class Source, class A, bool Full, class Line>
__device__ auto fold_leaf_by_team(const Line& line, int at, int lane, int size) {
  constexpr int owned = 4;
  if constexpr (Full) size = order::leaf;
  const auto elements = [=](int from, int width) {
    return Full ? static_cast<index>(width * order::rows) : leaf_lanes{size}(lane + from, width);
  };
  typename Source::single x[order::rows][owned];
#pragma unroll
  for (int r = 0; r < order::rows; ++r)
#pragma unroll
    for (int i = 0; i < owned; ++i)
      if (Full || lane + r * order::lanes + i < size)
        x[r][i] = line.one(at + lane + r * order::lanes + i);
  typename engine<F, Source, A>::local s[owned];
#pragma unroll
  for (int i = 0; i < owned; ++i)
    if (Full || lane + i < size)
      s[i] = method::fold_lane<F, order::rows>(
          Full ? order::rows : order::lane_size(size, lane + i),
          [&](int r) { return Source::made(x[r][i], at + lane + r * order::lanes + i); });
  fold_owned<F>(s, Full ? owned : min(owned, size - lane), elements);
#pragma unroll
  for (int d = owned; d < order::lanes; d *= 2) {
    const auto right = from_right(s[0], d / owned);
    if (Full || lane + d < size)
      s[0] = F::merge(s[0], right, fold::counts{elements(0, d), elements(d, d)});
  }
  return s[0];
}

// Outputs of up to 16 leaves whose elements are neighbours, at any address: a warp takes `at_once`
// neighbours, or of so many segments those that are neither for threads nor for blocks. Teams of
// its threads take their leaves, first those that are full; a thread folds those of an output and
// writes it.
template <class F, class Source, class A>
__global__ void __launch_bounds__(128, sizeof(fold::partial<F, A>) <= 8 && sizeof(A) <= 4 ? 6 : 3)
    fold_leaves_by_teams(const __grid_constant__ output_elements data, int at_once,
                         const __grid_constant__ output_results how) {
  using S = typename engine<F, Source, A>::state;
  constexpr int team = order::lanes / 4, teams = warp / team;
  constexpr int room = sizeof(S) <= 16 ? 128 : 32;  // leaves of a warp at a time
  __shared__ __align__(16) std::byte states[4 * room * sizeof(S)];
  __shared__ std::uint8_t outputs[4 * room];
  const int t = threadIdx.x % warp, w = threadIdx.x / warp, lane = t % team * 4;
  S* const of_leaf = reinterpret_cast<S*>(states) + w * room;
  std::uint8_t* const output_of = outputs + w * room;
  const index each = static_cast<index>(at_once),
              stride = index{gridDim.x} * blockDim.x / warp * each;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * each;
       first < data.outputs; first += stride) {
    const index output = first + static_cast<index>(t);
    index length = 0;
    std::int64_t begin = 0;
    if (t < at_once && output < data.outputs)
      length = elements_of(data, output), begin = finder::of(data, output).begin.x;
    const bool is_mine =
        data.offsets ? length > most_by_thread && length <= most_by_warp : length > 0;
    const int n = is_mine ? static_cast<int>(length) : 0, full = n / order::leaf,
              rest = n % order::leaf, leaves = full + (rest > 0);
    int end = leaves, full_end = full;  // of its leaves, and of the full ones, among all
#pragma unroll
    for (int d = 1; d < warp; d *= 2) {
      const int before = __shfl_up_sync(all_threads, end, d),
                full_before = __shfl_up_sync(all_threads, full_end, d);
      if (t >= d) end += before, full_end += full_before;
    }
    const int all = __shfl_sync(all_threads, end, warp - 1);
    S result;
#pragma unroll 1
    for (int done = 0, full_done = 0; done < all;) {
      // Those of the outputs that there is room for.
      const bool now = leaves > 0 && end - leaves >= done && end - done <= room;
      const int last = warp - 1 - __clz(static_cast<int>(__ballot_sync(all_threads, now)));
      const int here = __shfl_sync(all_threads, end, last) - done,
                full_here = __shfl_sync(all_threads, full_end, last) - full_done;
      const int before = end - leaves - done, full_before = full_end - full - full_done;
      if (now) {
        for (int l = 0; l < full; ++l) output_of[full_before + l] = static_cast<std::uint8_t>(t);
        if (rest > 0) output_of[full_here + before - full_before] = static_cast<std::uint8_t>(t);
      }
      __syncwarp();
#pragma unroll 1
      for (int l = t / team; l - t / team < here; l += teams) {
        const int j = l < here ? output_of[l] : 0;
        const int first_full = __shfl_sync(all_threads, full_before, j),
                  its_full = __shfl_sync(all_threads, full, j),
                  its_rest = __shfl_sync(all_threads, rest, j);
        const int number = l < full_here ? l - first_full : its_full, at = number * order::leaf;
        const int to = __shfl_sync(all_threads, before, j) + number;
        const typename Source::line_of line{static_cast<const typename Source::element*>(data.x) +
                                                __shfl_sync(all_threads, begin, j),
                                            1};
        const int size = l < full_here ? order::leaf : l < here ? its_rest : 0;
        const auto s = __all_sync(all_threads, l < full_here)
                           ? fold_leaf_by_team<F, Source, A, true>(line, at, lane, size)
                           : fold_leaf_by_team<F, Source, A, false>(line, at, lane, size);
        if (lane == 0 && size > 0) of_leaf[to] = F::template rebase<A>(s, 0);
      }
      __syncwarp();
      if (now) {
        thread_counter<F, S, 5> folded;
#pragma unroll 1
        for (int l = 0; l < leaves; ++l)
          folded.push(of_leaf[before + l], static_cast<index>(l < full ? order::leaf : rest));
        result = folded.total();
      }
      __syncwarp();
      done += here;
      full_done += full_here;
    }
    if (is_mine) write_output<F, Source, A>(result, length, output, how);
  }
}

// Warps take outputs of up to 31 tiles, of `at_once` neighbours, whose results its threads write
// together; where lengths differ, those that are neither for threads nor for blocks.
template <class F, class Source, class A>
__global__ void __launch_bounds__(256)
    fold_outputs_by_warps(const __grid_constant__ output_elements data, int at_once,
                          const __grid_constant__ output_results how) {
  using E = engine<F, Source, A>;
  using S = typename E::state;
  const int t = threadIdx.x % warp;
  const index stride = index{gridDim.x} * blockDim.x / warp * at_once;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * at_once;
       first < data.outputs; first += stride) {
    const int here =
        data.outputs - first < at_once ? static_cast<int>(data.outputs - first) : at_once;
    const index output = first + static_cast<index>(t < here ? t : 0),
                own = elements_of(data, output);
    const bool is_mine =
        t < here && (!data.offsets || (own > most_by_thread && own <= most_by_warp));
    const finder mine = finder::of(data, output);
    S result;
#pragma unroll 1
    for (unsigned left = __ballot_sync(all_threads, is_mine); left; left &= left - 1) {
      const int j = __ffs(static_cast<int>(left)) - 1;
      const index n = __shfl_sync(all_threads, own, j);
      const Source from = found_by<Source>(j, mine, data);
      thread_counter<F, S, 5> tiles;
#pragma unroll 1
      for (index at = 0; at < n; at += E::tile) {
        const int size = n - at < E::tile ? static_cast<int>(n - at) : E::tile;
        tiles.push(F::template rebase<A>(fold_found_tile<F, Source, A>(from.ahead(at), size), at),
                   static_cast<index>(size));
      }
      const S s = from_first(tiles.total());
      if (t == j) result = s;
    }
    if (is_mine) write_output<F, Source, A>(result, own, output, how);
  }
}

// Rows of up to a tile: a team of threads takes one, as many as its leaves ask for, and a warp
// `at_once` neighbours, Sets times as many at a time as it has teams. Its threads write the results
// together.
template <class F, class Rows, class A, int Most, int Sets>
__global__ void __launch_bounds__(128)
    fold_rows_by_teams(const __grid_constant__ output_elements data, int team, int at_once,
                       const __grid_constant__ output_results how) {
  using E = engine<F, Rows, A>;
  using S = typename E::state;
  const int t = threadIdx.x % warp, teams = warp / team, n = static_cast<int>(data.n);
  const int j = t % team, leaf = E::leaf_of(j) * order::leaf, lane = E::lane_of(j),
            size = min(n - leaf, order::leaf);
  const int rows =
      lane < size ? order::lane_size(size, lane) : 0;  // in packs: of all lanes of the thread
  // Elements of `width` threads of a team, from `from` after this one on.
  const auto elements_of = [&](int from, int width) {
    if (width < E::group) return leaf_lanes{size}(lane + from * E::owned, width * E::owned);
    const int begin = leaf + from / E::group * order::leaf;
    return static_cast<index>(min(n - begin, width / E::group * order::leaf));
  };
  const index stride = index{gridDim.x} * blockDim.x / warp * at_once;
  for (index first = (index{blockIdx.x} * blockDim.x + threadIdx.x) / warp * at_once;
       first < data.outputs; first += stride) {
    const int here =
        data.outputs - first < at_once ? static_cast<int>(data.outputs - first) : at_once;
    const finder mine =
        finder::of(data, first + static_cast<index>(t < here ? t : 0));  // that of output first + t
    S result;
#pragma unroll 1
    for (int k = 0; k < here; k += Sets * teams) {
      lane_packs<typename Rows::taken, typename Rows::element, Most> v[Sets];
#pragma unroll
      for (int u = 0; u < Sets; ++u) {
        const int row = k + u * teams + t / team;
        finder of{};
        of.begin = {__shfl_sync(all_threads, mine.begin.x, row), 0};
        v[u] = Rows::at(data, of, static_cast<index>(leaf + lane))
                   .template load_some<Most>(row < here ? rows : 0);
      }
#pragma unroll
      for (int u = 0; u < Sets; ++u) {
        typename E::local s[E::owned];
        if (rows > 0) {
#pragma unroll
          for (int i = 0; i < E::owned; ++i)
            s[i] = method::fold_lane<F, Most>(
                rows, [&](int r) { return v[u].get(r, i, leaf + lane + r * order::lanes + i); });
          fold_owned<F>(s, E::owned,
                        [=](int, int width) { return static_cast<index>(width * rows); });
        }
#pragma unroll
        for (int d = 1; d < warp; d *= 2) {
          if (d >= team) break;
          const auto right = from_right(s[0], d);
          const bool there =
              d < E::group ? lane + d * E::owned < size : leaf + d / E::group * order::leaf < n;
          if (there)
            s[0] = F::merge(s[0], right, fold::counts{elements_of(0, d), elements_of(d, d)});
        }
        // To the thread that writes it.
        const S got = F::template rebase<A>(s[0], 0).map(
            [=](auto w) { return __shfl_sync(all_threads, w, t % teams * team); });
        if (t / teams == k / teams + u) result = got;
      }
    }
    if (t < here) write_output<F, Rows, A>(result, data.n, first + static_cast<index>(t), how);
  }
}

// The nodes that are listed, by a block each; of a segment that has one it is the result.
template <class F, class Source, class A>
__global__ void __launch_bounds__(max_threads)
    fold_nodes_of_segments(const __grid_constant__ output_elements data,
                           const __grid_constant__ node_list list,
                           const __grid_constant__ output_results how) {
  using S = fold::partial<F, A>;
  const index count = list.counts[0];
  for (index j = blockIdx.x; j < count; j += gridDim.x) {
    const auto [segment, number] = list.nodes[j];
    const index n = elements_of(data, segment), first = number * list.node, left = n - first;
    const S s = fold_node<F, Source, A>(Source::at(data, finder::of(data, segment), 0), first,
                                        left < list.node ? left : list.node,
                                        reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x != 0) continue;
    if (n > list.node)
      static_cast<S*>(list.states)[j] = s;
    else
      write_all<F, A>(s, n, segment, how);
  }
}

// Blocks take nodes of outputs, which are the results where an output has one.
template <class F, class Source, class A>
__global__ void __launch_bounds__(max_threads)
    fold_outputs(const __grid_constant__ output_elements data, int tiles, index nodes, void* states,
                 const __grid_constant__ output_results how) {
  using S = typename engine<F, Source, A>::state;
  S* const of_tiles = reinterpret_cast<S*>(shared_bytes);
  const index items = data.outputs * nodes,
              node = static_cast<index>(tiles) * engine<F, Source, A>::tile;
  for (index i = blockIdx.x; i < items; i += gridDim.x) {
    index output = i, first = 0;
    if (nodes > 1) output = i / nodes, first = i % nodes * node;
    const index left = data.n - first, here = left < node ? left : node;
    const S s = fold_node<F, Source, A>(Source::at(data, finder::of(data, output), 0), first, here,
                                        of_tiles);
    if (threadIdx.x != 0) continue;
    if (nodes > 1)
      static_cast<S*>(states)[i] = s;
    else
      write_output<F, Source, A>(s, data.n, output, how);
  }
}

// The states from `first` up to `end` of nodes of an output of n elements, by a warp; the state is
// thread 0's.
template <class F, class S>
__device__ S fold_nodes_by_warp(const S* states, index node, index n, index first, index end) {
  const int t = threadIdx.x % warp;
  thread_counter<F, S, 17> runs;
#pragma unroll 1
  for (index k = first; k < end; k += warp) {
    const int here = end - k < warp ? static_cast<int>(end - k) : warp;
    const index left = n - k * node;
    const S s = fold_warp<F>(states[k + (t < here ? t : 0)], here, equal_runs{node, left});
    runs.push(s, left < warp * node ? left : warp * node);
  }
  return runs.total();
}
// The same of all of them by a block, whose warps take `each`, a power of two and at least 32.
// of_warps: room for their states.
template <class F, class S>
__device__ S fold_nodes_by_block(const S* states, index node, index n, index each, S* of_warps) {
  const index nodes = (n + node - 1) / node, w = threadIdx.x / warp, first = w * each,
              end = nodes < first + each ? nodes : first + each;
  if (first < nodes) {
    const S s = fold_nodes_by_warp<F>(states, node, n, first, end);
    if (threadIdx.x % warp == 0) of_warps[w] = s;
  }
  __syncthreads();
  const S s = fold_shared<F>(of_warps, static_cast<int>((nodes + each - 1) / each), each * node, n);
  __syncthreads();
  return s;
}

// The nodes of each output, by a block or, where that takes all, by a warp.
template <class F, class A>
__global__ void __launch_bounds__(max_threads)
    fold_nodes_of_outputs(const __grid_constant__ output_elements data, const void* states,
                          index node, index nodes, index each,
                          const __grid_constant__ output_results how) {
  using S = fold::partial<F, A>;
  const S* const from = static_cast<const S*>(states);
  if (nodes <= each) {
    const index stride = index{gridDim.x} * blockDim.x / warp;
    for (index output = index{blockIdx.x} * blockDim.x / warp + threadIdx.x / warp;
         output < data.outputs; output += stride) {
      const S s = fold_nodes_by_warp<F>(from + output * nodes, node, data.n, 0, nodes);
      if (threadIdx.x % warp == 0) write_all<F, A>(s, data.n, output, how);
    }
    return;
  }
  for (index output = blockIdx.x; output < data.outputs; output += gridDim.x) {
    const S s = fold_nodes_by_block<F>(from + output * nodes, node, data.n, each,
                                       reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x == 0) write_all<F, A>(s, data.n, output, how);
  }
}

// Those of the segments that have several.
template <class F, class A>
__global__ void __launch_bounds__(max_threads)
    fold_long_segments(const __grid_constant__ output_elements data,
                       const __grid_constant__ node_list list,
                       const __grid_constant__ output_results how) {
  using S = fold::partial<F, A>;
  const index count = list.counts[1], warps = blockDim.x / warp;
  for (index j = blockIdx.x; j < count; j += gridDim.x) {
    const auto [segment, first] = list.several[j];
    const index n = elements_of(data, segment);
    index each = warp;
    while (each * warps * list.node < n) each *= 2;
    const S s = fold_nodes_by_block<F>(static_cast<const S*>(list.states) + first, list.node, n,
                                       each, reinterpret_cast<S*>(shared_bytes));
    if (threadIdx.x == 0) write_all<F, A>(s, n, segment, how);
  }
}

// Source: of any outputs; Runs: of what is in packs, Rows: of those that lie on one axis, aligned;
// or void.
template <class F, class Source, class Runs, class Rows, class A>
const char* launch_output_kernels(const output_plan& p, const output_elements& from,
                                  const output_results& all, void* workspace, stream where) {
  const output_results how = with_the_most_asked<F, Source>(all);
  if (p.by == output_plan::by_length) {
    const node_list list = p.list.in(workspace);
    // Elements of two bytes are not read across packs, as there may be none behind them.
    constexpr bool across = [] {
      if constexpr (!std::is_void_v<Runs>) return sizeof(typename Source::element) > 2;
      return false;
    }();
    output_elements long_ones = from;
    long_ones.unaligned = across;
    cudaError_t err =
        list.room > 0 ? cudaMemsetAsync(workspace, 0, sizeof(index[2]), where) : cudaSuccess;
    if (err == cudaSuccess)
      err = enqueue(fold_short_segments<F, Source, A>, std::min(p.blocks, 1 << 11),
                    std::min(p.threads, 256), 0, where, false, from, list, how);
    const auto by_warps = [&] {
      if constexpr (Source::has_lines)  // of one input, which has no places
        return enqueue(fold_leaves_by_teams<F, Source, A>, p.blocks, std::min(p.threads, 128), 0,
                       where, false, from, p.at_once, how);
      else
        return enqueue(fold_outputs_by_warps<F, Source, A>, p.blocks, std::min(p.threads, 256), 0,
                       where, false, from, p.at_once, how);
    };
    if (err == cudaSuccess) err = by_warps();
    if (err == cudaSuccess && list.room > 0)
      err = enqueue(fold_nodes_of_segments<F, std::conditional_t<across, Runs, Source>, A>,
                    p.list_blocks, p.threads, p.shared, where, false, long_ones, list, how);
    if (err == cudaSuccess && list.room_for_several > 0)
      err = enqueue(fold_long_segments<F, A>, p.second_blocks, p.second_threads,
                    static_cast<std::size_t>(p.second_threads) / warp * sizeof(fold::partial<F, A>),
                    where, false, from, list, how);
    return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
  }
  const auto by_blocks = [&]<class S>(std::type_identity<S>) {
    return enqueue(fold_outputs<F, S, A>, p.blocks, p.threads, p.shared, where, false, from,
                   p.tiles, p.nodes, workspace, how);
  };
  const auto by_warps = [&]<class S>(std::type_identity<S>) {
    return enqueue(fold_outputs_by_warps<F, S, A>, p.blocks, std::min(p.threads, 256), 0, where,
                   false, from, p.at_once, how);
  };
  const auto launch = [&](auto by) {
    if constexpr (!std::is_void_v<Rows>)
      if (from.in_packs || from.unaligned)
        return from.reduced.rank == 1 && from.in_packs ? by(std::type_identity<Rows>{})
                                                       : by(std::type_identity<Runs>{});
    return by(std::type_identity<Source>{});
  };
  cudaError_t err = cudaSuccess;
  if (p.by == output_plan::threads_take)
    err = enqueue(fold_outputs_by_threads<F, Source, A>, p.blocks, std::min(p.threads, 256), 0,
                  where, false, from, p.node, p.nodes, workspace, how);
  if constexpr (!std::is_void_v<Rows>) {
    constexpr int many =
        neighbours_of_thread(sizeof(fold::partial<F, A>), sizeof(typename Source::element));
    if (p.by == output_plan::threads_take_short_columns)
      err = enqueue(from.n <= order::lanes ? fold_short_columns<F, Source, A, many, 1>
                                           : fold_short_columns<F, Source, A, many, 2>,
                    p.blocks, p.threads, 0, where, false, from, how);
    if (p.by == output_plan::threads_take_columns)
      err = enqueue(fold_columns<F, Source, A, many>, p.blocks, p.threads, p.shared, where, false,
                    from, p.parts, p.split, p.node, p.nodes, workspace, how);
    if (p.by == output_plan::teams_take) {
      const auto kernel = from.n <= order::lanes       ? fold_rows_by_teams<F, Rows, A, 1, 4>
                          : from.n <= 2 * order::lanes ? fold_rows_by_teams<F, Rows, A, 2, 4>
                          : from.n <= 4 * order::lanes
                              ? fold_rows_by_teams<F, Rows, A, 4, 2>
                              : fold_rows_by_teams<F, Rows, A, order::rows, 1>;
      err = enqueue(kernel, p.blocks, p.threads, 0, where, false, from, p.team, p.at_once, how);
    }
    if (p.by == output_plan::teams_take_leaves)
      err = enqueue(fold_leaves_by_teams<F, Source, A>, p.blocks, p.threads, 0, where, false, from,
                    p.at_once, how);
    if (p.by == output_plan::threads_take_rows) {
      const auto kernel = fold_staged_rows<F, Source, A>;
      err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(p.shared));
      if (err == cudaSuccess)
        err = enqueue(kernel, p.blocks, p.threads, p.shared, where, false, from, p.pitch, how);
    }
  }
  if (err == cudaSuccess && p.by == output_plan::warps_take) err = launch(by_warps);
  if (err == cudaSuccess && p.by == output_plan::blocks_take) err = launch(by_blocks);
  if (err == cudaSuccess && p.nodes > 1)
    err = enqueue(fold_nodes_of_outputs<F, A>, p.second_blocks, p.second_threads,
                  static_cast<std::size_t>(p.second_threads) / warp * sizeof(fold::partial<F, A>),
                  where, false, from, workspace, p.node, p.nodes, p.nodes_of_warp, how);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace

template <>
const char* launch_outputs<part::BITFOLD_PART>(kernel_kind kind, const reduction& r,
                                               const output_plan& p, const output_elements& from,
                                               const output_results& how, void* workspace,
                                               stream where) {
  return with_kernel<const char*>(kind, r, [&]<class F, class T, class A>() -> const char* {
    using choice = output_kernel_choice<F, T, A>;
    if constexpr (choice::in != part::BITFOLD_PART || is_sum_itself<F>)
      return "not of this part";  // not reached: a sum shares the kernels of its base here
    else if constexpr (choice::stored)
      return launch_output_kernels<F, found_elements<widening<F, A>, T>,
                                   run_elements<widening<F, A>, T>, row_elements<widening<F, A>, T>,
                                   A>(p, from, how, workspace, where);
    else
      return launch_output_kernels<F, found_values<widening<F, A>, A>, void, void, A>(
          p, from, how, workspace, where);
  });
}

}  // namespace bitfold::cuda
