#include "suite.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>

#include "bounds.hpp"
#include "build_info.hpp"
#include "inputs.hpp"
#include "io/digest.hpp"
#include "io/field.hpp"
#include "measures.hpp"
#include "oracle.hpp"

namespace bitfold::accuracy {
namespace {

// ---- Arrays

std::uint64_t next_id() {
  static std::uint64_t last = 0;
  return ++last;
}

struct array {
  std::vector<std::byte> bytes;
  array_view view;
  array(dtype t, std::vector<std::byte> b, int inputs = 1)
      : view{t, nullptr, 0, next_id(), inputs} {
    hold(std::move(b));
  }
  array(array&&) = default;  // a moved vector keeps its memory
  void hold(std::vector<std::byte> b) {
    bytes = std::move(b);
    view.data = bytes.data();
    view.n = bytes.size() / size_of(view.type) / static_cast<std::size_t>(view.inputs);
  }
};

using maker = std::function<std::vector<std::byte>(std::uint64_t seed)>;

maker from(const input& in, std::size_t n, dtype t) {
  return [&in, n, t](std::uint64_t seed) { return pack(in.make(n, seed, t), t); };
}

std::vector<std::byte> random_bits(std::size_t bytes, std::uint64_t seed) {
  random_source random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& b : out) b = static_cast<std::byte>(random.bits() >> 56);
  return out;
}

maker integers(std::size_t n, dtype t) {
  return [n, t](std::uint64_t seed) { return random_bits(n * size_of(t), seed); };
}

// Two arrays of a kind, one behind the other.
maker twice(maker make) {
  return [make = std::move(make)](std::uint64_t seed) {
    constexpr std::uint64_t far_from_samples = 1 << 20;
    std::vector<std::byte> both = make(seed);
    const std::vector<std::byte> second = make(seed + far_from_samples);
    both.insert(both.end(), second.begin(), second.end());
    return both;
  };
}

scalar reference_of(const reduction& r, const array_view& x) {
  return reference(r, x.data, x.second(r.op()), x.n);
}

std::vector<std::byte> shuffled(const array_view& x, std::uint64_t seed) {
  random_source random(seed);
  const std::size_t size = size_of(x.type);
  const auto* first = static_cast<const std::byte*>(x.data);
  std::vector<std::byte> out(first, first + x.n * size);
  for (std::size_t i = x.n; i > 1; --i) {
    const std::size_t j = random.bits() % i;
    std::swap_ranges(&out[(i - 1) * size], &out[(i - 1) * size] + size, &out[j * size]);
  }
  return out;
}

// The arrays of a file that take part, and what they are called. Errors (errc::bad_input): there
// are none.
std::vector<std::pair<std::string, io::array>> arrays_of(const std::string& file) {
  std::vector<std::pair<std::string, io::array>> arrays;
  for (const io::array& a : io::read_arrays(file))
    if (is_float(a.type) && a.count > 0)
      arrays.emplace_back(a.name.empty() ? file : file + ":" + a.name, a);
  if (arrays.empty())
    throw error(errc::bad_input, io::printable(file) + ": no float array to measure");
  return arrays;
}

const input& input_named(std::string_view name) {
  for (const input& in : all_inputs())
    if (in.name == name) return in;
  throw std::logic_error("suite: no input " + std::string(name));
}

// ---- What is known of an array without running anybody

bool operator<(const reduction& a, const reduction& b) {
  const auto key = [](const reduction& r) {
    return std::tuple(r.op(), r.method(), r.in(), r.acc(), r.out());
  };
  return key(a) < key(b);
}

bool takes_any_order(const reduction& r) {
  return r.method() && info(*r.method()).ordering == ordering::any;
}

struct truth {
  struct by_method {
    scalar result;
    std::optional<trace> way;  // of sums
    real bound;
  };
  using arithmetic = std::tuple<op_id, std::string, dtype>;  // op, accumulator, output
  std::map<op_id, real> values;
  real condition;  // of the sum
  std::map<reduction, by_method, bool (*)(const reduction&, const reduction&)> methods{operator<};
  std::map<arithmetic, real> any_order;  // bounds

  // What it approximates. Sums of integers are defined modulo 2^64, but by method exact.
  real exact(const contestant_info& i) const {
    const real& value = values.at(i.op);
    const bool wraps = !is_float(i.in) && info(i.op).types == typing::additive &&
                       !(i.promise && takes_any_order(*i.promise));
    return wraps ? value_of(round_correctly(value, is_signed_int(i.in) ? dtype::i64 : dtype::u64)) : value;
  }

