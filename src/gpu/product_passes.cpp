#include "product_passes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace bitfold::gpu {

using cuda::product_vectors;
using order::index;

bool are_near(const detail::axes& elements) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::int64_t low = 0, high = 0;
  for (int k = 0; k < elements.rank; ++k) {
    const std::int64_t far =
        elements.dims[k].x * (static_cast<std::int64_t>(elements.dims[k].extent) - 1);
    (far < 0 ? low : high) += far;
  }
  return low >= -most && high <= most;
}

bool is_one(const detail::axes& results, stride_of stride) {
  for (int k = 0; k < results.rank; ++k)
    if (results.dims[k].extent != 1 && results.dims[k].*stride != 0) return false;
  return true;
}

namespace {

// Where the matrices of an operand are, for each result.
detail::axes matrices_of(const detail::axes& results, stride_of stride) {
  detail::axes matrices;
  for (int k = 0; k < results.rank; ++k)
    matrices.dims[matrices.rank++] = {results.dims[k].extent, results.dims[k].*stride, 0};
  return matrices;
}

// Sectors of memory that a warp reads of neighbours along some axes.
std::size_t sectors_of(const detail::axes& along, dtype type) {
  std::array<std::int64_t, 32> sectors;
  const index n = std::min<index>(sectors.size(), along.size());
  for (index i = 0; i < n; ++i)
    sectors[i] = along.offset_of(i).x * static_cast<std::int64_t>(size_of(type)) >> 5;
  const auto end = sectors.begin() + static_cast<std::ptrdiff_t>(n);
  std::sort(sectors.begin(), end);
  return static_cast<std::size_t>(std::unique(sectors.begin(), end) - sectors.begin()) *
         (sectors.size() / std::max<index>(n, 1));
}

operand_vectors vectors_of(const detail::operand_layout& l, const detail::axes& results,
                           stride_of stride, bool one) {
  operand_vectors v{};
  v.type = l.type;
  v.of.x = l.data;
  v.of.vectors = l.vectors;
  v.of.n = l.n;
  v.of.places = l.along;
  v.elements = l.elements;
  v.listed = l.n > 0 && l.elements.rank > 1;
  v.one = one;
  if (!v.one) v.of.matrices = matrices_of(results, stride);
  v.count = l.vectors * (v.one ? 1 : results.size());
  v.of.element_stride = l.element_stride;
  v.pack = 1;
  v.across = l.is_strided()
                 ? l.vectors > 1 && std::abs(l.vector_stride) < std::abs(l.element_stride)
                 : sectors_of(l.along, l.type) <= sectors_of(l.elements, l.type);
  if (v.listed || (v.across && !l.is_strided())) return v;
  const auto pack = static_cast<std::int64_t>(16 / size_of(l.type));
  const std::int64_t near = v.across ? l.vector_stride : l.element_stride;
  bool packs = near == 1 && (!v.across || l.element_stride % pack == 0) &&
               reinterpret_cast<std::uintptr_t>(l.data) % 16 == 0 &&
               (v.across ? l.vectors : l.n) % static_cast<index>(pack) == 0;
  for (int k = 0; k < v.of.matrices.rank; ++k) packs = packs && v.of.matrices.dims[k].x % pack == 0;
  for (int k = 0; k < l.along.rank && !v.across; ++k)
    packs = packs && l.along.dims[k].x % pack == 0;
  if (packs) v.pack = static_cast<int>(pack);
  return v;
}

}  // namespace

operand_vectors rows_of(const product_problem& of) {
  const bool one = is_one(of.results, &detail::axes::axis::x),
             again = of.results.size() > 1 && is_one(of.results, &detail::axes::axis::y);
  return vectors_of(of.a, of.results, &detail::axes::axis::x, one && !again);
}
operand_vectors columns_of(const product_problem& of) {
  const stride_of y = &detail::axes::axis::y;
  return vectors_of(of.b, of.results, y, is_one(of.results, y));
}

cuda::product_output output_of(index rows, index columns, const detail::addend_layout* addend,
                               void* out) {
  cuda::product_output to{};
  to.rows = rows;
  to.columns = columns;
  to.to = out;
  if (addend) {
    to.addend = addend->data;
    to.addend_matrices = addend->matrices;
    to.addend_row_stride = addend->row_stride;
    to.addend_column_stride = addend->column_stride;
  }
  return to;
}

void place_measures(operand_vectors& a, operand_vectors& b, place begin) {
  a.largest = begin;
  b.largest = begin.behind(8 * a.count);
  a.specials = b.largest.behind(8 * b.count);
  b.specials = a.specials.behind(4 * a.count);
}

pass& add_product_pass(plan& to, std::string_view header, std::string_view name,
                       const std::string& definitions, const std::string& with, index blocks,
                       index rows_of_blocks, std::size_t shared) {
  pass& p = std::get<pass>(to.steps.emplace_back(
      pass{instantiation{name, header, definitions,
                         "bitfold::cuda::" + std::string(name) + "<" + with + ">"},
           grid_of(blocks, blocks), cuda::threads_on_products, shared}));
  p.rows_of_blocks = static_cast<unsigned>(std::clamp<index>(rows_of_blocks, 1, 65535));
  return p;
}

