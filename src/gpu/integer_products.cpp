#include "integer_products.hpp"

#include <bitfold/error.hpp>
#include <map>
#include <memory>
#include <mutex>

#include "shared_library.hpp"

namespace bitfold::gpu {
namespace {

// What cublasLt.h says of them.
using handle = void*;
using description = void*;
using matrix = void*;
constexpr int compute_in_int32 = 72, type_int8 = 3, type_int32 = 10, transposed = 1;
constexpr int attribute_transpose_a = 3, attribute_batch_count = 5, attribute_batch_step = 6;

// clang-format off
#define BITFOLD_PRODUCT_FUNCTIONS(FUNCTION)                                                        \
  FUNCTION(cublasLtCreate, (handle* made))                                                         \
  FUNCTION(cublasLtMatmulDescCreate, (description* made, int compute, int scale_type))             \
  FUNCTION(cublasLtMatmulDescDestroy, (description done))                                          \
  FUNCTION(cublasLtMatmulDescSetAttribute, (description of, int which, const void* value,          \
                                            std::size_t size))                                     \
  FUNCTION(cublasLtMatrixLayoutCreate, (matrix* made, int type, std::uint64_t rows,                \
                                        std::uint64_t columns, std::int64_t pitch))                \
  FUNCTION(cublasLtMatrixLayoutDestroy, (matrix done))                                             \
  FUNCTION(cublasLtMatrixLayoutSetAttribute, (matrix of, int which, const void* value,             \
                                              std::size_t size))                                   \
  FUNCTION(cublasLtMatmul, (handle by, description what, const void* alpha, const void* a,         \
                            matrix of_a, const void* b, matrix of_b, const void* beta,             \
                            const void* c, matrix of_c, void* d, matrix of_d,                      \
                            const void* algorithm, void* workspace, std::size_t workspace_size,    \
                            stream on))
// clang-format on

struct product_library {
#define BITFOLD_FUNCTION(name, parameters) int(*name) parameters;
  BITFOLD_PRODUCT_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
};

std::string& given_place() {
  static auto& path = *new std::string;
  return path;
}
product_library open_library() {
  const shared_library library(places_of("cublasLt", "BITFOLD_CUBLASLT", given_place()));
  if (!library)
    throw error(errc::no_device,
                "cuda: nothing multiplies matrices: install cuBLAS (libcublasLt, of a CUDA toolkit "
                "12 or 13, or of PyPI's nvidia-cublas) where the loader finds it, or name it in "
                "BITFOLD_CUBLASLT");
  product_library l{};
#define BITFOLD_FUNCTION(name, parameters) \
  if (!library.find(#name, l.name))        \
    throw error(errc::no_device,           \
                "cuda: cuBLASLt has no " #name "; install that of a CUDA toolkit 12 or 13");
  BITFOLD_PRODUCT_FUNCTIONS(BITFOLD_FUNCTION)
#undef BITFOLD_FUNCTION
  return l;
}
const product_library& the_library() {
  // Never destroyed: a static's destructor may ask. Tried again where it failed.
  static const auto& opened = *new const product_library(open_library());
  return opened;
}

void check_product(int result, const char* call) {
  if (result != 0)
    throw error(errc::cuda, std::string(call) + ": status " + std::to_string(result));
}

handle handle_of(const current& where) {
  static auto& lock = *new std::mutex;
  static auto& known = *new std::map<unsigned long long, handle>;
  const std::lock_guard guard(lock);
  handle& h = known[where.id];
  if (!h) check_product(the_library().cublasLtCreate(&h), "cublasLtCreate");
  return h;
}

// Columns of a matrix, one behind the other.
class matrix_layout {
 public:
  matrix_layout(int type, std::uint64_t rows, std::uint64_t columns, std::uint64_t count,
                std::uint64_t step) {
    matrix made = nullptr;
    check_product(the_library().cublasLtMatrixLayoutCreate(&made, type, rows, columns,
                                                           static_cast<std::int64_t>(rows)),
                  "cublasLtMatrixLayoutCreate");
    of_.reset(made);
    if (count == 1) return;
    const auto times = static_cast<std::int32_t>(count);
    const auto elements = static_cast<std::int64_t>(step);
    set(attribute_batch_count, &times, sizeof times);
    set(attribute_batch_step, &elements, sizeof elements);
  }
  operator matrix() const { return of_.get(); }

 private:
  struct destroy {
    void operator()(matrix m) const { the_library().cublasLtMatrixLayoutDestroy(m); }
  };
  void set(int which, const void* value, std::size_t size) const {
    check_product(the_library().cublasLtMatrixLayoutSetAttribute(of_.get(), which, value, size),
                  "cublasLtMatrixLayoutSetAttribute");
  }
  std::unique_ptr<void, destroy> of_;
};

// Of vectors of both operands, of which those of the first are transposed: the one way in which all
// GPUs multiply integers of 8 bits.
class product_description {
 public:
  product_description() {
    description made = nullptr;
    check_product(the_library().cublasLtMatmulDescCreate(&made, compute_in_int32, type_int32),
                  "cublasLtMatmulDescCreate");
    of_.reset(made);
    const std::int32_t how = transposed;
    check_product(
        the_library().cublasLtMatmulDescSetAttribute(made, attribute_transpose_a, &how, sizeof how),
        "cublasLtMatmulDescSetAttribute");
  }
  operator description() const { return of_.get(); }

 private:
  struct destroy {
    void operator()(description d) const { the_library().cublasLtMatmulDescDestroy(d); }
  };
  std::unique_ptr<void, destroy> of_;
};

}  // namespace

void prepare_products(const current& where) { (void)handle_of(where); }

void multiply(const integer_product& p, const product_addresses& at, const current& where,
              stream on) {
  const handle by = handle_of(where);
  const product_description what;
  // Of large ones the library has faster kernels one by one than several at once.
  const bool large = p.rows * p.columns >= std::uint64_t{1} << 21;
  const std::uint64_t times = large ? p.count : 1, at_once = large ? 1 : p.count,
                      sums_each = p.rows * p.columns;
  // Its matrices lie in columns: ours, in rows, are their transposes, so operands change places.
  const matrix_layout first(type_int8, p.n, p.columns, at_once, p.b_step),
      second(type_int8, p.n, p.rows, at_once, p.a_step),
      sums(type_int32, p.columns, p.rows, at_once, sums_each);
  const std::int32_t one = 1, adds = p.adds ? 1 : 0;
  const auto pointer = [](address from, std::uint64_t bytes) {
    return reinterpret_cast<void*>(from + bytes);
  };
  for (std::uint64_t k = 0; k < times; ++k) {
    void* const to = pointer(at.to, k * sums_each * sizeof(std::int32_t));
    check_product(
        the_library().cublasLtMatmul(by, what, &one, pointer(at.b, k * p.b_step), first,
                                     pointer(at.a, k * p.a_step), second, &adds, to, sums, to, sums,
                                     nullptr, pointer(at.scratch, 0), p.scratch_bytes, on),
        "cublasLtMatmul");
  }
}

}  // namespace bitfold::gpu

void bitfold::cuda::look_for_products_at(const std::string& path) {
  bitfold::gpu::given_place() = path;
}
