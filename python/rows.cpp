// Functions of rows (bitfold/rows.hpp) for Python, of any family's arrays.
#include "rows.hpp"

#include "held.hpp"

#include <algorithm>
#include <stdexcept>

#include <nanobind/stl/string_view.h>

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
                                      "exp",
                                      "group_norm"};

row_function function_named(std::string_view name) {
  const auto which = std::ranges::find(names, name) - std::begin(names);
  if (which == std::ssize(names))
    refuse("function: " + std::string(name) + " is none of bitfold's");
  return static_cast<row_function>(which);
}

// `statistics`: whether mean and rstd are read, or written.
rows rows_of(held& arrays, const described& x, const of_rows& of, const row_extents& by,
             taking statistics = taking::elements) {
  const std::size_t n = by.n;
  const std::size_t size = x.size(), count = n ? size / n : 0;
  if (!x.is_row_major() || size != count * n)
    throw std::runtime_error("x: rows of " + std::to_string(n) +
                             " elements are expected, one behind the other");
  const element_type wide = wide_of(x);
  return {x.type.stored,
          count,
          n,
          x.where.data,
          arrays.elements("y", of[1], x, x.type, size),
          arrays.elements("weight", of[2], x, x.type, by.channels ? by.channels : n),
          arrays.elements("bias", of[3], x, x.type, by.channels ? by.channels : n),
          arrays.elements("mean", of[4], x, wide, count, statistics),
          arrays.elements("rstd", of[5], x, wide, count, statistics),
          by.eps,
          by.inner,
          by.channels};
}

nb::object apply_rows_across(std::string_view function, nb::handle x_given, nb::handle y_given,
                             nb::handle first, nb::handle second, std::size_t outer, std::size_t n,
                             std::size_t inner, nb::handle out_given, const family& by) {
  const row_function f = function_named(function);
  held arrays(by);
  const input& x_in = arrays.take("x", x_given);
  const described& x = *x_in;
  std::size_t rows = 0, size = 0;
  if (__builtin_mul_overflow(outer, inner, &rows) || __builtin_mul_overflow(rows, n, &size) ||
      !x.is_row_major() || x.size() != size)
    throw std::runtime_error("x: " + std::to_string(outer) + " x " + std::to_string(n) + " x " +
                             std::to_string(inner) +
                             " elements are expected, one behind the other");
  const rows_across of{x.type.stored,
                       outer,
                       n,
                       inner,
                       x.where.data,
                       arrays.elements("y", y_given, x, x.type, size),
                       arrays.elements("first", first, x, wide_of(x), rows),
                       arrays.elements("second", second, x, wide_of(x), rows)};
  void* const out = arrays.result("out", out_given, x, size);
  by.run(
      x, model{x.type, x_in.object()}, no_room,
      [&](workspace, cuda::stream where) { cuda::apply(f, of, out, where); },
      [&](const cpu::options& opts) { cpu::apply(f, of, out, opts); });
  return nb::borrow(out_given);
}

}  // namespace

nb::object apply_rows(std::string_view function, const of_rows& of, const row_extents& extents,
                      nb::handle out_given, const family& by) {
  const row_function f = function_named(function);
  const bool is_norm =
      f == row_function::layer_norm || f == row_function::rms_norm || f == row_function::group_norm;
  held arrays(by);
  const input& x_in = arrays.take("x", of[0]);
  const described& x = *x_in;
  rows r = rows_of(arrays, x, of, extents, is_norm ? taking::results : taking::elements);
  memory out;
  if (out_given.is_none()) {
    out = by.like({x.type, x_in.object()}, x);
  } else {
    out = {nb::borrow(out_given), arrays.result("out", out_given, x, x.size())};
  }
  const bool lost = !r.rstd && is_norm;
  const std::size_t statistics = lost ? r.count * size_of(wide_of(x).stored) : 0;
  const auto lose = [&](void* room) {
    if (!lost) return;
    r.mean = room;
    r.rstd = static_cast<std::byte*>(room) + statistics;
  };
  by.run(
      x, model{x.type, x_in.object()}, [&] { return 2 * statistics; },
      [&](workspace w, cuda::stream where) {
        lose(w.address);
        cuda::apply(f, r, out.address, where);
      },
      [&](const cpu::options& opts) {
        std::vector<std::byte> room(2 * statistics);
        lose(room.data());
        cpu::apply(f, r, out.address, opts);
      });
  return out_given.is_none() ? by.shown(std::move(out.object), x.type, x.where.rank == 0)
                             : std::move(out.object);
}

void parameter_gradients(std::string_view function, const of_rows& of, std::size_t n,
                         nb::handle dw_given, nb::handle db_given, const family& by) {
  const row_function f = function_named(function);
  held arrays(by);
  const input& x_in = arrays.take("x", of[0]);
  const described& x = *x_in;
  const rows r = rows_of(arrays, x, of, {n});
  void *const dw = arrays.result("dw", dw_given, x, n), *const db =
                                                            arrays.result("db", db_given, x, n);
  by.run(
      x, model{x.type, x_in.object()},
      [&] { return cuda::parameter_gradients_workspace_bytes(f, r); },
      [&](workspace w, cuda::stream where) {
        cuda::parameter_gradients(f, r, dw, db, w.address, w.size, where);
      },
      [&](const cpu::options& opts) { cpu::parameter_gradients(f, r, dw, db, opts); });
}

void add_rows(nb::module_& m) {
  m.def(
      "apply_rows",
      [](std::string_view function, nb::handle x, nb::handle y, nb::handle w, nb::handle b,
         nb::handle mean, nb::handle rstd, std::size_t n, double eps, nb::handle out,
         const family& by, std::size_t inner, std::size_t channels) {
        return apply_rows(function, of_rows{x, y, w, b, mean, rstd}, {n, eps, inner, channels}, out,
                          by);
      },
      "function"_a, "x"_a, "y"_a.none(), "w"_a.none(), "b"_a.none(), "mean"_a.none(),
      "rstd"_a.none(), "n"_a, "eps"_a, "out"_a.none(), "family"_a, "inner"_a = 0, "channels"_a = 0,
      "Of rows of n elements, one behind the other: to `out`, or, where it is None, a new array. "
      "inner and channels: of group_norm (bitfold/row_inputs.hpp).");
  m.def("apply_rows_across", apply_rows_across, "function"_a, "x"_a, "y"_a.none(), "first"_a,
        "second"_a.none(), "outer"_a, "n"_a, "inner"_a, "out"_a, "family"_a,
        "Of rows whose elements lie `inner` apart, as bitfold/row_inputs.hpp has them. Returns "
        "`out`, "
        "which may be x.");
  m.def(
      "parameter_gradients",
      [](std::string_view function, nb::handle x, nb::handle y, nb::handle w, nb::handle mean,
         nb::handle rstd, std::size_t n, nb::handle dw, nb::handle db, const family& by) {
        parameter_gradients(function, of_rows{x, y, w, nb::none(), mean, rstd}, n, dw, db, by);
      },
      "function"_a, "x"_a, "y"_a, "w"_a.none(), "mean"_a.none(), "rstd"_a, "n"_a, "dw"_a.none(),
      "db"_a.none(), "family"_a);
}

}  // namespace bitfold::python
