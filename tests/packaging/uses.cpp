// Uses the templates of the public headers with every type, for warnings that only their use
// brings.
#include <bitfold/accumulator.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/ranks.hpp>
#include <bitfold/reduce.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/testing.hpp>
#include <bitfold/testing_catch2.hpp>
#include <bitfold/totals.hpp>

#include <vector>

using namespace bitfold;

template <class T>
void use_type() {
  const std::vector<T> x(3);
  cpu::sum<T>(x);
  T y = x[0];
  store_scalar(load_scalar(dtype_of<T>, &y), &y);
  testing::ulp_distance(x[0], y);
  testing::same_bits(x[0], y);
  testing::first_difference(x, x);
  testing::WithinUlpsOf(y, 1).match(y);
  testing::HasBitsOf(x).match(x);
  arith::round_integer_to<T>(std::int64_t{1});
  arith::round_integer_to<T>(std::uint64_t{1});
  if constexpr (!std::is_integral_v<T>) {
    arith::round_to<T>(1.0);
    arith::round_to<T>(1.0f);
    arith::round_sum_to<T>(1.0, 1e-20);
    arith::widen<double>(y);
  }
}

template <class T>
void use_accumulators() {
  const std::vector<T> x(3);
  const T y = x[0];
  accumulator<T> a;
  product_accumulator<T> p;
  a.add(x).add(y).add_magnitudes(x).subtract(x).subtract(y).subtract(a).merge(a);
  p.add_products(x, x).add_squares(x).add_squared_differences(x, x).add_product(y, y).add_square(y);
  exact::deposit<exact::term::number>(a.value(), y);
  exact::deposit<exact::term::magnitude>(a.value(), y);
  exact::deposit<exact::term::difference>(a.value(), y, y);
  exact::deposit<exact::term::squared_difference>(p.value(), y, y);
  if constexpr (std::is_integral_v<T>)
    if (a.template fits<std::int16_t>()) a.template round<std::uint8_t>();
  a.template round<float16>();
  a.template round_quotient<bfloat16>(3);
  p.template round_root<double>();
  round_variance<T, float>(a, p, 3);
  round_deviation<T, double>(a, p, 3, 1);
  totals t({make_reduction(op_id::sum, method_id::exact, dtype_of<T>)});
  t.add<T>(x);
  t.merge(t);
  if (t.fits(0)) t.result(0);
  if (a == accumulator<T>::from_bytes(a.to_bytes()) || a < a || a.is_zero()) return;
}

template <class M, class T>
void use_method() {
  auto s = M::add(M::start(T{1}), T{2});
  s = M::merge(s, s);
  s = order::interpret(
      1000, [](int count, auto get) { return method::fold_lane<M, 32>(count, get); },
      [](auto a, auto b) { return M::merge(a, b); }, [](auto) { return T{1}; });
  M::template round<float16>(s);
  M::template round<double>(s);
}

int main() {
  for (dtype t : all_dtypes)
    visit(t, []<class T>(std::type_identity<T>) {
      use_type<T>();
      use_accumulators<T>();
    });
  for (const auto& m : all_methods)
    if (m.ordering != ordering::independent)
      visit(m.id, []<class M>(std::type_identity<M>) {
        use_method<M, float>();
        use_method<M, double>();
      });
}

// Several at once, an operation of the consumer's own among them, and a transform.
struct widened_sum {
  struct state {
    double sum;
  };
  static state start(float x) { return {static_cast<double>(x)}; }
  static state merge(state a, state b) { return {a.sum + b.sum}; }
  static double finish(state s) { return s.sum; }
};
struct last_of_all {
  static indexed_value<float> start(indexed_value<float> x) { return x; }
  static indexed_value<float> merge(indexed_value<float> a, indexed_value<float> b) {
    return a.index > b.index ? a : b;
  }
  static float finish(indexed_value<float> s) { return s.value; }
};
void use_reduce() {
  const std::vector<float> x(3);
  (void)reduce(x, ops::sum, ops::argmax, widened_sum{});
  (void)reduce(pairs(x, x), ops::dot.by<method_id::kahan>(), ops::mae.by<method_id::exact>());
  (void)reduce(x, ops::std.by<method_id::exact>().ddof(1));
  (void)reduce(transform([](float v) { return v; }, x), ops::var.ddof(1), widened_sum{});
  (void)reduce(in_order(indexed(x)), last_of_all{});
  (void)indexed(pairs(x, x));
}
void use_ranks(communicator& by) {
  std::vector<float> x(3);
  const reduction mean = make_reduction(op_id::mean, {}, dtype::f32);
  cpu::all_reduce(by, mean, x.data(), x.size(), x.data());
  cpu::all_reduce(by, mean, std::vector<const void*>{x.data()}, x.size(), x.data());
  cpu::reduce(by, mean, covering(0, 1, 1), x.size(), x.data(), 0, {.threads = 1});
  cpu::reduce_scatter(by, mean, {}, x.size(), x.data());
}
// Along axes, of segments, by key, of windows.
void use_shapes() {
  std::vector<float> x(12), out(3);
  const std::vector<std::int64_t> numbers(12);
  const auto matrix = row_major(x, {3, 4});
  const auto [sum, place] = reduce(matrix, axes{1}.kept(), ops::sum, ops::argmax);
  (void)(sum(0, 0) + sum[1] + static_cast<float>(place.size()));
  reduce(cpu::options{.threads = 1}, pairs(matrix, sliced(matrix, 0, 0, 1)), axes{1}, into(out),
         ops::dot);
  (void)reduce(x, by_segment{numbers}, ops::mean.as<double>());
  (void)reduce(pairs(x, x), by_key{numbers, 1}, ops::mse);
  (void)reduce(windows(matrix, std::vector<window>{{.axis = 0, .size = 2}}), axes{2}, ops::min);
  (void)reduce(permuted(matrix, std::vector{1, 0}), by_window{{.axis = 1, .size = 2}}, ops::max);
  (void)cpu::sum(x).as<double>();
}
