// The GPU's engine: no atomics on floats, the same bits as every other engine.
// Kernels are compiled when they are first asked for, for the GPU that is there, and kept in memory
// and in files (docs/kernels.md): that takes NVIDIA's driver and NVRTC, no CUDA toolkit. What is
// missing is errc::no_device, in one sentence, of every call below but devices() and compiler().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

struct CUctx_st;
struct CUstream_st;

namespace bitfold::cuda {

using stream = CUstream_st*;  ///< cudaStream_t

/// The launch shape. It changes the speed and never a bit. 0 means: choose for this length. Along
/// axes some kernels have threads and tiles of their own.
struct launch {
  int threads = 0;  ///< per block: a multiple of 32 from 32 to 512
  int blocks = 0;   ///< of the first pass, at most
  int tiles = 0;  ///< 4 KiB tiles that a block folds at once: a power of two up to 1024 (fewer, if
                  ///< its memory is too small for their states); nothing by method exact
  bool overlap = true;  ///< let the second pass start on the first's tail, where the GPU can
};

/// The names of the usable GPUs, by ordinal; empty without a driver or a GPU. Throws nothing.
/// Looked for once in a program.
std::vector<std::string> devices();
/// What compiles kernels, such as "NVRTC 13.0"; empty where there is none. Throws nothing.
std::string compiler();
/// A library of NVRTC to try first, such as that of a Python package: called before the first
/// kernel. Where it cannot be opened, the usual places are tried. Where BITFOLD_NVRTC is set, that
/// is taken, and nothing else.
void look_for_compiler_at(const std::string& path);
/// Where several kernels are compiled at once, all but one of them are made by other processes of
/// this command, to which the path of NVRTC's library is added: NVRTC makes threads of one process
/// wait for one another. Called before the first kernel. Each process calls compile_for_others(),
/// as `bitfold --compile-for-others` does, and ends soon after it was asked last. Where the command
/// cannot be run, all is compiled here. (The command line and the Python package do this.)
void compile_by(std::vector<std::string> command);
/// Compiles what a process that was given compile_by() asks for, over standard input, until it asks
/// no more. Returns the exit status.
int compile_for_others(const std::string& library);
/// The same of cuBLASLt, which multiplies matrices (matmul.hpp): called before the first product.
/// Where BITFOLD_CUBLASLT is set, that is taken, and nothing else.
void look_for_products_at(const std::string& path);

/// Makes a GPU the current one of this thread while it lives: every call below is made on the
/// current one. (The one that was current before is so again, which gives it a context if it had
/// none.) Errors: errc::no_device; errc::cuda, of a number that no GPU has.
class current_device {
 public:
  /// ordinal: the place of its name in devices().
  explicit current_device(int ordinal);
  ~current_device();
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;

 private:
  CUctx_st* before_;  // null: the same
};

/// Waits for all that is enqueued on the stream. Errors: errc::no_device; errc::cuda, of what
/// failed there.
void synchronize(stream s);

/// Bytes of device memory that reduce() needs as workspace for n elements on the current device:
/// from the same plan that reduce() launches. May be 0. For count_distinct, where it sorts, twice
/// the elements and more; for method exact as much as the multiprocessors want. Launches nothing.
/// Errors: errc::usage (a bad launch shape; n too large); errc::no_device.
std::size_t workspace_bytes(const reduction& r, std::size_t n, const launch& shape = {});

/// Enqueues the reduction of n elements on the stream, and returns at once. Does not allocate or
/// synchronise and can be captured in a graph.
/// r: what is computed, by any method but `sequential`.
/// data: device address of elements of type r.in(), aligned to them; to 16 bytes is faster.
/// n: of no elements the result is what the operation has for none.
/// out: device address of one element of type r.out().
/// workspace: device memory, aligned to 16 bytes, that is in use until the work is done.
/// workspace_size: its bytes, at least workspace_bytes(r, n, shape).
/// s: null for the default stream.
/// shape: on which no bit depends.
/// Cost: by methods that have an order one launch of a short array, and two of a longer one. A
/// kernel that was never asked for is compiled first, which takes some tenths of a second
/// (request::prepare does it ahead).
/// Errors: errc::usage naming the argument (workspace null, too small or not aligned; a bad launch
/// shape; method `sequential`; null pointers; elements that are not aligned); errc::no_device;
/// errc::cuda from the launch.
void reduce(const reduction& r, const void* data, std::size_t n, void* out, void* workspace,
            std::size_t workspace_size, stream s = nullptr, const launch& shape = {});

/// The same of two inputs of n elements each, for the operations that take two.
void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out,
            void* workspace, std::size_t workspace_size, stream s = nullptr,
            const launch& shape = {});

