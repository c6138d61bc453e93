// The calls: reductions along axes, of segments, by key and of pieces, of any family's arrays.
#include "reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <bitfold/accumulator.hpp>
#include <bitfold/contributions.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/totals.hpp>

#include "../src/binned.hpp"

namespace bitfold::python {

using namespace nb::literals;

namespace {

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
  if (!on_one_device(x, *y)) refuse("y: on another device than x");
}

const described* or_null(const input& y) { return y ? &*y : nullptr; }

// Whether all that is asked for of bools can be had whatever their bytes are; on a GPU by another
// operation (by_truth).
bool takes_any_byte(const asked& what, const described& x, bool of_some) {
  return std::ranges::all_of(what.each(), [&](request* r) {
    return x.on_gpu() ? r->by_truth(of_some).has_value() : r->asks_for_truth();
  });
}

// The inputs of a reduction as they are read. Bools have the bytes 0 and 1 alone, where others
// would be taken for numbers: on a CPU they are copied if they have others, and on a GPU always,
// since to look would be to wait. What is to be multiplied as floats is copied to f64.
class inputs_of {
 public:
  const described *x, *y;
  inputs_of(const asked& what, const described& x_given, const described* y_given,
            const model& beside, const family& of, bool of_some)
      : x(&x_given), y(y_given), beside_(beside), of_(of) {
    if (is_float(x->type.stored)) return;
    if (x->type.is_bool && !takes_any_byte(what, *x, of_some)) {
      x = truths(*x);
      if (y) y = truths(*y);
    }
    if (std::ranges::all_of(what.each(),
                            [&](request* r) { return r->multiplies_as_floats(x->type); }))
      x = copied(*x, make_reduction(op_id::mean, {}, x->type.stored));  // of each element by itself
  }

 private:
  struct copy {
    described of;
    std::vector<std::byte> room;
    nb::object on_gpu;
  };

  const described* truths(const described& x) {
    if (x.on_gpu()) return copied(x, truth_of_one);
    copy& c = next();
    of_.run(
        x, beside_, no_room, [](workspace, cuda::stream) {},
        [&](const cpu::options& opts) { c.of = with_truths(x, c.room, opts); });
    return &c.of;
  }
  const described* copied(const described& x, const reduction& each) {
    copy& c = next();
    void* to = nullptr;
    const std::size_t bytes = x.size() * size_of(each.out());
    if (x.on_gpu() && bytes > 0) {
      memory m = of_.room(beside_, bytes);
      c.on_gpu = std::move(m.object);
      to = m.address;
    } else if (!x.on_gpu()) {
      c.room.resize(bytes);
      to = c.room.data();
    }
    if (bytes > 0)
      of_.run(
          x, beside_, [&] { return cuda::workspace_bytes({&each, 1}, x.where, nullptr, {}); },
          [&](workspace w, cuda::stream where) {
            cuda::reduce({&each, 1}, x.where, nullptr, {}, {&to, 1}, w.address, w.size, where);
          },
          [&](const cpu::options& opts) {
            cpu::reduce({&each, 1}, x.where, nullptr, {}, {&to, 1}, opts);
          });
    c.of = in_a_row(x, to);
    if (each.op() != op_id::any) c.of.type = {c.of.where.type = each.out()};
    return &c.of;
  }
  copy& next() { return copies_[used_++].emplace(); }

