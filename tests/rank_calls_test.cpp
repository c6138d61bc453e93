// Reductions over ranks that are threads (thread_ranks.hpp): the bits of one process, whoever has
// what; calls that differ; plans that are kept.
#include <bitfold/contributions.hpp>
#include <bitfold/ranks.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "data.hpp"
#include "rank_layout.hpp"
#include "rank_reductions.hpp"
#include "refusals.hpp"
#include "thread_ranks.hpp"

using namespace bitfold;
using test::on_ranks;
using test::thread_rank;

namespace {

using bytes = std::vector<std::byte>;

// Messages in many pieces, of short arrays.
struct little_room {
  explicit little_room(std::size_t b) { detail::bytes_for_messages = b; }
  ~little_room() { detail::bytes_for_messages = before; }
  const std::size_t before = detail::bytes_for_messages;
};

std::vector<reduction> reductions_of(dtype in, int inputs) {
  std::vector<reduction> all = test::reductions_with_states(in, inputs);
  // Accumulators and results of other types than the default.
  if (inputs == 1 && (in == dtype::f32 || in == dtype::bf16)) {
    all.push_back(make_reduction(op_id::sum, method_id::tree, in, dtype::f64, dtype::f64));
    all.push_back(make_reduction(op_id::mean, method_id::kahan, in, {}, dtype::f32));
    all.push_back(make_reduction(op_id::sum, method_id::exact, in, {}, dtype::f64));
    all.push_back(make_reduction(op_id::var, {}, in, {}, {}, 1));
  }
  return all;
}

// The contributions of a call, and what a rank has of them.
struct distributed {
  distributed(const reduction& r, std::vector<std::uint64_t> counts_of_ranks, std::size_t n,
              test::kind kind)
      : counts(std::move(counts_of_ranks)), elements(n) {
    const auto all = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    for (std::uint64_t k = 0; k < all; ++k) {
      bytes x = test::make_data(r.in(), kind, n, k);
      x.insert(x.begin(), k % 2, std::byte{});  // of which every other one is not aligned
      contributions.push_back(std::move(x));
    }
    wanted.resize(n * size_of(r.out()));
    std::vector<contribution_node> nodes;
    for (std::uint64_t k = 0; k < all; ++k) nodes.push_back({k, 1, at(k), true});
    cpu::reduce_contributions(r, nodes, n, wanted.data(), {.threads = 1});
  }
  std::uint64_t first(int rank) const {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0});
  }
  std::byte* at(std::uint64_t k) { return contributions[k].data() + k % 2; }
  std::vector<const void*> of(int rank) {
    std::vector<const void*> mine;
    for (std::uint64_t k = 0; k < counts[static_cast<std::size_t>(rank)]; ++k)
      mine.push_back(at(first(rank) + k));
    return mine;
  }

  std::vector<std::uint64_t> counts;
  std::size_t elements;
  std::vector<bytes> contributions;
  bytes wanted;
};

// Some that all ranks have together, of which some may have none.
std::vector<std::uint64_t> counts_of(int ranks, test::random_bits& next) {
  std::vector<std::uint64_t> counts;
  const bool alike = next() % 3 == 0;
  for (int r = 0; r < ranks; ++r) counts.push_back(alike ? 1 : next() % 6 * (next() % 4 > 0));
  if (std::ranges::max(counts) == 0) counts[next() % counts.size()] = 3;
  return counts;
}

// (Catch's own are for one thread.)
void expect(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("not so: ") + what);
}

void check_all(const std::vector<std::string>& thrown, const std::string& what = "") {
  for (const std::string& t : thrown) CHECK(t == what);
}

std::string title(const reduction& r, int ranks, std::size_t n) {
  return test::describe(r, n) + ", " + std::to_string(ranks) + " ranks";
}

constexpr cpu::options one_thread{.threads = 1};

}  // namespace

