// _core.Tensors: calls on the tensors of a library that has DLPack's C exchange API, such as torch, which tells of a tensor and of
// the current stream without Python. What a tensor is asked for besides (`new_empty`) is torch's.
#include "core.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bitfold/cuda.hpp>
#include <bitfold/rows.hpp>
#include <bitfold/totals.hpp>

namespace bitfold::python {

using namespace nb::literals;

namespace {

// ---- DLPack's C exchange API (dlpack.h, from version 1.2) ---------------------------------------------

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
  const auto* h = static_cast<const exchange_header*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!h) throw nb::python_error();
  while (h && h->major != 1) h = h->before;
  const auto* const api = reinterpret_cast<const exchange*>(h);
  if (!api || !api->show) throw std::runtime_error("api: DLPack's C exchange API of version 1 is needed, with its function for DLTensor");
  return *api;
}

// ---- Calls --------------------------------------------------------------------------------------------

// Reductions of elements of one type, and the types of their results as the tensors' library has them.
struct asked {
  std::vector<reduction> all;
  std::vector<nb::object> types;
};

constexpr std::string_view row_functions[] = {"softmax",          "log_softmax",          "layer_norm",          "rms_norm",
                                              "softmax_backward", "log_softmax_backward", "layer_norm_backward", "rms_norm_backward"};
row_function parse_row_function(std::string_view name) {
  const auto which = std::ranges::find(row_functions, name) - std::begin(row_functions);
  if (which == std::ssize(row_functions)) throw std::invalid_argument("function: " + std::string(name) + " is none of bitfold's");
  return static_cast<row_function>(which);
}

class tensors {
 public:
  tensors(nb::object api, nb::object byte, std::uintptr_t team, std::uintptr_t threads)
      : api_(exchange_of(api)), keep_(std::move(api)), byte_(std::move(byte)), team_(reinterpret_cast<cpu::team>(team)),
        threads_(reinterpret_cast<int (*)()>(threads)) {}

  nb::list reduce(const asked& what, nb::handle x_given, nb::handle y_given, const std::vector<int>& dims, bool keepdim) const {
    const described x = seen(x_given), y = y_given.is_none() ? described{} : seen(y_given);
    const view* const other = y_given.is_none() ? nullptr : &y.where;
    if (other) expect_on_device(y, x);
    const std::vector<std::int64_t> shape = result_extents(x.where, other, dims, keepdim);
    const outputs out(*this, what, x_given, shape);
    run(x, x_given, [&] { return cuda::workspace_bytes(what.all, x.where, other, dims); },
        [&](room r, cuda::stream where) { cuda::reduce(what.all, x.where, other, dims, out.to, r.address, r.size, where); },
        [&](const cpu::options& how) { cpu::reduce(what.all, x.where, other, dims, out.to, how); });
    return out.made;
  }

  // x and keys: flat and contiguous.
  nb::list reduce_by_key(const asked& what, nb::handle x_given, nb::handle keys_given, std::size_t count) const {
    const described x = seen(x_given), keys = seen(keys_given);
    expect_on_device(keys, x);
    const std::span<const std::int64_t> of(static_cast<const std::int64_t*>(expect(keys, {dtype::i64}, x.size())), x.size());
    const outputs out(*this, what, x_given, {static_cast<std::int64_t>(count)});
    run(x, x_given, [&] { return cuda::by_key_workspace_bytes(what.all, x.size(), count); },
        [&](room r, cuda::stream where) {
          cuda::reduce_by_key(what.all, x.where.data, nullptr, x.size(), of.data(), count, out.to, r.address, r.size, where);
        },
        [&](const cpu::options& how) { cpu::reduce_by_key(what.all, x.where.data, nullptr, of, count, out.to, how); });
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
    const outputs out(*this, what, pieces.at(0), {});
    const described& x = *std::ranges::max_element(all, {}, &described::size);
    run(x, pieces[0], [&] { return cuda::pieces_workspace_bytes(r, list); },
        [&](room w, cuda::stream where) { cuda::reduce_pieces(r, list, out.to[0], w.address, w.size, where); },
        [&](const cpu::options& how) {
          totals sums({r});
          for (const cuda::piece& p : list) sums.add(p.data, nullptr, p.n, how);
          store_scalar(sums.result(0), static_cast<std::byte*>(out.to[0]));
        });
    return out.made[0];
  }

