// _core.Tensors: calls on the tensors of a library that has DLPack's C exchange API, such as torch,
// which tells of a tensor and of the current stream without Python. What a tensor is asked for
// besides (`new_empty`) is torch's.
#include "core.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bitfold/cuda.hpp>
#include <bitfold/rows.hpp>
#include <bitfold/totals.hpp>

namespace bitfold::python {

using namespace nb::literals;

namespace {

// ---- DLPack's C exchange API (dlpack.h, from version 1.2) ---------------------------------------

struct exchange_header {
  std::uint32_t major, minor;
  const exchange_header* before;  // of an older version
};
struct exchange {
  exchange_header header;
  int (*allocate)(nb::dlpack::dltensor*, void**, void*, void (*)(void*, const char*, const char*));
  int (*own)(void*, void**);
  int (*give)(void*, void**);
  int (*show)(void* object, nb::dlpack::dltensor* out);  // what it points to is the object's
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

const exchange& exchange_of(nb::handle capsule) {
  const auto* h = static_cast<const exchange_header*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!h) throw nb::python_error();
  while (h && h->major != 1) h = h->before;
  const auto* const api = reinterpret_cast<const exchange*>(h);
  if (!api || !api->show)
    throw std::runtime_error(
        "api: DLPack's C exchange API of version 1 is needed, with its function for DLTensor");
  return *api;
}

// ---- Calls --------------------------------------------------------------------------------------

// Reductions of elements of one type, and the types of their results as the tensors' library has
// them.
struct asked {
  std::vector<reduction> all;
  std::vector<nb::object> types;
};

// The same by the type of the elements, for those that there is something for.
struct by_type {
  std::array<const asked*, element_types> of{};
  nb::object keep;
};

class tensors {
 public:
  tensors(nb::object api, nb::object byte, std::vector<nb::object> own, const nb::dict& dtypes,
          nb::object empty_like, std::uintptr_t team, std::uintptr_t threads)
      : api_(exchange_of(api)),
        keep_(std::move(api)),
        byte_(std::move(byte)),
        own_(std::move(own)),
        empty_like_(std::move(empty_like)),
        team_(reinterpret_cast<cpu::team>(team)),
        threads_(reinterpret_cast<int (*)()>(threads)) {
    for (const auto [name, dtype] : dtypes)
      dtypes_[parse_type("dtypes", name).index()] = nb::borrow(dtype);
  }

  nb::list reduce(const asked& what, nb::handle x_given, nb::handle y_given,
                  const std::vector<int>& dims, bool keepdim) const {
    const described x = seen(x_given), y = y_given.is_none() ? described{} : seen(y_given);
    if (!y_given.is_none()) expect_on_device(y, x);
    return reduce_seen(what, x, x_given, y_given.is_none() ? nullptr : &y.where, dims, keepdim);
  }

  // x and keys: flat and contiguous.
  nb::list reduce_by_key(const asked& what, nb::handle x_given, nb::handle keys_given,
                         std::size_t count) const {
    const described x = seen(x_given), keys = seen(keys_given);
    expect_on_device(keys, x);
    const std::span<const std::int64_t> of(
        static_cast<const std::int64_t*>(expect(keys, {dtype::i64}, x.size())), x.size());
    const outputs out(*this, what, x_given, x, {static_cast<std::int64_t>(count)});
    run(
        x, x_given, [&] { return cuda::by_key_workspace_bytes(what.all, x.size(), count); },
        [&](room r, cuda::stream where) {
          cuda::reduce_by_key(what.all, x.where.data, nullptr, x.size(), of.data(), count, out.to,
                              r.address, r.size, where);
        },
        [&](const cpu::options& opts) {
          cpu::reduce_by_key(what.all, x.where.data, nullptr, of, count, out.to, opts);
        });
    return out.made;
  }

