// Products of matrices: errors, sameness of bits, times.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <fmt/format.h>

#include <bitfold/reference.hpp>

#include "accuracy/bounds.hpp"
#include "accuracy/products.hpp"
#include "cpu/task.hpp"
#include "io/digest.hpp"
#include "studies.hpp"
#include "truth.hpp"

namespace bitfold::accuracy {
namespace {

using product_list = std::vector<product_contestant*>;
using bytes = std::vector<std::byte>;

std::size_t matrix_place(std::size_t i, std::size_t j, std::size_t rows, std::size_t columns,
                         bool by_columns) {
  return by_columns ? j * rows + i : i * columns + j;
}

// Rows of A and columns of B, rounded to a type, of which products of any shape and layout are
// made.
struct packed_factors {
  dtype type;
  std::size_t inner;
  bytes rows, columns;

  packed_factors(const factors& f, dtype t)
      : type(t), inner(f.inner), rows(pack(f.rows, t)), columns(pack(f.columns, t)) {}
  const void* row(std::size_t i) const { return &rows[i * inner * size_of(type)]; }
  const void* column(std::size_t j) const { return &columns[j * inner * size_of(type)]; }
  elements of(std::size_t i, std::size_t j) const { return {type, row(i), column(j), inner}; }

  // The first rows and columns.
  array operands(const product_shape& s) const {
    const std::size_t size = size_of(type);
    bytes both(s.elements() * size);
    std::byte* const right = &both[s.rows * inner * size];
    for (std::size_t p = 0; p < inner; ++p) {
      for (std::size_t i = 0; i < s.rows; ++i)
        std::memcpy(&both[matrix_place(i, p, s.rows, inner, s.left_by_columns) * size],
                    &rows[(i * inner + p) * size], size);
      for (std::size_t j = 0; j < s.columns; ++j)
        std::memcpy(&right[matrix_place(p, j, inner, s.columns, s.right_by_columns) * size],
                    &columns[(j * inner + p) * size], size);
    }
    return array(type, std::move(both));
  }
};

// What promises give for each element, by the definitions.
class expected_results {
 public:
  expected_results(const packed_factors& f, const product_shape& s) : f_(f), s_(s) {}

  const std::vector<scalar>& of(const matrix_product& p) {
    for (const auto& [made, results] : made_)
      if (made == p) return results;
    std::vector<scalar> results(s_.outputs());
    const vectors& known = integers(p);
    cpu::parallel_for(s_.outputs(), cpu::max_threads, [&](std::size_t o) {
      const std::size_t i = o / s_.columns, j = o % s_.columns;
      results[o] = p.method() ? reference(dot_of(p), f_.row(i), f_.column(j), f_.inner)
                              : fixed_product(known.first[i], known.second[j], p.out());
    });
    return made_.emplace_back(p, std::move(results)).second;
  }

  // Infinite where there is none.
  real bound(const matrix_product& p, std::size_t i, std::size_t j, const exact_dot& exact) {
    if (p.method()) return error_bound(dot_of(p), f_.of(i, j));
    const auto& [rows, columns] = integers(p);
    return fixed_bound(rows[i], columns[j], p.out(), exact.dot);
  }

 private:
  using vectors = std::pair<std::vector<fixed_vector>, std::vector<fixed_vector>>;

  static reduction dot_of(const matrix_product& p) {
    return make_reduction(op_id::dot, *p.method(), p.in(), {}, p.out());
  }
  const vectors& integers(const matrix_product& p) {
    if (!p.method() && p.bits() != bits_) {
      bits_ = p.bits();
      integers_ = {};
      for (std::size_t i = 0; i < s_.rows; ++i)
        integers_.first.push_back(fixed_elements(f_.type, f_.row(i), f_.inner, p.bits()));
      for (std::size_t j = 0; j < s_.columns; ++j)
        integers_.second.push_back(fixed_elements(f_.type, f_.column(j), f_.inner, p.bits()));
    }
    return integers_;
  }

