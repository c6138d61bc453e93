#include "few_products.hpp"

#include <bitfold/cuda/few_products.hpp>

#include "output_plan.hpp"
#include "product_passes.hpp"

namespace bitfold::gpu {
namespace {

using cuda::few_problem;
using detail::axes;
using order::index;

constexpr index least_elements_of_long = 4096, most_columns_of_long = 64, least_beside = 16,
                warps_of_block = cuda::threads_on_products / 32;

// Twice as many as its processors hold.
index many_warps(const device_facts& on) { return 128 * static_cast<index>(on.processors); }

// How often a warp's threads take a column each: what a warp does for its rows takes about a turn.
index turns_of_warp(index columns, index matrices, const device_facts& on) {
  const index all = shares(columns, 32),
              most = std::clamp<index>(matrices * all / many_warps(on), 1, 32);
  const auto time = [=](index turns) { return shares(all, turns) * (1 + turns); };
  index best = 1;
  for (index turns = 2; turns <= most; ++turns)
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

// Results of a row and a column each, of which b's lie side by side along the last axis, and a's
// are the same along the others.
bool is_of_rows_beside(const product_problem& of) {
  if (of.a.vectors * of.b.vectors != 1 || of.results.rank == 0) return false;
  axes others = of.results;
  const axes::axis& last = others.dims[--others.rank];
  return last.extent >= least_beside && last.y == 1 && is_one(others, &axes::axis::x);
}

// A pass of warps that take a share of `to` each.
pass& add_few_pass(plan& made, const product_problem& of, std::string_view name, index warps,
                   std::size_t shared) {
  pass& p = add_product_pass(
      made, "bitfold/cuda/few_products.cuh", name,
      element_of(of.a.type) + "using result = " + type_name(of.product.out()) + ";\n",
      arguments_of("kernel::element, kernel::result", of.addend != nullptr, of.a.n),
      shares(warps, warps_of_block), 1, shared);
  p.bytes_read = of.results.size() * of.b.vectors * of.a.n * size_of(of.a.type);
  return p;
}

plan plan_rows_beside(const product_problem& of, const device_facts& on) {
  cuda::beside_problem to{};
  few_problem& few = to.of;
  few.a = vectors_of(of.a);
  few.b = vectors_of(of.b);
  few.results = of.results;
  const axes::axis last = few.results.dims[--few.results.rank];
  few.a.places = few.b.places = {};
  few.a.places.rank = few.b.places.rank = 1;
  few.a.places.dims[0] = {last.extent, last.x, 0};
  few.b.places.dims[0] = {last.extent, last.y, 0};
  few.by_results = cuda::divisors_of(few.results);
  few.out = output_of(1, last.extent, of.addend, of.out);
  if (of.addend) {
    axes& matrices = few.out.addend_matrices;
    few.out.addend_column_stride = matrices.dims[--matrices.rank].x;
    if (is_one(matrices, &axes::axis::x)) matrices.rank = 0;  // there is nothing to look for
  }
  few.warps_of_matrix = shares(last.extent, 32);
  to.matrices = few.results.size();
  // What a thread does for its row takes about as long as a result.
  to.matrices_of_warp =
      std::clamp<index>(to.matrices * few.warps_of_matrix / many_warps(on), 1, 32);
  few.warps = few.warps_of_matrix * shares(to.matrices, to.matrices_of_warp);
  few.bits = of.product.bits();
  plan made;
  add_few_pass(made, of, "multiply_short_beside", few.warps, 0).with.add(to);
  return made;
}

}  // namespace

bool lie_beside(const product_problem& of) {
  if (of.results.rank == 0) return false;
  const axes::axis& last = of.results.dims[of.results.rank - 1];
  return last.extent >= least_beside && last.x == 1 && last.y == 1;
}

bool is_of_few(const product_problem& of) {
  const index n = of.a.n;
  // Of one right operand the rows of all matrices go together.
  if (of.results.size() > 1 && is_one(of.results, &axes::axis::y)) return false;
  return has_few_bits(of.product) && size_of(of.product.out()) < 8 && n > 0 &&
         are_near(of.a.elements) && are_near(of.b.elements) && n <= cuda::most_few_elements &&
         of.a.vectors <= cuda::most_few_rows;
}

plan plan_few(const product_problem& of, const device_facts& on) {
  if (is_of_rows_beside(of)) return plan_rows_beside(of, on);
  few_problem to{};
  to.a = vectors_of(of.a);
  to.b = vectors_of(of.b);
  to.results = of.results;
  to.by_results = cuda::divisors_of(of.results);
  to.out = output_of(of.a.vectors, of.b.vectors, of.addend, of.out);
  const index turns = turns_of_warp(to.out.columns, of.results.size(), on);
  to.columns = 32 * turns;
  to.warps_of_matrix = shares(to.out.columns, to.columns);
  to.warps = of.results.size() * to.warps_of_matrix;
  to.bits = of.product.bits();
  plan made;
  add_few_pass(made, of, "multiply_short", to.warps,
               warps_of_block * cuda::most_few_rows * 4 * (of.a.n + 2))
      .with.add(to);
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
