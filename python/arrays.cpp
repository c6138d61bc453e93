// Arrays as Python has them, described: _core.Array, Python's buffer protocol, DLPack; bools;
// threads.
#include "core.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <utility>

#include <pthread.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bitfold/cpu/pass.hpp>

#include "family.hpp"

namespace bitfold::python {

using namespace nb::literals;

void refuse(const std::string& what) { throw error(errc::usage, what); }
void refuse_type(const std::string& what) { throw nb::type_error(what.c_str()); }
void forget(PyObject* type) {
  if (!PyErr_ExceptionMatches(type)) throw nb::python_error();
  PyErr_Clear();
}

namespace {

std::string type_named(nb::handle x) { return nb::cast<std::string>(x.type().attr("__name__")); }

// That of so many bytes, of those that begin with the smallest.
std::optional<element_type> integers(dtype smallest, std::int64_t bytes) {
  for (int k = 0; k < 4; ++k)
    if (bytes == std::int64_t{1} << k)
      return element_type{static_cast<dtype>(static_cast<int>(smallest) + k)};
  return std::nullopt;
}

// The type of a buffer's elements, from the format of Python's struct module.
std::optional<element_type> type_of_format(const char* format, Py_ssize_t size) {
  if (!format) return element_type{dtype::u8};
  // In this machine's order, as ctypes too has it.
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  switch (*format) {
    case 'e': return element_type{dtype::f16};
    case 'f': return element_type{dtype::f32};
    case 'd': return element_type{dtype::f64};
    case '?': return element_type{dtype::u8, true};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return integers(dtype::i8, size);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return integers(dtype::u8, size);
    default: return std::nullopt;
  }
}

void check_rank(const char* argument, std::int64_t rank) {
  if (rank > max_axes)
    refuse(std::string(argument) + ": " + std::to_string(rank) + " axes, where at most " +
           std::to_string(max_axes) + " are taken");
}

std::optional<element_type> type_of_dlpack(const nb::dlpack::dtype& t) {
  using code = nb::dlpack::dtype_code;
  if (t.lanes != 1 || t.bits % 8 != 0) return std::nullopt;
  switch (static_cast<code>(t.code)) {
    case code::Int: return integers(dtype::i8, t.bits / 8);
    case code::UInt: return integers(dtype::u8, t.bits / 8);
    case code::Bool:
      return t.bits == 8 ? std::optional(element_type{dtype::u8, true}) : std::nullopt;
    case code::Bfloat:
      return t.bits == 16 ? std::optional(element_type{dtype::bf16}) : std::nullopt;
    case code::Float:
      for (const dtype f : {dtype::f16, dtype::f32, dtype::f64})
        if (t.bits == 8 * size_of(f)) return element_type{f};
      return std::nullopt;
    default: return std::nullopt;
  }
}

bool is_of_a_known_device(const nb::dlpack::dltensor& t) {
  constexpr int known[] = {on_cpu, on_cuda, on_cuda_host, on_cuda_managed};
  return std::ranges::find(known, t.device.device_type) != std::end(known);
}

// Of at most max_axes axes, or in a row.
described described_as(const nb::dlpack::dltensor& t, element_type type) {
  const void* const data = static_cast<const std::byte*>(t.data) + t.byte_offset;
  const std::span<const std::int64_t> shape(t.shape, static_cast<std::size_t>(t.ndim));
  described d{type, {}, t.device.device_type, t.device.device_id};
  if (t.ndim > max_axes) {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    d.where = row_major(type.stored, data, {n});
  } else {
    d.where = row_major(type.stored, data, shape);
    if (t.strides) std::copy(t.strides, t.strides + t.ndim, d.where.stride.begin());
  }
  return d;
}

}  // namespace

std::optional<described> described_by_dlpack(const nb::dlpack::dltensor& t) {
  const auto type = type_of_dlpack(t.dtype);
  if (!type || t.ndim > max_axes || !is_of_a_known_device(t)) return std::nullopt;
  const described d = described_as(t, *type);
  return is_aligned(d) ? std::optional(d) : std::nullopt;
}

described described_by_dlpack(const nb::dlpack::dltensor& t, const char* argument, taking what) {
  const auto type = type_of_dlpack(t.dtype);
  if (!type)
    refuse_type(std::string(argument) + ": elements of DLPack's type code " +
                std::to_string(t.dtype.code) + ", " + std::to_string(t.dtype.bits) + " bits");
  if (!is_of_a_known_device(t))
    refuse_type(std::string(argument) + ": on a device of DLPack's type " +
                std::to_string(t.device.device_type) + "; bitfold has CPUs and CUDA");
  const auto in_a_row = [&] {
    return !t.strides || lies_in_a_row({t.shape, static_cast<std::size_t>(t.ndim)}, t.strides);
  };
  if (what == taking::arrays || (t.ndim > max_axes && !in_a_row())) check_rank(argument, t.ndim);
  return described_as(t, *type);
}

std::int64_t integer(const char* argument, nb::handle x) {
  const nb::object index = nb::steal(PyNumber_Index(x.ptr()));
  if (!index.is_valid()) {
    forget(PyExc_TypeError);
    refuse_type(std::string(argument) + ": " + type_named(x) + ", where an integer is expected");
  }
  const auto value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) {
    forget(PyExc_OverflowError);
    refuse(std::string(argument) + ": beyond 64 bits");
  }
  return value;
}

