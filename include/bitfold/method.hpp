// The methods of accumulation and their registry. See method.inl for the arithmetic and
// docs/semantics.md for the a-priori error bound of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <bitfold/formats.hpp>
#include <bitfold/order.hpp>

namespace bitfold {

/// The methods with an order: NAME is method_id::NAME and the struct of that name in method.inl.
/// Types, dispatch and kernels take theirs from here.
#define BITFOLD_METHODS(METHOD)                                                        \
  METHOD(tree, canonical, "lanes add one by one, lanes and leaves fold in pairs")      \
  METHOD(pairwise, canonical, "everything folds in pairs: full balanced depth")        \
  METHOD(kahan, canonical, "compensated (Neumaier): rounding errors summed alongside") \
  METHOD(sequential, sequential, "plain left to right, for comparison")

/// How an operation adds: docs/exact.md says which to choose. `exact` has no order, and no struct:
/// it is the operations' exact forms.
enum class method_id : std::uint8_t {
#define BITFOLD_METHOD(name, ...) name,
  BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
      exact
};

/// In which order elements are taken.
enum class ordering : std::uint8_t {
  canonical,    ///< that of order.hpp, by every engine
  sequential,   ///< left to right: nothing to share out, so by the CPU's reference alone
  independent,  ///< no order shows: into states that merge as integers (exact.hpp)
  sorted,  ///< by arith::key_of, so that equal elements are neighbours: by a sort, and without a
           ///< fold
};

namespace method {
#define BITFOLD_INLINE BITFOLD_HD inline
#define BITFOLD_LAMBDA
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"  // g++ on array bounds of type int
BITFOLD_HD_BEGIN
#include <bitfold/method.inl>
BITFOLD_HD_END
#pragma GCC diagnostic pop
#undef BITFOLD_INLINE
#undef BITFOLD_LAMBDA

/// The struct of method M is type_of<M>.
template <method_id M>
struct of_id;
#define BITFOLD_METHOD(name, ...) \
  template <>                     \
  struct of_id<method_id::name> { \
    using type = name;            \
  };
BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
template <method_id M>
using type_of = typename of_id<M>::type;
}  // namespace method

/// What is known of a method: its name, in which order it takes elements, and what it does.
struct method_info {
  method_id id;
  std::string_view name;
  bitfold::ordering ordering;
  std::string_view summary;
  /// Whether GPUs have it: all but `sequential`.
  constexpr bool on_gpu() const { return ordering != bitfold::ordering::sequential; }
};

/// Every method there is: the command line, the tests and the benches take their lists from here.
inline constexpr std::array all_methods{
#define BITFOLD_METHOD(name, order, summary) \
  method_info{method_id::name, #name, ordering::order, summary},
    BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
        method_info{method_id::exact, "exact", ordering::independent,
                    "the true value, rounded once, whatever the order"},
};

/// The line of a method.
constexpr const method_info& info(method_id m) { return all_methods[static_cast<std::size_t>(m)]; }
/// "tree", "pairwise", "kahan", "sequential" or "exact"; "none" of an operation without a method.
constexpr std::string_view name(method_id m) { return info(m).name; }
constexpr std::string_view name(std::optional<method_id> m) { return m ? name(*m) : "none"; }
/// The method of that name; nothing where there is none.
constexpr std::optional<method_id> parse_method(std::string_view text) {
  for (const auto& row : all_methods)
    if (row.name == text) return row.id;
  return std::nullopt;
}

/// Calls f(std::type_identity<M>{}) with the method's type; of methods that have an order.
template <class F>
constexpr decltype(auto) visit(method_id m, F&& f) {
  switch (m) {
#define BITFOLD_METHOD(name, ...) \
  case method_id::name: return f(std::type_identity<method::name>{});
    BITFOLD_METHODS(BITFOLD_METHOD)
#undef BITFOLD_METHOD
    case method_id::exact: break;  // not reached
  }
  return f(std::type_identity<method::tree>{});
}

}  // namespace bitfold
