// bitfold._core: the library for Python. This file knows no array library: arrays are described
// (_core.Array), or read by Python's buffer protocol, and results are made by what the caller
// passes. (tensors.cpp asks torch's tensors for new ones.)
#include "core.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>

#include <pthread.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cpu/pass.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/testing.hpp>

namespace bitfold::python {

using namespace nb::literals;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }
[[noreturn]] void refuse_type(const std::string& what) { throw nb::type_error(what.c_str()); }

std::string type_named(nb::handle x) { return nb::cast<std::string>(x.type().attr("__name__")); }

// Python's error, if it is one of that type; others, such as an interrupt, go on.
void forget(PyObject* type) {
  if (!PyErr_ExceptionMatches(type)) throw nb::python_error();
  PyErr_Clear();
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

// The type of a buffer's elements, from the format of Python's struct module.
std::optional<element_type> type_of_format(const char* format, Py_ssize_t size) {
  if (!format) return element_type{dtype::u8};
  // In this machine's order, as ctypes too has it.
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  const auto sized = [&](dtype smallest) -> std::optional<element_type> {
    for (int k = 0; k < 4; ++k)
      if (size == Py_ssize_t{1} << k)
        return element_type{static_cast<dtype>(static_cast<int>(smallest) + k)};
    return std::nullopt;
  };
  switch (*format) {
    case 'e': return element_type{dtype::f16};
    case 'f': return element_type{dtype::f32};
    case 'd': return element_type{dtype::f64};
    case '?': return element_type{dtype::u8, true};
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return sized(dtype::i8);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return sized(dtype::u8);
    default: return std::nullopt;
  }
}

void check_rank(const char* argument, std::int64_t rank) {
  if (rank > max_axes)
    refuse(std::string(argument) + ": " + std::to_string(rank) + " axes, where at most " +
           std::to_string(max_axes) + " are taken");
}

}  // namespace