TEST_CASE("ranks: nodes that cover contributions are the largest of the tree") {
  for (std::uint64_t all = 1; all <= 40; ++all)
    for (std::uint64_t first = 0; first <= all; ++first)
      for (std::uint64_t last = first; last <= all; ++last) {
        const auto is_node = [&](std::uint64_t begin, std::uint64_t end) {
          for (std::uint64_t size = 1; size < 2 * all; size *= 2)
            if (begin % size == 0 && end == std::min(begin + size, all)) return true;
          return false;
        };
        std::uint64_t next = first;
        for (const contribution_node& node : covering(first, last, all)) {
          REQUIRE(node.first == next);
          next += node.count;
          REQUIRE(is_node(node.first, next));
          REQUIRE(node.is_elements == (node.count == 1));
          for (std::uint64_t end = next + 1; end <= last; ++end)
            REQUIRE_FALSE(is_node(node.first, end));
        }
        REQUIRE(next == last);
      }
}

TEST_CASE("ranks: all_reduce and reduce have the bits of one process") {
  test::random_bits next{7};
  const little_room room(1 << 14);
  for (const dtype type : all_dtypes)
    for (const reduction& r : reductions_of(type, 1)) {
      const int ranks = 1 + static_cast<int>(next() % 8);
      const std::size_t n = std::vector<std::size_t>{1, 63, 300, 2500, 9001}[next() % 5];
      const auto kind = next() % 2 ? test::kind::near_one : test::kind::special;
      distributed all(r, counts_of(ranks, next), n, kind);
      const int root = static_cast<int>(next() % static_cast<std::uint64_t>(ranks));
      std::vector<bytes> out(static_cast<std::size_t>(ranks), bytes(all.wanted.size() + 1));
      std::vector<bytes> of_root = out;
      const auto thrown = on_ranks(ranks, [&](thread_rank& by) {
        const auto k = static_cast<std::size_t>(by.rank());
        const auto mine = all.of(by.rank());
        cpu::all_reduce(by, r, mine, n, &out[k][1], one_thread);
        cpu::reduce(by, r, mine, n, by.rank() == root ? &of_root[k][1] : nullptr, root, one_thread);
      });
      INFO(title(r, ranks, n));
      check_all(thrown);
      for (int k = 0; k < ranks; ++k) {
        const auto same = [&](const bytes& found) {
          return std::equal(all.wanted.begin(), all.wanted.end(), found.begin() + 1);
        };
        if (!same(out[static_cast<std::size_t>(k)])) FAIL(title(r, ranks, n) << ", rank " << k);
        if (k == root && !same(of_root[static_cast<std::size_t>(k)])) FAIL(title(r, ranks, n));
      }
    }
}

TEST_CASE("ranks: reduce_scatter has the bits of one process") {
  test::random_bits next{8};
  const little_room room(1 << 13);
  for (const dtype type : {dtype::bf16, dtype::f32, dtype::f64, dtype::i8})
    for (const reduction& r : reductions_of(type, 1)) {
      const int ranks = 1 + static_cast<int>(next() % 8);
      const std::size_t n = std::vector<std::size_t>{0, 1, 100, 777}[next() % 4];
      distributed all(r, counts_of(ranks, next), n * static_cast<std::size_t>(ranks),
                      test::kind::near_one);
      bytes out(all.wanted.size() + 1);
      const std::size_t each = n * size_of(r.out());
      check_all(on_ranks(ranks, [&](thread_rank& by) {
        cpu::reduce_scatter(by, r, all.of(by.rank()), n,
                            out.data() + static_cast<std::size_t>(by.rank()) * each, one_thread);
      }));
      out.pop_back();
      if (out != all.wanted) FAIL(title(r, ranks, n));
    }
}

