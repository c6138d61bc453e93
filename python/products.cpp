// Products of matrices (bitfold/matmul.hpp) for Python, of any family's arrays.
#include "requests.hpp"
#include "tensors.hpp"

#include <algorithm>

#include <bitfold/matmul.hpp>

namespace bitfold::python {
namespace {

using namespace nb::literals;

std::optional<method_id> product_method(nb::handle given) {
  const std::string text = string_argument("method", given);
  if (text == fixed_method) return std::nullopt;
  if (const auto known = parse_method(text)) return known;
  std::string all(fixed_method);
  for (const method_info& m : all_methods) all += ", " + std::string(m.name);
  refuse("method: '" + text + "' is none of " + all);
}

const described& matrices(const input& x, const char* argument) {
  const described& d = needed(x, argument);
  if (d.type.is_bool) refuse_type(std::string(argument) + ": bool, where matmul takes numbers");
  return d;
}

bool are_together(const described& x, const described& y) {
  return x.on_gpu() == y.on_gpu() && (!x.on_gpu() || x.device == y.device);
}
void check_together(const described& x, const described& a, const char* argument) {
  if (!are_together(x, a)) refuse(std::string(argument) + ": on another device than a");
}

nb::object product_of(const matrix_product& p, const described& a, const described& b,
                      const view* addend, std::span<const std::int64_t> extents,
                      const nb::object& like, const family& by) {
  const model beside{a.type, like};
  memory made = by.make(beside, {p.out()}, extents);
  by.run(
      a, beside, [&] { return cuda::matmul_workspace_bytes(p, a.where, b.where, addend); },
      [&](workspace room, cuda::stream where) {
        cuda::matmul(p, a.where, b.where, addend, made.address, room.address, room.size, where);
      },
      [&](const cpu::options& opts) {
        if (addend)
          cpu::matmul(p, a.where, b.where, *addend, made.address, opts);
        else
          cpu::matmul(p, a.where, b.where, made.address, opts);
      });
  return std::move(made.object);
}

/// What products are asked of: two arrays of one type on one device, and perhaps an addend there.
class operands {
 public:
  operands(nb::handle a_given, nb::handle b_given, nb::handle addend_given, const family& by)
      : a_in_(a_given, "a", &by), b_in_(b_given, "b", &by) {
    const described &x = a(), &y = b();
    if (!(x.type == y.type))
      refuse_type("b: " + std::string(y.type.name()) + ", and a is " + std::string(x.type.name()));
    check_together(y, x, "b");
    if (addend_given.is_none()) return;
    addend_in_.emplace(addend_given, "addend", &by);
    check_together(matrices(*addend_in_, "addend"), x, "addend");
  }
  const described& a() const { return matrices(a_in_, "a"); }
  const described& b() const { return matrices(b_in_, "b"); }
  const view* addend() const {
    return addend_in_ ? &matrices(*addend_in_, "addend").where : nullptr;
  }
  nb::object like() const { return nb::borrow(a_in_.object()); }

