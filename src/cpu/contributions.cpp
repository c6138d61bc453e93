#include <bitfold/contributions.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "../binned.hpp"
#include "../contribution_tree.hpp"
#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "task.hpp"

namespace bitfold::cpu {
namespace {

using order::index;

// A tile's states stay in the second-level cache while its nodes are merged.
constexpr std::size_t tile_bytes = std::size_t{1} << 14, min_tile = 32;

// What is done with the states of many elements, one behind the other at `states`.
struct state_arrays {
  std::size_t size = 0;  // bytes of a state
  // Those of elements of type `in`, which are contribution `which`.
  void (*start)(const reduction& r, const void* x, std::size_t n, index which,
                void* states) = nullptr;
  void (*merge)(const reduction& r, void* a, index left, const void* b, index right,
                std::size_t n) = nullptr;
  // The same with the states of one contribution, in one go.
  void (*add)(const reduction& r, void* a, index left, const void* x, std::size_t n,
              index which) = nullptr;
  void (*finish)(const reduction& r, const void* states, std::size_t n, index count,
                 void* out) = nullptr;
  // The results of two contributions, in one go; null where elements are to be widened, or results
  // are of another type.
  void (*reduce_pair)(const reduction& r, const void* x, const void* y, std::size_t n,
                      void* out) = nullptr;
};

template <class A>
void widen_all(dtype in, const void* x, std::size_t n, A* to) {
  visit(in, [&]<class T>(std::type_identity<T>) {
    if constexpr (fold::holds<A, T>())
      for (std::size_t i = 0; i < n; ++i) {
        T e;
        std::memcpy(&e, static_cast<const std::byte*>(x) + i * sizeof(T), sizeof(T));
        to[i] = arith::widen<A>(e);
      }
  });
}

// Of a fold whose states are merged in an order.
template <class Chosen>
struct ordered_states {
  using F = typename Chosen::fold;
  using A = typename Chosen::accumulator;
  using state = fold::partial<F, A>;

  BITFOLD_OPAQUE static void start(const reduction& r, const void* x, std::size_t n, index which,
                                   void* states) {
    auto* const to = static_cast<state*>(states);
    each(r, x, n, [&](std::size_t i, A e) { to[i] = of_one(e, which); });
  }
  BITFOLD_OPAQUE static void add(const reduction& r, void* states, index left, const void* x,
                                 std::size_t n, index which) {
    auto* const to = static_cast<state*>(states);
    each(r, x, n, [&](std::size_t i, A e) {
      to[i] = F::merge(to[i], of_one(e, which), fold::counts{left, 1});
    });
  }
  BITFOLD_OPAQUE static void merge(const reduction&, void* a, index left, const void* b,
                                   index right, std::size_t n) {
    auto* const to = static_cast<state*>(a);
    const auto* const from = static_cast<const state*>(b);
    for (std::size_t i = 0; i < n; ++i) to[i] = F::merge(to[i], from[i], fold::counts{left, right});
  }
  static void finish(const reduction& r, const void* states, std::size_t n, index count,
                     void* out) {
    functions_for(r).finish(r, states, n, count, out);
  }
  static auto pairs_of(const reduction& r) -> decltype(state_arrays::reduce_pair) {
    if constexpr (detail::gives<Chosen::types, A, A>())
      if (r.in() == dtype_of<A> && r.out() == dtype_of<A>) return reduce_pair;
    return nullptr;
  }
  BITFOLD_OPAQUE static void reduce_pair(const reduction& r, const void* x, const void* y,
                                         std::size_t n, void* out) {
    // Results may lie where elements do, which is no reason not to make vectors of them.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC ivdep
#endif
    for (std::size_t i = 0; i < n; ++i) {
      const A result = F::template finish<A>(
          F::merge(of_one(element(x, i), 0), of_one(element(y, i), 1), fold::counts{1, 1}),
          fold::finish_parameters{2, r.ddof()});
      std::memcpy(static_cast<std::byte*>(out) + i * sizeof(A), &result, sizeof(A));
    }
  }

