// report.json (docs/report-format.md): reading, writing, what is derived from its rows, and
// comparing two of them.
#pragma once

#include <filesystem>
#include <string>

#include "rows.hpp"

namespace bitfold::accuracy {

/// Reads and checks a report. Errors (errc::bad_input, naming file and field): unreadable, not
/// JSON, another format or version, a field missing or of a wrong type.
json read_report(const std::filesystem::path& path);

/// The text of report.json: the rows of each list one per line.
std::string report_text(const json& report);

/// Fills in `headlines` from the rows.
void add_headlines(json& report);

/// For the terminal: headlines, findings, a table of errors by input and method, and speeds.
std::string summary(const json& report);

struct comparison {
  std::string text;  ///< the two runs side by side
  bool worse;        ///< bits changed where they are promised, or a promise is newly broken in b
};
/// Errors: errc::bad_input when the two have no promised result in common.
comparison compare(const json& a, const json& b);

}  // namespace bitfold::accuracy