/// The same with the workspace taken from, and returned to, the stream-ordered memory pool. Errors,
/// besides: errc::cuda, where the pool has too little.
void reduce(const reduction& r, const void* data, std::size_t n, void* out, stream s = nullptr,
            const launch& shape = {});
void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out,
            stream s = nullptr, const launch& shape = {});

/// Several reductions of the same one or two inputs (y is null where they take one): out[k], a
/// device address, takes the result of reductions[k], with the bits that it has alone. Those that
/// have an order read the elements in few passes: those of one base are folded once, and several
/// bases in one pass while their states fit in a thread's registers. Exact ones read them once
/// together, if a block has room for their terms; each count_distinct reads them by itself. Errors,
/// besides the above: reductions that differ in in() or in how many inputs they take; `out` not as
/// long as `reductions`.
std::size_t workspace_bytes(std::span<const reduction> reductions, std::size_t n,
                            const launch& shape = {});
void reduce(std::span<const reduction> reductions, const void* x, const void* y, std::size_t n,
            std::span<void* const> out, void* workspace, std::size_t workspace_size,
            stream s = nullptr, const launch& shape = {});

/// Along some axes of a view in device memory, or of two (y is null where there is one), as
/// cpu::reduce, whose errors these are too. Does not allocate or synchronise. The bytes are those
/// for these views, at these addresses: aligned ones may take another way.
/// x, y: whose data are device addresses, aligned to their elements; extents and strides are read
/// on the host.
/// axes: those that are reduced, counted from 0.
/// out: out[k] is the device address of the results of reductions[k], one behind the other in
/// row-major order of the axes that are kept.
std::size_t workspace_bytes(std::span<const reduction> reductions, const view& x, const view* y,
                            std::span<const int> axes, const launch& shape = {});
void reduce(std::span<const reduction> reductions, const view& x, const view* y,
            std::span<const int> axes, std::span<void* const> out, void* workspace,
            std::size_t workspace_size, stream s = nullptr, const launch& shape = {});

/// Sliding windows of a view in device memory, as cpu::reduce_windows, whose errors these are too.
/// Padded ones take a pass for each way in which they are cut off: 9 of an image's, if it is padded
/// by one. Does not allocate or synchronise.
/// out: out[k] is the device address of the results of reductions[k], of the extents
/// windows_extents(x, per_axis).
std::size_t windows_workspace_bytes(std::span<const reduction> reductions, const view& x,
                                    std::span<const window> per_axis, const launch& shape = {});
void reduce_windows(std::span<const reduction> reductions, const view& x,
                    std::span<const window> per_axis, std::span<void* const> out, void* workspace,
                    std::size_t workspace_size, stream s = nullptr, const launch& shape = {});

/// Segments of one or two arrays of n elements, as cpu::reduce_segments. Does not allocate or
/// synchronise.
/// offsets: `segments` + 1 of them in device memory. They are not looked at: offsets that fall or
/// leave the array are undefined behaviour, and of a segment without elements an operation that has
/// no result for none writes 0. (check_offsets tells the first, and waits for it.)
/// out: out[k] is the device address of the results of reductions[k], one for each segment.
/// Errors, besides those of reduce: offsets that are null or not aligned.
std::size_t segments_workspace_bytes(std::span<const reduction> reductions, std::size_t n,
                                     std::size_t segments, const launch& shape = {});
void reduce_segments(std::span<const reduction> reductions, const void* x, const void* y,
                     std::size_t n, const std::int64_t* offsets, std::size_t segments,
                     std::span<void* const> out, void* workspace, std::size_t workspace_size,
                     stream s = nullptr, const launch& shape = {});

