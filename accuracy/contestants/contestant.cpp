// What every contestant gets without asking: the clock, the read ceiling of the CPU.
#include "../contestant.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "bench/load_only.hpp"

namespace bitfold::accuracy {
namespace {

using steady = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& f) {
  const auto start = steady::now();
  f();
  return std::chrono::duration<double>(steady::now() - start).count();
}

// Short calls are timed many at once, so that the clock's own cost does not count.
std::vector<double> timed(const std::function<void()>& f, int times) {
  constexpr double shortest_sample = 50e-6;
  f();  // pages, caches, threads
  const double once = std::max(seconds_of(f), 1e-9);
  const int batch = once < shortest_sample ? static_cast<int>(shortest_sample / once) + 1 : 1;
  std::vector<double> samples;
  for (int i = 0; i < times; ++i)
    samples.push_back(seconds_of([&] {
                        for (int k = 0; k < batch; ++k) f();
                      }) /
                      batch);
  return samples;
}

volatile std::uint64_t sink;

}  // namespace

std::vector<double> contestant::seconds(const array_view& x, std::size_t way, int times) {
  return timed([&] { sink = run(x, way).bits; }, times);
}

scalar contestant::run_along(const array_view&, const matrix&, std::size_t) {
  throw std::logic_error(info.id + " has no axes");
}
std::vector<double> contestant::seconds_along(const array_view& x, const matrix& as,
                                              std::size_t way, int times) {
  return timed([&] { sink = run_along(x, as, way).bits; }, times);
}

std::vector<double> product_contestant::seconds(const array_view& x, const product_shape& s,
                                                std::size_t way, int times) {
  return timed([&] { sink = static_cast<std::uint64_t>(run(x, s, way)[0]); }, times);
}

double read_ceiling_cpu(const array_view& x, int threads, int times) {
  const std::size_t bytes = x.bytes();
  // Many threads are slower than one where there is little to read.
  double best = 1e300;
  for (int t : {1, threads > 0 ? threads : all_cores()}) {
    const auto samples = timed([&] { load_only::run(x.data, bytes, t); }, times);
    best = std::min(best, *std::min_element(samples.begin(), samples.end()));
    if (threads == 1) break;
  }
  return static_cast<double>(bytes) / best * 1e-9;
}

int all_cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

}  // namespace bitfold::accuracy
