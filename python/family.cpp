// The families of arrays that no C++ of this module knows: NumPy's, and those that functions in
// Python make.
#include "family.hpp"

#include <cstring>

namespace bitfold::python {

using namespace nb::literals;

namespace {

PyObject* check(PyObject* p) {
  if (!p) throw nb::python_error();
  return p;
}

/// Of an array that has so many bytes in a row.
void* address_of(nb::handle array, const char* argument, std::uint64_t bytes) {
  const input held(array, argument, nullptr, taking::results);
  const described& d = needed(held, argument);
  if (!d.is_row_major() || d.size() * size_of(d.type.stored) != bytes)
    refuse(std::string(argument) + ": not of " + std::to_string(bytes) + " bytes in a row");
  return const_cast<void*>(d.where.data);
}

/// `make`: a function of the shape and the name of the type that gives an array and its address.
memory made_by(const nb::object& make, element_type type, std::span<const std::int64_t> shape) {
  const nb::object both = make(shape_of(shape), str(type.name()));
  return {both[0], reinterpret_cast<void*>(nb::cast<std::uintptr_t>(both[1]))};
}

/// Arrays and workspace of a function's, and a stream.
class functions final : public family {
 public:
  functions(nb::object make, std::uintptr_t stream)
      : make_(std::move(make)), stream_(reinterpret_cast<cuda::stream>(stream)) {}

  memory make(const model&, element_type type, std::span<const std::int64_t> shape) const override {
    return made_by(make_, type, shape);
  }
  memory room(const model&, std::size_t bytes) const override {
    const auto extent = static_cast<std::int64_t>(bytes);
    return made_by(make_, {dtype::u8}, {&extent, 1});
  }
  cuda::stream stream(const described&) const override { return stream_; }

 private:
  nb::object make_;
  cuda::stream stream_;
};

/// Results of a function's, such as an array that was there before; all else as another family has
/// it.
class results_by final : public family {
 public:
  results_by(nb::object make, const family& of) : make_(std::move(make)), of_(of) {}

  std::optional<described> read(nb::handle x, const char* argument, taking what) const override {
    return of_.read(x, argument, what);
  }
  memory make(const model&, element_type type, std::span<const std::int64_t> shape) const override {
    return made_by(make_, type, shape);
  }
  memory room(const model& beside, std::size_t bytes) const override {
    return of_.room(beside, bytes);
  }
  cuda::stream stream(const described& x) const override { return of_.stream(x); }
  team_of_threads threads() const override { return of_.threads(); }

 private:
  nb::object make_;
  const family& of_;
};

}  // namespace

void results::add(nb::handle type, nb::object cell, nb::object shown) {
  const element_type of = parse_type("dtype", type);
  one& t = each_[of.index()];
  t.data = address_of(cell, "cell", size_of(of.stored));
  t.held = nb::steal(check(PyMemoryView_FromObject(cell.ptr())));
  t.stored = cell.attr("dtype");
  if (!cell.is(shown)) t.as = shown.attr("dtype");
  t.cell = std::move(cell);
  t.shown = std::move(shown);
}

bool results::knows(nb::handle x) const {
  return x.is_none() || nb::isinstance<array>(x) ||
         (each_[0].cell.is_valid() && Py_TYPE(x.ptr()) == Py_TYPE(each_[0].cell.ptr()));
}

memory results::make(const model&, element_type type, std::span<const std::int64_t> shape) const {
  nb::object made = empty_(shape_of(shape), find(type).stored);
  void* const address = address_of(made, "out", room_of(type, shape));
  return {std::move(made), address};
}

memory results::room(const model&, std::size_t) const {
  refuse("x: on a GPU, where NumPy makes the results");
}

nb::object results::shown(nb::object made, element_type type, bool as_scalar) const {
  const one& t = find(type);
  if (t.as.is_valid()) made = made.attr("view")(t.as);
  return as_scalar ? nb::steal(check(PyObject_GetItem(made.ptr(), nothing_.ptr()))) : made;
}

nb::object results::scalar_of(element_type type, std::uint64_t bits) const {
  const one& t = find(type);
  std::memcpy(t.data, &bits, size_of(type.stored));
  return nb::steal(check(PyObject_GetItem(t.shown.ptr(), nothing_.ptr())));
}

const results::one& results::find(element_type type) const {
  const one& t = each_[type.index()];
  if (!t.data) refuse_type("dtype: " + std::string(type.name()) + " needs the package ml_dtypes");
  return t;
}

void add_families(nb::module_& m) {
  nb::class_<family>(m, "Family",
                     "What an array library does for a call on its arrays: it makes results and "
                     "workspace, and says where the work runs.");
  nb::class_<results, family>(m, "Results", "NumPy's arrays and scalars.")
      .def(nb::init<nb::object>(), "empty"_a)
      .def("add", &results::add, "dtype"_a, "cell"_a, "shown"_a)
      .def(
          "scalar",
          [](const results& r, nb::handle type, std::uint64_t bits) {
            return r.scalar_of(parse_type("dtype", type), bits);
          },
          "dtype"_a, "bits"_a);
  nb::class_<functions, family>(m, "Functions", "Arrays of a function's, and a stream.")
      .def(nb::init<nb::object, std::uintptr_t>(), "make"_a, "stream"_a,
           "make: a function of the shape and the name of the type that gives an array and its "
           "address.");
  nb::class_<results_by, family>(
      m, "ResultsBy", "Results of such a function's; all else as the other family has it.")
      .def(nb::init<nb::object, const family&>(), "make"_a, "family"_a, nb::keep_alive<1, 3>());
}

}  // namespace bitfold::python
