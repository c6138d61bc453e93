// Special values, and no elements, in every operation.
#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

TEST_CASE("specials: the table of every op", "[truth][ieee][ops]") {
  struct row {
    std::vector<op_id> ops;
    std::vector<double> x, y;
    double value;
  };
  using enum op_id;
  const std::vector<row> rows{
      {{sum, nansum, mean, nanmean}, {1, inf}, {}, inf},
      {{sum, mean, nansum, nanmean}, {-inf, inf}, {}, NAN},
      {{sum, mean, prod, min, max, norm_l1, norm_l2, norm_inf, sum_squares, var, skewness,
        kurtosis},
       {1, NAN, 2},
       {},
       NAN},
      {{bitfold::op_id::std}, {1, NAN, 2}, {}, NAN},
      {{nansum}, {NAN, NAN}, {}, 0.0},
      {{nansum}, {NAN, -0.0}, {}, 0.0},
      {{nansum, nanmean}, {-0.0, -0.0}, {}, -0.0},
      {{nanmean, nanmin, nanmax}, {NAN, NAN}, {}, NAN},
      {{nanmean}, {NAN, 3, NAN, 4}, {}, 3.5},
      {{mean}, {-0.0, -0.0}, {}, -0.0},
      {{mean}, {-0.0, 0.0}, {}, 0.0},
      {{prod}, {0.0, inf}, {}, NAN},
      {{prod}, {-1, 0.0}, {}, -0.0},
      {{prod}, {-1, inf}, {}, -inf},
      {{prod}, {-0.0, -2}, {}, 0.0},
      {{min, nanmin}, {0.0, -0.0}, {}, -0.0},
      {{min, nanmin}, {-0.0, 0.0}, {}, -0.0},
      {{max, nanmax}, {0.0, -0.0}, {}, 0.0},
      {{max, nanmax}, {-0.0, 0.0}, {}, 0.0},
      {{min, max}, {NAN, -inf}, {}, NAN},
      {{min, max}, {inf, NAN}, {}, NAN},
      {{nanmin}, {NAN, inf, 2}, {}, 2},
      {{nanmax}, {NAN, -inf}, {}, -inf},
      {{nanmax}, {-3, NAN, -0.0, NAN}, {}, -0.0},
      {{min}, {inf, inf}, {}, inf},
      {{argmin, argmax}, {1, NAN, -inf, NAN, inf}, {}, 1},
      {{argmin, argmax}, {0.0, -0.0, 0.0}, {}, 0},
      {{argmin, argmax}, {-0.0, 0.0}, {}, 0},
      {{argmin}, {3, 1, 2, 1}, {}, 1},
      {{argmax}, {3, 1, 3, 3}, {}, 0},
      {{argmax}, {-inf, -inf}, {}, 0},
      {{argmin}, {5, -inf, NAN}, {}, 2},
      {{any}, {0.0, NAN}, {}, 1},
      {{any}, {-0.0, 0.0}, {}, 0},
      {{any}, {0, inf}, {}, 1},
      {{all}, {NAN, inf, 1}, {}, 1},
      {{all}, {NAN, -0.0}, {}, 0},
      {{count_nonzero}, {NAN, -0.0, inf, 0, 1}, {}, 3},
      {{count_distinct}, {NAN, -0.0, inf, 0, -NAN, -inf, inf}, {}, 4},
      {{count_distinct}, {-0.0, 0.0}, {}, 1},
      {{logsumexp}, {-0.0}, {}, 0.0},
      {{logsumexp}, {-2.5}, {}, -2.5},
      {{logsumexp}, {-inf, -2.5, -inf}, {}, -2.5},
      {{logsumexp}, {-inf, -inf}, {}, -inf},
      {{logsumexp}, {-inf, inf, 1, inf}, {}, inf},
      {{logsumexp}, {inf, 1, NAN, -inf}, {}, NAN},
      {{logsumexp}, {-inf, NAN}, {}, NAN},
      {{softmax_denominator}, {-0.0}, {}, 1},
      {{softmax_denominator}, {-inf, -2.5, -inf, -2.5}, {}, 2},
      {{softmax_denominator}, {-inf, -inf}, {}, NAN},
      {{softmax_denominator}, {-inf, inf, 1}, {}, NAN},
      {{softmax_denominator}, {1, NAN, -inf}, {}, NAN},
      {{softmax_denominator}, {60000, -60000, 60000}, {}, 2},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {1, -inf}, {}, inf},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {-0.0, -0.0}, {}, 0.0},
      {{sum_squares, norm_l1, norm_l2, norm_inf}, {NAN, -inf, 1}, {}, NAN},
      {{var, bitfold::op_id::std, skewness, kurtosis}, {1, inf}, {}, NAN},
      {{var, bitfold::op_id::std}, {7}, {}, 0},
      {{var, bitfold::op_id::std}, {7, 7}, {}, 0},
      {{skewness, kurtosis}, {7}, {}, NAN},
      {{skewness, kurtosis}, {7, 7, 7}, {}, NAN},
      {{skewness}, {1, 2}, {}, 0},
      {{kurtosis}, {1, 2}, {}, -2},
      {{dot}, {0.0, 1}, {inf, 1}, NAN},
      {{dot}, {inf, 1}, {-1, 1}, -inf},
      {{dot}, {-1}, {0.0}, -0.0},
      {{dot, squared_distance, mse, mae, cosine}, {1, NAN}, {1, 1}, NAN},
      {{dot, squared_distance, mse, mae, cosine}, {1, 1}, {NAN, 1}, NAN},
      {{squared_distance, mse, mae}, {inf}, {inf}, NAN},
      {{squared_distance, mse, mae}, {inf, 1}, {-inf, 1}, inf},
      {{squared_distance, mse, mae}, {2, -0.0}, {2, 0.0}, 0.0},
      {{cosine}, {0, 0}, {1, 2}, NAN},
      {{cosine}, {inf, 1}, {1, 1}, NAN},
      {{cosine}, {2, 0}, {-2, 0}, -1},
      {{cosine}, {2, 0}, {0, 1}, 0},
  };
  std::set<op_id> seen;
  for (const row& r : rows)
    for (op_id op : r.ops) {
      seen.insert(op);
      for (dtype t : float_types) {
        const auto x = pack(r.x, t), y = pack(r.y, t);
        const elements in = of_op(as_elements(t, x, y), op);
        const real exact = exact_value(op, in);
        INFO(name(op) << " of " << name(t) << " [" << r.x[0] << ", ...], oracle "
                      << static_cast<double>(exact) << ", expected " << r.value);
        CHECK(same(exact, r.value));
        for (const reduction& red : all_of(op, t)) {
          const scalar got = run(red, in), want = round_correctly(real(r.value), red.out());
          if (got != want) FAIL_CHECK(test::describe(red, in.n) << ": " << to_string(got));
        }
      }
    }
  CHECK(seen.size() == all_ops.size());
}

