// Golden files (docs/regression.md) for Python: those of the command line.
#include "core.hpp"

#include <cerrno>
#include <cstring>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "io/digest.hpp"
#include "io/format.hpp"
#include "io/golden.hpp"
#include "io/new_files.hpp"

namespace bitfold::python {
namespace {

using namespace nb::literals;

std::string digest(nb::handle given) {
  const input x_in(given, "x");
  const described& x = needed(x_in, "x");
  if (x.on_gpu() || !x.is_row_major())
    throw error(errc::usage, "x: its elements do not lie in a row on the CPU");
  const nb::gil_scoped_release free;
  io::digest d;
  d.add(x.where.data, x.size() * size_of(x.type.stored));
  return d.hex();
}

// Files, as (path, content), of which all are written or, where it raises, none is.
void write_files(const std::vector<std::pair<nb::bytes, nb::bytes>>& files) {
  const auto write = [&] {
    io::new_files all;
    for (const auto& [path, content] : files) {
      std::string name(path.c_str(), path.size());
      if (name.find('\0') != std::string::npos) throw error(errc::usage, "path: has a zero byte");
      std::string text(content.c_str(), content.size());
      const nb::gil_scoped_release free;  // a pipe may have nobody who reads
      all.add(name, std::move(text));
    }
    const nb::gil_scoped_release free;
    all.commit();
  };
  try {
    write();
  } catch (const io::write_error& e) {
    if (e.number == EINTR && PyErr_CheckSignals() != 0) throw nb::python_error();
    errno = e.number;
    const nb::object path = nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(e.path.data(), static_cast<Py_ssize_t>(e.path.size())));
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path.ptr());
    throw nb::python_error();
  }
}

// What golden files have for it; the names are the same.
io::element_type type_in_file(element_type t) { return *io::element_type::parse(t.name()); }

// A list of arrays of one file: (name, dtype, shape, digest, [(Reduction, bits), ...]).
std::string golden_text(const std::string& file, nb::handle format, nb::handle arrays) {
  const auto f = io::parse_format(string_argument("format", format));
  if (!f)
    throw error(errc::usage, "format: there is no '" + string_argument("format", format) + "'");
  io::golden g{BITFOLD_VERSION, {{{{file, *f}}, {}}}};
  for (const nb::handle a : arrays) {
    io::golden_array one{nb::cast<std::string>(a[0]),
                         type_in_file(parse_type("dtype", a[1])),
                         nb::cast<std::vector<std::uint64_t>>(a[2]),
                         {nb::cast<std::string>(a[3])},
                         {}};
    for (const nb::handle r : a[4]) {
      const auto what = nb::cast<reduction>(r[0]);
      one.results.push_back({what, {what.out(), nb::cast<std::uint64_t>(r[1])}});
    }
    g.files[0].arrays.push_back(std::move(one));
  }
  return io::golden_text(g);
}

// [(file, format, [(name, dtype, shape, digest, [(Reduction, bits), ...]), ...]), ...], and those
// of `names` that were to be recorded.
std::pair<nb::list, std::vector<std::string>> read_golden(const std::string& path,
                                                          std::vector<std::string> names) {
  const io::golden read = [&] {
    const nb::gil_scoped_release free;  // a pipe may have nobody who writes
    return io::read_golden(path);
  }();
  nb::list files;
  for (const io::golden_file& f : read.files) {
    if (f.sources.size() != 1)
      throw error(errc::bad_input,
                  path + ": files[0].file2: recorded of two inputs, which is for bitfold check");
    nb::list arrays;
    for (const io::golden_array& a : f.arrays) {
      nb::list results;
      for (const io::golden_result& r : a.results)
        results.append(nb::make_tuple(r.what, r.value.bits));
      nb::list shape;
      for (const auto extent : a.shape) shape.append(extent);
      arrays.append(
          nb::make_tuple(a.name, str(name(a.type)), nb::tuple(shape), a.digests[0], results));
    }
    files.append(nb::make_tuple(f.sources[0].file, str(io::name(f.sources[0].format)), arrays));
  }
  std::erase_if(names, [&](const std::string& name) { return !io::is_chosen(read.tensors, name); });
  return {files, std::move(names)};
}

}  // namespace

void add_golden(nb::module_& m) {
  m.def("digest", digest, "x"_a, "XXH3-128, 32 hex digits, of the elements of a row-major array.");
  m.def(
      "write_files", write_files, "files"_a,
      "Writes files, (path, content) of bytes each, whole: all of them or, where it raises, none.");
  m.def("golden_text", golden_text, "file"_a, "format"_a, "arrays"_a);
  m.def("read_golden", read_golden, "path"_a, "names"_a);
}

}  // namespace bitfold::python
