// bitfold::accumulator, of any type, for Python.
#include "core.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <bitfold/accumulator.hpp>
#include <bitfold/testing.hpp>

namespace bitfold::python {
namespace {

using namespace nb::literals;

template <int Degree>
using of_degree =
    std::variant<accumulator<float16, Degree>, accumulator<bfloat16, Degree>,
                 accumulator<float, Degree>, accumulator<double, Degree>,
                 accumulator<std::int8_t, Degree>, accumulator<std::int16_t, Degree>,
                 accumulator<std::int32_t, Degree>, accumulator<std::int64_t, Degree>,
                 accumulator<std::uint8_t, Degree>, accumulator<std::uint16_t, Degree>,
                 accumulator<std::uint32_t, Degree>, accumulator<std::uint64_t, Degree>>;
static_assert(std::variant_size_v<of_degree<1>> == all_dtypes.size());

constexpr std::pair<std::string_view, exact::term> terms[] = {
    {"element", exact::term::element},
    {"magnitude", exact::term::magnitude},
    {"square", exact::term::square},
    {"product", exact::term::product},
    {"squared_difference", exact::term::squared_difference}};

/// After so many elements it is asked whether a signal came: milliseconds.
constexpr std::uint64_t a_piece = std::uint64_t{1} << 22;

class any_sum {
 public:
  any_sum(dtype type, std::int64_t degree) {
    if (degree != 1 && degree != 2)
      refuse("degree: " + std::to_string(degree) + " is neither 1 nor 2");
    visit(type, [&]<class T>(std::type_identity<T>) {
      if (degree == 1)
        sums_.emplace<0>(accumulator<T, 1>{});
      else
        sums_.emplace<1>(accumulator<T, 2>{});
    });
  }
  int degree() const { return static_cast<int>(sums_.index()) + 1; }
  dtype type() const {
    return std::visit([](const auto& s) { return static_cast<dtype>(s.index()); }, sums_);
  }
  template <class F>
  decltype(auto) each(F f) {
    return std::visit([&](auto& s) -> decltype(auto) { return std::visit(f, s); }, sums_);
  }
  template <class F>
  decltype(auto) each(F f) const {
    return std::visit([&](const auto& s) -> decltype(auto) { return std::visit(f, s); }, sums_);
  }

  static any_sum from_bytes(nb::bytes given) {
    const std::span bytes(static_cast<const std::byte*>(given.data()), given.size());
    const auto field = [&](std::size_t at) {
      return at < bytes.size() ? std::to_integer<int>(bytes[at]) : 0;
    };
    const int type = field(5), degree = field(6);
    const bool known =
        static_cast<std::size_t>(type) < all_dtypes.size() && (degree == 1 || degree == 2);
    any_sum s(known ? static_cast<dtype>(type) : dtype::f64,
              known ? degree : 1);  // whose reader says what is wrong
    s.each([&]<class S>(S& sum) { sum = S::from_bytes(bytes); });
    return s;
  }

  /// Of two rows of elements, or of one and nothing.
  void add(exact::term what, nb::handle x_given, nb::handle y_given) {
    const input x_in(x_given, "x"), y_in(y_given, "y");
    std::vector<std::byte> rooms[2];  // bools are u8 here
    const auto numbers = [&](const described& a, std::size_t k) {
      if (!a.type.is_bool || a.on_gpu()) return a;
      const without_lock free(worth_the_lock(a));
      return with_truths(a, rooms[k], how_for(a));
    };
    const described x = numbers(needed(x_in, "x"), 0);
    const std::optional<described> y_there =
        exact::inputs(what) == 2 ? std::optional(numbers(needed(y_in, "y"), 1)) : std::nullopt;
    const described* const y = y_there ? &*y_there : nullptr;
    for (const described* a : {&x, y}) {
      if (!a) continue;
      const std::string argument = a == &x ? "x" : "y";
      if (a->on_gpu()) refuse(argument + ": on a GPU; an accumulator adds on the CPU");
      if (a->type.stored != type())
        throw nb::type_error((argument + ": " + std::string(a->type.name()) +
                              ", of an accumulator of " + std::string(name(type())))
                                 .c_str());
      if (!a->is_row_major()) refuse(argument + ": its elements do not lie in a row");
    }
    if (y && y->size() != x.size()) refuse("y: not of the length of x");
    if (exact::degree(what) != degree())
      refuse("degree: " + std::to_string(degree()) + ", where that of these terms is " +
             std::to_string(exact::degree(what)));
    const auto at = [](const described* a, std::uint64_t i) {
      return a ? static_cast<const std::byte*>(a->where.data) + i * size_of(a->type.stored)
               : nullptr;
    };
    each([&](auto& s) {
      auto sum = s.value();  // an interrupt leaves the accumulator as it was
      for (std::uint64_t i = 0; i < x.size(); i += a_piece) {
        {
          const nb::gil_scoped_release free;
          exact::deposit(what, type(), at(&x, i), at(y, i), std::min(a_piece, x.size() - i), &sum);
        }
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      }
      s.value() = sum;
    });
  }
  void merge(const any_sum& o) {
    with(o, [](auto& a, const auto& b) { a.merge(b); });
  }
  void subtract(const any_sum& o) {
    with(o, [](auto& a, const auto& b) { a.subtract(b); });
  }
  std::partial_ordering compare(const any_sum& o) const {
    auto order = std::partial_ordering::unordered;
    const_cast<any_sum*>(this)->with(o, [&](const auto& a, const auto& b) { order = a <=> b; });
    return order;
  }