  static arithmetic of(const contestant_info& i) { return {i.op, i.acc, i.out}; }
  // Its own bound, or that of any order where it is known; or null.
  const real* bound(const contestant_info& i) const {
    if (i.bound) return &methods.at(*i.bound).bound;
    const auto it = any_order.find(of(i));
    return it == any_order.end() ? nullptr : &it->second;
  }
};

truth truth_of(const array_view& x, const std::vector<contestant*>& who, bool any_order) {
  truth t;
  const exact_sum sum = sum_exactly(x.type, x.data, x.n);
  t.condition = sum.condition();
  for (const contestant* c : who) {
    const op_id op = c->info.op;
    const elements in{x.type, x.data, x.second(op), x.n};
    if (!t.values.contains(op)) t.values.emplace(op, op == op_id::sum ? sum.sum : exact_value(op, in));
    for (const auto& r : {c->info.promise, c->info.bound})
      if (r && !t.methods.contains(*r)) {
        truth::by_method& by = t.methods[*r];
        if (op == op_id::sum) by.way = trace_of(*r, x.data, x.n);
        by.result = by.way ? by.way->result : reference_of(*r, x);
        by.bound =
            op == op_id::sum && is_float(x.type) ? error_bound(*r, x.n, sum) : error_bound(*r, in);
      }
    const auto key = truth::of(c->info);
    const auto acc = parse_dtype(c->info.acc);
    if (any_order && !c->info.bound && acc && !t.any_order.contains(key))
      t.any_order.emplace(key, any_order_bound(op, *acc, c->info.out, in));
  }
  return t;
}

// ---- Errors

json finding(const contestant& c, const char* kind, std::string where, std::string expected,
             std::string got) {
  return {{"contestant", c.info.id},
          {"kind", kind},
          {"where", std::move(where)},
          {"expected", std::move(expected)},
          {"got", std::move(got)}};
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Threads of libraries that ran before may still spin for some time (OpenBLAS's do for some 25 ms);
// those of the next one would wait for them.
void let_others_settle(const contestant& c, std::size_t way) {
  if (c.info.device == "cpu" && c.variations()[way].threads != 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

double ratio(const real& a, const real& b) {
  if (a == 0) return 0;
  return static_cast<double>(real(a / b));
}

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
  int orders_tried = 0;
};

void measure(contestant& c, const array_view& x, const truth& t, bool first,
             const std::string& where, tally& sum, json& findings) {
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
    const double r =
        isfinite(error) ? ratio(error, bound) : std::numeric_limits<double>::infinity();
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

// Runs what a peer does. One that fails is left out from here on, with its reason; bitfold may not
// fail.
class attempts {
 public:
  explicit attempts(std::string where) : where_(std::move(where)) {}
  template <class F>
  bool operator()(const contestant& c, F f) {
    if (failed_.contains(&c)) return false;
    if (c.info.promise) {
      f();
      return true;
    }
    try {
      f();
      return true;
    } catch (const error& e) {
      failed_.insert(&c);
      failures.push_back({{"contestant", c.info.id}, {"where", where_}, {"why", e.what()}});
      return false;
    }
  }
  bool failed(const contestant& c) const { return failed_.contains(&c); }
  json failures = json::array();

 private:
  std::string where_;
  std::set<const contestant*> failed_;
};

struct study {
  std::string name, input;
  dtype type;
  maker make;
  int samples, permutations;
  bool timed;
  int inputs = 1;  // arrays that `make` makes, one behind the other
};

json run_study(const study& s, const std::vector<contestant*>& everyone, std::uint64_t seed) {
  std::vector<array> samples;
  for (int k = 0; k < s.samples; ++k)
    samples.emplace_back(s.type, std::vector<std::byte>(), s.inputs);
  // Ids must not depend on which thread comes first.
  tbb::parallel_for(0, s.samples, [&](int k) {
    samples[static_cast<std::size_t>(k)].hold(s.make(seed + static_cast<std::uint64_t>(k)));
  });
  const array_view& head = samples[0].view;
  std::vector<contestant*> who;
  for (contestant* c : everyone)
    if (std::all_of(samples.begin(), samples.end(),
                    [&](const array& a) { return c->suits(a.view); }))
      who.push_back(c);
  std::vector<truth> truths(samples.size());
  tbb::parallel_for(std::size_t{0}, samples.size(), [&](std::size_t k) {
    truths[k] = truth_of(samples[k].view, who, s.name == "operations");
  });

  json findings = json::array();
  std::vector<tally> tallies(who.size());
  const std::string array_name = fmt::format("{} {}[{}]", s.input, name(s.type), head.n);
  attempts attempt(s.name + ": " + array_name);
  for (std::size_t k = 0; k < samples.size(); ++k)
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        measure(*who[c], samples[k].view, truths[k], k == 0,
                fmt::format("{}, seed {}", array_name, seed + k), tallies[c], findings);
      });
  if (s.timed)
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        let_others_settle(*who[c], 0);
        who[c]->seconds(head, 0, 3);  // threads that slept take several runs to be all awake
        tallies[c].gbps = static_cast<double>(head.n * size_of(s.type)) /
                          median(who[c]->seconds(head, 0, 5)) * 1e-9;
      });
  for (int p = 0; p < s.permutations; ++p) {
    const array other(s.type, shuffled(head, seed + 1000 + static_cast<std::uint64_t>(p)));
    for (std::size_t c = 0; c < who.size(); ++c)
      attempt(*who[c], [&] {
        const scalar got = who[c]->run(other.view, 0);
        tallies[c].orders.insert(got.bits);
        ++tallies[c].orders_tried;
        if (const auto& r = who[c]->info.promise; r && takes_any_order(*r) && got != tallies[c].first)
          findings.push_back(finding(*who[c], "bits", fmt::format("{}, permutation {}", array_name, p + 1),
                                     to_hex(tallies[c].first), to_hex(got)));
      });
  }

  json rows = json::array();
  for (std::size_t c = 0; c < who.size(); ++c) {
    if (attempt.failed(*who[c])) continue;
    const contestant_info& i = who[c]->info;
    const tally& t = tallies[c];
    const real exact = truths[0].exact(i);
    const double count = s.samples;
    const bool is_number = is_float(i.out);
    const auto opt = [](bool there, double x) { return there ? number(x) : json(); };
    const real* bound = is_number ? truths[0].bound(i) : nullptr;
    rows.push_back(
        {{"contestant", i.id},
         {"input", s.input},
         {"in", name(s.type)},
         {"n", head.n},
         {"study", s.name},
         {"samples", s.samples},
         {"condition",
          i.op == op_id::sum ? number(static_cast<double>(truths[0].condition)) : json()},
         {"value", to_string(t.first)},
         {"bits", to_hex(t.first)},
         {"exact", to_string(round_correctly(exact, i.out))},
         {"ulps", number(t.ulps)},
         {"ulps_mean", number(t.ulps_sum / count)},
         {"bias_ulps", opt(is_number, t.bias_sum / count)},
         {"relative", opt(is_number, t.relative)},
         {"correct_bits", number(t.correct)},
         {"bound_relative", opt(bound && t.bounded && exact != 0,
                                bound ? static_cast<double>(real(*bound / abs(exact))) : 0)},
         {"bound_ratio", opt(t.bounded, t.bound_ratio)},
         {"running_ratio", opt(t.running, t.running_ratio)},
         {"stagnations", t.stagnations ? json(*t.stagnations) : json()},
         {"overflows", t.overflows},
         {"permutations",
          t.orders_tried ? json{{"tried", t.orders_tried}, {"distinct", t.orders.size()}} : json()},
         {"gbps", s.timed ? number(t.gbps) : json()}});
  }
  return {{"accuracy", std::move(rows)},
          {"findings", std::move(findings)},
          {"failures", std::move(attempt.failures)}};
}

// ---- Who can add

json run_integers(contestant& c) {
  json rows = json::array();
  attempts attempt("small integers");
  attempt(c, [&] {
    for (const wrong_sum& w : wrong_sums(c))
      rows.push_back({{"contestant", c.info.id},
                      {"variation", w.variation},
                      {"where", w.array},
                      {"expected", to_string(w.expected)},
                      {"got", to_string(w.got)}});
  });
  return {{"wrong", std::move(rows)}, {"failures", std::move(attempt.failures)}};
}

// ---- Sameness of bits

json run_bits(contestant& c, std::uint64_t seed, int repeats) {
  std::vector<array> arrays;
  const int inputs = info(c.info.op).inputs;
  for (const char* input : {"uniform", "normal", "condition-1e8"})
    for (std::size_t n : {7, 1000, 4099, 70001, 300007}) {
      if (c.info.op != op_id::sum && input != std::string_view("normal")) continue;
      const dtype t = c.info.in;
      const maker one = is_float(t) ? from(input_named(input), n, t) : integers(n, t);
      const maker make = inputs == 2 ? twice(one) : one;
      array a(t, make(is_float(t) ? seed : seed + n), inputs);
      if (c.suits(a.view)) arrays.push_back(std::move(a));
    }
  if (arrays.empty()) return json::object();
  std::vector<scalar> expected;
  if (c.info.promise)
    for (const array& a : arrays) expected.push_back(reference_of(*c.info.promise, a.view));
  const auto digest_of = [](const std::vector<scalar>& results) {
    io::digest d;
    for (const scalar& s : results) d.add(&s.bits, size_of(s.type));
    return d.hex();
  };
  const auto gpus = cuda::devices();
  json rows = json::array(), findings = json::array();
  const auto ways = c.variations();
  attempts attempt("bits");
  for (std::size_t way = 0; way < ways.size(); ++way) {
    std::set<std::string> digests;
    std::string first;
    for (int k = 0; k < repeats; ++k) {
      std::vector<scalar> got;
      if (!attempt(c, [&] {
            for (const array& a : arrays) got.push_back(c.run(a.view, way));
          }))
        break;
      const std::string d = digest_of(got);
      if (digests.empty()) first = d;
      digests.insert(d);
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (got[i] != expected[i])
          findings.push_back(finding(c, "bits",
                                     fmt::format("{}, array {} of {} elements, repeat {}",
                                                 ways[way].label, i, arrays[i].view.n, k + 1),
                                     to_hex(expected[i]), to_hex(got[i])));
    }
    if (attempt.failed(c)) break;
    rows.push_back(
        {{"contestant", c.info.id},
         {"device_name", c.info.device == "cuda" ? gpus.at(0) : build::cpu_model()},
         {"variation", ways[way].label},
         {"arrays", arrays.size()},
         {"repeats", repeats},
         {"digest", first},
         {"distinct", digests.size()},
         {"equal",
          c.info.promise ? json(digests.size() == 1 && first == digest_of(expected)) : json()}});
  }
  return {{"bits", std::move(rows)},
          {"findings", std::move(findings)},
          {"failures", std::move(attempt.failures)}};
}

// ---- Speed

// A block that repeats: the values do not matter for times, and this is soon made.
array repeated(dtype t, std::size_t n, int inputs = 1) {
  const std::size_t block = std::min(n, std::size_t{1} << 16);
  const auto one = is_float(t) ? pack(input_named("normal").make(block, 1, t), t)
                               : random_bits(block * size_of(t), 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(inputs) * n * size_of(t));
  for (std::size_t i = 0; i < bytes.size(); i += one.size())
    std::memcpy(&bytes[i], one.data(), std::min(one.size(), bytes.size() - i));
  return array(t, std::move(bytes), inputs);
}

// GB/s of reading x, by device and threads, where these contestants read. Measured several times between
// the others, and the best of them counts: machines change their speed.
struct read_ceilings {
  const array_view& x;
  const std::vector<contestant*>& who;
  int times;
  std::map<std::pair<std::string, int>, double> gbps = {};

