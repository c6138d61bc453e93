// The reference: the canonical order run by one thread, one element at a time. Slow and plain; every
// engine must return its bits.
#pragma once

#include <bitfold/reduction.hpp>

namespace bitfold {

/// Reduces n elements of type r.in at `data` (any alignment).
scalar reference(const reduction& r, const void* data, std::size_t n);

/// The tree of `n` elements under `method`, as `bitfold order` prints it. Errors (errc::usage): n above
/// 65536, or above 4096 for `sequential`.
enum class order_format { text, expression, dot };
std::string print_order(std::uint64_t n, method_id method, order_format format);

}  // namespace bitfold