element_type parse_type(std::string_view argument, nb::handle given) {
  const std::string text = string_argument(argument, given);
  if (text == "bool") return {dtype::u8, true};
  if (const auto t = parse_dtype(text)) return {*t};
  refuse_type(std::string(argument) + ": " + text + " is no element type");
}

dtype parse_number(std::string_view argument, nb::handle name) {
  const element_type t = parse_type(argument, name);
  if (t.is_bool) refuse_type(std::string(argument) + ": bool, where a type of numbers is expected");
  return t.stored;
}

std::string string_argument(std::string_view argument, nb::handle text) {
  if (!PyUnicode_Check(text.ptr()))
    refuse_type(std::string(argument) + ": " + type_named(text) + ", where a name is expected");
  return nb::cast<std::string>(text);
}

nb::tuple shape_of(std::span<const std::int64_t> extents) {
  nb::object t = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(extents.size())));
  for (std::size_t k = 0; k < extents.size(); ++k)
    PyTuple_SetItem(t.ptr(), static_cast<Py_ssize_t>(k), PyLong_FromLongLong(extents[k]));
  return nb::borrow<nb::tuple>(t);
}

std::uint64_t described::size() const {
  std::uint64_t n = 1;
  for (int k = 0; k < where.rank; ++k)
    n *= static_cast<std::uint64_t>(where.extent[static_cast<std::size_t>(k)]);
  return n;
}

bool lies_in_a_row(std::span<const std::int64_t> extents, const std::int64_t* strides) {
  if (std::ranges::find(extents, 0) != extents.end()) return true;
  std::int64_t stride = 1;
  for (std::size_t k = extents.size(); k-- > 0; stride *= extents[k])
    if (extents[k] != 1 && strides[k] != stride) return false;
  return true;
}

// ---- Threads ------------------------------------------------------------------------------------

namespace {
constexpr std::uint64_t bytes_worth_the_lock =
    1 << 14;  // and below which the library uses one thread
std::atomic<bool> used_threads = false, one_thread = false, is_child = false;
}  // namespace

void look_after_forks() {
  pthread_atfork(nullptr, nullptr, [] { one_thread = used_threads.load(), is_child = true; });
}

bool worth_the_lock(const described& x) {
  return x.on_gpu() || x.size() * size_of(x.type.stored) >= bytes_worth_the_lock;
}
cpu::options how_for(const described& x) {
  if (worth_the_lock(x)) used_threads = true;
  return {.threads = one_thread ? 1 : 0};
}
cpu::options how_for(const described& x, int threads) {
  if (worth_the_lock(x)) used_threads = true;
  return {.threads = is_child ? 1 : threads};
}

// ---- Bools, of which a byte that is not 0 means true --------------------------------------------

namespace {

// The first byte, and the one behind the last.
std::pair<std::intptr_t, std::intptr_t> bounds(const described& a) {
  const auto size = static_cast<std::intptr_t>(size_of(a.type.stored));
  auto first = reinterpret_cast<std::intptr_t>(a.where.data), last = first;
  if (a.size() == 0) return {first, first};
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.where.rank); ++k)
    (a.where.stride[k] < 0 ? first : last) += (a.where.extent[k] - 1) * a.where.stride[k] * size;
  return {first, last + size};
}

#if defined(__x86_64__)
#define BITFOLD_FOR_EVERY_CPU __attribute__((target_clones("avx2", "default")))
#else
#define BITFOLD_FOR_EVERY_CPU
#endif

