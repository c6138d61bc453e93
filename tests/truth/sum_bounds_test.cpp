// Every method of summing against its a-priori bound.
#include <map>

#include "tests/main.hpp"
#include "sums.hpp"

// method.inl once more, over counters in place of numbers: the additions that a summand, or a
// rounding error, passes through are counted from the arithmetic that the engines run.
namespace counting {
namespace order {
using bitfold::order::fold_in_place;
}
namespace arith {
struct count {
  std::int64_t additions;  // the most that any summand below has passed through; -1: no summand
};
inline count neutral(count) { return {-1}; }
inline count add(count a, count b) {
  if (a.additions < 0) return b;
  if (b.additions < 0) return a;
  return {std::max(a.additions, b.additions) + 1};
}
inline count add_alternate(count a, count b) { return add(a, b); }
template <class>
struct sum_and_error {
  count sum, error;
};
inline sum_and_error<count> two_sum(count a, count b) { return {add(a, b), {0}}; }
template <class Out>
Out round_to(count);
template <class Out>
Out round_sum_to(count, count);
template <class Out>
Out round_integer_to(count);
}  // namespace arith
namespace method {
#define BITFOLD_INLINE inline
#define BITFOLD_LAMBDA
#include <bitfold/method.inl>
#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA
}  // namespace method
}  // namespace counting
using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

namespace {

// A way through the tree: the element that passes through the most additions, and one element from
// each subtree that it meets on its way.
struct longest_path {
  std::uint64_t deepest;
  std::vector<std::uint64_t> met;
};

template <class M>
struct follows : M {
  static longest_path start(longest_path x) { return x; }
  static longest_path merge(longest_path a, longest_path b) {
    if (a.met.size() < b.met.size()) std::swap(a, b);
    a.met.push_back(b.deepest);
    return a;
  }
  static longest_path add(longest_path s, longest_path x) { return merge(std::move(s), x); }
};

// The state of n elements under a method of any namespace, element(i) being the i-th.
template <class M, class Element>
auto run_order(std::uint64_t n, Element element) {
  return order::interpret(
      n, [](int count, auto get) { return method::fold_lane<M, order::rows>(count, get); },
      [](auto a, auto b) { return M::merge(a, b); }, element);
}

longest_path find_longest_path(method_id method, std::uint64_t n) {
  return visit(method, [&]<class M>(std::type_identity<M>) {
    const auto element = [](std::uint64_t i) { return longest_path{i, {}}; };
    if constexpr (std::is_same_v<M, method::sequential>) {
      longest_path s = element(0);
      for (std::uint64_t i = 1; i < n; ++i) s.met.push_back(i);
      return s;
    } else {
      return run_order<follows<M>>(n, element);
    }
  });
}

}  // namespace

TEST_CASE("bounds: the depths are those of the order", "[truth][bounds]") {
  std::vector<std::uint64_t> ns;
  for (std::uint64_t n = 1; n <= 2 * order::lanes + 2; ++n) ns.push_back(n);
  for (std::uint64_t leaves = 1; leaves <= 9; ++leaves)
    for (int d : {-order::lanes - 1, -1, 0, 1, order::lanes + 1})
      ns.push_back(leaves * order::leaf + static_cast<std::uint64_t>(d));
  for (std::uint64_t n : ns) {
    CAPTURE(n);
    for (const auto& m : all_methods) {
      CAPTURE(m.name);
      const bool any_order =
          m.ordering == ordering::independent;  // of integers, which lose nothing
      CHECK(addition_depth(m.id, n) == (any_order ? 0 : find_longest_path(m.id, n).met.size()));
    }
    // From the arithmetic itself: the depth of kahan's sums, and of its errors.
    const auto counted = run_order<counting::method::kahan>(
        n, [](std::uint64_t) { return counting::arith::count{0}; });
    CHECK(addition_depth(method_id::kahan, n) == static_cast<std::uint64_t>(counted.sum.additions));
    const auto errors = static_cast<std::int64_t>(error_depth(n));
    CHECK(errors >= counted.error.additions);
    CHECK(errors <= counted.error.additions + 3);
  }
}