TEST_CASE("ranks: results may lie where elements do") {
  const little_room room(1 << 13);
  for (const dtype type : {dtype::bf16, dtype::f32})
    for (const int ranks : {1, 2, 3, 5})
      for (const reduction& r : reductions_of(type, 1)) {
        if (r.out() != type) continue;
        constexpr std::size_t part = 600;
        const std::size_t n = part * static_cast<std::size_t>(ranks), size = size_of(type);
        const std::vector<std::uint64_t> two(static_cast<std::size_t>(ranks), 2);
        distributed all(r, two, n, test::kind::near_one), again = all;
        check_all(on_ranks(ranks, [&](thread_rank& by) {
          const auto k = static_cast<std::uint64_t>(by.rank());
          cpu::all_reduce(by, r, all.of(by.rank()), n, all.at(2 * k + 1), one_thread);
          cpu::reduce_scatter(by, r, again.of(by.rank()), part, again.at(2 * k) + k * part * size,
                              one_thread);
        }));
        for (std::uint64_t k = 0; k < two.size(); ++k) {
          const auto same = [&](const std::byte* found, std::size_t begin, std::size_t count) {
            return std::equal(found, found + count * size, &all.wanted[begin * size]);
          };
          if (!same(all.at(2 * k + 1), 0, n)) FAIL(title(r, ranks, n));
          if (!same(again.at(2 * k) + k * part * size, k * part, part)) FAIL(title(r, ranks, n));
        }
      }
}

TEST_CASE("ranks: what a rank has folded as it came") {
  constexpr std::size_t n = 3000;
  const little_room room(1 << 14);
  const std::vector<std::uint64_t> counts{3, 9, 0, 5, 6};
  for (const dtype type : {dtype::f32, dtype::i16})
    for (const reduction& r : reductions_of(type, 1)) {
      distributed all(r, counts, n, test::kind::near_one);
      std::vector<bytes> out(counts.size(), bytes(all.wanted.size()));
      const auto thrown = on_ranks(static_cast<int>(counts.size()), [&](thread_rank& by) {
        const auto k = static_cast<std::size_t>(by.rank());
        const std::uint64_t first = first_of(by, counts[k]);
        // Of pairs where they begin at even ones; of the last rank the very nodes that it sends.
        std::vector<contribution_node> nodes;
        std::vector<bytes> states;
        states.reserve(counts[k]);
        for (const contribution_node& node :
             k + 1 == counts.size() ? covering(first, 23, 23)
                                    : covering(first, first + counts[k], first + counts[k] + 1)) {
          const std::uint64_t at_once = k + 1 == counts.size() ? node.count : 2;
          for (std::uint64_t c = node.first; c < node.first + node.count; c += at_once) {
            const std::uint64_t count = std::min(at_once, node.first + node.count - c);
            std::vector<contribution_node> of_these;
            for (std::uint64_t i = c; i < c + count; ++i) of_these.push_back({i, 1, all.at(i)});
            if (count == 1) {
              nodes.push_back(of_these[0]);
              continue;
            }
            states.emplace_back(n * contribution_state_bytes(r));
            cpu::fold_contributions(r, of_these, n, states.back().data(), one_thread);
            nodes.push_back({c, count, states.back().data(), false});
          }
        }
        cpu::all_reduce(by, r, nodes, n, out[k].data(), one_thread);
      });
      check_all(thrown);
      for (const bytes& found : out)
        if (found != all.wanted) FAIL(title(r, 5, n));
    }
}

TEST_CASE("ranks: on several threads, and in the pieces of a large array") {
  constexpr std::size_t n = 1500007;
  for (const method_id method : {method_id::tree, method_id::exact}) {
    const reduction mean = make_reduction(op_id::mean, method, dtype::f32);
    distributed all(mean, {1, 2}, n, test::kind::near_one);
    bytes out(all.wanted.size());
    check_all(on_ranks(2, [&](thread_rank& by) {
      bytes mine(all.wanted.size());
      cpu::all_reduce(by, mean, all.of(by.rank()), n, mine.data(), {.threads = 2});
      if (by.rank() == 0) out = std::move(mine);
      expect(by.exchanges > 3, "several pieces");
    }));
    CHECK(out == all.wanted);
  }
}

