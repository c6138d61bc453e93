#include "few_products.hpp"

#include <bitfold/cuda/few_products.hpp>

#include "output_plan.hpp"
#include "product_passes.hpp"

namespace bitfold::gpu {
namespace {

using cuda::few_problem;
using detail::axes;
using order::index;

constexpr index least_elements_of_long = 4096, most_columns_of_long = 64,
                warps_of_block = cuda::threads_on_products / 32;

// How often a warp's threads take a column each: what a warp does for its rows takes about half of
// a turn.
index turns_of_warp(index columns) {
  const index all = shares(columns, 32);
  const auto time = [=](index turns) { return shares(all, turns) * (1 + 2 * turns); };
  index best = 1;
  for (index turns = 2; turns <= 8; ++turns)
    if (time(turns) < time(best)) best = turns;
  return best;
}

cuda::few_vectors vectors_of(const detail::operand_layout& from) {
  cuda::few_vectors v{from.data, from.along, cuda::divisors_of(from.along), {}};
  for (index i = 0; i < from.n; ++i)
    v.offsets[i] = static_cast<std::int32_t>(from.elements.offset_of(i).x);
  return v;
}

// Whether integers are short enough for sums of 64 bits, of many products.
bool has_few_bits(const matrix_product& p) {
  return is_float(p.in()) && p.bits() <= cuda::few_bits && size_of(p.in()) < 8;
}

}  // namespace

bool is_of_few(const product_problem& of) {
  const index n = of.a.n;
  // Of one right operand the rows of all matrices go together.
  if (of.results.size() > 1 && is_one(of.results, &axes::axis::y)) return false;
  return has_few_bits(of.product) && size_of(of.product.out()) < 8 && n > 0 &&
         are_near(of.a.elements) && are_near(of.b.elements) && n <= cuda::most_few_elements &&
         of.a.vectors <= cuda::most_few_rows;
}

plan plan_few(const product_problem& of) {
  few_problem to{};
  to.a = vectors_of(of.a);
  to.b = vectors_of(of.b);
  to.results = of.results;
  to.by_results = cuda::divisors_of(of.results);
  to.out = output_of(of.a.vectors, of.b.vectors, of.addend, of.out);
  const index turns = turns_of_warp(to.out.columns);
  to.columns = 32 * turns;
  to.warps_of_matrix = shares(to.out.columns, to.columns);
  to.warps = of.results.size() * to.warps_of_matrix;
  to.bits = of.product.bits();
  plan made;
  pass& p = add_product_pass(
      made, "bitfold/cuda/few_products.cuh", "multiply_short",
      element_of(of.a.type) + "using result = " + type_name(of.product.out()) + ";\n",
      arguments_of("kernel::element, kernel::result", of.addend != nullptr, of.a.n),
      shares(to.warps, warps_of_block), 1, warps_of_block * cuda::most_few_rows * 4 * (of.a.n + 2));
  p.with.add(to);
  p.bytes_read = of.results.size() * to.out.columns * of.a.n * size_of(of.a.type);
  return made;
}

index columns_of_few(const matrix_product& p, index rows, index columns, index n) {
  if (!has_few_bits(p) || rows > cuda::most_few_rows || columns > most_columns_of_long ||
      n < least_elements_of_long)
    return 0;
  const index most = cuda::most_few_columns / rows;
  return shares(columns, shares(columns, most));
}

}  // namespace bitfold::gpu
