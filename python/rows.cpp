// Functions of rows (bitfold/rows.hpp) for Python, of any family's arrays.
#include "rows.hpp"

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
                                      "exp"};

row_function function_named(std::string_view name) {
  const auto which = std::ranges::find(names, name) - std::begin(names);
  if (which == std::ssize(names))
    refuse("function: " + std::string(name) + " is none of bitfold's");
  return static_cast<row_function>(which);
}

/// Of so many elements of that type, one behind the other, on x's device.
void* expect(const char* argument, const described& d, const described& x, element_type type,
             std::size_t size) {
  if (!on_one_device(d, x))
    throw std::runtime_error(std::string(argument) +
                             ": Expected all tensors to be on the same device, but found one on "
                             "another than x");
  if (!(d.type == type) || d.size() != size || !d.is_row_major())
    throw std::runtime_error(std::string(argument) + ": " + std::to_string(d.size()) +
                             " elements of " + std::string(d.type.name()) + ", where " +
                             std::to_string(size) + " of " + std::string(type.name()) +
                             " are expected, one behind the other");
  return const_cast<void*>(d.where.data);
}
/// The same, or null where it is None.
void* elements(const char* argument, nb::handle given, const described& x, element_type type,
               std::size_t size, const family& by) {
  if (given.is_none()) return nullptr;
  const input in(given, argument, &by, taking::elements);
  return expect(argument, needed(in, argument), x, type, size);
}

rows rows_of(const described& x, const of_rows& of, std::size_t n, double eps, const family& by) {
  const std::size_t size = x.size(), count = n ? size / n : 0;
  if (!x.is_row_major() || size != count * n)
    throw std::runtime_error("x: rows of " + std::to_string(n) +
                             " elements are expected, one behind the other");
  const element_type wide = wide_of(x);
  const auto at = [&](std::size_t k, const char* argument, element_type type, std::size_t elems) {
    return elements(argument, of[k], x, type, elems, by);
  };
  return {x.type.stored,
          count,
          n,
          x.where.data,
          at(1, "y", x.type, size),
          at(2, "weight", x.type, n),
          at(3, "bias", x.type, n),
          at(4, "mean", wide, count),
          at(5, "rstd", wide, count),
          eps};
}

void sum_rows(nb::handle x_given, std::size_t n, nb::handle places_given, nb::handle offsets_given,
              nb::handle base_given, nb::handle out_given, const family& by) {
  const input x_in(x_given, "x", &by, taking::elements), places_in(places_given, "places", &by),
      offsets_in(offsets_given, "offsets", &by);
  const described &x = needed(x_in, "x"), &places = needed(places_in, "places"),
                  &offsets = needed(offsets_in, "offsets");
  const nb::none none;
  const rows r = rows_of(x, {x_given, none, none, none, none, none}, n, 0, by);
  const std::size_t outputs = offsets.size() - 1;
  const auto integers = [&](const char* argument, const described& d) {
    return static_cast<const std::int64_t*>(expect(argument, d, x, {dtype::i64}, d.size()));
  };
  const row_segments segments{integers("places", places), integers("offsets", offsets), outputs};
  void* const base = elements("base", base_given, x, x.type, outputs * n, by);
  void* const out = elements("out", out_given, x, x.type, outputs * n, by);
  by.run(
      x, model{x.type, x_in.object()}, no_room,
      [&](workspace, cuda::stream where) { cuda::sum_rows(r, segments, base, out, where); },
      [&](const cpu::options& opts) { cpu::sum_rows(r, segments, base, out, opts); });
}

}  // namespace

nb::object apply_rows(std::string_view function, const of_rows& of, std::size_t n, double eps,
                      nb::handle out_given, const family& by) {
  const row_function f = function_named(function);
  const input x_in(of[0], "x", &by, taking::elements);
  const described& x = needed(x_in, "x");
  rows r = rows_of(x, of, n, eps, by);
  memory out;
  if (out_given.is_none()) {
    out = by.like({x.type, x_in.object()}, x);
  } else {
    out = {nb::borrow(out_given), elements("out", out_given, x, x.type, x.size(), by)};
  }
  const bool lost = !r.rstd && (f == row_function::layer_norm || f == row_function::rms_norm);
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
  const input x_in(of[0], "x", &by, taking::elements);
  const described& x = needed(x_in, "x");
  const rows r = rows_of(x, of, n, 0, by);
  void *const dw = elements("dw", dw_given, x, x.type, n, by), *const db =
                                                                   elements("db", db_given, x,
                                                                            x.type, n, by);
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
         const family& by) {
        return apply_rows(function, of_rows{x, y, w, b, mean, rstd}, n, eps, out, by);
      },
      "function"_a, "x"_a, "y"_a.none(), "w"_a.none(), "b"_a.none(), "mean"_a.none(),
      "rstd"_a.none(), "n"_a, "eps"_a, "out"_a.none(), "family"_a,
      "Of rows of n elements, one behind the other: to `out`, or, where it is None, a new array.");
  m.def(
      "parameter_gradients",
      [](std::string_view function, nb::handle x, nb::handle y, nb::handle w, nb::handle mean,
         nb::handle rstd, std::size_t n, nb::handle dw, nb::handle db, const family& by) {
        parameter_gradients(function, of_rows{x, y, w, nb::none(), mean, rstd}, n, dw, db, by);
      },
      "function"_a, "x"_a, "y"_a, "w"_a.none(), "mean"_a.none(), "rstd"_a, "n"_a, "dw"_a.none(),
      "db"_a.none(), "family"_a);
  m.def("sum_rows", sum_rows, "x"_a, "n"_a, "places"_a, "offsets"_a, "base"_a.none(), "out"_a,
        "family"_a);
}

}  // namespace bitfold::python
