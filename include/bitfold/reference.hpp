// The reference: the canonical order run by one thread, one element at a time. Slow and plain;
// every engine must return its bits.
#pragma once

#include <span>

#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

namespace bitfold {

/// Reduces n elements of type r.in() at `data` (any alignment), in the plainest way. Errors: those
/// of cpu::reduce.
scalar reference(const reduction& r, const void* data, std::size_t n);
/// The same of two inputs, n elements each.
scalar reference(const reduction& r, const void* x, const void* y, std::size_t n);

/// Along some axes of a view, or of two (y is null where there is one), as cpu::reduce does it: the
/// elements of each output are gathered into an array of one axis. Memory: a copy of the elements.
void reference(const reduction& r, const view& x, const view* y, std::span<const int> axes,
               void* out);

/// The most elements that print_order prints: it recurses, and a line of the text form is as long
/// as the tree is deep, which for `sequential` is n.
constexpr std::uint64_t max_printed(method_id method) {
  return info(method).ordering == ordering::sequential ? 4096 : 65536;
}

/// How print_order prints: indented lines, one expression with brackets, or a graph for Graphviz.
enum class order_format { text, expression, dot };
/// The tree of `n` elements under `method`, as `bitfold order` prints it; that there is none, where
/// any order will do. Errors (errc::usage): n above max_printed(method).
std::string print_order(std::uint64_t n, method_id method, order_format format);

}  // namespace bitfold
