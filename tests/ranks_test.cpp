// What reductions over ranks are made of: states of contributions, and shares of one array.
#include <bitfold/contributions.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/shares.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "catch.hpp"
#include "data.hpp"
#include "rank_reductions.hpp"

using namespace bitfold;

namespace {

using bytes = std::vector<std::byte>;

std::string title(const reduction& r) {
  return std::string(name(r.op())) + " " + std::string(name(r.method())) + " " +
         std::string(name(r.in()));
}

// What the call is refused with.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const error& e) {
    return e.what();
  }
  return "nothing";
}
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// ---- Contributions ------------------------------------------------------------------------------

// Element i of all contributions.
bytes column(const std::vector<bytes>& contributions, std::size_t i, std::size_t size) {
  bytes all;
  for (const bytes& c : contributions)
    all.insert(all.end(), c.begin() + static_cast<std::ptrdiff_t>(i * size),
               c.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
  return all;
}

std::vector<bytes> contributions_of(dtype type, std::size_t m, std::size_t n) {
  std::vector<bytes> all;
  for (std::size_t k = 0; k < m; ++k)
    all.push_back(test::make_data(type, k % 3 ? test::kind::near_one : test::kind::special, n, k));
  return all;
}

// One each of contributions `first` to `last` - 1.
std::vector<contribution_node> elements(const std::vector<bytes>& all, std::size_t first,
                                        std::size_t last) {
  std::vector<contribution_node> nodes;
  for (std::size_t k = first; k < last; ++k) nodes.push_back({k, 1, all[k].data(), true});
  return nodes;
}

}  // namespace

TEST_CASE("contributions: up to 32 of them are a column") {
  constexpr std::size_t n = 41;
  for (const dtype type : all_dtypes)
    for (const std::size_t m : {1, 2, 3, 13, 32})
      for (const reduction& r : test::reductions_with_states(type, 1)) {
        const auto all = contributions_of(type, m, n);
        bytes out(n * size_of(r.out()));
        cpu::reduce_contributions(r, elements(all, 0, m), n, out.data());
        for (std::size_t i = 0; i < n; ++i) {
          const scalar wanted = reference(r, column(all, i, size_of(type)).data(), nullptr, m);
          const scalar found = load_scalar(r.out(), &out[i * size_of(r.out())]);
          if (found != wanted) FAIL(title(r) << ", " << m << " contributions, element " << i);
        }
      }
}

