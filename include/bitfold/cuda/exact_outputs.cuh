// Exact sums of many outputs, of one element type. Teams of threads take an output each, by levels,
// which leave nothing of ordinary data. What they do not take, and what is long, goes to cells:
// those of a warp, in shared memory, or of an output.
#pragma once

#include <bitfold/cuda/exact_levels.cuh>
#include <bitfold/cuda/exact_results.cuh>
#include <bitfold/cuda/places.cuh>

namespace bitfold::cuda {

// The elements of an output before `end`, as one of the `team` threads reads them that share them:
// rows, mostly; runs of packs on several axes, too; or columns, at equal distances far from each
// other.
enum class outputs_in { rows, runs, columns };
template <class T, bool Two, outputs_in How = outputs_in::rows>
struct output_reader {
  static constexpr int size = pack<T>::size,
                       at_once = packs_at_once * size;  // times the team's threads
  finder find;
  index end;
  int t, team;

  // Whether it has any of those from `at` on.
  __device__ bool has(index at) const {
    return at + static_cast<index>(t * (find.from->in_packs ? size : 1)) < end;
  }
  __device__ void load(index at, pack<T> (&x)[packs_at_once], pack<T> (&y)[Two ? packs_at_once : 1],
                       bits_of_type<T> padding) const {
    if (How == outputs_in::columns || (find.linear && !find.from->in_packs)) {
      const index first = at + static_cast<index>(t);
      if (first + static_cast<index>((at_once - 1) * team) < end) {
        const offset o = find(first);
        const T *px = static_cast<const T*>(find.from->x) + o.x,
                *py = static_cast<const T*>(find.from->y) + o.y;
#pragma unroll
        for (int u = 0; u < packs_at_once; ++u)
#pragma unroll
          for (int i = 0; i < size; ++i, px += team * find.stride.x, py += team * find.stride.y) {
            x[u].set(i, to_bits(*px));
            if constexpr (Two) y[u].set(i, to_bits(*py));
          }
        return;
      }
    } else if (find.from->in_packs && find.linear) {
#pragma unroll
      for (int u = 0; u < packs_at_once; ++u) {
        const index first = at + static_cast<index>((u * team + t) * size);
        if (first + size <= end) {
          x[u] = load_pack<true>(static_cast<const T*>(find.from->x) + find.begin.x + first);
          if constexpr (Two)
            y[u] = load_pack<true>(static_cast<const T*>(find.from->y) + find.begin.y + first);
        } else {
          set(u, some(*this, first, 1, padding), x, y);
        }
      }
      return;
    }
    if constexpr (How == outputs_in::runs)
      if (const index first = at + static_cast<index>(t * size);
          find.from->in_packs &&
          first + static_cast<index>((packs_at_once - 1) * team * size + size) <= end) {
        const offsets o = packs_from(*this, first);
#pragma unroll
        for (int u = 0; u < packs_at_once; ++u) {
          x[u] = load_pack<true>(static_cast<const T*>(find.from->x) + o.each[u].x);
          if constexpr (Two)
            y[u] = load_pack<true>(static_cast<const T*>(find.from->y) + o.each[u].y);
        }
        return;
      }
#pragma unroll
    for (int u = 0; u < packs_at_once; ++u)
      set(u,
          find.from->in_packs
              ? some(*this, at + static_cast<index>((u * team + t) * size), 1, padding)
              : some(*this, at + static_cast<index>(u * team * size + t), team, padding),
          x, y);
  }

