#include "rows.hpp"

#include <cmath>
#include <concepts>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>

#include <bitfold/error.hpp>

namespace bitfold::accuracy {
namespace {

[[noreturn]] void bad(const std::string& where, const std::string& what) {
  throw error(errc::bad_input, where + ": " + what);
}

// The type of a field, or what is in an optional one.
template <class T>
struct inner {
  using type = T;
};
template <class T>
struct inner<std::optional<T>> {
  using type = T;
};
template <class T>
constexpr bool is_row = requires { inner<T>::type::fields; };
template <class T>
constexpr bool is_number =
    std::is_arithmetic_v<typename inner<T>::type> && !std::same_as<typename inner<T>::type, bool>;

// False where x is no such value.
template <class T>
bool read(const json& x, T& out) {
  if constexpr (requires { out.has_value(); }) {
    out.reset();
    return x.is_null() || read(x, out.emplace());
  } else if constexpr (is_row<T>) {
    bool good = x.is_object();
    each_field<T>(
        [&](const auto& f) { good = good && x.contains(f.name) && read(x[f.name], out.*f.value); });
    return good;
  } else if constexpr (std::same_as<T, std::string>) {
    if (!x.is_string()) return false;
    out = x.get<std::string>();
  } else if constexpr (std::same_as<T, bool>) {
    if (!x.is_boolean()) return false;
    out = x.get<bool>();
  } else if constexpr (std::same_as<T, double>) {
    if (!x.is_number() && x != "inf" && x != "-inf" && x != "nan") return false;
    out = number(x);
  } else {
    static_assert(std::same_as<T, std::uint64_t>);
    if (!x.is_number_integer() || x < 0) return false;
    out = x.get<std::uint64_t>();
  }
  return true;
}

// What is said of a field that cannot be read.
template <class T>
std::string complaint(bool later) {
  using type = typename inner<T>::type;
  const bool null = !std::same_as<T, type>;
  std::string what;
  if constexpr (is_row<T>) {
    each_field<type>([&](const auto& f) {
      what += fmt::format("{}`{}`", what.empty() ? "neither null nor " : " and ", f.name);
    });
  } else if constexpr (is_number<T>) {
    what = std::same_as<type, double> ? "no number" : "no whole number";
  } else if constexpr (std::same_as<type, bool>) {
    what = null ? "none of true, false and null" : "neither true nor false";
  } else {
    what = null ? "neither text nor null" : "no text";
  }
  return (later ? "is " : "is missing or ") + what;
}

template <class Row>
Row read_row(const char* list, std::size_t i, const json& x) {
  if (!x.is_object()) bad(fmt::format("{}[{}]", list, i), "is not an object");
  Row row{};
  each_field<Row>([&]<class T>(const field<Row, T>& f) {
    if (x.contains(f.name) ? read(x[f.name], row.*f.value) : f.later) return;
    // Texts and numbers are named by their row, others by its id, if it has one.
    std::string where = fmt::format("{}.{}", list, f.name);
    if ((is_number<T> || std::same_as<T, std::string>) && !f.later)
      where = fmt::format("{}[{}].{}", list, i, f.name);
    else if constexpr (requires { row.id; })
      where = fmt::format("{}: {}: {}", list, row.id, f.name);
    bad(where, complaint<T>(f.later));
  });
  return row;
}

}  // namespace

json number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return json::parse(fmt::format("{:.6g}", x));
}

double number(const json& x) {
  if (x.is_number()) return x.get<double>();
  if (x == "inf") return std::numeric_limits<double>::infinity();
  if (x == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

report_rows rows_of(const json& report) {
  report_rows out;
  each_field<report_rows>([&]<class Row>(const field<report_rows, std::vector<Row>>& list) {
    if (list.later && !report.contains(list.name)) return;
    if (!report.contains(list.name) || !report[list.name].is_array())
      bad(list.name, "is missing or no list");
    for (const json& x : report[list.name]) {
      auto& rows = out.*list.value;
      rows.push_back(read_row<Row>(list.name, rows.size(), x));
    }
  });
  std::set<std::string> ids;
  for (const contestant_row& c : out.contestants) ids.insert(c.id);
  const auto known = [&](const char* list, const auto& rows) {
    for (const auto& row : rows)
      if (!ids.contains(row.contestant))
        bad(std::string(list) + ".contestant", "names none of the contestants");
  };
  known("wrong", out.wrong);
  known("accuracy", out.accuracy);
  known("bits", out.bits);
  known("speed", out.speed);
  known("shapes", out.shapes);
  known("batches", out.batches);
  known("products", out.products);
  known("product_bits", out.product_bits);
  known("product_speed", out.product_speed);
  known("ranks", out.ranks);
  return out;
}

}  // namespace bitfold::accuracy
