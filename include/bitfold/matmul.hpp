// Products of matrices. Each element's bits are a function of its row, its column and their type:
// no batch, layout, tile, thread or device shows. docs/products.md is the definition.
//
//   const view a = row_major(dtype::f32, x, {4, 128, 256});
//   const view b = row_major(dtype::f32, y, {256, 64});
//   std::vector<float> c(4 * 128 * 64);  // matmul_extents(a, b)
//   cpu::matmul(make_matrix_product(dtype::f32), a, b, c.data());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/method.hpp>
#include <bitfold/view.hpp>

namespace bitfold {

/// Method `fixed` takes rows and columns as integers of so many bits.
inline constexpr int min_product_bits = 8, max_product_bits = 58;
/// How many bits of a type by default: 16 of bf16, 21 of f16, 28 of f32, 58 of f64.
constexpr int product_bits(dtype in) {
  return in == dtype::bf16 ? 16 : in == dtype::f16 ? 21 : in == dtype::f32 ? 28 : 58;
}

/// What products of two matrices of type in() are. Only make_matrix_product makes one.
class matrix_product {
 public:
  /// The type of both operands' elements.
  dtype in() const { return in_; }
  /// The type of the result's.
  dtype out() const { return out_; }
  /// Empty: `fixed`. Otherwise each element has the bits of `dot` by that method.
  std::optional<method_id> method() const { return method_; }
  /// Of the integers of `fixed`; 0 with another method, or of integers, which are themselves.
  int bits() const { return bits_; }

  friend bool operator==(const matrix_product&, const matrix_product&) = default;

 private:
  matrix_product() = default;
  friend matrix_product make_matrix_product(dtype, std::optional<method_id>, std::optional<dtype>,
                                            std::optional<int>);
  dtype in_{}, out_{};
  std::optional<method_id> method_;
  int bits_ = 0;
};

/// Says what products are to be.
/// in: the type of both operands' elements.
/// method: nothing for `fixed`; or a method, by which each element has the bits of `dot`.
/// out: of floats by `fixed` any float, by default the input's; of other products as make_reduction
/// has it of `dot`.
/// bits: of `fixed` and floats alone, more for smaller errors and fewer for speed; by default
/// product_bits(in).
/// Errors (errc::usage, naming the argument): an output type that there is not; bits outside of
/// min_product_bits to max_product_bits, or where there are none.
matrix_product make_matrix_product(dtype in, std::optional<method_id> method = {},
                                   std::optional<dtype> out = {}, std::optional<int> bits = {});

/// What `fixed` is called where methods have names.
inline constexpr std::string_view fixed_method = "fixed";
/// The name of a product's method: `fixed` if it is empty.
constexpr std::string_view product_method_name(std::optional<method_id> m) {
  return m ? name(*m) : fixed_method;
}

/// The extents of a times b as in NumPy: the last two axes are a matrix's, (m, k) and (k, n), those
/// before them broadcast; an array of one axis is one row of a, or one column of b, and the result
/// has no axis for it. Errors (errc::usage): an array without axes; other elements in a row than in
/// a column; axes that do not broadcast; more than 2^60 results or products of elements.
std::vector<std::int64_t> matmul_extents(const view& a, const view& b);

/// How the axes of two operands of a contraction go together, in this order: `batch` axes of both,
/// which broadcast; those along which vectors lie; those along which their elements do, at least
/// one.
struct contracted_axes {
  int batch = 0, a_vectors = 1, b_vectors = 1;
};

/// The extents of a contraction: the batch's axes, a's vectors' and b's vectors'. Errors
/// (errc::usage): axes that are not there, or do not broadcast; negative extents; an array of more
/// than 2^60 elements; null data of elements.
std::vector<std::int64_t> contracted_extents(const view& a, const view& b, contracted_axes axes);

namespace cpu {

/// Whether an operand is the left one, of rows, or the right one, of columns.
enum class side { left, right };

/// An operand's integers, made once for many products by `fixed`: of weights, for example. On a CPU
/// alone; the bits are those of the view itself. The elements themselves must stay as they are
/// while it is used: infinities and NaNs are looked up.
class prepared {
 public:
  /// Makes the integers of x.
  /// s: on which side of the product x will stand.
  /// x: its data stay where they are.
  /// Errors (errc::usage): those of matmul; a product that is not by `fixed`, or of integers of 64
  /// bits or u32.
  prepared(const matrix_product& p, side s, const view& x, const options& opts = {});
  /// It moves, and is not copied.
  prepared(prepared&&) noexcept;
  prepared& operator=(prepared&&) noexcept;
  ~prepared();

  /// The product that it was made for.
  const matrix_product& product() const;
  /// The view that it was made of.
  const view& of() const;
  /// How many bytes the integers take.
  std::size_t bytes() const;

  struct integers;
  const integers& made() const { return *made_; }