 private:
  struct both {
    pack<T> x;
    std::conditional_t<Two, pack<T>, char> y;
  };
  __device__ static void set(int u, const both& v, pack<T> (&x)[packs_at_once],
                             pack<T> (&y)[Two ? packs_at_once : 1]) {
    x[u] = v.x;
    if constexpr (Two) y[u] = v.y;
  }
  // Where this thread's packs are, the first of which begins there; out of line, and of a copy, so
  // that all else stays in registers.
  struct offsets {
    offset each[packs_at_once];
  };
  __device__ __noinline__ static offsets packs_from(output_reader from, index first) {
    offsets o;
#pragma unroll
    for (int u = 0; u < packs_at_once; ++u)
      o.each[u] = from.find(first + static_cast<index>(u * from.team * size));
    return o;
  }
  // Elements first, first + step, ...: seldom, and likewise.
  __device__ __noinline__ static both some(output_reader from, index first, int step,
                                           bits_of_type<T> padding) {
    const finder& find = from.find;
    const T *px = static_cast<const T*>(find.from->x), *py = static_cast<const T*>(find.from->y);
    both v;
    if (find.from->in_packs && first + size <= from.end) {
      const offset o = find(first);
      v.x = load_pack<true>(px + o.x);
      if constexpr (Two) v.y = load_pack<true>(py + o.y);
      return v;
    }
#pragma unroll
    for (int i = 0; i < size; ++i) {
      const index k = first + static_cast<index>(i * step);
      const bool here = k < from.end;
      const offset o = here ? find(k) : offset{};
      v.x.set(i, here ? to_bits(px[o.x]) : padding);
      if constexpr (Two) v.y.set(i, here ? to_bits(py[o.y]) : bits_of_type<T>{0});
    }
    return v;
  }
};

// Sums of numbers v[k] 2^shift[k] in the unit of the sum, and flags.
struct level_sums {
  static constexpr int most = 4;
  std::int64_t v[most];
  int shift[most];
  unsigned flags;
};
// How many terms are not NaN, as if by a level.
template <class T>
struct counted_level {
  static constexpr int groups = 1, levels = 1, count = cells_of<T, 1>;
  static constexpr bool is_fixed = true, anchored = true;
  BITFOLD_HD static constexpr int shift(int, int) { return -exact::range<T>::low; }
  std::int64_t taken[1][1] = {};
  unsigned flags = 0;
  __device__ explicit counted_level(std::byte*) {}
  template <int>
  __device__ void fix() {}
  __device__ void clear() { taken[0][0] = 0, flags = 0; }
  template <int U, bool>
  __device__ bool attempt(const pack<T> (&x)[U], const pack<T> (&)[1]) {
    taken[0][0] += U * pack<T>::size - counting_terms<T, output_threads>::nans_of(x);
    flags = exact::something_else;
    return true;
  }
  __device__ void flush(std::int64_t* cells) {
    add_all_to_cells(cells, count, taken[0][0], shift(0, 0));
    clear();
  }
};
template <term What, class T>
struct output_levels_of {
  // Numbers of 8 bits are in one level all.
  static constexpr int levels =
      exact::range<T>::mantissa == 7 && exact::degree(What) == 1 && exact::inputs(What) == 1
          ? 1
          : levels_of<double_parts<What, T>, exact::degree(What)>;
  using type = in_levels<What, T, output_threads, levels>;
};
template <class T>
struct output_levels_of<term::presence, T> {
  using type = counted_level<T>;
};
template <term What, class T>
using output_levels = typename output_levels_of<What, T>::type;

// Adds elements from `begin` to below the reader's end, which is at most `stop` for each thread of
// the warp. Whether the levels took this thread's. They stay where they are for the next elements,
// if these are alike.
template <term What, class T, bool Two, outputs_in How, class Levels>
__device__ bool take_output(const output_reader<T, Two, How>& from, index begin, index stop,
                            Levels& s) {
  constexpr int U = packs_at_once;
  constexpr auto padding = static_cast<bits_of_type<T>>(
      What == term::presence ? ~bits_of_type<T>{0}
                             : bits_of_type<T>{1} << (exact::range<T>::width - 1));
  constexpr int slack =
      Levels::levels == 1 ? 8 : 16;  // binades that later elements may be above the first ones
  const index step = static_cast<index>(from.team * from.at_once);
  pack<T> next_x[U], next_y[Two ? U : 1];
  from.load(begin, next_x, next_y, padding);
  s.clear();
  s.template fix<U>();
  bool all = true;
  for (index at = begin; at < stop; at += step) {
    pack<T> x[U], y[Two ? U : 1];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      x[u] = next_x[u];
      if constexpr (Two) y[u] = next_y[u];
    }
    if (at + step < stop) from.load(at + step, next_x, next_y, padding);
    const bool mine = from.has(at);
    const auto attempt = [&] { return !mine || (s.anchored && s.template attempt<U, Two>(x, y)); };
    bool done = attempt();
    if constexpr (!Levels::is_fixed)
      if (at == begin && !all_of_the_warp(done)) {
        s.clear();
        using x_packs = typename Levels::template packs<U>;
        using y_packs = typename Levels::template packs<Two ? U : 1>;
        s.template anchor<U>(Levels::template highest<U, Two>(x_packs(x), y_packs(y), mine) +
                             slack);
        done = attempt();
      }
    all = all && done;
  }
  return all;
}

