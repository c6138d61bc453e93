// Who takes part in the suite: bitfold's own reductions, from its registries, and peers, each with
// the operations that it has. A contestant is one operation on arrays of one type, which it reduces
// to one scalar; the suite measures its error, its time and whether its bits move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <bitfold/cuda.hpp>
#include <bitfold/matmul.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::accuracy {

/// One or two arrays of n elements, one behind the other. Those of different content have different
/// ids, so that what is made of them (a copy on the GPU, a temporary file) can be kept until
/// another id comes.
struct array_view {
  dtype type;
  const void* data;
  std::size_t n;
  std::uint64_t id;
  int inputs = 1;

  std::size_t bytes() const { return static_cast<std::size_t>(inputs) * n * size_of(type); }
  /// The second input of op; null where op takes one.
  const void* second(op_id op) const {
    return info(op).inputs == 2 ? static_cast<const std::byte*>(data) + n * size_of(type) : nullptr;
  }
};

/// The elements of an array as a matrix, of which each row (axis 1) or each column (axis 0) is
/// reduced.
struct matrix {
  std::size_t rows, columns;
  int axis;

  std::size_t length() const { return axis == 1 ? columns : rows; }  ///< elements of an output
  std::size_t outputs() const { return axis == 1 ? rows : columns; }
};

/// One way to run a contestant: a number of threads, a SIMD target, a launch shape.
struct variation {
  std::string label;   ///< "avx2, 3 threads"
  bool timed = false;  ///< measured for the speed figures
  int threads = 0;  ///< CPU threads, for the choice of the read ceiling; 0: all, or none of its own
};

struct contestant_info {
  std::string id;      ///< unique, stable between runs: "bitfold/tree/f32/f32/f32/cpu"
  std::string name;    ///< as figures show it: "bitfold tree", "CUB run_to_run", "NumPy mean"
  std::string family;  ///< "bitfold", "plain", "road" (the ladder's name since the first reports),
                       ///< or the peer's: "NumPy", ...
  std::string device;  ///< "cpu" or "cuda"
  std::string about;   ///< one sentence: what it computes, and how
  dtype in;
  /// What it accumulates in, "" where nobody says. The name of a float type alone says that each
  /// of its operations is rounded to that type or a wider one: then any_order_bound holds.
  std::string acc;
  dtype out;
  op_id op = op_id::sum;
  /// What it promises: exactly the bits of reference(*promise) in every variation, and so an error
  /// within its a-priori bound. Empty for peers, which are only measured.
  std::optional<reduction> promise = {};
  /// The a-priori bound that is drawn beside it and that its error is divided by: that of *promise,
  /// or that of another reduction that adds in the same order and arithmetic.
  std::optional<reduction> bound = {};
  bool main = true;  ///< by default; the others are further accumulator and output types
};

class contestant {
 public:
  explicit contestant(contestant_info i) : info(std::move(i)) {}
  virtual ~contestant() = default;
  contestant(const contestant&) = delete;
  contestant& operator=(const contestant&) = delete;

  const contestant_info info;

  /// Never empty; the first is the default.
  virtual std::vector<variation> variations() const { return {{"default", true, 0}}; }
  /// Whether it can reduce n elements of info.in.
  virtual bool takes(std::size_t) const { return true; }
  /// Whether its result for x means the same as everyone's: takes(x.n), as many arrays as the
  /// operation has inputs, and where it sums by magnitudes that no value is negative.
  virtual bool suits(const array_view& x) const {
    return takes(x.n) && bitfold::info(info.op).inputs <= x.inputs;
  }
  /// The result, of type info.out. `way` is an index into variations().
  virtual scalar run(const array_view& x, std::size_t way) = 0;
  /// Seconds of each of `times` reductions of x (at least 1) where its engine finds it: in host
  /// memory, or already on the GPU. One run more goes ahead to warm up. By default run() is timed
  /// by the clock.
  virtual std::vector<double> seconds(const array_view& x, std::size_t way, int times);
  /// The calls of run(x, way), or with `as` of run_along, whose kernels may be compiled ahead.
  virtual std::vector<cuda::request> requests(const array_view&, const std::optional<matrix>&,
                                              std::size_t) const {
    return {};
  }
  /// Whether it reduces along an axis too.
  virtual bool has_axes() const { return false; }
  /// The first output of all, which are reduced in one call; and, as above, how long that takes.
  /// Only with axes.
  virtual scalar run_along(const array_view& x, const matrix& as, std::size_t way);
  virtual std::vector<double> seconds_along(const array_view& x, const matrix& as, std::size_t way,
                                            int times);
  /// How many additions of an element that is not 0 left the sum unchanged, where it can tell.
  virtual std::optional<std::uint64_t> stagnations(const array_view&) const { return {}; }
};