  void measure() {
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

// Of seconds(how many times); a slow one is timed less often.
template <class Seconds>
std::vector<double> samples_of(const contestant& c, std::size_t way, int times, Seconds seconds) {
  let_others_settle(c, way);
  return seconds(std::clamp(static_cast<int>(0.5 / seconds(1)[0]), 1, times));
}

// Rows with the throughput of contestants that read so many bytes.
class timed_rows {
 public:
  explicit timed_rows(std::size_t bytes) : bytes_(bytes) {}

  void add(const contestant& c, const variation& way, double seconds, const json& more) {
    const bool cpu = c.info.device == "cpu";
    json row{{"contestant", c.info.id}, {"in", name(c.info.in)}};
    row.update(more);
    row.update({{"bytes", bytes_},
                {"variation", way.label},
                {"threads", cpu ? json(way.threads) : json()},
                {"seconds", number(seconds)},
                {"gbps", number(static_cast<double>(bytes_) / seconds * 1e-9)},
                {"ceiling_ratio", json()}});
    rows_.push_back(std::move(row));
    devices_.emplace_back(c.info.device, cpu && way.threads == 1 ? 1 : 0);
  }
  // Each beside the ceiling of its device.
  json beside(const read_ceilings& ceiling) && {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      rows_[i]["ceiling_ratio"] = number(number(rows_[i]["gbps"]) / ceiling.gbps.at(devices_[i]));
    return std::move(rows_);
  }

 private:
  std::size_t bytes_;
  json rows_ = json::array();
  std::vector<std::pair<std::string, int>> devices_;  // whose ceiling is each row's
};

json run_speed(const std::vector<contestant*>& everyone, dtype t, std::size_t n, int inputs,
               bool full) {
  const array a = repeated(t, n, inputs);
  const int times = full ? 9 : 5;
  read_ceilings ceiling{a.view, everyone, times};
  ceiling.measure();
  timed_rows rows(a.bytes.size());
  json findings = json::array();
  attempts attempt(fmt::format("speed: {}[{}]", name(t), n));
  std::map<reduction, scalar, bool (*)(const reduction&, const reduction&)> expected{operator<};
  std::size_t done = 0;
  for (contestant* c : everyone) {
    if (!c->suits(a.view)) continue;
    if (++done % 8 == 0) ceiling.measure();
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      if (const auto& r = c->info.promise) {  // what is fast must be right, too
        if (!expected.contains(*r))
          expected.emplace(*r, cpu::reduce(*r, a.view.data, a.view.second(r->op()), n,
                                           {0, cpu::target::scalar}));
        if (const scalar got = c->run(a.view, way); got != expected.at(*r))
          findings.push_back(finding(*c, "bits",
                                     fmt::format("speed, {}[{}], {}", name(t), n, ways[way].label),
                                     to_hex(expected.at(*r)), to_hex(got)));
      }
      std::vector<double> samples;
      if (!attempt(*c, [&] {
            samples = samples_of(*c, way, times, [&](int k) { return c->seconds(a.view, way, k); });
          }))
        break;
      const std::size_t more = samples.size();
      const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(more);
      double squares = 0;
      for (double s : samples) squares += (s - mean) * (s - mean);
      rows.add(*c, ways[way], median(samples),
               {{"n", n}, {"cv", more > 1 ? number(std::sqrt(squares / static_cast<double>(more - 1)) / mean) : json()}});
    }
  }
  ceiling.measure();
  json ceilings = json::array();
  for (const auto& [where, gbps] : ceiling.gbps)
    ceilings.push_back({{"device", where.first},
                        {"threads", where.first == "cpu" ? json(where.second) : json()},
                        {"bytes", a.bytes.size()},
                        {"gbps", number(gbps)}});
  return {{"speed", std::move(rows).beside(ceiling)},
          {"ceilings", std::move(ceilings)},
          {"findings", std::move(findings)},
          {"failures", std::move(attempt.failures)}};
}

// ---- Rows and columns

struct shape {
  dtype type;
  bool rows;           // reduced, or columns
  std::size_t length;  // of each
  std::size_t elements, elements_of_batch;  // at most: of the array that is timed, of a batch