  const model& beside_;
  const family& of_;
  std::array<std::optional<copy>, 3> copies_;
  std::size_t used_ = 0;
};

std::vector<reduction> reductions_of(const asked& what, const described& x, bool of_some) {
  const bool by_truth =
      x.type.is_bool && x.on_gpu() && x.size() > 0 && takes_any_byte(what, x, of_some);
  std::vector<reduction> all;
  all.reserve(what.each().size());
  for (request* r : what.each()) all.push_back(by_truth ? *r->by_truth(of_some) : r->of(x.type));
  return all;
}

// Makes the results, has `run` fill them, and hands them over: one for one request, a tuple for a
// list of them.
template <class Run>
nb::object with_results(const asked& what, const described& x, const model& beside,
                        std::span<const std::int64_t> extents, const family& of, bool of_some,
                        Run run) {
  const std::vector<reduction> all = reductions_of(what, x, of_some);
  std::vector<nb::object> made;
  std::vector<void*> to;
  made.reserve(all.size()), to.reserve(all.size());
  for (request* r : what.each()) {
    memory m = of.make(beside, r->result(x.type), extents);
    made.push_back(std::move(m.object));
    to.push_back(m.address);
  }
  renaming([&] { run(std::span<const reduction>(all), std::span<void* const>(to)); });
  for (std::size_t k = 0; k < all.size(); ++k)
    made[k] = of.shown(std::move(made[k]), what.each()[k]->result(x.type), extents.empty());
  if (what.is_one()) return made[0];
  nb::list list;
  for (nb::object& o : made) list.append(std::move(o));
  return nb::tuple(list);
}

// As NumPy has it, an integer too; and its bool, which has no index.
bool truth_of(nb::handle given, const char* argument) {
  if (PyBool_Check(given.ptr())) return given.ptr() == Py_True;
  if (PyIndex_Check(given.ptr())) {
    const nb::object index = nb::steal(PyNumber_Index(given.ptr()));
    if (index.is_valid()) return PyObject_IsTrue(index.ptr()) == 1;
    forget(PyExc_TypeError);
  }
  if (nb::cast<std::string>(given.type().attr("__module__")) == "numpy" &&
      nb::cast<std::string>(given.type().attr("__name__")).starts_with("bool"))
    return PyObject_IsTrue(given.ptr()) == 1;
  throw nb::type_error(
      (std::string(argument) + ": " + nb::repr(given).c_str() + " is neither true nor false")
          .c_str());
}

// Of a whole array of NumPy's that lies in a row, which needs no view: a scalar; nothing for
// others.
nb::object reduce_flat(request& r, const input& x_in, const described* y_given, const results& of) {
  if (x_in->on_gpu() || !x_in->is_row_major()) return {};
  if (x_in->type.is_bool && r.counts_truths()) {
    std::uint64_t count;
    {
      const without_lock free(worth_the_lock(*x_in));
      count = count_truths(*x_in, how_for(*x_in));
    }
    return of.scalar_of({dtype::i64}, count);
  }
  const model beside{x_in->type, x_in.object()};
  std::optional<inputs_of> read;  // floats are read as they are
  if (!is_float(x_in->type.stored))
    read.emplace(asked(r), *x_in, y_given, beside, of, x_in->size() > 0);
  const described& x = read ? *read->x : *x_in;
  const described* const y = read ? read->y : y_given;
  if (y &&
      !(y->is_row_major() && x.where.rank == y->where.rank && x.where.extent == y->where.extent))
    return {};
  const reduction& one = r.of(x.type);
  scalar result;
  {
    const without_lock free(worth_the_lock(x));
    result = renaming([&] {
      return cpu::reduce(one, x.where.data, y ? y->where.data : nullptr, x.size(), how_for(x));
    });
  }
  return of.scalar_of(r.result(x.type), result.bits);
}

template <bool Reference>
nb::object reduce_as_read(const asked& what, const described& x_given, const described* y_given,
                          const model& beside, std::span<const int> axes, bool keepdims,
                          const family& of) {
  const bool of_some = x_given.size() > 0;
  std::optional<inputs_of> read;  // floats are read as they are
  if (!is_float(x_given.type.stored)) read.emplace(what, x_given, y_given, beside, of, of_some);
  const described& x = read ? *read->x : x_given;
  const described* const y = read ? read->y : y_given;
  const view* const other = y ? &y->where : nullptr;
  const auto extents = result_extents(x.where, other, axes, keepdims);
  return with_results(
      what, x, beside, extents, of, of_some,
      [&](std::span<const reduction> all, std::span<void* const> to) {
        if constexpr (Reference)
          for (std::size_t k = 0; k < all.size(); ++k)
            reference(all[k], x.where, other, axes, to[k]);
        else
          of.run(
              larger(x, y), beside,
              [&] { return cuda::workspace_bytes(all, x.where, other, axes); },
              [&](workspace w, cuda::stream where) {
                cuda::reduce(all, x.where, other, axes, to, w.address, w.size, where);
              },
              [&](const cpu::options& opts) { cpu::reduce(all, x.where, other, axes, to, opts); });
      });
}

constexpr bool by_reference = true;

template <bool Reference = false>
nb::object reduce(nb::handle requests, nb::handle x_given, nb::handle y_given, nb::handle axis,
                  nb::handle keepdims, const family& of) {
  if (!of.knows(x_given) || !of.knows(y_given)) return nb::borrow(Py_NotImplemented);
  const input x(x_given, "x", &of), y(y_given, "y", &of);
  if (!x || (!y && !y_given.is_none())) return nb::borrow(Py_NotImplemented);
  check_pair(*x, or_null(y));
  const bool kept = truth_of(keepdims, "keepdims");
  if (!Reference && axis.is_none() && !kept) {
    request* one = nullptr;
    if (const auto* numpy = of.numpy(); numpy && nb::try_cast(requests, one))
      if (nb::object made = reduce_flat(*one, x, or_null(y), *numpy); made.is_valid()) return made;
  }
  const axes_list axes = parse_axes(axis, std::max(x->where.rank, y ? y->where.rank : 0));
  return reduce_as_read<Reference>(asked(requests), *x, or_null(y), {x->type, x.object()}, axes,
                                   kept, of);
}

// f(what a GPU would be asked for such arrays), on theirs, if they are on one.
template <class F>
auto with_gpu_request(nb::handle requests, nb::handle x_given, nb::handle y_given, nb::handle axis,
                      F f) {
  const input x(x_given, "x"), y(y_given, "y");
  const described& of = needed(x, "x");
  check_pair(of, or_null(y));
  const view* const other = y ? &y->where : nullptr;
  const axes_list axes = parse_axes(axis, std::max(of.where.rank, other ? other->rank : 0));
  const std::vector<reduction> all = reductions_of(asked(requests), of, of.size() > 0);
  std::optional<cuda::current_device> here;
  if (of.on_gpu()) here.emplace(of.device);
  return f(renaming([&] { return cuda::request::axes(all, of.where, other, axes); }));
}

// One axis, one element after the other, on the device of x.
const described& flat(const input& given, const char* argument, const described* x = nullptr) {
  const described& a = needed(given, argument);
  if (a.where.rank != 1)
    refuse(std::string(argument) + ": " + std::to_string(a.where.rank) +
           " axes, where one is taken");
  if (!a.is_row_major()) refuse(std::string(argument) + ": its elements do not lie in a row");
  if (x && !on_one_device(a, *x)) refuse(std::string(argument) + ": on another device than x");
  return a;
}
// x, and y where there is one: of one type and length, on one device.
class flat_inputs {
  input x_in_, y_in_;

