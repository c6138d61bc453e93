// The results are products of two elements each, which a double holds exactly, so that no integers
// are made of them.
#include "outer_products.hpp"

#include <algorithm>
#include <cstring>

#include <bitfold/product_sum.hpp>

#include "conversions.hpp"
#include "loops.hpp"
#include "products.hpp"

namespace bitfold::cpu {
namespace {

constexpr std::size_t most_columns = 512, most_rows = 64;  // of a part

// x times each y, and its addend: rounded to odd, or to nearest.
template <bool Odd>
struct outer_row {
  [[gnu::always_inline]] static void run(double x, const double* y, const double* addends,
                                         std::size_t n, double* to) {
    for (std::size_t c = 0; c < n; ++c) {
      const double exact = x * y[c] + 0.0,  // no -0
          sum = exact + addends[c];
      to[c] = Odd ? product::to_odd(sum, product::error_of(sum, exact, addends[c])) : sum;
    }
  }
};

// x times each y, and its addend, rounded to floats. Returns whether all are rounded as the true
// sums would be: not surely where a sum in doubles is a number of 25 bits, as floats and their
// midpoints are, and not where an addend is not finite.
template <bool Added>
struct outer_floats {
  [[gnu::always_inline]] static bool run(double x, const double* y, const std::byte* addends,
                                         std::size_t n, std::byte* to) {
    using arith::bit_cast;
    constexpr std::int64_t below_25 = (1 << 28) - 1, exponent = std::int64_t{0x7ff} << 52;
    std::int64_t unsure = 0;  // negative where one was
    for (std::size_t c = 0; c < n; ++c) {
      double sum = x * y[c] + 0.0;  // no -0
      if constexpr (Added) {
        float addend;
        std::memcpy(&addend, addends + c * sizeof addend, sizeof addend);
        sum += addend;
        const auto bits = bit_cast<std::int64_t>(sum);
        unsure |= ((bits & below_25) - 1) | (exponent - 1 - (bits & exponent));
      }
      const auto rounded = static_cast<float>(sum);
      std::memcpy(to + c * sizeof rounded, &rounded, sizeof rounded);
    }
    return unsure >= 0;
  }
};

template <class In, class Out>
class outer_products {
 public:
  outer_products(const detail::product_layout& l, const detail::addend_layout* addend, void* out,
                 target used)
      : layout_(l),
        addend_(addend),
        out_(static_cast<std::byte*>(out)),
        round_(find_product_kernels(used).round(dtype_of<Out>)),
        read_(reader_of(dtype_of<In>, used)),
        read_addends_(reader_of(dtype_of<Out>, used)),
        multiply_(loop_for<outer_row<!std::is_same_v<Out, double>>>(used)),
        to_floats_(addend ? loop_for<outer_floats<true>>(used)
                          : loop_for<outer_floats<false>>(used)) {}

  void run(const options& opts) const {
    const std::size_t rows = layout_.a.vectors, columns = layout_.b.vectors,
                      down = (rows + most_rows - 1) / most_rows,
                      across = (columns + most_columns - 1) / most_columns,
                      parts = layout_.results.size() * down * across;
    const int threads = threads_for(opts, layout_.results.size() * rows * columns * sizeof(Out));
    const std::size_t tasks = std::min(parts, chunk_count(threads));
    parallel_for(tasks, threads, [&](std::size_t task) {
      for (std::size_t i = parts * task / tasks; i < parts * (task + 1) / tasks; ++i) {
        const std::size_t row = i / across % down * most_rows, column = i % across * most_columns;
        multiply(i / (down * across), row, std::min(row + most_rows, rows), column,
                 std::min(most_columns, columns - column));
      }
    });
  }

 private:
  void multiply(std::size_t result, std::size_t row, std::size_t end, std::size_t column,
                std::size_t n) const {
    constexpr auto in = static_cast<std::int64_t>(sizeof(In)),
                   size = static_cast<std::int64_t>(sizeof(Out));
    const detail::operand_layout &a = layout_.a, &b = layout_.b;
    const auto at = layout_.results.offset_of(result);
    const auto of_a = static_cast<std::uint64_t>(at.x), of_b = static_cast<std::uint64_t>(at.y);
    double y[most_columns], addends[most_columns], sums[most_columns];
    const bool finite_y = read_(b.address(of_b, column, 0), b.vector_stride * in, n, y);
    bool finite_addends = true;
    std::fill_n(addends, n, 0.0);
    for (; row < end; ++row) {
      double x;
      const bool finite_x = read_(a.address(of_a, row, 0), in, 1, &x);
      std::byte* const to =
          out_ + ((result * layout_.a.vectors + row) * layout_.b.vectors + column) * sizeof(Out);
      const std::byte* added = nullptr;
      if (addend_)
        added = addend_->data + size * (addend_->matrices.offset_of(result).x +
                                        static_cast<std::int64_t>(row) * addend_->row_stride +
                                        static_cast<std::int64_t>(column) * addend_->column_stride);
      if (std::is_same_v<Out, float> && finite_x && finite_y &&
          (!addend_ || addend_->column_stride == 1) && to_floats_(x, y, added, n, to))
        continue;
      if (addend_) finite_addends = read_addends_(added, addend_->column_stride * size, n, addends);
      multiply_(x, y, addends, n, sums);
      round_(sums, n, to);
      if (finite_x && finite_y && finite_addends) continue;
      for (std::size_t c = 0; c < n; ++c)
        if (const unsigned seen =
                product::special_product(x, y[c]) | product::special_bit(addends[c])) {
          const Out v = product::special_result<Out>(seen);
          std::memcpy(to + c * sizeof(Out), &v, sizeof v);
        }
    }
  }

  const detail::product_layout& layout_;
  const detail::addend_layout* const addend_;
  std::byte* const out_;
  const sum_rounding round_;
  const element_reader read_, read_addends_;
  const decltype(loop_for<outer_row<true>>(target{})) multiply_;
  const decltype(loop_for<outer_floats<true>>(target{})) to_floats_;
};

}  // namespace

bool are_outer_products(const matrix_product& p, const detail::product_layout& l) {
  // Besides its sign an integer has at least bits - 2 that are significant, as a scale leaves 1/64
  // of the room: then it has all of its element.
  const int significant = p.in() == dtype::f32 ? 24 : p.in() == dtype::f16 ? 11 : 8;
  return l.a.n == 1 && l.a.is_strided() && l.b.is_strided() && is_float(p.in()) &&
         p.in() != dtype::f64 && p.bits() - 2 >= significant;
}

void multiply_outer(const matrix_product& p, const detail::product_layout& l,
                    const detail::addend_layout* addend, void* out, const options& opts) {
  visit(p.in(), [&]<class In>(std::type_identity<In>) {
    visit(p.out(), [&]<class Out>(std::type_identity<Out>) {
      if constexpr (!std::is_integral_v<In> && !std::is_integral_v<Out>)
        outer_products<In, Out>(l, addend, out, resolve_target(opts)).run(opts);
    });
  });
}

}  // namespace bitfold::cpu
