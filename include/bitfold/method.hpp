// The methods of accumulation and their registry. See method.inl for the arithmetic and
// docs/semantics.md for the a-priori error bound of each.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <bitfold/arith.hpp>
#include <bitfold/order.hpp>

namespace bitfold {

enum class method_id : std::uint8_t { tree, pairwise, kahan, sequential, exact };

/// In which order elements are taken.
enum class ordering : std::uint8_t {
  canonical,   ///< that of order.hpp, by every engine
  sequential,  ///< left to right: nothing to share out, so by the CPU's reference alone
  any,         ///< no order shows: into states that merge as integers (exact.hpp)
  sorted,      ///< by arith::key_of, so that equal elements are neighbours: by a sort, and without a fold
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
}  // namespace method

struct method_info {
  method_id id;
  std::string_view name;
  bitfold::ordering ordering;
  std::string_view summary;
  constexpr bool on_gpu() const { return ordering != bitfold::ordering::sequential; }
};

/// Every method there is: the command line, the tests and the benches take their lists from here.
inline constexpr std::array<method_info, 5> all_methods{{
    {method_id::tree, "tree", ordering::canonical, "lanes add one by one, lanes and leaves fold in pairs"},
    {method_id::pairwise, "pairwise", ordering::canonical, "everything folds in pairs: full balanced depth"},
    {method_id::kahan, "kahan", ordering::canonical, "compensated (Neumaier): rounding errors summed alongside"},
    {method_id::sequential, "sequential", ordering::sequential, "plain left to right, for comparison"},
    {method_id::exact, "exact", ordering::any, "the true value, rounded once, whatever the order"},
}};

constexpr const method_info& info(method_id m) { return all_methods[static_cast<std::size_t>(m)]; }
constexpr std::string_view name(method_id m) { return info(m).name; }
constexpr std::string_view name(std::optional<method_id> m) { return m ? name(*m) : "none"; }
constexpr std::optional<method_id> parse_method(std::string_view text) {
  for (const auto& row : all_methods)
    if (row.name == text) return row.id;
  return std::nullopt;
}

/// Calls f(std::type_identity<M>{}) with the method's type; of methods that have an order.
template <class F>
constexpr decltype(auto) visit(method_id m, F&& f) {
  switch (m) {
    case method_id::tree: return f(std::type_identity<method::tree>{});
    case method_id::pairwise: return f(std::type_identity<method::pairwise>{});
    case method_id::kahan: return f(std::type_identity<method::kahan>{});
    case method_id::sequential:
    case method_id::exact: break;
  }
  return f(std::type_identity<method::sequential>{});
}

}  // namespace bitfold