  /// Of rows of n elements; x, y, w, b, mean and rstd are tensors or None, and x is one.
  void apply_rows(std::string_view function, const std::array<nb::handle, 6>& of, std::size_t n, double eps, nb::handle out_given) const {
    const row_function f = parse_row_function(function);
    const described x = seen(of[0]), out = seen(out_given);
    const rows r = rows_of(x, of, n, eps);
    expect_on_device(out, x);
    void* const to = expect(out, x.type, x.size());
    run(x, of[0], no_room, [&](room, cuda::stream where) { cuda::apply(f, r, to, where); }, [&](const cpu::options& how) { cpu::apply(f, r, to, how); });
  }
  void parameter_gradients(std::string_view function, const std::array<nb::handle, 6>& of, std::size_t n, nb::handle dw_given, nb::handle db_given) const {
    const row_function f = parse_row_function(function);
    const described x = seen(of[0]);
    const rows r = rows_of(x, of, n, 0);
    void *const dw = maybe(dw_given, x, x.type, n), *const db = maybe(db_given, x, x.type, n);
    run(x, of[0], [&] { return cuda::parameter_gradients_workspace_bytes(f, r); },
        [&](room w, cuda::stream where) { cuda::parameter_gradients(f, r, dw, db, w.address, w.size, where); },
        [&](const cpu::options& how) { cpu::parameter_gradients(f, r, dw, db, how); });
  }
  void sum_rows(nb::handle x_given, std::size_t n, nb::handle places_given, nb::handle offsets_given, nb::handle base_given, nb::handle out_given) const {
    const described x = seen(x_given), places = seen(places_given), offsets = seen(offsets_given);
    const rows r = rows_of(x, {x_given, nb::none(), nb::none(), nb::none(), nb::none(), nb::none()}, n, 0);
    for (const described* d : {&places, &offsets}) expect_on_device(*d, x);
    const std::size_t outputs = offsets.size() - 1;
    const row_segments by{static_cast<const std::int64_t*>(expect(places, {dtype::i64}, places.size())),
                          static_cast<const std::int64_t*>(expect(offsets, {dtype::i64}, outputs + 1)), outputs};
    void *const base = maybe(base_given, x, x.type, outputs * n), *const out = maybe(out_given, x, x.type, outputs * n);
    run(x, x_given, no_room, [&](room, cuda::stream where) { cuda::sum_rows(r, by, base, out, where); },
        [&](const cpu::options& how) { cpu::sum_rows(r, by, base, out, how); });
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
    outputs(const tensors& t, const asked& what, nb::handle x, const std::vector<std::int64_t>& shape) {
      const nb::tuple extents = shape_of(shape);
      for (const nb::object& type : what.types) {
        made.append(x.attr("new_empty")(extents, "dtype"_a = type));
        to.push_back(const_cast<void*>(t.seen(made[made.size() - 1]).where.data));
      }
    }
  };

  static constexpr int devices[] = {on_cpu, on_cuda, on_cuda_host, on_cuda_managed};
  [[noreturn]] static void refuse(const std::string& what) { throw nb::type_error(what.c_str()); }
  static std::string named(int device_type, int device) { return std::to_string(device_type) + ":" + std::to_string(device); }

