// Accuracy against speed: every method on real-shaped and ill-conditioned inputs, with the exact
// sum by MPFR, the a-priori bound, the bits on every engine, and the bytes per second. Given files,
// it does the same for the arrays in them.
//
//   accuracy_demo [--quick] [FILE.npy | FILE.safetensors ...]
//
// Exit status 1 if bits differ anywhere or an error exceeds its bound.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>

#include "bounds.hpp"
#include "inputs.hpp"
#include "io/arrays.hpp"
#include "oracle.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;

namespace {

// ---- Speed ------------------------------------------------------------------------------------

// Runs f, which reads `bytes` bytes, several times. GB/s of each run, the slowest first.
std::vector<double> gigabytes_per_second(std::size_t bytes, int runs,
                                         const std::function<void()>& f) {
  std::vector<double> rates;
  f();  // the first one faults pages in and starts threads
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    rates.push_back(static_cast<double>(bytes) / seconds.count() * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  return rates;
}

std::uint64_t read_only(const std::uint64_t* p, std::size_t n) {
  std::uint64_t sums[16] = {};
  for (std::size_t i = 0; i + 16 <= n; i += 16)
    for (std::size_t k = 0; k < 16; ++k) sums[k] += p[i + k];
  std::uint64_t total = 0;
  for (auto s : sums) total += s;
  return total;
}

volatile std::uint64_t sink;

// The best rate of reading alone: 64-bit words added into 16 integers, on each of `threads`
// threads.
double read_ceiling(const std::vector<std::byte>& data, std::size_t threads, int runs) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(data.data());
  const std::size_t share = data.size() / 8 / threads;
  const auto rates = gigabytes_per_second(data.size(), runs, [&] {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < threads; ++t)
      others.emplace_back([=] { sink = read_only(words + t * share, share); });
    sink = read_only(words, share);
  });
  return rates.back();
}

struct speed {
  double one_thread, all_threads;
};

struct speeds {
  speed ceiling;
  std::array<speed, all_methods.size()> methods;
};

speeds measure(dtype t, std::size_t bytes, int runs) {
  const std::size_t n = bytes / size_of(t);
  // A block that repeats: its values do not matter here, and this is soon made.
  const auto block = pack(all_inputs()[1].make(std::size_t{1} << 16, 1, t), t);
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; i += block.size())
    std::memcpy(&data[i], block.data(), block.size());
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  speeds s;
  s.ceiling = {read_ceiling(data, 1, runs), read_ceiling(data, cores, runs)};
  for (const auto& m : all_methods) {
    const reduction r = make_reduction(op_id::sum, m.id, t);
    const auto run = [&](int threads) {
      const auto rates = gigabytes_per_second(
          bytes, runs, [&] { sink = cpu::reduce(r, data.data(), n, {.threads = threads}).bits; });
      return rates[rates.size() / 2];
    };
    s.methods[static_cast<std::size_t>(m.id)] = {run(1), run(0)};
  }
  return s;
}

// ---- Accuracy ---------------------------------------------------------------------------------

// Whether every engine, target and number of threads gives the bits of `expected`.
bool same_everywhere(const reduction& r, const void* data, std::size_t n, scalar expected) {
  bool same = true;
  for (cpu::target t : cpu::available_targets())
    for (int threads : {1, 3, 0}) same &= cpu::reduce(r, data, n, {threads, t}) == expected;
  if (!all_methods[static_cast<std::size_t>(r.method)].on_gpu) return same;
  const int gpus = static_cast<int>(cuda::devices().size());
  for (int gpu = 0; gpu < gpus; ++gpu)
    for (const cuda::launch& shape : {cuda::launch{}, cuda::launch{.threads = 96, .blocks = 5}})
      same &= cuda::reduce_host(r, data, n, gpu, shape) == expected;
  return same;
}

void print_heading() {
  fmt::print("\n{:<16} {:>9} {:<10} {:>22} {:>9} {:>11} {:>8} {:>7}  {}\n", "input", "condition",
             "method", "value", "ulps off", "error/bound", "GB/s", "GB/s", "bits equal");
  fmt::print("{:81} {:>8} {:>7}  {}\n", "", "1 thread", "all", "everywhere");
}

std::string short_number(double x) {
  const bool plain = x == 0 || (x >= 0.001 && x < 100000);
  return plain ? fmt::format("{:.3g}", x) : fmt::format("{:.1e}", x);
}

