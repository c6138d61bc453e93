#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <bitfold/method.hpp>

#include "accuracy/report.hpp"
#include "text.hpp"

namespace bitfold::accuracy {
namespace {

// A contestant's row at the greatest length, of its default variation; or null.
const speed_row* longest(const report_rows& rows, const std::string& id) {
  const speed_row* best = nullptr;
  for (const speed_row& row : rows.speed)
    if (row.contestant == id && (!best || row.n > best->n)) best = &row;
  return best;
}

// What the bytes of a row lie in, on what, and how busy others kept that.
std::string place_of(const json& report, const report_rows& rows, const speed_row& row,
                     std::string_view device) {
  const json& machine = report["machine"];
  const bool gpu = device == "cuda" && !machine["gpus"].empty();
  const auto size = [](double bytes) {
    const bool small = bytes < 1 << 20;
    return fmt::format("{:.4g} {}", bytes / (small ? 1 << 10 : 1 << 20), small ? "KiB" : "MiB");
  };
  std::string out = size(static_cast<double>(row.bytes));
  const json cache = machine.value(gpu ? "gpu_cache" : "cpu_cache", json());
  if (cache.is_number())
    out += fmt::format(", which {} in {} of cache,", row.bytes <= cache ? "fit" : "do not fit",
                       size(cache.get<double>()));
  out += " on " + (gpu ? machine["gpus"][0] : machine["cpu"]).get<std::string>();
  for (const ceiling_row& c : rows.ceilings)
    if (!gpu && c.device == "cpu" && c.bytes == row.bytes && c.others) {
      out += fmt::format(", of whose {} cores others kept {:.1f} busy", machine["cores"].dump(),
                         *c.others);
      break;
    }
  return out;
}

// x or, where it is noisy, from where to where it goes.
struct range {
  double x, low, high;
  bool noisy;
};
template <class Text>
std::string text_of(const range& r, Text text) {
  return r.noisy ? fmt::format("noisy, {} to {}", text(r.low), text(r.high)) : text(r.x);
}
// What is in proportion to the speed of a row.
range of_speed(double x, const speed_row& row) {
  return {x, x * row.seconds / row.slowest.value_or(row.seconds),
          x * row.seconds / row.fastest.value_or(row.seconds), row.noisy.value_or(false)};
}
std::string gbps_of(const speed_row& row) {
  return text_of(of_speed(row.gbps, row), [](double x) { return fmt::format("{:.4g}", x); }) +
         " GB/s";
}
// The time of a as a multiple of that of b.
range times_of(const speed_row& a, const speed_row& b) {
  return {a.seconds / b.seconds, a.fastest.value_or(a.seconds) / b.slowest.value_or(b.seconds),
          a.slowest.value_or(a.seconds) / b.fastest.value_or(b.seconds),
          a.noisy.value_or(false) || b.noisy.value_or(false)};
}

}  // namespace

void add_headlines(json& report) {
  const report_rows rows = rows_of(report);
  const auto by_id = contestants_by_id(rows);
  std::vector<headline_row> lines;
  const auto add = [&](std::string value, std::string label, std::string note) {
    lines.push_back({std::move(value), std::move(label), std::move(note)});
  };
  const auto expect = [&](std::size_t count) {
    if (lines.size() < count) add("-", "not measured", "this run left it out");
  };

  std::uint64_t ways = 0, equal = 0, sums = 0;
  for (const bits_row& row : rows.bits) {
    const contestant_row& c = *by_id.at(row.contestant);
    if (row.equal && c.op == "sum" &&
        // `sequential` calls the reference, so it is no comparison
        c.method != name(method_id::sequential)) {
      ++ways;
      equal += *row.equal;
      sums += row.arrays * row.repeats;
    }
  }
  add(fmt::format("{} of {}", equal, ways), "ways to run bitfold give the bits of the reference",
      fmt::format("SIMD targets, threads, launch shapes and devices, by method and type: {} sums",
                  sums));

  // Ratios are kept to six digits; a finding says that one is above 1 by less.
  std::set<std::string> exceeded;
  for (const finding_row& f : rows.findings)
    if (f.kind == "bound") exceeded.insert(f.contestant);
  double largest = 0;
  std::uint64_t checked = 0, within = 0;
  std::string where = "none";
  const auto check_bounds = [&](const auto& list) {
    for (const auto& row : list) {
      const contestant_row& c = *by_id.at(row.contestant);
      if (!c.promise || !row.bound_ratio || std::isnan(*row.bound_ratio)) continue;
      const double ratio = *row.bound_ratio;
      ++checked;
      within += ratio < 1 || (ratio == 1 && !exceeded.contains(c.id));
      if (ratio > largest) {
        largest = ratio;
        where = fmt::format("{} {}", c.name, row.input);
      }
    }
  };
  check_bounds(rows.accuracy);
  check_bounds(rows.products);
  check_bounds(rows.ranks);
  add(fmt::format("{} of {}", within, checked),
      "largest errors of bitfold on an input are within their a-priori bound",
      fmt::format("against MPFR, where no addition can overflow; at most {:.3g} "
                  "times the bound: {}",
                  largest, where));

  for (const char* device : {"cuda", "cpu"}) {
    const speed_row* tree = longest(rows, fmt::format("bitfold/sum/tree/f32/f32/f32/{}", device));
    const speed_row* kahan = longest(rows, fmt::format("bitfold/sum/kahan/f32/f32/f32/{}", device));
    if (!tree || !kahan) continue;
    add(text_of(of_speed(tree->ceiling_ratio, *tree),
                [](double x) { return fmt::format("{:.0f} %", 100 * x); }),
        fmt::format("of the read ceiling: tree, f32, n = {}", power_of_two(tree->n)),
        fmt::format("{}, kahan {}, of {}, {}", gbps_of(*tree), gbps_of(*kahan),
                    place_of(report, rows, *tree, device), tree->variation));
    break;
  }
  expect(3);

  std::map<std::string, double> right;
  for (const accuracy_row& row : rows.accuracy)
    if (row.study == "inputs" && row.in == "f32" && row.input == "condition-1e8")
      right.emplace(by_id.at(row.contestant)->name, row.correct_bits);
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
      const speed_row* row;
    };
    const auto price_of = [&](const char* type, const char* acc) -> std::optional<price> {
      const auto row = [&](const char* method, const char* by) {
        return longest(rows,
                       fmt::format("bitfold/sum/{}/{}/{}/{}/{}", method, type, by, type, device));
      };
      const speed_row *exact = row("exact", "exact"), *tree = row("tree", acc);
      if (!exact || !tree || exact->n != tree->n) return {};
      return price{
          text_of(times_of(*exact, *tree), [](double x) { return fmt::format("{:.2f}×", x); }),
          power_of_two(exact->n), exact};
    };
    const auto f32 = price_of("f32", "f32");
    if (!f32) continue;
    std::string others;
    for (const auto& [type, acc] : {std::pair("f64", "f64"), {"f16", "f32"}, {"bf16", "f32"}})
      if (const auto p = price_of(type, acc))
        others += fmt::format("{} {}{}, ", type, p->times, p->n == f32->n ? "" : " at " + p->n);
    add(f32->times,
        fmt::format("tree's time is the price of the truth: exact, f32, n = {}", f32->n),
        fmt::format("{}; {}of {}, {}", gbps_of(*f32->row), others,
                    place_of(report, rows, *f32->row, device), f32->row->variation));
    break;
  }
  expect(5);
  report["headlines"] = json_of(lines);
}

}  // namespace bitfold::accuracy