 private:
  input a_in_, b_in_;
  std::optional<input> addend_in_;
};

std::optional<int> bits_of(nb::handle given) {
  if (given.is_none()) return std::nullopt;
  const std::int64_t n = integer("bits", given);
  if (n != static_cast<int>(n))
    refuse("bits: " + std::to_string(n) + " is not from " + std::to_string(min_product_bits) +
           " to " + std::to_string(max_product_bits));
  return static_cast<int>(n);
}

std::optional<dtype> output_type(nb::handle given) {
  return given.is_none() ? std::nullopt : std::optional(parse_number("dtype", given));
}

// Patches and filters, and their like: a result of the batch's axes, a's vectors' and b's; or None
// where a GPU does not contract them.
nb::object contract(nb::handle a_given, nb::handle b_given, int batch, int a_vectors, int b_vectors,
                    nb::handle addend_given, nb::handle dtype, const family& by) {
  const operands given(a_given, b_given, addend_given, by);
  const described &a = given.a(), &b = given.b();
  const view* const addend = given.addend();
  const matrix_product p = make_matrix_product(a.type.stored, std::nullopt, output_type(dtype));
  const contracted_axes axes{batch, a_vectors, b_vectors};
  const std::vector<std::int64_t> extents = contracted_extents(a.where, b.where, axes);
  if (a.on_gpu()) {
    const cuda::current_device here(a.device);
    if (!cuda::can_contract(p, a.where, b.where, axes)) return nb::none();
  }
  const model beside{a.type, given.like()};
  memory made = by.make(beside, {p.out()}, extents);
  by.run(
      a, beside, [&] { return cuda::contract_workspace_bytes(p, a.where, b.where, axes, addend); },
      [&](workspace room, cuda::stream where) {
        cuda::contract(p, a.where, b.where, axes, addend, made.address, room.address, room.size,
                       where);
      },
      [&](const cpu::options& opts) {
        cpu::contract(p, a.where, b.where, axes, addend, made.address, opts);
      });
  return std::move(made.object);
}

bool broadcasts(const view& x, std::span<const std::int64_t> to) {
  const auto rank = static_cast<std::size_t>(x.rank);
  if (rank > to.size()) return false;
  for (std::size_t k = 0; k < rank; ++k)
    if (x.extent[k] != 1 && x.extent[k] != to[to.size() - rank + k]) return false;
  return true;
}

nb::object multiply(nb::handle a_given, nb::handle b_given, nb::handle addend_given,
                    nb::handle method, nb::handle dtype, nb::handle bits, const family& by) {
  const operands given(a_given, b_given, addend_given, by);
  const described &a = given.a(), &b = given.b();
  const matrix_product p = renaming([&] {
    return make_matrix_product(a.type.stored, product_method(method), output_type(dtype),
                               bits_of(bits));
  });
  const std::vector<std::int64_t> extents = matmul_extents(a.where, b.where);
  return by.shown(product_of(p, a, b, given.addend(), extents, given.like(), by), {p.out()},
                  extents.empty());
}

// mm and bmm, addmm and baddbmm, of floats by `fixed`: of matrices of `rank` axes that fit, and of
// an addend that broadcasts to the result.
nb::object multiply_plain(const tensors& of, int rank, nb::handle a_given, nb::handle b_given,
                          nb::handle addend_given) {
  const auto a = of.plain(a_given), b = of.plain(b_given),
             addend = addend_given.is_none() ? std::nullopt : of.plain(addend_given);
  if (!a || !b || addend.has_value() == addend_given.is_none()) return nb::none();
  const view &x = a->where, &y = b->where;
  const auto last = static_cast<std::size_t>(rank - 1), before = last - 1;
  const auto is_like_a = [&](const described& d) {
    return d.type == a->type && are_together(d, *a);
  };
  if (!is_float(a->type.stored) || !is_like_a(*a) || !is_like_a(*b) || x.rank != rank ||
      y.rank != rank || x.extent[last] != y.extent[before] ||
      !std::equal(&x.extent[0], &x.extent[before], &y.extent[0]) || a->size() == 0 ||
      b->size() == 0)
    return nb::none();
  std::vector<std::int64_t> extents(&x.extent[0], &x.extent[last]);
  extents.push_back(y.extent[last]);
  if (addend && (!is_like_a(*addend) || !broadcasts(addend->where, extents))) return nb::none();
  return product_of(make_matrix_product(a->type.stored), *a, *b, addend ? &addend->where : nullptr,
                    extents, nb::borrow(a_given), of);
}

}  // namespace

void add_products(nb::module_& m) {
  m.def("contract", contract, "a"_a, "b"_a, "batch"_a, "a_vectors"_a, "b_vectors"_a,
        "addend"_a.none(), "dtype"_a.none(), "family"_a,
        "The product of each vector of a and of b, of axes of a batch, vectors and elements; None "
        "where a GPU has none of them.");
  m.def(
      "product_bits", [](nb::handle type) { return product_bits(parse_number("dtype", type)); },
      "dtype"_a, "The bits of a type's integers by method fixed.");
  m.def("matmul", multiply, "a"_a, "b"_a, "addend"_a.none(), "method"_a.none(), "dtype"_a.none(),
        "bits"_a.none(), "family"_a, "The product of two arrays as NumPy's matmul has it.");
}

void add_product_operators(nb::class_<tensors, family>& c) {
  c.def("multiply_plain", multiply_plain, "rank"_a, "a"_a, "b"_a, "addend"_a.none());
}

}  // namespace bitfold::python
