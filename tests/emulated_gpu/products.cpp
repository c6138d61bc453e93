// In the place of cuBLASLt (libcublasLt.so) in tests: products of integers of 8 bits, of vectors
// that lie one behind the other. What else is asked for is refused.
#include <cstdint>
#include <cstring>

namespace {

constexpr int invalid_value = 7, not_supported = 15;

struct description {
  bool transposed = false;
};
struct layout {
  int type;
  std::uint64_t rows, columns;
  std::int64_t pitch;
  std::int32_t count = 1;
  std::int64_t step = 0;
};

}  // namespace

extern "C" {

int cublasLtCreate(void** made) { return *made = new char, 0; }
int cublasLtMatmulDescCreate(description** made, int compute, int scale_type) {
  *made = new description;
  return compute == 72 && scale_type == 10 ? 0 : not_supported;
}
int cublasLtMatmulDescDestroy(description* done) {
  delete done;
  return 0;
}
int cublasLtMatmulDescSetAttribute(description* of, int which, const void* value, std::size_t) {
  std::int32_t how;
  std::memcpy(&how, value, sizeof how);
  of->transposed = how == 1;
  return which == 3 ? 0 : invalid_value;
}
int cublasLtMatrixLayoutCreate(layout** made, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t pitch) {
  *made = new layout{type, rows, columns, pitch};
  return 0;
}
int cublasLtMatrixLayoutDestroy(layout* done) {
  delete done;
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(layout* of, int which, const void* value, std::size_t size) {
  if (which == 5)
    std::memcpy(&of->count, value, size);
  else if (which == 6)
    std::memcpy(&of->step, value, size);
  else
    return invalid_value;
  return 0;
}
int cublasLtMatmul(void*, const description* what, const void* alpha, const std::int8_t* a,
                   const layout* of_a, const std::int8_t* b, const layout* of_b, const void* beta,
                   const void*, const layout*, std::int32_t* d, const layout* of_d, const void*,
                   void*, std::size_t, void*) {
  std::int32_t one, adds;
  std::memcpy(&one, alpha, sizeof one);
  std::memcpy(&adds, beta, sizeof adds);
  const std::uint64_t m = of_a->columns, n = of_b->columns, k = of_a->rows;
  // Tensor cores take multiples of 16 bytes, at such addresses.
  if (!what->transposed || one != 1 || of_a->type != 3 || of_b->type != 3 || of_d->type != 10 ||
      of_b->rows != k || of_d->rows != m || of_d->columns != n || k % 16 || m % 16 ||
      reinterpret_cast<std::uintptr_t>(a) % 16 || reinterpret_cast<std::uintptr_t>(b) % 16 ||
      reinterpret_cast<std::uintptr_t>(d) % 16 || of_a->step % 16 || of_b->step % 16)
    return not_supported;
  for (std::int32_t t = 0; t < of_a->count; ++t)
    for (std::uint64_t j = 0; j < n; ++j)
      for (std::uint64_t i = 0; i < m; ++i) {
        const std::int8_t *const x = a + t * of_a->step +
                                     static_cast<std::int64_t>(i) * of_a->pitch,
                                 *const y = b + t * of_b->step +
                                            static_cast<std::int64_t>(j) * of_b->pitch;
        std::int32_t sum = 0;
        for (std::uint64_t p = 0; p < k; ++p) sum += x[p] * y[p];
        std::int32_t& to = d[t * of_d->step + static_cast<std::int64_t>(j) * of_d->pitch +
                             static_cast<std::int64_t>(i)];
        to = adds ? to + sum : sum;
      }
  return 0;
}
}