  // Of the elements of several contiguous tensors as of one, by method exact.
  nb::object reduce_pieces(const asked& what, const std::vector<nb::handle>& pieces) const {
    const reduction& r = what.all.at(0);
    std::vector<described> all;
    std::vector<cuda::piece> list;
    for (const nb::handle p : pieces) {
      all.push_back(seen(p));
      expect_on_device(all.back(), all.front());
      list.push_back({expect(all.back(), {r.in()}, all.back().size()), all.back().size()});
    }
    const outputs out(*this, what, pieces.at(0), all[0], {});
    const described& x = *std::ranges::max_element(all, {}, &described::size);
    run(
        x, pieces[0], [&] { return cuda::pieces_workspace_bytes(r, list); },
        [&](room w, cuda::stream where) {
          cuda::reduce_pieces(r, list, out.to[0], w.address, w.size, where);
        },
        [&](const cpu::options& opts) {
          totals sums({r});
          for (const cuda::piece& p : list) sums.add(p.data, nullptr, p.n, opts);
          store_scalar(sums.result(0), static_cast<std::byte*>(out.to[0]));
        });
    return out.made[0];
  }

  /// Of rows of n elements; x, y, w, b, mean and rstd are tensors or None, and x is one.
  void apply_rows(std::string_view function, const std::array<nb::handle, 6>& of, std::size_t n,
                  double eps, nb::handle out_given) const {
    const row_function f = row_function_named(function);
    const described x = seen(of[0]), out = seen(out_given);
    const rows r = rows_of(x, of, n, eps);
    expect_on_device(out, x);
    void* const to = expect(out, x.type, x.size());
    run(
        x, of[0], no_room, [&](room, cuda::stream where) { cuda::apply(f, r, to, where); },
        [&](const cpu::options& opts) { cpu::apply(f, r, to, opts); });
  }
  void parameter_gradients(std::string_view function, const std::array<nb::handle, 6>& of,
                           std::size_t n, nb::handle dw_given, nb::handle db_given) const {
    const row_function f = row_function_named(function);
    const described x = seen(of[0]);
    const rows r = rows_of(x, of, n, 0);
    void *const dw = maybe(dw_given, x, x.type, n), *const db = maybe(db_given, x, x.type, n);
    run(
        x, of[0], [&] { return cuda::parameter_gradients_workspace_bytes(f, r); },
        [&](room w, cuda::stream where) {
          cuda::parameter_gradients(f, r, dw, db, w.address, w.size, where);
        },
        [&](const cpu::options& opts) { cpu::parameter_gradients(f, r, dw, db, opts); });
  }
  void sum_rows(nb::handle x_given, std::size_t n, nb::handle places_given,
                nb::handle offsets_given, nb::handle base_given, nb::handle out_given) const {
    const described x = seen(x_given), places = seen(places_given), offsets = seen(offsets_given);
    const rows r =
        rows_of(x, {x_given, nb::none(), nb::none(), nb::none(), nb::none(), nb::none()}, n, 0);
    for (const described* d : {&places, &offsets}) expect_on_device(*d, x);
    const std::size_t outputs = offsets.size() - 1;
    const row_segments by{
        static_cast<const std::int64_t*>(expect(places, {dtype::i64}, places.size())),
        static_cast<const std::int64_t*>(expect(offsets, {dtype::i64}, outputs + 1)), outputs};
    void *const base = maybe(base_given, x, x.type, outputs * n), *const out =
                                                                      maybe(out_given, x, x.type,
                                                                            outputs * n);
    run(
        x, x_given, no_room,
        [&](room, cuda::stream where) { cuda::sum_rows(r, by, base, out, where); },
        [&](const cpu::options& opts) { cpu::sum_rows(r, by, base, out, opts); });
  }

  // ---- Operators of torch's, as they are called most: of tensors that are no subclass's, have
  // elements and lie in a row. These take the operators' own arguments, and do nothing and give
  // None where one is any other; then it is for the functions in Python, errors too.

  nb::object reduce_plain(const by_type& table, nb::handle x_given, nb::handle y_given,
                          nb::handle dim, nb::handle keepdim) const {
    const auto x = plain(x_given), y = y_given.is_none() ? std::nullopt : plain(y_given);
    if (!x || x->size() == 0 || (!y_given.is_none() && !(y && are_alike(*y, *x))))
      return nb::none();
    const asked* const what = table.of[x->type.index()];
    std::vector<int> dims;
    if (!what || !read_dims(dim, x->where.rank, dims) || !PyBool_Check(keepdim.ptr()))
      return nb::none();
    nb::list made =
        reduce_seen(*what, *x, x_given, y ? &y->where : nullptr, dims, keepdim.ptr() == Py_True);
    return made.size() == 1 ? nb::object(made[0]) : nb::object(nb::tuple(made));
  }