/// Elements by their keys, as cpu::reduce_by_key. Does not allocate or synchronise.
/// keys: n of them in device memory. Elements whose key names no output are left out, and of a key
/// without elements an operation that has no result for none writes 0. (check_keys tells the
/// first.)
/// outputs: fewer than 2^32 - 1; and n is below 2^32.
/// out: out[k] is the device address of the results of reductions[k], one for each output.
/// Errors, besides those of reduce: keys that are null or not aligned; too many elements or
/// outputs.
std::size_t by_key_workspace_bytes(std::span<const reduction> reductions, std::size_t n,
                                   std::size_t outputs, const launch& shape = {});
void reduce_by_key(std::span<const reduction> reductions, const void* x, const void* y,
                   std::size_t n, const std::int64_t* keys, std::size_t outputs,
                   std::span<void* const> out, void* workspace, std::size_t workspace_size,
                   stream s = nullptr, const launch& shape = {});

/// Waits for the stream and throws what cpu::reduce_segments throws of offsets that fall or leave
/// the array, and cpu::reduce_by_key of keys that name no output, by a copy of them to the host.
/// For tests, and for keys and offsets that come from elsewhere. Errors: errc::usage, of those;
/// errc::no_device; errc::cuda.
void check_offsets(const std::int64_t* offsets, std::size_t segments, std::size_t n,
                   stream s = nullptr);
void check_keys(const std::int64_t* keys, std::size_t n, std::size_t outputs, stream s = nullptr);

/// One of several arrays in device memory: n elements, aligned to themselves.
struct piece {
  const void* data;
  std::size_t n;
};

/// Of the elements of several arrays as of one, in whatever order and pieces they lie: by method
/// exact, whose bits know of neither (on CPUs: totals.hpp). Of floats and one input. Some 160
/// pieces share a pass. Does not allocate or synchronise.
/// pieces: the arrays, of elements of type r.in(); the list itself is read on the host, at once.
/// out: device address of one element of type r.out().
/// Errors, besides those of reduce: a reduction that is another; no elements, of which r has no
/// result.
std::size_t pieces_workspace_bytes(const reduction& r, std::span<const piece> pieces);
void reduce_pieces(const reduction& r, std::span<const piece> pieces, void* out, void* workspace,
                   std::size_t workspace_size, stream s = nullptr);

/// The same to a state as contributions have it (bitfold/contributions.hpp), which joins with those
/// of other pieces: of r with one term, perhaps of no elements. At a multiple of 8 bytes.
void fold_pieces(const reduction& r, std::span<const piece> pieces, void* state, void* workspace,
                 std::size_t workspace_size, stream s = nullptr);

/// Of each of several arrays a result, in the passes of one list of segments: for many small ones,
/// of each of which a call takes longer than its elements. Does not allocate or synchronise.
/// arrays: of elements of type r.in(); the list itself is read on the host, at once.
/// out: device address of arrays.size() elements of type r.out(), in the order of the arrays.
/// Errors, besides those of reduce: two inputs; count_distinct; an array without elements, of which
/// r has no result.
std::size_t arrays_workspace_bytes(const reduction& r, std::span<const piece> arrays);
void reduce_arrays(const reduction& r, std::span<const piece> arrays, void* out, void* workspace,
                   std::size_t workspace_size, stream s = nullptr);

/// One array, or two, that the device's memory need not hold at once: the elements come in parts,
/// from the first to the last, and the results have the bits that they have of all at once.
class in_parts {
 public:
  /// Plans the parts of n elements, by the current device.
  /// memory: bytes of it that may be used for a part of each input and for the workspace, each
  /// rounded up to a multiple of 256.
  /// Errors (errc::usage): as reduce's; count_distinct, which wants all elements at once; memory
  /// too small for what a block folds at once (some MiB for 2^32 elements), or for less than 2^-13
  /// of the elements by method exact.
  in_parts(std::span<const reduction> reductions, std::size_t n, std::size_t memory,
           const launch& shape = {});
  ~in_parts();
  in_parts(const in_parts&) = delete;
  in_parts& operator=(const in_parts&) = delete;

