// Times, of whole arrays and along axes.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <bitfold/cpu.hpp>

#include "studies.hpp"

namespace bitfold::accuracy {
namespace {

// GB/s of reading x, by device and threads, where these contestants read. Measured several times
// between the others, and the best of them counts: machines change their speed.
struct read_ceilings {
  const array_view& x;
  const std::vector<contestant*>& who;
  int times;
  std::map<std::pair<std::string, int>, double> gbps = {};
  machine_load load = {};

  void measure() {
    const machine_load::watch watching(load);
    const auto keep = [&](const char* device, int threads, double now) {
      double& best = gbps[{device, threads}];
      best = std::max(best, now);
    };
    const auto has = [&](const char* device) {
      return std::any_of(who.begin(), who.end(),
                         [&](contestant* c) { return c->info.device == device; });
    };
    if (has("cpu"))
      for (int threads : {1, 0}) keep("cpu", threads, read_ceiling_cpu(x, threads, times));
    if (has("cuda")) keep("cuda", 0, read_ceiling_cuda(x, times));
  }
};

// Rows with the throughput of contestants that read so many bytes.
template <class Row>
class timed_rows {
 public:
  explicit timed_rows(std::size_t bytes) : bytes_(bytes) {}

  // `row` has what rows of the other kind do not.
  void add(const contestant& c, const variation& way, const std::vector<double>& samples, Row row) {
    const bool cpu = c.info.device == "cpu";
    const double seconds = median(samples);
    row.noisy = is_noisy(samples);
    row.contestant = c.info.id;
    row.in = name(c.info.in);
    row.bytes = bytes_;
    row.variation = way.label;
    if (cpu) row.threads = way.threads;
    row.seconds = seconds;
    row.gbps = static_cast<double>(bytes_) / seconds * 1e-9;
    rows_.push_back(std::move(row));
    devices_.emplace_back(c.info.device, cpu && way.threads == 1 ? 1 : 0);
  }
  // Each beside the ceiling of its device.
  std::vector<Row> beside(const read_ceilings& ceiling) && {
    for (std::size_t i = 0; i < rows_.size(); ++i)  // of gbps as the report holds it
      rows_[i].ceiling_ratio = number(number(rows_[i].gbps)) / ceiling.gbps.at(devices_[i]);
    return std::move(rows_);
  }

 private:
  std::size_t bytes_;
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, int>> devices_;  // whose ceiling is each row's
};

}  // namespace

report_rows run_speed(const std::vector<contestant*>& everyone, dtype t, std::size_t n, int inputs,
                      bool full) {
  const array a = repeated(t, n, inputs);
  const int times = full ? 9 : 5;
  std::vector<contestant*> who;
  for (contestant* c : everyone)
    if (c->suits(a.view)) who.push_back(c);
  compile_ahead(who, {{a.view}}, which_ways::timed);
  read_ceilings ceiling{a.view, everyone, times};
  ceiling.measure();
  report_rows out;
  timed_rows<speed_row> rows(a.bytes.size());
  attempts attempt(fmt::format("speed: {}[{}]", name(t), n));
  by_reduction<scalar> expected;
  std::size_t done = 0;
  for (contestant* c : who) {
    if (++done % 8 == 0) ceiling.measure();
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      if (const auto& r = c->info.promise) {  // what is fast must be right, too
        if (!expected.contains(*r))
          expected.emplace(*r, cpu::reduce(*r, a.view.data, a.view.second(r->op()), n,
                                           {0, cpu::target::scalar}));
        if (const scalar got = c->run(a.view, way); got != expected.at(*r))
          out.findings.push_back(
              finding(*c, "bits", fmt::format("speed, {}[{}], {}", name(t), n, ways[way].label),
                      to_hex(expected.at(*r)), to_hex(got)));
      }
      std::vector<double> samples;
      if (!attempt(*c, [&] {
            samples = samples_of(c->info.device, ways[way], times,
                                 [&](int k) { return c->seconds(a.view, way, k); });
          }))
        break;
      speed_row row{};
      row.n = n;
      row.cv = variation_of(samples);
      row.fastest = *std::min_element(samples.begin(), samples.end());
      row.slowest = *std::max_element(samples.begin(), samples.end());
      rows.add(*c, ways[way], samples, std::move(row));
    }
  }
  ceiling.measure();
  for (const auto& [where, gbps] : ceiling.gbps)
    out.ceilings.push_back(
        {where.first,
         where.first == "cpu" ? std::optional<std::uint64_t>(where.second) : std::nullopt,
         a.bytes.size(), gbps, ceiling.load.others()});
  out.speed = std::move(rows).beside(ceiling);
  out.failures = std::move(attempt.failures);
  return out;
}

report_rows run_shape(const std::vector<contestant*>& everyone, const shape& s, int times) {
  const std::size_t outputs = std::max<std::size_t>(s.elements / s.length, 1);
  const array a = repeated(s.type, outputs * s.length);
  const matrix as = s.of(outputs);
  compile_ahead(everyone, {{a.view, as}}, which_ways::timed);
  read_ceilings ceiling{a.view, everyone, times};
  ceiling.measure();
  timed_rows<shape_row> rows(a.bytes.size());
  attempts attempt(fmt::format("shapes: {} of {} {}", s.layout(), s.length, name(s.type)));
  for (contestant* c : everyone) {
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      std::vector<double> samples;
      if (!attempt(*c, [&] {
            samples = samples_of(c->info.device, ways[way], times,
                                 [&](int k) { return c->seconds_along(a.view, as, way, k); });
          }))
        break;
      shape_row row{};
      row.layout = s.layout();
      row.length = s.length;
      row.outputs = outputs;
      rows.add(*c, ways[way], samples, std::move(row));
    }
  }
  ceiling.measure();
  report_rows out;
  out.shapes = std::move(rows).beside(ceiling);
  out.failures = std::move(attempt.failures);
  return out;
}

}  // namespace bitfold::accuracy
