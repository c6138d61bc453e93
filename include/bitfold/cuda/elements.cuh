// The elements of an output, as kernels read them: sources for the engine (engine.cuh).
#pragma once

#include <bitfold/cuda/folds.cuh>
#include <bitfold/cuda/packets.cuh>
#include <bitfold/cuda/places.cuh>

namespace bitfold::cuda {

// Elements of as many neighbours, read together; volatile, as load_pack.
template <class T, int Many>
struct alignas(Many * sizeof(T)) neighbours {
  std::uint32_t word[Many * sizeof(T) / 4];

  __device__ static neighbours load(const T* p) {
    neighbours v;
    load_columns(p, v.word);
    return v;
  }
  __device__ T operator[](int i) const {
    pack<T> of{};
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(neighbours) / 4); ++k) of.word[k] = word[k];
    return of[i];
  }
};

// What of a source lies at some places (places.cuh), of which i is the number.
template <class Source, class Places>
struct elements_at {
  Source of;
  Places places;
  __device__ auto one(int i) const { return of.at_place(places(i)); }
};
template <class Source>
__device__ elements_at<Source, line_of_places> line_of(const Source& from) {
  return {from, from.find.line(from.place)};
}
template <class Source>
__device__ elements_at<Source, lines_of_places> lines_of(const Source& from, int i) {
  return {from, from.find.lines(from.place + static_cast<index>(i))};
}
/// Where runs are as long as a row of a leaf, or longer.
template <class Source>
__device__ elements_at<Source, lines_of_rows<Source::two>> lines_by_rows(const Source& from,
                                                                         int i) {
  const int mine = i + static_cast<int>(threadIdx.x) % warp * order::lanes;
  return {from, {from.find.lines(from.place + static_cast<index>(mine))}};
}
/// Neighbours, from where an output begins.
template <class Source>
__device__ elements_at<Source, line_of_places> neighbours_of(const output_elements& from,
                                                             const offset& begin) {
  return {Source::at(from, {&from, begin, {}, false}, 0), {begin, {1, 1}}};
}

// Elements T of an output from `place` on: a source for the engine (engine.cuh). What is read as it
// is stored has one input.
template <class Take, class T>
struct found_elements {
  static_assert(!Take::two);
  static constexpr bool two = false, in_packs = false, has_lines = true;
  /// Whether a tile is read while the one ahead of it is folded to a State.
  template <class State>
  static constexpr bool read_ahead = false;
  static constexpr int owned = 16 / sizeof(T);
  using parameters = output_elements;
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

  __device__ single at_place(const offset& at) const { return x[at.x]; }
  __device__ single one(int i) const { return at_place(find(place + static_cast<index>(i))); }
  BITFOLD_HD static auto made(single x, int at) { return Take::element(x, at); }

  /// Many neighbouring outputs, this one the first, from `place` on.
  template <int Many>
  struct columns {
    using some = neighbours<T, Many>;
    const T* x;
    __device__ some load(std::int64_t at) const { return some::load(x + at); }
    __device__ static auto get(const some& v, int p, int at) { return made(v[p], at); }
  };
  template <int Many>
  __device__ columns<Many> columns_from() const {
    return {x + find(place).x};
  }
};

// The same of two inputs, each at places of its own.
template <class Take, class T>
struct found_pairs {
  static constexpr bool two = true, in_packs = false, has_lines = true;
  template <class State>
  static constexpr bool read_ahead = false;
  static constexpr int owned = 4;
  using parameters = output_elements;
  using element = T;
  struct single {
    T x, y;
  };
  using raw = single;  // it has no packs
  finder find;
  index place;
  const T *x, *y;

  __device__ static found_pairs at(const output_elements& from, const finder& find, index place) {
    return {find, place, static_cast<const T*>(from.x), static_cast<const T*>(from.y)};
  }
  __device__ found_pairs ahead(index k) const { return {find, place + k, x, y}; }
  __device__ single at_place(const offset& at) const { return {x[at.x], y[at.y]}; }
  __device__ single one(int i) const { return at_place(find(place + static_cast<index>(i))); }
  BITFOLD_HD static auto made(const single& s, int at) { return Take::element(s.x, s.y, at); }
};

