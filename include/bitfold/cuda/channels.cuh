// Functions of channels on a GPU: each element by itself, with what is known of its channel.
#pragma once

#include <bitfold/channel_functions.hpp>
#include <bitfold/cuda/places.cuh>
#include <bitfold/cuda/rows.cuh>

namespace bitfold::cuda {

// The channel of an element, its statistic, and how many elements of its line are ahead of it.
struct channel_of_element {
  index channel, statistic, before;
};
__device__ inline channel_of_element channel_at(const channel_places& all, index i) {
  const auto& extent = all.extents.dims;
  index line, statistic, outer;
  if (all.by.narrow) {
    const std::uint32_t l = quotient(all.by, 3, static_cast<std::uint32_t>(i)),
                        s = quotient(all.by, 2, l);
    line = l, statistic = s, outer = quotient(all.by, 1, s);
  } else {
    line = i / extent[3].extent;
    statistic = line / extent[2].extent;
    outer = statistic / extent[1].extent;
  }
  return {line - outer * all.of.count,
          all.of.of_each_outer ? statistic : statistic - outer * extent[1].extent,
          i - line * extent[3].extent};
}

template <class F, class A>
__device__ channel::parameters<A> parameters_at(const channels& of, const channel_of_element& at) {
  return channel::parameters_of<F, A>(of, at.channel, at.statistic);
}

template <class F, class T>
struct channel_map {
  using A = row::accumulator<T>;
  using parameters = channel::parameters<A>;
  __device__ static A value(T x, T y, const parameters& p) {
    return F::template value<A>({arith::widen<A>(x), arith::widen<A>(y)}, p);
  }
  __device__ static void one(const channel_places& all, index i, T* out) {
    const T x = static_cast<const T*>(all.of.x)[i];
    out[i] = arith::round_to<T>(value(x, F::takes_y ? static_cast<const T*>(all.of.y)[i] : x,
                                      parameters_at<F, A>(all.of, channel_at(all, i))));
  }
  // Owned neighbours; of(k) has the parameters of number k.
  template <int Owned, class Parameters>
  __device__ static void some(const channel_places& all, index i, T* out, Parameters of) {
    using packet_of = packet<T, Owned>;
    const packet_of x = packet_of::load(static_cast<const T*>(all.of.x) + i);
    packet_of y = x;
    if constexpr (F::takes_y) y = packet_of::load(static_cast<const T*>(all.of.y) + i);
    A results[Owned];
#pragma unroll
    for (int k = 0; k < Owned; ++k) results[k] = value(x[k], y[k], of(k));
    packet_of::template narrowed<true>(results).store(out + i);
  }
};

// A thread takes Owned neighbours at a time, mostly of one line.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(threads_on_channels)
    map_channels(const __grid_constant__ channel_places all, T* out) {
  using map = channel_map<F, T>;
  using A = typename map::A;
  const index size = all.of.size(), thread = index{blockIdx.x} * blockDim.x + threadIdx.x,
              threads = index{gridDim.x} * blockDim.x;
#pragma unroll 1
  for (index i = thread * Owned; i + Owned <= size; i += threads * Owned) {
    const channel_of_element at = channel_at(all, i);
    const typename map::parameters p = parameters_at<F, A>(all.of, at);
    if (at.before + Owned <= all.of.inner) {
      map::template some<Owned>(all, i, out, [&](int) { return p; });
    } else {
      typename map::parameters each[Owned];
#pragma unroll
      for (int k = 0; k < Owned; ++k)
        each[k] = at.before + k < all.of.inner
                      ? p
                      : parameters_at<F, A>(all.of, channel_at(all, i + static_cast<index>(k)));
      map::template some<Owned>(all, i, out, [&](int k) { return each[k]; });
    }
  }
  if (const index i = size / Owned * Owned + thread; i < size) map::one(all, i, out);
}

// The same of lines of one element, and statistics of a channel each: a thread keeps to Owned
// neighbouring channels, if there are threads for all.
template <class F, class T, int Owned>
__global__ void __launch_bounds__(threads_on_channels)
    map_channels_beside(const __grid_constant__ channel_places all, T* out) {
  using map = channel_map<F, T>;
  using A = typename map::A;
  const index groups = all.of.count / Owned, thread = index{blockIdx.x} * blockDim.x + threadIdx.x,
              threads = index{gridDim.x} * blockDim.x,
              step = threads < groups ? threads : threads / groups * groups;
  index known = groups;
  typename map::parameters each[Owned];
  if (thread >= step) return;
#pragma unroll 1
  for (index i = thread; i < all.of.outer * groups; i += step) {
    const index group = i % groups;
    if (group != known) {
#pragma unroll
      for (int k = 0; k < Owned; ++k) {
        const index channel = group * Owned + static_cast<index>(k);
        each[k] = parameters_at<F, A>(all.of, {channel, channel, 0});
      }
      known = group;
    }
    map::template some<Owned>(all, i * Owned, out, [&](int k) { return each[k]; });
  }
}

}  // namespace bitfold::cuda