 public:
  flat_inputs(nb::handle x_given, nb::handle y_given, const family& of)
      : x_in_(x_given, "x", &of),
        y_in_(y_given, "y", &of),
        x(flat(x_in_, "x")),
        y(y_given.is_none() ? nullptr : &flat(y_in_, "y")) {
    check_pair(x, y);
    if (y && y->size() != x.size()) refuse("y: not of the length of x");
  }
  nb::handle object() const { return x_in_.object(); }
  const described& x;
  const described* const y;
};
std::span<const std::int64_t> indices(const described& a, const char* argument) {
  if (!(a.type == element_type{dtype::i64}))
    refuse_type(std::string(argument) + ": " + std::string(a.type.name()) + ", where i64 is taken");
  return {static_cast<const std::int64_t*>(a.where.data), a.size()};
}

// Looks at a list in device memory, which waits for it. In host memory it is looked at anyway.
template <class Check>
void wait_and_check(const described& x, const family& of, Check check) {
  if (!x.on_gpu()) return;
  const cuda::current_device here(x.device);
  const cuda::stream where = of.stream(x);
  const nb::gil_scoped_release free;
  check(where);
}

// What a call of segments or by key takes besides its list.
struct lists_call {
  std::span<const reduction> all;
  const void *x, *y;
  std::span<void* const> to;
};
template <class Bytes, class OnGpu, class OnCpu>
nb::object reduce_lists(const asked& what, const flat_inputs& in, std::int64_t extent,
                        const family& of, Bytes workspace_bytes, OnGpu on_gpu, OnCpu on_cpu) {
  const model beside{in.x.type, in.object()};
  const inputs_of read(what, in.x, in.y, beside, of, false);
  return with_results(what, *read.x, beside, {&extent, 1}, of, false,
                      [&](std::span<const reduction> all, std::span<void* const> to) {
                        const lists_call call{all, read.x->where.data,
                                              read.y ? read.y->where.data : nullptr, to};
                        of.run(
                            in.x, beside, [&] { return workspace_bytes(all); },
                            [&](workspace w, cuda::stream where) { on_gpu(call, w, where); },
                            [&](const cpu::options& opts) { on_cpu(call, opts); });
                      });
}

// `check`: whether to look at offsets in device memory first.
nb::object reduce_segments(nb::handle requests, nb::handle x_given, nb::handle y_given,
                           nb::handle offsets_given, bool check, const family& of) {
  const asked what(requests);
  const flat_inputs in(x_given, y_given, of);
  const input offsets_in(offsets_given, "offsets", &of);
  const described& x = in.x;
  const auto offsets = indices(flat(offsets_in, "offsets", &x), "offsets");
  if (offsets.empty()) refuse("offsets: none, where there is one more than there are segments");
  const std::size_t segments = offsets.size() - 1;
  const auto extent = static_cast<std::int64_t>(segments);
  if (check)
    wait_and_check(x, of, [&](cuda::stream where) {
      cuda::check_offsets(offsets.data(), segments, x.size(), where);
    });
  return reduce_lists(
      what, in, extent, of,
      [&](std::span<const reduction> all) {
        return cuda::segments_workspace_bytes(all, x.size(), segments);
      },
      [&](const lists_call& c, workspace w, cuda::stream where) {
        cuda::reduce_segments(c.all, c.x, c.y, x.size(), offsets.data(), segments, c.to, w.address,
                              w.size, where);
      },
      [&](const lists_call& c, const cpu::options& opts) {
        cpu::reduce_segments(c.all, c.x, c.y, x.size(), offsets, c.to, opts);
      });
}

nb::object reduce_by_key(nb::handle requests, nb::handle x_given, nb::handle y_given,
                         nb::handle keys_given, nb::handle count, bool check, const family& of) {
  const asked what(requests);
  const flat_inputs in(x_given, y_given, of);
  const input keys_in(keys_given, "keys", &of);
  const described& x = in.x;
  const auto keys = indices(flat(keys_in, "keys", &x), "keys");
  if (keys.size() != x.size())
    refuse("keys: " + std::to_string(keys.size()) + " of them for " + std::to_string(x.size()) +
           " elements");
  const std::int64_t extent = integer("outputs", count);
  if (extent < 0) refuse("outputs: " + std::to_string(extent) + " is negative");
  const auto outputs = static_cast<std::size_t>(extent);
  if (check)
    wait_and_check(x, of, [&](cuda::stream where) {
      cuda::check_keys(keys.data(), keys.size(), outputs, where);
    });
  return reduce_lists(
      what, in, extent, of,
      [&](std::span<const reduction> all) {
        return cuda::by_key_workspace_bytes(all, x.size(), outputs);
      },
      [&](const lists_call& c, workspace w, cuda::stream where) {
        cuda::reduce_by_key(c.all, c.x, c.y, x.size(), keys.data(), outputs, c.to, w.address,
                            w.size, where);
      },
      [&](const lists_call& c, const cpu::options& opts) {
        cpu::reduce_by_key(c.all, c.x, c.y, keys, outputs, c.to, opts);
      });
}

// Of the elements of several arrays as of one, by method exact: of any number of axes, each in a
// row.
struct pieces_as_one {
  std::deque<input> held;  // as long as they are read
  std::vector<described> all;
  std::vector<cuda::piece> list;