  const packed_factors& f_;
  const product_shape s_;
  vectors integers_;  ///< of `fixed`, of so many bits
  int bits_ = 0;
  std::vector<std::pair<matrix_product, std::vector<scalar>>> made_;
};

scalar result(const product_contestant& c, const bytes& out, std::size_t o) {
  return load_scalar(c.info.out, &out[o * size_of(c.info.out)]);
}

std::string digest_of_product(const bytes& out) {
  io::digest d;
  d.add(out.data(), out.size());
  return d.hex();
}

std::string shape_name(const product_shape& s) {
  return fmt::format("{} x {} x {}", s.rows, s.inner, s.columns);
}

}  // namespace

report_rows run_products(const product_list& everyone, const product_input& input,
                         const product_shape& s, dtype t, std::uint64_t seed) {
  const packed_factors f(input.make(std::max(s.rows, s.columns), s.inner, seed, t), t);
  const array operands = f.operands(s);
  std::vector<exact_dot> exact(s.outputs());
  cpu::parallel_for(s.outputs(), cpu::max_threads, [&](std::size_t o) {
    exact[o] = dot_exactly(t, f.row(o / s.columns), f.column(o % s.columns), s.inner);
  });
  std::vector<double> conditions;
  for (std::size_t o = 0; o < s.outputs(); ++o)
    if (!input.diagonal || o / s.columns == o % s.columns)
      conditions.push_back(static_cast<double>(exact[o].condition()));

  report_rows out;
  expected_results expected(f, s);
  const std::string where = fmt::format("products: {} {}[{}]", input.name, name(t), shape_name(s));
  attempts attempt(where);
  for (product_contestant* c : everyone) {
    bytes got;
    if (!attempt(*c, [&] { got = c->run(operands.view, s, 0); })) continue;
    const auto& p = c->info.promise;
    const auto acc = parse_dtype(c->info.acc);
    std::vector<real> bounds(s.outputs(), std::numeric_limits<double>::infinity());
    if (p) expected.of(*p);  // made before threads look at it
    if (p || acc)
      cpu::parallel_for(s.outputs(), cpu::max_threads, [&](std::size_t o) {
        const std::size_t i = o / s.columns, j = o % s.columns;
        bounds[o] = p ? expected.bound(*p, i, j, exact[o])
                      : any_order_bound(op_id::dot, *acc, c->info.out, f.of(i, j));
      });
    std::vector<double> ulps, relative;
    std::optional<double> ratio;
    std::uint64_t overflows = 0;
    for (std::size_t o = 0; o < s.outputs(); ++o) {
      const std::size_t i = o / s.columns, j = o % s.columns;
      const scalar value = result(*c, got, o);
      const real error = abs(value_of(value) - exact[o].dot);
      const std::string at = fmt::format("{}, seed {}, element {}, {}", where, seed, i, j);
      if (p)
        if (const scalar right = expected.of(*p)[o]; value != right)
          out.findings.push_back(finding(*c, "bits", at, to_hex(right), to_hex(value)));
      if (isfinite(bounds[o])) {
        const double share = over_bound(error, bounds[o]);
        ratio = std::max(ratio.value_or(0), share);
        if (p && !(error <= bounds[o]))
          out.findings.push_back(finding(*c, "bound", at, "at most 1 times the a-priori bound",
                                         fmt::format("{:.6g} times", share)));
      }
      if (input.diagonal && i != j) continue;
      ulps.push_back(error_in_ulps(value, exact[o].dot));
      relative.push_back(error == 0 || ulps.back() == 0 ? 0
                         : isfinite(error) ? static_cast<double>(real(error / exact[o].dot_abs))
                                           : std::numeric_limits<double>::infinity());
      overflows += !isfinite(value_of(value)) &&
                   isfinite(value_of(round_correctly(exact[o].dot, c->info.out)));
    }
    out.products.push_back({
        .contestant = c->info.id,
        .input = std::string(input.name),
        .in = std::string(name(t)),
        .rows = s.rows,
        .inner = s.inner,
        .columns = s.columns,
        .elements = ulps.size(),
        .condition = median(conditions),
        .digest = digest_of_product(got),
        .ulps = *std::max_element(ulps.begin(), ulps.end()),
        .ulps_median = median(ulps),
        .relative = *std::max_element(relative.begin(), relative.end()),
        .relative_median = median(relative),
        .bound_ratio = ratio,
        .overflows = overflows,
    });
  }
  out.failures = std::move(attempt.failures);
  return out;
}

report_rows run_product_bits(product_contestant& c, const product_shape& s, std::uint64_t seed,
                             int repeats) {
  const dtype t = c.info.in;
  const product_input& normal = all_product_inputs()[0];
  const packed_factors f(normal.make(std::max(s.rows, s.columns), s.inner, seed, t), t);
  const std::string where = fmt::format("products: bits, {}[{}]", name(t), shape_name(s));
  attempts attempt(where);
  report_rows out;
  std::optional<bytes> expected;
  if (const auto& p = c.info.promise) {
    expected_results results(f, s);
    expected.emplace(s.outputs() * size_of(c.info.out));
    for (std::size_t o = 0; o < s.outputs(); ++o)
      store_scalar(results.of(*p)[o], &(*expected)[o * size_of(c.info.out)]);
  }
  // Whether the first `rows` rows of a product are those that are expected.
  bool equal = true;
  const auto check = [&](const bytes& got, const std::string& way) {
    if (!expected || std::equal(got.begin(), got.end(), expected->begin())) return;
    equal = false;
    for (std::size_t o = 0; o < got.size() / size_of(c.info.out); ++o)
      if (const scalar right = result(c, *expected, o); result(c, got, o) != right) {
        out.findings.push_back(
            finding(c, "bits",
                    fmt::format("{}, {}, element {}, {}", where, way, o / s.columns, o % s.columns),
                    to_hex(right), to_hex(result(c, got, o))));
        break;
      }
  };

  const auto ways = c.variations();
  std::set<bytes> by_way, by_batch, by_layout;
  std::uint64_t batches = 0;
  std::optional<std::uint64_t> changed;
  const bool done = attempt(c, [&] {
    const array whole = f.operands(s);
    for (std::size_t way = 0; way < ways.size(); ++way)
      for (int k = 0; k < repeats; ++k) {
        const bytes got = c.run(whole.view, s, way);
        check(got, ways[way].label);
        by_way.insert(got);
      }
    bytes alone;
    for (const std::size_t rows : {1, 2, 3, 16, 64}) {
      if (rows > s.rows) break;
      const product_shape part{rows, s.inner, s.columns};
      bytes got = c.run(f.operands(part).view, part, 0);
      check(got, fmt::format("the first {} rows", rows));
      got.resize(s.columns * size_of(c.info.out));
      if (batches++ == 0) alone = got;
      if (got != alone && !changed) changed = rows;
      by_batch.insert(got);
    }
    for (const bool left : {false, true})
      for (const bool right : {false, true}) {
        const product_shape part{s.rows, s.inner, s.columns, left, right};
        const bytes got = c.run(f.operands(part).view, part, 0);
        check(got, fmt::format("A by {}, B by {}", left ? "columns" : "rows",
                               right ? "columns" : "rows"));
        by_layout.insert(got);
      }
  });
  if (done)
    out.product_bits.push_back({
        .contestant = c.info.id,
        .in = std::string(name(t)),
        .rows = s.rows,
        .inner = s.inner,
        .columns = s.columns,
        .ways = ways.size(),
        .way_results = by_way.size(),
        .batches = batches,
        .batch_results = by_batch.size(),
        .changed = changed,
        .layouts = 4,
        .layout_results = by_layout.size(),
        .equal = expected ? std::optional(equal) : std::nullopt,
    });
  out.failures = std::move(attempt.failures);
  return out;
}

report_rows run_product_speed(const product_list& everyone, const product_shape& s, dtype t,
                              int times) {
  const array operands = repeated(t, s.elements());
  report_rows out;
  attempts attempt(fmt::format("products: speed, {}[{}]", name(t), shape_name(s)));
  for (product_contestant* c : everyone) {
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      std::vector<double> samples;
      if (!attempt(*c, [&] {
            samples = samples_of(c->info.device, ways[way], times,
                                 [&](int k) { return c->seconds(operands.view, s, way, k); });
          }))
        break;
      const double seconds = median(samples);
      out.product_speed.push_back({
          .contestant = c->info.id,
          .in = std::string(name(t)),
          .rows = s.rows,
          .inner = s.inner,
          .columns = s.columns,
          .variation = ways[way].label,
          .threads = static_cast<std::uint64_t>(ways[way].threads),
          .seconds = seconds,
          .gflops = 2e-9 * static_cast<double>(s.outputs() * s.inner) / seconds,
          .noisy = is_noisy(samples),
      });
    }
  }
  out.failures = std::move(attempt.failures);
  return out;
}

}  // namespace bitfold::accuracy