// Every term by itself, to cells that other threads add to as well.
struct to_cells {
  std::int64_t* cells;
  unsigned flags = 0;
  __device__ void deposit(wide m, int shift, bool negative) {
    const int k = shift / 32, s = shift % 32;
    const word digits[5] = {
        static_cast<std::uint32_t>(m << s), static_cast<std::uint32_t>(m << s >> 32),
        static_cast<std::uint32_t>(m << s >> 64), static_cast<std::uint32_t>(m << s >> 96),
        s ? static_cast<word>(m >> (128 - s)) : 0};
#pragma unroll
    for (int d = 0; d < 5; ++d)
      if (digits[d]) add_to(as_word(cells[k + d]), negative ? 0 - digits[d] : digits[d]);
  }
};
template <term What, class T>
__device__ __noinline__ unsigned deposit_each(const finder& find, index begin, index end,
                                              std::int64_t* cells) {
  to_cells to{cells};
  for (index i = begin + threadIdx.x % warp; i < end; i += warp) {
    const offset at = find(i);
    exact::deposit<What>(
        to, static_cast<const T*>(find.from->x)[at.x],
        exact::inputs(What) == 2 ? static_cast<const T*>(find.from->y)[at.y] : T{});
  }
  return to.flags;
}
// A warp adds a term of elements begin to end of an output to cells of its own.
template <term What, class T>
__device__ __noinline__ void add_output(const finder& find, index begin, index end,
                                        std::int64_t* cells) {
  constexpr int count = cells_of<T, exact::degree(What)>;
  const int t = threadIdx.x % warp;
  for (index at = begin; at < end; at += output_chunk) {
    const index stop = end - at < output_chunk ? end : at + output_chunk;
    unsigned flags = 0;
    bool all = false;
    if constexpr (std::is_integral_v<T>) {
      flags = deposit_each<What, T>(find, at, stop, cells);
    } else {
      using reader = output_reader<T, exact::inputs(What) == 2, outputs_in::runs>;
      output_levels<What, T> s(nullptr);
      all = all_of_the_warp(take_output<What>(reader{find, stop, t, warp}, at, stop, s));
      if (all) {
        flags = s.flags;
        s.flush(cells);
      } else {
        flags = deposit_each<What, T>(find, at, stop, cells);
      }
    }
    flags = bits_of_the_warp(flags);
    if (t == 0) cells[count - 1] |= flags;
    wait_for_the_warp();
    if (!all) carry_cells(cells, count, t, warp);
    wait_for_the_warp();
  }
}

// Shared memory of a warp: cells of one term, and the sums of some.
template <class T, int Sums>
struct warp_room {
  std::int64_t* cells;
  summed<T>* sums;
  __device__ warp_room() {
    std::byte* const mine =
        reinterpret_cast<std::byte*>(shared_bytes) + (threadIdx.x / warp) * bytes_of_warp<T>(Sums);
    cells = reinterpret_cast<std::int64_t*>(mine);
    sums = reinterpret_cast<summed<T>*>(mine + bytes_of_cells(cells_of<T, 2>));
  }
  __device__ void clear() const {
    for (int i = threadIdx.x % warp; i < cells_of<T, 2>; i += warp) cells[i] = 0;
    wait_for_the_warp();
  }
};
template <class Terms>
using room_of = warp_room<typename Terms::element, Terms::count>;
// The results of an output, from sums in shared memory by a warp, or from its own by a thread; out
// of line, so that all else stays in registers.
template <class Terms, class Results>
__device__ __noinline__ void write_output_of_cells(const room_of<Terms>& room, index output,
                                                   index n, const Results& how) {
  wait_for_the_warp();
  how.write(sums_of_cells<Terms>{room.sums}, n, output,
            [t = static_cast<int>(threadIdx.x % warp)](int k) { return k % warp == t; });
  wait_for_the_warp();
}
template <class Sums, class Results>
__device__ __noinline__ void write_output(const Sums& sums, index output, index n,
                                          const Results& how) {
  how.write(sums, n, output, [](int) { return true; });
}

