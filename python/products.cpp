// Products of matrices (bitfold/matmul.hpp) for Python, of any family's arrays.
#include "family.hpp"

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

// An array of numbers in memory that CPUs read.
const described& matrices(const input& x, const char* argument) {
  const described& d = needed(x, argument);
  if (d.type.is_bool) refuse_type(std::string(argument) + ": bool, where matmul takes numbers");
  if (d.on_gpu())
    refuse(std::string(argument) + ": on a GPU, where matmul takes arrays in the CPU's memory");
  return d;
}

nb::object multiply(nb::handle a_given, nb::handle b_given, nb::handle addend_given,
                    nb::handle method, nb::handle dtype, nb::handle bits, const family& by) {
  const input a_in(a_given, "a", &by), b_in(b_given, "b", &by);
  const described &a = matrices(a_in, "a"), &b = matrices(b_in, "b");
  if (!(a.type == b.type))
    refuse_type("b: " + std::string(b.type.name()) + ", and a is " + std::string(a.type.name()));
  std::optional<input> addend_in;
  if (!addend_given.is_none()) addend_in.emplace(addend_given, "addend", &by);
  const view* const addend = addend_in ? &matrices(*addend_in, "addend").where : nullptr;
  const matrix_product p = make_matrix_product(
      a.type.stored, product_method(method),
      dtype.is_none() ? std::nullopt : std::optional(parse_number("dtype", dtype)),
      bits.is_none() ? std::nullopt : std::optional(static_cast<int>(integer("bits", bits))));
  const std::vector<std::int64_t> extents = matmul_extents(a.where, b.where);
  const model beside{a.type, a_in.object()};
  memory made = by.make(beside, {p.out()}, extents);
  by.run(
      a, beside, no_room, [](workspace, cuda::stream) {},
      [&](const cpu::options& opts) {
        if (addend)
          cpu::matmul(p, a.where, b.where, *addend, made.address, opts);
        else
          cpu::matmul(p, a.where, b.where, made.address, opts);
      });
  return by.shown(std::move(made.object), {p.out()}, extents.empty());
}

}  // namespace

void add_products(nb::module_& m) {
  m.def("matmul", multiply, "a"_a, "b"_a, "addend"_a.none(), "method"_a, "dtype"_a.none(),
        "bits"_a.none(), "family"_a, "The product of two arrays as NumPy's matmul has it.");
}

}  // namespace bitfold::python
