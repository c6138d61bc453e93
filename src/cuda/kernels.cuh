// The kernels of one part.
#pragma once

#include "sets.cuh"

namespace bitfold::cuda {
namespace {

/// What kernels write their results by. Out of line where that is long, as it runs once.
struct shared_results {
  result_list list;
  template <class F, class A, class S>
  __device__ __noinline__ void write(S s, index n) const {
    for (int k = 0; k < list.count; ++k) write_shared<F, A>(s, n, list.each[k]);
  }
};
struct sum_result {
  result how;
  template <class F, class A, class S>
  __device__ void write(const S& s, index n) const {
    if (how.type == dtype_of<A>)  // the common case first
      *static_cast<A*>(how.out) = F::template finish<A>(s, {});
    else
      write_as<F, typing::additive, A>(s, n, how);
  }
};

template <class F, class Source, class A>
const char* launch_kernels(const plan& p, const arguments& a) {
  const auto launch = [&]<alignment How>(const auto& how) {
    return launch_passes<F, Source, A, How>(p, a.data, a.n, how, a.workspace, a.where, a.overlap);
  };
  cudaError_t err;
  if constexpr (is_sum_itself<F>) {
    const sum_result how{a.how.each[0]};
    err = a.data.aligned ? launch.template operator()<alignment::known>(how)
                         : launch.template operator()<alignment::missing>(how);
  } else {
    err = launch.template operator()<alignment::asked>(shared_results{a.how});
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace

template <>
const char* launch_part<part::BITFOLD_PART>(kernel_kind kind, const reduction& r, const plan& p,
                                            const arguments& a) {
  if (is_set(kind))
    return with_set<const char*>(kind, r, [&]<class Set>(int) -> const char* {
      if constexpr (Set::in == part::BITFOLD_PART)
        return launch_set<Set>(p, a);
      else
        return "not of this part";  // not reached
    });
  return with_kernel<const char*>(kind, r, [&]<class F, class T, class A>() -> const char* {
    using choice = kernel_choice<F, T, A>;
    const auto launch = [&]<class Source>() {
      static_assert(engine<F, Source, A>::tile == choice::tile);
      return launch_kernels<F, Source, A>(p, a);
    };
    if constexpr (choice::in != part::BITFOLD_PART)
      return "not of this part";  // not reached
    else if constexpr (choice::stored)
      return launch.template operator()<stored_elements<widening<F, A>, T>>();
    else
      return launch.template operator()<read_elements<
          widening<F, A>, widening_reader<F::element == fold::element_kind::pair, A>>>();
  });
}

}  // namespace bitfold::cuda
