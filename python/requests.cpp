// Reductions by name: _core.Request and _core.Reduction, and the registry of operations.
#include "requests.hpp"

#include <nanobind/stl/string.h>

namespace bitfold::python {

using namespace nb::literals;

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

namespace {

std::optional<dtype> parse_dtype_or_none(const char* argument, nb::handle given) {
  if (given.is_none()) return std::nullopt;
  return parse_number(argument, given);
}

/// Whether a sum or product of integers is asked for as a float, of an operation that has no exact
/// form (prod); of bools it is 0 or 1.
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

}  // namespace

asked::asked(nb::handle given) {
  if (nb::try_cast(given, one_) && one_) return;
  for (const nb::handle item : given) {
    request* r = nullptr;
    if (!nb::try_cast(item, r) || !r)
      refuse_type("requests: " + nb::cast<std::string>(item.type().attr("__name__")) +
                  ", where a Request is expected");
    list_.push_back(r);
    kept_.push_back(nb::borrow(item));
  }
}

const reduction& request::of(element_type in) {
  auto& r = known_[in.index()];
  if (!r) r = made(op_, method_, in, acc_, out_, ddof_);
  return *r;
}

bool request::offers(element_type in) const {
  return known_[in.index()] || python::offers(op_, method_, in, acc_, out_, ddof_);
}

bool request::multiplies_as_floats(element_type in) const {
  return python::multiplies_as_floats(op_, in, acc_, out_);
}

element_type request::result(element_type in) {
  const reduction& r = of(in);
  const typing types = info(op_).types;
  return {r.out(), types == typing::truth || (types == typing::same && in.is_bool)};
}

std::optional<reduction> request::made_by_truth(bool of_some) {
  const auto as = [](op_id op) { return make_reduction(op, {}, dtype::u8); };
  if (asks_for_truth()) return of(of_bool);
  switch (op_) {
    case op_id::max:
    case op_id::nanmax:  // of no elements 0, as any is
      return as(op_id::any);
    case op_id::min:
    case op_id::nanmin:  // which all is not
      return of_some ? std::optional(as(op_id::all)) : std::nullopt;
    case op_id::sum:
    case op_id::nansum:
    case op_id::sum_squares:
      return of(of_bool).out() == dtype::i64 && method_ != method_id::sequential
                 ? std::optional(as(op_id::count_nonzero))
                 : std::nullopt;
    default: return std::nullopt;
  }
}

namespace {

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

}  // namespace

void add_requests(nb::module_& m) {
  m.def("ops", ops, "The registry of operations.");
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
}

}  // namespace bitfold::python