TEST_CASE("specials: wherever they stand", "[truth][ieee][ops]") {
  // Ones, with two other values anywhere: the reference has the oracle's class of result, and the
  // very one where nothing is rounded.
  const std::vector<double> others{inf, -inf, NAN, 0.0, -0.0, 2, -3};
  random_source random(5);
  for (dtype t : float_types)
    for (std::size_t n :
         {std::size_t{2}, std::size_t{31}, std::size_t{40}, std::size_t{300}, std::size_t{1100}})
      for (double a : others)
        for (double b : others) {
          std::vector<double> v(n, 1.0), w(n, 1.0);
          const auto at = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          const auto by = static_cast<std::size_t>(random.below(static_cast<int>(n)));
          v[at] = a, (n % 2 ? v : w)[by] = b;
          const auto x = pack(v, t), y = pack(w, t);
          for (op_id op : all_ops) {
            const elements in = of_op(as_elements(t, x, y), op);
            const real exact = exact_value(op, in);
            for (const auto& method : methods_of(op)) {
              const reduction r = make_reduction(op, method, t);
              const scalar got = run(r, in);
              const real value = value_of(got);
              const bool close = isfinite(exact) ? abs(value - exact) <= ldexp(1 + abs(exact), -6)
                                                 : same(value, exact);
              if (!close)
                FAIL_CHECK(test::describe(r, n)
                           << " of " << a << " at " << at << " and " << b << " at " << by << ": "
                           << to_string(got) << ", exact " << static_cast<double>(exact));
            }
          }
        }
}

TEST_CASE("empty: what every op gives for no elements", "[truth][ops]") {
  const std::map<op_id, double> expected{{op_id::sum, 0},
                                         {op_id::nansum, 0},
                                         {op_id::prod, 1},
                                         {op_id::mean, NAN},
                                         {op_id::nanmean, NAN},
                                         {op_id::any, 0},
                                         {op_id::all, 1},
                                         {op_id::count_nonzero, 0},
                                         {op_id::sum_squares, 0},
                                         {op_id::count_distinct, 0},
                                         {op_id::logsumexp, -inf},
                                         {op_id::softmax_denominator, 0},
                                         {op_id::norm_l1, 0},
                                         {op_id::norm_l2, 0},
                                         {op_id::norm_inf, 0},
                                         {op_id::var, NAN},
                                         {op_id::std, NAN},
                                         {op_id::skewness, NAN},
                                         {op_id::kurtosis, NAN},
                                         {op_id::dot, 0},
                                         {op_id::squared_distance, 0},
                                         {op_id::mse, NAN},
                                         {op_id::mae, NAN},
                                         {op_id::cosine, NAN}};
  for (op_id op : all_ops)
    for (dtype t : all_dtypes) {
      CAPTURE(name(op), name(t));
      for (const reduction& r : all_of(op, t)) {
        const elements none{t, nullptr, nullptr, 0};
        if (!expected.contains(op)) {
          CHECK_THROWS_AS(run(r, none), error);
          CHECK_THROWS_AS(exact_value(op, none), std::logic_error);
          continue;
        }
        CHECK(run(r, none) == round_correctly(real(expected.at(op)), r.out()));
        CHECK(same(exact_value(op, none), expected.at(op)));
      }
    }
}
