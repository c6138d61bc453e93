#include "studies.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>

#include <bitfold/reference.hpp>

namespace bitfold::accuracy {

scalar reference_of(const reduction& r, const array_view& x) {
  return reference(r, x.data, x.second(r.op()), x.n);
}

bool reduction_less::operator()(const reduction& a, const reduction& b) const {
  const auto key = [](const reduction& r) {
    return std::tuple(r.op(), r.method(), r.in(), r.acc(), r.out());
  };
  return key(a) < key(b);
}

bool takes_any_order(const reduction& r) {
  return r.method() && info(*r.method()).ordering == ordering::independent;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

std::optional<double> variation_of(const std::vector<double>& samples) {
  if (samples.size() < 2) return {};
  const auto count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double s : samples) squares += (s - mean) * (s - mean);
  return std::sqrt(squares / (count - 1)) / mean;
}
std::optional<bool> is_noisy(const std::vector<double>& samples) {
  constexpr double most = 0.1;
  const auto variation = variation_of(samples);
  return variation ? std::optional(*variation > most) : std::nullopt;
}

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double own_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}
// That all cores were busy, since the system started.
std::optional<double> busy_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(stat >> cpu >> user >> nice >> system >> idle >> wait >> irq >> softirq >> steal))
    return {};
  return (user + nice + system + irq + softirq + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

machine_load::watch::watch(machine_load& to)
    : to_(to), wall_(wall_seconds()), own_(own_seconds()), all_(busy_seconds()) {}
machine_load::watch::~watch() {
  const auto all = busy_seconds();
  to_.wall_ += wall_seconds() - wall_;
  to_.busy_ += all && all_ ? *all - *all_ - (own_seconds() - own_)
                           : std::numeric_limits<double>::quiet_NaN();
}
std::optional<double> machine_load::others() const {
  constexpr double least = 0.05;  // seconds: /proc/stat counts hundredths
  if (wall_ < least || std::isnan(busy_)) return {};
  return std::max(busy_ / wall_, 0.0);
}

void let_others_settle(const std::string& device, const variation& way) {
  if (device == "cpu" && way.threads != 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

void add_requests(std::vector<cuda::request>& to, const contestant& c,
                  const std::vector<to_run>& arrays, which_ways which) {
  const auto variations = c.variations();
  const std::size_t last = which == which_ways::first ? 1 : variations.size();
  for (std::size_t way = 0; way < last; ++way)
    if (which != which_ways::timed || variations[way].timed)
      for (const to_run& one : arrays)
        for (cuda::request& r : c.requests(one.x, one.as, way)) to.push_back(std::move(r));
}

void compile_ahead(const std::vector<contestant*>& who, const std::vector<to_run>& arrays,
                   which_ways which) {
  std::vector<cuda::request> all;
  for (const contestant* c : who) add_requests(all, *c, arrays, which);
  if (!all.empty()) cuda::request::prepare(all);
}

}  // namespace bitfold::accuracy
