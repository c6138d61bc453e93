// Exact sums by kernels on demand, of what is hard on them: numbers that fill what a thread has for
// them, that cancel, or that turn on what is far below all others.
#include <cmath>

#include "gpu_exact.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// A list of reductions of two arrays of n elements, one behind the other.
class of_two_arrays {
 public:
  of_two_arrays(const std::vector<std::byte>& both, std::size_t n)
      : there_(both), second_(both.size() / 2), n_(n) {}
  template <class T>
  explicit of_two_arrays(const std::vector<T>& both)
      : there_(both), second_(both.size() / 2 * sizeof(T)), n_(both.size() / 2) {}

  void compare(const std::vector<reduction>& all, const cuda::launch& shape = {},
               const gpu::device_facts& on = this_gpu()) const {
    const void* const y =
        info(all[0].op()).inputs == 2 ? there_.as<std::byte>() + second_ : nullptr;
    const gpu::plan plan = plan_of({all, n_, second_ % 16 == 0 || !y}, shape, on);
    room r(all, 1, plan.workspace);
    gpu::run(plan, r.addresses(there_.p, y), nullptr);
    check_same(all, r.results(), [&](const reduction& one) {
      return std::vector{cpu::reduce(one, there_.p, y, n_)};
    });
  }

 private:
  device_memory there_;
  std::size_t second_, n_;
};

}  // namespace

TEST_CASE("exact sums on demand: so many elements that a thread's numbers must be emptied") {
  const auto check = [](op_id op, dtype t, std::size_t n, std::size_t run) {
    of_two_arrays(any_finite_bits(t, 2 * n, 21, run), n)
        .compare({exact_of(op, t, dtype::f64)}, one_warp);
  };
  const std::size_t n = (std::size_t{1} << 18) + 3;
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32}) check(op_id::sum, t, n, 1);
  check(op_id::sum, dtype::f64, 2 * n, 1);
  check(op_id::norm_l2, dtype::f32, n, 128);
  check(op_id::mae, dtype::f64, n, 512);
  for (const dtype t : {dtype::f16, dtype::bf16})  // of one sign
    of_two_arrays(make_data(t, kind::near_one, 2 * n, 21), n)
        .compare({exact_of(op_id::norm_l1, t, dtype::f64)}, one_warp);
}
// Some minutes. Levels move, and are emptied, at each step; and a block's cells are carried often.
TEST_CASE("exact sums on demand: emptied, of all operations and types", "[.all]") {
  const std::size_t n = (std::size_t{1} << 18) + 3;
  for (const dtype t : all_dtypes)
    for (const std::size_t run : {1, 128, 512})
      if (const of_two_arrays x(any_finite_bits(t, 2 * n, 23, run), n); run == 1 || is_float(t))
        for (const int inputs : {1, 2})
          for (const reduction& r : exact_reductions(t, inputs)) x.compare({r}, one_warp);
}

// What goes to a bin is as large as can be, and all of one sign: 2^39 - 1 of its units. All of it
// cancels in the end, so that a unit shows.
TEST_CASE("exact sums on demand: doubles, and products, that fill their bins") {
  const std::size_t n = std::size_t{1} << 21;
  const double one = 0x1p-23,
               full = one * (1 + (0x1p39 - 1) * 0x1p-52);  // exponent 1000, a multiple of 20
  for (const double sign : {1.0, -1.0}) {
    std::vector<double> x(2 * n, 1.0);
    for (std::size_t i = 0; i + 1 < n; ++i) x[i] = i % 2 ? -one : full;
    x[n - 1] = -one - static_cast<double>(n / 2) * (full - one);
    for (double& v : x) v *= sign;
    for (const cuda::launch& shape : {one_warp, cuda::launch{}})
      of_two_arrays(x).compare({exact_of(op_id::sum, dtype::f64)}, shape);
  }
  // (1 + 2^-23)^2 - (1 + 2^-22), which is 2^-46.
  std::vector<float> y(2 * n, 1.0f + 0x1p-23f);
  for (std::size_t i = 1; i < n; i += 2) y[i] = -1.0f, y[n + i] = 1.0f + 0x1p-22f;
  for (const cuda::launch& shape : {one_warp, cuda::launch{}})
    of_two_arrays(y).compare({exact_of(op_id::dot, dtype::f32, dtype::f64)}, shape);
}

TEST_CASE("exact sums on demand: zeros, and what cancels, in every bin") {
  const auto compare = [](const auto& x, std::initializer_list<op_id> ops) {
    using T = std::decay_t<decltype(x[0])>;
    INFO(x[0] << " " << x[1] << " " << x[x.size() / 2]);
    for (const op_id op : ops) of_two_arrays(x).compare({exact_of(op, dtype_of<T>)});
  };
  const auto all = {op_id::sum, op_id::nansum, op_id::norm_l1, op_id::dot};
  for (const std::size_t half : {3, 600, 5000}) {
    const int step = half == 3 ? 3 : half == 600 ? 97 : 511;
    for (int e = -1074; e < 1024; e += step) {
      std::vector<double> x(2 * half, -0.0);
      x[0] = std::ldexp(1.0, e), x[1] = -x[0];
      compare(x, all);
      x[1] = std::ldexp(-1.0, e / 2);
      compare(x, {op_id::sum});
    }
    if (half == 5000) continue;
    for (const double first : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0x1.fp1023})
      for (const double second : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0x1.fp1023}) {
        std::vector<double> x(2 * half, -0.0);
        x[0] = first, x[1] = second, x[half] = 1;
        std::vector<float> y(x.begin(), x.end());
        compare(x, all);
        compare(y, all);
        y[half + 1] = 1;
        compare(y, {op_id::dot});
      }
    for (int e = -149; e < 128; e += half == 3 ? 9 : 45)
      for (const int f : {-149, -126, 0, 127}) {
        std::vector<float> y(2 * half, -0.0f);
        y[0] = std::ldexp(1.0f, e), y[1] = -y[0], y[half] = y[half + 1] = std::ldexp(1.0f, f);
        compare(y, {op_id::dot});
        y[half + 1] = 1;
        compare(y, {op_id::dot});
      }
  }
}

