#include <bitfold/reference.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "binned.hpp"
#include "dispatch.hpp"
#include "fp_environment.hpp"
#include "walk.hpp"

namespace bitfold {
namespace {

template <class T>
T stored(const void* data, std::uint64_t i) {
  T x;
  std::memcpy(&x, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return x;
}
template <class A, class T>
A element_of(const void* data, std::uint64_t i) {
  return arith::widen<A>(stored<T>(data, i));
}

scalar count_distinct(dtype t, const void* data, std::uint64_t n) {
  std::set<std::uint64_t> keys;  // the engines sort
  visit(t, [&]<class T>(std::type_identity<T>) {
    for (std::uint64_t i = 0; i < n; ++i) keys.insert(arith::key_of(stored<T>(data, i)));
  });
  return {dtype::i64, keys.size()};
}

scalar add_exactly(const reduction& r, const void* x, const void* y, std::uint64_t n) {
  detail::exact_sums sums({&r, 1});
  for (auto& s : sums.sums())
    visit(s.what, [&](auto what) {
      visit(r.in(), [&]<class T>(std::type_identity<T>) {
        auto& sum = *reinterpret_cast<exact::sum_of<T, what>*>(s.state);
        for (std::uint64_t i = 0; i < n; ++i)
          exact::deposit<what>(sum, stored<T>(x, i),
                               exact::inputs(what) == 2 ? stored<T>(y, i) : T{});
      });
    });
  return sums.result(r, n);
}

// Element i of an input of type `in`, which is asked here of each element: less to compile.
template <class A>
struct of_any_type {
  dtype in;
  A operator()(const void* data, std::uint64_t i) const {
    return visit(in, [&]<class T>(std::type_identity<T>) -> A {
      if constexpr (fold::holds<A, T>())
        return element_of<A, T>(data, i);
      else
        return {};  // not reached
    });
  }
};
template <class A, class T>
struct of_type {
  A operator()(const void* data, std::uint64_t i) const { return element_of<A, T>(data, i); }
};

// The partial of fold F, apart from what an operation makes of it: several share F.
template <class F, class A, class Get>
__attribute__((noinline)) fold::partial<F, A> walk_over(const void* x, const void* y,
                                                        std::uint64_t n, Get get) {
  const auto s = detail::walk<F>(n, [&](std::uint64_t i) {
    if constexpr (F::element == fold::element_kind::pair)
      return fold::pair_of<A>{get(x, i), get(y, i)};
    else if constexpr (F::element == fold::element_kind::indexed)
      return fold::indexed_element<A, std::int64_t>{get(x, i), static_cast<std::int64_t>(i)};
    else
      return get(x, i);
  });
  return F::template rebase<A>(s, 0);
}

template <class Chosen>
BITFOLD_OPAQUE scalar run_typed(const reduction& r, const void* x, const void* y, std::uint64_t n) {
  using F = typename Chosen::fold;
  using A = typename Chosen::accumulator;
  if constexpr (F::ordering == ordering::sorted)
    return count_distinct(r.in(), x, n);
  else if constexpr (F::ordering == ordering::independent)
    return add_exactly(r, x, y, n);
  else if constexpr (F::ordering == ordering::sequential)  // which nothing else computes
    return visit(r.in(), [&]<class T>(std::type_identity<T>) -> scalar {
      if constexpr (fold::holds<A, T>())
        return detail::finished<Chosen>(
            r, walk_over<typename F::accumulation, A>(x, y, n, of_type<A, T>{}), n);
      else
        return {};  // not reached
    });
  else
    return detail::finished<Chosen>(
        r, walk_over<typename F::accumulation, A>(x, y, n, of_any_type<A>{r.in()}), n);
}

// ---- Printing: the same interpreter, on a method whose state is a piece of the tree. ------------

struct node {
  std::uint64_t element;
  std::shared_ptr<const node> left, right;  // null in a leaf
};
using tree_ptr = std::shared_ptr<const node>;

// M's way through the elements, with nodes for numbers.
template <class M>
struct drawn : M {
  static tree_ptr start(tree_ptr x) { return x; }
  static tree_ptr merge(tree_ptr a, tree_ptr b) {
    return std::make_shared<node>(node{0, std::move(a), std::move(b)});
  }
  static tree_ptr add(tree_ptr s, tree_ptr x) { return merge(std::move(s), std::move(x)); }
};

void print_expression(const node& t, std::string& out) {
  if (!t.left) {
    out += std::to_string(t.element);
    return;
  }
  out += '(';
  print_expression(*t.left, out);
  out += ' ';
  print_expression(*t.right, out);
  out += ')';
}

void print_text(const node& t, const std::string& first, const std::string& rest,
                std::string& out) {
  out += first + (t.left ? "+" : std::to_string(t.element)) + "\n";
  if (!t.left) return;
  print_text(*t.left, rest + "|-- ", rest + "|   ", out);
  print_text(*t.right, rest + "`-- ", rest + "    ", out);
}

std::uint64_t print_dot(const node& t, std::uint64_t& next, std::string& out) {
  const std::uint64_t me = next++;
  const auto id = [](std::uint64_t k) { return "n" + std::to_string(k); };
  if (!t.left) {
    out += "  " + id(me) + " [shape=box, label=\"" + std::to_string(t.element) + "\"];\n";
    return me;
  }
  out += "  " + id(me) + " [label=\"+\"];\n";
  for (const auto& child : {t.left, t.right}) {
    const auto k = print_dot(*child, next, out);
    out += "  " + id(me) + " -> " + id(k) + ";\n";
  }
  return me;
}

}  // namespace

scalar reference(const reduction& r, const void* x, const void* y, std::size_t n) {
  detail::check_inputs(r, x, y, n);
  if (n == 0) return detail::empty_result(r);
  const detail::fp_environment guard;
  return detail::dispatch<algebra>(
      r, [&]<class Chosen>(Chosen) { return run_typed<Chosen>(r, x, y, n); });
}
scalar reference(const reduction& r, const void* data, std::size_t n) {
  return reference(r, data, nullptr, n);
}

void reference(const reduction& r, const view& x, const view* y, std::span<const int> axes,
               void* out) {
  const auto extents = result_extents(x, y, {}), kept = result_extents(x, y, axes);
  const auto volume = [](const auto& of) {
    return std::accumulate(of.begin(), of.end(), std::uint64_t{1},
                           [](auto a, auto b) { return a * static_cast<std::uint64_t>(b); });
  };
  // Output by output, element by element: of the places of both together, which are counted in
  // row-major order.
  const std::uint64_t all = volume(extents), outputs = volume(kept);
  const std::size_t size = size_of(x.type), each = outputs == 0 ? 0 : all / outputs * size;
  using bytes = std::vector<std::byte>;
  std::vector<bytes> gathered_x(outputs, bytes(each)), gathered_y(outputs, bytes(y ? each : 0));
  std::vector<std::size_t> filled(outputs, 0);
  for (std::uint64_t i = 0; i < all; ++i) {
    const view* const inputs[] = {&x, y};
    std::uint64_t left = i, output = 0, scale = 1;
    std::int64_t at[2] = {0, 0};
    for (int k = static_cast<int>(extents.size()) - 1; k >= 0; --k) {
      const auto extent = static_cast<std::uint64_t>(extents[static_cast<std::size_t>(k)]),
                 digit = left % extent;
      left /= extent;
      if (std::find(axes.begin(), axes.end(), k) == axes.end()) {
        output += digit * scale;
        scale *= extent;
      }
      for (int v = 0; v < (y ? 2 : 1); ++v)
        if (const int own = k - static_cast<int>(extents.size()) + inputs[v]->rank;
            own >= 0 && inputs[v]->extent[static_cast<std::size_t>(own)] != 1)
          at[v] +=
              static_cast<std::int64_t>(digit) * inputs[v]->stride[static_cast<std::size_t>(own)];
    }
    for (int v = 0; v < (y ? 2 : 1); ++v)
      std::memcpy(
          &(v == 0 ? gathered_x : gathered_y)[output][filled[output]],
          static_cast<const std::byte*>(inputs[v]->data) + at[v] * static_cast<std::int64_t>(size),
          size);
    filled[output] += size;
  }
  for (std::size_t k = 0; k < gathered_x.size(); ++k)
    store_scalar(reference(r, gathered_x[k].data(), y ? gathered_y[k].data() : nullptr,
                           gathered_x[k].size() / size),
                 static_cast<std::byte*>(out) + k * size_of(r.out()));
}

std::string print_order(std::uint64_t n, method_id method, order_format format) {
  if (info(method).ordering == ordering::independent)
    return "any order: there is no tree to show\n";
  const std::uint64_t most = max_printed(method);
  if (n > most)
    throw error(errc::usage, "n: " + std::to_string(n) +
                                 " elements are too many to print; at most " +
                                 std::to_string(most) + " for method " + std::string(name(method)));
  std::string out;
  tree_ptr root;
  if (n > 0) {
    root = visit(method, [&]<class M>(std::type_identity<M>) {
      const auto element = [](std::uint64_t i) {
        return std::make_shared<const node>(node{i, nullptr, nullptr});
      };
      if constexpr (std::is_same_v<M, method::sequential>) {
        tree_ptr s = element(0);
        for (std::uint64_t i = 1; i < n; ++i) s = drawn<M>::add(s, element(i));
        return s;
      } else {
        return order::interpret(
            n,
            [](int count, auto get) {
              return method::fold_lane<drawn<M>, order::rows>(count, get);
            },
            drawn<M>::merge, [&](std::uint64_t i) -> tree_ptr { return element(i); });
      }
    });
  }
  switch (format) {
    case order_format::expression:
      if (root)
        print_expression(*root, out);
      else
        out = "empty";
      out += "\n";
      break;
    case order_format::text:
      if (root)
        print_text(*root, "", "", out);
      else
        out = "empty\n";
      break;
    case order_format::dot: {
      std::uint64_t next = 0;
      out = "digraph order {\n";
      if (root) print_dot(*root, next, out);
      out += "}\n";
      break;
    }
  }
  return out;
}

}  // namespace bitfold
