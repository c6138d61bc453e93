// The ladder to today's reduction kernels, rung by rung: the teaching kernels written afresh,
// behind one interface, so that they can be measured side by side, checked, and shown in the
// report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <bitfold/dtype.hpp>

struct CUstream_st;

namespace bitfold::ladder {

/// A figure that others published for a kernel like this one, on their hardware.
struct published {
  std::string_view figure;  ///< "54 GB/s"
  std::string_view where;   ///< whose, and on what: "GPU MODE lecture 9, the author's card"
};

struct rung {
  std::string_view name;    ///< stable, for tables and files: "sequential-addressing"
  std::string_view title;   ///< "Sequential addressing"
  std::string_view change;  ///< one sentence: what changed from the rung before
  std::string_view source;  ///< whose step it is
  std::string_view limits;  ///< what n it supports, and where its original did not; "" when any
  published theirs;         ///< empty strings when nothing was published
};

/// Every rung, in the order of the ladder; bitfold's own `tree` is the last.
std::span<const rung> all_rungs();

/// Whether a rung can sum n elements of type t: i32 (wrapping, as u32) or f32; n from 1.
bool supports(const rung& r, dtype t, std::size_t n);

/// Bytes of device memory that prepare() and launch() need besides the data: partial sums, and a
/// copy of the data where a rung works in place. 256-byte aligned.
std::size_t workspace_bytes(const rung& r, dtype t, std::size_t n);

/// Copies the data into the workspace where the rung works in place (it is not part of the time).
void prepare(const rung& r, dtype t, const void* data, std::size_t n, void* workspace,
             CUstream_st* stream);

/// Enqueues the sum of n elements at device address `data`, 16-byte aligned; one element of type t
/// goes to device address `out`. After prepare(); a rung that works in place needs a new one for
/// each right sum. Does not allocate or synchronise. Errors: std::invalid_argument where supports()
/// is false or `data` not aligned; bitfold::error with errc::cuda for a launch that fails.
void launch(const rung& r, dtype t, const void* data, std::size_t n, void* out, void* workspace,
            CUstream_st* stream);

}  // namespace bitfold::ladder
