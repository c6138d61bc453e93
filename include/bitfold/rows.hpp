// Functions of rows, for training and inference: each element of the result depends on the element
// of the row and on statistics of that row. Statistics are bitfold's reductions of the row, in its
// canonical order by method tree; what is done with them is rounded operation by operation to f32
// (f64 for f64), and each result once to the type of x. So a row's bits depend on its own elements
// alone, on CPUs and GPUs alike.
//
//   softmax               exp(x - m) (1 / s), m the largest element, s the sum of exp(x - m)
//                         (operation softmax_denominator)
//   log_softmax           x - m - log s
//   layer_norm            ((x - mean) - e) rstd w + b, rstd = 1 / sqrt(var + eps), var with ddof 0,
//                         e the error of the rounded mean
//   group_norm            the same of groups of channels, w and b of a channel each
//   rms_norm              x rstd w, rstd = 1 / sqrt(sum of squares / n + eps)
// and, of g = dL/dy, their gradients dL/dx:
//   softmax_backward      (g - dot(g, y)) y, of y = softmax(x)
//   log_softmax_backward  g - exp(y) sum(g), of y = log_softmax(x)
//   layer_norm_backward   (g w - mean(g w) - z dot(g w, z) / n) rstd, z = (x - mean) rstd
//   rms_norm_backward     (g w - z dot(g w, z) / n) rstd, z = x rstd
// and, of each element by itself, for what is made of these:
//   exp                   exp(x)
// exp and log are bitfold's own. A row with a NaN, or whose largest element is infinite, has NaN
// for softmax and log_softmax.
#pragma once

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/row_inputs.hpp>

namespace bitfold {

namespace cpu {
/// Applies f to each row.
/// input: the rows, and what f takes besides. Norms write its `mean` and `rstd`.
/// out: room for count * n elements of input.type, in rows as x has them; it may be x.
/// Memory: some rows for each thread.
/// Errors (errc::usage, naming the argument): a type that is no float; a row of more than 2^24
/// elements; channels that do not fill the rows of group_norm; a pointer that is needed and null,
/// or not aligned to its elements; those of `opts`.
void apply(row_function f, const rows& input, void* out, const options& opts = {});

/// The same of rows that lie across, of their reductions' results: softmax, log_softmax and their
/// gradients. Errors, besides: another function; more than 2^60 elements.
void apply(row_function f, const rows_across& input, void* out, const options& opts = {});

/// What the parameters of a norm get, of its gradient `f` and what that takes: dw[i] = sum of g z,
/// db[i] = sum of g over the rows' elements i, by method tree in the rows' order, rounded once.
/// Either may be null; db is of layer_norm_backward alone. Errors, besides: a function that is no
/// gradient of a norm; more than 2^24 rows.
void parameter_gradients(row_function f, const rows& input, void* dw, void* db,
                         const options& opts = {});

}  // namespace cpu

namespace cuda {
/// The same in device memory. Needs no workspace, and does not synchronise. Errors, besides:
/// errc::no_device, errc::cuda.
void apply(row_function f, const rows& input, void* out, stream s = nullptr);
void apply(row_function f, const rows_across& input, void* out, stream s = nullptr);

/// As cpu::parameter_gradients, in device memory. Does not allocate or synchronise.
/// workspace: of parameter_gradients_workspace_bytes(f, input) bytes, which may be 0, aligned to 16
/// bytes; in use until the work is done.
/// Errors, besides: a workspace that is too small or not aligned; errc::no_device; errc::cuda.
std::size_t parameter_gradients_workspace_bytes(row_function f, const rows& input);
void parameter_gradients(row_function f, const rows& input, void* dw, void* db, void* workspace,
                         std::size_t workspace_size, stream s = nullptr);

}  // namespace cuda

}  // namespace bitfold