  pieces_as_one(const std::vector<nb::object>& pieces, const family& of) {
    for (const nb::object& p : pieces) {
      const input& in = held.emplace_back(p, "pieces", &of, taking::elements);
      const described& d = all.emplace_back(needed(in, "pieces"));
      if (!on_one_device(d, all[0])) refuse("pieces: on several devices");
      if (!(d.type == all[0].type)) refuse_type("pieces: of several types");
      if (!d.is_row_major()) refuse("pieces: the elements of one do not lie in a row");
      list.push_back({d.where.data, d.size()});
    }
    if (all.empty()) refuse("pieces: none");
  }
  // By whose size threads are chosen.
  const described& work() const { return *std::ranges::max_element(all, {}, &described::size); }
  model beside() const { return {all[0].type, held[0].object()}; }
};

nb::object reduce_pieces(request& r, const std::vector<nb::object>& pieces, const family& of) {
  const pieces_as_one given(pieces, of);
  const std::vector<described>& all = given.all;
  const std::vector<cuda::piece>& list = given.list;
  const reduction& one = r.of(all[0].type);
  const model beside = given.beside();
  memory made = of.make(beside, r.result(all[0].type), {});
  renaming([&] {
    of.run(
        given.work(), beside, [&] { return cuda::pieces_workspace_bytes(one, list); },
        [&](workspace w, cuda::stream where) {
          cuda::reduce_pieces(one, list, made.address, w.address, w.size, where);
        },
        [&](const cpu::options& opts) {
          totals sums({one});
          for (const cuda::piece& p : list) sums.add(p.data, nullptr, p.n, opts);
          store_scalar(sums.result(0), static_cast<std::byte*>(made.address));
        });
  });
  return of.shown(std::move(made.object), r.result(all[0].type), true);
}

// To a state of contributions, which are bytes on the pieces' device.
void fold_pieces(request& r, const std::vector<nb::object>& pieces, nb::handle state,
                 const family& of) {
  const pieces_as_one given(pieces, of);
  const std::vector<described>& all = given.all;
  const std::vector<cuda::piece>& list = given.list;
  const reduction& one = r.of(all[0].type);
  const input out(state, "state", &of, taking::results);
  if (needed(out, "state").size() != contribution_state_bytes(one) || !on_one_device(*out, all[0]))
    refuse("state: not of the bytes of a state, or on another device");
  void* const to = const_cast<void*>(out->where.data);
  renaming([&] {
    of.run(
        given.work(), given.beside(), [&] { return cuda::pieces_workspace_bytes(one, list); },
        [&](workspace w, cuda::stream where) {
          cuda::fold_pieces(one, list, to, w.address, w.size, where);
        },
        [&](const cpu::options&) {
          std::memset(to, 0, out->size());
          const exact::term what = detail::terms_of(one)[0];
          for (const cuda::piece& p : list)
            exact::deposit(what, one.in(), p.data, nullptr, p.n, to);
        });
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
  const cpu::options opts = how_for(x.of);
  const nb::gil_scoped_release free;
  const described of = x.of.type.is_bool ? with_truths(x.of, room, opts) : x.of;
  cpu::reduce(all, of.where, nullptr, axes, to, opts);
}

}  // namespace

nb::object reduce_read(const asked& what, const described& x, const described* y,
                       const model& beside, std::span<const int> axes, bool keepdims,
                       const family& of) {
  return reduce_as_read<false>(what, x, y, beside, axes, keepdims, of);
}

void add_calls(nb::module_& m) {
  m.def("reduce", reduce<>, "requests"_a, "x"_a.none(), "y"_a.none(), "axis"_a.none(),
        "keepdims"_a.none(), "family"_a,
        "Of one Request its result, of a list of them a tuple. NotImplemented where x or y is "
        "neither an Array nor one that the family can read.");
  m.def("_reference", reduce<by_reference>, "requests"_a, "x"_a.none(), "y"_a.none(),
        "axis"_a.none(), "keepdims"_a.none(), "family"_a,
        "reduce, by the library's slow reference: for tests.");
  m.def("reduce_segments", reduce_segments, "requests"_a, "x"_a, "y"_a.none(), "offsets"_a,
        "check"_a, "family"_a);
  m.def("reduce_by_key", reduce_by_key, "requests"_a, "x"_a, "y"_a.none(), "keys"_a, "outputs"_a,
        "check"_a, "family"_a);
  m.def("reduce_pieces", reduce_pieces, "request"_a, "pieces"_a, "family"_a,
        "Of the elements of several arrays as of one, by method exact; each lies in a row.");
  m.def("fold_pieces", fold_pieces, "request"_a, "pieces"_a, "state"_a, "family"_a,
        "The same to a state of contributions, as bytes.");
  m.def("reduce_all_into", reduce_all_into, "reductions"_a, "x"_a, "out"_a,
        "Of a whole array in host memory, to addresses of the caller's.");
  m.def(
      "explain",
      [](nb::handle requests, nb::handle x, nb::handle y, nb::handle axis) {
        return with_gpu_request(requests, x, y, axis, [](const cuda::request& wanted) {
          const nb::gil_scoped_release free;
          return wanted.explain();
        });
      },
      "requests"_a, "x"_a, "y"_a.none(), "axis"_a.none(), "What a GPU would do.");
  m.def(
      "prepare",
      [](nb::handle requests, nb::handle x, nb::handle y, nb::handle axis) {
        with_gpu_request(requests, x, y, axis, [](const cuda::request& wanted) {
          const nb::gil_scoped_release free;
          wanted.prepare();
        });
      },
      "requests"_a, "x"_a, "y"_a.none(), "axis"_a.none(), "Compiles what it would do that with.");
}

}  // namespace bitfold::python
