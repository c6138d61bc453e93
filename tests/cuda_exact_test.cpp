// Exact sums of whole arrays on a GPU, with the CPU's bits: every operation by the pass that its
// terms have, alone and among others, of numbers of many sorts. What fills a bin, what cancels and
// what turns on something far below the others is gpu_exact_values_test.cpp's.
#include "cuda_cases.hpp"
#include "gpu_exact.hpp"

using namespace bitfold;
using namespace bitfold::test;

namespace {

// All in one call; of floats also what has the same terms, which are other passes.
std::vector<list> lists_of(dtype t, int inputs) {
  std::vector<list> lists{all_exact(t, inputs)};
  if (is_float(t))
    for (list& some : exact_lists(t, inputs)) lists.push_back(std::move(some));
  return lists;
}
// Other sets of terms of several.
std::vector<list> some_sets(dtype t, int inputs) {
  using enum op_id;
  const std::vector<std::vector<op_id>> one{{sum, norm_l1}, {nanmean, sum_squares}},
      two{{mae, dot}, {squared_distance, dot}};
  std::vector<list> lists;
  for (const auto& ops : inputs == 1 ? one : two) {
    lists.emplace_back();
    for (const op_id op : ops) lists.back().push_back(exact_of(op, t, dtype::f64));
  }
  return lists;
}

struct of_a_sort {
  std::string name;
  std::vector<std::byte> data;
};
std::vector<of_a_sort> data_of_many_sorts(dtype t, std::size_t n, std::uint64_t seed) {
  auto with_nans = make_data(t, kind::near_one, n, seed);
  if (is_float(t))
    for (std::size_t i = 0; i < n; i += 5)
      std::memset(&with_nans[i * size_of(t)], 0xff, size_of(t));
  return {{"near one, and NaNs", with_nans},
          {"near one", make_data(t, kind::near_one, n, seed)},
          {"any bits", make_data(t, kind::any_bits, n, seed)},
          {"special", make_data(t, kind::special, n, seed)},
          {"any finite bits", any_finite_bits(t, n, seed)}};
}

void compare(on_device& d, const list& all, std::size_t first, std::size_t second, std::size_t n,
             const std::vector<cuda::launch>& shapes, const std::string& what) {
  d.compare(
      all, first, second, n, shapes, what,
      [&](const reduction& r, const void* x, const void* y) { return cpu::reduce(r, x, y, n); });
}

}  // namespace

TEST_CASE("cuda: exact sums of any terms", "[cuda][exact]") {
  const std::size_t most = 40'009;
  for (const dtype t : types_of_test())
    for (const int inputs : {1, 2}) {
      lists in_any_blocks = t == dtype::f32 ? lists_of(t, inputs) : lists{all_exact(t, inputs)},
            in_many = lists_of(t, inputs);
      if (is_float(t))
        for (list& some : some_sets(t, inputs)) in_many.push_back(std::move(some));
      prepare(in_any_blocks, {1}, {{}});  // which is one block
      prepare(in_many, {most - 3}, {{}});
      for (const auto& [what, data] : data_of_many_sorts(t, 2 * most, 26)) {
        on_device d(data);
        for (const std::size_t n : {std::size_t{1}, std::size_t{1001}})
          for (const list& all : in_any_blocks)
            compare(d, all, 3, most + 1, n, {{}, one_warp}, what);
        for (const list& all : in_many) {
          compare(d, all, 3, most + 1, most - 3, {{}, {.threads = 32, .blocks = 3}}, what);
          compare(d, all, 3, most + 1, 1001, {{.threads = 32, .blocks = 3}}, what);
        }
      }
    }
}

TEST_CASE("cuda: exact sums of a short array", "[cuda][exact][racecheck]") {
  for (const dtype t : types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32}))
    for (const int inputs : {1, 2}) {
      const std::size_t n = 40'003;
      const auto data = make_data(t, kind::any_bits, 2 * n, 28);
      on_device d(data);
      const std::vector<list> lists = lists_of(t, inputs);
      prepare(lists, {n}, {{}});
      compare(d, lists[0], 0, n, 100, {{}}, "");
      for (const list& all : lists) compare(d, all, 0, n, n, {{}}, "");
    }
}