  std::size_t elements() const;         ///< of each part but the last, which has fewer
  std::size_t workspace_bytes() const;  ///< the same room for all parts

  /// Enqueues what is to be done with the next part, at device addresses x and y (null where there
  /// is one input). With the last one out[k], a device address, takes the result of reductions[k].
  /// Does not allocate or synchronise. Errors: as reduce's; a part after the last.
  void add(const void* x, const void* y, std::span<void* const> out, void* workspace,
           std::size_t workspace_size, stream s = nullptr);

 private:
  struct plans;
  const std::unique_ptr<plans> of_;
};

/// What one of the calls above would do, without arrays: how it is planned, and its kernels.
class request {
 public:
  /// Of cuda::reduce of n elements, of one input or two, which begin at multiples of 16 bytes or do
  /// not.
  static request array(std::span<const reduction> reductions, std::size_t n, bool aligned = true,
                       const launch& shape = {});
  /// Of cuda::reduce along axes. Of the views' addresses only the alignment counts.
  static request axes(std::span<const reduction> reductions, const view& x, const view* y,
                      std::span<const int> axes, const launch& shape = {});
  /// Of cuda::reduce_windows.
  static request windows(std::span<const reduction> reductions, const view& x,
                         std::span<const window> per_axis, const launch& shape = {});
  /// Of cuda::reduce_segments, whatever the offsets.
  static request segments(std::span<const reduction> reductions, std::size_t n,
                          std::size_t segments, const launch& shape = {});
  /// Of cuda::reduce_by_key, whatever the keys.
  static request by_key(std::span<const reduction> reductions, std::size_t n, std::size_t outputs,
                        const launch& shape = {});

  // Each of these plans the call.

  /// Bytes of workspace that the call wants on the current device. Errors: those of the call.
  std::size_t workspace_bytes() const;
  /// What would run, in words: a line for each pass (its kernel, what it computes, grid, what it
  /// reads, which line of the tuning table chose it), one for the workspace, and one for the
  /// device: the current one, or where there is none one of compute capability 9.0. Errors: those
  /// of the call.
  std::string explain() const;
  /// Compiles and loads the kernels that are not there yet, several at a time, for the current
  /// device: the call then launches at once, also while a graph is captured. Errors:
  /// errc::no_device; errc::cuda.
  void prepare() const { prepare({this, 1}); }
  /// The same for several calls, all their kernels at once.
  static void prepare(std::span<const request> several);
  /// Compiles them for GPUs of compute capability major.minor into files: the user's own, or a
  /// pack, a folder that BITFOLD_KERNELS names where there is no NVRTC. Needs NVRTC, and no GPU.
  /// Says how many there are. Errors: errc::no_device (no NVRTC, or one that does not know such a
  /// GPU); errc::usage, where one cannot be kept, and why.
  std::size_t make_ahead(int major, int minor, const std::string& pack = {}) const {
    return make_ahead({this, 1}, major, minor, pack);
  }
  /// The same for several calls, all their kernels at once.
  static std::size_t make_ahead(std::span<const request> several, int major, int minor,
                                const std::string& pack = {});

 private:
  struct asked;
  explicit request(std::shared_ptr<const asked> what) : of_(std::move(what)) {}
  std::shared_ptr<const asked> of_;
};

/// Copies n elements from host memory, reduces them on GPU `device` and waits for the scalar, or
/// for one of each reduction. For tests: the copy costs far more than the reduction, and memory of
/// the device is allocated for each call. Errors: those of reduce; errc::no_device, of a number
/// that no GPU has.
scalar reduce_host(const reduction& r, const void* data, std::size_t n, int device = 0,
                   const launch& shape = {});
scalar reduce_host(const reduction& r, const void* x, const void* y, std::size_t n, int device = 0,
                   const launch& shape = {});
std::vector<scalar> reduce_host(std::span<const reduction> reductions, const void* x, const void* y,
                                std::size_t n, int device = 0, const launch& shape = {});

}  // namespace bitfold::cuda
