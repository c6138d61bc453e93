// report.json to report.html: one file, with no outside asset.
#pragma once

#include <string>
#include <string_view>

namespace bitfold::accuracy {

/// The page of a report (docs/report-format.md, version 1). `name` is what messages call it.
/// Errors: errc::bad_input, as "NAME: FIELD: what is wrong" on one line.
std::string render(std::string_view report_json, std::string_view name = "report.json");

/// As above with this plot library instead of the embedded one; "": the page has tables and says
/// that its figures are missing.
std::string render(std::string_view report_json, std::string_view name,
                   std::string_view plot_library);

}  // namespace bitfold::accuracy