// A thread's numbers are emptied; and where exponents are those of a run of elements, levels move,
// and are emptied, at each step, and a block's cells are carried often.
TEST_CASE("cuda: exact sums of so many elements that a thread's numbers must be emptied",
          "[cuda][exact]") {
  constexpr cuda::launch two_warps{.threads = 32, .blocks = 2};
  const std::size_t n = (std::size_t{1} << 21) + 3;
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32, dtype::u64})) {
    auto sorts = data_of_many_sorts(t, 2 * n, 21);
    sorts.erase(sorts.begin() + 3);  // a NaN would hide all
    if (is_float(t))
      for (const std::size_t run : {128, 512})
        sorts.push_back({"runs of " + std::to_string(run), any_finite_bits(t, 2 * n, 23, run)});
    for (const auto& [what, data] : sorts) {
      on_device d(data);
      for (const int inputs : {1, 2})
        for (const list& all : lists_of(t, inputs)) compare(d, all, 0, n, n, {two_warps}, what);
    }
  }
}

// As a GPU with that room takes them.
TEST_CASE("cuda: exact sums where a block has less shared memory", "[cuda][exact]") {
  const std::size_t n = 100'003;
  for (const dtype t : types_of_test({dtype::f32, dtype::f64}))
    for (const std::size_t bytes : {48 << 10, 99 << 10}) {
      gpu::device_facts on = this_gpu();
      on.max_shared_bytes = std::min(on.max_shared_bytes, bytes);
      std::vector<gpu::plan> plans;
      std::vector<list> lists;
      for (const int inputs : {1, 2}) {
        lists.push_back(all_exact(t, inputs));
        for (list& some : some_sets(t, inputs)) lists.push_back(std::move(some));
      }
      for (const list& all : lists) plans.push_back(test::plan_of({all, n, false}, {}, on));
      prepare(plans);
      for (const auto& [what, data] : data_of_many_sorts(t, 2 * n, 27)) {
        const device_memory both(data);
        const std::byte* const second = both.as<std::byte>() + n * size_of(t);
        for (std::size_t k = 0; k < lists.size(); ++k) {
          const void* const y = info(lists[k][0].op()).inputs == 2 ? second : nullptr;
          for (const gpu::pass& p : passes_of(plans[k])) CHECK(p.shared_bytes <= bytes);
          room to(lists[k], 1, plans[k].workspace);
          gpu::run(plans[k], to.addresses(both.p, y), nullptr);
          INFO(what << ", " << bytes << " bytes");
          check_same(lists[k], to.results(), [&](const reduction& r) {
            return std::vector{
                cpu::reduce(r, data.data(), y ? data.data() + n * size_of(t) : nullptr, n)};
          });
        }
      }
    }
}

// Few elements are one block's, more are blocks of few threads.
TEST_CASE("cuda: exact sums of lengths at which blocks become others", "[cuda][exact]") {
  const auto processors = static_cast<std::size_t>(this_gpu().processors);
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32})) {
    std::vector<std::size_t> lengths;
    for (const std::size_t each : {4, 8, 16, 24, 32, 64})
      for (const std::size_t threads : {std::size_t{64}, std::size_t{160}, std::size_t{224},
                                        std::size_t{256}, std::size_t{512}, 128 * processors})
        for (const std::size_t more : {0, 1}) lengths.push_back(each * threads + more);
    const std::size_t longest = std::ranges::max(lengths);
    for (const kind k : {kind::near_one, kind::any_bits}) {
      const auto data = make_data(t, k, 2 * longest, 25);
      on_device d(data);
      for (const int inputs : {1, 2})
        for (const list& all : t == dtype::f32 ? lists_of(t, inputs) : lists{all_exact(t, inputs)})
          for (const std::size_t n : lengths) compare(d, all, 0, longest, n, {{}}, name(k));
    }
  }
}

TEST_CASE("cuda: exact sums in as many blocks as can be asked for", "[cuda][exact]") {
  const std::size_t n = 100'003;
  for (const dtype t :
       types_of_test({dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i64})) {
    const auto data = make_data(t, kind::any_bits, 2 * n, 22);
    on_device d(data);
    for (const int inputs : {1, 2})
      for (const list& all : lists_of(t, inputs)) {
        const std::vector<cuda::launch> shapes{{.blocks = 0x7fffffff},
                                               {.threads = 32, .blocks = 1 << 30}};
        for (const cuda::launch& shape : shapes)
          CHECK(cuda::workspace_bytes(all, n, shape) <= 8 * n * all.size());
        compare(d, all, 0, n, n, shapes, "");
      }
  }
}