// A half of a last place, and what decides it far below; and what is left where all above it
// cancels: of so many terms that they do not go unnoticed beside others, of products whose own
// rounding errors underflow, and of as many as a number of a thread has no room for.
TEST_CASE("exact sums on demand: what turns on something far below the others") {
  const auto sum_is = [](op_id op, const auto& x, const auto& y, double want) {
    using T = std::decay_t<decltype(x[0])>;
    std::vector<T> both(x);
    both.insert(both.end(), y.begin(), y.end());
    const reduction r = exact_of(op, dtype_of<T>, dtype::f64);
    const auto* const second = info(op).inputs == 2 ? both.data() + x.size() : nullptr;
    CHECK(to_hex(cpu::reduce(r, both.data(), second, x.size())) ==
          to_hex(load_scalar(dtype::f64, &want)));
    for (const cuda::launch& shape : {one_warp, cuda::launch{}})
      of_two_arrays(both).compare({r}, shape);
  };
  for (const std::size_t n : {4, 600, 5000}) {
    const auto first = [&](auto... values) {
      std::vector<std::common_type_t<decltype(values)...>> x{values...};
      x.resize(n);
      return x;
    };
    const std::vector<double> zeros(n), ones(n, 1.0);
    const auto wide = first(1.0, 0x1p-53, 0x1p-400);
    for (const op_id op : {op_id::sum, op_id::nansum, op_id::norm_l1})
      sum_is(op, wide, zeros, 1 + 0x1p-52);
    sum_is(op_id::dot, wide, ones, 1 + 0x1p-52);
    const auto roots = first(1.0, 0x1p-27, 0x1p-27, 0x1p-200);
    sum_is(op_id::sum_squares, roots, zeros, 1 + 0x1p-52);
    sum_is(op_id::squared_distance, roots, zeros, 1 + 0x1p-52);
    sum_is(op_id::sum, first(0x1p127f, 0x1p74f, 0x1p-149f), std::vector<float>(n),
           0x1p127 + 0x1p75);
  }
  const std::size_t n = 4096;
  std::vector<double> x, y;
  for (std::size_t i = 0; i < n; ++i)
    x.push_back(i % 2 ? 0x1p-400 : i % 4 ? -0x1p400 : 0x1p400), y.push_back(1.5);
  sum_is(op_id::sum, x, y, 0x1p11 * 0x1p-400);
  sum_is(op_id::dot, x, y, 1.5 * 0x1p11 * 0x1p-400);
  for (std::size_t i = 0; i < n; ++i)  // (1 + 2^-52)^2 - (1 + 2^-51), which is 2^-104
    x[i] = (i % 2 ? 1 + 0x1p-51 : 1 + 0x1p-52) * 0x1p-480,
    y[i] = (i % 2 ? -1 : 1 + 0x1p-52) * 0x1p-495;
  sum_is(op_id::dot, x, y, 0x1p-1068);
  const std::size_t many = std::size_t{1} << 21;
  std::vector<float16> halves(many);
  for (std::size_t i = 0; i < many; ++i)
    halves[i] = float16{static_cast<std::uint16_t>(i % 4 < 2 ? 0x7bff : 0x0001)};  // 65504, 2^-24
  sum_is(op_id::sum, halves, std::vector<float16>(many), 0x1p20 * 65504 + 0x1p20 * 0x1p-24);
}

namespace {

// All sets of exact sums of so many inputs, as reductions that need them.
std::vector<std::vector<reduction>> sets_of_exact_sums(dtype t, int inputs) {
  const std::vector<op_id> one{op_id::sum, op_id::nansum, op_id::nanmean, op_id::norm_l1,
                               op_id::norm_l2},
      two{op_id::mae, op_id::dot, op_id::mse};
  const std::vector<op_id>& ops = inputs == 1 ? one : two;
  std::vector<std::vector<reduction>> sets;
  for (unsigned set = 1; set < 1u << ops.size(); ++set) {
    sets.emplace_back();
    for (std::size_t k = 0; k < ops.size(); ++k)
      if (set >> k & 1) sets.back().push_back(exact_of(ops[k], t, dtype::f64));
  }
  return sets;
}

void compare_sets(dtype t, const gpu::device_facts& on) {
  const std::size_t n = 10'003;
  for (const bool finite : {true, false}) {
    const of_two_arrays x(
        finite ? any_finite_bits(t, 2 * n, 26) : make_data(t, kind::special, 2 * n, 26), n);
    for (const int inputs : {1, 2})
      for (const auto& set : sets_of_exact_sums(t, inputs))
        for (const cuda::launch& shape : {cuda::launch{}, one_warp}) x.compare(set, shape, on);
  }
}

}  // namespace

// Some minutes; the second as GPUs with less shared memory take them.
TEST_CASE("exact sums on demand: of any terms", "[.all]") {
  for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i8, dtype::u64})
    compare_sets(t, this_gpu());
}
TEST_CASE("exact sums on demand: where a block has less shared memory", "[.all]") {
  for (const std::size_t room : {48 << 10, 99 << 10, 163 << 10}) {
    gpu::device_facts on = this_gpu();
    on.max_shared_bytes = room;
    for (const dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64}) compare_sets(t, on);
  }
}
