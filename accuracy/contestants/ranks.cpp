// Sums over ranks: bitfold's, by states of its tree, and two plain models of what libraries of
// collectives do. In a model each rank first adds its own contributions from left to right, as
// gradients of micro-batches are, and every sum is rounded to the type of the elements.
#include <cstring>

#include <bitfold/arith.hpp>
#include <bitfold/contributions.hpp>
#include <bitfold/formats.hpp>

#include <fmt/format.h>

#include "../contestant.hpp"

namespace bitfold::accuracy {
namespace {

class bitfold_ranks final : public rank_contestant {
 public:
  explicit bitfold_ranks(const reduction& r) : rank_contestant(info_of(r)) {}
  std::vector<std::byte> run(const array_view& x, std::size_t count, std::size_t ranks) override {
    const reduction& r = *info.promise;
    const std::size_t n = x.n / count, state = contribution_state_bytes(r);
    std::vector<std::vector<std::byte>> sent;
    std::vector<contribution_node> nodes;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (contribution_node node :
           covering(first_held(rank, ranks, count), first_held(rank + 1, ranks, count), count)) {
        std::vector<contribution_node> own;
        for (std::uint64_t k = node.first; k < node.first + node.count; ++k)
          own.push_back(
              {k, 1, static_cast<const std::byte*>(x.data) + k * n * size_of(x.type), true});
        if (node.count == 1) {
          nodes.push_back(own[0]);
          continue;
        }
        sent.emplace_back(n * state);
        cpu::fold_contributions(r, own, n, sent.back().data());
        node.data = sent.back().data();
        node.is_elements = false;
        nodes.push_back(node);
      }
    }
    std::vector<std::byte> out(n * size_of(r.out()));
    cpu::reduce_contributions(r, nodes, n, out.data());
    return out;
  }

 private:
  static entry_info<reduction> info_of(const reduction& r) {
    const std::string method(name(r.method()));
    const std::string acc(r.method() == method_id::exact ? "exact" : name(r.acc()));
    return {.id = fmt::format("bitfold/ranks/{}/{}/{}/{}/cpu", method, name(r.in()), acc,
                              name(r.out())),
            .name = "bitfold ranks " + method,
            .family = "bitfold",
            .device = "cpu",
            .about = fmt::format("the tree over contributions, method {}, from states of its nodes "
                                 "that each rank folds",
                                 method),
            .in = r.in(),
            .acc = acc,
            .out = r.out(),
            .promise = r};
  }
};

template <class T>
using numbers = std::vector<T>;

template <class T>
T added(T a, T b) {
  using wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  return arith::round_to<T>(arith::add(arith::widen<wide>(a), arith::widen<wide>(b)));
}
template <class T>
void add_to(numbers<T>& a, const numbers<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = added(a[i], b[i]);
}

// Piece c of as many as there are ranks goes around from rank c on, and each adds its own.
template <class T>
numbers<T> ring(const std::vector<numbers<T>>& of_ranks) {
  const std::size_t ranks = of_ranks.size(), n = of_ranks[0].size();
  numbers<T> out(n);
  for (std::size_t piece = 0; piece < ranks; ++piece)
    for (std::size_t i = piece * n / ranks; i < (piece + 1) * n / ranks; ++i) {
      out[i] = of_ranks[piece][i];
      for (std::size_t k = 1; k < ranks; ++k)
        out[i] = added(out[i], of_ranks[(piece + k) % ranks][i]);
    }
  return out;
}

// Those beyond a power of two first give theirs to a neighbour; then ranks 1, 2, 4, ... apart add
// up what they have.
template <class T>
numbers<T> doubling(std::vector<numbers<T>> of_ranks) {
  std::size_t power = 1;
  while (2 * power <= of_ranks.size()) power *= 2;
  const std::size_t beyond = of_ranks.size() - power;
  std::vector<numbers<T>> left;
  for (std::size_t k = 0; k < of_ranks.size(); ++k) {
    if (k < 2 * beyond && k % 2 == 1)
      add_to(left.back(), of_ranks[k]);
    else
      left.push_back(std::move(of_ranks[k]));
  }
  for (std::size_t apart = 1; apart < power; apart *= 2)
    for (std::size_t k = 0; k + apart < power; k += 2 * apart) add_to(left[k], left[k + apart]);
  return left[0];
}

template <class T>
class model final : public rank_contestant {
 public:
  using reduce = numbers<T> (*)(std::vector<numbers<T>>);
  model(const char* id, const char* what, const char* about, reduce f)
      : rank_contestant({.id = fmt::format("plain/ranks/{}/{}", id, name(dtype_of<T>)),
                         .name = what,
                         .family = "plain",
                         .device = "cpu",
                         .about = about,
                         .in = dtype_of<T>,
                         .acc = std::string(name(dtype_of<T>)),
                         .out = dtype_of<T>}),
        f_(f) {}
  std::vector<std::byte> run(const array_view& x, std::size_t count, std::size_t ranks) override {
    const std::size_t n = x.n / count;
    std::vector<numbers<T>> of_ranks;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t first = first_held(rank, ranks, count);
      numbers<T>& sum = of_ranks.emplace_back(contribution(x, first, n));
      for (std::size_t k = first + 1; k < first_held(rank + 1, ranks, count); ++k)
        add_to(sum, contribution(x, k, n));
    }
    const numbers<T> result = f_(std::move(of_ranks));
    std::vector<std::byte> out(n * sizeof(T));
    std::memcpy(out.data(), result.data(), out.size());
    return out;
  }

 private:
  static numbers<T> contribution(const array_view& x, std::size_t k, std::size_t n) {
    numbers<T> out(n);
    std::memcpy(out.data(), static_cast<const std::byte*>(x.data) + k * n * sizeof(T),
                n * sizeof(T));
    return out;
  }
  reduce f_;
};

template <class T>
void add_models(contestants& c) {
  c.ranks.push_back(std::make_unique<model<T>>(
      "ring", "ring (model)",
      "a model of a ring all-reduce: each piece of the array goes around from a rank of its own, "
      "and every rank adds its sum to it",
      [](std::vector<numbers<T>> x) { return ring(x); }));
  c.ranks.push_back(std::make_unique<model<T>>(
      "doubling", "recursive doubling (model)",
      "a model of an all-reduce by recursive doubling: ranks 1, 2, 4, ... apart add up their sums",
      [](std::vector<numbers<T>> x) { return doubling(std::move(x)); }));
}

}  // namespace

void add_ranks(contestants& c) {
  for (dtype t : all_dtypes)
    for (const method_id m : {method_id::tree, method_id::kahan, method_id::exact})
      if (is_float(t))
        c.ranks.push_back(std::make_unique<bitfold_ranks>(make_reduction(op_id::sum, m, t)));
  add_models<float>(c);
  add_models<double>(c);
  add_models<float16>(c);
  add_models<bfloat16>(c);
}

}  // namespace bitfold::accuracy