// Where the rows of a thread's part of a leaf begin, of Owned neighbours each.
template <int Owned>
__device__ void places_of_rows(const finder& find, index place, std::int64_t (&at)[order::rows]) {
  if (find.from->runs == runs_of::leaves) {
    at[0] = find(place).x;
#pragma unroll
    for (int r = 1; r < order::rows; ++r) at[r] = at[0] + r * order::lanes;
  } else if (find.from->runs == runs_of::lanes) {
    // The threads on a leaf look for its rows together.
    constexpr int group = order::lanes / Owned,
                  each = group < order::rows ? order::rows / group : 1;
    const int t = threadIdx.x % warp, lane = t % group * Owned;
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
      at[r] = shuffle_among(together, found[r / group], r % group, group) + lane;
  } else {
#pragma unroll
    for (int r = 0; r < order::rows; ++r) at[r] = find(place + r * order::lanes).x;
  }
}

struct unknown {};

// Two inputs that lie alike, one by one, or of neighbouring outputs. What is Known of a place is
// read with its elements: the parameters of what is made of them, or nothing. Or it is that of an
// output, which its elements share.
template <class Known, class T>
struct alike_pairs {
  static constexpr bool two = true, in_packs = false, has_lines = Known::of_output;
  template <class State>
  static constexpr bool read_ahead = false;
  static constexpr int owned = bytes_of_pair / static_cast<int>(sizeof(T));
  using parameters = typename Known::parameters;
  using element = T;
  using known = typename Known::type;
  finder find;
  index place;
  const parameters* from;
  std::conditional_t<Known::of_output, known, unknown> of_all;

  struct single {
    T x, y;
    known of;
  };
  using raw = single;  // it has no packs
  __device__ static alike_pairs at(const parameters& from, const finder& find, index place) {
    if constexpr (Known::of_output)
      return {find, place, &from, Known::at(from, find.begin.x)};
    else
      return {find, place, &from, {}};
  }
  __device__ alike_pairs ahead(index k) const { return {find, place + k, from, of_all}; }
  __device__ const T* x() const { return static_cast<const T*>(from->x); }
  __device__ const T* y() const { return static_cast<const T*>(from->y); }
  __device__ known known_at(std::int64_t at) const {
    if constexpr (Known::of_output)
      return of_all;
    else
      return Known::at(*from, at);
  }
  __device__ single at_place(const offset& at) const {
    return {x()[at.x], y()[at.x], known_at(at.x)};
  }
  __device__ single one(int i) const { return at_place(find(place + static_cast<index>(i))); }
  BITFOLD_HD static auto made(const single& s, int at) { return Known::made(s.x, s.y, s.of, at); }

  template <int Many>
  struct columns {
    const T *x, *y;
    known each[Many];  // which does not change along them
    struct some {
      neighbours<T, Many> x, y;
    };
    __device__ some load(std::int64_t at) const {
      return {neighbours<T, Many>::load(x + at), neighbours<T, Many>::load(y + at)};
    }
    __device__ auto get(const some& v, int p, int at) const {
      return Known::made(v.x[p], v.y[p], each[p], at);
    }
  };
  template <int Many>
  __device__ columns<Many> columns_from() const {
    const std::int64_t at = find(place).x;
    columns<Many> c{x() + at, y() + at, {}};
#pragma unroll
    for (int p = 0; p < Many; ++p) c.each[p] = Known::at(*from, at + p);
    return c;
  }
};