BITFOLD_FOR_EVERY_CPU bool has_other_bytes(const std::uint8_t* x, std::size_t n) {
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < n; ++i) any |= x[i];
  return any > 1;
}

BITFOLD_FOR_EVERY_CPU std::uint64_t count_other_than_0(const std::uint8_t* x, std::size_t n) {
  constexpr std::size_t lanes = 128;
  std::uint64_t count = 0;
  std::size_t i = 0;
  while (n - i >= lanes) {
    std::uint8_t of_lane[lanes] = {};
    const std::size_t rows = std::min<std::size_t>((n - i) / lanes, 255);
    for (std::size_t r = 0; r < rows; ++r, i += lanes)
      for (std::size_t k = 0; k < lanes; ++k)
        of_lane[k] = static_cast<std::uint8_t>(of_lane[k] + (x[i + k] != 0));
    for (const std::uint8_t c : of_lane) count += c;
  }
  for (; i < n; ++i) count += x[i] != 0;
  return count;
}

// The sum of f(bytes, how many) over all of n bytes in a row, shared among threads as every
// reduction is.
template <auto F>
std::uint64_t sum_over(const std::uint8_t* x, std::size_t n, const cpu::options& opts) {
  if (n < bytes_worth_the_lock) return F(x, n);
  std::uint64_t sum = 0;
  const cpu::own_fold fold{
      x,
      sizeof sum,
      [](const void* source, order::index first, std::size_t count, void* state) {
        const std::uint64_t s = F(static_cast<const std::uint8_t*>(source) + first, count);
        std::memcpy(state, &s, sizeof s);
      },
      [](void* a, order::index, const void* b, order::index) {
        std::uint64_t left, right;
        std::memcpy(&left, a, sizeof left);
        std::memcpy(&right, b, sizeof right);
        left += right;
        std::memcpy(a, &left, sizeof left);
      },
      [](const void* state, order::index, void* out) {
        std::memcpy(out, state, sizeof(std::uint64_t));
      },
      &sum};
  cpu::pass p;
  p.n = n;
  p.element_bytes = 1;
  p.own_folds = {&fold, 1};
  cpu::reduce(p, {}, opts);
  return sum;
}

bool has_other_bytes(const described& x, const cpu::options& opts) {
  const auto [first, end] = bounds(x);
  const std::uint64_t span = static_cast<std::uint64_t>(end - first), n = x.size();
  // What lies between may be other than bool. (It is read where that is likely to answer the
  // question, and faster.)
  if (span <= 8 * n &&
      sum_over<static_cast<bool (*)(const std::uint8_t*, std::size_t)>(has_other_bytes)>(
          reinterpret_cast<const std::uint8_t*>(first), span, opts) == 0)
    return false;
  if (span <= n) return true;
  const reduction most = make_reduction(op_id::max, {}, dtype::u8);
  std::uint8_t found = 0;
  void* const to = &found;
  constexpr int axes[max_axes] = {0, 1, 2, 3, 4, 5, 6, 7};
  cpu::reduce({&most, 1}, x.where, nullptr, {axes, static_cast<std::size_t>(x.where.rank)},
              {&to, 1}, opts);
  return found > 1;
}

}  // namespace

described in_a_row(const described& x, const void* data) {
  described y = x;
  y.where = row_major(x.type.stored, data,
                      {x.where.extent.data(), static_cast<std::size_t>(x.where.rank)});
  return y;
}

std::uint64_t count_truths(const described& x, const cpu::options& opts) {
  return sum_over<count_other_than_0>(static_cast<const std::uint8_t*>(x.where.data), x.size(),
                                      opts);
}

const reduction truth_of_one = make_reduction(op_id::any, {}, dtype::u8);

described with_truths(const described& x, std::vector<std::byte>& room, const cpu::options& opts) {
  if (!has_other_bytes(x, opts)) return x;
  room.resize(x.size());
  void* const to = room.data();
  cpu::reduce({&truth_of_one, 1}, x.where, nullptr, {}, {&to, 1}, opts);
  return in_a_row(x, to);
}

// ---- Inputs -------------------------------------------------------------------------------------

bool is_aligned(const described& x) {
  return reinterpret_cast<std::uintptr_t>(x.where.data) % size_of(x.type.stored) == 0 ||
         x.size() == 0;
}

