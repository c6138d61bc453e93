// docs/operations.md: what it lists, and its examples.
#include <fstream>
#include <regex>
#include <sstream>

#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

TEST_CASE("operations: docs/operations.md lists the operations there are", "[truth][ops]") {
  std::ifstream file(BITFOLD_OPERATIONS_DOC);
  REQUIRE(file);
  std::vector<std::string> listed, expected, headings;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| [`")) listed.push_back(line);
    if (line.starts_with("### ")) headings.push_back(line.substr(4));
  }
  constexpr const char* types[] = {"additive", "real", "wide", "same", "place", "count", "truth"};
  constexpr const char* empty[] = {"0", "1", "NaN", "-inf", "refused"};
  for (const op_info& op : all_op_infos) {
    const std::string id(op.name);
    expected.push_back("| [`" + id + "`](#" + id + ") | " + std::string(op.summary) + " | " +
                       std::to_string(op.inputs) + " | " + types[static_cast<int>(op.types)] +
                       " | " + (op.takes_method ? "yes" : "none") + " | " +
                       (op.has_exact ? "yes" : "none") + " | " + empty[static_cast<int>(op.empty)] +
                       " |");
  }
  CHECK(listed == expected);
  std::vector<std::string> names;
  for (op_id op : all_ops) names.emplace_back(name(op));
  CHECK(headings == names);
}

TEST_CASE("operations: the examples of docs/operations.md are right", "[truth][ops]") {
  const std::regex form(
      R"(Example: `([a-z_0-9]+)\(\{([^}]*)\}(?:, \{([^}]*)\})?\)` is `([^`]*)`\.)");
  const auto numbers = [](const std::string& text) {
    std::vector<double> list;
    std::stringstream in(text);
    for (std::string item; std::getline(in, item, ',');) list.push_back(std::stod(item));
    return list;
  };
  std::ifstream file(BITFOLD_OPERATIONS_DOC);
  std::set<std::string> shown;
  for (std::string line; std::getline(file, line);) {
    std::smatch m;
    if (!std::regex_match(line, m, form)) {
      CHECK_FALSE(line.starts_with("Example"));
      continue;
    }
    CAPTURE(line);
    const auto op = parse_op(m[1].str());
    REQUIRE(op);
    shown.insert(m[1]);
    const auto x = pack(numbers(m[2]), dtype::f64), y = pack(numbers(m[3]), dtype::f64);
    CHECK(to_string(run(make_reduction(*op, {}, dtype::f64), as_elements(dtype::f64, x, y))) ==
          m[4]);
  }
  CHECK(shown.size() == all_ops.size());
}

TEST_CASE("operations: what must be the same is, to the bit", "[truth][ops]") {
  // Against zeros and ones, and an array against itself, by every method and accumulator: no
  // rounding is left that one of the two has and the other has not.
  const auto check = [](op_id a, const elements& in_a, op_id b, const elements& in_b) {
    const auto list_a = all_of(a, in_a.type), list_b = all_of(b, in_b.type);
    REQUIRE(list_a.size() == list_b.size());
    for (std::size_t k = 0; k < list_a.size(); ++k)
      if (run(list_a[k], of_op(in_a, a)) != run(list_b[k], of_op(in_b, b)))
        FAIL_CHECK(test::describe(list_a[k], in_a.n)
                   << " is not " << test::describe(list_b[k], in_b.n));
  };
  using enum op_id;
  for (dtype t : all_dtypes)
    for (std::size_t n : {1u, 33u, 300u, 1500u}) {
      const auto x = test::make_data(t, test::kind::near_one, n, 5);
      const auto zeros = pack_any(std::vector<double>(n, 0.0), t);
      const auto ones = pack_any(std::vector<double>(n, 1.0), t);
      const elements alone = as_elements(t, x), with_self = as_elements(t, x, x);
      check(dot, with_self, sum_squares, alone);
      check(dot, as_elements(t, x, ones), sum, alone);
      check(squared_distance, as_elements(t, x, zeros), sum_squares, alone);
      check(nansum, alone, sum, alone);
      check(nanmean, alone, mean, alone);
      check(nanmin, alone, min, alone);
      check(nanmax, alone, max, alone);
      check(mae, as_elements(t, x, zeros), mae, as_elements(t, zeros, x));
      check(mse, as_elements(t, x, zeros), mse, as_elements(t, zeros, x));
      if (!is_float(t)) continue;
      auto magnitudes = x;  // without the sign bits
      for (std::size_t i = size_of(t) - 1; i < x.size(); i += size_of(t))
        magnitudes[i] &= std::byte{0x7f};
      check(mae, as_elements(t, x, zeros), mean, as_elements(t, magnitudes));
      check(norm_l1, alone, sum, as_elements(t, magnitudes));
    }
}

TEST_CASE("operations: roots and quotients are those of what they are made of", "[truth][ops]") {
  const dtype f64 = dtype::f64;
  for (dtype t : float_types)
    for (dtype acc : {dtype::f32, f64})
      for (std::size_t n : {33u, 300u, 1500u, 20000u}) {
        if (acc < t) continue;
        const auto x = test::make_data(t, test::kind::near_one, n, 7);
        const auto y = test::make_data(t, test::kind::near_one, n, 8);
        const elements xy = as_elements(t, x, y), only_x = as_elements(t, x),
                       only_y = as_elements(t, y);
        const auto of = [&](op_id op, std::optional<method_id> m, dtype a, const elements& in) {
          return static_cast<double>(
              value_of(run(make_reduction(op, m, t, a, f64), of_op(in, op))));
        };
        CAPTURE(name(t), name(acc), n);
        // var is rounded only where it is the result.
        CHECK(of(op_id::std, {}, acc, xy) ==
              Approx(std::sqrt(of(op_id::var, {}, acc, xy))).epsilon(0x1p-51));
        for (const auto& m : methods_of(op_id::cosine)) {  // not exact: its parts are not rounded
          CAPTURE(name(m));
          const double xx = of(op_id::sum_squares, m, acc, only_x);
          const double yy = of(op_id::sum_squares, m, acc, only_y);
          if (acc == f64) CHECK(of(op_id::norm_l2, m, acc, only_x) == std::sqrt(xx));
          CHECK(of(op_id::cosine, m, acc, xy) ==
                of(op_id::dot, m, acc, xy) / (std::sqrt(xx) * std::sqrt(yy)));
        }
      }
}
