// bitfold::cuda::reduce of operations of the caller's own: the bits of the CPU, whatever the launch
// shape.
#include <bitfold/cuda/reduce.cuh>
#include <bitfold/reference.hpp>

#include <set>

#include "catch.hpp"
#include "tests/companies.hpp"
#include "tests/own_data.hpp"

using namespace bitfold;
using test::by_hand;
using test::same_memory;

namespace {

template <class T>
struct on_gpu {
  T* p = nullptr;
  std::size_t n;
  explicit on_gpu(const std::vector<T>& v) : n(v.size()) {
    REQUIRE(cudaMalloc(&p, (n + 1) * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~on_gpu() { cudaFree(p); }
  on_gpu(const on_gpu&) = delete;
  [[maybe_unused]] std::span<const T> first(std::size_t k) const { return {p, k}; }
};

struct same {
  BITFOLD_HD float operator()(float x) const { return x; }
};
// Merges are told how many elements each side has.
struct counted {
  using state = std::uint64_t;
  BITFOLD_HD static state start(float) { return 1; }
  BITFOLD_HD static state add(state s, float) { return s + 1; }
  BITFOLD_HD static state merge(state a, state b, fold::counts n) {
    return a == n.left && b == n.right ? a + b : 0;
  }
  BITFOLD_HD static state finish(state s, std::uint64_t n) { return s == n ? s : 0; }
};
// As large a state as there may be.
struct large {
  struct state {
    float sum[64];
  };
  BITFOLD_HD static state start(float x) {
    state s;
    for (int i = 0; i < 64; ++i) s.sum[i] = x + static_cast<float>(i);
    return s;
  }
  BITFOLD_HD static state merge(const state& a, const state& b) {
    state s;
    for (int i = 0; i < 64; ++i) s.sum[i] = a.sum[i] + b.sum[i];
    return s;
  }
  BITFOLD_HD static state finish(const state& s) { return s; }
};

}  // namespace

TEST_CASE("cuda: operations of the caller's own follow the canonical order",
          "[cuda][own][racecheck]") {
  auto lengths = test::boundary_lengths();
  lengths.push_back(300'001);
  const std::size_t most = 300'001;
  const test::own_data d(most);
  const on_gpu x(d.x), y(d.y);
  const on_gpu z(d.z);
  const on_gpu mask(d.mask);
  for (std::size_t n : lengths) {
    if (n == 0) continue;
    INFO("n=" << n);
    const std::span<const float> hx(d.x.data(), n), hy(d.y.data(), n);
    // Short arrays by leaves, and by tiles.
    for (const cuda::launch& shape : {cuda::launch{}, cuda::launch{.threads = 64}}) {
      const auto run = [&](const auto& input, const auto& op) {
        return cuda::make_pass(shape, input, op)();
      };
      CHECK(same_memory(run(z.first(n), complex_sum{}), complex_sum::finish(by_hand<complex_sum>(
                                                            n, [&](auto i) { return d.z[i]; }))));
      CHECK(same_memory(
          run(transform(keep_masked{}, x.first(n), y.first(n), mask.first(n)), weighted_mean{}),
          test::given(weighted_mean::finish(by_hand<weighted_mean>(
              n, [&](auto i) { return keep_masked{}(d.x[i], d.y[i], d.mask[i]); })))));
      CHECK(same_memory(
          run(transform(log_likelihood{}, x.first(n), y.first(n)), ops::sum.by<method_id::kahan>()),
          reduce(transform(log_likelihood{}, hx, hy), ops::sum.by<method_id::kahan>())));
      CHECK(
          same_memory(run(x.first(n), large{}), by_hand<large>(n, [&](auto i) { return d.x[i]; })));
      CHECK(run(x.first(n), counted{}) == n);
    }
    CHECK(cuda::reduce(x.first(n), counted{}) == n);
  }
}

TEST_CASE("cuda: in company and in any launch shape", "[cuda][own]") {
  const std::size_t n = 1'234'567;
  const test::own_data d(n);
  const on_gpu x(d.x), y(d.y);
  const auto cpu_pairs = reduce(pairs(d.x, d.y), top_label{}, ops::dot.by<method_id::kahan>(),
                                ops::mse.as<double>(), ops::cosine, ops::mae);
  const auto cpu_one =
      reduce(d.x, ops::sum, ops::mean.acc<double>(), ops::var.ddof(1), ops::min, ops::argmax,
             ops::norm_l2, ops::skewness, ops::count_nonzero, ops::any, ops::nanmean, counted{});
  const auto compare = [](const auto& got, const auto& want) {
    const auto check = [](std::size_t k, bool same) {
      INFO("result " << k);
      CHECK(same);
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (check(I, same_memory(std::get<I>(got), std::get<I>(want))), ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<decltype(want)>>>{});
  };
  for (const cuda::launch& shape :
       {cuda::launch{}, cuda::launch{32, 1, 1, true}, cuda::launch{96, 7, 64, false},
        cuda::launch{512, 500, 4, true}, cuda::launch{256, 2, 1024, true}}) {
    compare(cuda::make_pass(shape, pairs(x.first(n), y.first(n)), top_label{},
                            ops::dot.by<method_id::kahan>(), ops::mse.as<double>(), ops::cosine,
                            ops::mae)(),
            cpu_pairs);
    compare(cuda::make_pass(shape, x.first(n), ops::sum, ops::mean.acc<double>(), ops::var.ddof(1),
                            ops::min, ops::argmax, ops::norm_l2, ops::skewness, ops::count_nonzero,
                            ops::any, ops::nanmean, counted{})(),
            cpu_one);
    compare(cuda::make_pass(shape, transform(same{}, x.first(n)), ops::sum, ops::mean.acc<double>(),
                            ops::var.ddof(1), ops::min, ops::argmax, ops::norm_l2, ops::skewness,
                            ops::count_nonzero, ops::any, ops::nanmean, counted{})(),
            cpu_one);
  }
  // Two folds whose lanes are taken at once, alone.
  compare(cuda::reduce(x.first(n), ops::var, ops::skewness), reduce(d.x, ops::var, ops::skewness));
  compare(cuda::reduce(x.first(n), ops::max, ops::var, ops::logsumexp),
          reduce(d.x, ops::max, ops::var, ops::logsumexp));
  // Not aligned to 16 bytes; f16; integers.
  compare(std::tuple(cuda::reduce(x.first(n).subspan(1), ops::sum)),
          std::tuple(reduce(std::span(d.x).subspan(1), ops::sum)));
  std::vector<float16> h(n);
  std::vector<std::int8_t> b(n);
  for (std::size_t i = 0; i < n; ++i)
    h[i] = arith::round_to<float16>(d.x[i]), b[i] = static_cast<std::int8_t>(i * 37);
  const on_gpu gh(h);
  const on_gpu gb(b);
  compare(cuda::reduce(gh.first(n), ops::sum, ops::var, ops::max),
          reduce(h, ops::sum, ops::var, ops::max));
  compare(cuda::reduce(gb.first(n), ops::sum, ops::var, ops::argmin, ops::norm_l1),
          reduce(b, ops::sum, ops::var, ops::argmin, ops::norm_l1));
}

namespace {

// Operations that have been in company, by their methods.
std::set<std::pair<op_id, std::optional<method_id>>> accompanied;

// Built-in operations of elements T in one pass, at every boundary and with specials: the bits of
// the reference.
template <class T, int Inputs = 1, class... Op>
void compare_company(const Op&... op) {
  constexpr dtype t = dtype_of<T>;
  const reduction all[] = {op.template reduction_of<T>()...};
  for (const reduction& r : all) accompanied.insert({r.op(), r.method()});
  for (const test::kind kind : {test::kind::near_one, test::kind::special}) {
    const auto data = test::make_data(t, kind, 18'000, 31);
    std::vector<T> host(data.size() / sizeof(T));
    std::memcpy(host.data(), data.data(), data.size());
    const on_gpu there(host);
    for (const auto& [first, n] : test::stretches()) {
      if (n == 0) continue;
      const std::size_t second = n % 2 ? 16 : 5;
      const auto from = [&](std::size_t begin) { return there.first(begin + n).subspan(begin); };
      const auto got = [&] {
        if constexpr (Inputs == 2)
          return cuda::reduce(pairs(from(first), from(second)), op...);
        else
          return cuda::reduce(from(first), op...);
      }();
      std::size_t k = 0;
      const auto expect = [&](const auto& result) {
        const reduction& r = all[k++];
        const scalar have = load_scalar(r.out(), &result),
                     want = reference(r, host.data() + first,
                                      Inputs == 2 ? host.data() + second : nullptr, n);
        if (have == want) return;
        INFO(test::describe(r, n) << " of " << std::size(all) << " first=" << first << " "
                                  << test::name(kind));
        CHECK(to_hex(have) == to_hex(want));
      };
      std::apply([&](const auto&... result) { (expect(result), ...); }, got);
    }
  }
}
template <class T, method_id M>
void compare_company_of_two() {
  compare_company<T, 2>(ops::dot.by<M>(), ops::squared_distance.by<M>(), ops::mse.by<M>(),
                        ops::mae.by<M>(), ops::cosine.by<M>());
}

}  // namespace

TEST_CASE(
    "cuda: every operation and method in company, of every type, gives the reference's bits at "
    "every boundary",
    "[cuda][own]") {
  using enum method_id;
  compare_company<float>(ops::sum, ops::nansum, ops::mean, ops::nanmean, ops::sum_squares,
                         ops::norm_l1, ops::norm_l2, ops::prod);
#ifndef BITFOLD_SAMPLE_OF_KERNELS  // which is for machines without a GPU, and compiles one
  compare_company<float>(ops::sum.by<kahan>(), ops::nansum.by<kahan>(), ops::mean.by<kahan>(),
                         ops::nanmean.by<kahan>(), ops::sum_squares.by<kahan>(),
                         ops::norm_l1.by<kahan>(), ops::norm_l2.by<kahan>());
  compare_company<float>(ops::sum.by<pairwise>(), ops::nansum.by<pairwise>(),
                         ops::mean.by<pairwise>(), ops::nanmean.by<pairwise>(),
                         ops::sum_squares.by<pairwise>(), ops::norm_l1.by<pairwise>(),
                         ops::norm_l2.by<pairwise>());
  compare_company<float>(ops::min, ops::max, ops::nanmin, ops::nanmax, ops::argmin, ops::argmax,
                         ops::any, ops::all, ops::count_nonzero, ops::norm_inf);
  compare_company<bfloat16>(ops::var, ops::std.ddof(1), ops::skewness, ops::kurtosis,
                            ops::logsumexp, ops::softmax_denominator);
  compare_company<float16>(ops::sum.by<kahan>(), ops::max, ops::var, ops::argmin);
  compare_company<double>(ops::sum, ops::min, ops::var, ops::argmax, ops::logsumexp);
  compare_company_of_two<float, tree>();
  compare_company_of_two<double, kahan>();
  compare_company_of_two<float16, pairwise>();
  const auto of_integers = []<class... T>(std::type_identity<T>...) {
    (compare_company<T>(ops::sum, ops::max, ops::mean), ...);
  };
  of_integers(std::type_identity<std::int8_t>{}, std::type_identity<std::int16_t>{},
              std::type_identity<std::int32_t>{}, std::type_identity<std::int64_t>{},
              std::type_identity<std::uint8_t>{}, std::type_identity<std::uint16_t>{},
              std::type_identity<std::uint32_t>{}, std::type_identity<std::uint64_t>{});
  // None is forgotten. (What has no canonical order is not for such a pass.)
  for (const reduction& r : test::reductions_of_all_ops(dtype::f32)) {
    if (r.method() == method_id::exact || r.method() == method_id::sequential ||
        r.op() == op_id::count_distinct)
      continue;
    INFO(test::describe(r, 0));
    CHECK(accompanied.contains({r.op(), r.method()}));
  }
#endif
}

TEST_CASE("cuda: elements in order, and with their places", "[cuda][own]") {
  const std::size_t most = 300'001;
  const test::own_data d(most);
  const auto functions = test::functions(most);
  const on_gpu x(d.x);
  const on_gpu f(functions);
  for (const std::size_t n : {std::size_t{1}, std::size_t{32}, std::size_t{33}, std::size_t{255},
                              std::size_t{256}, std::size_t{1000}, most}) {
    INFO("n=" << n);
    const std::vector<test::affine> some(functions.begin(),
                                         functions.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(cuda::reduce(in_order(f.first(n)), test::compose{}) == test::one_after_the_other(some));
    const auto want = reduce(indexed(std::span(d.x).first(n)), test::last_positive{});
    CHECK(cuda::reduce(indexed(x.first(n)), test::last_positive{}) == want);
    CHECK(cuda::reduce(in_order(indexed(x.first(n))), test::last_positive{}) == want);
  }
}

TEST_CASE("cuda: reductions known only at run time go to the library's own functions",
          "[cuda][own]") {
  const test::own_data d(1000);
  const on_gpu x(d.x), out(std::vector<float>(2));
  const reduction all[] = {make_reduction(op_id::sum, method_id::tree, dtype::f32),
                           make_reduction(op_id::max, {}, dtype::f32)};
  void* const to[] = {out.p, out.p + 1};
  const on_gpu work(std::vector<std::byte>(cuda::workspace_bytes(all, d.x.size())));
  // (A float* is no const void*, which made a template the better match.)
  cuda::reduce(std::span<const reduction>(all), x.p, nullptr, d.x.size(), to, work.p, work.n);
  float got[2];
  REQUIRE(cudaMemcpy(got, out.p, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
  const auto [sum, max] = reduce(d.x, ops::sum, ops::max);
  CHECK(same_memory(got[0], sum));
  CHECK(same_memory(got[1], max));
}

TEST_CASE("cuda: a pass in a graph, and of nothing", "[cuda][own]") {
  const std::size_t n = 700'001;
  const test::own_data d(n);
  const on_gpu x(d.x);
  const auto pass = cuda::make_pass(x.first(n), ops::sum, ops::max);
  const on_gpu out(std::vector<float>(2));
  const on_gpu work(std::vector<std::byte>(pass.workspace_bytes()));
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  cudaGraph_t graph;
  cudaGraphExec_t runnable;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  pass.enqueue(work.p, pass.workspace_bytes(), stream, out.p, out.p + 1);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&runnable, graph, 0) == cudaSuccess);
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(runnable, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  float got[2];
  REQUIRE(cudaMemcpy(got, out.p, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
  const auto [sum, max] = reduce(d.x, ops::sum, ops::max);
  CHECK(same_memory(got[0], sum));
  CHECK(same_memory(got[1], max));
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);

  // Of no elements, in a graph too.
  const auto empty = cuda::make_pass(x.first(0), ops::sum, ops::prod);
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
  empty.enqueue(nullptr, 0, stream, out.p, out.p + 1);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&runnable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(runnable, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaMemcpy(got, out.p, sizeof got, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(got[0] == 0);
  CHECK(got[1] == 1);
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);

  CHECK(cuda::reduce(x.first(0), ops::sum) == 0);
  CHECK_THROWS_AS(cuda::reduce(x.first(0), ops::max), error);
  CHECK_THROWS_AS(pass.enqueue(nullptr, 0, nullptr, out.p, out.p + 1), error);
  CHECK_THROWS_AS(pass.enqueue(work.p, pass.workspace_bytes(), nullptr, out.p, nullptr), error);
}

TEST_CASE("cuda: a pass refuses what the CPU refuses", "[cuda][own]") {
  const on_gpu x(std::vector<float>(100));
  const on_gpu d(std::vector<double>(100));
  CHECK_THROWS_AS(cuda::make_pass(x.first(9), ops::var.ddof(-1)), error);
  CHECK_THROWS_AS(cuda::make_pass(d.first(9), ops::sum.acc<float>()), error);
  CHECK_THROWS_AS(cuda::make_pass(x.first(9), ops::norm_l2.acc<float>()), error);
  CHECK_THROWS_AS(cuda::make_pass(x.first(9), ops::max.as<double>()), error);
  CHECK_THROWS_AS(
      cuda::reduce(std::span<const float>(static_cast<const float*>(nullptr), 9), ops::sum), error);
  CHECK_THROWS_AS(
      cuda::reduce(std::span<const float>(
                       reinterpret_cast<const float*>(reinterpret_cast<const char*>(x.p) + 1), 9),
                   ops::sum),
      error);
}