// Sums in levels, of each term: they have fronts, and no states.
template <class Terms>
struct sums_of_levels {
  using terms = Terms;
  const level_sums* each;
  template <term What, bool Front>
    requires Front
  __device__ exact::normalized get() const {
    using T = typename Terms::element;
    using levels = output_levels<What, T>;
    constexpr int count = levels::groups * levels::levels;
    const level_sums& l = each[Terms::number_of(What)];
    exact::sum<T, 1> of_flags;
    of_flags.flags = l.flags;
    int low = l.shift[0];
#pragma unroll
    for (int i = 1; i < count; ++i) low = min(low, l.shift[i]);
    exact::word w[4] = {};
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const bool minus = l.v[i] < 0;
      const auto m = static_cast<exact::word>(minus ? 0 - static_cast<word>(l.v[i])
                                                    : static_cast<word>(l.v[i]));
      bool carry = false;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int up = l.shift[i] - low - 64 * j;
        const exact::word part = up >= 64 || up <= -64 ? 0 : up >= 0 ? m << up : m >> -up;
        w[j] = minus ? exact::sub_borrow(w[j], part, carry) : exact::add_carry(w[j], part, carry);
      }
    }
    const bool negative = w[3] >> 63;
    if (negative) {
      bool borrow = false;
#pragma unroll
      for (exact::word& x : w) x = exact::sub_borrow(0, x, borrow);
    }
    const exact::kind kind = of_flags.kind();
    if ((w[0] | w[1] | w[2] | w[3]) == 0)
      return {kind == exact::kind::finite ? exact::kind::empty : kind, false, {}};
    // Its first bit to the front.
    int zeros = 0;
#pragma unroll
    for (int j = 0; j < 3; ++j)
      if (w[3] == 0) {
        w[3] = w[2], w[2] = w[1], w[1] = w[0], w[0] = 0;
        zeros += 64;
      }
    if (const int up = arith::leading_zeros(w[3])) {
#pragma unroll
      for (int j = 3; j > 0; --j) w[j] = w[j] << up | w[j - 1] >> (64 - up);
      w[0] <<= up;
      zeros += up;
    }
    return {exact::kind::finite,
            negative,
            {w[0], w[1], w[2], w[3], exact::sum_of<T, What>::low + low - zeros, false}};
  }
};
// A term of `here` outputs from `first` on, warp / team at a time; that of the t-th is thread t's.
// Returns whose the levels did not take.
template <term What, class T>
__device__ __noinline__ unsigned sum_outputs(const output_elements& data, index first, int here,
                                             int team, level_sums& mine) {
  using levels = output_levels<What, T>;
  const int t = threadIdx.x % warp, teams = warp / team;
  const unsigned team_mask = team == warp ? all_threads : (1u << team) - 1;
  unsigned hard = 0;
  levels s(nullptr);
#pragma unroll 1
  for (int r = 0; r < here; r += teams) {
    const int row = r + t / team;
    const index output = first + static_cast<index>(row < here ? row : r),
                n = elements_of(data, output);
    bool all = false;
    if (n <= output_chunk) {  // as is each of the warp's: where lengths differ, a team is a warp
      using reader = output_reader<T, exact::inputs(What) == 2>;
      all = take_output<What>(reader{finder::of(data, output), row < here ? n : 0, t % team, team},
                              0, n, s);
    }
    const unsigned left = ballot(!all);
    const int from = t - r;  // the team whose sum is this thread's
    const bool is_mine = from >= 0 && from < teams;
    if (is_mine && (left >> (from * team) & team_mask)) hard = 1;
    unsigned flags = s.flags;
    for (int d = team / 2; d > 0; d /= 2) flags |= shuffle_across(flags, d);
    flags = shuffle(flags, from * team & (warp - 1));
    if (is_mine) mine.flags = flags;
#pragma unroll
    for (int g = 0; g < levels::groups; ++g)
#pragma unroll
      for (int l = 0; l < levels::levels; ++l) {
        std::int64_t v = s.taken[g][l];
        for (int d = team / 2; d > 0; d /= 2) v += shuffle_across(v, d);
        v = shuffle(v, from * team & (warp - 1));
        if (is_mine) {
          mine.v[g * levels::levels + l] = v;
          mine.shift[g * levels::levels + l] = s.shift(g, l);
        }
      }
  }
  return hard;
}

