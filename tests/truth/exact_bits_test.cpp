// By method exact: the true value, rounded once.
#include "ops.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::float_types, test::scalar_of;

namespace {

std::optional<reduction> exact_reduction(op_id op, dtype in, dtype out, int ddof) try {
  return make_reduction(op, method_id::exact, in, {}, out, ddof);
} catch (const error&) {
  return {};  // not an output that it can have
}

// By method exact every result has the bits of the true value, rounded once: by the reference and
// on the CPU, in every output type.
void check_exact(const elements& in, std::string_view what, int& checked) {
  for (op_id op : all_ops) {
    if (!info(op).has_exact) continue;
    const elements mine = of_op(in, op);
    for (int ddof : {0, 1}) {
      if (ddof && op != op_id::var && op != op_id::std) continue;
      const real exact = exact_value(op, mine, ddof);
      for (dtype out : all_dtypes) {
        const auto r = exact_reduction(op, in.type, out, ddof);
        if (!r) continue;
        const scalar want = round_correctly(exact, out);
        for (const scalar& got : {run(*r, mine), cpu::reduce(*r, mine.x, mine.y, mine.n)})
          if (got != want)
            FAIL_CHECK(test::describe(*r, in.n)
                       << " ddof=" << ddof << " on " << what << ": " << to_hex(got) << " ("
                       << to_string(got) << "), not " << to_hex(want));
        ++checked;
      }
    }
  }
}

// Elements of type t whose sum lies halfway between two numbers of type `out`, or beside that by
// the smallest number of t. There are 2^k of them, so that this holds for their mean too.
std::vector<std::vector<double>> ties(dtype t, dtype out, random_source& random) {
  const float_format f = format_of(t), g = format_of(out);
  const int first = std::max(f.min_exponent, g.min_exponent - 1);
  const int last = std::min(f.max_exponent, g.max_exponent) - g.precision - 1;
  std::vector<std::vector<double>> list;
  for (int half = first; half <= last; half += 1 + random.below(8))
    for (int beside : {0, 1, -1}) {
      std::uint64_t halves = random.bits() >> (63 - g.precision) | 1;
      if (half >= g.min_exponent) halves |= 1ull << g.precision;
      const double sign = random.below(2) ? -1 : 1;
      std::vector<double> x{std::ldexp(beside, f.min_exponent)};
      for (int at = 0; halves >> at; at += f.precision) {
        const std::uint64_t digits = halves >> at & ((1ull << f.precision) - 1);
        x.push_back(sign * std::ldexp(static_cast<double>(digits), half + at));
      }
      x.resize(std::bit_ceil(x.size()));
      list.push_back(x);
    }
  return list;
}

}  // namespace

TEST_CASE("exact: every op, type and input has the bits of the true value, rounded once",
          "[truth][exact][ops]") {
  int checked = 0;
  for (dtype t : float_types) {
    for (const input& generator : all_inputs())
      for (std::size_t n : {0u, 1u, 2u, 3u, 33u, 300u, 5000u}) {
        const auto x = pack(generator.make(n, 21, t), t), y = pack(generator.make(n, 22, t), t);
        check_exact({t, x.data(), y.data(), n}, generator.name, checked);
      }
    for (double condition : {2.0, 1e8, 1e16, 1e30, 1e40})
      for (std::size_t n : {100u, 4000u}) {
        const dot_input in = dot_cancellation(n, 23, t, condition);
        const auto x = pack(in.x, t), y = pack(in.y, t);
        check_exact(as_elements(t, x, y), "dot cancellation", checked);
        const auto a = pack(cancellation(n, 24, t, condition), t),
                   b = pack(cancellation(n, 25, t, condition), t);
        check_exact(as_elements(t, a, b), "cancellation", checked);
      }
    random_source random(26);
    for (dtype out : float_types)
      for (const auto& values : ties(t, out, random)) {
        const auto x = pack(values, t), ones = pack(std::vector<double>(values.size(), 1.0), t);
        check_exact(as_elements(t, x, ones), "a tie", checked);
      }
  }
  for (dtype t : all_dtypes)
    for (test::kind k : test::all_kinds)
      for (std::size_t n : {1u, 2u, 40u, 1029u}) {
        const auto x = test::make_data(t, k, n, n), y = test::make_data(t, k, n, n + 1);
        check_exact(as_elements(t, x, y), test::name(k), checked);
      }
  CHECK(checked > 100'000);
}

TEST_CASE("exact: long arrays, on many threads, in any order", "[truth][exact][ops]") {
  int checked = 0;
  for (dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i64}) {
    const std::size_t n = 300'007;
    const auto kind = is_float(t) ? test::kind::near_one : test::kind::any_bits;
    auto x = test::make_data(t, kind, n, 1), y = test::make_data(t, kind, n, 2);
    check_exact(as_elements(t, x, y), "a long array", checked);
    // Backwards, and in two pieces that change places: the same bits.
    const auto results = [&] {
      std::vector<scalar> all;
      for (op_id op : all_ops)
        if (info(op).has_exact) {
          const elements in = of_op(as_elements(t, x, y), op);
          all.push_back(cpu::reduce(make_reduction(op, method_id::exact, t), in.x, in.y, n));
        }
      return all;
    };
    const auto before = results();
    for (auto* a : {&x, &y}) {
      std::reverse(a->begin(), a->end());
      for (std::size_t i = 0; i < n; ++i)
        std::reverse(&(*a)[i * size_of(t)], &(*a)[i * size_of(t)] + size_of(t));
      std::rotate(a->begin(), a->begin() + static_cast<std::ptrdiff_t>(n / 3 * size_of(t)),
                  a->end());
    }
    CHECK(results() == before);
  }
}