 private:
  static A element(const void* x, std::size_t i) {
    A e;
    std::memcpy(&e, static_cast<const std::byte*>(x) + i * sizeof(A), sizeof(A));
    return e;
  }
  // Calls f(i, element i), widened.
  template <class Each>
  static void each(const reduction& r, const void* x, std::size_t n, Each f) {
    if (r.in() == dtype_of<A> && reinterpret_cast<std::uintptr_t>(x) % alignof(A) == 0) {
      for (std::size_t i = 0; i < n; ++i) f(i, static_cast<const A*>(x)[i]);
      return;
    }
    constexpr std::size_t at_once = 256;
    A wide[at_once];
    for (std::size_t begin = 0; begin < n; begin += at_once) {
      const std::size_t count = std::min(at_once, n - begin);
      widen_all(r.in(), static_cast<const std::byte*>(x) + begin * size_of(r.in()), count, wide);
      for (std::size_t i = 0; i < count; ++i) f(begin + i, wide[i]);
    }
  }
  static state of_one(A x, index which) {
    return F::template rebase<A>(
        method::fold_lane<F, 1>(1,
                                [&](int) {
                                  if constexpr (F::element == fold::element_kind::indexed)
                                    return fold::indexed_element<A, std::int64_t>{x, 0};
                                  else
                                    return x;
                                }),
        which);
  }
};

// Of method exact: the sums of an element's terms, one behind the other.
template <class Form, class T>
struct exact_states {
  static constexpr std::size_t terms = std::size(Form::terms);
  template <std::size_t I>
  using sum = exact::sum_of<T, Form::terms[I]>;
  static constexpr std::size_t offset(std::size_t term) {
    std::size_t bytes = 0;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((bytes += I < term ? sizeof(sum<I>) : 0), ...);
    }(std::make_index_sequence<terms>());
    return bytes;
  }
  static constexpr std::size_t size = offset(terms);

  // Calls f(which, sum of that term) for the state of element i.
  template <class States, class F>
  static void each(States* states, std::size_t i, F f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::integral_constant<std::size_t, I>{}, states + i * size + offset(I)), ...);
    }(std::make_index_sequence<terms>());
  }
  static void start(const reduction&, const void* x, std::size_t n, index, void* states) {
    for (std::size_t i = 0; i < n; ++i) {
      T e;
      std::memcpy(&e, static_cast<const std::byte*>(x) + i * sizeof(T), sizeof(T));
      each(static_cast<std::byte*>(states), i, [&](auto which, std::byte* at) {
        auto* const s = new (at) sum<which>;
        exact::deposit<Form::terms[which]>(*s, e);
      });
    }
  }
  static void merge(const reduction&, void* a, index, const void* b, index, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const auto* const from = static_cast<const std::byte*>(b) + i * size;
      each(static_cast<std::byte*>(a), i, [&](auto which, std::byte* at) {
        reinterpret_cast<sum<which>*>(at)->merge(
            *reinterpret_cast<const sum<which>*>(from + offset(which)));
      });
    }
  }
  static void add(const reduction&, void* a, index, const void* x, std::size_t n, index) {
    for (std::size_t i = 0; i < n; ++i) {
      T e;
      std::memcpy(&e, static_cast<const std::byte*>(x) + i * sizeof(T), sizeof(T));
      each(static_cast<std::byte*>(a), i, [&](auto which, std::byte* at) {
        exact::deposit<Form::terms[which]>(*reinterpret_cast<sum<which>*>(at), e);
      });
    }
  }
  static void finish(const reduction& r, const void* states, std::size_t n, index count,
                     void* out) {
    for (std::size_t i = 0; i < n; ++i) {
      const void* sums[terms];
      each(static_cast<const std::byte*>(states), i,
           [&](auto which, const std::byte* at) { sums[which] = at; });
      store_scalar(detail::finish_exact(r, sums, count),
                   static_cast<std::byte*>(out) + i * size_of(r.out()));
    }
  }
};

state_arrays states_of(const reduction& r) {
  const state_arrays found =
      detail::dispatch<algebra>(r, [&]<class Chosen>(Chosen) -> state_arrays {
        using F = typename Chosen::fold;
        if constexpr (F::element == fold::element_kind::pair) {
          return {};
        } else if constexpr (F::ordering == ordering::canonical) {
          using s = ordered_states<Chosen>;
          return {sizeof(typename s::state), s::start, s::merge, s::add, s::finish, s::pairs_of(r)};
        } else if constexpr (F::ordering == ordering::independent) {
          return visit(r.in(), []<class T>(std::type_identity<T>) -> state_arrays {
            using s = exact_states<typename F::form, T>;
            return {s::size, s::start, s::merge, s::add, s::finish};
          });
        } else {
          return {};
        }
      });
  if (found.size == 0)
    throw error(errc::usage,
                "op: " + std::string(name(r.op())) +
                    (info(r.op()).inputs == 2 ? " takes two inputs" : " has no order of pairs") +
                    ", and contributions are combined by others");
  return found;
}