 private:
  view of_;
  std::unique_ptr<integers> made_;
};

/// A view, or what was prepared of one.
class operand {
 public:
  /// It keeps no copy: x lives while it is used.
  operand(const view& x) : of_(&x) {}
  operand(const prepared& x) : of_(&x.of()), made_(&x) {}
  /// The view, or that of which it was prepared.
  const view& of() const { return *of_; }
  const prepared* made() const { return made_; }

 private:
  const view* of_;
  const prepared* made_ = nullptr;
};

/// Writes a times b.
/// p: the types and the method (make_matrix_product).
/// a, b: arrays of any strides, or what was prepared of them: (..., m, k) and (..., k, n), whose
/// leading axes broadcast.
/// out: room for the elements of matmul_extents(a, b), of type p.out(), row-major.
/// opts: threads and target, on which no bit depends.
/// Memory: 4 bytes for each element of the smaller operand (8 with more than 29 bits), of those
/// along axes of stride 0 once, and of the larger one for some rows or columns of each thread's; of
/// both, if that one's matrices are each of several results; nothing for what is prepared. By other
/// methods than `fixed`, and of 64-bit integers, next to none.
/// Errors (errc::usage, naming the argument): as matmul_extents'; a type that is not p.in(); null
/// data of elements; an operand that was prepared for another product, or for the other side; those
/// of reduce.
void matmul(const matrix_product& p, operand a, operand b, void* out, const options& opts = {});

/// The same and `addend`, which is added before each element is rounded, once. It broadcasts to the
/// result. Errors, besides: a product of integers, or that is not by `fixed`; an addend that does
/// not broadcast, or whose type is not p.out().
void matmul(const matrix_product& p, operand a, operand b, const view& addend, void* out,
            const options& opts = {});

/// Writes the product by `fixed` of each vector of a and of b, as of a row and a column, without a
/// copy of vectors that share elements, such as patches of an image.
/// a, b: arrays of any strides. Elements are in the order of their axes, as many in a as in b.
/// addend: null, or an array of type p.out() that broadcasts to the batch's axes, all of a's
/// vectors and all of b's. It is added before each element is rounded, once.
/// out: room for the elements of contracted_extents(a, b, axes), of type p.out(), row-major.
/// opts, memory: as matmul's.
/// Errors (errc::usage, naming the argument): those of contracted_extents and of matmul with an
/// addend; vectors of other lengths; a product of integers, or that is not by `fixed`.
void contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes,
              const view* addend, void* out, const options& opts = {});

}  // namespace cpu

namespace cuda {

/// Bytes that a product may take by itself: then parts of it are made one after the other.
inline constexpr std::size_t default_product_memory = std::size_t{1} << 30;

/// Bytes of workspace of matmul(): at most `memory`, or as few as there can be (some MiB for rows
/// and columns of 10^5 elements; 20 for each of very many rows and columns; what some thousand
/// parts of the product take). More memory is faster.
/// Errors: those of matmul.
std::size_t matmul_workspace_bytes(const matrix_product& p, const view& a, const view& b,
                                   const view* addend = nullptr,
                                   std::size_t memory = default_product_memory);

/// The product of arrays in device memory, with the CPU's bits: by `fixed` with integers of 8 bits,
/// which cuBLASLt multiplies (libcublasLt, opened when it is first needed), or in tiles where rows
/// are short or few; by other methods, and of integers, with the engine of reductions. Does not
/// allocate or synchronise.
/// a, b: (..., m, k) and (..., k, n), as cpu::matmul; their data are device addresses, aligned to
/// their elements.
/// addend: of type p.out(), which broadcasts to the result and is added before the one rounding; or
/// null.
/// out: device address, aligned to its elements, of room for those of matmul_extents(a, b),
/// row-major.
/// workspace: device memory, aligned to 16 bytes, that is in use until the work is done.
/// workspace_size: its bytes, as many as matmul_workspace_bytes says, or more.
/// s: null for the default stream.
/// Errors, besides those of cpu::matmul: elements at no multiple of their size; a workspace that is
/// too small; errc::no_device (no cuBLASLt, too); errc::cuda.
void matmul(const matrix_product& p, const view& a, const view& b, const view* addend, void* out,
            void* workspace, std::size_t workspace_size, stream s = nullptr);

/// As cpu::contract, of arrays in device memory. The workspace, aligned to 16 bytes, is as large as
/// contract_workspace_bytes says, or larger (up to default_product_memory, where digits of many
/// patches go through memory); `out` may be null where there are no results. Errors, besides:
/// elements at no multiple of their size; what can_contract denies; errc::no_device (no cuBLASLt,
/// too).
std::size_t contract_workspace_bytes(const matrix_product& p, const view& a, const view& b,
                                     contracted_axes axes, const view* addend = nullptr);
void contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes,
              const view* addend, void* out, void* workspace, std::size_t workspace_size,
              stream s = nullptr);
/// Whether a GPU does it: of elements that lie along one axis, or are less than 2^31 from their
/// vector's first. Errors (errc::usage): those of operands and axes that contract refuses
/// everywhere.
bool can_contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes);

}  // namespace cuda
}  // namespace bitfold
