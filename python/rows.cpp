// Functions of rows (bitfold/rows.hpp) for Python.
#include "core.hpp"

#include <algorithm>

#include <nanobind/stl/string_view.h>

#include <bitfold/rows.hpp>

namespace bitfold::python {
namespace {

using namespace nb::literals;

constexpr std::string_view names[] = {"softmax",
                                      "log_softmax",
                                      "layer_norm",
                                      "rms_norm",
                                      "softmax_backward",
                                      "log_softmax_backward",
                                      "layer_norm_backward",
                                      "rms_norm_backward",
                                      "exp"};

// Of a parameter of n elements, or null.
const void* parameter(const array* p, const char* argument, const described& x, std::size_t n) {
  if (!p) return nullptr;
  const auto refuse = [&](const std::string& what) {
    throw error(errc::usage, std::string(argument) + ": " + what);
  };
  const described& d = p->of;
  if (d.where.rank != 1 || d.size() != n)
    refuse("not of one axis of " + std::to_string(n) + " elements");
  if (!(d.type == x.type))
    refuse(std::string(d.type.name()) + ", and x is " + std::string(x.type.name()));
  if (d.on_gpu() != x.on_gpu() || (d.on_gpu() && d.device != x.device))
    refuse("on another device than x");
  if (!d.is_row_major()) refuse("its elements do not lie in a row");
  return d.where.data;
}

// Of rows of n elements, in a row: to an address of the caller's.
void apply_rows(std::string_view function, const array& given, std::size_t n, const array* weight,
                const array* bias, double eps, std::uintptr_t out, std::uintptr_t stream,
                nb::handle allocate) {
  const row_function f = row_function_named(function);
  const described& x = given.of;
  const std::size_t count = n ? x.size() / n : 0;
  rows r{x.type.stored, count, n, x.where.data};
  r.w = parameter(weight, "weight", x, n);
  r.b = parameter(bias, "bias", x, n);
  r.eps = eps;
  void* const to = reinterpret_cast<void*>(out);
  // What norms write besides, which nobody reads.
  const std::size_t statistics =
      count * (x.type.stored == dtype::f64 ? sizeof(double) : sizeof(float));
  if (x.on_gpu()) {
    const workspace room(x, allocate, 2 * statistics);
    r.mean = room.address;
    r.rstd = static_cast<std::byte*>(room.address) + statistics;
    const nb::gil_scoped_release free;
    cuda::apply(f, r, to, reinterpret_cast<cuda::stream>(stream));
  } else {
    std::vector<std::byte> room(2 * statistics);
    r.mean = room.data();
    r.rstd = room.data() + statistics;
    const without_lock free(worth_the_lock(x));
    cpu::apply(f, r, to, how_for(x));
  }
}

}  // namespace

row_function row_function_named(std::string_view name) {
  const auto which = std::ranges::find(names, name) - std::begin(names);
  if (which == std::ssize(names))
    throw error(errc::usage, "function: " + std::string(name) + " is none of bitfold's");
  return static_cast<row_function>(which);
}

void add_rows(nb::module_& m) {
  m.def("apply_rows", apply_rows, "function"_a, "x"_a, "n"_a, "weight"_a.none(), "bias"_a.none(),
        "eps"_a, "out"_a, "stream"_a = 0, "allocate"_a.none() = nb::none(),
        "Of a row-major array as rows of n elements, to an address of the caller's.");
}

}  // namespace bitfold::python