TEST_CASE("contributions: two of them, to each type of results") {
  constexpr std::size_t n = 41;
  for (const dtype type : {dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const reduction& r : test::all_reductions(type)) {
      if (r.method() == method_id::sequential) continue;
      const auto all = contributions_of(type, 2, n);
      bytes out(n * size_of(r.out()));
      cpu::reduce_contributions(r, elements(all, 0, 2), n, out.data());
      for (std::size_t i = 0; i < n; ++i) {
        const scalar wanted = reference(r, column(all, i, size_of(type)).data(), nullptr, 2);
        const scalar found = load_scalar(r.out(), &out[i * size_of(r.out())]);
        if (found != wanted) FAIL(test::describe(r, 2) << ", element " << i);
      }
    }
}

TEST_CASE("contributions: nodes join to the tree of all, whoever folded them") {
  constexpr std::size_t n = 5000;
  for (const dtype type : {dtype::bf16, dtype::f32, dtype::f64, dtype::i32})
    for (const std::size_t m : {5, 12, 37, 64})
      for (const reduction& r : test::reductions_with_states(type, 1)) {
        const auto all = contributions_of(type, m, n);
        bytes wanted(n * size_of(r.out())), found(wanted.size());
        cpu::reduce_contributions(r, elements(all, 0, m), n, wanted.data());
        std::vector<contribution_node> nodes;
        std::vector<bytes> states;
        states.reserve(m);
        for (std::size_t first = 0; first < m;) {
          // Nodes of 1, 2, 4 or 8, or what is left of such a one.
          std::size_t count = 1;
          while (first % (2 * count) == 0 && count < 8 && first + count < m && (first + count) % 5)
            count *= 2;
          const std::size_t last = std::min(first + count, m);
          states.emplace_back(n * contribution_state_bytes(r) + 1);
          std::byte* const unaligned = states.back().data() + 1;
          bytes made(n * contribution_state_bytes(r));
          cpu::fold_contributions(r, elements(all, first, last), n, made.data());
          std::memcpy(unaligned, made.data(), made.size());
          nodes.push_back({first, last - first, unaligned, false});
          first = last;
        }
        cpu::reduce_contributions(r, nodes, n, found.data(), {.threads = 3});
        if (found != wanted) FAIL(title(r) << ", " << m << " contributions");
      }
}

TEST_CASE("contributions: results may lie where elements do") {
  constexpr std::size_t n = 2000;
  for (const dtype type : {dtype::bf16, dtype::f32})
    for (const test::kind kind : test::all_kinds)
      for (const reduction& r : test::reductions_with_states(type, 1)) {
        if (r.out() != type) continue;
        std::vector<bytes> all;
        for (std::size_t k = 0; k < 3; ++k) all.push_back(test::make_data(type, kind, n, k));
        bytes wanted(n * size_of(type));
        cpu::reduce_contributions(r, elements(all, 0, 3), n, wanted.data());
        cpu::reduce_contributions(r, elements(all, 0, 3), n, all[1].data());
        if (all[1] != wanted) FAIL(title(r));
      }
}

TEST_CASE("contributions: what is no node of the tree is refused") {
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32);
  const float x[3] = {1, 2, 3};
  float out[3];
  const auto refused = [&](std::vector<contribution_node> nodes, const std::string& why) {
    const auto found = refusal([&] { cpu::reduce_contributions(sum, nodes, 3, out); });
    INFO(found);
    CHECK(contains(found, why));
  };
  refused({}, "nodes: none");
  refused({{1, 1, x}}, "contributions before 1 are missing");
  refused({{0, 1, x}, {2, 1, x}}, "from 2 on is none of the tree's");
  refused({{0, 1, x}, {1, 2, x, false}}, "that of 2 contributions from 1 on");
  refused({{0, 1, x}, {0, 1, x}}, "out of place");
  refused({{0, 2, x}}, "none of the tree's");  // elements of two
  refused({{0, 0, x, false}}, "none of the tree's");
  refused({{0, 1, nullptr}}, "data is null");
  const auto of = [](op_id op, std::optional<method_id> method) {
    return refusal([&] { contribution_state_bytes(make_reduction(op, method, dtype::f32)); });
  };
  CHECK(contains(of(op_id::dot, {}), "dot takes two inputs"));
  CHECK(contains(of(op_id::sum, method_id::sequential), "sum has no order of pairs"));
  cpu::reduce_contributions(sum, std::vector<contribution_node>{{0, 1, nullptr}}, 0, nullptr);
}

// ---- Shares -------------------------------------------------------------------------------------

namespace {

// Random cuts of n elements, some of them at the same place.
std::vector<std::size_t> cuts(std::size_t n, test::random_bits& next) {
  std::vector<std::size_t> at{0, n};
  for (int k = 0; k < 5; ++k) at.push_back(next() % (n + 1));
  at.push_back(at.back());
  std::sort(at.begin(), at.end());
  return at;
}

std::vector<scalar> results(std::span<const reduction> all, const std::vector<bytes>& shares) {
  std::vector<std::span<const std::byte>> spans(shares.begin(), shares.end());
  std::vector<scalar> out(all.size());
  cpu::reduce_shares(all, spans, out);
  return out;
}

}  // namespace

