// _core.Tensors: the family of a library that has DLPack's C exchange API, such as torch, which
// tells of a tensor and of the current stream without Python. What a tensor is asked for besides
// (`new_empty_strided`) is torch's.
#include "tensors.hpp"

#include <algorithm>
#include <stdexcept>

#include <nanobind/stl/vector.h>

namespace bitfold::python {

using namespace nb::literals;

namespace {

// ---- DLPack's C exchange API (dlpack.h, from version 1.2) ---------------------------------------

struct exchange_header {
  std::uint32_t major, minor;
  const exchange_header* before;  // of an older version
};
}  // namespace

struct exchange {
  exchange_header header;
  int (*allocate)(nb::dlpack::dltensor*, void**, void*, void (*)(void*, const char*, const char*));
  int (*own)(void*, void**);
  int (*give)(void*, void**);
  int (*show)(void* object, nb::dlpack::dltensor* out);  // what it points to is the object's
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

namespace {

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

bool lies_somewhere(const described& d) { return d.where.data || d.size() == 0; }

}  // namespace

tensors::tensors(nb::object api, std::vector<nb::object> own, const nb::dict& dtypes,
                 nb::object empty_like, std::uintptr_t team, std::uintptr_t threads)
    : api_(exchange_of(api)),
      keep_(std::move(api)),
      own_(std::move(own)),
      empty_like_(std::move(empty_like)),
      threads_{reinterpret_cast<cpu::team>(team), reinterpret_cast<int (*)()>(threads)} {
  for (const auto [name, dtype] : dtypes)
    dtypes_[parse_type("dtypes", name).index()] = nb::borrow(dtype);
}

std::optional<described> tensors::read(nb::handle x, const char* argument, taking what) const {
  nb::dlpack::dltensor t;
  if (api_.show(x.ptr(), &t) != 0) {
    const nb::python_error why;
    const std::string said = nb::cast<std::string>(nb::str(why.value()));
    throw std::runtime_error(std::string(argument) + ": expected a tensor that DLPack can show: " +
                             said.substr(0, said.find('\n')));  // without a backtrace
  }
  const described d = described_by_dlpack(t, argument, what);
  if (!lies_somewhere(d))
    throw std::runtime_error(std::string(argument) + ": expected a tensor with elements in memory");
  return d;
}

std::optional<described> tensors::plain(nb::handle x) const {
  if (std::ranges::none_of(own_, [&](const nb::object& type) { return type.is(x.type()); }))
    return std::nullopt;
  nb::dlpack::dltensor t;
  if (api_.show(x.ptr(), &t) != 0) return forget(PyExc_Exception), std::nullopt;
  auto d = described_by_dlpack(t);
  if (d && !lies_somewhere(*d)) d.reset();
  return d;
}

namespace {
void expect_tensor(const model& beside) {
  if (!beside.object.is_valid() || beside.object.is_none())
    refuse_type("x: no tensor, beside which results are made");
}
}  // namespace

// (new_empty takes longer.)
memory tensors::make(const model& beside, element_type type,
                     std::span<const std::int64_t> shape) const {
  expect_tensor(beside);
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t k = shape.size(); k-- > 1;)
    strides[k - 1] = strides[k] * std::max<std::int64_t>(shape[k], 1);
  const auto make = beside.object.attr("new_empty_strided");  // no object of its own
  const std::uint64_t bytes = room_of(type, shape);
  if (type == beside.type) return placed(make(shape_of(shape), shape_of(strides)), bytes);
  const nb::object& dtype = dtypes_[type.index()];
  if (!dtype.is_valid()) refuse_type("dtype: " + std::string(type.name()) + " is none of torch's");
  return placed(make(shape_of(shape), shape_of(strides), "dtype"_a = dtype), bytes);
}

memory tensors::like(const model& beside, const described& x) const {
  expect_tensor(beside);
  return placed(empty_like_(beside.object), x.size() * size_of(x.type.stored));
}

memory tensors::placed(nb::object made, std::uint64_t bytes) const {
  const auto found = read(made, "out", taking::elements);
  if (!found->is_row_major() || found->size() * size_of(found->type.stored) < bytes)
    refuse("out: made too small, or with its elements not in a row");
  return {std::move(made), const_cast<void*>(found->where.data)};
}

memory tensors::room(const model& beside, std::size_t bytes) const {
  const auto extent = static_cast<std::int64_t>(bytes);
  return make(beside, {dtype::u8}, {&extent, 1});
}

cuda::stream tensors::stream(const described& x) const {
  void* stream = nullptr;
  if (api_.current_stream(x.device_type, x.device, &stream) != 0) throw nb::python_error();
  return static_cast<cuda::stream>(stream);
}

void add_tensors(nb::module_& m) {
  nb::class_<tensors, family> c(m, "Tensors",
                                "Torch's tensors, on their device and its current stream.");
  c.def(nb::init<nb::object, std::vector<nb::object>, nb::dict, nb::object, std::uintptr_t,
                 std::uintptr_t>(),
        "api"_a, "own"_a, "dtypes"_a, "empty_like"_a, "team"_a, "threads"_a,
        "api: DLPack's C exchange API, as the tensors' type has it; own: the types of tensors that "
        "are plain; dtypes: those of elements, by bitfold's names; team, threads: the addresses of "
        "GOMP_parallel and omp_get_max_threads, or 0.")
      .def(
          "describe",
          [](const tensors& of, nb::object x, const char* argument) {
            const input in(x, argument, &of);
            array a;
            a.of = needed(in, argument);
            a.copy = in.copy();
            a.owner = std::move(x);
            return a;
          },
          "x"_a, "argument"_a);
  add_operators(c);
  add_product_operators(c);
}

}  // namespace bitfold::python
