// What bitfold/reduce.hpp does, on a GPU: several reductions in one pass, operations and transforms
// of the caller's own among them, with the bits that the CPU gives them. For nvcc, C++20.
//
//   const std::span<const float> x(device_pointer, n);
//   const auto [total, top] = cuda::reduce(x, ops::sum, ops::max);          // waits
//
//   const auto pass = cuda::make_pass(x, ops::sum, ops::max);               // enqueues
//   pass.enqueue(workspace, pass.workspace_bytes(), stream, sum_at, max_at);
//
// Code of the caller's own has to be compiled as bitfold is, with -fmad=false and without
// -use_fast_math: the CMake target sees to that. Other code is refused by the first pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include <bitfold/cuda/fused.cuh>
#include <bitfold/cuda/passes.cuh>
#include <bitfold/reduce.hpp>

namespace bitfold::cuda {

namespace own {

/// What Op of elements T accumulates in, as make_reduction chooses it.
template <op_id Op, class T, class Asked>
using accumulator_of =
    std::conditional_t<!std::is_void_v<Asked>, Asked, type_of<default_acc(Op, dtype_of<T>)>>;

/// What an operation is for a source: its fold, and how its result comes about.
template <class Op, class Source>
struct part {  // the caller's own
  using whole = bitfold::fold::own<Op, bitfold::detail::value_of<Source>>;
  using fold = taking<whole, void>;
  template <class S>
  BITFOLD_HD static auto result(const Op&, const S& s, index n) {
    return whole::result(s, n);
  }
};
template <op_id Op, method_id M, class Acc, class Out, class Source>
struct part<operation<Op, M, Acc, Out>, Source> {
  using T = bitfold::detail::element_seen<Source>;
  using A = accumulator_of<Op, T, Acc>;
  using whole = fold_of<Op, method::type_of<M == method_id::exact ? method_id::tree : M>, T, A>;
  static_assert(whole::ordering == ordering::canonical && M != method_id::exact,
                "bitfold: method exact and count_distinct go by cuda::reduce of a reduction, "
                "sequential runs on the CPU only");
  using fold = taking<typename whole::accumulation, A>;
  template <class S>
  BITFOLD_HD static auto result(const operation<Op, M, Acc, Out>& op, const S& s, index n) {
    return whole::template finish<typename operation<Op, M, Acc, Out>::template output<T>>(
        s, bitfold::fold::finish_parameters{n, op.subtracted});
  }
};

/// Writes the results of a pass to where they are wanted.
template <class Source, class List, class... Op>
struct results {
  template <class F, class A, class S>
  __device__ void write(const S&, index) const {}
};
template <class Source, class List, class Op, class... Rest>
struct results<Source, List, Op, Rest...> {
  bitfold::detail::result_of<Op, Source>* out;
  Op op;
  results<Source, List, Rest...> rest;
  template <class F, class A, class S>
  __device__ void write(const S& s, index n) const {
    using P = part<Op, Source>;
    *out = P::result(op, state_of<typename P::fold>(List{}, s), n);
    rest.template write<F, A>(s, n);
  }
};

template <class S>
struct source_reader {
  using parameters = S;
  using single = bitfold::detail::value_of<S>;
  static constexpr bool two = false;
  S from;
  index first;
  __device__ static source_reader at(const S& s, index i) { return {s, i}; }
  __device__ source_reader ahead(int k) const { return {from, first + static_cast<index>(k)}; }
  template <class Function>
  __device__ void read(Function f) const {
    f([this](int i) { return from(first + static_cast<index>(i)); });
  }
};

/// How the engine reads a source.
template <class S>
struct reading {
  using type = read_elements<with_place, source_reader<S>>;
  static constexpr bool stored = false;
  static S parameters(const S& s) { return s; }
};
template <class S>
  requires bitfold::detail::is_element<typename S::stored>
struct reading<S> {
  using T = typename S::stored;
  using type = stored_elements<
      std::conditional_t<bitfold::detail::is_pairs<S>, pairs_with_place, with_place>, T>;
  static constexpr bool stored = true;
  static elements parameters(const S& s) {
    const void* y = nullptr;
    if constexpr (bitfold::detail::is_pairs<S>) y = s.y;
    const auto aligned = [](const void* q) {
      return reinterpret_cast<std::uintptr_t>(q) % 16 == 0;
    };
    return {s.x, y, dtype_of<T>, aligned(s.x) && aligned(y)};
  }
};

template <class R>
__global__ void write_value(R* out, const __grid_constant__ R value) {
  *out = value;
}

inline void check(cudaError_t err, const char* call) {
  if (err != cudaSuccess)
    throw error(errc::cuda, std::string(call) + ": " + cudaGetErrorString(err));
}

namespace {

// Whether this file's own arithmetic on the GPU is IEEE's: one answer for each file, asked of the
// GPU once.
__global__ void probe_arithmetic(float tenth, float ten, float tiny, float* wrong) {
  const bool contracts = tenth * ten - 1.0f != 0;  // 1 only where the product is rounded
  const bool flushes = tiny * 0.5f == 0;
  bool approximates = false;
  for (int k = 1; k < 100; ++k) {
    const float x = tenth * static_cast<float>(k);
    approximates = approximates || ten / x != __fdiv_rn(ten, x) || ::sqrtf(x) != __fsqrt_rn(x);
  }
  *wrong = contracts || flushes || approximates ? 1.0f : 0.0f;
}
inline void refuse_inexact_arithmetic() {
  static const bool strict = [] {
    // Even while this thread captures a graph: none of this is part of it.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
    float* there = nullptr;
    cudaStream_t stream = nullptr;
    float wrong = 1;
    cudaError_t err = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (err == cudaSuccess) err = cudaMalloc(&there, sizeof(float));
    if (err == cudaSuccess) probe_arithmetic<<<1, 1, 0, stream>>>(0.1f, 10.0f, 1e-38f, there);
    if (err == cudaSuccess) err = cudaGetLastError();
    if (err == cudaSuccess)
      err = cudaMemcpyAsync(&wrong, there, sizeof wrong, cudaMemcpyDeviceToHost, stream);
    if (err == cudaSuccess) err = cudaStreamSynchronize(stream);
    cudaFree(there);
    if (stream) cudaStreamDestroy(stream);
    cudaThreadExchangeStreamCaptureMode(&mode);
    check(err, "the first pass");
    return wrong == 0;
  }();
  if (!strict)
    throw error(errc::usage,
                "bitfold: this file is compiled for the GPU with -use_fast_math or a part of it, "
                "or without "
                "-fmad=false, which changes the bits");
}

}  // namespace
}  // namespace own

/// Reductions of one input, one kernel for all: what make_pass makes, to be enqueued or to be
/// called.
template <class Source, class... Op>
class one_pass {
  static_assert(sizeof...(Op) > 0, "bitfold: a pass wants an operation");