TEST_CASE("shares: the results are those of the whole array, however it is cut") {
  test::random_bits next{1};
  for (const dtype type : {dtype::f16, dtype::f32, dtype::f64, dtype::u8, dtype::i64})
    for (const std::size_t n : {1, 100, 256, 300, 4096, 9001, 600007})
      for (const int inputs : {1, 2}) {
        const auto all = test::reductions_with_states(type, inputs);
        const std::size_t size = size_of(type);
        const auto kind = n % 2 ? test::kind::near_one : test::kind::special;
        const bytes x = test::make_data(type, kind, n, 1), y = test::make_data(type, kind, n, 2);
        std::vector<bytes> shares;
        const auto at = cuts(n, next);
        for (std::size_t k = 0; k + 1 < at.size(); ++k)
          shares.push_back(cpu::make_share(
              all, &x[0] + at[k] * size, inputs == 2 ? &y[0] + at[k] * size : nullptr,
              at[k + 1] - at[k], at[k], {.threads = static_cast<int>(k % 3)}));
        const auto found = results(all, shares);
        std::vector<scalar> wanted(all.size());
        cpu::reduce(all, x.data(), inputs == 2 ? y.data() : nullptr, n, wanted);
        for (std::size_t k = 0; k < all.size(); ++k)
          if (found[k] != wanted[k]) FAIL(title(all[k]) << ", " << n << " elements");
      }
}

TEST_CASE("shares: no elements are as in one process") {
  const std::vector<reduction> all{make_reduction(op_id::sum, {}, dtype::f32),
                                   make_reduction(op_id::mean, method_id::exact, dtype::f32)};
  const bytes none = cpu::make_share(all, nullptr, nullptr, 0, 0);
  const auto found = results(all, {none, none});
  CHECK(found[0].as<float>() == 0);
  CHECK(to_string(found[1]) == "nan");
  const std::vector<reduction> top{make_reduction(op_id::max, {}, dtype::f32)};
  CHECK_THROWS_AS(results(top, {cpu::make_share(top, nullptr, nullptr, 0, 0)}), error);
}

TEST_CASE("shares: what was not made by make_share, or is out of place, is refused") {
  const std::vector<reduction> all{make_reduction(op_id::sum, {}, dtype::f32),
                                   make_reduction(op_id::var, method_id::exact, dtype::f32)};
  const bytes x = test::make_data(dtype::f32, test::kind::near_one, 2000, 1);
  const bytes a = cpu::make_share(all, x.data(), nullptr, 900, 0),
              b = cpu::make_share(all, x.data() + 3600, nullptr, 1100, 900);
  results(all, {a, b});
  CHECK_THROWS_WITH(results(all, {b, a}),
                    "shares: one does not begin where the one before it ends");
  CHECK_THROWS_WITH(results(all, {a, b, a}),
                    "shares: one does not begin where the one before it ends");
  const std::vector<reduction> others{all[0],
                                      make_reduction(op_id::std, method_id::exact, dtype::f32)};
  CHECK_THROWS_WITH(results(others, {a, b}), "shares: one is of other reductions");
  CHECK_THROWS_WITH(results({&all[0], 1}, {a, b}), "shares: one is of other reductions");
  for (std::size_t length = 0; length < a.size(); ++length)
    CHECK_THROWS_AS(
        results(all, {bytes(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length))}), error);
  bytes longer = a;
  longer.push_back(std::byte{0});
  CHECK_THROWS_WITH(results(all, {longer}), "shares: one is too long");
  // Bytes of any kind: refused, or results of some numbers.
  test::random_bits next{1};
  for (int k = 0; k < 3000; ++k) {
    bytes broken = a;
    for (int i = 0; i < 3; ++i) broken[next() % 200] = static_cast<std::byte>(next());
    try {
      results(all, {broken, b});
    } catch (const error& e) {
      CHECK(e.code() == errc::bad_input);
    }
  }
  const std::vector<reduction> distinct{make_reduction(op_id::count_distinct, {}, dtype::f32)};
  CHECK(contains(refusal([&] { cpu::make_share(distinct, x.data(), nullptr, 3, 0); }),
                 "count_distinct has no states"));
}
