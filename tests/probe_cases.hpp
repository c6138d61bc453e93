// What the probe tests of all engines share: which types and sizes, and what is expected.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <bitfold/reference.hpp>
#include <bitfold/view.hpp>

#include "catch.hpp"
#include "main.hpp"
#include "probe.hpp"

namespace bitfold::probe {

inline std::string expression(std::uint64_t n, method_id m) {
  std::string text = print_order(n, m, order_format::expression);
  text.pop_back();  // the newline
  return text;
}

// A piece of a tree, restricted to some elements.
struct restricted {
  std::uint64_t smallest;
  std::string text;  // empty: none of them below
};

// M's way through the elements, with pieces of the tree for numbers. Children come in the order of
// their smallest element, which is where the probe puts them.
template <class M>
struct restricted_to : M {
  static restricted start(restricted x) { return x; }
  static restricted merge(restricted a, restricted b) {
    if (a.text.empty()) return b;
    if (b.text.empty()) return a;
    if (b.smallest < a.smallest) std::swap(a, b);
    return {a.smallest, "(" + a.text + " " + b.text + ")"};
  }
  static restricted add(restricted s, restricted x) { return merge(std::move(s), std::move(x)); }
};

/// The canonical order of n elements, restricted to `kept`. For sizes that print_order leaves out.
inline std::string expression(std::uint64_t n, method_id m, const indices& kept) {
  const auto element = [&](std::uint64_t i) -> restricted {
    const bool keep = std::binary_search(kept.begin(), kept.end(), i);
    return {i, keep ? std::to_string(i) : ""};
  };
  return visit(m, [&]<class M>(std::type_identity<M>) {
    using R = restricted_to<M>;
    const auto lane = [](int count, auto get) {
      return method::fold_lane<R, order::rows>(count, get);
    };
    return order::interpret(n, lane, R::merge, element).text;
  });
}

inline std::vector<std::uint64_t> probe_sizes() {
  using namespace order;
  if (test::sanitized) return {1, 3, lanes, lanes + 1, leaf + 1, 3 * leaf + 17};
  return {1,        2,    3,        lanes - 1,     lanes,        lanes + 1,
          leaf - 1, leaf, leaf + 1, 3 * leaf + 17, 5 * leaf - 3, 7 * leaf + 9};
}

/// The tree of method m in an engine, a callable (reduction, data, n) -> scalar, for elements T
/// accumulated in `acc`.
template <class T, class Engine>
std::string tree_of(Engine engine, method_id m, dtype acc, std::uint64_t n,
                    const indices& kept = {}) {
  const reduction r = make_reduction(op_id::sum, m, dtype_of<T>, acc, acc);
  const auto f = [&](std::span<const T> x) {
    const scalar s = engine(r, x.data(), x.size());
    return s.type == dtype::f32 ? std::bit_cast<float>(static_cast<std::uint32_t>(s.bits))
                                : std::bit_cast<double>(s.bits);
  };
  return m == method_id::kahan ? tree_of_compensated_sum<T>(f, n, kept)
                               : tree_of_plain_sum<T>(f, n, kept);
}

/// All methods with an order (that run on a GPU, if on_gpu) and types at one size.
template <class Engine>
void check_all_types(Engine engine, std::uint64_t n, bool on_gpu = false) {
  CAPTURE(n);
  for (const auto& m : all_methods) {
    if ((on_gpu && !m.on_gpu()) || m.ordering == ordering::independent) continue;
    CAPTURE(m.name);
    const std::string expected = expression(n, m.id);
    // In brackets: the texts are too long to print.
    CHECK((tree_of<float>(engine, m.id, dtype::f32, n) == expected));
    CHECK((tree_of<double>(engine, m.id, dtype::f64, n) == expected));
    CHECK((tree_of<bfloat16>(engine, m.id, dtype::f32, n) == expected));
    // The masks of these do not reach: f16 does not overflow f32, nor f32 f64.
    if (m.id == method_id::kahan) continue;
    if (n < 1 << 15) CHECK((tree_of<float16>(engine, m.id, dtype::f32, n) == expected));
    CHECK((tree_of<float>(engine, m.id, dtype::f64, n) == expected));
    CHECK((tree_of<bfloat16>(engine, m.id, dtype::f64, n) == expected));
  }
}

/// Row 1 of a batch, the others being copies; or column 1, if the array lies the other way round.
/// reduce(r, x, axis, out).
template <class Reduce>
auto in_a_batch(int outputs, bool columns, Reduce reduce) {
  return [=](const reduction& r, const void* data, std::size_t n) {
    const std::size_t size = size_of(r.in()), count = static_cast<std::size_t>(outputs);
    std::vector<std::byte> batch(count * n * size), out(count * size_of(r.out()));
    for (std::size_t i = 0; i < count * n; ++i) {
      const std::size_t element = columns ? i / count : i % n;
      std::memcpy(&batch[i * size], static_cast<const std::byte*>(data) + element * size, size);
    }
    const auto length = static_cast<std::int64_t>(n);
    reduce(r,
           columns ? row_major(r.in(), batch.data(), {length, outputs})
                   : row_major(r.in(), batch.data(), {outputs, length}),
           columns ? 0 : 1, out.data());
    return load_scalar(r.out(), &out[size_of(r.out())]);
  };
}

/// About `count` elements of n chosen at random, one of each of the last leaves, and both sides of
/// every multiple of `step`.
inline indices sample(std::uint64_t n, int count, std::uint64_t step) {
  indices kept{0};
  for (std::uint64_t i = 1; i <= n && i <= 12 * order::leaf; i += order::leaf)
    kept.push_back(n - i);
  std::uint64_t state = n;
  for (int i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    kept.push_back((state >> 32) % n);
  }
  for (std::uint64_t b = step; b < n; b += step) kept.insert(kept.end(), {b - 1, b});
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

/// The methods with a tree worth the name, on a sample of the elements of T.
template <class T, class Engine>
void check_sample(Engine engine, std::uint64_t n, const indices& kept) {
  CAPTURE(n, name(dtype_of<T>));
  const dtype acc = std::is_same_v<T, double> ? dtype::f64 : dtype::f32;
  for (method_id m : {method_id::tree, method_id::pairwise, method_id::kahan}) {
    CAPTURE(name(m));
    CHECK((tree_of<T>(engine, m, acc, n, kept) == expression(n, m, kept)));
  }
}

}  // namespace bitfold::probe
