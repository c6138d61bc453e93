// Operators of torch's, as they are called most: of tensors that are no subclass's, have elements
// and lie in a row. These take the operators' own arguments, and do nothing and give None where one
// is any other; then it is for the functions in Python, errors too.
#include "tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <nanobind/stl/string_view.h>

#include <bitfold/scatter.hpp>

#include "reduce.hpp"
#include "rows.hpp"

namespace bitfold::python {

using namespace nb::literals;

namespace {

constexpr std::size_t most_of_a_row = 1 << 24;

bool are_alike(const described& x, const described& y) {
  return x.type == y.type && on_one_device(x, y) && x.where.rank == y.where.rank &&
         x.where.extent == y.where.extent;
}
// What the row functions take.
std::optional<described> rows_in(const tensors& of, nb::handle given) {
  auto x = of.plain(given);
  if (!x) return x;
  if (!is_float(x->type.stored) || x->size() == 0 || !x->is_row_major()) x.reset();
  return x;
}
bool is_beside(const tensors& of, nb::handle given, const described& x) {
  const auto y = of.plain(given);
  return y && are_alike(*y, x) && y->is_row_major();
}
bool read_int(nb::handle h, std::int64_t& to) {
  return PyLong_Check(h.ptr()) && !PyBool_Check(h.ptr()) && nb::try_cast(h, to);
}
// Counted from 0, and each but once; all where there is none.
bool read_dims(nb::handle dim, int rank, std::vector<int>& to) {
  const auto add = [&](nb::handle h) {
    std::int64_t d = 0;
    if (!read_int(h, d) || d < -rank || d >= rank) return false;
    to.push_back(static_cast<int>(d < 0 ? d + rank : d));
    return std::ranges::count(to, to.back()) == 1;
  };
  if (PyLong_Check(dim.ptr())) return add(dim);
  if (!dim.is_none() && !PyList_Check(dim.ptr()) && !PyTuple_Check(dim.ptr())) return false;
  if (!dim.is_none())
    for (const nb::handle d : dim)
      if (!add(d)) return false;
  if (to.empty())
    for (int k = 0; k < rank; ++k) to.push_back(k);
  return true;
}
// Elements of a row, if the list is x's last extents; or 0.
std::size_t last_extents(const described& x, nb::handle list) {
  if (!PyList_Check(list.ptr())) return 0;
  const std::size_t count = nb::len(list), rank = static_cast<std::size_t>(x.where.rank);
  if (count == 0 || count > rank) return 0;
  std::size_t n = 1;
  for (std::size_t k = 0; k < count; ++k) {
    std::int64_t extent = 0;
    if (!read_int(list[k], extent) || extent != x.where.extent[rank - count + k]) return 0;
    n *= static_cast<std::size_t>(extent);
  }
  return n <= most_of_a_row ? n : 0;
}
// Whether each is None, or of x's type and of that shape.
bool are_parameters(const tensors& of, std::initializer_list<nb::handle> all, const described& x,
                    nb::handle shape) {
  return std::ranges::all_of(all, [&](nb::handle p) {
    if (p.is_none()) return true;
    const auto d = of.plain(p);
    return d && d->type == x.type && on_one_device(*d, x) && d->is_row_major() &&
           static_cast<std::size_t>(d->where.rank) == nb::len(shape) && last_extents(*d, shape) > 0;
  });
}

// `floats`: of floats alone.
nb::object reduce_plain(const tensors& of, nb::handle requests, nb::handle x_given,
                        nb::handle y_given, nb::handle dim, nb::handle keepdim, bool floats) {
  const auto x = of.plain(x_given), y = y_given.is_none() ? std::nullopt : of.plain(y_given);
  if (!x || x->size() == 0 || (!y_given.is_none() && !(y && are_alike(*y, *x))) ||
      (floats && !is_float(x->type.stored)))
    return nb::none();
  const asked what(requests);
  std::vector<int> dims;
  if (!read_dims(dim, x->where.rank, dims) || !PyBool_Check(keepdim.ptr()) ||
      !std::ranges::all_of(what.each(), [&](request* r) { return r->offers(x->type); }))
    return nb::none();
  return reduce_read(what, *x, y ? &*y : nullptr, {x->type, x_given}, dims,
                     keepdim.ptr() == Py_True, of);
}

// Of each of some tensors of one type of floats a result; one behind the other.
nb::object reduce_each_plain(const tensors& of, request& r, const nb::list& given) {
  std::vector<cuda::piece> list;
  std::optional<described> first, largest;
  for (const nb::handle t : given) {
    const auto x = of.plain(t);
    if (!x || x->size() == 0 || !x->is_row_major()) return nb::none();
    if (!first) first = x;
    if (!(x->type == first->type) || !on_one_device(*x, *first)) return nb::none();
    if (!largest || x->size() > largest->size()) largest = x;
    list.push_back({x->where.data, x->size()});
  }
  if (!first || !is_float(first->type.stored) || !r.offers(first->type)) return nb::none();
  const reduction& one = r.of(first->type);
  const model beside{first->type, given[0]};
  const auto count = static_cast<std::int64_t>(list.size());
  const memory made = of.make(beside, r.result(first->type), {&count, 1});
  renaming([&] {
    of.run(
        *largest, beside, [&] { return cuda::arrays_workspace_bytes(one, list); },
        [&](workspace w, cuda::stream where) {
          cuda::reduce_arrays(one, list, made.address, w.address, w.size, where);
        },
        [&](const cpu::options& opts) {
          auto* to = static_cast<std::byte*>(made.address);
          for (const cuda::piece& p : list) {
            store_scalar(cpu::reduce(one, p.data, p.n, opts), to);
            to += size_of(one.out());
          }
        });
  });
  return made.object;
}

// (x, dim) and, of a gradient, y.
nb::object softmax_plain(const tensors& of, std::string_view function, nb::handle x_given,
                         nb::handle y_given, nb::handle dim) {
  const auto x = rows_in(of, x_given);
  std::vector<int> dims;
  if (!x || x->where.rank == 0 || !PyLong_Check(dim.ptr()) ||
      !read_dims(dim, x->where.rank, dims) || dims[0] != x->where.rank - 1)
    return nb::none();
  if (!y_given.is_none() && !is_beside(of, y_given, *x)) return nb::none();
  const auto n = static_cast<std::size_t>(x->where.extent[static_cast<std::size_t>(dims[0])]);
  if (n > most_of_a_row) return nb::none();
  const nb::none none;
  return apply_rows(function, {x_given, y_given, none, none, none, none}, {n}, none, of);
}

// The losses' sum, or mean, and how many are not ignored, to addresses of a result each; false
// where a target is no class.
template <class A>
bool store_nll(const reduction& sum, const described& x, const described& target, bool mean,
               std::int64_t ignored, void* loss, void* total, const cpu::options& opts) {
  const auto* const logs = static_cast<const A*>(x.where.data);
  const auto* const at = static_cast<const std::int64_t*>(target.where.data);
  const auto count = static_cast<std::size_t>(x.where.extent[0]);
  const std::int64_t classes = x.where.extent[1];
  std::vector<A> losses(count), shares(count);
  for (std::size_t k = 0; k < count; ++k) {
    if (at[k] == ignored) continue;
    if (at[k] < 0 || at[k] >= classes) return false;
    losses[k] = -logs[k * static_cast<std::size_t>(classes) + static_cast<std::size_t>(at[k])];
    shares[k] = 1;
  }
  A results[2];
  for (const std::size_t k : {0u, 1u})
    store_scalar(cpu::reduce(sum, (k ? shares : losses).data(), count, opts), &results[k]);
  if (mean) results[0] /= results[1];
  std::memcpy(loss, &results[0], sizeof(A));
  std::memcpy(total, &results[1], sizeof(A));
  return true;
}

// (x, target, no weight, the mean or the sum, ignored) on a CPU, of rows of x. The results: the
// loss, and how many are not ignored.
nb::object nll_plain(const tensors& of, request& sum, nb::handle x_given, nb::handle target_given,
                     bool mean, std::int64_t ignored) {
  const auto x = rows_in(of, x_given), target = of.plain(target_given);
  if (!x || x->on_gpu() || size_of(x->type.stored) == 2 || x->where.rank != 2 || !target ||
      target->on_gpu() || target->type != element_type{dtype::i64} || target->where.rank != 1 ||
      target->where.extent[0] != x->where.extent[0] || !target->is_row_major() ||
      !sum.offers(x->type) || !(sum.result(x->type) == x->type))
    return nb::none();
  const reduction& one = sum.of(x->type);
  const model beside{x->type, x_given};
  const memory loss = of.make(beside, x->type, {}), total = of.make(beside, x->type, {});
  bool done = false;
  of.run(
      *x, beside, no_room, [](workspace, cuda::stream) {},
      [&](const cpu::options& opts) {
        const auto store = x->type.stored == dtype::f64 ? store_nll<double> : store_nll<float>;
        done = store(one, *x, *target, mean, ignored, loss.address, total.address, opts);
      });
  return done ? nb::object(nb::make_tuple(loss.object, total.object)) : nb::none();
}

// (x, normalized_shape, weight, bias, eps); without mean and bias where it is rms_norm.
nb::object norm_plain(const tensors& of, nb::handle x_given, nb::handle shape, nb::handle w,
                      nb::handle b, nb::handle eps, bool centred) {
  const auto x = rows_in(of, x_given);
  const std::size_t n = x ? last_extents(*x, shape) : 0;
  if (n == 0 || !PyFloat_Check(eps.ptr()) || !are_parameters(of, {w, b}, *x, shape))
    return nb::none();
  std::vector<std::int64_t> each(x->where.extent.begin(), x->where.extent.begin() + x->where.rank);
  std::fill(each.end() - static_cast<std::ptrdiff_t>(nb::len(shape)), each.end(), 1);
  const nb::object mean =
                       centred ? of.make({x->type, x_given}, wide_of(*x), each).object : nb::none(),
                   rstd = of.make({x->type, x_given}, wide_of(*x), each).object;
  const nb::none none;
  const nb::object y =
      apply_rows(centred ? "layer_norm" : "rms_norm", {x_given, none, w, b, mean, rstd},
                 {n, nb::cast<double>(eps)}, none, of);
  return centred ? nb::make_tuple(y, mean, rstd) : nb::make_tuple(y, rstd);
}
nb::object norm_backward_plain(const tensors& of, nb::handle g_given, nb::handle x_given,
                               nb::handle shape, nb::handle mean, nb::handle rstd, nb::handle w,
                               nb::handle mask) {
  const auto g = rows_in(of, g_given);
  const std::size_t n = g ? last_extents(*g, shape) : 0;
  const bool centred = !mean.is_none();
  if (n == 0 || !is_beside(of, x_given, *g) || !are_parameters(of, {w}, *g, shape) ||
      !PyList_Check(mask.ptr()) || nb::len(mask) != (centred ? 3 : 2))
    return nb::none();
  const std::size_t count = g->size() / n;
  if (count > most_of_a_row) return nb::none();
  for (const nb::handle s : {mean, rstd}) {
    if (s.is_none() && s.ptr() == mean.ptr()) continue;
    const auto d = of.plain(s);
    if (!d || !(d->type == wide_of(*g)) || d->size() != count || !d->is_row_major() ||
        !on_one_device(*d, *g))
      return nb::none();
  }
  const auto wanted = [&](std::size_t k) { return nb::borrow(mask[k]).ptr() == Py_True; };
  const std::string_view function = centred ? "layer_norm_backward" : "rms_norm_backward";
  const std::span<const std::int64_t> last(
      g->where.extent.begin() + (g->where.rank - static_cast<int>(nb::len(shape))), nb::len(shape));
  const auto parameter = [&](bool want) {
    return want ? of.make({g->type, g_given}, g->type, last).object : nb::none();
  };
  const nb::none none;
  const of_rows inputs{g_given, x_given, w, none, mean, rstd};
  const nb::object dw = parameter(wanted(1)), db = parameter(centred && wanted(2));
  if (!dw.is_none() || !db.is_none()) parameter_gradients(function, inputs, n, dw, db, of);
  const nb::object dx = wanted(0) ? apply_rows(function, inputs, {n}, none, of) : nb::object(none);
  return centred ? nb::make_tuple(dx, dw, db) : nb::make_tuple(dx, dw);
}

// A tensor of int32 for cuda::scatter's any_lost; null for None.
std::uint32_t* flag_of(const tensors& of, nb::handle given, const described& x) {
  if (given.is_none()) return nullptr;
  const auto d = of.plain(given);
  if (!d || !(d->type == element_type{dtype::i32}) || d->size() != 1 || !on_one_device(*d, x))
    refuse("lost: expected one int32 on x's device");
  return static_cast<std::uint32_t*>(const_cast<void*>(d->where.data));
}

// What is scattered onto `base`, which lies in a row, or, where it is None, onto zeros, which do
// not count: so many places along that dimension. In place, or else to another tensor. On a GPU x
// lies in a row, too.
nb::object scatter_plain(const tensors& of, nb::handle op_given, nb::handle method_given,
                         nb::handle base_given, std::int64_t places, int dim, nb::handle keys_given,
                         nb::handle x_given, bool with_base, bool in_place, nb::handle lost_given) {
  const auto x = of.plain(x_given), keys = of.plain(keys_given),
             base = base_given.is_none() ? std::nullopt : of.plain(base_given);
  if (!x || x->type.is_bool || !keys || !on_one_device(*keys, *x) ||
      !(keys->type == element_type{dtype::i64}) || (!base && !base_given.is_none()) ||
      (x->on_gpu() && !x->is_row_major()))
    return nb::none();
  if (base && (!on_one_device(*base, *x) || !(base->type == x->type) || !base->is_row_major()))
    return nb::none();
  const scattering how{parse_op_or_refuse(op_given),
                       parse_method_or_none(method_given).value_or(method_id::tree), with_base,
                       base_given.is_none()};
  if (how.method == method_id::exact && !is_float(x->type.stored)) return nb::none();
  std::uint32_t* const lost = flag_of(of, lost_given, *x);
  const model beside{x->type, x_given};
  std::vector<std::int64_t> extents(x->where.extent.begin(),
                                    x->where.extent.begin() + x->where.rank);
  if (!base) extents[static_cast<std::size_t>(dim)] = places;
  const memory made = in_place ? memory{nb::borrow(base_given), const_cast<void*>(base->where.data)}
                      : base   ? of.like({base->type, base_given}, *base)
                               : of.make(beside, x->type, extents);
  const view onto = base ? base->where : row_major(x->type.stored, nullptr, extents);
  renaming([&] {
    of.run(
        *x, beside,
        [&] { return cuda::scatter_workspace_bytes(how, x->where, keys->where, dim, onto); },
        [&](workspace w, cuda::stream where) {
          cuda::scatter(how, x->where, keys->where, dim, onto, made.address, lost, w.address,
                        w.size, where);
        },
        [&](const cpu::options& opts) {
          cpu::scatter(how, x->where, keys->where, dim, onto, made.address, opts);
        });
  });
  return made.object;
}

// Rows of x, or those that `list` names, each times its weight, put together by their keys, or in
// segments between offsets; onto zeros. Of op max of floats, on a GPU, also the numbers of the rows
// that results come from, if they are wanted.
nb::object scatter_rows(const tensors& of, nb::handle op_given, nb::handle method_given,
                        nb::handle x_given, nb::handle list_given, nb::handle weights_given,
                        nb::handle keys_given, nb::handle offsets_given, std::size_t places,
                        bool wants_largest) {
  const auto x = of.plain(x_given);
  if (!x || x->where.rank != 2 || !x->is_row_major() || x->type.is_bool)
    refuse("x: expected rows, one behind the other");
  if (wants_largest && !x->on_gpu()) refuse("largest: of rows on a GPU alone");
  const auto in_a_row = [&](const char* argument, nb::handle given, element_type type,
                            std::size_t n) -> const void* {
    if (given.is_none()) return nullptr;
    const auto d = of.plain(given);
    if (!d || !(d->type == type) || d->size() != n || !d->is_row_major() || !on_one_device(*d, *x))
      refuse(std::string(argument) + ": expected " + std::to_string(n) + " of " +
             std::string(type.name()) + " on x's device, one behind the other");
    return d->where.data;
  };
  const auto listed = list_given.is_none() ? std::nullopt : of.plain(list_given);
  const std::size_t count = listed ? listed->size() : static_cast<std::size_t>(x->where.extent[0]);
  const auto integers = [&](const char* argument, nb::handle given, std::size_t n) {
    return static_cast<const std::int64_t*>(in_a_row(argument, given, {dtype::i64}, n));
  };
  const listed_rows rows{x->type.stored,
                         count,
                         static_cast<std::size_t>(x->where.extent[1]),
                         x->where.data,
                         integers("list", list_given, count),
                         in_a_row("weights", weights_given, x->type, count)};
  const places_of_rows to{places, integers("keys", keys_given, count),
                          integers("offsets", offsets_given, places + 1)};
  if (!to.keys == !to.offsets) refuse("keys: expected them, or offsets");
  const scattering how{parse_op_or_refuse(op_given),
                       parse_method_or_none(method_given).value_or(method_id::tree), false, true};
  const model beside{x->type, x_given};
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(places), x->where.extent[1]};
  const memory out = of.make(beside, x->type, shape);
  const memory largest = wants_largest ? of.make(beside, {dtype::i64}, shape) : memory{};
  renaming([&] {
    of.run(
        *x, beside,
        [&] { return cuda::scatter_rows_workspace_bytes(how, rows, to, wants_largest); },
        [&](workspace w, cuda::stream where) {
          cuda::scatter_rows(how, rows, to, nullptr, out.address,
                             static_cast<std::int64_t*>(largest.address), nullptr, w.address,
                             w.size, where);
        },
        [&](const cpu::options& opts) { cpu::scatter_rows(how, rows, to, out.address, opts); });
  });
  return wants_largest ? nb::object(nb::make_tuple(out.object, largest.object)) : out.object;
}

}  // namespace

