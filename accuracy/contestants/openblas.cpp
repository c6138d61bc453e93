// OpenBLAS, opened while the program runs: its asum, nrm2, dot and amax; and sums by its sum (an
// extension of BLAS), by its dot with ones, and by its asum where no value is negative. Products by
// its gemm.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

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
class blas_call : public contestant {
 public:
  using call = std::function<T(int n, const T* x, const T* y)>;
  blas_call(contestant_info i, call f, thread_count t)
      : contestant(std::move(i)), f_(std::move(f)), threads_(t) {}
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
    const T value = f_(static_cast<int>(x.n), static_cast<const T*>(x.data),
                       static_cast<const T*>(x.second(info.op)));
    return load_scalar(info.out, &value);
  }

 private:
  call f_;
  thread_count threads_;
};

// A sum by adding magnitudes.
template <class T>
class sum_of_magnitudes final : public blas_call<T> {
 public:
  using blas_call<T>::blas_call;
  bool suits(const array_view& x) const override {
    if (!this->takes(x.n)) return false;
    const T* v = static_cast<const T*>(x.data);
    return std::all_of(v, v + x.n, [](T e) { return e >= 0; });
  }
};

template <class T>
contestant_info describe(op_id op, const std::string& id, const char* what,
                         const std::string& about) {
  return {.id = "openblas/" + id + "/" + std::string(name(dtype_of<T>)),
          .name = std::string("OpenBLAS ") + what,
          .family = "OpenBLAS",
          .device = "cpu",
          .about = about,
          .in = dtype_of<T>,
          .acc = "",
          .out = dtype_of<T>,
          .op = op};
}

// C = A B, of matrices in rows or columns.
template <class T>
using gemm = void(int order, int left, int right, int m, int n, int k, T alpha, const T* a,
                  int a_step, const T* b, int b_step, T beta, T* c, int c_step);

template <class T>
class blas_product final : public product_contestant {
 public:
  blas_product(entry_info<matrix_product> i, gemm<T>* f, thread_count t)
      : product_contestant(std::move(i)), f_(f), threads_(t) {
    ways_ = {{threads_.all == 1 ? "1 thread" : std::to_string(threads_.all) + " threads", true,
              threads_.all}};
    for (int count = 1; count <= 4 && threads_.set; ++count)
      if (count != threads_.all)
        ways_.push_back(
            {std::to_string(count) + (count == 1 ? " thread" : " threads"), count == 1, count});
  }
  std::vector<variation> variations() const override { return ways_; }
  std::vector<std::byte> run(const array_view& x, const product_shape& s,
                             std::size_t way) override {
    constexpr int by_rows = 101, as_it_is = 111, transposed = 112;  // CBLAS's numbers
    if (threads_.set) threads_.set(ways_[way].threads);
    const int m = static_cast<int>(s.rows), k = static_cast<int>(s.inner),
              n = static_cast<int>(s.columns);
    const T* a = static_cast<const T*>(x.data);
    std::vector<std::byte> out(s.outputs() * sizeof(T));
    std::vector<T> c(s.outputs());
    f_(by_rows, s.left_by_columns ? transposed : as_it_is,
       s.right_by_columns ? transposed : as_it_is, m, n, k, T{1}, a, s.left_by_columns ? m : k,
       a + s.rows * s.inner, s.right_by_columns ? k : n, T{0}, c.data(), n);
    std::memcpy(out.data(), c.data(), out.size());
    return out;
  }

 private:
  gemm<T>* f_;
  thread_count threads_;
  std::vector<variation> ways_;
};

template <class T>
void add(contestants& out, const library& blas, thread_count threads, const std::string& letter) {
  using of_one = T(int, const T*, int);
  using of_two = T(int, const T*, int, const T*, int);
  using index = std::size_t(int, const T*, int);
  const auto name_of = [&](const char* what) { return "cblas_" + letter + what; };
  const auto add = [&](op_id op, const char* what, const std::string& function,
                       typename blas_call<T>::call f) {
    out.list.push_back(std::make_unique<blas_call<T>>(describe<T>(op, function, what, function),
                                                      std::move(f), threads));
  };
  const std::string sum = name_of("sum");
  if (auto* f = blas.find<of_one>(sum.c_str()))
    out.list.push_back(std::make_unique<blas_call<T>>(
        describe<T>(op_id::sum, "sum", "sum", sum + ": OpenBLAS' own extension of BLAS"),
        [f](int n, const T* x, const T*) { return f(n, x, 1); }, threads));
  else
    out.missing.push_back(
        {"OpenBLAS " + sum, "this OpenBLAS does not have it; 0.3.6 or later does"});
  if (auto* f = blas.find<of_two>(name_of("dot").c_str())) {
    const auto with_ones = [f](int n, const T* x, const T*) {
      static std::vector<T> ones;  // as long as the longest array yet
      if (ones.size() < static_cast<std::size_t>(n)) ones.assign(static_cast<std::size_t>(n), T{1});
      return f(n, x, 1, ones.data(), 1);
    };
    out.list.push_back(std::make_unique<blas_call<T>>(
        describe<T>(op_id::sum, "dot", "dot",
                    name_of("dot") + ": the dot product with an array of ones"),
        with_ones, threads));
    add(op_id::dot, "dot", name_of("dot"),
        [f](int n, const T* x, const T* y) { return f(n, x, 1, y, 1); });
  }
  if (auto* f = blas.find<of_one>(name_of("asum").c_str())) {
    const auto call = [f](int n, const T* x, const T*) { return f(n, x, 1); };
    out.list.push_back(std::make_unique<sum_of_magnitudes<T>>(
        describe<T>(
            op_id::sum, "asum", "asum",
            name_of("asum") + ": the sum of magnitudes, for arrays without negative values"),
        call, threads));
    add(op_id::norm_l1, "asum", name_of("asum"), call);
  }
  if (auto* f = blas.find<of_one>(name_of("nrm2").c_str()))
    add(op_id::norm_l2, "nrm2", name_of("nrm2"),
        [f](int n, const T* x, const T*) { return f(n, x, 1); });
  if (auto* f = blas.find<gemm<T>>(name_of("gemm").c_str()))
    out.products.push_back(std::make_unique<blas_product<T>>(
        entry_info<matrix_product>{.id = "openblas/gemm/" + std::string(name(dtype_of<T>)),
                                   .name = "OpenBLAS " + letter + "gemm",
                                   .family = "OpenBLAS",
                                   .device = "cpu",
                                   .about = name_of("gemm"),
                                   .in = dtype_of<T>,
                                   .acc = std::string(name(dtype_of<T>)),
                                   .out = dtype_of<T>},
        f, threads));
  const std::string amax = "cblas_i" + letter + "amax";
  if (auto* f = blas.find<index>(amax.c_str()))
    add(op_id::norm_inf, "amax", amax,
        [f](int n, const T* x, const T*) { return n == 0 ? T{0} : std::fabs(x[f(n, x, 1)]); });
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
  add<float>(out, blas, threads, "s");
  add<double>(out, blas, threads, "d");
}

}  // namespace bitfold::accuracy
