#include "render.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <bitfold/error.hpp>

#include "page_files.hpp"

namespace bitfold::accuracy {
namespace {

using nlohmann::json;

// ---- What the page relies on

// The rest may be null or missing: the page shows a dash.

struct field {
  const char* name;
  json::value_t type;
};
constexpr auto text = json::value_t::string;
constexpr auto list = json::value_t::array;
constexpr auto object = json::value_t::object;
constexpr auto number = json::value_t::number_float;

const std::vector<field> top_fields = {
    {"mode", text},      {"date", text},        {"command", text},  {"bitfold", object},
    {"machine", object}, {"software", list},    {"missing", list},  {"headlines", list},
    {"findings", list},  {"contestants", list}, {"inputs", list},   {"accuracy", list},
    {"bits", list},      {"speed", list},       {"ceilings", list},
};
const std::vector<std::pair<const char*, std::vector<field>>> row_fields = {
    {"contestants",  // first: others refer to them
     {{"id", text},
      {"name", text},
      {"family", text},
      {"device", text},
      {"in", text},
      {"out", text}}},
    {"software", {{"name", text}, {"version", text}}},
    {"missing", {{"name", text}, {"why", text}}},
    {"headlines", {{"value", text}, {"label", text}}},
    {"findings", {{"contestant", text}, {"kind", text}, {"where", text}}},
    {"inputs", {{"id", text}}},
    {"wrong", {{"contestant", text}, {"where", text}}},
    {"accuracy",
     {{"contestant", text}, {"input", text}, {"in", text}, {"n", number}, {"study", text}}},
    {"bits", {{"contestant", text}, {"variation", text}, {"digest", text}}},
    {"speed", {{"contestant", text}, {"in", text}, {"n", number}, {"seconds", number}}},
    {"ceilings", {{"device", text}, {"bytes", number}, {"gbps", number}}},
    {"shapes",
     {{"contestant", text},
      {"in", text},
      {"layout", text},
      {"length", number},
      {"seconds", number},
      {"gbps", number}}},
    {"batches",
     {{"contestant", text},
      {"in", text},
      {"layout", text},
      {"length", number},
      {"distinct", number}}},
    {"products",
     {{"contestant", text},
      {"input", text},
      {"in", text},
      {"rows", number},
      {"inner", number},
      {"columns", number}}},
    {"product_bits",
     {{"contestant", text},
      {"in", text},
      {"way_results", number},
      {"batch_results", number},
      {"layout_results", number}}},
    {"product_speed",
     {{"contestant", text},
      {"in", text},
      {"rows", number},
      {"inner", number},
      {"columns", number},
      {"gflops", number}}},
    {"ranks",
     {{"contestant", text},
      {"input", text},
      {"in", text},
      {"ranks", number},
      {"contributions", number},
      {"results", number},
      {"changed", number}}},
};

const char* type_name(json::value_t t) {
  switch (t) {
    case text: return "a string";
    case list: return "a list";
    case object: return "an object";
    default: return "a number";
  }
}

[[noreturn]] void fail(std::string_view name, const std::string& what) {
  throw error(errc::bad_input, std::string(name) + ": " + what);
}

void check_field(const json& in, const field& f, std::string_view name, const std::string& where) {
  const auto found = in.find(f.name);
  if (found == in.end()) fail(name, where + f.name + ": missing");
  if (f.type == number ? !found->is_number() : found->type() != f.type)
    fail(name, where + f.name + ": is not " + type_name(f.type));
}

void check(std::string_view report_json, std::string_view name) {
  json report;
  try {
    report = json::parse(report_json);
  } catch (const json::parse_error& e) {
    // Its own message has bytes of the file in it.
    fail(name, "not JSON (at byte " + std::to_string(e.byte) + ")");
  } catch (const json::exception&) {  // a number that no double holds
    fail(name, "not JSON that can be read");
  }
  if (!report.is_object() || report.value("format", json()) != "bitfold-report")
    fail(name, "format: is not \"bitfold-report\"");
  if (report.value("version", json()) != 1) fail(name, "version: this bitfold reads version 1");
  for (const field& f : top_fields) check_field(report, f, name, "");
  for (const char* later :  // not in the first
       {"wrong", "shapes", "batches", "products", "product_bits", "product_speed", "ranks"})
    if (report.contains(later)) check_field(report, {later, list}, name, "");
  std::set<std::string> contestants;
  for (const auto& [rows, fields] : row_fields) {
    std::size_t i = 0;
    for (const json& row : report[rows]) {
      const std::string where = std::string(rows) + "[" + std::to_string(i++) + "]";
      if (!row.is_object()) fail(name, where + ": is not an object");
      for (const field& f : fields) {
        check_field(row, f, name, where + ".");
        if (f.name == std::string_view("contestant") && !contestants.contains(row["contestant"]))
          fail(name, where + ".contestant: is not the id of a contestant");
      }
      if (rows == std::string_view("contestants")) contestants.insert(row["id"]);
    }
  }
}

// ---- Filling the template

// Valid JSON has '<' in strings only. Written as an escape, no "</script>" or "<!--" of a tensor's
// name can end or change the element that the text stands in.
std::string for_script_element(std::string_view json_text) {
  std::string out;
  out.reserve(json_text.size() + json_text.size() / 64);
  for (const char c : json_text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string figure_specs() {
  std::string out = "{";
  for (const auto& [file, content] : page::files) {
    const auto dot = file.rfind(".json");
    if (dot == std::string::npos) continue;
    out += (out.size() > 1 ? ",\n\"" : "\"") + file.substr(0, dot) + "\": ";
    out += content;
  }
  return out + "}";
}

}  // namespace

std::string render(std::string_view report_json, std::string_view name) {
  return render(report_json, name, page::files.at("vega.js"));
}

std::string render(std::string_view report_json, std::string_view name,
                   std::string_view plot_library) {
  check(report_json, name);
  const std::map<std::string_view, std::string> made = {
      {"report", for_script_element(report_json)},
      {"specs", for_script_element(figure_specs())},
      {"vega.js", std::string(plot_library)},
  };
  // One pass over the template, so that a "{{page.js}}" in the data stays what it is.
  std::string out;
  std::string_view rest = page::files.at("page.html");
  for (std::size_t open; (open = rest.find("{{")) != rest.npos;) {
    const std::size_t close = rest.find("}}", open);
    out += rest.substr(0, open);
    const std::string part(rest.substr(open + 2, close - open - 2));
    const auto found = made.find(part);
    out += found != made.end() ? std::string_view(found->second) : page::files.at(part);
    rest.remove_prefix(close + 2);
  }
  return out += rest;
}

}  // namespace bitfold::accuracy