  const char* layout() const { return rows ? "rows" : "columns"; }
  matrix of(std::size_t outputs) const {
    return rows ? matrix{outputs, length, 1} : matrix{length, outputs, 0};
  }
};

// The first `outputs` rows of an array, or the same as columns.
array batch_of(const shape& s, const std::vector<std::byte>& all_rows, std::size_t outputs) {
  const std::size_t size = size_of(s.type);
  std::vector<std::byte> bytes(all_rows.begin(),
                               all_rows.begin() + static_cast<std::ptrdiff_t>(outputs * s.length * size));
  if (!s.rows)
    for (std::size_t o = 0; o < outputs; ++o)
      for (std::size_t i = 0; i < s.length; ++i)
        std::memcpy(&bytes[(i * outputs + o) * size], &all_rows[(o * s.length + i) * size], size);
  return array(s.type, std::move(bytes));
}

// Does the first output keep its bits, alone and among others?
json run_batches(const std::vector<contestant*>& everyone, const shape& s, std::uint64_t seed) {
  std::vector<std::size_t> sizes;
  for (const std::size_t outputs : {1, 2, 64, 1024})
    if (outputs * s.length <= s.elements_of_batch) sizes.push_back(outputs);
  if (sizes.size() < 2) return json::object();
  const auto all_rows = from(input_named("normal"), sizes.back() * s.length, s.type)(seed);
  std::vector<array> batches;
  for (const std::size_t outputs : sizes) batches.push_back(batch_of(s, all_rows, outputs));
  json rows = json::array(), findings = json::array();
  const std::string where = fmt::format("batches: {} of {} {}", s.layout(), s.length, name(s.type));
  attempts attempt(where);
  for (contestant* c : everyone) {
    std::optional<scalar> expected;
    if (c->info.promise) expected = reference_of(*c->info.promise, {s.type, all_rows.data(), s.length, 0});
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      std::vector<scalar> got;
      if (!attempt(*c, [&] {
            for (std::size_t k = 0; k < sizes.size(); ++k)
              got.push_back(c->run_along(batches[k].view, s.of(sizes[k]), way));
          }))
        break;
      json changed;
      std::set<std::uint64_t> results;
      for (std::size_t k = 0; k < sizes.size(); ++k) {
        results.insert(got[k].bits);
        if (changed.is_null() && got[k] != got[0]) changed = sizes[k];
        if (expected && got[k] != *expected)
          findings.push_back(finding(*c, "bits", fmt::format("{}, the first of {}, {}", where, sizes[k], ways[way].label),
                                     to_hex(*expected), to_hex(got[k])));
      }
      rows.push_back({{"contestant", c->info.id},
                      {"in", name(s.type)},
                      {"layout", s.layout()},
                      {"length", s.length},
                      {"variation", ways[way].label},
                      {"batches", sizes.size()},
                      {"largest", sizes.back()},
                      {"distinct", results.size()},
                      {"changed", std::move(changed)}});
    }
  }
  return {{"batches", std::move(rows)},
          {"findings", std::move(findings)},
          {"failures", std::move(attempt.failures)}};
}

json run_shape(const std::vector<contestant*>& everyone, const shape& s, int times) {
  const std::size_t outputs = std::max<std::size_t>(s.elements / s.length, 1);
  const array a = repeated(s.type, outputs * s.length);
  const matrix as = s.of(outputs);
  read_ceilings ceiling{a.view, everyone, times};
  ceiling.measure();
  timed_rows rows(a.bytes.size());
  attempts attempt(fmt::format("shapes: {} of {} {}", s.layout(), s.length, name(s.type)));
  for (contestant* c : everyone) {
    const auto ways = c->variations();
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (!ways[way].timed) continue;
      std::vector<double> samples;
      if (!attempt(*c, [&] {
            samples = samples_of(*c, way, times, [&](int k) { return c->seconds_along(a.view, as, way, k); });
          }))
        break;
      rows.add(*c, ways[way], median(samples), {{"layout", s.layout()}, {"length", s.length}, {"outputs", outputs}});
    }
  }
  ceiling.measure();
  return {{"shapes", std::move(rows).beside(ceiling)}, {"failures", std::move(attempt.failures)}};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Of the other operations the report leaves two methods out, whose engines are those of sums.
bool is_shown(const contestant_info& i) {
  if (i.op == op_id::sum || !i.promise) return true;
  return i.promise->method() != method_id::pairwise && i.promise->method() != method_id::sequential;
}

std::string condition_name(int power) { return fmt::format("condition-1e{}", power); }

// The condition numbers of their figure, as powers of 10.
std::vector<int> condition_powers(bool full) {
  std::vector<int> powers;
  for (int p = 0; p <= 40; p += full ? 1 : 2) powers.push_back(p);
  return powers;
}

}  // namespace

