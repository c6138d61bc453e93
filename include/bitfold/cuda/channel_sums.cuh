// What gradients of functions of channels sum, as sources and results of the kernels of outputs.
#pragma once

#include <bitfold/cuda/channels.cuh>
#include <bitfold/cuda/outputs.cuh>

namespace bitfold::cuda {

/// Pairs of g and what the norm took, one by one: a source for the engine.
template <class T>
struct channel_pairs {
  using A = row::accumulator<T>;
  static constexpr bool two = true, in_packs = false, has_lines = false;
  template <class State>
  static constexpr bool read_ahead = false;
  static constexpr int owned = 8 / sizeof(T);
  using parameters = channel_elements;
  using element = T;
  using known = channel::parameters<A>;
  finder find;
  index place;
  const channel_elements* from;

  struct single {
    T x, y;
    known p;
  };
  using raw = single;  // it has no packs
  __device__ static channel_pairs at(const channel_elements& from, const finder& find,
                                     index place) {
    return {find, place, &from};
  }
  __device__ channel_pairs ahead(index k) const { return {find, place + k, from}; }
  __device__ const T* x() const { return static_cast<const T*>(from->x); }
  __device__ const T* y() const { return static_cast<const T*>(from->y); }
  __device__ known known_at(std::int64_t offset) const {
    return parameters_at<channel::gradient_sums, A>(
        from->places_of.of, channel_at(from->places_of, static_cast<index>(offset)));
  }
  __device__ single one(int i) const {
    const std::int64_t at = find(place + static_cast<index>(i)).x;
    return {x()[at], y()[at], known_at(at)};
  }
  __device__ static auto made_of(T x, T y, const known& p) {
    return channel::gradient_of<A>({arith::widen<A>(x), arith::widen<A>(y)}, p);
  }
  BITFOLD_HD static auto made(const single& s, int) { return made_of(s.x, s.y, s.p); }

  /// Neighbouring outputs, whose parameters do not change along them.
  template <int Many>
  struct columns {
    const T *x, *y;
    known each[Many];
    struct some {
      neighbours<T, Many> x, y;
    };
    __device__ some load(std::int64_t at) const {
      return {neighbours<T, Many>::load(x + at), neighbours<T, Many>::load(y + at)};
    }
    __device__ auto get(const some& v, int p, int) const {
      return made_of(v.x[p], v.y[p], each[p]);
    }
  };
  template <int Many>
  __device__ columns<Many> columns_from() const {
    const std::int64_t at = find(place).x;
    columns<Many> c{x() + at, y() + at, {}};
#pragma unroll
    for (int p = 0; p < Many; ++p) c.each[p] = known_at(at + p);
    return c;
  }
};

/// The same in packs, each of which lies in one line.
template <class T>
struct channel_packs : channel_pairs<T> {
  using base = channel_pairs<T>;
  using base::find, base::owned, base::place;
  using some = packet<T, owned>;
  static constexpr bool in_packs = true;
  struct raw {
    some x[order::rows], y[order::rows];
    typename base::known p[order::rows];
  };
  __device__ static channel_packs at(const channel_elements& from, const finder& find,
                                     index place) {
    return {base::at(from, find, place)};
  }
  __device__ channel_packs ahead(index k) const { return {base::ahead(k)}; }
  template <alignment>
  __device__ raw load() const {
    std::int64_t at[order::rows];
    places_of_rows<owned>(find, place, at);
    raw v;
#pragma unroll
    for (int r = 0; r < order::rows; ++r) {
      v.x[r] = some::load(this->x() + at[r]);
      v.y[r] = some::load(this->y() + at[r]);
      v.p[r] = base::known_at(at[r]);
    }
    return v;
  }
  __device__ static auto get(const raw& v, int r, int i, int) {
    return base::made_of(v.x[r][i], v.y[r][i], v.p[r]);
  }
};

/// Where the sums of an output go: those of g w, and those of g, which are the same where there is
/// no weight.
template <bool Both, class A>
struct channel_results {
  channel_sums to;
  template <class F, class Source, class, class S>
  __device__ void write(const S& s, index n, index output) const {
    if constexpr (Both)
      write_statistics(s.a, n, output), write_parameters(s.b, output);
    else
      write_statistics(s, n, output), write_parameters(s, output);
  }
  __device__ void write_empty(index) const {}

 private:
  template <class S>
  __device__ void write_statistics(const S& s, index n, index output) const {
    set(to.slope, output, channel::slope_of<A>(s, n));
    set(to.mean_g, output, channel::mean_of<A>(s, n));
  }
  template <class S>
  __device__ void write_parameters(const S& s, index output) const {
    set(to.dw, output, s.a.sum);
    set(to.db, output, s.b.sum);
  }
  __device__ static void set(void* to, index output, A value) {
    if (to) static_cast<A*>(to)[output] = arith::round_to<A>(value);
  }
};

}  // namespace bitfold::cuda