TEST_CASE("ranks: shares of an array, several reductions in one pass") {
  test::random_bits next{9};
  for (const dtype type : {dtype::f16, dtype::f32, dtype::u8})
    for (const int inputs : {1, 2})
      for (const int ranks : {1, 2, 3, 8}) {
        const auto reductions = reductions_of(type, inputs);
        const std::size_t n = std::vector<std::size_t>{1, 300, 9001, 70001}[next() % 4];
        const bytes x = test::make_data(type, test::kind::special, n, 1),
                    y = test::make_data(type, test::kind::special, n, 2);
        std::vector<scalar> wanted(reductions.size());
        cpu::reduce(reductions, x.data(), inputs == 2 ? y.data() : nullptr, n, wanted, one_thread);
        std::vector<std::size_t> cuts{0, n};
        for (int k = 1; k < ranks; ++k) cuts.push_back(next() % 2 ? next() % (n + 1) : cuts.back());
        std::ranges::sort(cuts);
        check_all(on_ranks(ranks, [&](thread_rank& by) {
          const auto k = static_cast<std::size_t>(by.rank());
          const std::size_t first = cuts[k] * size_of(type), count = cuts[k + 1] - cuts[k];
          const auto of = [&](const bytes& a) { return count ? a.data() + first : nullptr; };
          std::vector<scalar> found(reductions.size());
          cpu::reduce_shares(by, reductions, of(x), inputs == 2 ? of(y) : nullptr, count, found,
                             one_thread);
          for (std::size_t i = 0; i < found.size(); ++i)
            if (found[i] != wanted[i]) throw std::runtime_error(title(reductions[i], ranks, n));
        }));
      }
}

// ---- Calls that are refused ---------------------------------------------------------------------

namespace {

struct given {
  reduction r = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  std::size_t n = 1000;
  int root = 0;
  std::size_t contributions = 1;
};

// Each rank calls `call` with its own arguments: what each throws. Nothing is sent or written.
template <class Call>
std::vector<std::string> refusals(const std::vector<given>& of_ranks, Call call) {
  return on_ranks(static_cast<int>(of_ranks.size()), [&](thread_rank& by) {
    const given& mine = of_ranks[static_cast<std::size_t>(by.rank())];
    const std::vector<double> x(4 * mine.n, 1.5);
    std::vector<double> out(4 * mine.n, -7);
    const std::vector<const void*> contributions(mine.contributions, x.data());
    try {
      call(by, mine, contributions, out);
    } catch (const error& e) {
      expect(e.code() == errc::usage, "usage");
      expect(by.exchanges == 0, "nothing is sent");
      expect(std::ranges::all_of(out, [](double v) { return v == -7; }), "nothing is written");
      std::vector<float> one{1}, sum{0};
      cpu::all_reduce(by, make_reduction(op_id::sum, {}, dtype::f32), one.data(), 1, sum.data());
      expect(sum[0] == static_cast<float>(by.size()), "the next call is right");
      throw;
    }
  });
}
template <class Call>
void refused_everywhere(const std::vector<given>& of_ranks, const std::string& why, Call call) {
  const auto thrown = refusals(of_ranks, call);
  for (const std::string& t : thrown) CHECK(t == why);
}

constexpr auto all_reduce = [](communicator& by, const given& g,
                               const std::vector<const void*>& mine, std::vector<double>& out) {
  cpu::all_reduce(by, g.r, mine, g.n, out.data());
};

}  // namespace