  // (x, dim) and, of a gradient, y.
  nb::object softmax_plain(std::string_view function, nb::handle x_given, nb::handle y_given,
                           nb::handle dim) const {
    const auto x = rows_in(x_given);
    std::vector<int> dims;
    if (!x || x->where.rank == 0 || !PyLong_Check(dim.ptr()) ||
        !read_dims(dim, x->where.rank, dims) || dims[0] != x->where.rank - 1)
      return nb::none();
    if (!y_given.is_none() && !beside(y_given, *x)) return nb::none();
    const auto n = static_cast<std::size_t>(x->where.extent[static_cast<std::size_t>(dims[0])]);
    if (n > most_of_a_row) return nb::none();
    return applied(function, {x_given, y_given, nb::none(), nb::none(), nb::none(), nb::none()}, n,
                   0);
  }
  bool is_of(nb::handle x_given, nb::handle dtype) const {
    const auto x = plain(x_given);
    return x && dtypes_[x->type.index()].is(dtype);
  }

  // (x, target, no weight, the mean or the sum, ignored) on a CPU, of rows of x. The results: the
  // loss, and how many are not ignored.
  nb::object nll_plain(const by_type& sums, nb::handle x_given, nb::handle target_given, bool mean,
                       std::int64_t ignored) const {
    const auto x = rows_in(x_given), target = plain(target_given);
    if (!x || x->on_gpu() || x->where.rank != 2 || !target || target->on_gpu() ||
        target->type != element_type{dtype::i64} || target->where.rank != 1 ||
        target->where.extent[0] != x->where.extent[0] || !target->is_row_major())
      return nb::none();
    const nb::object loss = made(x_given, *x, x->type, std::span<const std::int64_t>{}),
                     total = made(x_given, *x, x->type, std::span<const std::int64_t>{});
    const auto store = [&]<class A>(std::type_identity<A>) {
      const auto* const of = static_cast<const A*>(x->where.data);
      const auto* const at = static_cast<const std::int64_t*>(target->where.data);
      const auto count = static_cast<std::size_t>(x->where.extent[0]);
      const std::int64_t classes = x->where.extent[1];
      std::vector<A> losses(count), shares(count);
      for (std::size_t k = 0; k < count; ++k) {
        if (at[k] == ignored) continue;
        if (at[k] < 0 || at[k] >= classes) return false;
        losses[k] = -of[k * static_cast<std::size_t>(classes) + static_cast<std::size_t>(at[k])];
        shares[k] = 1;
      }
      A results[2];
      for (const std::size_t k : {0u, 1u})
        store_scalar(cpu::reduce(sums.of[x->type.index()]->all[0], (k ? shares : losses).data(),
                                 count, how_for(*x)),
                     &results[k]);
      if (mean) results[0] /= results[1];
      std::memcpy(const_cast<void*>(seen(loss).where.data), &results[0], sizeof(A));
      std::memcpy(const_cast<void*>(seen(total).where.data), &results[1], sizeof(A));
      return true;
    };
    const bool done = x->type.stored == dtype::f64 ? store(std::type_identity<double>{})
                                                   : store(std::type_identity<float>{});
    return done ? nb::object(nb::make_tuple(loss, total)) : nb::none();
  }