TEST_CASE("bounds: the plain bound is attained", "[truth][bounds]") {
  // 1, and u in every sum that it meets: each addition is a tie that loses u. The bound must hold
  // and have nothing to spare but its terms of second order.
  for (dtype t : {dtype::f32, dtype::f64})
    for (method_id m : {method_id::tree, method_id::pairwise, method_id::sequential})
      for (std::size_t n : sizes) {
        if (n > 20000) continue;
        CAPTURE(name(t), name(m), n);
        const auto path = find_longest_path(m, n);
        std::vector<double> x(n, 0.0);
        x[path.deepest] = 1;
        for (auto i : path.met) x[i] = std::ldexp(1, -format_of(t).precision);
        const auto packed = pack(x, t);
        const reduction r = make_reduction(op_id::sum, m, t);
        const scalar result = reference(r, packed.data(), n);
        const exact_sum s = sum_exactly(t, packed.data(), n);
        const real error = abs(value_of(result) - s.sum);
        CHECK(value_of(result) == 1);
        CHECK(error <= error_bound(r, n, s));
        CHECK(error >= 0.99 * error_bound(r, n, s));
      }
}

TEST_CASE("bounds: kahan's bound, by hand", "[truth][bounds]") {
  // Perfectly conditioned: half an ulp and nothing one could see beside it.
  const exact_sum s{1, 1};
  const reduction r = make_reduction(op_id::sum, method_id::kahan, dtype::f32);
  const double u = 0x1p-24;
  CHECK(error_bound(r, 100000, s) < u * 1.0001);
  CHECK(error_bound(r, 100000, s) > u);
  const double second_order = u * u * static_cast<double>(error_depth(100000)) *
                              static_cast<double>(addition_depth(method_id::kahan, 100000));
  const auto before = static_cast<double>(bound_before_rounding(r, 100000, s));
  CHECK(before == Approx(second_order).epsilon(1e-4));
}

TEST_CASE("bounds: every method, type and input is within", "[truth][bounds]") {
  int checked = 0, overflowing = 0;
  double closest = 0;
  std::size_t types = 0;
  for (dtype in : float_types) {
    std::size_t k = types++;
    for (const input& generator : all_inputs()) {
      for (std::size_t n : sizes) {  // of an odd number: the next kind takes the others
        if (!test::takes(k++, 2)) continue;
        const auto x = pack(generator.make(n, 11, in), in);
        const exact_sum s = sum_exactly(in, x.data(), n);
        for_each_reduction(in, [&](const reduction& r) {
          const scalar result = reference(r, x.data(), n);
          const real v = value_of(result);
          const real before = bound_before_rounding(r, n, s), bound = error_bound(r, n, s);
          // The value that was rounded lies within `before` of S, and rounding is monotonic: this
          // also says which results may be infinite.
          const bool between = v >= value_of(round_correctly(s.sum - before, r.out())) &&
                               v <= value_of(round_correctly(s.sum + before, r.out()));
          const bool within = !isfinite(bound) || abs(v - s.sum) <= bound;
          overflowing += !isfinite(bound);
          ++checked;
          // Only `overflow` may overflow, where the accumulator has no more range than its type.
          const bool may = generator.name == "overflow" && (in == r.acc() || in == dtype::bf16);
          if (isfinite(before) ? !between || !within : !may)
            FAIL_CHECK(describe(r) << " on " << generator.name << ", n = " << n << ": "
                                   << to_string(result) << ", exact " << s.sum.str(20)
                                   << ", bounds " << before.str(5) << " and " << bound.str(5));
          if (bound > 0 && isfinite(bound) && r.method() != method_id::exact)
            closest = std::max(closest, static_cast<double>(real(abs(v - s.sum) / bound)));
        });
      }
    }
  }
  CAPTURE(checked, overflowing, closest);
  CHECK(overflowing < checked / 20);  // only f16's small range leads here
  CHECK(closest > 0.9);               // and the bounds say something
}