  /// The bits of f(sum, the output's type), which is that of the elements where `out` is None.
  template <bool ToFloat, class F>
  scalar rounded(nb::handle out, F f) const {
    const dtype to = out.is_none() ? type() : parse_number("dtype", out);
    return each([&]<class T, int D>(const accumulator<T, D>& s) {
      return visit(to, [&]<class Out>(std::type_identity<Out>) -> scalar {
        if constexpr (!std::is_integral_v<Out> || (std::is_integral_v<T> && !ToFloat))
          return testing::as_scalar(f(s, std::type_identity<Out>{}));
        else
          refuse("dtype: " + std::string(name(to)) + " of a value that is not whole");
      });
    });
  }

 private:
  template <class F>
  void with(const any_sum& o, F f) {
    if (o.type() != type() || o.degree() != degree()) refuse("other: of another type or degree");
    each([&]<class S>(S& a) {
      o.each([&]<class R>(const R& b) {
        if constexpr (std::is_same_v<S, R>) f(a, b);
      });
    });
  }
  std::variant<of_degree<1>, of_degree<2>> sums_;
};

nb::bytes bytes_of(const any_sum& s) {
  const auto bytes = s.each([](const auto& sum) { return sum.to_bytes(); });
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

nb::tuple shown(scalar s) {
  return nb::make_tuple(nb::str(name(s.type).data(), name(s.type).size()), s.bits);
}

}  // namespace

void add_accumulator(nb::module_& m) {
  nb::class_<any_sum>(
      m, "Accumulator",
      "An exact sum. Arrays are row-major, on the CPU; rounded values are a dtype and bits.")
      .def(
          "__init__",
          [](any_sum* self, nb::handle type, std::int64_t degree) {
            new (self) any_sum(parse_number("dtype", type), degree);
          },
          "dtype"_a, "degree"_a)
      .def_static("from_bytes", any_sum::from_bytes, "data"_a)
      .def("to_bytes", bytes_of)
      .def_prop_ro(
          "dtype",
          [](const any_sum& s) { return nb::str(name(s.type()).data(), name(s.type()).size()); })
      .def_prop_ro("degree", &any_sum::degree)
      .def_prop_ro(
          "is_zero",
          [](const any_sum& s) { return s.each([](const auto& sum) { return sum.is_zero(); }); })
      .def(
          "add",
          [](any_sum& s, const std::string& term, nb::handle x, nb::handle y) {
            for (const auto& [known, what] : terms)
              if (known == term) return s.add(what, x, y);
            refuse("term: there is no '" + term + "'");
          },
          "term"_a, "x"_a, "y"_a.none() = nb::none())
      .def("merge", &any_sum::merge, "other"_a)
      .def("subtract", &any_sum::subtract, "other"_a)
      .def(
          "compare",
          [](const any_sum& a, const any_sum& b) -> nb::object {
            const auto order = a.compare(b);
            return order == std::partial_ordering::unordered
                       ? nb::none()
                       : nb::object(nb::int_(order < 0   ? -1
                                             : order > 0 ? 1
                                                         : 0));
          },
          "other"_a, "-1, 0, 1, or None where one is NaN.")
      .def(
          "round",
          [](const any_sum& s, nb::handle out) {
            return shown(
                s.rounded<false>(out, []<class Out>(const auto& a, std::type_identity<Out>) {
                  return a.template round<Out>();
                }));
          },
          "dtype"_a.none() = nb::none())
      .def(
          "round_quotient",
          [](const any_sum& s, std::uint64_t n, nb::handle out) {
            return shown(
                s.rounded<true>(out, [n]<class Out>(const auto& a, std::type_identity<Out>) {
                  return a.template round_quotient<Out>(n);
                }));
          },
          "n"_a, "dtype"_a.none() = nb::none())
      .def(
          "round_root",
          [](const any_sum& s, nb::handle out) {
            return shown(
                s.rounded<true>(out, []<class Out>(const auto& a, std::type_identity<Out>) {
                  return a.template round_root<Out>();
                }));
          },
          "dtype"_a.none() = nb::none())
      .def(
          "fits",
          [](const any_sum& s, nb::handle out) {
            const dtype to = parse_number("dtype", out);
            return s.each([&]<class T, int D>(const accumulator<T, D>& a) {
              return visit(to, [&]<class Out>(std::type_identity<Out>) -> bool {
                if constexpr (std::is_integral_v<T> && std::is_integral_v<Out>)
                  return a.template fits<Out>();
                else
                  refuse("dtype: whether a sum fits is asked of integers");
              });
            });
          },
          "dtype"_a);
}

}  // namespace bitfold::python
