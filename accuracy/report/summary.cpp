// For the terminal.
#include <algorithm>
#include <map>

#include "accuracy/report.hpp"
#include "products.hpp"
#include "text.hpp"

namespace bitfold::accuracy {

std::string summary(const json& report) {
  const report_rows rows = rows_of(report);
  const auto by_id = contestants_by_id(rows);
  const auto is_wrong = [&](const contestant_row* c) {
    return std::any_of(rows.wrong.begin(), rows.wrong.end(),
                       [&](const wrong_row& w) { return w.contestant == c->id; });
  };
  std::string out;
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    // Columns are the contestants on the CPU, or on the GPU without a CPU; rows are inputs.
    std::vector<const contestant_row*> columns;
    for (const char* device : {"cpu", "cuda"}) {
      if (!columns.empty()) break;
      for (const contestant_row& c : rows.contestants)
        if (c.in == type && c.device == device && c.main && c.family != "road" &&
            columns.size() < 8)
          columns.push_back(&c);
    }
    std::vector<std::string> inputs;
    std::map<std::pair<std::string, std::string>, const accuracy_row*> cells;
    for (const accuracy_row& row : rows.accuracy) {
      if (row.in != type || (row.study != "inputs" && row.study != "files")) continue;
      if (std::find(inputs.begin(), inputs.end(), row.input) == inputs.end())
        inputs.push_back(row.input);
      cells[{row.input, row.contestant}] = &row;
    }
    if (columns.empty() || inputs.empty()) continue;
    const auto line = [&](const std::string& head, const std::string& second, auto cell) {
      out += printed("{:<20.20} {:>9}", head, second);
      for (const contestant_row* c : columns) out += printed(" {:>16.16}", cell(*c));
      out += '\n';
    };
    out += printed("\n{}: largest error in ulps\n", type);
    line("input", "condition", [](const contestant_row& c) { return c.name; });
    if (std::any_of(columns.begin(), columns.end(), is_wrong))
      line("small integers", "1",
           [&](const contestant_row& c) { return is_wrong(&c) ? "wrong here" : "right"; });
    for (const std::string& input : inputs) {
      std::string condition;
      for (const contestant_row* c : columns)
        if (const auto it = cells.find({input, c->id}); it != cells.end())
          condition = short_number(it->second->condition);
      line(input, condition, [&](const contestant_row& c) {
        const auto it = cells.find({input, c.id});
        return it == cells.end() ? "" : short_number(it->second->ulps);
      });
    }
    // GB/s at the greatest length, in the default variation and on one thread.
    for (const bool one : {false, true}) {
      std::uint64_t n = 0;
      std::map<std::string, std::string> rates;
      for (const speed_row& row : rows.speed) {
        if (row.in != type || (one && row.threads != 1) ||
            std::none_of(columns.begin(), columns.end(),
                         [&](const contestant_row* c) { return c->id == row.contestant; }))
          continue;
        if (row.n > n) rates.clear(), n = row.n;
        if (row.n == n) rates.emplace(row.contestant, rate(row, printed("{:.1f}", row.gbps)));
      }
      if (n == 0) continue;
      line(printed("GB/s at {}", power_of_two(n)), one ? "1 thread" : "default",
           [&](const contestant_row& c) -> std::string {
             const auto it = rates.find(c.id);
             return it == rates.end() ? "" : it->second;
           });
    }
  }
  if (!rows.batches.empty()) {
    out += "\nLengths and types at which the first of a batch has the bits that it has alone\n";
    std::vector<std::string> names;
    std::map<std::pair<std::string, std::string>, std::pair<int, int>>
        same;  // and all, by name and layout
    for (const batch_row& row : rows.batches) {
      const contestant_row& c = *by_id.at(row.contestant);
      const std::string name = printed("{}, {}", c.name, c.device);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      auto& [equal, all] = same[{name, row.layout}];
      equal += row.distinct == 1;
      ++all;
    }
    for (const std::string& name : names) {
      out += printed("  {:<34}", name);
      for (const char* layout : {"rows", "columns"})
        out += printed(" {:>7}: {} of {}", layout, same[{name, layout}].first,
                       same[{name, layout}].second);
      out += '\n';
    }
  }
  out += products_summary(rows);
  if (!rows.missing.empty()) {
    out += "\nNot here:\n";
    for (const missing_row& m : rows.missing) out += printed("  {}: {}\n", m.name, m.why);
  }
  for (const failure_row& f : rows.failures)
    out += printed("Failed: {} at {}: {}\n", f.contestant, f.where, f.why);
  for (const wrong_row& w : rows.wrong)
    out += printed("Wrong here: {}, {}: the small integers {} sum to {}, got {}\n", w.contestant,
                   w.variation, w.where, w.expected, w.got);
  out += '\n';
  for (const headline_row& h : rows.headlines)
    out += printed("{:>12}  {} ({})\n", h.value, h.label, h.note);
  for (const finding_row& f : rows.findings)  // the suite keeps a few of each kind
    out += printed("BROKEN PROMISE  {}: {} at {}: expected {}, got {}\n", f.contestant, f.kind,
                   f.where, f.expected, f.got);
  return out;
}

}  // namespace bitfold::accuracy