// ---- Products of matrices, and sums over ranks

/// What is said of a contestant that does not reduce one array to one scalar.
template <class Promise>
struct entry_info {
  std::string id, name, family, device, about;  ///< as contestant_info's
  dtype in;
  std::string acc;
  dtype out;
  std::optional<Promise> promise = {};  ///< empty for peers, which are only measured
};

/// Two matrices, one behind the other: A of rows x inner, B of inner x columns. Each is row-major,
/// or column-major.
struct product_shape {
  std::size_t rows, inner, columns;
  bool left_by_columns = false, right_by_columns = false;

  std::size_t elements() const { return (rows + columns) * inner; }
  std::size_t outputs() const { return rows * columns; }
};

class product_contestant {
 public:
  explicit product_contestant(entry_info<matrix_product> i) : info(std::move(i)) {}
  virtual ~product_contestant() = default;
  product_contestant(const product_contestant&) = delete;
  product_contestant& operator=(const product_contestant&) = delete;

  const entry_info<matrix_product> info;

  /// As a contestant's.
  virtual std::vector<variation> variations() const { return {{"1 thread", true, 1}}; }
  /// All results, row-major, in elements of type info.out. x holds both matrices.
  virtual std::vector<std::byte> run(const array_view& x, const product_shape& s,
                                     std::size_t way) = 0;
  /// As a contestant's.
  virtual std::vector<double> seconds(const array_view& x, const product_shape& s, std::size_t way,
                                      int times);
};

/// Adds contributions, arrays of one length that ranks hold (docs/distributed.md).
class rank_contestant {
 public:
  explicit rank_contestant(entry_info<reduction> i) : info(std::move(i)) {}
  virtual ~rank_contestant() = default;
  rank_contestant(const rank_contestant&) = delete;
  rank_contestant& operator=(const rank_contestant&) = delete;

  const entry_info<reduction> info;

  /// The results of type info.out. x holds `count` contributions, one behind the other; rank r has
  /// those from first_held(r, ranks, count) to the next rank's.
  virtual std::vector<std::byte> run(const array_view& x, std::size_t count, std::size_t ranks) = 0;
};

inline std::size_t first_held(std::size_t rank, std::size_t ranks, std::size_t count) {
  return rank * count / ranks;
}

// ---- All of them

struct software {
  std::string name, version;
};
struct missing {
  std::string name, why;  ///< "xsum", "not built in: configure with -DBITFOLD_XSUM_DIR=..."
};

/// Those found here and, by name, those that are not.
struct contestants {
  std::vector<std::unique_ptr<contestant>> list;
  std::vector<std::unique_ptr<product_contestant>> products;
  std::vector<std::unique_ptr<rank_contestant>> ranks;
  std::vector<software> found;
  std::vector<accuracy::missing> missing;
};

/// The cores that this machine has; what `threads` = 0 means.
int all_cores();

/// Reading alone, where contestants read: GB/s of the best of `times` passes over the bytes of x,
/// on the CPU with at most `threads` threads (0: all).
double read_ceiling_cpu(const array_view& x, int threads, int times);
double read_ceiling_cuda(const array_view& x, int times);  ///< errc::no_device without a GPU
/// Bytes of the GPU's last cache; none where it does not tell, or there is no GPU.
std::optional<std::uint64_t> gpu_cache();

// Each adds its own; all_contestants() lists them.
void add_bitfold(contestants&, bool cpu, bool cuda);
void add_plain(contestants&);
/// bitfold's and plain loops; add_openblas and add_python have more.
void add_products(contestants&, bool cpu, bool cuda);
void add_ranks(contestants&);  ///< bitfold's and plain models
void add_openblas(contestants&);
void add_xsum(contestants&);
void add_reproblas(contestants&);
void add_python(contestants&, bool cpu, bool cuda);  ///< NumPy and PyTorch
void add_cuda_peers(contestants&);                   ///< CUB, cuBLAS and the ladder's kernels

/// Everyone who can be had for these devices.
contestants all_contestants(bool cpu, bool cuda);

}  // namespace bitfold::accuracy