std::vector<wrong_sum> wrong_sums(contestant& c) {
  if (c.info.op != op_id::sum) return {};
  const dtype t = c.info.in;
  std::vector<array> arrays;
  std::vector<scalar> expected;
  for (std::size_t n : {0, 1, 2, 1000, 4097, 200003})
    for (bool negative : {false, true}) {
      if (negative && !is_float(t) && !is_signed_int(t)) continue;
      const exact_input in = small_integers(n, n + negative, negative);
      array a(t, pack(in.x, t));
      if (!c.suits(a.view)) continue;
      expected.push_back(load_scalar(c.info.out, pack({&in.sum, 1}, c.info.out).data()));
      arrays.push_back(std::move(a));
    }
  std::vector<wrong_sum> wrong;
  const auto ways = c.variations();
  for (std::size_t way = 0; way < ways.size(); ++way)
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const array_view& x = arrays[i].view;
      scalar got = c.run(x, way);
      if (got == expected[i]) got = c.run(x, way);  // each time
      if (got == expected[i]) continue;
      wrong.push_back({ways[way].label, fmt::format("{}[{}]", name(t), x.n), expected[i], got});
      break;
    }
  return wrong;
}

std::vector<unit> plan(contestants& who, const suite_options& o) {
  std::vector<unit> units;
  using chosen = bool(const contestant_info&);
  const auto of_type = [&who](dtype t, chosen* takes_part) {
    std::vector<contestant*> list;
    for (const auto& c : who.list)
      if (c->info.in == t && takes_part(c->info)) list.push_back(c.get());
    return list;
  };
  constexpr auto sums = [](const contestant_info& i) { return i.op == op_id::sum && i.main; };
  constexpr auto all_sums = [](const contestant_info& i) { return i.op == op_id::sum; };
  constexpr auto operations = [](const contestant_info& i) { return i.main; };
  const std::array floats{dtype::f32, dtype::f64, dtype::f16, dtype::bf16};
  const auto add_study = [&](study s, std::size_t n, chosen* takes_part) {
    auto list = of_type(s.type, takes_part);
    if (list.empty()) return;
    const double weight =
        static_cast<double>(n * list.size()) * (s.samples + s.permutations + 1) + 3e5;
    const std::string key = fmt::format("{}/{}/{}/{}", s.name, name(s.type), s.input, n);
    units.push_back({key, fmt::format("{}: {} {}[{}]", s.name, s.input, name(s.type), n), weight,
                     [s = std::move(s), list = std::move(list), seed = o.seed] {
                       return run_study(s, list, seed);
                     }});
  };

  for (const auto& c : who.list)
    if (!c->info.promise && c->info.op == op_id::sum)
      units.push_back({"integers/" + c->info.id, "small integers: " + c->info.id,
                       static_cast<double>(c->variations().size()) * 4e5,
                       [c = c.get()] { return run_integers(*c); }});
  const std::size_t n = o.full ? 1000003 : 200003;
  for (dtype t : floats)
    for (const input& in : all_inputs())
      add_study(
          {"inputs", std::string(in.name), t, from(in, n, t), o.full ? 4 : 3, o.full ? 8 : 4, true},
          n, sums);
  for (dtype t : floats) {
    if (!o.full && t != dtype::f32 && t != dtype::f64) continue;
    for (const char* in : {"uniform", "normal"})
      for (int power = 4; power <= (o.full ? 24 : 20); power += 2) {
        const std::size_t count = std::size_t{1} << power;
        add_study({"length", in, t, from(input_named(in), count, t), power <= 16 ? 8 : 2, 0, false},
                  count, sums);
      }
  }
  for (dtype t : {dtype::f32, dtype::f64})
    for (int power : condition_powers(o.full)) {
      const std::size_t count = o.full ? 100003 : 10007;
      const double condition = std::pow(10.0, power);
      add_study(
          {"condition", condition_name(power), t,
           [=](std::uint64_t seed) { return pack(cancellation(count, seed, t, condition), t); }, 3,
           0, false},
          count, sums);
    }
  for (dtype t : all_dtypes) {
    const std::size_t count = 10007;
    if (is_float(t))
      for (const char* in : {"uniform", "normal", "condition-1e8"})
        add_study({"types", in, t, from(input_named(in), count, t), 2, 0, false}, count, all_sums);
    else
      add_study({"types", "integers", t, integers(count, t), 2, 0, false}, count, all_sums);
  }
  for (dtype t : all_dtypes) {
    const auto add_pair = [&](const char* in, const maker& make, std::size_t count) {
      add_study({"operations", in, t, twice(make), 2, 0, false, 2}, count, operations);
    };
    const std::size_t count = 10007;
    if (!is_float(t)) {
      add_pair("integers", integers(count, t), count);
      continue;
    }
    for (const char* in : {"uniform", "normal", "condition-1e8"})
      add_pair(in, from(input_named(in), count, t), count);
    add_pair("positive", from(input_named("positive"), 100, t), 100);  // whose product is finite
  }
  for (const std::string& file : o.files)
    for (const auto& [input, a] : arrays_of(file))
      add_study({"files", input, a.type,
                 [a = a](std::uint64_t) {
                   return std::vector<std::byte>(a.data, a.data + a.count * size_of(a.type));
                 },
                 1, o.full ? 8 : 4, true},
                a.count, sums);
  for (const auto& c : who.list)
    if (c->info.main && is_shown(c->info))
      units.push_back({"bits/" + c->info.id, "bits: " + c->info.id,
                       static_cast<double>(c->variations().size()) * 4e5,
                       [c = c.get(), seed = o.seed, full = o.full] {
                         return run_bits(*c, seed, full ? 5 : 2);
                       }});
  std::vector<int> powers =
      o.full ? std::vector{10, 12, 14, 16, 18, 20, 22, 24, 26} : std::vector{10, 14, 18, 22, 24};
  const auto add_speed = [&](dtype t, int power, chosen* takes_part, int inputs, const char* what) {
    auto list = of_type(t, takes_part);
    // The longest on the GPU alone: there it is soon done.
    if (power >= 28) std::erase_if(list, [](contestant* c) { return c->info.device != "cuda"; });
    if (list.empty()) return;
    const std::size_t count = std::size_t{1} << power;
    units.push_back({fmt::format("speed/{}/{}{}", name(t), count, what),
                     fmt::format("speed{}: {}[2^{}]", what, name(t), power),
                     power >= 28 ? 5e8 : static_cast<double>(list.size() * count) * 0.7 + 1e6,
                     [=, full = o.full] { return run_speed(list, t, count, inputs, full); }});
  };
  for (dtype t : floats)
    for (int power : powers)
      if (o.full || t == dtype::f32 || power == 18 || power == 24) add_speed(t, power, sums, 1, "");
  constexpr auto of_one = [](const contestant_info& i) {
    return i.main && i.op != op_id::sum && info(i.op).inputs == 1 && is_shown(i);
  };
  constexpr auto of_two = [](const contestant_info& i) {
    return i.main && info(i.op).inputs == 2 && is_shown(i);
  };
  for (dtype t : floats)
    for (int power : o.full ? std::vector{24, 28} : std::vector{18}) {
      add_speed(t, power, of_one, 1, "/operations");
      add_speed(t, power, of_two, 2, "/operations of two inputs");
    }
  if (o.full) {
    for (dtype t : floats) add_speed(t, 28, sums, 1, "");
    add_speed(dtype::f32, 30, sums, 1, "");
  }
  constexpr auto shown_sums = [](const contestant_info& i) {
    const auto method = i.promise ? i.promise->method() : std::nullopt;
    return i.main && i.op == op_id::sum && method != method_id::pairwise && method != method_id::sequential;
  };
  for (dtype t : floats)
    for (const char* device : {"cpu", "cuda"}) {
      auto list = of_type(t, shown_sums);
      std::erase_if(list, [&](contestant* c) { return !c->has_axes() || c->info.device != device; });
      if (list.empty()) continue;
      const int power = (o.full ? 24 : 20) + (device == std::string_view("cuda") ? 4 : 0);
      for (const bool rows : {true, false})
        for (const std::size_t length : o.full ? std::vector<std::size_t>{16, 64, 256, 1000, 4096, 32768, 1 << 20}
                                               : std::vector<std::size_t>{16, 256, 4096, 65536}) {
          const shape s{t, rows, length, std::size_t{1} << power, std::size_t{1} << (o.full ? 24 : 22)};
          const std::string where = fmt::format("{}/{}/{}/{}", name(t), s.layout(), length, device),
                            what = fmt::format("{} of {} {}", s.layout(), length, name(t));
          const auto share = static_cast<double>(list.size());
          units.push_back({"batches/" + where, "batches: " + what, share * static_cast<double>(s.elements_of_batch) * 0.25 + 1e6,
                           [=, seed = o.seed] { return run_batches(list, s, seed); }});
          units.push_back({"shapes/" + where, "shapes: " + what, share * static_cast<double>(s.elements) + 1e6,
                           [=, times = o.full ? 9 : 5] { return run_shape(list, s, times); }});
        }
    }
  return units;
}

