// What goes to places of an array by their numbers along an axis: torch's scatter_reduce and
// index_reduce, of which scatter_add, index_add and embeddings' gradients are kinds.
//
//   out[i][keys[i][j]] is put together of x[i][j]            (along axis 1; likewise along others)
//
// The elements that go to one place are one reduction, in their order along the axis and in the
// canonical order (order.hpp). Its result is rounded to the type in which is computed: f32 of half
// types, i64 of integers, else their own. Then it meets what lay there, and is rounded to the
// array's type.
#pragma once

#include <bitfold/cpu.hpp>

namespace bitfold {

struct scattering {
  op_id op = op_id::sum;               ///< sum, mean, prod, min or max
  method_id method = method_id::tree;  ///< of sum and mean. Of integers, which are added modulo
                                       ///< 2^64, not exact
  bool with_base = true;               ///< what lay there is an element, too
  bool leaves_out = false;             ///< a key that names no place: left out, or an error
};

namespace cpu {

/// x and keys (of i64) have one shape; elements lie at addresses aligned to themselves. `base` is
/// what lay there, of x's type and as many axes: along `axis` it has as many places as it likes,
/// along the others at least as many as x. Without data it is zeros, and then it does not count.
/// `out` is laid out as base, and may be the same; a place that nothing goes to is as in base. A
/// mean is the sum divided, of integers rounded down. Errors (errc::usage, naming the argument):
/// what is said here; a key that names no place (then some of `out` may be written, unless it is
/// base); 2^32 - 1 elements or places along the axis, or more.
void scatter(const scattering& how, const view& x, const view& keys, int axis, const view& base,
             void* out, const options& opts = {});

}  // namespace cpu
}  // namespace bitfold
