// Reading and writing.
#include <fstream>
#include <sstream>

#include <bitfold/error.hpp>

#include "accuracy/report.hpp"
#include "io/field.hpp"

namespace bitfold::accuracy {
namespace {

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
  rows_of(report);  // which checks what it reads
}

}  // namespace

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

}  // namespace bitfold::accuracy
