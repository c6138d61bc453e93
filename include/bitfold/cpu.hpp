// The CPU engine: any number of threads, any SIMD target, the same bits.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <bitfold/reduction.hpp>

namespace bitfold::cpu {

/// The instruction sets that a CPU kernel can be compiled for. `scalar` runs everywhere.
enum class target { scalar, avx2, avx512 };

std::string_view name(target t);
std::optional<target> parse_target(std::string_view text);
/// The targets that this build holds and this machine can run, best last. Never empty.
std::vector<target> available_targets();

/// More threads than these count as these: an array is cut into so many parts at the most.
inline constexpr int most_threads = 1024;

struct options {
  /// At most so many threads, and no more than the threading runtime has; 0: one per core that this
  /// process may use.
  int threads = 0;
  std::optional<cpu::target> target = {};  ///< empty: the best available one
};

/// Reduces n elements at `data` (any alignment; may be null when n is 0) in the canonical order.
/// May be called from any thread and inside tasks of oneTBB: it takes part in none of their
/// cancellations, and runs none of the caller's tasks while it waits.
/// Errors (errc::usage): threads < 0; a target that is not available; a null pointer with n > 0.
scalar reduce(const reduction& r, const void* data, std::size_t n, const options& how = {});

/// The sum of a span in its default accumulator and output type.
template <class T>
scalar sum(std::span<const T> values, method_id method = method_id::tree, const options& how = {}) {
  return reduce(make_reduction(op_id::sum, method, dtype_of<T>), values.data(), values.size(), how);
}

/// The target that the last reduce() on the calling thread ran, as the kernel itself reported it.
target last_target();

}  // namespace bitfold::cpu
