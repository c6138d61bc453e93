// Exact reductions at run time: which terms they sum, and their results.
#pragma once

#include <cstdint>
#include <span>

#include <bitfold/totals.hpp>

namespace bitfold::detail {

inline bool is_exact(const reduction& r) { return r.method() == method_id::exact; }

/// The terms whose sums make a reduction by method exact.
std::span<const exact::term> terms_of(const reduction& r);

/// An empty sum of that term, at `state`.
void clear_sum(exact::term what, dtype type, void* state);
/// The result of r from the sums of its terms, for n elements in all.
scalar finish_exact(const reduction& r, const void* const* sums, std::uint64_t n);

}  // namespace bitfold::detail
