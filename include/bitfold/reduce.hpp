// Several reductions in one pass, each with the bits that it has alone:
//
//   using namespace bitfold;
//   const auto [total, average, top] = reduce(x, ops::sum, ops::mean, ops::max);
//   const auto [product, error] = reduce(pairs(x, y), ops::dot.by<method_id::kahan>(), ops::mse);
//   const double likelihood = reduce(transform(f, x, y), ops::sum.acc<double>());
//   const complex s = reduce(z, complex_sum{});           // an operation of one's own: own.hpp
//   const auto means = reduce(row_major(x, {64, 1000}), axes{1}, ops::mean);  // axes.hpp
//
// The input is a contiguous range, or a source (source.hpp). One operation gives its result,
// several a std::tuple of them, in order. On the CPU; cuda/reduce.cuh does the same on GPUs, but
// for axes.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <bitfold/axes.hpp>
#include <bitfold/cpu/pass.hpp>
#include <bitfold/cpu/scalar.hpp>
#include <bitfold/own.hpp>
#include <bitfold/source.hpp>

namespace bitfold {

/// The C++ type in which Op of elements T comes out by default.
template <op_id Op, class T>
using default_output =
    std::conditional_t<info(Op).types == typing::same, T, type_of<default_out(Op, dtype_of<T>)>>;

/// An operation of bitfold's, by a method and in types that are known when the program is compiled.
/// ops has each with its defaults; by(), acc(), as() and ddof() give it with another choice. What
/// there is not is an error of the compiler's.
template <op_id Op, method_id Method = method_id::tree, class Acc = void, class Out = void>
struct operation {
  static constexpr op_id id = Op;              ///< what is computed
  static constexpr method_id method = Method;  ///< how it adds
  int subtracted = 0;                          ///< by ddof

  /// The same by another method, if the operation takes it.
  template <method_id M>
    requires(takes(Op, M))
  constexpr operation<Op, M, Acc, Out> by() const {
    return {subtracted};
  }
  /// Of var and std alone: divided by n - d, d being 0 or more (else errc::usage, of the
  /// reduction).
  constexpr operation ddof(int d) const
    requires(takes_ddof(Op))
  {
    return {d};
  }
  /// Accumulated in A: float or double.
  template <class A>
  constexpr operation<Op, Method, A, Out> acc() const {
    return {subtracted};
  }
  /// Given as an R: a float or an integer type that the operation has (takes_out).
  template <class R>
  constexpr operation<Op, Method, Acc, R> as() const {
    return {subtracted};
  }

  /// The type of its result for elements T.
  template <class T>
  using output = std::conditional_t<std::is_void_v<Out>, default_output<Op, T>, Out>;