TEST_CASE("ranks: calls that differ are one error on every rank, before anything is sent") {
  const std::string start = "ranks: the calls differ: rank 0: ";
  const std::string sum = "all_reduce of 1000 elements, sum by tree of f32 in f32 to f32";
  refused_everywhere(
      {{}, {.n = 999}, {}},
      start + sum + "; rank 1: all_reduce of 999 elements, sum by tree of f32 in f32 to f32",
      all_reduce);
  const auto differs = [&](reduction other, const std::string& in_words) {
    refused_everywhere({{}, {}, {.r = other}},
                       start + sum + "; rank 2: all_reduce of 1000 elements, " + in_words,
                       all_reduce);
  };
  differs(make_reduction(op_id::mean, {}, dtype::f32), "mean by tree of f32 in f32 to f32");
  differs(make_reduction(op_id::sum, method_id::kahan, dtype::f32),
          "sum by kahan of f32 in f32 to f32");
  differs(make_reduction(op_id::sum, {}, dtype::i32), "sum by tree of i32 in i64 to i64");
  differs(make_reduction(op_id::sum, {}, dtype::f32, dtype::f64),
          "sum by tree of f32 in f64 to f32");
  differs(make_reduction(op_id::sum, {}, dtype::f32, {}, dtype::f64),
          "sum by tree of f32 in f32 to f64");
  differs(make_reduction(op_id::var, {}, dtype::f32, {}, {}, 1),
          "var of f32 in f32 to f32, ddof 1");
  refused_everywhere(
      {{}, {.root = 1}},
      start +
          "reduce of 1000 elements, sum by tree of f32 in f32 to f32, on rank 0; rank 1: reduce "
          "of 1000 elements, sum by tree of f32 in f32 to f32, on rank 1",
      [](communicator& by, const given& g, const auto& mine, auto& out) {
        cpu::reduce(by, g.r, mine, g.n, out.data(), g.root);
      });
  refused_everywhere(
      {{}, {}},
      start + sum + "; rank 1: reduce_scatter of 1000 elements, sum by tree of f32 in f32 to f32",
      [](communicator& by, const given& g, const auto& mine, auto& out) {
        if (by.rank() == 0)
          cpu::all_reduce(by, g.r, mine, g.n, out.data());
        else
          cpu::reduce_scatter(by, g.r, mine, g.n, out.data());
      });
  refused_everywhere(
      {{}, {}},
      start + sum + "; rank 1: reduce_shares of an array: sum by tree of f32 in f32 to f32;",
      [](communicator& by, const given& g, const auto& mine, auto& out) {
        if (by.rank() == 0) return cpu::all_reduce(by, g.r, mine, g.n, out.data());
        scalar result{};
        cpu::reduce_shares(by, {&g.r, 1}, mine[0], nullptr, g.n, {&result, 1});
      });
  // Lists that differ behind what a header shows of them.
  const auto lists =
      refusals({{}, {}}, [](communicator& by, const given& g, const auto& mine, auto&) {
        std::vector<reduction> many(20, g.r);
        if (by.rank() == 1) many[19] = make_reduction(op_id::mean, {}, dtype::f32);
        std::vector<scalar> results(many.size());
        cpu::reduce_shares(by, many, mine[0], nullptr, g.n, results);
      });
  for (const std::string& t : lists) {
    CHECK(t.starts_with(start + "reduce_shares of an array: sum by tree"));
    CHECK(t.find("...; rank 1: reduce_shares") != std::string::npos);
  }
}

