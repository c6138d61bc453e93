// Two runs.
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <bitfold/error.hpp>

#include "accuracy/report.hpp"
#include "text.hpp"

namespace bitfold::accuracy {
namespace {

std::string describe(const json& report) {
  const auto text = [](const json& x) { return x.get<std::string>(); };
  std::string machine = text(report["machine"]["cpu"]);
  for (const json& gpu : report["machine"]["gpus"]) machine += ", " + text(gpu);
  return printed("{}, commit {}, {}, {}, seed {}, order version {}", text(report["date"]),
                 text(report["bitfold"]["commit"]), text(report["mode"]), machine,
                 report["seed"].dump(), report["bitfold"]["order_version"].dump());
}

// What two runs have of one contestant.
struct side {
  double ulps = std::numeric_limits<double>::quiet_NaN();
  double bound = std::numeric_limits<double>::quiet_NaN();  // the largest error over bound
  std::string gbps = "-";
  std::uint64_t n = 0;
};

std::map<std::string, side> sides(const report_rows& rows) {
  std::map<std::string, side> all;
  for (const accuracy_row& row : rows.accuracy) {
    side& s = all[row.contestant];
    if (row.bound_ratio) s.bound = std::fmax(s.bound, *row.bound_ratio);
    if (row.study == "inputs" && row.input == "normal") s.ulps = row.ulps;
  }
  for (const speed_row& row : rows.speed) {
    side& s = all[row.contestant];
    if (row.n > s.n) s.n = row.n, s.gbps = rate(row, short_number(row.gbps));
  }
  return all;
}

}  // namespace

comparison compare(const json& a, const json& b) {
  comparison result{printed("A: {}\nB: {}\n", describe(a), describe(b)), false};
  std::string& out = result.text;
  const auto worse = [&](const std::string& line) {
    out += "WORSE  " + line + '\n';
    result.worse = true;
  };
  const report_rows of_a = rows_of(a), of_b = rows_of(b);
  std::set<std::string> promises;
  for (const contestant_row& c : of_a.contestants)
    if (c.promise) promises.insert(c.id);
  const bool same_order = a["bitfold"]["order_version"] == b["bitfold"]["order_version"];
  const bool same_seed = a["seed"] == b["seed"];
  if (!same_order) out += "The order versions differ, so bits are not compared.\n";
  if (!same_seed) out += "The seeds differ, so only files and promises are compared.\n";

  // Bits and bounds of each sum that both have.
  const auto key = [](const accuracy_row& row) {
    return fmt::format("{} on {} {}[{}], {}", row.contestant, row.input, row.in, row.n, row.study);
  };
  std::map<std::string, const accuracy_row*> before;
  for (const accuracy_row& row : of_a.accuracy)
    if (same_seed || row.study == "files") before[key(row)] = &row;
  std::uint64_t compared = 0, compared_promises = 0, moved = 0, peers_moved = 0, other_data = 0;
  for (const accuracy_row& row : of_b.accuracy) {
    const auto it = before.find(key(row));
    if (it == before.end()) continue;
    const accuracy_row& old = *it->second;
    const bool promise = promises.contains(row.contestant);
    if (row.study == "files" &&  // as JSON, where NaN is itself
        (old.exact != row.exact || json_of(old.condition) != json_of(row.condition))) {
      ++other_data;
      continue;
    }
    ++compared;
    compared_promises += promise;
    if (old.bits != row.bits) {
      if (promise && same_order) {
        ++moved;
        worse(printed("bits: {}: {} ({}) became {} ({})", it->first, old.bits, old.value, row.bits,
                      row.value));
      } else if (!promise) {
        ++peers_moved;
      }
    }
    if (!promise) continue;
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    if (const double was = old.bound_relative.value_or(none),
        is = row.bound_relative.value_or(none);
        is > was * 1.00001 ||                  // six digits are kept
        (!std::isnan(was) && std::isnan(is)))  // there is none any more
      worse(printed("bound: {}: {:.6g} became {:.6g}", it->first, was, is));
  }
  // Bits by variation: all variations of a promise agree, so the first stands for them.
  std::map<std::string, const bits_row*> digests;
  for (const bits_row& row : of_a.bits) digests.emplace(row.contestant, &row);
  if (same_order && same_seed)
    for (const bits_row& row : of_b.bits) {
      const auto it = digests.find(row.contestant);
      if (it == digests.end() || !promises.contains(it->first) || it->second->arrays != row.arrays)
        continue;
      ++compared;
      ++compared_promises;
      if (it->second->digest != row.digest) {
        ++moved;
        worse(printed("bits: {}, {}: digest {} became {}", it->first, row.variation,
                      it->second->digest, row.digest));
      }
    }
  // Products and sums over ranks.
  const auto compare_digests = [&](const auto& old_rows, const auto& new_rows, auto name_of) {
    std::map<std::string, std::string> old;
    for (const auto& row : old_rows) old.emplace(name_of(row), row.digest);
    for (const auto& row : new_rows) {
      const auto it = old.find(name_of(row));
      if (it == old.end() || !promises.contains(row.contestant)) continue;
      ++compared;
      ++compared_promises;
      if (it->second == row.digest) continue;
      ++moved;
      worse(printed("bits: {}: digest {} became {}", it->first, it->second, row.digest));
    }
  };
  if (same_order && same_seed) {
    compare_digests(of_a.products, of_b.products, [](const product_row& row) {
      return fmt::format("{} on {}, {} x {} x {}", row.contestant, row.input, row.rows, row.inner,
                         row.columns);
    });
    compare_digests(of_a.ranks, of_b.ranks, [](const rank_row& row) {
      return fmt::format("{} on {}, {} contributions of {} on {} ranks", row.contestant, row.input,
                         row.contributions, row.results, row.ranks);
    });
  }
  const auto finding_key = [](const finding_row& f) { return f.contestant + f.kind + f.where; };
  std::set<std::string> known;
  for (const finding_row& f : of_a.findings) known.insert(finding_key(f));
  for (const finding_row& f : of_b.findings)
    if (!known.contains(finding_key(f)))
      worse(printed("promise broken: {}: {} at {}: expected {}, got {}", f.contestant, f.kind,
                    f.where, f.expected, f.got));

  if (compared_promises == 0)
    throw error(errc::bad_input,
                "the two reports have no promised result in common, so nothing to compare");
  out += printed(
      "{} results compared, {} of them promised: bits that are promised moved in {}, others in "
      "{}.\n",
      compared, compared_promises, moved, peers_moved);
  if (other_data > 0) out += printed("{} results are of files with other content.\n", other_data);
  out += '\n';
  out += printed("{:<40} {:>10} {:>10}  {:>11} {:>11}  {:>9} {:>9}\n", "", "ulps A", "ulps B",
                 "err/bound A", "err/bound B", "GB/s A", "GB/s B");
  const auto first = sides(of_a), second = sides(of_b);
  for (const contestant_row& c : of_b.contestants) {
    if (!c.main || (!first.contains(c.id) && !second.contains(c.id))) continue;
    const auto of = [&](const std::map<std::string, side>& m) {
      const auto it = m.find(c.id);
      return it == m.end() ? side{} : it->second;
    };
    const side x = of(first), y = of(second);
    out +=
        printed("{:<40} {:>10} {:>10}  {:>11} {:>11}  {:>9} {:>9}\n", c.id, short_number(x.ulps),
                short_number(y.ulps), short_number(x.bound), short_number(y.bound), x.gbps, y.gbps);
  }
  out +=
      "\nulps: on the input `normal`. GB/s: default variation at the greatest length of each "
      "run; ~: noisy.\n";
  out += result.worse ? "B is worse than A.\n" : "No promised bit or bound is worse in B.\n";
  return result;
}

}  // namespace bitfold::accuracy