// Calls f(the number of a term, the term) with each.
template <class T, term... What, class F>
__device__ void each_of(exact_terms<T, What...>, F f) {
  int k = 0;
  (f(k++, std::integral_constant<term, What>{}), ...);
}
// What a warp adds up of an output, term by term, in shared memory.
template <class Terms, class Results>
__device__ void take_by_cells(const output_elements& data, index output, const room_of<Terms>& room,
                              const Results& how) {
  const index n = elements_of(data, output);
  each_of(Terms{}, [&]<term What>(int k, std::integral_constant<term, What>) {
    room.clear();
    add_output<What, typename Terms::element>(finder::of(data, output), 0, n, room.cells);
    sum_cells_of<Terms>(k, room.cells, room.sums[k]);
    wait_for_the_warp();  // until all have read the cells, which are the next term's
  });
  write_output_of_cells<Terms>(room, output, n, how);
}

// Whole outputs: warps take `rows` of them, in teams.
template <class Terms, class Results>
__global__ void __launch_bounds__(output_threads, 4)
    exact_outputs(const __grid_constant__ output_elements data, int team, int rows,
                  const __grid_constant__ Results how) {
  using T = typename Terms::element;
  constexpr bool by_levels = !std::is_integral_v<T> && Results::of_fronts;
  const int t = threadIdx.x % warp;
  const index stride = index{gridDim.x} * (blockDim.x / warp) * static_cast<index>(rows);
  const room_of<Terms> room;
  for (index first = (index{blockIdx.x} * (blockDim.x / warp) + threadIdx.x / warp) *
                     static_cast<index>(rows);
       first < data.outputs; first += stride) {
    const int here = data.outputs - first < static_cast<index>(rows)
                         ? static_cast<int>(data.outputs - first)
                         : rows;
    const index output = first + static_cast<index>(t),
                n = t < here ? elements_of(data, output) : 0;
    bool by_cells = true;
    if constexpr (by_levels) {
      level_sums sums[Terms::count] = {};
      unsigned hard = 0;
      each_of(Terms{}, [&]<term What>(int k, std::integral_constant<term, What>) {
        hard |= sum_outputs<What, T>(data, first, here, team, sums[k]);
      });
      by_cells = hard != 0;
      if (t < here && n > 0 && !by_cells) write_output(sums_of_levels<Terms>{sums}, output, n, how);
    }
    if (t < here && n == 0) how.write_empty(output);
    for (unsigned left = ballot(t < here && n > 0 && by_cells); left; left &= left - 1)
      take_by_cells<Terms>(data, first + static_cast<index>(first_bit(left)), room, how);
  }
}

// Long outputs in chunks, a warp each, which are added up in cells of each output.
template <class Terms>
__global__ void __launch_bounds__(output_threads, 4)
    exact_chunks(const __grid_constant__ output_elements data,
                 const __grid_constant__ exact_cells<Terms::count> to, index chunks, index chunk) {
  using T = typename Terms::element;
  const int t = threadIdx.x % warp;
  const index items = data.outputs * chunks, stride = index{gridDim.x} * (blockDim.x / warp);
  const warp_room<T, 0> room;
  for (index i = index{blockIdx.x} * (blockDim.x / warp) + threadIdx.x / warp; i < items;
       i += stride) {
    const index output = i / chunks, begin = i % chunks * chunk;
    const index end = data.n - begin < chunk ? data.n : begin + chunk;
    each_of(Terms{}, [&]<term What>(int k, std::integral_constant<term, What>) {
      room.clear();
      add_output<What, T>(finder::of(data, output), begin, end, room.cells);
      constexpr int count = cells_of_term<T>(What);
      std::int64_t* const of_output = to.at[k] + output * static_cast<index>(count);
      for (int c = t; c < count; c += warp)
        if (const auto v = static_cast<word>(room.cells[c])) {
          if (c < count - 1)
            add_to(as_word(of_output[c]), v);
          else
            set_bits_of(as_word(of_output[c]), v);
        }
      wait_for_the_warp();
    });
  }
}

