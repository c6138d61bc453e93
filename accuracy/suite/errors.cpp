// Errors on the samples of an input, and what else is measured of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "accuracy/measures.hpp"
#include "cpu/task.hpp"
#include "studies.hpp"
#include "truth.hpp"

namespace bitfold::accuracy {
namespace {

// One contestant on the samples of one input.
struct tally {
  double ulps = 0, ulps_sum = 0, bias_sum = 0, relative = 0, bound_ratio = 0, running_ratio = 0;
  double correct = std::numeric_limits<double>::infinity();
  std::uint64_t overflows = 0;
  std::optional<std::uint64_t> stagnations;
  bool bounded = false, running = false;
  scalar first{};
  double gbps = std::numeric_limits<double>::quiet_NaN();
  std::set<std::uint64_t> orders;
  std::uint64_t orders_tried = 0;
};

void measure(contestant& c, const array_view& x, const truth& t, bool first,
             const std::string& where, tally& sum, std::vector<finding_row>& findings) {
  const contestant_info& i = c.info;
  const scalar got = c.run(x, 0);
  if (first) sum.first = got;
  const real exact = t.exact(i);
  if (i.promise) {
    const scalar expected = t.methods.at(*i.promise).result;
    if (got != expected)
      findings.push_back(finding(c, "bits", where, to_hex(expected), to_hex(got)));
  }
  if (!is_float(i.out)) {
    const scalar right = round_correctly(exact, i.out);
    const double off =
        got == right ? 0 : std::fabs(static_cast<double>(value_of(got) - value_of(right)));
    sum.ulps = std::max(sum.ulps, off);
    sum.ulps_sum += off;
    sum.correct = std::min(sum.correct, off == 0 ? 8.0 * static_cast<double>(size_of(i.out)) : 0.0);
    return;
  }
  const double ulps = error_in_ulps(got, exact);
  sum.ulps = std::max(sum.ulps, ulps);
  sum.ulps_sum += ulps;
  sum.bias_sum += signed_error_in_ulps(got, exact);
  sum.relative = std::max(sum.relative, relative_error(got, exact));
  sum.correct = std::min(sum.correct, correct_bits(got, exact));
  const real error = abs(value_of(got) - exact);
  const auto share = [&](const real& bound, const char* name, bool& any, double& most) {
    // No bound holds where a sum may overflow, nor says anything of an infinite one.
    if (!isfinite(bound) || !isfinite(exact)) return;
    any = true;
    const double r = over_bound(error, bound);
    most = std::max(most, r);
    if (i.promise && !(error <= bound))
      findings.push_back(finding(c, "bound", where,
                                 fmt::format("at most 1 times the {} bound", name),
                                 fmt::format("{:.6g} times", r)));
  };
  if (const real* bound = t.bound(i)) share(*bound, "a-priori", sum.bounded, sum.bound_ratio);
  if (!i.bound) {
    if (const auto s = c.stagnations(x)) sum.stagnations = sum.stagnations.value_or(0) + *s;
    const bool fits = isfinite(value_of(round_correctly(exact, i.out)));
    sum.overflows += fits && !isfinite(value_of(got));
  } else if (const auto& way = t.methods.at(*i.bound).way) {
    sum.stagnations = sum.stagnations.value_or(0) + way->stagnations;
    sum.overflows += way->overflows;
    share(way->running_bound, "running", sum.running, sum.running_ratio);
  }
}

}  // namespace

report_rows run_study(const study& s, const std::vector<contestant*>& everyone,
                      std::uint64_t seed) {
  std::vector<array> samples;
  for (int k = 0; k < s.samples; ++k)
    samples.emplace_back(s.type, std::vector<std::byte>(), s.inputs);
  // Ids must not depend on which thread comes first.
  cpu::parallel_for(samples.size(), cpu::max_threads,
                    [&](std::size_t k) { samples[k].hold(s.make(seed + k)); });
  const array_view& head = samples[0].view;
  std::vector<contestant*> who;
  for (contestant* c : everyone)
    if (std::all_of(samples.begin(), samples.end(),
                    [&](const array& a) { return c->suits(a.view); }))
      who.push_back(c);
  compile_ahead(who, {{head}}, which_ways::first);
  std::vector<truth> truths(samples.size());
  cpu::parallel_for(samples.size(), cpu::max_threads, [&](std::size_t k) {
    truths[k] = truth_of(samples[k].view, who, s.name == "operations");
  });

  report_rows out;
  std::vector<tally> tallies(who.size());
  const std::string array_name = fmt::format("{} {}[{}]", s.input, name(s.type), head.n);
  attempts attempt(s.name + ": " + array_name);
  for (std::size_t k = 0; k < samples.size(); ++k)
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        measure(*who[c], samples[k].view, truths[k], k == 0,
                fmt::format("{}, seed {}", array_name, seed + k), tallies[c], out.findings);
      });
  if (s.timed) {
    std::string_view spinning;  // a library whose threads may
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        if (who[c]->info.family != std::exchange(spinning, who[c]->info.family))
          let_others_settle(who[c]->info.device, who[c]->variations()[0]);
        who[c]->seconds(head, 0, 3);  // threads that slept take several runs to be all awake
        tallies[c].gbps = static_cast<double>(head.n * size_of(s.type)) /
                          median(who[c]->seconds(head, 0, 5)) * 1e-9;
      });
  }
  for (int p = 0; p < s.permutations; ++p) {
    const array other(s.type, shuffled(head, seed + 1000 + static_cast<std::uint64_t>(p)));
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        const scalar got = who[c]->run(other.view, 0);
        tallies[c].orders.insert(got.bits);
        ++tallies[c].orders_tried;
        if (const auto& r = who[c]->info.promise;
            r && takes_any_order(*r) && got != tallies[c].first)
          out.findings.push_back(finding(*who[c], "bits",
                                         fmt::format("{}, permutation {}", array_name, p + 1),
                                         to_hex(tallies[c].first), to_hex(got)));
      });
  }

  for (std::size_t c = 0; c < who.size(); ++c) {
    if (attempt.failed(*who[c])) continue;
    const contestant_info& i = who[c]->info;
    const tally& t = tallies[c];
    const real exact = truths[0].exact(i);
    const double count = s.samples;
    const bool is_number = is_float(i.out);
    const auto opt = [](bool there, double x) { return there ? std::optional(x) : std::nullopt; };
    const real* bound = is_number ? truths[0].bound(i) : nullptr;
    out.accuracy.push_back({
        .contestant = i.id,
        .input = s.input,
        .in = std::string(name(s.type)),
        .n = head.n,
        .study = s.name,
        .samples = samples.size(),
        .condition = opt(i.op == op_id::sum, static_cast<double>(truths[0].condition)),
        .value = to_string(t.first),
        .bits = to_hex(t.first),
        .exact = to_string(round_correctly(exact, i.out)),
        .ulps = t.ulps,
        .ulps_mean = t.ulps_sum / count,
        .bias_ulps = opt(is_number, t.bias_sum / count),
        .relative = opt(is_number, t.relative),
        .correct_bits = t.correct,
        .bound_relative = opt(bound && t.bounded && exact != 0,
                              bound ? static_cast<double>(real(*bound / abs(exact))) : 0),
        .bound_ratio = opt(t.bounded, t.bound_ratio),
        .running_ratio = opt(t.running, t.running_ratio),
        .stagnations = t.stagnations,
        .overflows = t.overflows,
        .permutations = t.orders_tried
                            ? std::optional(permutations{t.orders_tried, t.orders.size()})
                            : std::nullopt,
        .gbps = opt(s.timed, t.gbps),
    });
  }
  out.failures = std::move(attempt.failures);
  return out;
}

}  // namespace bitfold::accuracy
