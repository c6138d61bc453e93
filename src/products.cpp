#include "products.hpp"

#include <algorithm>
#include <string>

namespace bitfold {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

void check(const view& x, const char* name) {
  if (x.rank < 1 || x.rank > max_axes)
    refuse(std::string(name) + ".rank: " + std::to_string(x.rank) + " is not from 1 to " +
           std::to_string(max_axes));
  bool empty = false;
  for (int k = 0; k < x.rank; ++k) {
    if (x.extent[k] < 0)
      refuse(std::string(name) + ".extent[" + std::to_string(k) +
             "]: " + std::to_string(x.extent[k]) + " is negative");
    empty = empty || x.extent[k] == 0;
  }
  if (!empty && x.data == nullptr) refuse(std::string(name) + ": a null pointer");
}

// As a matrix at least: an array of one axis is one row, or one column.
view as_matrices(const view& x, bool left) {
  if (x.rank != 1) return x;
  view v{x.type, x.data, 2, {}, {}};
  v.extent[left ? 1 : 0] = x.extent[0];
  v.stride[left ? 1 : 0] = x.stride[0];
  v.extent[left ? 0 : 1] = 1;
  return v;
}

// The batch axis k of `rank`, counted so that the last ones of both operands meet.
struct batch_axis {
  std::int64_t extent = 1, stride = 0;
};
batch_axis axis_of(const view& x, int k, int rank) {
  const int own = k - (rank - (x.rank - 2));
  if (own < 0) return {};
  return {x.extent[own], x.extent[own] == 1 ? 0 : x.stride[own]};
}

void check_size(const std::vector<std::int64_t>& extents, std::int64_t k) {
  constexpr std::uint64_t most = std::uint64_t{1} << 60;
  std::uint64_t n = static_cast<std::uint64_t>(std::max<std::int64_t>(k, 1));
  for (const std::int64_t e : extents) {
    if (e == 0) return;
    if (__builtin_mul_overflow(n, static_cast<std::uint64_t>(e), &n)) n = most + 1;
    if (n > most) refuse("b: more than 2^60 products of elements");
  }
}

}  // namespace

matrix_product make_matrix_product(dtype in, std::optional<method_id> method,
                                   std::optional<dtype> out, std::optional<int> bits) {
  matrix_product p;
  p.in_ = in;
  p.method_ = method;
  const bool fixed_floats = !method && is_float(in);
  if (bits && !fixed_floats)
    refuse(std::string("bits: of method fixed and floats alone, not of ") +
           std::string(product_method_name(method)) + " and " + std::string(name(in)));
  if (fixed_floats) {
    p.bits_ = bits.value_or(product_bits(in));
    if (p.bits_ < min_product_bits || p.bits_ > max_product_bits)
      refuse("bits: " + std::to_string(p.bits_) + " is not from " +
             std::to_string(min_product_bits) + " to " + std::to_string(max_product_bits));
    p.out_ = out.value_or(in);
    if (!is_float(p.out_))
      refuse("out dtype: " + std::string(name(p.out_)) + " is an integer type, but a product of " +
             std::string(name(in)) + " is not");
  } else {
    p.out_ = make_reduction(op_id::dot, method.value_or(method_id::tree), in, {}, out).out();
  }
  return p;
}

std::vector<std::int64_t> matmul_extents(const view& a, const view& b) {
  return detail::layout_of(a, b).extents;
}

