// Exact sums, and what is made of them, against MPFR.
#include <bitfold/accumulator.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "catch.hpp"
#include "exact_data.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

template <class Out>
void check(op_id op, Out got, const accuracy::elements& in, int ddof = 0) {
  const scalar want = accuracy::round_correctly(accuracy::exact_value(op, in, ddof), dtype_of<Out>);
  CAPTURE(name(op), name(dtype_of<Out>), ddof);
  CHECK(bits_of(got) == want.bits);
}

template <class T, class Out>
void check_all(const std::vector<T>& x, const std::vector<T>& y) {
  const std::uint64_t n = x.size();
  const accuracy::elements one{dtype_of<T>, x.data(), nullptr, n}, two{dtype_of<T>, x.data(), y.data(), n};
  accumulator<T> sum, numbers, magnitudes, differences;
  product_accumulator<T> squares, products, distances;
  sum.add(x);
  exact::deposit(exact::term::number, dtype_of<T>, x.data(), nullptr, n, &numbers.value());
  exact::deposit(exact::term::difference, dtype_of<T>, x.data(), y.data(), n, &differences.value());
  magnitudes.add_magnitudes(x);
  squares.add_squares(x);
  products.add_products(x, y);
  distances.add_squared_differences(x, y);
  check(op_id::sum, sum.template round<Out>(), one);
  check(op_id::mean, sum.template round_quotient<Out>(n), one);
  check(op_id::nansum, numbers.template round<Out>(), one);
  check(op_id::norm_l1, magnitudes.template round<Out>(), one);
  check(op_id::mae, differences.template round_quotient<Out>(n), two);
  check(op_id::sum_squares, squares.template round<Out>(), one);
  check(op_id::norm_l2, squares.template round_root<Out>(), one);
  check(op_id::dot, products.template round<Out>(), two);
  check(op_id::squared_distance, distances.template round<Out>(), two);
  check(op_id::mse, distances.template round_quotient<Out>(n), two);
  for (const int ddof : {0, 1}) {
    const auto by = static_cast<std::uint64_t>(ddof);
    check(op_id::var, round_variance<T, Out>(sum, squares, n, by), one, ddof);
    check(op_id::std, round_deviation<T, Out>(sum, squares, n, by), one, ddof);
  }
}

}  // namespace

TEST_CASE("exact operations are MPFR's values, rounded once") {
  for_each_type([]<class T>(std::type_identity<T>) {
    for (const std::size_t n : {2, 19, 1500}) {
      const auto arrays = hard_arrays<T>(n, 17);
      for (std::size_t a = 0; a < arrays.size(); ++a) {
        const auto& x = arrays[a].values;
        const auto& y = arrays[(a * 5 + 1) % arrays.size()].values;
        CAPTURE(name(dtype_of<T>), n, arrays[a].name);
        check_all<T, double>(x, y);
        if constexpr (is_float(dtype_of<T>)) check_all<T, T>(x, y);
      }
    }
  });
}
