// OpenBLAS, opened while the program runs: its sum (an extension of BLAS), its dot with ones, and
// its asum where no value is negative.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "../contestant.hpp"
#include "library.hpp"

namespace bitfold::accuracy {
namespace {

// BLAS counts in int.
constexpr std::size_t most = std::numeric_limits<int>::max();

struct thread_count {
  void (*set)(int);  // null where OpenBLAS does not heed it
  int all;           // as OpenBLAS itself chose
};

template <class T>
class blas_sum : public contestant {
 public:
  using sum = T(int, const T*, int);
  blas_sum(contestant_info i, sum* f, thread_count t)
      : contestant(std::move(i)), f_(f), threads_(t) {}
  std::vector<variation> variations() const override {
    std::vector<variation> all{
        {threads_.all == 1 ? "1 thread" : std::to_string(threads_.all) + " threads", true,
         threads_.all}};
    if (threads_.all > 1 && threads_.set) all.push_back({"1 thread", true, 1});
    return all;
  }
  bool takes(std::size_t n) const override { return n <= most; }
  scalar run(const array_view& x, std::size_t way) override {
    if (threads_.set) threads_.set(way == 0 ? threads_.all : 1);
    const T value = call(static_cast<int>(x.n), static_cast<const T*>(x.data));
    return load_scalar(info.out, &value);
  }

 protected:
  virtual T call(int n, const T* x) { return f_(n, x, 1); }

 private:
  sum* f_;
  thread_count threads_;
};

// asum adds magnitudes.
template <class T>
class blas_asum final : public blas_sum<T> {
 public:
  using blas_sum<T>::blas_sum;
  bool suits(const array_view& x) const override {
    if (!this->takes(x.n)) return false;
    const T* v = static_cast<const T*>(x.data);
    return std::all_of(v, v + x.n, [](T e) { return e >= 0; });
  }
};

template <class T>
class blas_dot final : public blas_sum<T> {
 public:
  using dot = T(int, const T*, int, const T*, int);
  blas_dot(contestant_info i, dot* f, thread_count t)
      : blas_sum<T>(std::move(i), nullptr, t), f_(f) {}

 protected:
  T call(int n, const T* x) override {
    static std::vector<T> ones;  // as long as the longest array yet
    if (ones.size() < static_cast<std::size_t>(n)) ones.assign(static_cast<std::size_t>(n), T{1});
    return f_(n, x, 1, ones.data(), 1);
  }

 private:
  dot* f_;
};

contestant_info describe(const char* what, const std::string& function, dtype t,
                         const char* about) {
  return {.id = std::string("openblas/") + what + "/" + std::string(name(t)),
          .name = std::string("OpenBLAS ") + what,
          .family = "OpenBLAS",
          .device = "cpu",
          .about = function + ": " + about,
          .in = t,
          .acc = "",
          .out = t};
}

template <class T>
void add(contestants& out, const library& blas, thread_count threads, const std::string& prefix) {
  constexpr dtype t = dtype_of<T>;
  const std::string sum = prefix + "sum", dot = prefix + "dot", asum = prefix + "asum";
  if (auto* f = blas.find<typename blas_sum<T>::sum>(sum.c_str()))
    out.list.push_back(std::make_unique<blas_sum<T>>(
        describe("sum", sum, t, "OpenBLAS' own extension of BLAS"), f, threads));
  else
    out.missing.push_back(
        {"OpenBLAS " + sum, "this OpenBLAS does not have it; 0.3.6 or later does"});
  if (auto* f = blas.find<typename blas_dot<T>::dot>(dot.c_str()))
    out.list.push_back(std::make_unique<blas_dot<T>>(
        describe("dot", dot, t, "the dot product with an array of ones"), f, threads));
  if (auto* f = blas.find<typename blas_sum<T>::sum>(asum.c_str()))
    out.list.push_back(std::make_unique<blas_asum<T>>(
        describe("asum", asum, t, "the sum of magnitudes, for arrays without negative values"), f,
        threads));
}

}  // namespace

void add_openblas(contestants& out) {
  const char* chosen = std::getenv("BITFOLD_OPENBLAS");
  const library blas =
      chosen && *chosen ? library{chosen} : library{"libopenblas.so.0", "libopenblas.so"};
  const auto config = blas.find<char*()>("openblas_get_config");
  const auto get_threads = blas.find<int()>("openblas_get_num_threads");
  const auto set_threads = blas.find<void(int)>("openblas_set_num_threads");
  if (!blas || !config || !get_threads || !set_threads) {
    out.missing.push_back(
        {"OpenBLAS", chosen && *chosen
                         ? std::string(chosen) + ": no OpenBLAS (BITFOLD_OPENBLAS names it)"
                         : "no libopenblas.so.0 was found: apt install libopenblas0"});
    return;
  }
  out.found.push_back({"OpenBLAS", config()});
  static std::map<std::string, int> counts;  // by library, before any of ours changes it
  const int all = counts.emplace(blas.name(), std::max(1, get_threads())).first->second;
  // One that is built on OpenMP takes OpenMP's number at every call (its issue 5806).
  constexpr int openmp = 2;
  const auto parallel = blas.find<int()>("openblas_get_parallel");
  const thread_count threads{parallel && parallel() == openmp ? nullptr : set_threads, all};
  add<float>(out, blas, threads, "cblas_s");
  add<double>(out, blas, threads, "cblas_d");
}

}  // namespace bitfold::accuracy