namespace detail {

std::int64_t common_extent(std::int64_t a, std::int64_t b) {
  if (a != b && a != 1 && b != 1)
    refuse("b: extents " + std::to_string(a) + " and " + std::to_string(b) + " do not broadcast");
  return a == 1 ? b : a;
}

void expect_type(const matrix_product& p, const view& x, const char* which) {
  if (x.type != p.in())
    refuse(std::string(which) + ": of type " + std::string(name(x.type)) + ", not " +
           std::string(name(p.in())));
}

void expect_addend(const matrix_product& p, const view& addend) {
  if (p.method() || !is_float(p.in()))
    refuse("addend: with method fixed and floats alone, not with " +
           std::string(product_method_name(p.method())) + " and " + std::string(name(p.in())));
  if (addend.type != p.out())
    refuse("addend: of type " + std::string(name(addend.type)) + ", not " +
           std::string(name(p.out())));
}

operand_layout layout_of(const view& given, bool left) {
  check(given, left ? "a" : "b");
  const view x = as_matrices(given, left);
  const int vectors = x.rank - (left ? 2 : 1), elements = x.rank - (left ? 1 : 2);
  operand_layout l{x.type,
                   static_cast<const std::byte*>(x.data),
                   static_cast<std::uint64_t>(x.extent[vectors]),
                   static_cast<std::uint64_t>(x.extent[elements]),
                   x.stride[vectors],
                   x.stride[elements],
                   {}};
  for (int k = 0; k < x.rank - 2; ++k)
    if (x.extent[k] != 1 && (x.stride[k] != 0 || x.extent[k] == 0))
      l.matrices.dims[l.matrices.rank++] = {static_cast<std::uint64_t>(x.extent[k]), x.stride[k],
                                            0};
  return l;
}

product_layout layout_of(const view& a, const view& b) {
  product_layout l{layout_of(a, true), layout_of(b, false), {}, {}, {}};
  if (a.type != b.type)
    refuse("b: of type " + std::string(name(b.type)) + ", not " + std::string(name(a.type)));
  if (l.a.n != l.b.n)
    refuse("b: columns of " + std::to_string(l.b.n) + " elements for rows of " +
           std::to_string(l.a.n));
  const view x = as_matrices(a, true), y = as_matrices(b, false);
  const int rank = std::max(x.rank, y.rank) - 2;
  std::int64_t of_a = static_cast<std::int64_t>(l.a.count()),
               of_b = static_cast<std::int64_t>(l.b.count());
  for (int k = 0; k < rank; ++k) {
    const batch_axis p = axis_of(x, k, rank), q = axis_of(y, k, rank);
    const std::int64_t extent = common_extent(p.extent, q.extent);
    l.extents.push_back(extent);
    // The strides of axes of which an operand has but one matrix are 0, and count for nothing.
    const auto stride = [](batch_axis own, std::int64_t& left_over) -> std::int64_t {
      if (own.stride == 0 || own.extent == 0) return 0;
      return left_over /= own.extent;
    };
    const std::int64_t s = stride(p, of_a), t = stride(q, of_b);
    l.results.dims[l.results.rank++] = {static_cast<std::uint64_t>(extent), s, t};
    l.places.dims[l.places.rank++] = {static_cast<std::uint64_t>(extent), p.stride, q.stride};
  }
  if (a.rank > 1) l.extents.push_back(static_cast<std::int64_t>(l.a.vectors));
  if (b.rank > 1) l.extents.push_back(static_cast<std::int64_t>(l.b.vectors));
  check_size(l.extents, static_cast<std::int64_t>(l.a.n));
  return l;
}

addend_layout layout_of(const view& addend, const product_layout& l, const view& a, const view& b) {
  const int rank = static_cast<int>(l.extents.size());
  if (addend.rank < 0 || addend.rank > rank)
    refuse("addend.rank: " + std::to_string(addend.rank) + ", and the result has " +
           std::to_string(rank));
  std::vector<std::int64_t> strides(l.extents.size());
  for (int k = 1; k <= addend.rank; ++k) {
    const std::int64_t extent = addend.extent[addend.rank - k],
                       of_result = l.extents[static_cast<std::size_t>(rank - k)];
    if (extent != of_result && extent != 1)
      refuse("addend: extents " + std::to_string(extent) + " and " + std::to_string(of_result) +
             " do not broadcast");
    if (extent != 1) strides[static_cast<std::size_t>(rank - k)] = addend.stride[addend.rank - k];
  }
  const bool empty = std::find(l.extents.begin(), l.extents.end(), 0) != l.extents.end();
  if (!addend.data && !empty) refuse("addend: a null pointer");
  addend_layout c{static_cast<const std::byte*>(addend.data), l.results};
  std::size_t axis = 0;
  for (int k = 0; k < l.results.rank; ++k) c.matrices.dims[k].x = strides[axis++];
  if (a.rank > 1) c.row_stride = strides[axis++];
  if (b.rank > 1) c.column_stride = strides[axis++];
  return c;
}

dot_operands as_dots(const view& a, const view& b) {
  const view x = as_matrices(a, true), y = as_matrices(b, false);
  const auto with_axis = [](const view& v, int place, int elements) {
    if (v.rank == max_axes) refuse("rank: one axis more than an array has");
    view r{v.type, v.data, v.rank + 1, {}, {}};
    const int matrix = v.rank - 2, kept = v.rank - 2 + (elements == v.rank - 2 ? 1 : 0);
    for (int k = 0; k < matrix; ++k) r.extent[k] = v.extent[k], r.stride[k] = v.stride[k];
    r.extent[place] = 1;
    const int other = place == matrix ? matrix + 1 : matrix;
    r.extent[other] = v.extent[kept];
    r.stride[other] = v.stride[kept];
    r.extent[v.rank] = v.extent[elements];
    r.stride[v.rank] = v.stride[elements];
    return r;
  };
  return {with_axis(x, x.rank - 1, x.rank - 1), with_axis(y, y.rank - 2, y.rank - 2)};
}

reduction dot_of(const matrix_product& p) {
  return make_reduction(op_id::dot, p.method().value_or(method_id::tree), p.in(), {}, p.out());
}

}  // namespace detail
}  // namespace bitfold
