// For the terminal: products of matrices, and sums over ranks.
#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "text.hpp"

namespace bitfold::accuracy {
namespace {

template <class T>
void keep_new(std::vector<T>& list, const T& x) {
  if (std::find(list.begin(), list.end(), x) == list.end()) list.push_back(x);
}

// Lines of the names that have one, columns of what `columns` says, cells of texts.
struct text_table {
  std::vector<std::string> lines, columns;
  std::map<std::pair<std::string, std::string>, std::string> cells;

  void add(const std::string& line, const std::string& column, std::string cell) {
    keep_new(lines, line);
    keep_new(columns, column);
    cells[{line, column}] = std::move(cell);
  }
  std::string text() const {
    std::string out = printed("  {:<28}", "");
    for (const std::string& column : columns) out += printed(" {:>15.15}", column);
    out += '\n';
    for (const std::string& line : lines) {
      out += printed("  {:<28.28}", line);
      for (const std::string& column : columns) {
        const auto it = cells.find({line, column});
        out += printed(" {:>15}", it == cells.end() ? "" : it->second);
      }
      out += '\n';
    }
    return out;
  }
};

std::string sameness(std::uint64_t results) {
  return results == 1 ? "same" : fmt::format("{} results", results);
}

}  // namespace

std::string products_summary(const report_rows& rows) {
  const auto by_id = contestants_by_id(rows);
  std::string out;
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    text_table errors, bits;
    for (const product_row& row : rows.products)
      if (row.in == type)
        errors.add(by_id.at(row.contestant)->name, row.input,
                   fmt::format("{} {}", short_number(row.relative), short_number(row.ulps)));
    if (!errors.lines.empty())
      out += printed("\nProducts, {}: largest error over |a|.|b|, and in ulps\n", type) +
             errors.text();
    for (const product_bits_row& row : rows.product_bits) {
      if (row.in != type) continue;
      const std::string& who = by_id.at(row.contestant)->name;
      bits.add(who, "ways to run", row.ways == 1 ? "one way" : sameness(row.way_results));
      bits.add(who, "rows alone", sameness(row.batch_results));
      bits.add(who, "layouts", sameness(row.layout_results));
    }
    std::map<std::string, bool> timed;
    for (const product_speed_row& row : rows.product_speed)
      if (row.in == type) {
        const bool first = !std::exchange(timed[row.contestant], true);  // the default variation
        const std::string shown = rate(row, printed("{:.1f}", row.gflops));
        const std::string& who = by_id.at(row.contestant)->name;
        if (first) bits.add(who, "GFLOPS", shown);
        if (row.threads == 1) bits.add(who, "on 1 thread", shown);
      }
    if (!bits.lines.empty()) out += printed("Products, {}: bits and speed\n", type) + bits.text();
  }
  for (const char* type : {"f32", "f64", "f16", "bf16"}) {
    std::map<std::pair<std::string, std::uint64_t>, std::pair<std::uint64_t, std::uint64_t>>
        changed;
    std::map<std::string, double> worst;
    std::vector<std::string> names;
    for (const rank_row& row : rows.ranks) {
      if (row.in != type) continue;
      const std::string& who = by_id.at(row.contestant)->name;
      keep_new(names, who);
      auto& [other, all] = changed[{who, row.ranks}];
      other += row.changed;
      all += row.results;
      if (row.input == "gradients") worst[who] = std::fmax(worst[who], row.ulps);
    }
    text_table table;
    for (const std::string& who : names) {
      for (const auto& [at, counts] : changed)
        if (at.first == who && at.second > 1)
          table.add(who, fmt::format("{} ranks", at.second),
                    fmt::format("{} of {}", counts.first, counts.second));
      table.add(who, "ulps, gradients", short_number(worst[who]));
    }
    if (!names.empty())
      out += printed("\nRanks, {}: sums with other bits than on one rank, of all inputs\n", type) +
             table.text();
  }
  return out;
}

}  // namespace bitfold::accuracy