 public:
  /// Of a source in device memory. Errors: make_reduction's.
  one_pass(const Source& from, const launch& shape, const Op&... op)
      : from_(from), shape_(shape), ops_(op...) {
    const auto check = []<class O>(const O& o) {
      if constexpr (bitfold::detail::is_built_in<O>)
        (void)o.template reduction_of<bitfold::detail::element_seen<Source>>();
    };
    (check(op), ...);
  }

  /// Bytes of device memory that enqueue() needs.
  std::size_t workspace_bytes() const { return plan_of().workspace; }

  /// Enqueues the pass on the current device. Does not allocate or wait, but for the first pass of
  /// a file, which asks the GPU how that file was compiled; can be captured in a graph.
  /// workspace: device memory, aligned to 16 bytes, that is in use until the pass is done, as the
  /// arrays are.
  /// size: its bytes, at least workspace_bytes().
  /// where: the stream; null for the default one.
  /// out: an address in device memory for each operation's result.
  /// Errors (naming the argument): errc::usage (null, not aligned or too small; a file compiled
  /// with other arithmetic than bitfold's), errc::no_device, errc::cuda.
  void enqueue(void* workspace, std::size_t size, stream where,
               bitfold::detail::result_of<Op, Source>*... out) const {
    if (devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
    if (((out == nullptr) || ...)) throw error(errc::usage, "out: null pointer");
    if (from_.n == 0) return write_all_empty(std::index_sequence_for<Op...>{}, where, out...);
    if (!from_.readable())
      throw error(errc::usage, "data: null pointer, or not aligned to its element");
    own::refuse_inexact_arithmetic();
    const plan p = plan_of();
    check_workspace(workspace, size, p.workspace);
    const cudaError_t err = std::apply(
        [&](const Op&... op) {
          const auto how =
              results_from(std::tuple(op...), std::tuple(out...), std::index_sequence_for<Op...>{});
          return launch_passes<fold_all, typename read::type, double, alignment::asked>(
              p, read::parameters(from_), from_.n, how, workspace, where,
              shape_.overlap && p.nodes > 1 && overlaps());
        },
        ops_);
    own::check(err, "launch");
  }

  /// Runs the pass on the default stream, waits and gives the results: one, or a std::tuple.
  /// Allocates device memory for the call. Errors: those of enqueue.
  auto operator()() const {
    constexpr std::size_t slot = 16;
    const std::size_t work = (workspace_bytes() + 255) / 256 * 256;
    constexpr std::size_t each =
        (std::max({sizeof(bitfold::detail::result_of<Op, Source>)...}) + slot - 1) / slot * slot;
    struct memory {
      std::byte* p = nullptr;
      ~memory() { cudaFree(p); }
    } room;
    own::check(cudaMalloc(&room.p, work + each * sizeof...(Op)), "cudaMalloc");
    std::tuple<bitfold::detail::result_of<Op, Source>...> got{};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      enqueue(
          room.p, work, nullptr,
          reinterpret_cast<bitfold::detail::result_of<Op, Source>*>(room.p + work + I * each)...);
      (own::check(cudaMemcpy(&std::get<I>(got), room.p + work + I * each, sizeof(std::get<I>(got)),
                             cudaMemcpyDeviceToHost),
                  "cudaMemcpy"),
       ...);
    }(std::index_sequence_for<Op...>{});
    if constexpr (sizeof...(Op) == 1)
      return std::get<0>(got);
    else
      return got;
  }

