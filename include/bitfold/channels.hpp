// Functions of channels, for training and inference: norms over images, batches and groups of
// channels, given the statistics, and their gradients. Everything is rounded operation by operation
// to f32 (f64 for f64), and each element of a result once to the type of x: bits are the same on
// CPUs and GPUs, and do not depend on how elements lie.
//
//   channel_norm                   (z - low rstd) w + b, z = (x - mean) rstd
//   channel_norm_at_rest           z w + b, of statistics that are not x's own
// and, of g = dL/dy, their gradients dL/dx:
//   channel_norm_backward          (g w - mean(g w) - z dot(g w, z) / n) rstd
//   channel_norm_at_rest_backward  g w rstd
// where the mean and the dot product are of all n elements of a statistic, by method tree, in
// row-major order of outer, count and inner.
#pragma once

#include <bitfold/channel_inputs.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>

namespace bitfold {

namespace cpu {
/// Applies f to each element.
/// input: the elements, and what f takes besides.
/// out: room for input.size() elements of input.type, where x has them; it may be x.
/// Errors (errc::usage, naming the argument): a type that is no float; `sharing` that does not
/// divide `count`; more than 2^60 elements; a pointer that is needed and null, or not aligned to
/// its elements; those of `opts`.
void apply(channel_function f, const channels& input, void* out, const options& opts = {});

/// The sums that channel_norm_backward and the parameters' gradients take: mean(g w) and dot(g w,
/// z) / n of each statistic; dw = dot(g, z) and db = sum(g) of each channel, all by method tree.
/// Those of `to` that are null are not computed. x is g, y what the norm took. Errors,
/// besides: no elements; nothing that is wanted.
void gradient_sums(const channels& input, const channel_sums& to, const options& opts = {});
}  // namespace cpu

namespace cuda {
/// The same in device memory. Needs no workspace, and does not synchronise. Errors, besides:
/// errc::no_device, errc::cuda.
void apply(channel_function f, const channels& input, void* out, stream s = nullptr);

/// As cpu::gradient_sums, in device memory. Does not allocate or synchronise.
/// workspace: of gradient_sums_workspace_bytes(input, to) bytes, aligned to 16 bytes; in use until
/// the work is done.
/// Errors, besides: a workspace that is too small or not aligned; errc::no_device; errc::cuda.
std::size_t gradient_sums_workspace_bytes(const channels& input, const channel_sums& to);
void gradient_sums(const channels& input, const channel_sums& to, void* workspace,
                   std::size_t workspace_size, stream s = nullptr);
}  // namespace cuda

}  // namespace bitfold