  /// Its reduction of elements T; errors as make_reduction's.
  template <class T>
  reduction reduction_of() const {
    std::optional<dtype> a, r;
    if constexpr (!std::is_void_v<Acc>) a = dtype_of<Acc>;
    if constexpr (!std::is_void_v<Out>) r = dtype_of<Out>;
    return make_reduction(Op, takes(Op, Method) ? std::optional(Method) : std::nullopt, dtype_of<T>,
                          a, r, subtracted);
  }
};

/// Every operation of op.hpp, as an object of the type operation: ops::sum, ops::mean, ops::dot.
/// docs/operations.md has what each computes.
namespace ops {
#define BITFOLD_OP(name, ...) inline constexpr operation<op_id::name> name{};
BITFOLD_OPS(BITFOLD_OP)
#undef BITFOLD_OP
}  // namespace ops

namespace detail {

template <class Op>
inline constexpr bool is_built_in = false;
template <op_id Op, method_id M, class Acc, class Out>
inline constexpr bool is_built_in<operation<Op, M, Acc, Out>> = true;

template <class Source>
inline constexpr bool is_pairs = false;
template <class T>
inline constexpr bool is_pairs<pair_source<T>> = true;

/// The element type that bitfold's operations see in a source; void if it is none of theirs.
template <class Source>
auto find_element_seen() {
  using value = std::remove_cvref_t<value_of<Source>>;
  if constexpr (requires { requires is_element<typename Source::stored>; })
    return std::type_identity<typename Source::stored>{};
  else if constexpr (std::is_arithmetic_v<value>)
    return std::type_identity<value>{};
  else
    return std::type_identity<void>{};
}
template <class Source>
using element_seen = typename decltype(find_element_seen<Source>())::type;

template <class Op, class Source>
auto result_type() {
  if constexpr (is_built_in<Op>) {
    using T = element_seen<Source>;
    return std::type_identity<typename Op::template output<T>>{};
  } else {
    using F = fold::own<Op, value_of<Source>>;
    return std::type_identity<decltype(F::result(std::declval<typename F::template state<void>>(),
                                                 0))>{};
  }
}
template <class Op, class Source>
using result_of = typename decltype(result_type<Op, Source>())::type;

/// A source as the CPU's engine takes it.
template <class Source>
struct generated_elements {
  using accumulator = value_of<Source>;
  const Source* source;
  order::index first;
  generated_elements ahead(int elements) const {
    return {source, first + static_cast<order::index>(elements)};
  }
  accumulator elements(int i) const { return element(i); }
  accumulator element(int i) const { return (*source)(first + static_cast<order::index>(i)); }
};

template <class Op, class Source>
cpu::own_fold own_fold_of(const Source& source, void* out) {
  using F = fold::own<Op, value_of<Source>>;
  using state = typename F::template state<void>;
  cpu::own_fold f{};
  f.source = &source;
  f.state_bytes = sizeof(state);
  f.fold = [](const void* elements, order::index first, std::size_t n, void* target) {
    using taken = generated_elements<Source>;
    const state s = cpu::scalar_kernels::engine<F, taken>::run(
        cpu::scalar_kernels::leaves_in_a_row<taken>{{static_cast<const Source*>(elements), first}},
        n / order::leaf, static_cast<int>(n % order::leaf), first);
    std::memcpy(target, &s, sizeof s);
  };
  f.merge = [](void* a, order::index left, const void* b, order::index right) {
    state s, t;
    std::memcpy(static_cast<void*>(&s), a, sizeof s);
    std::memcpy(static_cast<void*>(&t), b, sizeof t);
    s = F::merge(s, t, fold::counts{left, right});
    std::memcpy(a, &s, sizeof s);
  };
  f.finish = [](const void* last, order::index n, void* target) {
    state s;
    std::memcpy(static_cast<void*>(&s), last, sizeof s);
    *static_cast<result_of<Op, Source>*>(target) = F::result(s, n);
  };
  f.out = out;
  return f;
}

// ---- What is refused, in a line each ------------------------------------------------------------

template <class>
inline constexpr bool always_false = false;
/// What a refused call gives: anything, so that nothing else is said of it.
struct refused {
  template <class T>
  operator T() const;
};

template <class X>
inline constexpr bool is_shape =
    std::is_same_v<X, bitfold::axes> || std::is_same_v<X, by_segment> ||
    std::is_same_v<X, by_key> || std::is_same_v<X, by_window>;
template <class X>
inline constexpr bool is_into = false;
template <class... R>
inline constexpr bool is_into<into<R...>> = true;
template <class X>
inline constexpr bool is_view_pair = false;
template <class T>
inline constexpr bool is_view_pair<view_pair<T>> = true;
template <class X>
inline constexpr bool is_array = input<X> || viewable<X> || is_view_pair<X>;

template <class X>
inline constexpr bool is_misplaced =
    std::is_same_v<X, cpu::options> || is_array<X> || is_shape<X> || is_into<X>;
/// refused, or a tuple of as many as there are operations.
template <class... Op>
auto refuse() {
  if constexpr ((std::size_t{!is_misplaced<Op>} + ... + 0) > 1)
    return std::tuple_cat([] {
      if constexpr (is_misplaced<Op>)
        return std::tuple<>{};
      else
        return std::tuple<refused>{};
    }()...);
  else
    return refused{};
}

template <class Op, class V>
concept has_start = requires(V x) { Op::start(x); } || requires(V x) { Op::start(x.x, x.y); };
template <class Op, class V>
using kept_by = typename fold::own<Op, V>::kept;
template <class Op, class V>
concept has_merge = requires(kept_by<Op, V> s) { Op::merge(s, s); } ||
                    requires(kept_by<Op, V> s) { Op::merge(s, s, fold::counts{}); };
template <class Op, class V>
concept has_finish = requires(kept_by<Op, V> s) { Op::finish(s); } ||
                     requires(kept_by<Op, V> s) { Op::finish(s, std::uint64_t{}); };
template <class Op>
concept has_members = requires { &Op::merge; } || requires { &Op::finish; } ||
                      requires { &Op::start; } || requires { typename Op::state; };

/// Whether Op is an operation for elements V, seen by bitfold's own as T; with the reason, where it
/// is none.
template <class Op, class T, class V, bool Pairs>
constexpr bool check_operation() {
  if constexpr (is_built_in<Op>) {
    constexpr bool seen = !std::is_void_v<T>, fits = (info(Op::id).inputs == 2) == Pairs;
    static_assert(seen,
                  "bitfold: this operation takes arrays of f16, bf16, f32, f64 and integers, and "
                  "transforms to float, double and integers");
    static_assert(
        !seen || fits,
        "bitfold: an operation of two inputs takes pairs(x, y), and only such a one does");
    return seen && fits;
  } else if constexpr (std::is_same_v<Op, cpu::options>) {
    static_assert(always_false<Op>,
                  "bitfold: options go first: reduce(options, input, operations...)");
  } else if constexpr (is_array<Op>) {
    static_assert(always_false<Op>,
                  "bitfold: two arrays go as one input: reduce(pairs(x, y), operations...)");
  } else if constexpr (is_shape<Op> || is_into<Op>) {
    static_assert(
        always_false<Op>,
        "bitfold: what outputs are of goes right behind the input, and into() behind that: "
        "reduce(input, axes{...}, into(out), operations...)");
  } else if constexpr (has_start<Op, V>) {
    constexpr bool merges = has_merge<Op, V>, finishes = has_finish<Op, V>;
    static_assert(merges,
                  "bitfold: this operation has no merge of two of the states that start makes "
                  "(bitfold/own.hpp)");
    static_assert(
        !merges || finishes,
        "bitfold: this operation has no finish of the states that start makes (bitfold/own.hpp)");
    return merges && finishes;
  } else if constexpr (has_members<Op>) {
    static_assert(always_false<Op>,
                  "bitfold: the start of this operation does not take an element of this input "
                  "(bitfold/own.hpp)");
  } else {
    static_assert(always_false<Op>,
                  "bitfold: this is no operation: one of bitfold's is ops::sum, one of your own an "
                  "object of a struct with start, merge and finish (bitfold/own.hpp)");
  }
  return false;
}
/// Whether Op... can be done of Input; with the reason, where not.
template <class Input, class... Op>
constexpr bool check_call() {
  if constexpr (std::is_same_v<Input, view>) {
    static_assert(always_false<Input>,
                  "bitfold: the element type of a view is known when the program runs: "
                  "view_of<float>(x) has one");
  } else if constexpr (viewable<Input> || is_view_pair<Input>) {
    static_assert(always_false<Input>,
                  "bitfold: of a view it is reduce(view, axes{...}, operations...)");
  } else if constexpr (!input<Input>) {
    static_assert(always_false<Input>,
                  "bitfold: the input is a contiguous range (not std::vector<bool>), pairs(x, y), "
                  "transform(f, x...) or a view");
  } else if constexpr (sizeof...(Op) == 0) {
    static_assert(always_false<Input>, "bitfold: reduce wants an operation");
  } else {
    using S = decltype(source_of(std::declval<const Input&>()));
    return (check_operation<Op, element_seen<S>, std::remove_cvref_t<value_of<S>>, is_pairs<S>>() &&
            ...);
  }
  return false;
}

template <class X>
inline constexpr bool is_reduction = std::is_same_v<X, reduction>;
template <std::ranges::range X>
inline constexpr bool is_reduction<X> = std::is_same_v<std::ranges::range_value_t<X>, reduction>;

// ---- Of a whole input ---------------------------------------------------------------------------

template <class Input, class... Op>
auto reduce_whole(const cpu::options& opts, const Input& input, const Op&... op) {
  const auto source = source_of(input);
  using S = std::remove_cv_t<decltype(source)>;
  using T = element_seen<S>;
  std::tuple<result_of<Op, S>...> results{};

  constexpr std::size_t built_ins = (std::size_t{is_built_in<Op>} + ...);
  cpu::pass p;
  p.n = source.n;
  p.element_bytes = S::element_bytes;
  std::vector<reduction> reductions;
  std::vector<cpu::own_fold> own;
  if constexpr (built_ins > 0) {
    if constexpr (requires { typename S::stored; }) {
      p.x = source.x;
      if constexpr (is_pairs<S>) p.y = source.y;
    } else {
      p.source = &source;
      p.generate = [](const void* source_, order::index first, std::size_t n, void* target, void*) {
        const S& values = *static_cast<const S*>(source_);
        T* out = static_cast<T*>(target);
        for (std::size_t i = 0; i < n; ++i) out[i] = values(first + i);
      };
    }
  }
  const auto ask = [&]<class O>(const O& o, auto& result) {
    if constexpr (is_built_in<O>) {
      reductions.push_back(o.template reduction_of<T>());
    } else {
      if (source.n > 0) {
        own.push_back(own_fold_of<O>(source, &result));
      } else if constexpr (requires { O::empty(); }) {
        result = O::empty();
      } else {
        throw error(errc::usage, "n: a reduction of no elements that has no empty()");
      }
    }
  };
  const auto for_each = [&](auto&& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(op, std::get<I>(results)), ...);
    }(std::index_sequence_for<Op...>{});
  };
  for_each(ask);
  p.reductions = reductions;
  p.own_folds = own;
  std::vector<scalar> scalars(built_ins);
  cpu::reduce(p, scalars, opts);
  std::size_t next = 0;
  for_each([&]<class O>(const O&, auto& result) {
    if constexpr (is_built_in<O>) store_scalar(scalars[next++], &result);
  });
  if constexpr (sizeof...(Op) == 1)
    return std::get<0>(std::move(results));
  else
    return results;
}