// The same in packets, in each of which what is known is the same.
template <class Known, class T>
struct alike_packets : alike_pairs<Known, T> {
  using base = alike_pairs<Known, T>;
  using base::find, base::owned, base::place;
  using some = packet<T, owned>;
  static constexpr bool in_packs = true;
  struct raw {
    some x[order::rows], y[order::rows];
    typename base::known of[order::rows];
  };
  __device__ static alike_packets at(const typename base::parameters& from, const finder& find,
                                     index place) {
    return {base::at(from, find, place)};
  }
  __device__ alike_packets ahead(index k) const { return {base::ahead(k)}; }
  template <alignment>
  __device__ raw load() const {
    std::int64_t at[order::rows];
    places_of_rows<owned>(find, place, at);
    raw v;
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
      v.x[r] = some::load(this->x() + at[r]);
      v.y[r] = some::load(this->y() + at[r]);
      v.of[r] = this->known_at(at[r]);
    }
    return v;
  }
  __device__ static auto get(const raw& v, int r, int i, int at) {
    return Known::made(v.x[r][i], v.y[r][i], v.of[r], at);
  }

  /// As row_elements'.
  template <int Most>
  struct some_rows {
    some x[Most], y[Most];
    typename base::known of[Most];
    __device__ auto get(int r, int i, int at) const {
      return Known::made(x[r][i], y[r][i], of[r], at);
    }
  };
  template <int Most>
  __device__ some_rows<Most> load_some(int count) const {
    const std::int64_t begin = find.begin.x + static_cast<std::int64_t>(place);
    some_rows<Most> v;
#pragma unroll
    for (int r = 0; r < Most; ++r) {
      if (r >= count) continue;
      const std::int64_t at = begin + r * order::lanes;
      v.x[r] = some::load(this->x() + at);
      v.y[r] = some::load(this->y() + at);
      v.of[r] = this->known_at(at);
    }
    return v;
  }
};

/// Of pairs as they are.
template <class Take>
struct nothing_known {
  static constexpr bool of_output = false;
  using parameters = output_elements;
  struct type {};
  __device__ static type at(const parameters&, std::int64_t) { return {}; }
  template <class T>
  BITFOLD_HD static auto made(T x, T y, type, int at) {
    return Take::element(x, y, at);
  }
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
  // Five statistics take an eighth less time, var a tenth; sums of f16 and bf16 alone 4 % more.
  template <class State>
  static constexpr bool read_ahead = sizeof(T) > 2 || sizeof(State) > sizeof(float);
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
      if (reinterpret_cast<std::uintptr_t>(p) % 16 == 0) {  // the same for all threads
#pragma unroll
        for (int r = 0; r < order::rows; ++r) v.x[r] = load_pack<true>(p + r * order::lanes);
        return v;
      }
      // Small elements are read across packs, but not those of segments, around which there may be
      // none. Larger ones are as quick to read one after the other.
      if constexpr (sizeof(T) <= 2)
        if (!find.from->offsets) {
          load_leaf_across(p, v.x);
          return v;
        }
#pragma unroll
      for (int r = 0; r < order::rows; ++r)
#pragma unroll
        for (int i = 0; i < owned; ++i) v.x[r].set(i, load_one(p + r * order::lanes + i));
      return v;
    }
    std::int64_t at[order::rows];
    places_of_rows<owned>(find, place, at);
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
  template <class State>
  static constexpr bool read_ahead = true;  // a twelfth less time
  using parameters = output_elements;
  using element = T;
  template <int Most>
  using some_rows = lane_packs<Take, T, Most>;
  __device__ static row_elements at(const output_elements& from, const finder& find, index place) {
    return {{static_cast<const T*>(from.x) + (find.begin.x + static_cast<std::int64_t>(place)),
             nullptr, true}};
  }
  __device__ row_elements ahead(index k) const { return {{this->x + k, nullptr, true}}; }

  /// The first `count` <= Most rows of a leaf.
  template <int Most>
  __device__ some_rows<Most> load_some(int count) const {
    some_rows<Most> v;
#pragma unroll
    for (int r = 0; r < Most; ++r)
      if (r < count) v.x[r] = load_pack<true>(this->x + r * order::lanes);
    return v;
  }
};

}  // namespace bitfold::cuda
