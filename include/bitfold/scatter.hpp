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
#include <bitfold/cuda.hpp>

namespace bitfold {

/// What becomes of elements that go to one place.
struct scattering {
  op_id op = op_id::sum;               ///< sum, mean, prod, min or max
  method_id method = method_id::tree;  ///< of sum and mean. Of integers, which are added modulo
                                       ///< 2^64, not exact
  bool with_base = true;               ///< what lay there is an element, too
  bool leaves_out = false;             ///< a key that names no place: left out, or an error
};

/// Rows of n elements, one behind the other: `count` of x, or, where there is a list, those that it
/// names, each times its weight where there are some, rounded to the type in which is computed.
struct listed_rows {
  dtype type;
  std::size_t count, n;
  const void* x;
  const std::int64_t* list = nullptr;
  const void* weights = nullptr;  ///< of that type
};
/// Where they go: to places by a key each; or those of one place are neighbours, and the rows of
/// place k are numbers offsets[k] to offsets[k + 1] - 1.
struct places_of_rows {
  std::size_t count;
  const std::int64_t *keys, *offsets;  ///< one of them is null
};

namespace cpu {

/// Puts each element of x to the place along `axis` that its key names. A mean is the sum divided,
/// of integers rounded down.
/// x: elements at addresses aligned to themselves.
/// keys: of i64 and of x's shape: places along the axis, counted from 0.
/// base: what lay there, of x's type and as many axes: along `axis` it has as many places as it
/// likes, along the others at least as many as x. Without data it is zeros, which do not count.
/// out: laid out as base, and may be the same; a place that nothing goes to is as in base.
/// Errors (errc::usage, naming the argument): what is said here; a key that names no place (then
/// some of `out` may be written, unless it is base); 2^32 - 1 elements or places along the axis, or
/// more.
void scatter(const scattering& how, const view& x, const view& keys, int axis, const view& base,
             void* out, const options& opts = {});

/// The same of rows, whose places have nothing (how.with_base is false). The numbers of a list are
/// not looked at.
/// out: as many rows of x's type as there are places, one behind the other; zeros where nothing
/// goes.
/// Errors (errc::usage, naming the argument): those of scatter; weights of another operation than
/// sum and mean, or of integers; keys and offsets, or neither; offsets that do not go up from 0.
void scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to, void* out,
                  const options& opts = {});

}  // namespace cpu

namespace cuda {
/// The same in device memory, where x and base lie in a row, each. Does not allocate or
/// synchronise.
/// any_lost: in device memory; becomes 1 where a key names no place that is an error, and what is
/// in `out` has no meaning then, or else 0. Such elements are left out in any case. Null: nobody
/// asks.
/// workspace: device memory, aligned to 16 bytes, of scatter_workspace_bytes or more, that is in
/// use until the work is done.
/// s: null for the default stream.
/// Errors, besides those of cpu::scatter: x or base that do not lie in a row; 2^32 - 1 elements or
/// places, or more; a workspace that is too small or not aligned; errc::no_device; errc::cuda.
std::size_t scatter_workspace_bytes(const scattering& how, const view& x, const view& keys,
                                    int axis, const view& base);
void scatter(const scattering& how, const view& x, const view& keys, int axis, const view& base,
             void* out, std::uint32_t* any_lost, void* workspace, std::size_t workspace_size,
             stream s = nullptr);

/// The same of rows of elements of 2 to 8 bytes, by a method that has an order; base and out are as
/// many rows as there are places. `largest`, of op max of floats without a base: for each result
/// the number of the row of x that it comes from, the first one that is as large; -1 where there is
/// none, and of a NaN. Lists, keys and offsets are not looked at; but keys as above.
/// Errors, besides: what is said here.
std::size_t scatter_rows_workspace_bytes(const scattering& how, const listed_rows& x,
                                         const places_of_rows& to, bool largest);
void scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to,
                  const void* base, void* out, std::int64_t* largest, std::uint32_t* any_lost,
                  void* workspace, std::size_t workspace_size, stream s = nullptr);
}  // namespace cuda
}  // namespace bitfold