// ---- Along axes, of segments, by key, of windows ------------------------------------------------

/// Arrays as the functions of cpu.hpp take them; y is null of one.
template <class T>
struct two_views {
  using element = T;
  view_of<T> x;
  std::optional<view_of<T>> second = {};
  const view* y() const { return second ? &*second : nullptr; }
};
template <class Input>
auto views_of(const Input& in) {
  if constexpr (is_view_pair<Input>)
    return two_views<typename decltype(in.x)::value_type>{in.x, in.y};
  else
    return two_views<typename decltype(as_view(in))::value_type>{as_view(in)};
}

template <class Input>
struct element_of_array {
  using type = typename decltype(views_of(std::declval<const Input&>()))::element;
};
template <input Input>
struct element_of_array<Input> {
  using type = typename decltype(source_of(std::declval<const Input&>()))::stored;
};

template <class Input, class Shape, class... Op>
constexpr bool check_shaped() {
  constexpr bool flat = std::is_same_v<Shape, by_segment> || std::is_same_v<Shape, by_key>;
  if constexpr (std::is_same_v<Input, view>) {
    static_assert(always_false<Input>,
                  "bitfold: the element type of a view is known when the program runs: "
                  "view_of<float>(x) has one");
  } else if constexpr (flat &&
                       !requires(const Input& in) { typename decltype(source_of(in))::stored; }) {
    static_assert(always_false<Input>,
                  "bitfold: segments and keys are of a contiguous range or pairs(x, y)");
  } else if constexpr (!flat && !viewable<Input> &&
                       !(std::is_same_v<Shape, bitfold::axes> && is_view_pair<Input>)) {
    static_assert(always_false<Input>,
                  "bitfold: axes are of row_major(x, {...}) or another view, an mdspan, or "
                  "pairs(x, y) of them; windows are not of pairs");
  } else if constexpr (sizeof...(Op) == 0) {
    static_assert(always_false<Input>, "bitfold: reduce wants an operation");
  } else {
    constexpr bool own = ((!is_built_in<Op> && !is_misplaced<Op>) || ...);
    static_assert(!own,
                  "bitfold: along axes, of segments, by key and of windows there are bitfold's "
                  "operations (ops::sum) only");
    if constexpr (!own) {
      constexpr bool pair = is_view_pair<Input> || is_pairs<Input>;
      return (check_operation<Op, typename element_of_array<Input>::type, void, pair>() && ...);
    }
  }
  return false;
}