// Prints the rows of one array; false if bits differ or a bound is exceeded.
bool print_rows(std::string_view input, dtype t, const void* data, std::size_t n,
                const speeds* measured) {
  const exact_sum exact = sum_exactly(t, data, n);
  fmt::print("{:<16} {:>9} {:<10} {:>22}\n", input,
             short_number(static_cast<double>(exact.condition())), "exact",
             to_string(round_correctly(exact.sum, t)));
  bool good = true;
  for (const auto& m : all_methods) {
    const reduction r = make_reduction(op_id::sum, m.id, t);
    const scalar result = reference(r, data, n);
    const bool same = same_everywhere(r, data, n, result);
    const real bound = error_bound(r, n, exact), error = abs(value_of(result) - exact.sum);
    // No bound holds where a sum may overflow, nor says anything of an infinite one.
    const bool bounded = isfinite(bound) && isfinite(exact.sum);
    const bool within = !bounded || error <= bound;
    const double ratio = error == 0 ? 0 : static_cast<double>(real(error / bound));
    const auto rate = [&](double speed::*which) {
      if (!measured) return std::string();
      return fmt::format("{:.1f}", measured->methods[static_cast<std::size_t>(m.id)].*which);
    };
    fmt::print("{:<26} {:<10} {:>22} {:>9} {:>11} {:>8} {:>7}  {}\n", "", m.name, to_string(result),
               short_number(error_in_ulps(result, exact.sum)),
               bounded ? short_number(ratio) + (within ? "" : " EXCEEDED") : "none",
               rate(&speed::one_thread), rate(&speed::all_threads), same ? "yes" : "NO");
    good &= same && within;
  }
  return good;
}

struct table {
  dtype type;
  std::vector<std::string_view> inputs;
};

const std::vector<table> tables{
    {dtype::f32,
     {"uniform", "normal", "relu", "gradients", "log-normal", "drops", "tenths", "anderson",
      "stagnation", "absorption", "condition-1e8", "condition-1e16", "condition-1e40"}},
    {dtype::f64, {"normal", "gradients", "stagnation", "condition-1e16", "condition-1e40"}},
    {dtype::bf16, {"normal", "gradients", "relu", "condition-1e8"}}};

int run(bool quick, const std::vector<std::string>& files) {
  const std::size_t n = quick ? 600011 : 1000003;  // large enough for several threads
  const std::size_t bytes = std::size_t{1} << (quick ? 26 : 27);
  const int runs = quick ? 5 : 9;
  bool good = true;

  const auto gpus = cuda::devices();
  fmt::print("CPU targets:");
  for (cpu::target t : cpu::available_targets()) fmt::print(" {}", cpu::name(t));
  fmt::print("; cores: {}; GPUs: {}\n", std::thread::hardware_concurrency(), gpus.size());
  for (const auto& g : gpus) fmt::print("  {}\n", g);
  fmt::print(
      "Each row: {} elements, the exact sum by MPFR, the error in ulps of the output type and as\n"
      "a part of the method's a-priori bound. Bits equal: the reference, every CPU target on 1,\n"
      "3 and all threads, and every GPU. GB/s: median of {} runs over {} MiB, of any values.\n",
      n, runs, bytes >> 20);

  for (const table& tab : tables) {
    const speeds measured = measure(tab.type, bytes, runs);
    fmt::print(
        "\n== {} ==  reading alone (64-bit words into 16 integers, best run):"
        " {:.1f} GB/s on 1 thread, {:.1f} on all\n",
        name(tab.type), measured.ceiling.one_thread, measured.ceiling.all_threads);
    print_heading();
    for (const input& in : all_inputs())
      if (std::find(tab.inputs.begin(), tab.inputs.end(), in.name) != tab.inputs.end()) {
        const auto data = pack(in.make(n, 1, tab.type), tab.type);
        good &= print_rows(in.name, tab.type, data.data(), n, &measured);
      }
  }

  for (const auto& file : files) {
    fmt::print("\n== {} ==\n", file);
    print_heading();
    for (const auto& a : io::read_arrays(file)) {
      const std::string label =
          fmt::format("{}{}{}[{}]", a.name, a.name.empty() ? "" : " ", name(a.type), a.count);
      if (is_float(a.type)) {
        good &= print_rows(label, a.type, a.data, a.count, nullptr);
      } else {
        const reduction r = make_reduction(op_id::sum, method_id::tree, a.type);
        const scalar result = reference(r, a.data, a.count);
        const bool same = same_everywhere(r, a.data, a.count, result);
        fmt::print("{}: {}, integers are exact (modulo 2^64); bits equal everywhere: {}\n", label,
                   to_string(result), same ? "yes" : "NO");
        good &= same;
      }
    }
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool quick = std::erase(files, "--quick") > 0;
  for (const auto& f : files)
    if (f.starts_with("-")) throw error(errc::usage, "unknown option " + f);
  return run(quick, files);
} catch (const error& e) {
  fmt::print(stderr, "accuracy_demo: {}\n", e.what());
  return static_cast<int>(e.code());
} catch (const std::exception& e) {
  fmt::print(stderr, "accuracy_demo: {}\n", e.what());
  return 1;
}