std::optional<element_type> type_of_dlpack(const nb::dlpack::dtype& t) {
  using code = nb::dlpack::dtype_code;
  if (t.lanes != 1) return std::nullopt;
  const auto sized = [&](dtype smallest) -> std::optional<element_type> {
    for (int k = 0; k < 4; ++k)
      if (t.bits == 8 << k) return element_type{static_cast<dtype>(static_cast<int>(smallest) + k)};
    return std::nullopt;
  };
  switch (static_cast<code>(t.code)) {
    case code::Int: return sized(dtype::i8);
    case code::UInt: return sized(dtype::u8);
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
void look_after_forks() {
  pthread_atfork(nullptr, nullptr, [] { one_thread = used_threads.load(), is_child = true; });
}
}  // namespace

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

// Of each element by itself: 0 or 1.
const reduction truth_of_one = make_reduction(op_id::any, {}, dtype::u8);

described in_a_row(const described& x, const void* data) {
  described y = x;
  y.where = row_major(x.type.stored, data,
                      {x.where.extent.data(), static_cast<std::size_t>(x.where.rank)});
  return y;
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

BITFOLD_FOR_EVERY_CPU std::uint64_t count_truths(const std::uint8_t* x, std::size_t n) {
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

bool has_other_bytes(const described& x) {
  const auto [first, end] = bounds(x);
  const std::uint64_t span = static_cast<std::uint64_t>(end - first), n = x.size();
  // What lies between may be other than bool. (It is read where that is likely to answer the
  // question, and faster.)
  if (span <= 8 * n &&
      sum_over<static_cast<bool (*)(const std::uint8_t*, std::size_t)>(has_other_bytes)>(
          reinterpret_cast<const std::uint8_t*>(first), span, how_for(x)) == 0)
    return false;
  if (span <= n) return true;
  const reduction most = make_reduction(op_id::max, {}, dtype::u8);
  std::uint8_t found = 0;
  void* const to = &found;
  constexpr int axes[max_axes] = {0, 1, 2, 3, 4, 5, 6, 7};
  cpu::reduce({&most, 1}, x.where, nullptr, {axes, static_cast<std::size_t>(x.where.rank)},
              {&to, 1}, how_for(x));
  return found > 1;
}

}  // namespace

described with_truths(const described& x, std::vector<std::byte>& room) {
  const without_lock free(worth_the_lock(x));
  if (!has_other_bytes(x)) return x;
  room.resize(x.size());
  void* const to = room.data();
  cpu::reduce({&truth_of_one, 1}, x.where, nullptr, {}, {&to, 1}, how_for(x));
  return in_a_row(x, to);
}

// ---- Inputs -------------------------------------------------------------------------------------

input::input(nb::handle from, const char* argument, bool writable) {
  if (from.is_none()) return;
  if (array* a; nb::try_cast(from, a)) {
    of_ = a->of;
    there_ = true;
    return;
  }
  if (PyObject_GetBuffer(from.ptr(), &buffer_, writable ? PyBUF_RECORDS : PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    return;
  }
  held_ = true;
  read_buffer(argument);
}

void input::read_buffer(const char* argument) {
  const auto type = type_of_format(buffer_.format, buffer_.itemsize);
  if (!type) return;
  check_rank(argument, buffer_.ndim);
  of_.type = *type;
  view& v = of_.where;
  v.type = type->stored;
  v.data = buffer_.buf;
  v.rank = buffer_.ndim;
  const auto size = static_cast<std::int64_t>(size_of(v.type));
  bool aligned = reinterpret_cast<std::uintptr_t>(v.data) % static_cast<std::uintptr_t>(size) == 0,
       any = true;
  for (std::size_t k = 0; k < static_cast<std::size_t>(v.rank); ++k) {
    v.extent[k] = buffer_.shape[k];
    v.stride[k] = buffer_.strides[k] / size;
    any = any && v.extent[k] != 0;
    aligned = aligned && (v.extent[k] == 1 || buffer_.strides[k] % size == 0);
  }
  there_ = aligned || !any;
}

input::~input() {
  if (held_) PyBuffer_Release(&buffer_);
}

const described& needed(const input& x, const char* argument) {
  if (!x) refuse_type(std::string(argument) + ": no array of a type that bitfold takes");
  return *x;
}

namespace {

array describe(std::uintptr_t pointer, nb::handle type, const std::vector<std::int64_t>& shape,
               const std::optional<std::vector<std::int64_t>>& strides, int device_type,
               int device) {
  array a;
  a.of.type = parse_type("dtype", type);
  check_rank("shape", static_cast<std::int64_t>(shape.size()));
  a.of.where = row_major(a.of.type.stored, reinterpret_cast<const void*>(pointer), shape);
  if (strides) {
    if (strides->size() != shape.size()) refuse("strides: not one for each axis");
    std::copy(strides->begin(), strides->end(), a.of.where.stride.begin());
  }
  a.of.device_type = device_type;
  a.of.device = device;
  return a;
}

array describe_dlpack(nb::handle capsule, const char* argument) {
  auto t = nb::cast<nb::ndarray<nb::ro>>(capsule);
  const auto type = type_of_dlpack(t.dtype());
  if (!type)
    refuse_type(std::string(argument) + ": elements of DLPack's type code " +
                std::to_string(t.dtype().code) + ", " + std::to_string(t.dtype().bits) + " bits");
  check_rank(argument, static_cast<std::int64_t>(t.ndim()));
  array a;
  a.of.type = *type;
  a.of.where = {type->stored, t.data(), static_cast<int>(t.ndim()), {}, {}};
  for (std::size_t k = 0; k < t.ndim(); ++k) {
    a.of.where.extent[k] = static_cast<std::int64_t>(t.shape(k));
    a.of.where.stride[k] = t.stride(k);
  }
  a.of.device_type = t.device_type();
  a.of.device = t.device_id();
  a.tensor = std::move(t);
  return a;
}

array describe_buffer(nb::object buffer, nb::handle type, const char* argument) {
  array a;
  const input x(buffer, argument);
  a.of = needed(x, argument);
  if (!type.is_none()) {
    const element_type as = parse_type("dtype", type);
    if (size_of(as.stored) != size_of(a.of.type.stored))
      refuse("dtype: of another size than the elements");
    a.of.type = as;
    a.of.where.type = as.stored;
  }
  a.owner = std::move(buffer);
  return a;
}

bool overlap(const array& a, const array& b) {
  const auto [a_first, a_end] = bounds(a.of);
  const auto [b_first, b_end] = bounds(b.of);
  return a_first < b_end && b_first < a_end;
}

// ---- What to reduce -----------------------------------------------------------------------------

std::optional<method_id> parse_method_or_none(nb::handle given) {
  if (given.is_none()) return std::nullopt;
  const std::string text = string_argument("method", given);
  if (const auto m = parse_method(text)) return m;
  std::string known;
  for (const method_info& m : all_methods)
    known += (known.empty() ? "" : ", ") + std::string(m.name);
  refuse("method: '" + text + "' is none of " + known);
}

op_id parse_op_or_refuse(nb::handle given) {
  const std::string text = string_argument("op", given);
  if (const auto op = parse_op(text)) return *op;
  refuse("op: there is no '" + text + "'");
}

std::optional<dtype> parse_dtype_or_none(const char* argument, nb::handle given) {
  if (given.is_none()) return std::nullopt;
  return parse_number(argument, given);
}

/// What a call throws, with the argument's name in Python.
template <class Call>
decltype(auto) renaming(Call call) {
  try {
    return call();
  } catch (const error& e) {
    const std::string_view what = e.what();
    for (const auto& [ours, theirs] :
         {std::pair<std::string_view, std::string_view>{"out dtype:", "dtype:"},
          {"n:", "x:"},
          {"output ", "x: output "}})
      if (what.starts_with(ours))
        throw error(e.code(), std::string(theirs) + std::string(what.substr(ours.size())));
    throw;
  }
}

/// Whether it is a product of integers as floats, of which there is no exact one; of bools it is 0
/// or 1.
bool multiplies_as_floats(op_id op, element_type in, std::optional<dtype> acc,
                          std::optional<dtype> as) {
  return info(op).types == typing::additive && !info(op).has_exact && !is_float(in.stored) &&
         !in.is_bool && !acc && as && is_float(*as);
}

/// `as` is what NumPy and PyTorch call dtype: the type of the result, and what is computed with on
/// the way to it is no narrower. Of floats that is an accumulator of f64 for f64, where none is
/// asked for. Of integers a sum as a float is the true sum rounded once (method exact), and not one
/// modulo 2^64; a product is refused.
reduction made(op_id op, std::optional<method_id> method, element_type elements,
               std::optional<dtype> acc, std::optional<dtype> as, int ddof) {
  const dtype in = elements.stored;
  const auto out = as || !elements.is_bool ? as : std::optional(default_out_of_bool(op));
  const auto with = [&](std::optional<method_id> m, std::optional<dtype> a) {
    return renaming([&] { return make_reduction(op, m, in, a, out, ddof); });
  };
  const reduction asked = with(method, acc);
  if (multiplies_as_floats(op, elements, acc, as))
    refuse("dtype: " + std::string(name(op)) + " of " + std::string(name(in)) +
           " is computed modulo 2^64 (acc), and not in " + std::string(name(*as)) +
           " here; convert x to a float type first");
  if (!as || acc || !is_float(*as) || method == method_id::exact) return asked;
  if (is_float(in))
    return *as == dtype::f64 && takes_acc(op, method, in, *as) ? with(method, as) : asked;
  const bool adds = info(op).types == typing::additive;
  return adds && info(op).has_exact ? with(method_id::exact, {}) : asked;
}

/// Whether there is such a reduction.
bool offers(op_id op, std::optional<method_id> method, element_type elements,
            std::optional<dtype> acc, std::optional<dtype> as, int ddof) {
  return bitfold::offers(op, method, elements.stored, acc, as, ddof) &&
         !multiplies_as_floats(op, elements, acc, as);
}

/// What is asked for, of elements of a type yet to come.
class request {
 public:
  request(op_id op, std::optional<method_id> method, std::optional<dtype> acc,
          std::optional<dtype> out, int ddof)
      : op_(op), method_(method), acc_(acc), out_(out), ddof_(ddof) {}

  op_id op() const { return op_; }
  const reduction& of(element_type in) {
    auto& r = known_[in.index()];
    if (!r) r = made(op_, method_, in, acc_, out_, ddof_);
    return *r;
  }
  /// An operation that only asks of each byte whether it is 0, and gives the same of one bool or
  /// more; nothing where there is none.
  const std::optional<reduction>& by_truth() {
    if (!by_truth_) by_truth_ = made_by_truth();
    return *by_truth_;
  }
  bool asks_for_truth() const {
    return op_ == op_id::any || op_ == op_id::all || op_ == op_id::count_nonzero;
  }
  /// Whether it is of elements that are converted to floats first, as there is no exact product.
  bool multiplies_as_floats(element_type in) const {
    return python::multiplies_as_floats(op_, in, acc_, out_);
  }
  bool counts_truths() { return by_truth() && by_truth()->op() == op_id::count_nonzero; }
  element_type result(element_type in) {
    const reduction& r = of(in);
    const typing types = info(op_).types;
    return {r.out(), types == typing::truth || (types == typing::same && in.is_bool)};
  }

 private:
  std::optional<reduction> made_by_truth() {
    const auto as = [](op_id op) { return make_reduction(op, {}, dtype::u8); };
    if (asks_for_truth()) return of(of_bool);
    switch (op_) {
      case op_id::max:
      case op_id::nanmax:  // of no elements 0, as any is; and min is, but not all
        return as(op_id::any);
      case op_id::sum:
      case op_id::nansum:
      case op_id::sum_squares:
        return of(of_bool).out() == dtype::i64 && method_ != method_id::sequential
                   ? std::optional(as(op_id::count_nonzero))
                   : std::nullopt;
      default: return std::nullopt;
    }
  }

  static constexpr element_type of_bool{dtype::u8, true};
  op_id op_;
  std::optional<method_id> method_;
  std::optional<dtype> acc_, out_;
  int ddof_;
  std::optional<std::optional<reduction>> by_truth_;
  std::array<std::optional<reduction>, element_types> known_;
};

// ---- Results ------------------------------------------------------------------------------------

/// Makes NumPy's arrays and scalars, without knowing them: of each type the 0-d array that it was
/// shown.
class results {
 public:
  explicit results(nb::object empty) : empty_(std::move(empty)) {}

  /// `cell`: a 0-d array that exports its memory; `shown`: of the type that the user sees, the same
  /// memory.
  void add(nb::handle type, nb::object cell, nb::object shown) {
    one& t = each_[parse_type("dtype", type).index()];
    const input memory(cell, "cell", true);
    t.data = const_cast<void*>(needed(memory, "cell").where.data);
    t.stored = cell.attr("dtype");
    if (!cell.is(shown)) t.as = shown.attr("dtype");
    t.cell = std::move(cell);
    t.shown = std::move(shown);
  }

  /// Whether x may be read by the buffer protocol: an array of the type of the cells, and none of a
  /// subclass, which may mean something else by its memory.
  bool knows(nb::handle x) const {
    return x.is_none() || nb::isinstance<array>(x) ||
           Py_TYPE(x.ptr()) == Py_TYPE(each_[0].cell.ptr());
  }

  nb::object scalar_of(element_type type, std::uint64_t bits) const {
    const one& t = find(type);
    std::memcpy(t.data, &bits, size_of(type.stored));
    return nb::steal(check(PyObject_GetItem(t.shown.ptr(), nothing_.ptr())));
  }
  nb::object empty(element_type type, const nb::tuple& shape) const {
    return empty_(shape, find(type).stored);
  }
  nb::object shown(element_type type, nb::object made) const {
    const one& t = find(type);
    return t.as.is_valid() ? made.attr("view")(t.as) : made;
  }
  nb::object item(nb::handle made) const {
    return nb::steal(check(PyObject_GetItem(made.ptr(), nothing_.ptr())));
  }

 private:
  struct one {
    nb::object stored, as, cell, shown;
    void* data = nullptr;
  };
  static PyObject* check(PyObject* p) {
    if (!p) throw nb::python_error();
    return p;
  }
  const one& find(element_type type) const {
    const one& t = each_[type.index()];
    if (!t.data) refuse_type("dtype: " + std::string(type.name()) + " needs the package ml_dtypes");
    return t;
  }
  nb::object empty_;
  nb::tuple nothing_ = nb::make_tuple();
  std::array<one, element_types> each_;
};

// An output: made by `results`, or by a function of the shape and the name of the type that gives
// the object and its address.
class output {
 public:
  output(const results* numpy, nb::handle make, element_type type, const nb::tuple& shape)
      : numpy_(numpy), type_(type) {
    if (numpy) {
      made_ = numpy->empty(type, shape);
      memory_.emplace(made_, "out", true);
      address_ = const_cast<void*>(needed(*memory_, "out").where.data);
    } else {
      const nb::object both = make(shape, str(type.name()));
      made_ = both[0];
      address_ = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(both[1]));
    }
  }
  void* address() const { return address_; }
  nb::object taken(bool as_scalar) {
    memory_.reset();
    if (!numpy_) return made_;
    const nb::object shown = numpy_->shown(type_, made_);
    return as_scalar ? numpy_->item(shown) : shown;
  }

 private:
  const results* numpy_;
  element_type type_;
  nb::object made_;
  std::optional<input> memory_;
  void* address_;
};

// ---- Calls --------------------------------------------------------------------------------------

struct axes_list {
  int count = 0;
  std::array<int, max_axes> each{};
  operator std::span<const int>() const { return {each.data(), static_cast<std::size_t>(count)}; }
};

axes_list parse_axes(nb::handle axis, int rank) {
  std::array<bool, max_axes> chosen{};
  const auto add = [&](std::int64_t a) {
    if (a < -rank || a >= rank)
      refuse("axis: " + std::to_string(a) + " of an array of " + std::to_string(rank) + " axes");
    bool& one = chosen[static_cast<std::size_t>(a < 0 ? a + rank : a)];
    if (one) refuse("axis: " + std::to_string(a) + " is given twice");
    one = true;
  };
  if (axis.is_none())
    for (int k = 0; k < rank; ++k) add(k);
  else if (PyTuple_Check(axis.ptr()))
    for (const nb::handle a : nb::borrow<nb::tuple>(axis)) add(integer("axis", a));
  else
    add(integer("axis", axis));
  axes_list axes;
  for (int k = 0; k < rank; ++k)
    if (chosen[static_cast<std::size_t>(k)]) axes.each[static_cast<std::size_t>(axes.count++)] = k;
  return axes;
}

const described& larger(const described& x, const described* y) {
  return y && y->size() > x.size() ? *y : x;
}

void check_pair(const described& x, const described* y) {
  if (!y) return;
  if (!(x.type == y->type))
    refuse("y: " + std::string(y->type.name()) + ", and x is " + std::string(x.type.name()));
  if (x.on_gpu() != y->on_gpu() || (x.on_gpu() && x.device != y->device))
    refuse("y: on another device than x");
}

std::vector<request*> requests_of(nb::handle given) {
  std::vector<request*> all;
  if (request* one; nb::try_cast(given, one))
    all.push_back(one);
  else
    for (const nb::handle r : given) all.push_back(nb::cast<request*>(r));
  return all;
}

using stream_address = std::uintptr_t;
cuda::stream stream_at(stream_address s) { return reinterpret_cast<cuda::stream>(s); }

// Whether f is true of everything that is asked for.
template <class F>
bool all_requests(nb::handle given, F f) {
  if (request* one; nb::try_cast(given, one)) return f(*one);
  for (const nb::handle r : given)
    if (!f(*nb::cast<request*>(r))) return false;
  return true;
}

// Whether all that is asked for of bools can be had whatever their bytes are; on a GPU by another
// operation (by_truth).
bool takes_any_byte(nb::handle requests, const described& x) {
  return all_requests(requests, [&](request& r) {
    return x.on_gpu() ? r.by_truth().has_value() : r.asks_for_truth();
  });
}

// The inputs of a reduction as they are read. Bools have the bytes 0 and 1 alone, where others
// would be taken for numbers: on a CPU they are copied if they have others, and on a GPU always,
// since to look would be to wait. What is to be multiplied as floats is copied to f64.
class inputs_of {
 public:
  const described *x, *y;
  inputs_of(nb::handle requests, const described& x_given, const described* y_given,
            nb::handle allocate, stream_address stream)
      : x(&x_given), y(y_given), allocate_(allocate), stream_(stream) {
    if (is_float(x->type.stored)) return;
    if (x->type.is_bool && !takes_any_byte(requests, *x)) {
      x = truths(*x);
      if (y) y = truths(*y);
    }
    if (all_requests(requests, [&](request& r) { return r.multiplies_as_floats(x->type); }))
      x = copied(*x, make_reduction(op_id::mean, {}, x->type.stored));  // of each element by itself
  }

 private:
  struct copy {
    described of;
    std::vector<std::byte> room;
    std::optional<workspace> on_gpu;
  };

  const described* truths(const described& of) {
    if (of.on_gpu()) return copied(of, truth_of_one);
    copy& c = next();
    c.of = with_truths(of, c.room);
    return &c.of;
  }
  const described* copied(const described& of, const reduction& each) {
    copy& c = next();
    void* to = nullptr;
    const std::size_t bytes = of.size() * size_of(each.out());
    if (of.on_gpu()) {
      to = c.on_gpu.emplace(of, allocate_, bytes).address;
      const workspace room(of, allocate_, cuda::workspace_bytes({&each, 1}, of.where, nullptr, {}));
      const nb::gil_scoped_release free;
      if (bytes > 0)
        cuda::reduce({&each, 1}, of.where, nullptr, {}, {&to, 1}, room.address, room.size,
                     stream_at(stream_));
    } else {
      c.room.resize(bytes);
      to = c.room.data();
      const without_lock free(worth_the_lock(of));
      cpu::reduce({&each, 1}, of.where, nullptr, {}, {&to, 1}, how_for(of));
    }
    c.of = in_a_row(of, to);
    if (each.op() != op_id::any) c.of.type = {c.of.where.type = each.out()};
    return &c.of;
  }
  copy& next() { return copies_[used_++].emplace(); }

  nb::handle allocate_;
  stream_address stream_;
  std::array<std::optional<copy>, 3> copies_;
  std::size_t used_ = 0;
};

std::vector<reduction> reductions_of(nb::handle requests, const described& x) {
  const bool by_truth = x.type.is_bool && x.on_gpu() && x.size() > 0 && takes_any_byte(requests, x);
  std::vector<reduction> all;
  for (request* r : requests_of(requests)) all.push_back(by_truth ? *r->by_truth() : r->of(x.type));
  return all;
}

// Makes the outputs, has `run` fill them, and hands them over: one for one request, a tuple for a
// list of them.
template <class Run>
nb::object with_outputs(nb::handle given, const described& x, std::span<const std::int64_t> extents,
                        nb::handle make, Run run) {
  const std::vector<request*> all = requests_of(given);
  const std::vector<reduction> reductions = reductions_of(given, x);
  results* numpy = nullptr;
  nb::try_cast(make, numpy);
  const nb::tuple shape = shape_of(extents);
  std::vector<void*> addresses;
  std::vector<std::unique_ptr<output>> outputs;
  for (request* r : all) {
    outputs.push_back(std::make_unique<output>(numpy, make, r->result(x.type), shape));
    addresses.push_back(outputs.back()->address());
  }
  renaming([&] { run(reductions, std::span<void* const>(addresses)); });
  if (all.size() == 1 && nb::isinstance<request>(given)) return outputs[0]->taken(extents.empty());
  nb::list list;
  for (const auto& o : outputs) list.append(o->taken(extents.empty()));
  return nb::tuple(list);
}

// As NumPy has it, an integer too; and its bool, which has no index.
bool truth_of(nb::handle given, const char* argument) {
  if (PyBool_Check(given.ptr())) return given.ptr() == Py_True;
  if (PyIndex_Check(given.ptr())) {
    const Py_ssize_t value = PyNumber_AsSsize_t(given.ptr(), nullptr);
    if (value != -1 || !PyErr_Occurred()) return value != 0;
    PyErr_Clear();
  }
  if (nb::cast<std::string>(given.type().attr("__module__")) == "numpy" &&
      nb::cast<std::string>(given.type().attr("__name__")).starts_with("bool"))
    return PyObject_IsTrue(given.ptr()) == 1;
  throw nb::type_error(
      (std::string(argument) + ": " + nb::repr(given).c_str() + " is neither true nor false")
          .c_str());
}

constexpr bool by_reference = true;

template <bool Reference = false>
nb::object reduce(nb::handle requests, nb::handle x_given, nb::handle y_given, nb::handle axis,
                  nb::handle keepdims, nb::handle make, stream_address stream,
                  nb::handle allocate) {
  request* one = nullptr;
  results* numpy = nullptr;
  if (nb::try_cast(make, numpy) && !(numpy->knows(x_given) && numpy->knows(y_given)))
    return nb::borrow(Py_NotImplemented);
  const input x_in(x_given, "x"), y_in(y_given, "y");
  if (!x_in || (!y_in && !y_given.is_none())) return nb::borrow(Py_NotImplemented);
  check_pair(*x_in, y_in ? &*y_in : nullptr);
  const bool truth = truth_of(keepdims, "keepdims");
  // A whole array that lies in a row needs no view.
  const bool flat = !Reference && axis.is_none() && !truth && !x_in->on_gpu() &&
                    x_in->is_row_major() && numpy && nb::try_cast(requests, one);
  if (flat && x_in->type.is_bool && one->counts_truths()) {
    std::uint64_t count;
    {
      const without_lock free(worth_the_lock(*x_in));
      count = sum_over<count_truths>(static_cast<const std::uint8_t*>(x_in->where.data),
                                     x_in->size(), how_for(*x_in));
    }
    return numpy->scalar_of({dtype::i64}, count);
  }
  std::optional<inputs_of> read;  // floats are read as they are
  if (!is_float(x_in->type.stored))
    read.emplace(requests, *x_in, y_in ? &*y_in : nullptr, allocate, stream);
  const described& x = read ? *read->x : *x_in;
  const described* const second = read ? read->y : y_in ? &*y_in : nullptr;
  if (flat && (!second || (second->is_row_major() && x.where.rank == second->where.rank &&
                           x.where.extent == second->where.extent))) {
    const reduction& r = one->of(x.type);
    scalar result;
    {
      const without_lock free(worth_the_lock(x));
      result = renaming([&] {
        return cpu::reduce(r, x.where.data, second ? second->where.data : nullptr, x.size(),
                           how_for(x));
      });
    }
    return numpy->scalar_of(one->result(x.type), result.bits);
  }
  const int rank = std::max(x.where.rank, second ? second->where.rank : 0);
  const axes_list axes = parse_axes(axis, rank);
  const view* const other = second ? &second->where : nullptr;
  const auto extents = result_extents(x.where, other, axes, truth);
  return with_outputs(
      requests, x, extents, make, [&](std::span<const reduction> all, std::span<void* const> out) {
        if constexpr (Reference) {
          for (std::size_t k = 0; k < all.size(); ++k)
            reference(all[k], x.where, other, axes, out[k]);
        } else if (x.on_gpu()) {
          const workspace room(x, allocate, cuda::workspace_bytes(all, x.where, other, axes));
          const nb::gil_scoped_release free;
          cuda::reduce(all, x.where, other, axes, out, room.address, room.size, stream_at(stream));
        } else {
          const described& work = larger(x, second);
          const without_lock free(worth_the_lock(work));
          cpu::reduce(all, x.where, other, axes, out, how_for(work));
        }
      });
}

// What a GPU would be asked for such arrays.
cuda::request gpu_request(nb::handle requests, nb::handle x_given, nb::handle y_given,
                          nb::handle axis) {
  const input x(x_given, "x"), y(y_given, "y");
  const described& of = needed(x, "x");
  check_pair(of, y ? &*y : nullptr);
  const view* const other = y ? &y->where : nullptr;
  const axes_list axes =
      parse_axes(axis, std::max(of.where.rank, other ? other->rank : 0));
  const std::vector<reduction> all = reductions_of(requests, of);
  return renaming([&] { return cuda::request::axes(all, of.where, other, axes); });
}

// One axis, one element after the other, on the device of x.
const described& flat(const input& given, const char* argument, const described* x = nullptr) {
  const described& a = needed(given, argument);
  if (a.where.rank != 1)
    refuse(std::string(argument) + ": " + std::to_string(a.where.rank) +
           " axes, where one is taken");
  if (!a.is_row_major()) refuse(std::string(argument) + ": its elements do not lie in a row");
  if (x && (a.on_gpu() != x->on_gpu() || (a.on_gpu() && a.device != x->device)))
    refuse(std::string(argument) + ": on another device than x");
  return a;
}
// x, and y where there is one: of one type and length, on one device.
class flat_inputs {
  input x_in_, y_in_;

 public:
  flat_inputs(nb::handle x_given, nb::handle y_given)
      : x_in_(x_given, "x"),
        y_in_(y_given, "y"),
        x(flat(x_in_, "x")),
        y(y_given.is_none() ? nullptr : &flat(y_in_, "y")) {
    check_pair(x, y);
    if (y && y->size() != x.size()) refuse("y: not of the length of x");
  }
  const described& x;
  const described* const y;
};
std::span<const std::int64_t> indices(const described& a, const char* argument) {
  if (!(a.type == element_type{dtype::i64}))
    refuse_type(std::string(argument) + ": " + std::string(a.type.name()) + ", where i64 is taken");
  return {static_cast<const std::int64_t*>(a.where.data), a.size()};
}

// `check`: whether to look at offsets in device memory first, which waits for them. In host memory
// they are looked at anyway.
nb::object reduce_segments(nb::handle requests, nb::handle x_given, nb::handle y_given,
                           nb::handle offsets_given, bool check, nb::handle make,
                           stream_address stream, nb::handle allocate) {
  const flat_inputs in(x_given, y_given);
  const input offsets_in(offsets_given, "offsets");
  const described& x = in.x;
  const auto offsets = indices(flat(offsets_in, "offsets", &x), "offsets");
  if (offsets.empty()) refuse("offsets: none, where there is one more than there are segments");
  const std::int64_t extent = static_cast<std::int64_t>(offsets.size()) - 1;
  if (check && x.on_gpu()) {
    const cuda::current_device here(x.device);
    const nb::gil_scoped_release free;
    cuda::check_offsets(offsets.data(), offsets.size() - 1, x.size(), stream_at(stream));
  }
  const inputs_of read(requests, x, in.y, allocate, stream);
  const void* const data = read.x->where.data;
  const void* const second = read.y ? read.y->where.data : nullptr;
  return with_outputs(
      requests, *read.x, {&extent, 1}, make,
      [&](std::span<const reduction> all, std::span<void* const> out) {
        if (x.on_gpu()) {
          const workspace room(x, allocate,
                               cuda::segments_workspace_bytes(all, x.size(), offsets.size() - 1));
          const nb::gil_scoped_release free;
          cuda::reduce_segments(all, data, second, x.size(), offsets.data(), offsets.size() - 1,
                                out, room.address, room.size, stream_at(stream));
        } else {
          const without_lock free(worth_the_lock(x));
          cpu::reduce_segments(all, data, second, x.size(), offsets, out, how_for(x));
        }
      });
}

nb::object reduce_by_key(nb::handle requests, nb::handle x_given, nb::handle y_given,
                         nb::handle keys_given, nb::handle count, bool check, nb::handle make,
                         stream_address stream, nb::handle allocate) {
  const flat_inputs in(x_given, y_given);
  const input keys_in(keys_given, "keys");
  const described& x = in.x;
  const auto keys = indices(flat(keys_in, "keys", &x), "keys");
  if (keys.size() != x.size())
    refuse("keys: " + std::to_string(keys.size()) + " of them for " + std::to_string(x.size()) +
           " elements");
  const std::int64_t extent = integer("outputs", count);
  if (extent < 0) refuse("outputs: " + std::to_string(extent) + " is negative");
  if (check && x.on_gpu()) {
    const cuda::current_device here(x.device);
    const nb::gil_scoped_release free;
    cuda::check_keys(keys.data(), keys.size(), static_cast<std::size_t>(extent), stream_at(stream));
  }
  const inputs_of read(requests, x, in.y, allocate, stream);
  const void* const data = read.x->where.data;
  const void* const second = read.y ? read.y->where.data : nullptr;
  return with_outputs(requests, *read.x, {&extent, 1}, make,
                      [&](std::span<const reduction> all, std::span<void* const> out) {
                        const auto outputs = static_cast<std::size_t>(extent);
                        if (x.on_gpu()) {
                          const workspace room(
                              x, allocate, cuda::by_key_workspace_bytes(all, x.size(), outputs));
                          const nb::gil_scoped_release free;
                          cuda::reduce_by_key(all, data, second, x.size(), keys.data(), outputs,
                                              out, room.address, room.size, stream_at(stream));
                        } else {
                          const without_lock free(worth_the_lock(x));
                          cpu::reduce_by_key(all, data, second, keys, outputs, out, how_for(x));
                        }
                      });
}

// Of a whole array in host memory, to addresses of the caller's.
void reduce_all_into(const std::vector<reduction>& all, const array& x,
                     const std::vector<std::uintptr_t>& out) {
  if (x.of.on_gpu()) refuse("x: on a GPU, where an array in host memory is taken");
  std::vector<void*> to;
  for (const auto a : out) to.push_back(reinterpret_cast<void*>(a));
  const axes_list axes = parse_axes(nb::none(), x.of.where.rank);
  std::vector<std::byte> room;
  const described of = x.of.type.is_bool ? with_truths(x.of, room) : x.of;
  const nb::gil_scoped_release free;
  cpu::reduce(all, of.where, nullptr, axes, to, how_for(of));
}

// ---- The registry -------------------------------------------------------------------------------

nb::list ops() {
  constexpr std::string_view typings[] = {"additive", "real",  "wide", "same",
                                          "place",    "count", "truth"};
  constexpr std::string_view empties[] = {"0", "1", "NaN", "-inf", "refused"};
  nb::list all;
  for (const op_info& op : all_op_infos) {
    nb::dict d;
    d["name"] = str(op.name);
    d["inputs"] = op.inputs;
    d["takes_method"] = op.takes_method;
    d["has_exact"] = op.has_exact;
    d["takes_acc"] = takes_acc(op.id);
    d["takes_dtype"] = takes_out(op.id);
    d["takes_ddof"] = takes_ddof(op.id);
    d["types"] = str(typings[static_cast<int>(op.types)]);
    d["empty"] = str(empties[static_cast<int>(op.empty)]);
    d["summary"] = str(op.summary);
    all.append(d);
  }
  return all;
}

nb::list methods() {
  nb::list all;
  for (const method_info& m : all_methods) {
    nb::dict d;
    d["name"] = str(m.name);
    d["on_gpu"] = m.on_gpu();
    d["summary"] = str(m.summary);
    all.append(d);
  }
  return all;
}

nb::list dtypes() {
  nb::list all;
  for (const dtype t : all_dtypes)
    all.append(nb::make_tuple(str(name(t)), size_of(t), is_float(t)));
  return all;
}

// ---- Comparing ----------------------------------------------------------------------------------

scalar parse_scalar(nb::handle type, std::uint64_t bits) {
  return {parse_type("dtype", type).stored, bits};
}

// Both row-major, of one type and length; u64 to `out`.
void ulp_distances(nb::handle a_given, nb::handle b_given, nb::handle out_given) {
  const input a(a_given, "a"), b(b_given, "b"), out(out_given, "out", true);
  const described &x = needed(a, "a"), &y = needed(b, "b"), &to = needed(out, "out");
  if (!(x.type == y.type))
    refuse_type("b: " + std::string(y.type.name()) + ", and a is " + std::string(x.type.name()));
  if (x.size() != y.size() || x.size() != to.size() || !x.is_row_major() || !y.is_row_major() ||
      !to.is_row_major())
    refuse("b: not laid out as a is");
  const std::size_t size = size_of(x.type.stored);
  for (std::uint64_t i = 0; i < x.size(); ++i) {
    const auto at = [&](const described& d) {
      return load_scalar(d.type.stored, static_cast<const std::byte*>(d.where.data) + i * size);
    };
    static_cast<std::uint64_t*>(const_cast<void*>(to.where.data))[i] =
        testing::ulp_distance(at(x), at(y));
  }
}

std::string order_text(std::uint64_t n, nb::handle method, nb::handle format) {
  const std::string text = string_argument("format", format);
  const auto m = parse_method_or_none(method).value_or(method_id::tree);
  for (const auto& [known, f] : {std::pair{"text", order_format::text},
                                 {"expression", order_format::expression},
                                 {"dot", order_format::dot}})
    if (text == known) return print_order(n, m, f);
  refuse("format: '" + text + "' is none of text, expression, dot");
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  look_after_forks();
  m.doc() = "bitfold's C++ library: see bitfold._arrays and bitfold.torch._engine.";
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const error& e) {
      const bool of_the_device = e.code() == errc::cuda || e.code() == errc::no_device;
      PyErr_SetString(of_the_device ? PyExc_RuntimeError : PyExc_ValueError, e.what());
    }
  });
  m.attr("version") = BITFOLD_VERSION;
  m.attr("order_version") = order::version;
  m.def("ops", ops, "The registry of operations.");
  m.def("methods", methods, "The registry of methods.");
  m.def("dtypes", dtypes, "Name, size in bytes, whether it is a float, of each element type.");
  m.def("cuda_devices", cuda::devices, "The names of the GPUs.");
  m.def("gpu_compiler", cuda::compiler, "What compiles kernels for GPUs; empty: nothing.");
  m.def("look_for_compiler_at", cuda::look_for_compiler_at, "path"_a,
        "A library of NVRTC to try first.");
  m.def(
      "explain",
      [](nb::handle requests, nb::handle x, nb::handle y, nb::handle axis) {
        return gpu_request(requests, x, y, axis).explain();
      },
      "requests"_a, "x"_a, "y"_a.none(), "axis"_a.none(), "What a GPU would do.");
  m.def(
      "prepare",
      [](nb::handle requests, nb::handle x, nb::handle y, nb::handle axis) {
        const cuda::request asked = gpu_request(requests, x, y, axis);
        const nb::gil_scoped_release free;
        asked.prepare();
      },
      "requests"_a, "x"_a, "y"_a.none(), "axis"_a.none(), "Compiles what it would do that with.");
  m.def(
      "synchronize",
      [](std::uintptr_t stream) { cuda::synchronize(reinterpret_cast<cuda::stream>(stream)); },
      "stream"_a, nb::call_guard<nb::gil_scoped_release>(), "Waits for what is enqueued there.");

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
      .def("overlaps", overlap, "other"_a,
           "Whether the smallest ranges of memory that hold each have a byte in common.")
      .def_prop_ro("device_type", [](const array& a) { return a.of.device_type; })
      .def_prop_ro("device", [](const array& a) { return a.of.device; });

  nb::class_<reduction>(
      m, "Reduction",
      "An operation on elements of a type, in an accumulator, rounded to an output type.")
      .def(
          "__init__",
          [](reduction* self, nb::handle op, nb::handle method, nb::handle in, nb::handle acc,
             nb::handle out, int ddof) {
            new (self) reduction(made(parse_op_or_refuse(op), parse_method_or_none(method),
                                      parse_type("in_", in), parse_dtype_or_none("acc", acc),
                                      parse_dtype_or_none("dtype", out), ddof));
          },
          "op"_a, "method"_a.none(), "in_"_a, "acc"_a.none() = nb::none(),
          "out"_a.none() = nb::none(), "ddof"_a = 0)
      .def_prop_ro("op", [](const reduction& r) { return str(name(r.op())); })
      .def_prop_ro("method",
                   [](const reduction& r) -> nb::object {
                     return r.method() ? nb::object(str(name(*r.method()))) : nb::none();
                   })
      .def_prop_ro("in_", [](const reduction& r) { return str(name(r.in())); })
      .def_prop_ro("acc", [](const reduction& r) { return str(name(r.acc())); })
      .def_prop_ro("out", [](const reduction& r) { return str(name(r.out())); })
      .def_prop_ro("ddof", &reduction::ddof);

  m.def(
      "offers",
      [](nb::handle op, nb::handle method, nb::handle in, nb::handle acc, nb::handle out,
         int ddof) {
        return offers(parse_op_or_refuse(op), parse_method_or_none(method), parse_type("in_", in),
                      parse_dtype_or_none("acc", acc), parse_dtype_or_none("dtype", out), ddof);
      },
      "op"_a, "method"_a.none(), "in_"_a, "acc"_a.none() = nb::none(), "out"_a.none() = nb::none(),
      "ddof"_a = 0, "Whether there is such a Reduction.");

  nb::class_<request>(m, "Request", "A Reduction of elements of a type yet to come.")
      .def(
          "__init__",
          [](request* self, nb::handle op, nb::handle method, nb::handle acc, nb::handle out,
             nb::handle ddof) {
            const auto d = integer("ddof", ddof);
            if (d > INT32_MAX) refuse("ddof: " + std::to_string(d) + " is too large");
            if (d < 0) refuse("ddof: " + std::to_string(d) + " is negative");
            new (self) request(parse_op_or_refuse(op), parse_method_or_none(method),
                               parse_dtype_or_none("acc", acc), parse_dtype_or_none("dtype", out),
                               static_cast<int>(d));
          },
          "op"_a, "method"_a.none() = nb::none(), "acc"_a.none() = nb::none(),
          "out"_a.none() = nb::none(), "ddof"_a = 0)
      .def(
          "of", [](request& r, nb::handle in) { return r.of(parse_type("dtype", in)); }, "dtype"_a)
      .def(
          "result",
          [](request& r, nb::handle in) { return str(r.result(parse_type("dtype", in)).name()); },
          "dtype"_a, "The name of the result's type, which may be bool.");

  nb::class_<results>(m, "Results", "Makes NumPy's arrays and scalars.")
      .def(nb::init<nb::object>(), "empty"_a)
      .def("add", &results::add, "dtype"_a, "cell"_a, "shown"_a)
      .def(
          "scalar",
          [](const results& r, nb::handle type, std::uint64_t bits) {
            return r.scalar_of(parse_type("dtype", type), bits);
          },
          "dtype"_a, "bits"_a);

  m.def("reduce", reduce<>, "requests"_a, "x"_a.none(), "y"_a.none(), "axis"_a.none(),
        "keepdims"_a.none(), "make"_a, "stream"_a = 0, "allocate"_a.none() = nb::none(),
        "Of one Request its result, of a list of them a tuple. `make`: Results, or a function of "
        "the shape and the name of the type "
        "that gives the result's array and its address. NotImplemented where x or y is neither an "
        "Array nor an array of NumPy's that Python's buffer protocol can show.");
  m.def("_reference", reduce<by_reference>, "requests"_a, "x"_a.none(), "y"_a.none(),
        "axis"_a.none(), "keepdims"_a.none(), "make"_a, "stream"_a = 0,
        "allocate"_a.none() = nb::none(), "reduce, by the library's slow reference: for tests.");
  m.def("reduce_segments", reduce_segments, "requests"_a, "x"_a, "y"_a.none(), "offsets"_a,
        "check"_a, "make"_a, "stream"_a = 0, "allocate"_a.none() = nb::none());
  m.def("reduce_by_key", reduce_by_key, "requests"_a, "x"_a, "y"_a.none(), "keys"_a, "outputs"_a,
        "check"_a, "make"_a, "stream"_a = 0, "allocate"_a.none() = nb::none());

  m.def("reduce_all_into", reduce_all_into, "reductions"_a, "x"_a, "out"_a,
        "Of a whole array in host memory, to addresses of the caller's.");

  m.def(
      "_uses_one_thread", [] { return one_thread.load(); },
      "Whether this is a child of a process that has used more: for tests.");
  m.def("ulp_distances", ulp_distances, "a"_a, "b"_a, "out"_a);
  m.def(
      "to_string",
      [](nb::handle type, std::uint64_t bits) { return to_string(parse_scalar(type, bits)); },
      "dtype"_a, "bits"_a);
  m.def(
      "to_hex",
      [](nb::handle type, std::uint64_t bits) { return to_hex(parse_scalar(type, bits)); },
      "dtype"_a, "bits"_a);
  m.def("order", order_text, "n"_a, "method"_a, "format"_a);
  add_accumulator(m);
  add_rows(m);
  add_golden(m);
  add_tensors(m);
}

}  // namespace bitfold::python