/// The extents of the results.
template <class Input>
std::vector<std::int64_t> extents_of(const Input& in, const bitfold::axes& shape) {
  const auto v = views_of(in);
  return result_extents(v.x, v.y(), shape.which(), shape.keep());
}
template <class Input>
std::vector<std::int64_t> extents_of(const Input&, const by_segment& shape) {
  return {std::max<std::int64_t>(0, static_cast<std::int64_t>(shape.offsets.size()) - 1)};
}
template <class Input>
std::vector<std::int64_t> extents_of(const Input&, const by_key& shape) {
  return {static_cast<std::int64_t>(shape.outputs)};
}
template <class Input>
std::vector<std::int64_t> extents_of(const Input& in, const by_window& shape) {
  return windows_extents(as_view(in), shape.per_axis);
}

/// All of them to where `out` says.
template <class Input, class Shape>
void reduce_to(std::span<const reduction> reductions, const Input& in, const Shape& shape,
               std::span<void* const> out, const cpu::options& opts) {
  if constexpr (std::is_same_v<Shape, bitfold::axes>) {
    const auto v = views_of(in);
    cpu::reduce(reductions, v.x, v.y(), shape.which(), out, opts);
  } else if constexpr (std::is_same_v<Shape, by_window>) {
    cpu::reduce_windows(reductions, as_view(in), shape.per_axis, out, opts);
  } else {
    const auto source = source_of(in);
    const void* y = nullptr;
    if constexpr (is_pairs<std::remove_const_t<decltype(source)>>) y = source.y;
    if constexpr (std::is_same_v<Shape, by_segment>) {
      cpu::reduce_segments(reductions, source.x, y, source.n, shape.offsets, out, opts);
    } else {
      if (shape.keys.size() != source.n)
        throw error(errc::usage, "keys: " + std::to_string(shape.keys.size()) + " of " +
                                     std::to_string(source.n) + " elements");
      cpu::reduce_by_key(reductions, source.x, y, shape.keys, shape.outputs, out, opts);
    }
  }
}