void set_vectors(arguments& to, std::size_t at, const operand_vectors& v) {
  to.set(at + offsetof(product_vectors, largest), v.largest)
      .set(at + offsetof(product_vectors, specials), v.specials)
      .set(at + offsetof(product_vectors, scales), v.scales);
  if (v.listed) to.set(at + offsetof(product_vectors, offsets), v.offsets);
}

void add_list_of_offsets(plan& to, const operand_vectors& v) {
  pass& p =
      add_product_pass(to, products_header, "list_offsets", "", "std::int32_t",
                       shares(up_to(v.of.n, cuda::elements_of_quad), cuda::threads_on_products), 1);
  p.with.add(v.elements).add(v.of.n).add_address(v.offsets);
}

namespace {

void add_measure_listed(plan& to, const operand_vectors& v) {
  const index n = v.of.n;
  add_list_of_offsets(to, v);
  const index of_block = cuda::threads_on_products / (v.across ? 1 : 32),
              step = v.across ? cuda::measured_across : cuda::measured_along;
  pass& p = add_product_pass(to, products_header, "measure_listed", element_of(v.type),
                             arguments_of("kernel::element", v.across), shares(v.count, of_block),
                             shares(n, step));
  p.with.add(v.of);
  set_vectors(p.with, 0, v);
  p.with.add(v.count);
  p.bytes_read = v.count * n * size_of(v.type);
}

// Threads of a warp that take a vector, so many packs each: of a short one most of a warp's would
// have nothing to read.
index team_on(const operand_vectors& v, index packs, index least) {
  return std::clamp<index>(std::bit_ceil(shares(v.of.n, packs * static_cast<index>(v.pack))), least,
                           32);
}

}  // namespace

void add_measure(plan& to, const operand_vectors& v) {
  if (v.listed) return add_measure_listed(to, v);
  const std::size_t bytes_noted = size_of(v.type) < 8 ? 8 : 16;  // largest_magnitude's
  constexpr index packs = 4, least = 4;
  const index team = v.across ? 32 : team_on(v, packs, least),
              of_block =
                  v.across ? 32 * static_cast<index>(v.pack) : cuda::threads_on_products / team,
              step = v.across ? cuda::measured_across : cuda::measured_along;
  pass& p = add_product_pass(to, products_header, "measure_vectors", element_of(v.type),
                             arguments_of("kernel::element", v.across, v.pack, team),
                             shares(v.count, of_block), shares(v.of.n, step),
                             v.across ? cuda::threads_on_products * v.pack * bytes_noted : 0);
  p.with.add(v.of);
  set_vectors(p.with, 0, v);
  p.with.add(v.count);
  p.bytes_read = v.count * v.of.n * size_of(v.type);
}

namespace {

index team_of(const operand_vectors& v) {
  constexpr index packs = 2;
  // The zeros behind a vector, which a step of tiles takes, are a team's too.
  const auto least = static_cast<index>(std::min(cuda::longest_step / v.pack, 32));
  return v.of.n <= static_cast<index>(4 * 32 * v.pack) ? team_on(v, packs, least)
                                                       : cuda::threads_on_products;
}
index packs_of_thread(const operand_vectors& v) {
  return std::bit_ceil(std::max<index>(shares(v.of.n, team_of(v) * static_cast<index>(v.pack)), 1));
}

}  // namespace

bool is_read_once(const operand_vectors& v) {
  return !v.across && v.pack > 1 && packs_of_thread(v) <= cuda::most_packs_of_thread;
}

void add_digits(plan& to, const operand_vectors& v, const digit_way& way, cuda::product_digits d,
                place digits, int bits, bool read_once) {
  constexpr std::size_t of_vector =
      sizeof(double) * 2 + sizeof(void*);  // its factors, and where it begins
  const std::string definitions = element_of(v.type) + "using way = " + way.type() + ";\n",
                    types = "kernel::way, kernel::element";
  const index team = team_of(v);
  pass& p =
      read_once
          ? add_product_pass(to, products_header, "make_digits_of_rows", definitions,
                             arguments_of(types, v.pack, team, packs_of_thread(v)),
                             shares(d.count, cuda::threads_on_products / team), 1,
                             cuda::threads_on_products / 32 * 16)  // a magnitude of each warp
          : add_product_pass(
                to, products_header, "make_digits", definitions,
                arguments_of(types, v.across, v.pack, v.listed),
                shares(d.count, cuda::vectors_of_tile), shares(d.pitch, cuda::elements_of_tile),
                cuda::vectors_of_tile * (cuda::pitch_of_tile * way.integer_bytes() + of_vector));
  p.with.add(v.of);
  set_vectors(p.with, 0, v);
  p.with.add(d).set(offsetof(cuda::product_digits, to), digits).add(bits);
  p.bytes_read = d.count * d.n * size_of(v.type);
}

}  // namespace bitfold::gpu
