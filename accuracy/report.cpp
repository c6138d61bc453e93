#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/method.hpp>

#include "io/field.hpp"

namespace bitfold::accuracy {
namespace {

// The lists of a report, and what each row must have.
struct list_format {
  const char* name;
  std::vector<const char*> texts,
      numbers;         // numbers may be null, or text where they are not finite
  bool later = false;  // may be missing: the first reports have it not
};
const std::vector<list_format>& lists() {
  static const std::vector<list_format> all{
      {"software", {"name", "version"}, {}},
      {"missing", {"name", "why"}, {}},
      {"headlines", {"value", "label", "note"}, {}},
      {"findings", {"contestant", "kind", "where", "expected", "got"}, {}},
      {"failures", {"contestant", "where", "why"}, {}},
      {"wrong", {"contestant", "variation", "where", "expected", "got"}, {}, true},
      {"contestants", {"id", "name", "family", "device", "in", "acc", "out", "about"}, {}},
      {"inputs", {"id", "about", "kind"}, {}},
      {"accuracy",
       {"contestant", "input", "in", "study", "value", "bits", "exact"},
       {"n", "samples", "condition", "ulps", "ulps_mean", "bias_ulps", "relative", "correct_bits",
        "bound_relative", "bound_ratio", "running_ratio", "stagnations", "overflows", "gbps"}},
      {"bits",
       {"contestant", "device_name", "variation", "digest"},
       {"arrays", "repeats", "distinct"}},
      {"speed",
       {"contestant", "in", "variation"},
       {"n", "bytes", "threads", "seconds", "cv", "gbps", "ceiling_ratio"}},
      {"ceilings", {"device"}, {"threads", "bytes", "gbps"}},
      {"shapes",
       {"contestant", "in", "layout", "variation"},
       {"length", "outputs", "bytes", "threads", "seconds", "gbps", "ceiling_ratio"},
       true},
      {"batches",
       {"contestant", "in", "layout", "variation"},
       {"length", "batches", "largest", "distinct", "changed"},
       true}};
  return all;
}

std::string string_in(const json& x) { return x.get<std::string>(); }

// In the first reports everyone sums.
std::string op_of(const json& contestant) { return contestant.value("op", "sum"); }

const json& rows_of(const json& report, const char* list) {
  static const json none = json::array();
  return report.contains(list) ? report[list] : none;
}

void check(const json& report) {
  const auto require = [](bool good, const std::string& field, const char* what) {
    if (!good) throw error(errc::bad_input, field + ": " + what);
  };
  require(report.is_object(), "report", "is not a JSON object");
  const auto has = [](const json& x, const char* key, bool (json::*is)() const) {
    return x.contains(key) && (x[key].*is)();
  };
  require(has(report, "format", &json::is_string) && report["format"] == "bitfold-report", "format",
          "is not \"bitfold-report\"");
  require(has(report, "version", &json::is_number_integer) && report["version"] == 1, "version",
          "is not 1, the only one this bitfold reads");
  for (const char* key : {"mode", "date", "command"})
    require(has(report, key, &json::is_string), key, "is missing or no text");
  require(has(report, "seed", &json::is_number_integer), "seed", "is missing or no integer");
  for (const char* key : {"bitfold", "machine"})
    require(has(report, key, &json::is_object), key, "is missing or no object");
  for (const char* key : {"version", "commit"})
    require(has(report["bitfold"], key, &json::is_string), std::string("bitfold.") + key,
            "is missing or no text");
  require(has(report["bitfold"], "order_version", &json::is_number_integer),
          "bitfold.order_version", "is missing or no integer");
  for (const char* key : {"system", "cpu", "compiler"})
    require(has(report["machine"], key, &json::is_string), std::string("machine.") + key,
            "is missing or no text");
  require(has(report["machine"], "cores", &json::is_number_integer), "machine.cores",
          "is missing or no integer");
  for (const char* key : {"cpu_targets", "gpus"})
    require(has(report["machine"], key, &json::is_array), std::string("machine.") + key,
            "is missing or no list");
  for (const char* key : {"cpu_targets", "gpus"})
    for (const json& x : report["machine"][key])
      require(x.is_string(), std::string("machine.") + key, "is no list of texts");
  for (const auto& list : lists()) {
    if (list.later && !report.contains(list.name)) continue;
    require(has(report, list.name, &json::is_array), list.name, "is missing or no list");
    std::size_t i = 0;
    for (const json& row : report[list.name]) {
      const auto field = [&](const char* key) {
        return fmt::format("{}[{}].{}", list.name, i, key);
      };
      require(row.is_object(), fmt::format("{}[{}]", list.name, i), "is not an object");
      for (const char* key : list.texts)
        require(has(row, key, &json::is_string), field(key), "is missing or no text");
      for (const char* key : list.numbers)
        require(row.contains(key) && (row[key].is_number() || row[key].is_null() ||
                                      row[key] == "inf" || row[key] == "-inf" || row[key] == "nan"),
                field(key), "is missing or no number");
      ++i;
    }
  }
  std::set<std::string> ids;
  for (const json& c : report["contestants"]) {
    ids.insert(c["id"].get<std::string>());
    for (const char* key : {"promise", "main"})
      require(has(c, key, &json::is_boolean),
              "contestants: " + c["id"].get<std::string>() + ": " + key,
              "is missing or neither true nor false");
    require(!c.contains("op") || c["op"].is_string(), "contestants: " + string_in(c["id"]) + ": op",
            "is no text");
    require(c.contains("method") && (c["method"].is_string() || c["method"].is_null()),
            "contestants: " + c["id"].get<std::string>() + ": method",
            "is missing or neither text nor null");
  }
  for (const json& row : report["bits"])
    require(row.contains("equal") && (row["equal"].is_boolean() || row["equal"].is_null()),
            "bits.equal", "is missing or none of true, false and null");
  for (const json& row : report["accuracy"]) {
    const json& p = row.contains("permutations") ? row["permutations"] : row;
    require(
        p.is_null() || (has(p, "tried", &json::is_number) && has(p, "distinct", &json::is_number)),
        "accuracy.permutations", "is missing or neither null nor `tried` and `distinct`");
  }
  for (const char* list : {"wrong", "accuracy", "bits", "speed", "shapes", "batches"})
    for (const json& row : rows_of(report, list))
      require(ids.contains(row["contestant"].get<std::string>()), std::string(list) + ".contestant",
              "names none of the contestants");
}

std::map<std::string, const json*> contestants_by_id(const json& report) {
  std::map<std::string, const json*> by_id;
  for (const json& c : report["contestants"]) by_id[c["id"].get<std::string>()] = &c;
  return by_id;
}

std::string short_number(double x) {
  if (std::isnan(x)) return "-";
  const bool plain = x == 0 || (std::fabs(x) >= 0.001 && std::fabs(x) < 100000);
  return plain ? fmt::format("{:.3g}", x) : fmt::format("{:.1e}", x);
}

std::string power_of_two(double n) {
  const double e = std::log2(n);
  return e == std::floor(e) ? fmt::format("2^{:.0f}", e) : fmt::format("{:.0f}", n);
}

// A contestant's row at the greatest length, of its default variation; or null.
const json* speed_row(const json& report, const std::string& id) {
  const json* best = nullptr;
  for (const json& row : report["speed"])
    if (row["contestant"] == id && (!best || row["n"] > (*best)["n"])) best = &row;
  return best;
}

std::string machine_of(const json& report, std::string_view device) {
  const json& machine = report["machine"];
  return string_in(device == "cuda" && !machine["gpus"].empty() ? machine["gpus"][0] : machine["cpu"]);
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

json read_report(const std::filesystem::path& path) {
  const std::string shown = io::printable(path.string());
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) throw error(errc::bad_input, shown + ": cannot be read");
  try {
    // What prints a report goes as deep as it does.
    json report = json::parse(text.str(), [](int depth, json::parse_event_t, const json&) {
      if (depth > 16) throw error(errc::bad_input, "report: nested too deeply");
      return true;
    });
    check(report);
    return report;
  } catch (const json::exception& e) {
    throw error(errc::bad_input, shown + ": is not JSON: " + io::printable(e.what()));
  } catch (const error& e) {
    throw error(errc::bad_input, shown + ": " + io::printable(e.what()));
  }
}

std::string report_text(const json& report) {
  const auto dump = [](const json& x) {
    return x.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  std::string out = "{";
  const char* comma = "\n";
  for (const auto& [key, value] : report.items()) {
    out += comma + dump(key) + ": ";
    comma = ",\n";
    if (!value.is_array() || value.empty()) {
      out += dump(value);
      continue;
    }
    const char* before = "[\n";
    for (const json& row : value) {
      out += before + dump(row);
      before = ",\n";
    }
    out += "\n]";
  }
  return out + "\n}\n";
}

// ---- Headlines

void add_headlines(json& report) {
  const auto by_id = contestants_by_id(report);
  json lines = json::array();
  const auto add = [&](std::string value, std::string label, std::string note) {
    lines.push_back({{"value", value}, {"label", label}, {"note", note}});
  };
  const auto expect = [&](std::size_t count) {
    if (lines.size() < count) add("-", "not measured", "this run left it out");
  };

  std::uint64_t ways = 0, equal = 0, sums = 0;
  for (const json& row : report["bits"]) {
    const json& c = *by_id.at(string_in(row["contestant"]));
    if (row["equal"].is_boolean() && op_of(c) == "sum" &&
        // `sequential` calls the reference, so it is no comparison
        c["method"] != name(method_id::sequential)) {
      ++ways;
      equal += row["equal"].get<bool>();
      sums += row["arrays"].get<std::uint64_t>() * row["repeats"].get<std::uint64_t>();
    }
  }
  add(fmt::format("{} of {}", equal, ways), "ways to run bitfold give the bits of the reference",
      fmt::format("SIMD targets, threads, launch shapes and devices, by method and type: {} sums",
                  sums));

  // Ratios are kept to six digits; a finding says that one is above 1 by less.
  std::set<std::string> exceeded;
  for (const json& f : report["findings"])
    if (f["kind"] == "bound") exceeded.insert(string_in(f["contestant"]));
  double largest = 0;
  std::uint64_t checked = 0, within = 0;
  std::string where = "none";
  for (const json& row : report["accuracy"]) {
    if (!(*by_id.at(string_in(row["contestant"])))["promise"].get<bool>()) continue;
    const double ratio = number(row["bound_ratio"]);
    if (std::isnan(ratio)) continue;
    ++checked;
    within += ratio < 1 || (ratio == 1 && !exceeded.contains(string_in(row["contestant"])));
    if (ratio > largest) {
      largest = ratio;
      where = fmt::format("{} {}", string_in((*by_id.at(string_in(row["contestant"])))["name"]),
                          string_in(row["input"]));
    }
  }
  add(fmt::format("{} of {}", within, checked),
      "largest errors of bitfold on an input are within their a-priori bound",
      fmt::format("against MPFR, where no addition can overflow; at most {:.3g} "
                  "times the bound: {}",
                  largest, where));

  for (const char* device : {"cuda", "cpu"}) {
    const json* tree = speed_row(report, fmt::format("bitfold/sum/tree/f32/f32/f32/{}", device));
    const json* kahan = speed_row(report, fmt::format("bitfold/sum/kahan/f32/f32/f32/{}", device));
    if (!tree || !kahan) continue;
    add(fmt::format("{:.0f} %", 100 * number((*tree)["ceiling_ratio"])),
        fmt::format("of the read ceiling: tree, f32, n = {}", power_of_two(number((*tree)["n"]))),
        fmt::format("{:.4g} GB/s, kahan {:.4g} GB/s, on {}, {}", number((*tree)["gbps"]),
                    number((*kahan)["gbps"]),
                    machine_of(report, device), string_in((*tree)["variation"])));
    break;
  }
  expect(3);

  std::map<std::string, double> right;
  for (const json& row : report["accuracy"])
    if (row["study"] == "inputs" && row["in"] == "f32" && row["input"] == "condition-1e8") {
      const json& c = *by_id.at(string_in(row["contestant"]));
      right.emplace(string_in(c["name"]), number(row["correct_bits"]));
    }
  if (right.contains("bitfold kahan"))
    add(fmt::format("{:.3g} bits", right["bitfold kahan"]),
        "of 24 are right in kahan's f32 sum at condition number 1e8",
        fmt::format("tree {:.3g}{}", right["bitfold tree"],
                    right.contains("plain loop")
                        ? fmt::format(", plain loop {:.3g}", right["plain loop"])
                        : ""));
  expect(4);

  for (const char* device : {"cuda", "cpu"}) {
    struct price {
      std::string times, n;
      const json* row;
    };
    const auto price_of = [&](const char* type, const char* acc) -> std::optional<price> {
      const auto row = [&](const char* method, const char* by) {
        return speed_row(report, fmt::format("bitfold/sum/{}/{}/{}/{}/{}", method, type, by, type, device));
      };
      const json *exact = row("exact", "exact"), *tree = row("tree", acc);
      if (!exact || !tree || (*exact)["n"] != (*tree)["n"]) return {};
      return price{fmt::format("{:.2f}×", number((*exact)["seconds"]) / number((*tree)["seconds"])),
                   power_of_two(number((*exact)["n"])), exact};
    };
    const auto f32 = price_of("f32", "f32");
    if (!f32) continue;
    std::string others;
    for (const auto& [type, acc] : {std::pair("f64", "f64"), {"f16", "f32"}, {"bf16", "f32"}})
      if (const auto p = price_of(type, acc)) others += fmt::format("{} {}{}, ", type, p->times, p->n == f32->n ? "" : " at " + p->n);
    add(f32->times, fmt::format("tree's time is the price of the truth: exact, f32, n = {}", f32->n),
        fmt::format("{:.4g} GB/s; {}on {}, {}", number((*f32->row)["gbps"]), others, machine_of(report, device),
                    string_in((*f32->row)["variation"])));
    break;
  }
  expect(5);
  report["headlines"] = std::move(lines);
}

// ---- For the terminal

std::string summary(const json& report) {
  const auto by_id = contestants_by_id(report);
  const json& wrong = rows_of(report, "wrong");
  const auto is_wrong = [&](const json* c) {
    return std::any_of(wrong.begin(), wrong.end(),
                       [&](const json& w) { return w["contestant"] == (*c)["id"]; });
  };
  std::string out;
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    // Columns are the contestants on the CPU, or on the GPU without a CPU; rows are inputs.
    std::vector<const json*> columns;
    for (const char* device : {"cpu", "cuda"}) {
      if (!columns.empty()) break;
      for (const json& c : report["contestants"])
        if (c["in"] == type && c["device"] == device && c["main"].get<bool>() &&
            c["family"] != "road" && columns.size() < 8)
          columns.push_back(&c);
    }
    std::vector<std::string> inputs;
    std::map<std::pair<std::string, std::string>, const json*> cells;
    for (const json& row : report["accuracy"]) {
      if (row["in"] != type || (row["study"] != "inputs" && row["study"] != "files")) continue;
      const std::string input = string_in(row["input"]);
      if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
      cells[{input, string_in(row["contestant"])}] = &row;
    }
    if (columns.empty() || inputs.empty()) continue;
    const auto line = [&](const std::string& head, const std::string& second, auto cell) {
      out += fmt::format("{:<20.20} {:>9}", io::printable(head), second);
      for (const json* c : columns) out += fmt::format(" {:>16.16}", cell(*c));
      out += '\n';
    };
    out += fmt::format("\n{}: largest error in ulps\n", type);
    line("input", "condition", [](const json& c) { return string_in(c["name"]); });
    if (std::any_of(columns.begin(), columns.end(), is_wrong))
      line("small integers", "1",
           [&](const json& c) { return is_wrong(&c) ? "wrong here" : "right"; });
    for (const std::string& input : inputs) {
      std::string condition;
      for (const json* c : columns)
        if (const auto it = cells.find({input, string_in((*c)["id"])}); it != cells.end())
          condition = short_number(number((*it->second)["condition"]));
      line(input, condition, [&](const json& c) -> std::string {
        const auto it = cells.find({input, string_in(c["id"])});
        return it == cells.end() ? "" : short_number(number((*it->second)["ulps"]));
      });
    }
    // GB/s at the greatest length, in the default variation and on one thread.
    for (const bool one : {false, true}) {
      double n = 0;
      std::map<std::string, double> rate;
      for (const json& row : report["speed"]) {
        const std::string id = string_in(row["contestant"]);
        if (row["in"] != type || (one && row["threads"] != 1) ||
            std::none_of(columns.begin(), columns.end(),
                         [&](const json* c) { return (*c)["id"] == id; }))
          continue;
        const double here = number(row["n"]);
        if (here > n) rate.clear(), n = here;
        if (here == n) rate.emplace(id, number(row["gbps"]));
      }
      if (n == 0) continue;
      line(fmt::format("GB/s at {}", power_of_two(n)), one ? "1 thread" : "default",
           [&](const json& c) -> std::string {
             const auto it = rate.find(string_in(c["id"]));
             return it == rate.end() ? "" : fmt::format("{:.1f}", it->second);
           });
    }
  }
  if (const json& batches = rows_of(report, "batches"); !batches.empty()) {
    out += "\nLengths and types at which the first of a batch has the bits that it has alone\n";
    std::vector<std::string> names;
    std::map<std::pair<std::string, std::string>, std::pair<int, int>> same;  // and all, by name and layout
    for (const json& row : batches) {
      const json& c = *by_id.at(string_in(row["contestant"]));
      const std::string name = fmt::format("{}, {}", string_in(c["name"]), string_in(c["device"]));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      auto& [equal, all] = same[{name, string_in(row["layout"])}];
      equal += number(row["distinct"]) == 1;
      ++all;
    }
    for (const std::string& name : names) {
      out += fmt::format("  {:<34}", name);
      for (const char* layout : {"rows", "columns"})
        out += fmt::format(" {:>7}: {} of {}", layout, same[{name, layout}].first, same[{name, layout}].second);
      out += '\n';
    }
  }
  if (!report["missing"].empty()) {
    out += "\nNot here:\n";
    for (const json& m : report["missing"])
      out += fmt::format("  {}: {}\n", io::printable(string_in(m["name"])),
                         io::printable(string_in(m["why"])));
  }
  for (const json& f : report["failures"])
    out += fmt::format("Failed: {} at {}: {}\n", string_in(f["contestant"]),
                       io::printable(string_in(f["where"])), io::printable(string_in(f["why"])));
  for (const json& w : wrong)
    out +=
        fmt::format("Wrong here: {}, {}: the small integers {} sum to {}, got {}\n",
                    string_in(w["contestant"]), io::printable(string_in(w["variation"])),
                    io::printable(string_in(w["where"])), string_in(w["expected"]), string_in(w["got"]));
  out += '\n';
  for (const json& h : report["headlines"])
    out += fmt::format("{:>12}  {} ({})\n", string_in(h["value"]), string_in(h["label"]),
                       string_in(h["note"]));
  for (const json& f : report["findings"])  // the suite keeps a few of each kind
    out +=
        fmt::format("BROKEN PROMISE  {}: {} at {}: expected {}, got {}\n", string_in(f["contestant"]),
                    string_in(f["kind"]), io::printable(string_in(f["where"])), string_in(f["expected"]),
                    string_in(f["got"]));
  return out;
}

// ---- Two runs

namespace {

std::string describe(const json& report) {
  std::string machine = string_in(report["machine"]["cpu"]);
  for (const json& gpu : report["machine"]["gpus"]) machine += ", " + gpu.get<std::string>();
  return fmt::format("{}, commit {}, {}, {}, seed {}, order version {}", string_in(report["date"]),
                     string_in(report["bitfold"]["commit"]), string_in(report["mode"]), machine,
                     report["seed"].dump(), report["bitfold"]["order_version"].dump());
}

// What two runs have of one contestant.
struct side {
  double ulps = std::numeric_limits<double>::quiet_NaN();
  double bound = std::numeric_limits<double>::quiet_NaN();  // the largest error over bound
  double gbps = std::numeric_limits<double>::quiet_NaN(), n = 0;
};

std::map<std::string, side> sides(const json& report) {
  std::map<std::string, side> all;
  for (const json& row : report["accuracy"]) {
    side& s = all[string_in(row["contestant"])];
    s.bound = std::fmax(s.bound, number(row["bound_ratio"]));
    if (row["study"] == "inputs" && row["input"] == "normal") s.ulps = number(row["ulps"]);
  }
  for (const json& row : report["speed"]) {
    side& s = all[string_in(row["contestant"])];
    if (const double n = number(row["n"]); n > s.n) s.n = n, s.gbps = number(row["gbps"]);
  }
  return all;
}

}  // namespace

comparison compare(const json& a, const json& b) {
  comparison result{fmt::format("A: {}\nB: {}\n", describe(a), describe(b)), false};
  std::string& out = result.text;
  const auto worse = [&](const std::string& line) {
    out += "WORSE  " + line + '\n';
    result.worse = true;
  };
  const auto promised = [](const json& report) {
    std::set<std::string> ids;
    for (const json& c : report["contestants"])
      if (c["promise"].get<bool>()) ids.insert(string_in(c["id"]));
    return ids;
  };
  const auto promises = promised(a);
  const bool same_order = a["bitfold"]["order_version"] == b["bitfold"]["order_version"];
  const bool same_seed = a["seed"] == b["seed"];
  if (!same_order) out += "The order versions differ, so bits are not compared.\n";
  if (!same_seed) out += "The seeds differ, so only files and promises are compared.\n";

  // Bits and bounds of each sum that both have.
  const auto key = [](const json& row) {
    return fmt::format("{} on {} {}[{}], {}", string_in(row["contestant"]), string_in(row["input"]),
                       string_in(row["in"]), row["n"].dump(), string_in(row["study"]));
  };
  std::map<std::string, const json*> before;
  for (const json& row : a["accuracy"])
    if (same_seed || row["study"] == "files") before[key(row)] = &row;
  std::uint64_t compared = 0, compared_promises = 0, moved = 0, peers_moved = 0, other_data = 0;
  for (const json& row : b["accuracy"]) {
    const auto it = before.find(key(row));
    if (it == before.end()) continue;
    const json& old = *it->second;
    const bool promise = promises.contains(string_in(row["contestant"]));
    if (row["study"] == "files" &&
        (old["exact"] != row["exact"] || old["condition"] != row["condition"])) {
      ++other_data;
      continue;
    }
    ++compared;
    compared_promises += promise;
    if (old["bits"] != row["bits"]) {
      if (promise && same_order) {
        ++moved;
        worse(fmt::format("bits: {}: {} ({}) became {} ({})", io::printable(it->first),
                          string_in(old["bits"]), string_in(old["value"]), string_in(row["bits"]),
                          string_in(row["value"])));
      } else if (!promise) {
        ++peers_moved;
      }
    }
    if (!promise) continue;
    if (const double was = number(old["bound_relative"]), is = number(row["bound_relative"]);
        is > was * 1.00001 ||                  // six digits are kept
        (!std::isnan(was) && std::isnan(is)))  // there is none any more
      worse(fmt::format("bound: {}: {:.6g} became {:.6g}", io::printable(it->first), was, is));
  }
  // Bits by variation: all variations of a promise agree, so the first stands for them.
  std::map<std::string, const json*> digests;
  for (const json& row : a["bits"]) digests.emplace(string_in(row["contestant"]), &row);
  if (same_order && same_seed)
    for (const json& row : b["bits"]) {
      const auto it = digests.find(string_in(row["contestant"]));
      if (it == digests.end() || !promises.contains(it->first) ||
          (*it->second)["arrays"] != row["arrays"])
        continue;
      ++compared;
      ++compared_promises;
      if ((*it->second)["digest"] != row["digest"]) {
        ++moved;
        worse(fmt::format("bits: {}, {}: digest {} became {}", it->first, string_in(row["variation"]),
                          string_in((*it->second)["digest"]), string_in(row["digest"])));
      }
    }
  const auto finding_key = [](const json& f) {
    return string_in(f["contestant"]) + string_in(f["kind"]) + string_in(f["where"]);
  };
  std::set<std::string> known;
  for (const json& f : a["findings"]) known.insert(finding_key(f));
  for (const json& f : b["findings"])
    if (!known.contains(finding_key(f)))
      worse(fmt::format("promise broken: {}: {} at {}: expected {}, got {}",
                        string_in(f["contestant"]), string_in(f["kind"]),
                        io::printable(string_in(f["where"])), string_in(f["expected"]),
                        string_in(f["got"])));

  if (compared_promises == 0)
    throw error(errc::bad_input,
                "the two reports have no promised result in common, so nothing to compare");
  out += fmt::format(
      "{} results compared, {} of them promised: bits that are promised moved in {}, others in "
      "{}.\n",
      compared, compared_promises, moved, peers_moved);
  if (other_data > 0)
    out += fmt::format("{} results are of files with other content.\n", other_data);
  out += '\n';
  out += fmt::format("{:<40} {:>10} {:>10}  {:>11} {:>11}  {:>9} {:>9}\n", "", "ulps A", "ulps B",
                     "err/bound A", "err/bound B", "GB/s A", "GB/s B");
  const auto first = sides(a), second = sides(b);
  for (const json& c : b["contestants"]) {
    const std::string id = string_in(c["id"]);
    if (!c["main"].get<bool>() || (!first.contains(id) && !second.contains(id))) continue;
    const auto of = [&](const std::map<std::string, side>& m) {
      const auto it = m.find(id);
      return it == m.end() ? side{} : it->second;
    };
    const side x = of(first), y = of(second);
    out += fmt::format("{:<40} {:>10} {:>10}  {:>11} {:>11}  {:>9} {:>9}\n", id,
                       short_number(x.ulps), short_number(y.ulps), short_number(x.bound),
                       short_number(y.bound), short_number(x.gbps), short_number(y.gbps));
  }
  out +=
      "\nulps: on the input `normal`. GB/s: default variation at the greatest length of each "
      "run.\n";
  out += result.worse ? "B is worse than A.\n" : "No promised bit or bound is worse in B.\n";
  return result;
}

}  // namespace bitfold::accuracy