template <class Input, class Shape, class... Op>
auto reduce_shaped(const cpu::options& opts, const Input& input, const Shape& shape,
                   const Op&... op) {
  using T = typename element_of_array<Input>::type;
  const reduction reductions[] = {op.template reduction_of<T>()...};
  const auto extents = extents_of(input, shape);
  std::tuple<result_array<typename Op::template output<T>>...> results{
      result_array<typename Op::template output<T>>(extents)...};
  std::apply(
      [&](auto&... r) {
        reduce_to(reductions, input, shape, std::array<void*, sizeof...(Op)>{r.data()...}, opts);
      },
      results);
  if constexpr (sizeof...(Op) == 1)
    return std::get<0>(std::move(results));
  else
    return results;
}
template <class Input, class Shape, class... R, class... Op>
void reduce_shaped_into(const cpu::options& opts, const Input& input, const Shape& shape,
                        const into<R...>& out, const Op&... op) {
  using T = typename element_of_array<Input>::type;
  constexpr bool typed =
      std::is_same_v<std::tuple<R...>, std::tuple<typename Op::template output<T>...>>;
  static_assert(typed,
                "bitfold: into() takes a range for each operation, whose elements are of the type "
                "of its results and can be written");
  if constexpr (typed) {
    const reduction reductions[] = {op.template reduction_of<T>()...};
    std::uint64_t outputs = 1;
    for (const std::int64_t e : extents_of(input, shape)) outputs *= static_cast<std::uint64_t>(e);
    std::apply(
        [&](const auto&... r) {
          for (const std::size_t room : {r.size()...})
            if (room != outputs)
              throw error(errc::usage, "out: room for " + std::to_string(room) + " results of " +
                                           std::to_string(outputs));
          reduce_to(reductions, input, shape, std::array<void*, sizeof...(R)>{r.data()...}, opts);
        },
        out.ranges);
  }
}

