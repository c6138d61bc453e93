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

// Some axes of an operand, from `begin` on.
detail::axes some_axes(const view& x, int begin, int end) {
  detail::axes some;
  for (int k = begin; k < end; ++k)
    some.dims[some.rank++] = {static_cast<std::uint64_t>(x.extent[k]), x.stride[k], 0};
  return some;
}

// Of axes of a batch, of vectors, and of elements.
detail::operand_layout operand_of(const view& x, int batch, int vectors) {
  const detail::axes along = some_axes(x, batch, batch + vectors),
                     elements = some_axes(x, batch + vectors, x.rank);
  detail::operand_layout l{x.type,
                           static_cast<const std::byte*>(x.data),
                           along.size(),
                           elements.size(),
                           detail::joined(along),
                           detail::joined(elements),
                           {},
                           0,
                           0};
  // (Of one axis also where it has one place.)
  const auto stride_of = [](const detail::axes& given, const detail::axes& one) {
    return given.rank == 1 ? given.dims[0].x : one.rank > 0 ? one.dims[0].x : 0;
  };
  l.vector_stride = stride_of(along, l.along);
  l.element_stride = stride_of(elements, l.elements);
  for (int k = 0; k < batch; ++k)
    if (x.extent[k] != 1 && (x.stride[k] != 0 || x.extent[k] == 0))
      l.matrices.dims[l.matrices.rank++] = {static_cast<std::uint64_t>(x.extent[k]), x.stride[k],
                                            0};
  return l;
}

// The axes of a batch, of which the last ones of both operands meet.
struct batch_axes {
  const view* of;
  int rank;

  // The stride is 0 where there is one matrix.
  struct axis {
    std::int64_t extent = 1, stride = 0;
  };
  axis at(int k, int of_rank) const {
    const int own = k - (of_rank - rank);
    if (own < 0) return {};
    return {of->extent[own], of->extent[own] == 1 ? 0 : of->stride[own]};
  }
};

void check_axes(const view& x, int batch, int vectors, const char* name) {
  const std::string argument(name);
  if (x.rank < 0 || x.rank > max_axes || batch < 0 || vectors < 0 || batch > x.rank ||
      vectors >= x.rank - batch)
    refuse(argument + ".rank: " + std::to_string(x.rank) + ", where " + std::to_string(batch) +
           " axes are of a batch, " + std::to_string(vectors) +
           " of vectors, and more of elements");
  std::uint64_t size = 1;
  for (int k = 0; k < x.rank; ++k)
    if (x.extent[k] < 0 ||
        __builtin_mul_overflow(size, static_cast<std::uint64_t>(x.extent[k]), &size) || size >> 60)
      refuse(argument + ": extents that are negative, or an array of more than 2^60 elements");
  if (size > 0 && !x.data) refuse(argument + ": a null pointer");
}
void check_axes(const view& x, const view& y, contracted_axes of) {
  check_axes(x, of.batch, of.a_vectors, "a");
  check_axes(y, of.batch, of.b_vectors, "b");
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

// What a batch, and the vectors of both operands, make of the results.
void add_results(detail::product_layout& l, batch_axes a, batch_axes b) {
  const int rank = std::max(a.rank, b.rank);
  std::int64_t of_a = static_cast<std::int64_t>(l.a.count()),
               of_b = static_cast<std::int64_t>(l.b.count());
  for (int k = 0; k < rank; ++k) {
    const batch_axes::axis p = a.at(k, rank), q = b.at(k, rank);
    const std::int64_t extent = detail::common_extent(p.extent, q.extent);
    l.extents.push_back(extent);
    // The strides of axes of which an operand has but one matrix are 0, and count for nothing.
    const auto stride = [](batch_axes::axis own, std::int64_t& left_over) -> std::int64_t {
      if (own.stride == 0 || own.extent == 0) return 0;
      return left_over /= own.extent;
    };
    const std::int64_t s = stride(p, of_a), t = stride(q, of_b);
    l.results.dims[l.results.rank++] = {static_cast<std::uint64_t>(extent), s, t};
    l.places.dims[l.places.rank++] = {static_cast<std::uint64_t>(extent), p.stride, q.stride};
  }
  if (l.rows) l.extents.push_back(static_cast<std::int64_t>(l.a.vectors));
  if (l.columns) l.extents.push_back(static_cast<std::int64_t>(l.b.vectors));
  check_size(l.extents, static_cast<std::int64_t>(l.a.n));
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

std::vector<std::int64_t> contracted_extents(const view& a, const view& b, contracted_axes of) {
  check_axes(a, b, of);
  std::vector<std::int64_t> extents;
  for (int k = 0; k < of.batch; ++k)
    extents.push_back(detail::common_extent(a.extent[k], b.extent[k]));
  for (const auto& [x, vectors] : {std::pair(&a, of.a_vectors), std::pair(&b, of.b_vectors)})
    extents.insert(extents.end(), x->extent.begin() + of.batch,
                   x->extent.begin() + of.batch + vectors);
  return extents;
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

void expect_contractible(const matrix_product& p, const view& a, const view& b) {
  expect_type(p, a, "a");
  expect_type(p, b, "b");
  if (p.method() || !is_float(p.in()))
    refuse("method: contractions are of floats, by method fixed");
}

view transposed(view x) {
  if (x.rank < 2) return x;
  const auto last = static_cast<std::size_t>(x.rank - 1);
  std::swap(x.extent[last], x.extent[last - 1]);
  std::swap(x.stride[last], x.stride[last - 1]);
  return x;
}

axes joined(const axes& from) {
  axes to;
  for (int k = 0; k < from.rank; ++k) {
    const axes::axis& next = from.dims[k];
    if (next.extent == 1) continue;
    axes::axis* const last = to.rank > 0 ? &to.dims[to.rank - 1] : nullptr;
    if (last && last->x == next.x * static_cast<std::int64_t>(next.extent))
      *last = {last->extent * next.extent, next.x, 0};
    else
      to.dims[to.rank++] = {next.extent, next.x, 0};
  }
  return to;
}

operand_layout layout_of(const view& given, bool left) {
  check(given, left ? "a" : "b");
  const view x = as_matrices(given, left);
  return operand_of(left ? x : transposed(x), x.rank - 2, 1);
}

product_layout layout_of(const view& a, const view& b) {
  product_layout l{layout_of(a, true), layout_of(b, false), {}, {}, {}, a.rank > 1, b.rank > 1};
  if (a.type != b.type)
    refuse("b: of type " + std::string(name(b.type)) + ", not " + std::string(name(a.type)));
  if (l.a.n != l.b.n)
    refuse("b: columns of " + std::to_string(l.b.n) + " elements for rows of " +
           std::to_string(l.a.n));
  const view x = as_matrices(a, true), y = as_matrices(b, false);
  add_results(l, {&x, x.rank - 2}, {&y, y.rank - 2});
  return l;
}

product_layout layout_of(const view& a, const view& b, contracted_axes by) {
  check_axes(a, b, by);
  product_layout l{
      operand_of(a, by.batch, by.a_vectors), operand_of(b, by.batch, by.b_vectors), {}, {}, {}};
  if (l.a.n != l.b.n)
    refuse("b: vectors of " + std::to_string(l.b.n) + " elements for those of " +
           std::to_string(l.a.n));
  add_results(l, {&a, by.batch}, {&b, by.batch});
  return l;
}

addend_layout layout_of(const view& addend, const product_layout& l) {
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
  if (l.rows) c.row_stride = strides[axis++];
  if (l.columns) c.column_stride = strides[axis++];
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