TEST_CASE("ranks: a call that one rank refuses is an error of all") {
  const auto refused_by_one = [](const std::string& why, auto call) {
    const auto thrown = refusals({{}, {}, {}}, call);
    CHECK(thrown[1] == why);
    for (const std::size_t r : {0, 2}) CHECK(thrown[r] == "ranks: rank 1 refuses its call: " + why);
  };
  refused_by_one("contributions: null pointer",
                 [](auto& by, const given& g, const auto& mine, auto& out) {
                   cpu::all_reduce(by, g.r, by.rank() == 1 ? nullptr : mine[0], g.n, out.data());
                 });
  refused_by_one("out: null pointer", [](auto& by, const given& g, const auto& mine, auto& out) {
    cpu::all_reduce(by, g.r, mine, g.n, by.rank() == 1 ? nullptr : out.data());
  });
  refused_by_one(
      "threads: -1 is negative", [](auto& by, const given& g, const auto& mine, auto& out) {
        cpu::all_reduce(by, g.r, mine, g.n, out.data(), {.threads = by.rank() == 1 ? -1 : 1});
      });
  refused_by_one("root: 3 is none of 3 ranks",
                 [](auto& by, const given& g, const auto& mine, auto& out) {
                   cpu::reduce(by, g.r, mine, g.n, out.data(), by.rank() == 1 ? 3 : 0);
                 });
  refused_by_one("n: 18446744073709551615 elements are too many", [](auto& by, const given& g,
                                                                     const auto& mine, auto& out) {
    cpu::all_reduce(by, g.r, mine, by.rank() == 1 ? ~std::size_t{} : g.n, out.data());
  });
  refused_by_one("out: it overlaps a contribution, and results would lie where other elements do",
                 [](auto& by, const given& g, const auto&, auto& out) {
                   auto* const x = reinterpret_cast<float*>(out.data());
                   cpu::all_reduce(by, g.r, x + (by.rank() == 1 ? 1 : 0), g.n, x);
                 });
  refused_by_one("op: sum has no order of pairs, and contributions are combined by others",
                 [](auto& by, const given& g, const auto& mine, auto& out) {
                   const auto in_order =
                       make_reduction(op_id::sum, method_id::sequential, dtype::f32);
                   cpu::all_reduce(by, by.rank() == 1 ? in_order : g.r, mine, g.n, out.data());
                 });
  refused_by_one(
      "contributions: that of 3 contributions from 1 on is no node of the tree, or out of place",
      [](auto& by, const given& g, const auto& mine, auto& out) {
        const std::vector<contribution_node> folded{{1, 3, mine[0], false}};
        if (by.rank() == 1) return cpu::all_reduce(by, g.r, folded, g.n, out.data());
        cpu::all_reduce(by, g.r, mine, g.n, out.data());
      });
  refused_by_one(
      "contributions: that of 1 contributions from 1 on has states, where its elements are taken",
      [](auto& by, const given& g, const auto& mine, auto& out) {
        const std::vector<contribution_node> folded{{1, 1, mine[0], false}};
        if (by.rank() == 1) return cpu::all_reduce(by, g.r, folded, g.n, out.data());
        cpu::all_reduce(by, g.r, mine, g.n, out.data());
      });
  refused_by_one("out: room for 2 results of 1 reductions",
                 [](auto& by, const given& g, const auto& mine, auto&) {
                   std::vector<scalar> results(by.rank() == 1 ? 2 : 1);
                   cpu::reduce_shares(by, {&g.r, 1}, mine[0], nullptr, g.n, results);
                 });
}

TEST_CASE("ranks: contributions that no rank has, or that are numbered otherwise than they lie") {
  refused_everywhere({{.contributions = 0}, {.contributions = 0}},
                     "contributions: none, on all ranks", all_reduce);
  const auto numbered = [](std::uint64_t first, std::uint64_t count) {
    return [=](communicator& by, const given& g, const std::vector<const void*>& mine,
               std::vector<double>& out) {
      if (by.rank() != 1) return cpu::all_reduce(by, g.r, mine, g.n, out.data());
      const std::vector<contribution_node> folded{{first, count, mine[0], false}};
      cpu::all_reduce(by, g.r, folded, g.n, out.data());
    };
  };
  refused_everywhere({{}, {}, {}},
                     "contributions: those of rank 1 begin at 4, and 1 lie before them",
                     numbered(4, 2));
  refused_everywhere({{.contributions = 4}, {}, {}},
                     "contributions: those of rank 2 come behind a node of rank 1's that is none "
                     "of the tree's but at the end",
                     numbered(4, 3));
  // Where nothing comes behind it, it is one.
  check_all(refusals({{.contributions = 4}, {}, {.contributions = 0}}, numbered(4, 3)));
}

TEST_CASE("ranks: a rank that ends is the communicator's error on the others") {
  const auto thrown = on_ranks(3, [](thread_rank& by) {
    if (by.rank() == 1) throw std::runtime_error("ends");
    const std::vector<float> x(1000, 1);
    std::vector<float> out(1000);
    cpu::all_reduce(by, make_reduction(op_id::sum, {}, dtype::f32), x.data(), 1000, out.data());
  });
  CHECK(thrown ==
        std::vector<std::string>{"another rank has ended", "ends", "another rank has ended"});
}