  described seen(nb::handle x) const {
    nb::dlpack::dltensor t;
    if (api_.show(x.ptr(), &t) != 0) {
      const nb::python_error why;
      const std::string what = nb::cast<std::string>(nb::str(why.value()));
      throw std::runtime_error("expected a tensor that DLPack can show: " + what.substr(0, what.find('\n')));  // without a backtrace
    }
    const auto type = type_of_dlpack(t.dtype);
    if (!type)
      refuse("expected elements of a type that bitfold has, not of DLPack's type code " + std::to_string(t.dtype.code) + ", " +
             std::to_string(t.dtype.bits) + " bits");
    if (std::ranges::find(devices, t.device.device_type) == std::end(devices))
      refuse("expected a tensor on a CPU or a CUDA device, not on DLPack's device " + named(t.device.device_type, t.device.device_id));
    const void* const data = static_cast<std::byte*>(t.data) + t.byte_offset;
    const std::span<const std::int64_t> shape(t.shape, static_cast<std::size_t>(t.ndim));
    described d{*type, {}, t.device.device_type, t.device.device_id};
    if (t.ndim > most_axes) {  // as one axis
      if (t.strides && !lies_in_a_row(shape, t.strides))
        refuse("expected at most " + std::to_string(most_axes) + " axes, or elements one behind the other");
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
      throw std::runtime_error("Expected all tensors to be on the same device, but found DLPack's devices " + named(d.device_type, d.device) + " and " +
                               named(x.device_type, x.device));
  }
  static void* expect(const described& d, element_type type, std::size_t size) {
    if (!(d.type == type) || d.size() != size || !d.is_row_major())
      throw std::runtime_error("a tensor of " + std::to_string(d.size()) + " elements of " + std::string(d.type.name()) + ", where " +
                               std::to_string(size) + " of " + std::string(type.name()) + " are expected, one behind the other");
    return const_cast<void*>(d.where.data);
  }
  void* maybe(nb::handle given, const described& x, element_type type, std::size_t size) const {
    if (given.is_none()) return nullptr;
    const described d = seen(given);
    expect_on_device(d, x);
    return expect(d, type, size);
  }
  rows rows_of(const described& x, const std::array<nb::handle, 6>& of, std::size_t n, double eps) const {
    const std::size_t size = x.size(), count = n ? size / n : 0;
    const element_type wide{x.type.stored == dtype::f64 ? dtype::f64 : dtype::f32};
    return {x.type.stored, count, n, expect(x, x.type, count * n), maybe(of[1], x, x.type, size), maybe(of[2], x, x.type, n), maybe(of[3], x, x.type, n),
            maybe(of[4], x, wide, count), maybe(of[5], x, wide, count), eps};
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
  // The threads that the library itself computes on, and how many: null where it has none that are known.
  cpu::team team_;
  int (*threads_)();
};

}  // namespace

void add_tensors(nb::module_& m) {
  nb::class_<asked>(m, "Asked", "Reductions of elements of one type, and the types of their results as the tensors' library has them.")
      .def("__init__",
           [](asked* self, std::vector<reduction> all, std::vector<nb::object> types) { new (self) asked{std::move(all), std::move(types)}; },
           "reductions"_a, "dtypes"_a);
  using of_rows = std::array<nb::handle, 6>;
  nb::class_<tensors>(m, "Tensors", "Calls on torch's tensors, on their device and its current stream.")
      .def(nb::init<nb::object, nb::object, std::uintptr_t, std::uintptr_t>(), "api"_a, "byte"_a, "team"_a, "threads"_a,
           "api: DLPack's C exchange API, as the tensors' type has it; byte: the type u8; team, threads: the addresses of GOMP_parallel and "
           "omp_get_max_threads, or 0.")
      .def("reduce", &tensors::reduce, "asked"_a, "x"_a, "y"_a.none(), "dims"_a, "keepdim"_a, "dims: counted from 0.")
      .def("reduce_by_key", &tensors::reduce_by_key, "asked"_a, "x"_a, "keys"_a, "outputs"_a)
      .def("reduce_pieces", &tensors::reduce_pieces, "asked"_a, "pieces"_a, "Of the elements of several contiguous tensors as of one, by method exact.")
      .def("apply_rows",
           [](const tensors& t, std::string_view f, nb::handle x, nb::handle y, nb::handle w, nb::handle b, nb::handle mean, nb::handle rstd,
              std::size_t n, double eps, nb::handle out) { t.apply_rows(f, of_rows{x, y, w, b, mean, rstd}, n, eps, out); },
           "function"_a, "x"_a, "y"_a.none(), "w"_a.none(), "b"_a.none(), "mean"_a.none(), "rstd"_a.none(), "n"_a, "eps"_a, "out"_a)
      .def("parameter_gradients",
           [](const tensors& t, std::string_view f, nb::handle x, nb::handle y, nb::handle w, nb::handle mean, nb::handle rstd, std::size_t n,
              nb::handle dw, nb::handle db) { t.parameter_gradients(f, of_rows{x, y, w, nb::none(), mean, rstd}, n, dw, db); },
           "function"_a, "x"_a, "y"_a, "w"_a.none(), "mean"_a.none(), "rstd"_a, "n"_a, "dw"_a.none(), "db"_a.none())
      .def("sum_rows", &tensors::sum_rows, "x"_a, "n"_a, "places"_a, "offsets"_a, "base"_a.none(), "out"_a);
}

}  // namespace bitfold::python