  // (x, normalized_shape, weight, bias, eps); without mean and bias where it is rms_norm.
  nb::object norm_plain(nb::handle x_given, nb::handle shape, nb::handle w, nb::handle b,
                        nb::handle eps, bool centred) const {
    const auto x = rows_in(x_given);
    const std::size_t n = x ? last_extents(*x, shape) : 0;
    if (n == 0 || !PyFloat_Check(eps.ptr()) || !are_parameters({w, b}, *x, shape))
      return nb::none();
    std::vector<std::int64_t> each(x->where.extent.begin(),
                                   x->where.extent.begin() + x->where.rank);
    std::fill(each.end() - static_cast<std::ptrdiff_t>(nb::len(shape)), each.end(), 1);
    const nb::object mean = centred ? made(x_given, *x, wide_of(*x), each) : nb::none(),
                     rstd = made(x_given, *x, wide_of(*x), each);
    const nb::object y = applied(centred ? "layer_norm" : "rms_norm",
                                 {x_given, nb::none(), w, b, mean, rstd}, n, nb::cast<double>(eps));
    return centred ? nb::make_tuple(y, mean, rstd) : nb::make_tuple(y, rstd);
  }
  nb::object norm_backward_plain(nb::handle g_given, nb::handle x_given, nb::handle shape,
                                 nb::handle mean, nb::handle rstd, nb::handle w,
                                 nb::handle mask) const {
    const auto g = rows_in(g_given);
    const std::size_t n = g ? last_extents(*g, shape) : 0;
    const bool centred = !mean.is_none();
    if (n == 0 || !beside(x_given, *g) || !are_parameters({w}, *g, shape) ||
        !PyList_Check(mask.ptr()) || nb::len(mask) != (centred ? 3 : 2))
      return nb::none();
    const std::size_t count = g->size() / n;
    if (count > most_of_a_row) return nb::none();
    for (const nb::handle s : {mean, rstd}) {
      if (s.is_none() && s.ptr() == mean.ptr()) continue;
      const auto d = plain(s);
      if (!d || !(d->type == wide_of(*g)) || d->size() != count || !d->is_row_major() ||
          !on_one_device(*d, *g))
        return nb::none();
    }
    const auto wanted = [&](std::size_t k) { return nb::borrow(mask[k]).ptr() == Py_True; };
    const std::string_view function = centred ? "layer_norm_backward" : "rms_norm_backward";
    const std::span<const std::int64_t> last(
        g->where.extent.begin() + (g->where.rank - static_cast<int>(nb::len(shape))),
        nb::len(shape));
    const auto parameter = [&](bool want) {
      return want ? made(g_given, *g, g->type, last) : nb::none();
    };
    const nb::object dw = parameter(wanted(1)), db = parameter(centred && wanted(2));
    if (!dw.is_none() || !db.is_none())
      parameter_gradients(function, {g_given, x_given, w, nb::none(), mean, rstd}, n, dw, db);
    const nb::object dx =
        wanted(0) ? applied(function, {g_given, x_given, w, nb::none(), mean, rstd}, n, 0)
                  : nb::none();
    return centred ? nb::make_tuple(dx, dw, db) : nb::make_tuple(dx, dw);
  }

 private:
  struct room {
    void* address = nullptr;
    std::size_t size = 0;
  };
  static constexpr auto no_room = [] { return std::size_t{0}; };

  // Tensors beside x, one for each of the reductions.
  struct outputs {
    nb::list made;
    std::vector<void*> to;
    outputs(const tensors& t, const asked& what, nb::handle x_given, const described& x,
            const std::vector<std::int64_t>& shape) {
      for (const nb::object& type : what.types) {
        made.append(t.made(x_given, x, type, shape));
        to.push_back(const_cast<void*>(t.seen(made[made.size() - 1]).where.data));
      }
    }
  };

  static constexpr int devices[] = {on_cpu, on_cuda, on_cuda_host, on_cuda_managed};
  [[noreturn]] static void refuse(const std::string& what) { throw nb::type_error(what.c_str()); }
  static std::string named(int device_type, int device) {
    return std::to_string(device_type) + ":" + std::to_string(device);
  }

  static constexpr std::size_t most_of_a_row = 1 << 24;

