// A file of results (bench/results/README.md), as the benches write it: a header, then a case a
// line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace bitfold::bench {

using json = nlohmann::ordered_json;

/// Of a bench that was called so; the device and the software are the caller's to add.
inline json header(std::string_view bench, int argc, char** argv) {
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  std::string command = argv[0];
  for (int i = 1; i < argc; ++i) command += std::string(" ") + argv[i];
  return {{"format", "bitfold-results"},
          {"version", 1},
          {"bench", bench},
          {"date", date},
          {"commit", BITFOLD_COMMIT},
          {"command", std::move(command)}};
}

/// Nine significant digits: more than a time is known to, and than a table shows.
inline json rounded(json x) {
  if (!x.is_number_float()) return x;
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x.get<double>());
  return std::strtod(text, nullptr);
}

class cases {
 public:
  /// A measurement, of n elements where the case has several; its fields are the same at each n.
  void add(const std::string& name, std::optional<std::int64_t> n, const json& fields) {
    const auto [at, is_new] = places_.try_emplace(name, lines_.size());
    if (is_new) lines_.push_back({{"case", name}});
    json& line = lines_[at->second];
    if (n) line["n"].push_back(*n);
    for (const auto& [field, value] : fields.items())
      if (n)
        line[field].push_back(rounded(value));
      else
        line[field] = rounded(value);
  }

  void write(std::ostream& out, const json& header) const {
    out << header << '\n';
    for (const json& line : lines_) out << line << '\n';
  }

 private:
  std::vector<json> lines_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace bitfold::bench