// ---- All of them --------------------------------------------------------------------------------

// Elements `begin` to `begin + n` of all nodes; the states are left at `stack`, which has room for
// plan.depth() times n.
void fold_tile(const reduction& r, const state_arrays& by, const detail::tree_plan& plan,
               std::size_t begin, std::size_t n, std::byte* stack) {
  std::byte* top = stack;
  for (const detail::tree_step& s : plan.steps()) {
    if (!s.node) {
      top -= n * by.size;
      by.merge(r, top - n * by.size, s.left, top, s.right, n);
      continue;
    }
    const auto* const data = static_cast<const std::byte*>(s.node->data);
    if (s.left > 0) {
      by.add(r, top - n * by.size, s.left, data + begin * size_of(r.in()), n, s.node->first);
      continue;
    }
    if (s.node->is_elements)
      by.start(r, data + begin * size_of(r.in()), n, s.node->first, top);
    else
      std::memcpy(top, data + begin * by.size, n * by.size);
    top += n * by.size;
  }
}

// Calls put(begin, n, states) for tiles of the elements, on several threads.
template <class Put>
void fold_all(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
              const options& opts, Put put) {
  const state_arrays by = states_of(r);
  const detail::tree_plan plan(nodes, n);
  const std::size_t tile = std::max(min_tile, tile_bytes / by.size);
  const std::size_t tiles = n / tile + (n % tile != 0);
  const int threads = threads_for(opts, n * by.size * nodes.size());
  const std::size_t chunks = std::min<std::size_t>(tiles, chunk_count(threads));
  const detail::fp_environment guard;
  parallel_for(chunks, threads, [&](std::size_t c) {
    // (Aligned as new does, for 16 bytes.)
    const auto stack = std::make_unique_for_overwrite<std::byte[]>(plan.depth() * tile * by.size);
    for (std::size_t t = tiles * c / chunks; t < tiles * (c + 1) / chunks; ++t) {
      const std::size_t begin = t * tile, count = std::min(tile, n - begin);
      fold_tile(r, by, plan, begin, count, stack.get());
      put(begin, count, stack.get(), by, plan.count());
    }
  });
}

// Of two contributions, in one pass.
void reduce_pair(const reduction& r, const state_arrays& by,
                 std::span<const contribution_node> nodes, std::size_t n, void* out,
                 const options& opts) {
  static_cast<void>(detail::tree_plan(nodes, n));  // refuses what is none
  const std::size_t size = size_of(r.in());
  const int threads = threads_for(opts, n * size * nodes.size());
  const std::size_t chunks = chunk_count(threads);
  parallel_for(chunks, threads, [&](std::size_t c) {
    const std::size_t begin = n / chunks * c, end = c + 1 == chunks ? n : n / chunks * (c + 1);
    const auto at = [&](const contribution_node& node) {
      return static_cast<const std::byte*>(node.data) + begin * size;
    };
    by.reduce_pair(r, at(nodes[0]), at(nodes[1]), end - begin,
                   static_cast<std::byte*>(out) + begin * size);
  });
}

// ---- Exact sums that doubles mostly have --------------------------------------------------------

bool are_sums_of_narrow_floats(const reduction& r, std::span<const contribution_node> nodes) {
  return detail::is_exact(r) && (r.op() == op_id::sum || r.op() == op_id::mean) &&
         is_float(r.in()) && r.in() != dtype::f64 && nodes.size() < (std::size_t{1} << 28) &&
         std::ranges::all_of(nodes, [](const contribution_node& node) { return node.is_elements; });
}

constexpr std::size_t doubles_of_tile = 512;

