// bitfold._core: the library for Python. Arrays are described (arrays.cpp), and results are made by
// the family of arrays that a call is of (family.hpp): no file but tensors.cpp knows an array
// library.
#include "core.hpp"

#include <cstring>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/testing.hpp>

#include "requests.hpp"

namespace bitfold::python {

using namespace nb::literals;

namespace {

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

scalar parse_scalar(nb::handle type, std::uint64_t bits) {
  return {parse_type("dtype", type).stored, bits};
}

// Both row-major on the CPU, of one type and length; u64 to `out`.
void ulp_distances(nb::handle a_given, nb::handle b_given, nb::handle out_given) {
  const input a(a_given, "a"), b(b_given, "b"), out(out_given, "out", nullptr, taking::results);
  const described &x = needed(a, "a"), &y = needed(b, "b"), &to = needed(out, "out");
  if (!(to.type == element_type{dtype::u64}))
    refuse_type("out: " + std::string(to.type.name()) + ", where u64 is taken");
  if (!(x.type == y.type))
    refuse_type("b: " + std::string(y.type.name()) + ", and a is " + std::string(x.type.name()));
  if (x.size() != y.size() || x.size() != to.size()) refuse("b: not of the length of a and out");
  for (const described* d : {&x, &y, &to})
    if (d->on_gpu() || !d->is_row_major()) refuse("a: elements in a row on the CPU are taken");
  const without_lock free(worth_the_lock(x));
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
  m.doc() = "bitfold's C++ library: see bitfold._arrays and bitfold._tensors.";
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
  m.def("methods", methods, "The registry of methods.");
  m.def("dtypes", dtypes, "Name, size in bytes, whether it is a float, of each element type.");
  // What loads libraries, or waits, does it without the interpreter's lock.
  using unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("cuda_devices", cuda::devices, unlocked(), "The names of the GPUs.");
  m.def("gpu_compiler", cuda::compiler, unlocked(),
        "What compiles kernels for GPUs; empty: nothing.");
  m.def("look_for_compiler_at", cuda::look_for_compiler_at, "path"_a, unlocked(),
        "A library of NVRTC to try first.");
  m.def("compile_by", cuda::compile_by, "command"_a, unlocked(),
        "The command of processes that compile kernels for this one.");
  m.def("compile_for_others", cuda::compile_for_others, "library"_a, unlocked(),
        "What such a process does: the path of NVRTC's library.");
  m.def("look_for_products_at", cuda::look_for_products_at, "path"_a, unlocked(),
        "A library of cuBLASLt to try first.");
  m.def(
      "synchronize",
      [](std::uintptr_t stream) { cuda::synchronize(reinterpret_cast<cuda::stream>(stream)); },
      "stream"_a, unlocked(), "Waits for what is enqueued there.");
  m.def("ulp_distances", ulp_distances, "a"_a, "b"_a, "out"_a);
  m.def(
      "to_string",
      [](nb::handle type, std::uint64_t bits) { return to_string(parse_scalar(type, bits)); },
      "dtype"_a, "bits"_a);
  m.def(
      "to_hex",
      [](nb::handle type, std::uint64_t bits) { return to_hex(parse_scalar(type, bits)); },
      "dtype"_a, "bits"_a);
  m.def("order", order_text, "n"_a, "method"_a.none(), "format"_a.none());
  add_arrays(m);
  add_families(m);
  add_requests(m);
  add_calls(m);
  add_channels(m);
  add_rows(m);
  add_products(m);
  add_tensors(m);
  add_accumulator(m);
  add_distributed(m);
  add_meeting(m);
  add_golden(m);
}

}  // namespace bitfold::python
