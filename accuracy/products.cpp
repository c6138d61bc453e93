#include "products.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "inputs.hpp"

namespace bitfold::accuracy {
namespace {

using values = std::vector<double>;

values named(std::string_view name, std::size_t n, std::uint64_t seed, dtype type) {
  const auto inputs = all_inputs();
  const auto in =
      std::find_if(inputs.begin(), inputs.end(), [&](const input& i) { return i.name == name; });
  return in->make(n, seed, type);
}

// Of one input, B from another seed.
factors both(std::string_view name, std::size_t count, std::size_t inner, std::uint64_t seed,
             dtype type) {
  constexpr std::uint64_t far_from_samples = 1 << 20;
  return {inner, named(name, count * inner, seed, type),
          named(name, count * inner, seed + far_from_samples, type)};
}

// Row i and column i are a dot product of this condition number, by a seed of its own each.
template <int Power>
factors ill_conditioned(std::size_t count, std::size_t inner, std::uint64_t seed, dtype type) {
  factors f{inner, {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    const dot_input in =
        dot_cancellation(inner, seed + (std::uint64_t{i} << 32), type, std::pow(10.0, Power));
    f.rows.insert(f.rows.end(), in.x.begin(), in.x.end());
    f.columns.insert(f.columns.end(), in.y.begin(), in.y.end());
  }
  return f;
}

constexpr double outlier = 1000;

constexpr std::array<product_input, 7> inputs{{
    {"normal", "standard normal", false,
     [](std::size_t count, std::size_t inner, std::uint64_t seed, dtype t) {
       return both("normal", count, inner, seed, t);
     }},
    {"uniform", "uniform in [0, 1)", false,
     [](std::size_t count, std::size_t inner, std::uint64_t seed, dtype t) {
       return both("uniform", count, inner, seed, t);
     }},
    {"outlier-single", "normal, but one element of each row of A is 1000 times larger", false,
     [](std::size_t count, std::size_t inner, std::uint64_t seed, dtype t) {
       factors f = both("normal", count, inner, seed, t);
       for (std::size_t i = 0; i < count; ++i) f.rows[i * inner + (7 * i + 3) % inner] *= outlier;
       return f;
     }},
    {"outlier-column", "normal, but one column of A is 1000 times larger", false,
     [](std::size_t count, std::size_t inner, std::uint64_t seed, dtype t) {
       factors f = both("normal", count, inner, seed, t);
       for (std::size_t i = 0; i < count; ++i) f.rows[i * inner + 3 % inner] *= outlier;
       return f;
     }},
    {"dots-1e4", "on the diagonal dot products of condition number 1e4", true, ill_conditioned<4>},
    {"dots-1e8", "on the diagonal dot products of condition number 1e8 (f16: 2^26)", true,
     ill_conditioned<8>},
    {"dots-1e16", "on the diagonal dot products of condition number 1e16 (f16: 2^26)", true,
     ill_conditioned<16>},
}};

// L of docs/products.md.
double largest_integer(int bits) { return std::ldexp(63, bits - 7); }

}  // namespace

std::span<const product_input> all_product_inputs() { return inputs; }

fixed_vector fixed_elements(dtype type, const void* x, std::size_t n, int bits) {
  fixed_vector v{bits, values(n), 0, 0};
  for (std::size_t i = 0; i < n; ++i) {
    double& e = v.elements[i];
    e = static_cast<double>(
        value_of(load_scalar(type, static_cast<const std::byte*>(x) + i * size_of(type))));
    v.largest = std::max(v.largest, std::fabs(e));
    v.sum_abs += std::fabs(e);
  }
  if (v.largest == 0) return v;
  // The largest s with largest 2^s <= L.
  const double most = largest_integer(bits);
  int s = std::ilogb(most) - std::ilogb(v.largest) + 1;
  while (std::ldexp(v.largest, s) > most) --s;
  for (double& e : v.elements) e = std::ldexp(std::nearbyint(std::ldexp(e, s)), -s);
  return v;
}

scalar fixed_product(const fixed_vector& a, const fixed_vector& b, dtype out) {
  real sum = dot_exactly(dtype::f64, a.elements.data(), b.elements.data(), a.elements.size()).dot;
  if (sum == 0) sum = 0;  // which is +0
  return round_correctly(sum, out);
}

real fixed_bound(const fixed_vector& a, const fixed_vector& b, dtype out, const real& exact) {
  const auto k = a.elements.size();
  const real m = a.largest, n = b.largest, l = largest_integer(a.bits);
  // The sums of magnitudes were rounded, by less than this.
  const real more = 1 + ldexp(real(k), -52);
  const real before = (n * a.sum_abs + m * b.sum_abs) * more / l + k * m * n / (l * l);
  const real most = abs(exact) + before;
  if (!isfinite(value_of(round_correctly(most, out))))
    return std::numeric_limits<double>::infinity();
  const real subnormal = ldexp(real(1), format_of(out).min_exponent - 1);
  return before + std::max(real(unit_roundoff(out) * most), subnormal);
}

}  // namespace bitfold::accuracy
