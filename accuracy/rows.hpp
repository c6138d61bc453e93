// The lists of a report (docs/report-format.md) and the fields of their rows, which are named here
// alone, and their JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

namespace bitfold::accuracy {

using json = nlohmann::ordered_json;

/// A number as the report holds it: six significant digits; "inf", "-inf" and "nan" as strings.
json number(double x);
/// The reverse; NaN for null.
double number(const json& x);

/// A field of a row, or a list of a report. Its type says what its JSON is: text, a bool, a double,
/// a count (std::uint64_t) or a struct with fields; or one of these or null (std::optional).
template <class Row, class T>
struct field {
  const char* name;
  T Row::* value;
  bool later;  ///< may be missing: the first reports have it not
  constexpr field(const char* n, T Row::* v, bool l = false) : name(n), value(v), later(l) {}
};

struct software_row {
  std::string name, version;
  static constexpr std::tuple fields{field{"name", &software_row::name},
                                     field{"version", &software_row::version}};
};

struct missing_row {
  std::string name, why;
  static constexpr std::tuple fields{field{"name", &missing_row::name},
                                     field{"why", &missing_row::why}};
};

struct headline_row {
  std::string value, label, note;
  static constexpr std::tuple fields{field{"value", &headline_row::value},
                                     field{"label", &headline_row::label},
                                     field{"note", &headline_row::note}};
};

struct finding_row {
  std::string contestant, kind, where, expected, got;
  static constexpr std::tuple fields{
      field{"contestant", &finding_row::contestant},
      field{"kind", &finding_row::kind},
      field{"where", &finding_row::where},
      field{"expected", &finding_row::expected},
      field{"got", &finding_row::got},
  };
};

struct failure_row {
  std::string contestant, where, why;
  static constexpr std::tuple fields{field{"contestant", &failure_row::contestant},
                                     field{"where", &failure_row::where},
                                     field{"why", &failure_row::why}};
};

struct wrong_row {
  std::string contestant, variation, where, expected, got;
  static constexpr std::tuple fields{
      field{"contestant", &wrong_row::contestant},
      field{"variation", &wrong_row::variation},
      field{"where", &wrong_row::where},
      field{"expected", &wrong_row::expected},
      field{"got", &wrong_row::got},
  };
};

struct contestant_row {
  std::string id, name, family;
  std::optional<std::string> method;
  std::string device, in, acc, out;
  bool promise, main;
  std::string about;
  std::string op = "sum";  // in the first reports everyone sums
  static constexpr std::tuple fields{
      field{"id", &contestant_row::id},           field{"name", &contestant_row::name},
      field{"family", &contestant_row::family},   field{"method", &contestant_row::method},
      field{"device", &contestant_row::device},   field{"in", &contestant_row::in},
      field{"acc", &contestant_row::acc},         field{"out", &contestant_row::out},
      field{"promise", &contestant_row::promise}, field{"main", &contestant_row::main},
      field{"about", &contestant_row::about},     field{"op", &contestant_row::op, true},
  };
};

struct input_row {
  std::string id, about, kind;
  static constexpr std::tuple fields{field{"id", &input_row::id}, field{"about", &input_row::about},
                                     field{"kind", &input_row::kind}};
};

struct permutations {
  std::uint64_t tried, distinct;
  static constexpr std::tuple fields{field{"tried", &permutations::tried},
                                     field{"distinct", &permutations::distinct}};
};

struct accuracy_row {
  std::string contestant, input, in;
  std::uint64_t n;
  std::string study;
  std::uint64_t samples;
  std::optional<double> condition;
  std::string value, bits, exact;
  double ulps, ulps_mean;
  std::optional<double> bias_ulps, relative;
  double correct_bits;
  std::optional<double> bound_relative, bound_ratio, running_ratio;
  std::optional<std::uint64_t> stagnations;
  std::uint64_t overflows;
  std::optional<accuracy::permutations> permutations;
  std::optional<double> gbps;
  static constexpr std::tuple fields{
      field{"contestant", &accuracy_row::contestant},
      field{"input", &accuracy_row::input},
      field{"in", &accuracy_row::in},
      field{"n", &accuracy_row::n},
      field{"study", &accuracy_row::study},
      field{"samples", &accuracy_row::samples},
      field{"condition", &accuracy_row::condition},
      field{"value", &accuracy_row::value},
      field{"bits", &accuracy_row::bits},
      field{"exact", &accuracy_row::exact},
      field{"ulps", &accuracy_row::ulps},
      field{"ulps_mean", &accuracy_row::ulps_mean},
      field{"bias_ulps", &accuracy_row::bias_ulps},
      field{"relative", &accuracy_row::relative},
      field{"correct_bits", &accuracy_row::correct_bits},
      field{"bound_relative", &accuracy_row::bound_relative},
      field{"bound_ratio", &accuracy_row::bound_ratio},
      field{"running_ratio", &accuracy_row::running_ratio},
      field{"stagnations", &accuracy_row::stagnations},
      field{"overflows", &accuracy_row::overflows},
      field{"permutations", &accuracy_row::permutations},
      field{"gbps", &accuracy_row::gbps},
  };
};

struct bits_row {
  std::string contestant, device_name, variation;
  std::uint64_t arrays, repeats;
  std::string digest;
  std::uint64_t distinct;
  std::optional<bool> equal;
  static constexpr std::tuple fields{
      field{"contestant", &bits_row::contestant}, field{"device_name", &bits_row::device_name},
      field{"variation", &bits_row::variation},   field{"arrays", &bits_row::arrays},
      field{"repeats", &bits_row::repeats},       field{"digest", &bits_row::digest},
      field{"distinct", &bits_row::distinct},     field{"equal", &bits_row::equal},
  };
};

struct speed_row {
  std::string contestant, in;
  std::uint64_t n;
  std::optional<double> cv;
  std::uint64_t bytes;
  std::string variation;
  std::optional<std::uint64_t> threads;
  double seconds, gbps, ceiling_ratio;
  std::optional<double> fastest, slowest;
  std::optional<bool> noisy;
  static constexpr std::tuple fields{
      field{"contestant", &speed_row::contestant},
      field{"in", &speed_row::in},
      field{"n", &speed_row::n},
      field{"cv", &speed_row::cv},
      field{"bytes", &speed_row::bytes},
      field{"variation", &speed_row::variation},
      field{"threads", &speed_row::threads},
      field{"seconds", &speed_row::seconds},
      field{"gbps", &speed_row::gbps},
      field{"ceiling_ratio", &speed_row::ceiling_ratio},
      field{"fastest", &speed_row::fastest, true},
      field{"slowest", &speed_row::slowest, true},
      field{"noisy", &speed_row::noisy, true},
  };
};

struct ceiling_row {
  std::string device;
  std::optional<std::uint64_t> threads;
  std::uint64_t bytes;
  double gbps;
  std::optional<double> others;
  static constexpr std::tuple fields{
      field{"device", &ceiling_row::device},       field{"threads", &ceiling_row::threads},
      field{"bytes", &ceiling_row::bytes},         field{"gbps", &ceiling_row::gbps},
      field{"others", &ceiling_row::others, true},
  };
};

struct shape_row {
  std::string contestant, in, layout;
  std::uint64_t length, outputs, bytes;
  std::string variation;
  std::optional<std::uint64_t> threads;
  double seconds, gbps, ceiling_ratio;
  std::optional<bool> noisy;
  static constexpr std::tuple fields{
      field{"contestant", &shape_row::contestant},
      field{"in", &shape_row::in},
      field{"layout", &shape_row::layout},
      field{"length", &shape_row::length},
      field{"outputs", &shape_row::outputs},
      field{"bytes", &shape_row::bytes},
      field{"variation", &shape_row::variation},
      field{"threads", &shape_row::threads},
      field{"seconds", &shape_row::seconds},
      field{"gbps", &shape_row::gbps},
      field{"ceiling_ratio", &shape_row::ceiling_ratio},
      field{"noisy", &shape_row::noisy, true},
  };
};

struct batch_row {
  std::string contestant, in, layout;
  std::uint64_t length;
  std::string variation;
  std::uint64_t batches, largest, distinct;
  std::optional<std::uint64_t> changed;
  static constexpr std::tuple fields{
      field{"contestant", &batch_row::contestant}, field{"in", &batch_row::in},
      field{"layout", &batch_row::layout},         field{"length", &batch_row::length},
      field{"variation", &batch_row::variation},   field{"batches", &batch_row::batches},
      field{"largest", &batch_row::largest},       field{"distinct", &batch_row::distinct},
      field{"changed", &batch_row::changed},
  };
};

struct product_row {
  std::string contestant, input, in;
  std::uint64_t rows, inner, columns, elements;
  double condition;
  std::string digest;
  double ulps, ulps_median, relative, relative_median;
  std::optional<double> bound_ratio;
  std::uint64_t overflows;
  static constexpr std::tuple fields{
      field{"contestant", &product_row::contestant},
      field{"input", &product_row::input},
      field{"in", &product_row::in},
      field{"rows", &product_row::rows},
      field{"inner", &product_row::inner},
      field{"columns", &product_row::columns},
      field{"elements", &product_row::elements},
      field{"condition", &product_row::condition},
      field{"digest", &product_row::digest},
      field{"ulps", &product_row::ulps},
      field{"ulps_median", &product_row::ulps_median},
      field{"relative", &product_row::relative},
      field{"relative_median", &product_row::relative_median},
      field{"bound_ratio", &product_row::bound_ratio},
      field{"overflows", &product_row::overflows},
  };
};

struct product_bits_row {
  std::string contestant, in;
  std::uint64_t rows, inner, columns;
  std::uint64_t ways, way_results, batches, batch_results;
  std::optional<std::uint64_t> changed;
  std::uint64_t layouts, layout_results;
  std::optional<bool> equal;
  static constexpr std::tuple fields{
      field{"contestant", &product_bits_row::contestant},
      field{"in", &product_bits_row::in},
      field{"rows", &product_bits_row::rows},
      field{"inner", &product_bits_row::inner},
      field{"columns", &product_bits_row::columns},
      field{"ways", &product_bits_row::ways},
      field{"way_results", &product_bits_row::way_results},
      field{"batches", &product_bits_row::batches},
      field{"batch_results", &product_bits_row::batch_results},
      field{"changed", &product_bits_row::changed},
      field{"layouts", &product_bits_row::layouts},
      field{"layout_results", &product_bits_row::layout_results},
      field{"equal", &product_bits_row::equal},
  };
};

struct product_speed_row {
  std::string contestant, in;
  std::uint64_t rows, inner, columns;
  std::string variation;
  std::optional<std::uint64_t> threads;
  double seconds, gflops;
  std::optional<bool> noisy;
  static constexpr std::tuple fields{
      field{"contestant", &product_speed_row::contestant},
      field{"in", &product_speed_row::in},
      field{"rows", &product_speed_row::rows},
      field{"inner", &product_speed_row::inner},
      field{"columns", &product_speed_row::columns},
      field{"variation", &product_speed_row::variation},
      field{"threads", &product_speed_row::threads},
      field{"seconds", &product_speed_row::seconds},
      field{"gflops", &product_speed_row::gflops},
      field{"noisy", &product_speed_row::noisy},
  };
};

struct rank_row {
  std::string contestant, input, in;
  std::uint64_t ranks, contributions, results, changed;
  std::string digest;
  double ulps, ulps_median;
  std::optional<double> bound_ratio;
  static constexpr std::tuple fields{
      field{"contestant", &rank_row::contestant},
      field{"input", &rank_row::input},
      field{"in", &rank_row::in},
      field{"ranks", &rank_row::ranks},
      field{"contributions", &rank_row::contributions},
      field{"results", &rank_row::results},
      field{"changed", &rank_row::changed},
      field{"digest", &rank_row::digest},
      field{"ulps", &rank_row::ulps},
      field{"ulps_median", &rank_row::ulps_median},
      field{"bound_ratio", &rank_row::bound_ratio},
  };
};

/// The lists of a report, or of a part of it.
struct report_rows {
  std::vector<software_row> software;
  std::vector<missing_row> missing;
  std::vector<headline_row> headlines;
  std::vector<finding_row> findings;
  std::vector<failure_row> failures;
  std::vector<wrong_row> wrong;
  std::vector<contestant_row> contestants;
  std::vector<input_row> inputs;
  std::vector<accuracy_row> accuracy;
  std::vector<bits_row> bits;
  std::vector<speed_row> speed;
  std::vector<ceiling_row> ceilings;
  std::vector<shape_row> shapes;
  std::vector<batch_row> batches;
  std::vector<product_row> products;
  std::vector<product_bits_row> product_bits;
  std::vector<product_speed_row> product_speed;
  std::vector<rank_row> ranks;
  static constexpr std::tuple fields{
      field{"software", &report_rows::software},
      field{"missing", &report_rows::missing},
      field{"headlines", &report_rows::headlines},
      field{"findings", &report_rows::findings},
      field{"failures", &report_rows::failures},
      field{"wrong", &report_rows::wrong, true},
      field{"contestants", &report_rows::contestants},
      field{"inputs", &report_rows::inputs},
      field{"accuracy", &report_rows::accuracy},
      field{"bits", &report_rows::bits},
      field{"speed", &report_rows::speed},
      field{"ceilings", &report_rows::ceilings},
      field{"shapes", &report_rows::shapes, true},
      field{"batches", &report_rows::batches, true},
      field{"products", &report_rows::products, true},
      field{"product_bits", &report_rows::product_bits, true},
      field{"product_speed", &report_rows::product_speed, true},
      field{"ranks", &report_rows::ranks, true},
  };
};

/// Calls f with each field of a row, or each list of a report, in their order.
template <class Row, class F>
constexpr void each_field(F f) {
  std::apply([&](const auto&... of) { (f(of), ...); }, Row::fields);
}

template <class T>
constexpr bool is_list = false;
template <class Row>
constexpr bool is_list<std::vector<Row>> = true;

/// A row, a list of them, all lists, or the value of a field.
template <class T>
json json_of(const T& x) {
  if constexpr (requires { T::fields; }) {
    json out = json::object();
    each_field<T>([&](const auto& f) { out[f.name] = json_of(x.*f.value); });
    return out;
  } else if constexpr (is_list<T>) {
    json out = json::array();
    for (const auto& row : x) out.push_back(json_of(row));
    return out;
  } else if constexpr (requires { x.has_value(); }) {
    return x ? json_of(*x) : json();
  } else if constexpr (std::is_same_v<T, double>) {
    return number(x);
  } else {
    return x;
  }
}

/// The lists of a report. Errors (errc::bad_input, naming the field): one that is missing or of a
/// wrong type, a row of a contestant that is none.
report_rows rows_of(const json& report);

}  // namespace bitfold::accuracy