json start_report(const contestants& who, const suite_options& o, const std::string& command) {
  json list = json::array();
  for (const auto& c : who.list) {
    const contestant_info& i = c->info;
    const auto method = i.promise ? i.promise->method() : std::nullopt;
    list.push_back({{"id", i.id},
                    {"name", i.name},
                    {"family", i.family},
                    {"method", method ? json(name(*method)) : json()},
                    {"device", i.device},
                    {"in", name(i.in)},
                    {"acc", i.acc},
                    {"out", name(i.out)},
                    {"promise", i.promise.has_value()},
                    {"main", i.main && i.op == op_id::sum},
                    {"about", i.about},
                    {"op", name(i.op)}});
  }
  json inputs = json::array();
  const auto add_input = [&](std::string id, std::string about, const char* kind) {
    for (const json& known : inputs)
      if (known["id"] == id) return;
    inputs.push_back({{"id", std::move(id)}, {"about", std::move(about)}, {"kind", kind}});
  };
  for (const input& in : all_inputs())
    add_input(std::string(in.name), std::string(in.description), "generated");
  for (int power : condition_powers(o.full))
    add_input(condition_name(power), fmt::format("cancellation with condition number 1e{}", power),
              "generated");
  add_input("integers", "random bits", "generated");
  for (const std::string& file : o.files)
    for (const auto& [input, a] : arrays_of(file)) add_input(input, "from a file", "file");

  std::vector<std::string> targets;
  for (cpu::target t : cpu::available_targets()) targets.emplace_back(cpu::name(t));
  json found = json::array(), missing = json::array();
  for (const auto& s : who.found) found.push_back({{"name", s.name}, {"version", s.version}});
  for (const auto& m : who.missing) missing.push_back({{"name", m.name}, {"why", m.why}});
  json report{
      {"format", "bitfold-report"},
      {"version", 1},
      {"mode", o.full ? "full" : "quick"},
      {"date", utc_now()},
      {"command", command},
      {"seed", o.seed},
      {"bitfold",
       {{"version", build::version}, {"order_version", order::version}, {"commit", build::commit}}},
      {"machine",
       {{"system", build::system_name()},
        {"cpu", build::cpu_model()},
        {"cores", all_cores()},
        {"cpu_targets", targets},
        {"gpus", cuda::devices()},
        {"compiler", build::compiler},
        {"cuda", build::cuda.empty() ? json() : json(build::cuda)}}},
      {"software", std::move(found)},
      {"missing", std::move(missing)},
      {"headlines", json::array()},
      {"findings", json::array()},
      {"failures", json::array()},
      {"wrong", json::array()},
      {"contestants", std::move(list)},
      {"inputs", std::move(inputs)},
  };
  for (const char* rows : {"accuracy", "bits", "speed", "ceilings", "shapes", "batches"}) report[rows] = json::array();
  return report;
}

void add_rows(json& report, const json& rows) {
  // A few findings of a kind tell what is wrong; a contestant that is wrong everywhere would fill
  // the report.
  constexpr std::ptrdiff_t most_of_unit = 3, most = 30;
  json fresh = json::array();
  const auto count_like = [](const json& list, const json& row) {
    return std::count_if(list.begin(), list.end(), [&](const json& f) {
      return f["contestant"] == row["contestant"] && f["kind"] == row["kind"];
    });
  };
  for (const auto& [field, list] : rows.items())
    for (const json& row : list) {
      if (field == "findings") {
        if (count_like(fresh, row) >= most_of_unit || count_like(report[field], row) >= most)
          continue;
        fresh.push_back(row);
      }
      report[field].push_back(row);
    }
}

}  // namespace bitfold::accuracy