// What the sums lost: 0 where they are exact.
BITFOLD_OPAQUE void add_as_doubles(dtype in, const void* x, std::size_t n, double* sums,
                                   double* lost) {
  double wide[doubles_of_tile];
  widen_all(in, x, n, wide);
  for (std::size_t i = 0; i < n; ++i) {
    const auto next = arith::two_sum(sums[i], wide[i]);
    sums[i] = next.sum;
    lost[i] += next.error < 0 ? -next.error : next.error;  // or NaN
  }
}
// Rounding a mean twice is no harm: see exact_contributions in cuda/contributions.cuh. (Those that
// are not exact are left to others.)
BITFOLD_OPAQUE void round_sums(const reduction& r, const double* sums, std::size_t n,
                               std::size_t count, void* out) {
  visit(r.out(), [&]<class Out>(std::type_identity<Out>) {
    if constexpr (!std::is_integral_v<Out>)
      for (std::size_t i = 0; i < n; ++i) {
        const Out v = arith::round_to<Out>(
            r.op() == op_id::sum ? sums[i] : sums[i] / static_cast<double>(count));
        std::memcpy(static_cast<std::byte*>(out) + i * sizeof(Out), &v, sizeof(Out));
      }
  });
}
// Element i, by its state.
void reduce_element(const reduction& r, const state_arrays& by, const detail::tree_plan& plan,
                    std::size_t i, void* out) {
  alignas(16)
      std::byte states[4096];  // a state of f32 has 56 bytes, and of 2^28 nodes the stack 29
  fold_tile(r, by, plan, i, 1, states);
  by.finish(r, states, 1, plan.count(), out);
}

void reduce_as_doubles(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                       void* out, const options& opts) {
  const state_arrays by = states_of(r);
  const detail::tree_plan plan(nodes, n);
  const std::size_t tiles = n / doubles_of_tile + (n % doubles_of_tile != 0),
                    size = size_of(r.in()), of_result = size_of(r.out());
  const int threads = threads_for(opts, n * size * nodes.size());
  const std::size_t chunks = std::min<std::size_t>(tiles, chunk_count(threads));
  const detail::fp_environment guard;
  parallel_for(chunks, threads, [&](std::size_t c) {
    double sums[doubles_of_tile], lost[doubles_of_tile];
    std::byte results[doubles_of_tile * sizeof(double)];
    for (std::size_t t = tiles * c / chunks; t < tiles * (c + 1) / chunks; ++t) {
      const std::size_t begin = t * doubles_of_tile, count = std::min(doubles_of_tile, n - begin);
      const auto at = [&](const contribution_node& node) {
        return static_cast<const std::byte*>(node.data) + begin * size;
      };
      widen_all(r.in(), at(nodes[0]), count, sums);
      std::fill_n(lost, count, 0.0);
      for (const contribution_node& node : nodes.subspan(1))
        add_as_doubles(r.in(), at(node), count, sums, lost);
      // (Results may lie where elements do, which are asked for again.)
      round_sums(r, sums, count, nodes.size(), results);
      for (std::size_t i = 0; i < count; ++i)
        if (lost[i] != 0 || !arith::is_finite(sums[i]))
          reduce_element(r, by, plan, begin + i, results + i * of_result);
      std::memcpy(static_cast<std::byte*>(out) + begin * of_result, results, count * of_result);
    }
  });
}

}  // namespace

void fold_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* states, const options& opts) {
  fold_all(r, nodes, n, opts,
           [&](std::size_t begin, std::size_t count, const std::byte* made, const state_arrays& by,
               index) {
             std::memcpy(static_cast<std::byte*>(states) + begin * by.size, made, count * by.size);
           });
}

void reduce_contributions(const reduction& r, std::span<const contribution_node> nodes,
                          std::size_t n, void* out, const options& opts) {
  detail::expect_all_contributions(nodes);
  if (are_sums_of_narrow_floats(r, nodes)) return reduce_as_doubles(r, nodes, n, out, opts);
  if (nodes.size() == 2 && nodes[0].is_elements && nodes[1].is_elements)
    if (const state_arrays by = states_of(r); by.reduce_pair)
      return reduce_pair(r, by, nodes, n, out, opts);
  fold_all(r, nodes, n, opts,
           [&](std::size_t begin, std::size_t count, const std::byte* made, const state_arrays& by,
               index contributions) {
             by.finish(r, made, count, contributions,
                       static_cast<std::byte*>(out) + begin * size_of(r.out()));
           });
}

}  // namespace bitfold::cpu

std::size_t bitfold::contribution_state_bytes(const reduction& r) { return cpu::states_of(r).size; }