void add_operators(nb::class_<tensors, family>& c) {
  c.def("reduce_plain", reduce_plain, "requests"_a, "x"_a, "y"_a.none(), "dim"_a.none(),
        "keepdim"_a, "floats"_a, "floats: of them alone.")
      .def("reduce_each_plain", reduce_each_plain, "request"_a, "tensors"_a)
      .def("softmax_plain", softmax_plain, "function"_a, "x"_a, "y"_a.none(), "dim"_a)
      .def(
          "is_of",
          [](const tensors& of, nb::handle x_given, nb::handle dtype) {
            const auto x = of.plain(x_given);
            return x && of.dtype_of(*x).is(dtype);
          },
          "x"_a, "dtype"_a)
      .def("nll_plain", nll_plain, "sum"_a, "x"_a, "target"_a, "mean"_a, "ignored"_a)
      .def("scatter_plain", scatter_plain, "op"_a, "method"_a, "base"_a.none(), "places"_a, "dim"_a,
           "keys"_a, "x"_a, "with_base"_a, "in_place"_a, "lost"_a.none())
      .def("scatter_rows", scatter_rows, "op"_a, "method"_a, "x"_a, "list"_a.none(),
           "weights"_a.none(), "keys"_a.none(), "offsets"_a.none(), "places"_a, "wants_largest"_a)
      .def("norm_plain", norm_plain, "x"_a, "shape"_a, "w"_a.none(), "b"_a.none(), "eps"_a.none(),
           "centred"_a)
      .def("norm_backward_plain", norm_backward_plain, "g"_a, "x"_a, "shape"_a, "mean"_a.none(),
           "rstd"_a, "w"_a.none(), "mask"_a);
}

}  // namespace bitfold::python