  nb::list reduce_seen(const asked& what, const described& x, nb::handle x_given, const view* other,
                       const std::vector<int>& dims, bool keepdim) const {
    const outputs out(*this, what, x_given, x, result_extents(x.where, other, dims, keepdim));
    run(
        x, x_given, [&] { return cuda::workspace_bytes(what.all, x.where, other, dims); },
        [&](room r, cuda::stream where) {
          cuda::reduce(what.all, x.where, other, dims, out.to, r.address, r.size, where);
        },
        [&](const cpu::options& opts) {
          cpu::reduce(what.all, x.where, other, dims, out.to, opts);
        });
    return out.made;
  }
  nb::object applied(std::string_view function, const std::array<nb::handle, 6>& of, std::size_t n,
                     double eps) const {
    nb::object out = empty_like_(of[0]);
    apply_rows(function, of, n, eps, out);
    return out;
  }
  // An empty tensor beside x, in a row. (new_empty takes longer.)
  nb::object made(nb::handle x_given, const described& x, const nb::object& type,
                  std::span<const std::int64_t> shape) const {
    std::vector<std::int64_t> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;)
      strides[k - 1] = strides[k] * std::max<std::int64_t>(shape[k], 1);
    const nb::object make = x_given.attr("new_empty_strided");
    if (type.is(dtypes_[x.type.index()])) return make(shape_of(shape), shape_of(strides));
    return make(shape_of(shape), shape_of(strides), "dtype"_a = type);
  }
  nb::object made(nb::handle x_given, const described& x, element_type type,
                  std::span<const std::int64_t> shape) const {
    return made(x_given, x, dtypes_[type.index()], shape);
  }

