// What gradients of functions of channels sum, as sources and results of the kernels of outputs.
#pragma once

#include <bitfold/cuda/channels.cuh>
#include <bitfold/cuda/outputs.cuh>

namespace bitfold::cuda {

/// Of pairs of g and what the norm took: the parameters of their channel. OfOutput: where each
/// output has one.
template <class T, bool OfOutput>
struct channel_known {
  static constexpr bool of_output = OfOutput;
  using A = row::accumulator<T>;
  using parameters = channel_elements;
  using type = channel::parameters<A>;
  __device__ static type at(const channel_elements& from, std::int64_t offset) {
    return parameters_at<channel::gradient_sums, A>(
        from.places_of.of, channel_at(from.places_of, static_cast<index>(offset)));
  }
  BITFOLD_HD static auto made(T x, T y, const type& p, int) {
    return channel::gradient_of<A>({arith::widen<A>(x), arith::widen<A>(y)}, p);
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
