// Sums over ranks: whose bits change with their number, and errors.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "cpu/task.hpp"
#include "io/digest.hpp"
#include "studies.hpp"
#include "truth.hpp"

namespace bitfold::accuracy {

report_rows run_ranks(const std::vector<rank_contestant*>& everyone, const input& in, dtype t,
                      std::size_t count, std::size_t n, std::uint64_t seed) {
  const std::size_t size = size_of(t);
  // The contributions to one result are an array of the input.
  std::vector<std::vector<std::byte>> columns(n);
  std::vector<std::byte> bytes(count * n * size);
  for (std::size_t i = 0; i < n; ++i) {
    columns[i] = pack(in.make(count, seed + (std::uint64_t{i} << 32), t), t);
    for (std::size_t k = 0; k < count; ++k)
      std::memcpy(&bytes[(k * n + i) * size], &columns[i][k * size], size);
  }
  const array contributions(t, std::move(bytes));
  std::vector<exact_sum> exact(n);
  cpu::parallel_for(n, cpu::max_threads,
                    [&](std::size_t i) { exact[i] = sum_exactly(t, columns[i].data(), count); });

  report_rows out;
  const std::string where = fmt::format("ranks: {} of {} {}[{}]", count, in.name, name(t), n);
  attempts attempt(where);
  for (rank_contestant* c : everyone) {
    const auto& r = c->info.promise;
    const auto acc = r ? std::nullopt : parse_dtype(c->info.acc);
    std::vector<scalar> expected(n);
    std::vector<real> bounds(n, std::numeric_limits<double>::infinity());
    cpu::parallel_for(n, cpu::max_threads, [&](std::size_t i) {
      const array_view column{t, columns[i].data(), count, 0};
      // Up to 32 contributions add up in the order of a column.
      if (r) expected[i] = reference_of(*r, column);
      if (r) bounds[i] = error_bound(*r, count, exact[i]);
      if (acc && size_of(*acc) >= 4)
        bounds[i] =
            any_order_bound(op_id::sum, *acc, c->info.out, {t, column.data, nullptr, count});
    });
    std::vector<std::byte> alone;
    for (const std::size_t ranks : {1, 2, 3, 4, 8}) {
      std::vector<std::byte> got;
      if (!attempt(*c, [&] { got = c->run(contributions.view, count, ranks); })) break;
      if (ranks == 1) alone = got;
      const std::size_t width = size_of(c->info.out);
      std::uint64_t changed = 0;
      std::vector<double> ulps(n);
      std::optional<double> ratio;
      for (std::size_t i = 0; i < n; ++i) {
        const scalar value = load_scalar(c->info.out, &got[i * width]);
        changed += std::memcmp(&got[i * width], &alone[i * width], width) != 0;
        ulps[i] = error_in_ulps(value, exact[i].sum);
        const std::string at = fmt::format("{}, {} ranks, result {}", where, ranks, i);
        if (r && value != expected[i])
          out.findings.push_back(finding(*c, "bits", at, to_hex(expected[i]), to_hex(value)));
        if (!isfinite(bounds[i])) continue;
        const real error = abs(value_of(value) - exact[i].sum);
        const double share = over_bound(error, bounds[i]);
        ratio = std::max(ratio.value_or(0), share);
        if (r && !(error <= bounds[i]))
          out.findings.push_back(finding(*c, "bound", at, "at most 1 times the a-priori bound",
                                         fmt::format("{:.6g} times", share)));
      }
      io::digest digest;
      digest.add(got.data(), got.size());
      out.ranks.push_back({
          .contestant = c->info.id,
          .input = std::string(in.name),
          .in = std::string(name(t)),
          .ranks = ranks,
          .contributions = count,
          .results = n,
          .changed = changed,
          .digest = digest.hex(),
          .ulps = *std::max_element(ulps.begin(), ulps.end()),
          .ulps_median = median(ulps),
          .bound_ratio = ratio,
      });
    }
  }
  out.failures = std::move(attempt.failures);
  return out;
}

}  // namespace bitfold::accuracy