namespace {

void refuse_unaligned(const char* argument) {
  refuse_type(std::string(argument) + ": its elements do not lie at multiples of their size");
}

// Of x, which is then that copy.
own_memory copy_elements(described& x) {
  const std::size_t size = size_of(x.type.stored), n = x.size();
  auto room = std::make_shared<std::vector<std::byte>>(n * size);
  std::array<std::int64_t, max_axes> at{};
  const auto* from = static_cast<const std::byte*>(x.where.data);
  for (std::size_t i = 0; i < n; ++i) {
    std::memcpy(room->data() + i * size, from, size);
    for (auto k = static_cast<std::size_t>(x.where.rank); k-- > 0;) {
      const auto step = x.where.stride[k] * static_cast<std::int64_t>(size);
      from += step;
      if (++at[k] < x.where.extent[k]) break;
      from -= step * std::exchange(at[k], 0);
    }
  }
  x = in_a_row(x, room->data());
  return room;
}

}  // namespace

// (Through another constructor, so that where this one throws the buffer is given back.)
input::input(nb::handle from, const char* argument, const family* of, taking what) : input() {
  object_ = from;
  if (from.is_none()) return;
  find(from, argument, of, what);
  if (what == taking::results && copy_) refuse_unaligned(argument);
  if (!there_ || of_.on_gpu() || is_aligned(of_)) return;
  if (what == taking::results) refuse_unaligned(argument);
  copy_ = copy_elements(of_);
}

void input::find(nb::handle from, const char* argument, const family* of, taking what) {
  if (array* a; nb::try_cast(from, a)) {
    if (what == taking::results && a->read_only) refuse(std::string(argument) + ": read-only");
    of_ = a->of;
    object_ = a->owner;
    copy_ = a->copy;
    there_ = true;
    return;
  }
  if (auto read = of ? of->read(from, argument, what) : std::nullopt) {
    of_ = *read;
    there_ = true;
    return;
  }
  if (PyObject_GetBuffer(from.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0)
    return forget(PyExc_Exception);
  held_ = true;
  if (what == taking::results && buffer_.readonly) refuse(std::string(argument) + ": read-only");
  read_buffer(argument);
}

void input::read_buffer(const char* argument) {
  const auto type = type_of_format(buffer_.format, buffer_.itemsize);
  if (!type) return;
  check_rank(argument, buffer_.ndim);
  there_ = true;
  of_.type = *type;
  view& v = of_.where;
  v.type = type->stored;
  v.data = buffer_.buf;
  v.rank = buffer_.ndim;
  const auto size = static_cast<std::int64_t>(size_of(v.type));
  bool whole = true;
  for (std::size_t k = 0; k < static_cast<std::size_t>(v.rank); ++k) {
    v.extent[k] = buffer_.shape[k];
    v.stride[k] = buffer_.strides[k] / size;
    whole = whole && (v.extent[k] == 1 || buffer_.strides[k] % size == 0);
  }
  if (whole || of_.size() == 0) return;
  auto room = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(buffer_.len));
  if (PyBuffer_ToContiguous(room->data(), &buffer_, buffer_.len, 'C') != 0)
    throw nb::python_error();
  copy_ = std::move(room);
  of_ = in_a_row(of_, copy_->data());
}

input::~input() {
  if (held_) PyBuffer_Release(&buffer_);
}

const described& needed(const input& x, const char* argument) {
  if (!x) refuse_type(std::string(argument) + ": no array of a type that bitfold takes");
  return *x;
}

namespace {

void check_extents(const std::vector<std::int64_t>& shape, std::uintptr_t pointer) {
  constexpr __int128 most = __int128{1} << 60;
  __int128 n = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) refuse("shape: " + std::to_string(extent) + " is negative");
    n = std::min(n * extent, most + 1);
  }
  if (n > most) refuse("shape: more than 2^60 elements");
  if (n > 0 && pointer == 0) refuse("pointer: null, of an array that has elements");
}

array describe(std::uintptr_t pointer, nb::handle type, const std::vector<std::int64_t>& shape,
               const std::optional<std::vector<std::int64_t>>& strides, int device_type,
               int device) {
  array a;
  a.of.type = parse_type("dtype", type);
  check_rank("shape", static_cast<std::int64_t>(shape.size()));
  check_extents(shape, pointer);
  a.of.where = row_major(a.of.type.stored, reinterpret_cast<const void*>(pointer), shape);
  if (strides) {
    if (strides->size() != shape.size()) refuse("strides: not one for each axis");
    std::copy(strides->begin(), strides->end(), a.of.where.stride.begin());
  }
  a.of.device_type = device_type;
  a.of.device = device;
  if (!is_aligned(a.of)) refuse_unaligned("pointer");
  return a;
}