 private:
  using folds = typename own::distinct<own::list<>, typename own::part<Op, Source>::fold...>::type;
  using fold_all = typename own::joint<folds>::type;
  using read = own::reading<Source>;
  using state = fold::partial<fold_all, double>;
  static_assert(sizeof(state) <= fold::max_state_bytes,
                "bitfold: the states of this pass have more than 256 bytes");

  plan plan_of() const {
    constexpr index tile = engine<fold_all, typename read::type, double>::tile;
    return make_plan({.state = sizeof(state), .tile = tile, .stored = read::stored}, from_.n,
                     shape_);
  }

  static own::results<Source, folds> results_from(std::tuple<>, std::tuple<>,
                                                  std::index_sequence<>) {
    return {};
  }
  template <class Ops, class Outs, std::size_t I, std::size_t... Rest>
  static auto results_from(const Ops& op, const Outs& out, std::index_sequence<I, Rest...>) {
    if constexpr (sizeof...(Rest) == 0) {
      return own::results<Source, folds, std::tuple_element_t<I, Ops>>{
          std::get<I>(out), std::get<I>(op), {}};
    } else {
      return own::results<Source, folds, std::tuple_element_t<I, Ops>,
                          std::tuple_element_t<Rest, Ops>...>{
          std::get<I>(out), std::get<I>(op), results_from(op, out, std::index_sequence<Rest...>{})};
    }
  }

  template <std::size_t... I, class... R>
  void write_all_empty(std::index_sequence<I...>, stream where, R*... out) const {
    // All results, or an error and none.
    const auto results = std::apply(
        [&](const Op&... op) { return std::tuple<R...>(bitfold::reduce(from_, op)...); }, ops_);
    (own::write_value<<<1, 1, 0, where>>>(out, std::get<I>(results)), ...);
    own::check(cudaGetLastError(), "launch");
  }

  Source from_;
  launch shape_;
  std::tuple<Op...> ops_;
};

/// What is in device memory: a std::span, or a source.
template <class Input>
concept device_input =
    bitfold::detail::source<Input> || (bitfold::element_range<Input> && std::ranges::view<Input>);

/// A pass over device memory, to be enqueued as often as is wanted.
/// shape: changes the speed and never a bit.
/// input: a std::span of device memory, or pairs, transform, indexed or in_order of such.
/// op: ops::NAME by any method but `exact` and `sequential`, and not count_distinct; or objects of
/// structs of your own (own.hpp).
/// Errors: those of one_pass.
template <device_input Input, class... Op>
auto make_pass(const launch& shape, const Input& input, const Op&... op) {
  using S = std::remove_cv_t<decltype(bitfold::detail::source_of(input))>;
  return one_pass<S, Op...>(bitfold::detail::source_of(input), shape, op...);
}
template <device_input Input, class... Op>
auto make_pass(const Input& input, const Op&... op) {
  return make_pass(launch{}, input, op...);
}

/// The results of one pass over device memory, on the default stream. Allocates and waits. Errors:
/// those of one_pass. (A range of reductions is not an input but what cuda.hpp's functions of this
/// name take first.)
template <device_input Input, class... Op>
  requires(!bitfold::detail::is_reduction<Input>)
auto reduce(const Input& input, const Op&... op) {
  if constexpr (bitfold::detail::check_call<Input, Op...>())
    return make_pass(input, op...)();
  else
    return bitfold::detail::refuse<Op...>();
}

}  // namespace bitfold::cuda