// ---- Which of these -----------------------------------------------------------------------------

template <class Input>
auto choose(const cpu::options&, const Input&) {
  (void)check_call<Input>();
  return refused{};
}
template <class Input, class First, class... Rest>
auto choose(const cpu::options& opts, const Input& input, const First& first, const Rest&... rest) {
  if constexpr (!is_shape<First>) {
    if constexpr (check_call<Input, First, Rest...>())
      return reduce_whole(opts, input, first, rest...);
    else
      return refuse<First, Rest...>();
  } else if constexpr (sizeof...(Rest) > 0 && (is_into<Rest> || ...)) {
    return [&]<class Out, class... Op>(const Out& out, const Op&... op) {
      if constexpr (!is_into<Out>) {
        (void)check_shaped<Input, First, Out, Op...>();
      } else if constexpr (check_shaped<Input, First, Op...>()) {
        reduce_shaped_into(opts, input, first, out, op...);
      }
    }(rest...);
  } else {
    if constexpr (check_shaped<Input, First, Rest...>())
      return reduce_shaped(opts, input, first, rest...);
    else
      return refuse<Rest...>();
  }
}

}  // namespace detail

/// Reduces an input by one or more operations in one pass. Called as
///
///   reduce([options,] input, operations...)
///   reduce([options,] input, axes{...}, [into(out, ...),] operations...)
///
/// opts: threads and target, on which no bit depends.
/// input: a contiguous range of elements, pairs(x, y), transform(f, x, ...), indexed(x) or
/// in_order(x). In the second form a view of a known type, an mdspan or pairs of these; a range or
/// pairs of ranges for by_segment and by_key, which stand where axes do, as by_window does.
/// op: ops::NAME or objects of structs of your own (own.hpp), which only the first form takes.
/// Returns: the result of one operation, or a std::tuple of those of several, in order: of whole
/// inputs values of the operations' types, in the second form a result_array of each; nothing where
/// into() says where they go.
/// Cost: one read of the input, whatever the number of operations; count_distinct and the method
/// `sequential` read it again.
/// Errors: those of make_reduction and of cpu::reduce, or of what does it along axes; no elements
/// where an operation has no result for them (errc::usage). What does not fit by its type is one
/// error of the compiler's, which says what to write.
template <class Input, class... Op>
  requires(!detail::is_reduction<Input>)
auto reduce(const cpu::options& opts, const Input& input, const Op&... op) {
  return detail::choose(opts, input, op...);
}
template <class Input, class... Op>
  requires(!detail::is_reduction<Input> && !std::is_same_v<Input, cpu::options>)
auto reduce(const Input& input, const Op&... op) {
  return detail::choose(cpu::options{}, input, op...);
}

}  // namespace bitfold