  // A tensor of torch's own types.
  std::optional<described> plain(nb::handle x) const {
    if (std::ranges::none_of(own_, [&](const nb::object& type) { return type.is(x.type()); }))
      return std::nullopt;
    nb::dlpack::dltensor t;
    if (api_.show(x.ptr(), &t) != 0) return PyErr_Clear(), std::nullopt;
    if (!type_of_dlpack(t.dtype) || t.ndim > max_axes ||
        std::ranges::find(devices, t.device.device_type) == std::end(devices))
      return std::nullopt;
    return described_as(t);
  }
  // What the row functions take: CPUs compute with half types in f32.
  std::optional<described> rows_in(nb::handle given) const {
    const auto x = plain(given);
    const bool fits = x && (x->type.name() == "f32" || x->type.name() == "f64" ||
                            (x->on_gpu() && is_float(x->type.stored)));
    return fits && x->size() > 0 && x->is_row_major() ? x : std::nullopt;
  }
  bool beside(nb::handle given, const described& x) const {
    const auto y = plain(given);
    return y && are_alike(*y, x) && y->is_row_major();
  }
  static bool on_one_device(const described& x, const described& y) {
    return x.device_type == y.device_type && x.device == y.device;
  }
  static bool are_alike(const described& x, const described& y) {
    return x.type == y.type && on_one_device(x, y) && x.where.rank == y.where.rank &&
           x.where.extent == y.where.extent;
  }
  static element_type wide_of(const described& x) {
    return {x.type.stored == dtype::f64 ? dtype::f64 : dtype::f32};
  }
  static bool read_int(nb::handle h, std::int64_t& to) {
    return PyLong_Check(h.ptr()) && !PyBool_Check(h.ptr()) && nb::try_cast(h, to);
  }
  // Counted from 0, and each but once; all where there is none.
  static bool read_dims(nb::handle dim, int rank, std::vector<int>& to) {
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
  static std::size_t last_extents(const described& x, nb::handle list) {
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
  bool are_parameters(std::initializer_list<nb::handle> all, const described& x,
                      nb::handle shape) const {
    return std::ranges::all_of(all, [&](nb::handle p) {
      if (p.is_none()) return true;
      const auto d = plain(p);
      return d && d->type == x.type && on_one_device(*d, x) && d->is_row_major() &&
             static_cast<std::size_t>(d->where.rank) == nb::len(shape) &&
             last_extents(*d, shape) > 0;
    });
  }

  described seen(nb::handle x) const {
    nb::dlpack::dltensor t;
    if (api_.show(x.ptr(), &t) != 0) {
      const nb::python_error why;
      const std::string what = nb::cast<std::string>(nb::str(why.value()));
      throw std::runtime_error("expected a tensor that DLPack can show: " +
                               what.substr(0, what.find('\n')));  // without a backtrace
    }
    const auto type = type_of_dlpack(t.dtype);
    if (!type)
      refuse("expected elements of a type that bitfold has, not of DLPack's type code " +
             std::to_string(t.dtype.code) + ", " + std::to_string(t.dtype.bits) + " bits");
    if (std::ranges::find(devices, t.device.device_type) == std::end(devices))
      refuse("expected a tensor on a CPU or a CUDA device, not on DLPack's device " +
             named(t.device.device_type, t.device.device_id));
    return described_as(t);
  }
  static described described_as(const nb::dlpack::dltensor& t) {
    const auto type = type_of_dlpack(t.dtype);
    const void* const data = static_cast<std::byte*>(t.data) + t.byte_offset;
    const std::span<const std::int64_t> shape(t.shape, static_cast<std::size_t>(t.ndim));
    described d{*type, {}, t.device.device_type, t.device.device_id};
    if (t.ndim > max_axes) {  // as one axis
      if (t.strides && !lies_in_a_row(shape, t.strides))
        refuse("expected at most " + std::to_string(max_axes) +
               " axes, or elements one behind the other");
      std::int64_t n = 1;
      for (const std::int64_t extent : shape) n *= extent;
      d.where = row_major(type->stored, data, {n});
    } else {
      d.where = row_major(type->stored, data, shape);
      if (t.strides) std::copy(t.strides, t.strides + t.ndim, d.where.stride.begin());
    }
    return d;
  }

  static void expect_on_device(const described& d, const described& x) {
    if (d.device_type != x.device_type || d.device != x.device)
      throw std::runtime_error(
          "Expected all tensors to be on the same device, but found DLPack's devices " +
          named(d.device_type, d.device) + " and " + named(x.device_type, x.device));
  }
  static void* expect(const described& d, element_type type, std::size_t size) {
    if (!(d.type == type) || d.size() != size || !d.is_row_major())
      throw std::runtime_error("a tensor of " + std::to_string(d.size()) + " elements of " +
                               std::string(d.type.name()) + ", where " + std::to_string(size) +
                               " of " + std::string(type.name()) +
                               " are expected, one behind the other");
    return const_cast<void*>(d.where.data);
  }
  void* maybe(nb::handle given, const described& x, element_type type, std::size_t size) const {
    if (given.is_none()) return nullptr;
    const described d = seen(given);
    expect_on_device(d, x);
    return expect(d, type, size);
  }
  rows rows_of(const described& x, const std::array<nb::handle, 6>& of, std::size_t n,
               double eps) const {
    const std::size_t size = x.size(), count = n ? size / n : 0;
    const element_type wide{x.type.stored == dtype::f64 ? dtype::f64 : dtype::f32};
    return {x.type.stored,
            count,
            n,
            expect(x, x.type, count * n),
            maybe(of[1], x, x.type, size),
            maybe(of[2], x, x.type, n),
            maybe(of[3], x, x.type, n),
            maybe(of[4], x, wide, count),
            maybe(of[5], x, wide, count),
            eps};
  }

  // On x's GPU and its current stream, with a workspace of torch's; or on the CPU.
  template <class Size, class OnGpu, class OnCpu>
  void run(const described& x, nb::handle tensor, Size size, OnGpu on_gpu, OnCpu on_cpu) const {
    if (!x.on_gpu()) {
      const without_lock free(worth_the_lock(x));
      if (!team_) return on_cpu(how_for(x));
      const cpu::on_team with(team_);
      return on_cpu(how_for(x, threads_()));
    }
    const cuda::current_device here(x.device);
    room r{nullptr, size()};
    nb::object keep;
    if (r.size > 0) {
      keep = tensor.attr("new_empty")(r.size, "dtype"_a = byte_);
      r.address = const_cast<void*>(seen(keep).where.data);
    }
    void* stream = nullptr;
    if (api_.current_stream(x.device_type, x.device, &stream) != 0) throw nb::python_error();
    const nb::gil_scoped_release free;
    on_gpu(r, static_cast<cuda::stream>(stream));
  }

  const exchange& api_;
  nb::object keep_, byte_;
  std::vector<nb::object> own_;                   // types of tensors
  std::array<nb::object, element_types> dtypes_;  // of elements
  nb::object empty_like_;
  // The threads that the library itself computes on, and how many: null where it has none that are
  // known.
  cpu::team team_;
  int (*threads_)();
};

}  // namespace

void add_tensors(nb::module_& m) {
  nb::class_<asked>(m, "Asked",
                    "Reductions of elements of one type, and the types of their results as the "
                    "tensors' library has them.")
      .def(
          "__init__",
          [](asked* self, std::vector<reduction> all, std::vector<nb::object> types) {
            new (self) asked{std::move(all), std::move(types)};
          },
          "reductions"_a, "dtypes"_a);
  nb::class_<by_type>(m, "AskedByType", "Reductions by the type of the elements.")
      .def(
          "__init__",
          [](by_type* self, const nb::dict& all) {
            new (self) by_type{{}, all};
            for (const auto [name, what] : all)
              self->of[parse_type("all", name).index()] = &nb::cast<const asked&>(what);
          },
          "all"_a, "all: Asked by the type's name.");
  using of_rows = std::array<nb::handle, 6>;
  nb::class_<tensors>(m, "Tensors",
                      "Calls on torch's tensors, on their device and its current stream.")
      .def(nb::init<nb::object, nb::object, std::vector<nb::object>, nb::dict, nb::object,
                    std::uintptr_t, std::uintptr_t>(),
           "api"_a, "byte"_a, "own"_a, "dtypes"_a, "empty_like"_a, "team"_a, "threads"_a,
           "api: DLPack's C exchange API, as the tensors' type has it; byte: the type u8; own: the "
           "types of tensors that are plain; dtypes: those of "
           "elements, by bitfold's names; team, threads: the addresses of GOMP_parallel and "
           "omp_get_max_threads, or 0.")
      .def("reduce", &tensors::reduce, "asked"_a, "x"_a, "y"_a.none(), "dims"_a, "keepdim"_a,
           "dims: counted from 0.")
      .def("reduce_by_key", &tensors::reduce_by_key, "asked"_a, "x"_a, "keys"_a, "outputs"_a)
      .def("reduce_pieces", &tensors::reduce_pieces, "asked"_a, "pieces"_a,
           "Of the elements of several contiguous tensors as of one, by method exact.")
      .def(
          "apply_rows",
          [](const tensors& t, std::string_view f, nb::handle x, nb::handle y, nb::handle w,
             nb::handle b, nb::handle mean, nb::handle rstd, std::size_t n, double eps,
             nb::handle out) { t.apply_rows(f, of_rows{x, y, w, b, mean, rstd}, n, eps, out); },
          "function"_a, "x"_a, "y"_a.none(), "w"_a.none(), "b"_a.none(), "mean"_a.none(),
          "rstd"_a.none(), "n"_a, "eps"_a, "out"_a)
      .def(
          "parameter_gradients",
          [](const tensors& t, std::string_view f, nb::handle x, nb::handle y, nb::handle w,
             nb::handle mean, nb::handle rstd, std::size_t n, nb::handle dw, nb::handle db) {
            t.parameter_gradients(f, of_rows{x, y, w, nb::none(), mean, rstd}, n, dw, db);
          },
          "function"_a, "x"_a, "y"_a, "w"_a.none(), "mean"_a.none(), "rstd"_a, "n"_a, "dw"_a.none(),
          "db"_a.none())
      .def("reduce_plain", &tensors::reduce_plain, "asked"_a, "x"_a, "y"_a.none(), "dim"_a.none(),
           "keepdim"_a)
      .def("softmax_plain", &tensors::softmax_plain, "function"_a, "x"_a, "y"_a.none(), "dim"_a)
      .def("is_of", &tensors::is_of, "x"_a, "dtype"_a)
      .def("nll_plain", &tensors::nll_plain, "sums"_a, "x"_a, "target"_a, "mean"_a, "ignored"_a)
      .def("norm_plain", &tensors::norm_plain, "x"_a, "shape"_a, "w"_a.none(), "b"_a.none(),
           "eps"_a.none(), "centred"_a)
      .def("norm_backward_plain", &tensors::norm_backward_plain, "g"_a, "x"_a, "shape"_a,
           "mean"_a.none(), "rstd"_a, "w"_a.none(), "mask"_a)
      .def("sum_rows", &tensors::sum_rows, "x"_a, "n"_a, "places"_a, "offsets"_a, "base"_a.none(),
           "out"_a);
}

}  // namespace bitfold::python