// A chunk of a term of neighbouring outputs, of which this thread takes number `output`, if it is
// its own; `first` is the warp's first.
template <term What, class T>
__device__ void add_columns(const output_elements& data, index first, index output, bool mine,
                            index begin, index end, std::int64_t* cells) {
  using levels = output_levels<What, T>;
  using reader = output_reader<T, exact::inputs(What) == 2, outputs_in::columns>;
  constexpr int count = cells_of_term<T>(What);
  const auto cells_at = [&](index of) { return cells + of * static_cast<index>(count); };
  const auto add_flags = [&](index of, unsigned flags) {
    if (flags) set_bits_of(as_word(cells_at(of)[count - 1]), word{flags});
  };
  levels s(nullptr);
  const bool all =
      take_output<What>(reader{finder::of(data, output), mine ? end : begin, 0, 1}, begin, end, s);
  if (mine && all) {
    to_cells to{cells_at(output)};
#pragma unroll
    for (int g = 0; g < levels::groups; ++g)
#pragma unroll
      for (int l = 0; l < levels::levels; ++l)
        if (const std::int64_t v = s.taken[g][l])
          to.deposit(v < 0 ? 0 - static_cast<word>(v) : static_cast<word>(v), s.shift(g, l), v < 0);
    add_flags(output, s.flags);
  }
  for (unsigned left = ballot(mine && !all); left; left &= left - 1) {
    const index one = first + static_cast<index>(first_bit(left));
    add_flags(one, deposit_each<What, T>(finder::of(data, one), begin, end, cells_at(one)));
  }
}
// Outputs that are neighbours, in chunks, a thread each, which are added up likewise.
template <class Terms>
__global__ void __launch_bounds__(output_threads, 4)
    exact_columns(const __grid_constant__ output_elements data,
                  const __grid_constant__ exact_cells<Terms::count> to, index chunks, index chunk) {
  const int t = threadIdx.x % warp;
  const index stripes = (data.outputs + warp - 1) / warp, items = stripes * chunks,
              stride = index{gridDim.x} * (blockDim.x / warp);
  for (index i = index{blockIdx.x} * (blockDim.x / warp) + threadIdx.x / warp; i < items;
       i += stride) {
    const index first = i % stripes * warp, begin = i / stripes * chunk,
                end = data.n - begin < chunk ? data.n : begin + chunk;
    const bool mine = first + static_cast<index>(t) < data.outputs;
    const index output = mine ? first + static_cast<index>(t) : first;
    each_of(Terms{}, [&]<term What>(int k, std::integral_constant<term, What>) {
      add_columns<What, typename Terms::element>(data, first, output, mine, begin, end, to.at[k]);
    });
  }
}
// The results of those cells, a warp for each output.
template <class Terms, class Results>
__global__ void __launch_bounds__(output_threads)
    exact_finish_outputs(index outputs, index n,
                         const __grid_constant__ exact_cells<Terms::count> from,
                         const __grid_constant__ Results how) {
  const room_of<Terms> room;
  const index stride = index{gridDim.x} * (blockDim.x / warp);
  for (index output = index{blockIdx.x} * (blockDim.x / warp) + threadIdx.x / warp;
       output < outputs; output += stride) {
    for (int k = 0; k < Terms::count; ++k)
      sum_cells_of<Terms>(k, from.at[k] + output * static_cast<index>(Terms::cells(k)),
                          room.sums[k]);
    write_output_of_cells<Terms>(room, output, n, how);
  }
}

}  // namespace bitfold::cuda