array describe_dlpack(nb::handle capsule, const char* argument) {
  nb::ndarray<nb::ro> t;
  if (!nb::try_cast(capsule, t))
    throw nb::value_error(
        (std::string(argument) + ": a DLPack capsule that was used before").c_str());
  std::vector<std::int64_t> shape, strides;
  for (std::size_t k = 0; k < t.ndim(); ++k) {
    shape.push_back(static_cast<std::int64_t>(t.shape(k)));
    strides.push_back(t.stride(k));
  }
  const nb::dlpack::dltensor tensor{const_cast<void*>(t.data()),
                                    {t.device_type(), t.device_id()},
                                    static_cast<std::int32_t>(t.ndim()),
                                    t.dtype(),
                                    shape.data(),
                                    strides.data()};
  array a;
  a.of = described_by_dlpack(tensor, argument, taking::arrays);
  if (!a.of.where.data && a.of.size() > 0)
    refuse_type(std::string(argument) + ": a DLPack capsule without elements in memory");
  a.read_only = true;  // as far as is known
  a.tensor = std::move(t);
  if (!a.of.on_gpu() && !is_aligned(a.of)) a.copy = copy_elements(a.of);
  return a;
}

array describe_buffer(nb::object buffer, nb::handle type, const char* argument) {
  array a;
  const input x(buffer, argument);
  a.of = needed(x, argument);
  a.copy = x.copy();
  a.read_only = x.is_read_only();
  if (!type.is_none()) {
    const element_type as = parse_type("dtype", type);
    if (size_of(as.stored) != size_of(a.of.type.stored))
      refuse("dtype: of another size than the elements");
    a.of.type = as;
    a.of.where.type = as.stored;
  }
  a.owner = nb::steal(PyMemoryView_FromObject(buffer.ptr()));  // which keeps its memory as it is
  if (!a.owner.is_valid()) throw nb::python_error();
  return a;
}

bool overlap(const array& a, const array& b) {
  const auto [a_first, a_end] = bounds(a.of);
  const auto [b_first, b_end] = bounds(b.of);
  return a_first < b_end && b_first < a_end;
}

}  // namespace

void add_arrays(nb::module_& m) {
  nb::class_<array>(
      m, "Array",
      "A description of an array of any layout: strides in elements, the device as DLPack has it.")
      .def(
          "__init__",
          [](array* self, std::uintptr_t pointer, nb::handle type,
             const std::vector<std::int64_t>& shape,
             const std::optional<std::vector<std::int64_t>>& strides, int device_type, int device) {
            new (self) array(describe(pointer, type, shape, strides, device_type, device));
          },
          "pointer"_a, "dtype"_a, "shape"_a, "strides"_a = nb::none(),
          "device_type"_a = int{on_cpu}, "device"_a = 0)
      .def_static("from_dlpack", describe_dlpack, "capsule"_a, "argument"_a = "x",
                  "Of a DLPack capsule, whose tensor it keeps.")
      .def_static("from_buffer", describe_buffer, "buffer"_a, "dtype"_a = nb::none(),
                  "argument"_a = "x",
                  "Of an exporter of Python's buffer protocol, which it keeps; of another dtype of "
                  "the same size.")
      .def_prop_ro("pointer",
                   [](const array& a) { return reinterpret_cast<std::uintptr_t>(a.of.where.data); })
      .def_prop_ro("dtype", [](const array& a) { return str(a.of.type.name()); })
      .def_prop_ro(
          "shape",
          [](const array& a) {
            return shape_of({a.of.where.extent.data(), static_cast<std::size_t>(a.of.where.rank)});
          })
      .def_prop_ro(
          "strides",
          [](const array& a) {
            return shape_of({a.of.where.stride.data(), static_cast<std::size_t>(a.of.where.rank)});
          })
      .def_prop_ro("is_row_major", [](const array& a) { return a.of.is_row_major(); })
      .def_prop_ro(
          "is_copy", [](const array& a) { return a.copy != nullptr; },
          "Whether the elements were copied, as they did not lie at multiples of their size.")
      .def("overlaps", overlap, "other"_a,
           "Whether the smallest ranges of memory that hold each have a byte in common.")
      .def_prop_ro("device_type", [](const array& a) { return a.of.device_type; })
      .def_prop_ro("device", [](const array& a) { return a.of.device; });
  m.def(
      "_uses_one_thread", [] { return one_thread.load(); },
      "Whether this is a child of a process that has used more: for tests.");
}

}  // namespace bitfold::python