// ---- Plans --------------------------------------------------------------------------------------

TEST_CASE("ranks: a call sends what its plan says, in the memory that it says") {
  test::random_bits next{11};
  for (int round = 0; round < 60; ++round) {
    const little_room room(next() % 2 ? 1 << 14 : 1 << 22);
    const int ranks = 1 + static_cast<int>(next() % 8);
    const auto method = next() % 2 ? method_id::tree : method_id::exact;
    const reduction r = make_reduction(op_id::sum, method, dtype::f32);
    const auto what = static_cast<collective>(next() % 3);
    const std::size_t n = next() % 20000;
    const int root = static_cast<int>(next() % static_cast<std::uint64_t>(ranks));
    const auto counts = counts_of(ranks, next);
    const std::size_t total = what == collective::reduce_scatter ? n * counts.size() : n;
    const std::vector<float> x(total, 0.1f);
    std::size_t folded = 0;
    for (int k = 0; k < ranks; ++k) {
      const rank_plan p = plan_of(what, r, counts, n, k, root);
      folded += p.end - p.begin;
    }
    check_all(on_ranks(ranks, [&](thread_rank& by) {
      const rank_plan p = plan_of(what, r, counts, n, by.rank(), root);
      const std::vector<const void*> mine(counts[static_cast<std::size_t>(by.rank())], x.data());
      std::vector<float> out(total + 1);
      if (what == collective::all_reduce) cpu::all_reduce(by, r, mine, n, out.data(), one_thread);
      if (what == collective::reduce) cpu::reduce(by, r, mine, n, out.data(), root, one_thread);
      if (what == collective::reduce_scatter)
        cpu::reduce_scatter(by, r, mine, n, out.data(), one_thread);
      const std::string found = std::to_string(by.sent) + " " + std::to_string(by.received);
      const std::string wanted = std::to_string(p.sent) + " " + std::to_string(p.received);
      if (found != wanted) throw std::runtime_error(p.explain() + found);
    }));
    CHECK(folded >= total);
  }
}

TEST_CASE("ranks: plans in words") {
  const reduction r = make_reduction(op_id::sum, {}, dtype::f32);
  const std::vector<std::uint64_t> one_each{1, 1};
  const rank_plan p = plan_of(collective::all_reduce, r, one_each, 1 << 20, 1);
  CHECK(p.begin == 1 << 19);
  CHECK(p.sent == (1 << 22));  // as much as a ring sends
  CHECK(p.explain() ==
        "rank 1 of 2: all_reduce of 1048576 elements, sum by tree of f32 in f32 to f32\n"
        "  folds elements 524288 to 1048575\n"
        "  messages: in steps of up to 262144 elements from each rank to each, 2 of them\n"
        "  sends 4194304 bytes, receives 4194304, and a header of 512 from each rank\n"
        "  has room for 2097152 bytes of messages\n");  // as docs/distributed.md shows it
  const std::vector<std::uint64_t> many(60, 7);
  CHECK(plan_of(collective::all_reduce, make_reduction(op_id::sum, method_id::exact, dtype::f32),
                many, 1 << 24, 3)
            .memory <= detail::bytes_for_messages);
  const auto refused = [&](const std::string& why, auto call) {
    test::check_refused(why, call, [] { return true; });
  };
  refused("rank: 2 is none of 2", [&] { plan_of(collective::all_reduce, r, one_each, 5, 2); });
  refused("root: -1 is none of 2 ranks",
          [&] { plan_of(collective::reduce, r, one_each, 5, 0, -1); });
  refused("contributions: more than 2^60", [&] {
    plan_of(collective::all_reduce, r, std::vector<std::uint64_t>{1, ~std::uint64_t{}}, 5, 0);
  });
}
