// Functions of channels (bitfold/channels.hpp) for Python, of any family's arrays.
#include "../src/channel_functions.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include "held.hpp"
#include "rows.hpp"

namespace bitfold::python {
namespace {

using namespace nb::literals;

channel_function function_named(std::string_view name) {
  const auto which = std::ranges::find(channel::names, name) - std::begin(channel::names);
  if (which == std::ssize(channel::names))
    refuse("function: " + std::string(name) + " is none of bitfold's");
  return static_cast<channel_function>(which);
}

/// The extents outer, count and inner; channels that share statistics; whether those are of each
/// outer.
using extents = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, bool>;

channels channels_of(held& arrays, const described& x, nb::handle y, const extents& e) {
  channels of{x.type.stored, 0, 0, 0};
  std::tie(of.outer, of.count, of.inner, of.sharing, of.of_each_outer) = e;
  std::size_t size = 1;
  for (const std::size_t n : {of.outer, of.count, of.inner})
    if (__builtin_mul_overflow(size, n, &size)) size = ~std::size_t{0};
  if (!x.is_row_major() || x.size() != size)
    throw std::runtime_error("x: " + std::to_string(size) +
                             " elements are expected, one behind the other");
  if (of.sharing == 0 || of.count % of.sharing)
    refuse("sharing: " + std::to_string(of.sharing) + ", which does not divide " +
           std::to_string(of.count) + " channels");
  of.x = x.where.data;
  of.y = arrays.elements("y", y, x, x.type, size);
  return of;
}

nb::object apply_channels(std::string_view function, nb::handle x_given, nb::handle y, nb::handle w,
                          nb::handle b, nb::handle mean, nb::handle rstd, nb::handle low,
                          nb::handle mean_g, nb::handle slope, const extents& e,
                          nb::handle out_given, const family& by) {
  const channel_function f = function_named(function);
  held arrays(by);
  const input& x_in = arrays.take("x", x_given);
  const described& x = *x_in;
  channels of = channels_of(arrays, x, y, e);
  const auto given = [&](const char* argument, nb::handle array, std::size_t size) {
    return arrays.elements(argument, array, x, wide_of(x), size);
  };
  of.w = given("w", w, of.count);
  of.b = given("b", b, of.count);
  of.mean = given("mean", mean, of.statistics());
  of.rstd = given("rstd", rstd, of.statistics());
  of.low = given("low", low, of.statistics());
  of.mean_g = given("mean_g", mean_g, of.statistics());
  of.slope = given("slope", slope, of.statistics());
  void* const out = arrays.result("out", out_given, x, x.size());
  by.run(
      x, model{x.type, x_in.object()}, no_room,
      [&](workspace, cuda::stream where) { cuda::apply(f, of, out, where); },
      [&](const cpu::options& opts) { cpu::apply(f, of, out, opts); });
  return nb::borrow(out_given);
}

void channel_gradient_sums(nb::handle x_given, nb::handle y, nb::handle w, nb::handle mean,
                           nb::handle rstd, const extents& e, nb::handle mean_g, nb::handle slope,
                           nb::handle dw, nb::handle db, const family& by) {
  held arrays(by);
  const input& x_in = arrays.take("x", x_given);
  const described& x = *x_in;
  channels of = channels_of(arrays, x, y, e);
  const auto given = [&](const char* argument, nb::handle array, std::size_t size,
                         taking what = taking::elements) {
    return arrays.elements(argument, array, x, wide_of(x), size, what);
  };
  of.w = given("w", w, of.count);
  of.mean = given("mean", mean, of.statistics());
  of.rstd = given("rstd", rstd, of.statistics());
  const channel_sums to{given("mean_g", mean_g, of.statistics(), taking::results),
                        given("slope", slope, of.statistics(), taking::results),
                        given("dw", dw, of.count, taking::results),
                        given("db", db, of.count, taking::results)};
  by.run(
      x, model{x.type, x_in.object()}, [&] { return cuda::gradient_sums_workspace_bytes(of, to); },
      [&](workspace room, cuda::stream where) {
        cuda::gradient_sums(of, to, room.address, room.size, where);
      },
      [&](const cpu::options& opts) { cpu::gradient_sums(of, to, opts); });
}

}  // namespace

void add_channels(nb::module_& m) {
  m.def(
      "apply_channels", apply_channels, "function"_a, "x"_a, "y"_a.none(), "w"_a.none(),
      "b"_a.none(), "mean"_a.none(), "rstd"_a, "low"_a.none(), "mean_g"_a.none(), "slope"_a.none(),
      "extents"_a, "out"_a, "family"_a,
      "Of elements with channels, as bitfold/channels.hpp has them; extents: outer, count, inner, "
      "sharing, of_each_outer. Returns `out`, which may be x.");
  m.def("channel_gradient_sums", channel_gradient_sums, "x"_a, "y"_a, "w"_a.none(), "mean"_a,
        "rstd"_a, "extents"_a, "mean_g"_a.none(), "slope"_a.none(), "dw"_a.none(), "db"_a.none(),
        "family"_a, "To those of mean_g, slope, dw and db that are not None.");
}

}  // namespace bitfold::python
