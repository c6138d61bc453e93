// Exact reductions at run time: which terms they sum, and their results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <bitfold/exact.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold::detail {

inline bool is_exact(const reduction& r) { return r.method() == method_id::exact; }

/// The terms whose sums make a reduction by method exact.
std::span<const exact::term> terms_of(const reduction& r);

/// Room for a sum of any type.
inline constexpr std::size_t most_sum_bytes = sizeof(exact::sum<double, 2>);

/// The same terms' sums of several exact reductions, each once. Of elements of one type.
class exact_sums {
 public:
  /// Of those among `all` that are exact.
  explicit exact_sums(std::span<const reduction> all);

  bool empty() const { return sums_.empty(); }
  /// What is to be summed, and where to.
  struct one {
    exact::term what;
    alignas(16) std::byte state[most_sum_bytes];
  };
  std::span<one> each() { return sums_; }
  dtype type() const { return type_; }

  /// Adds those of the same reductions of other elements.
  void merge(const exact_sums& o);
  /// The result of r, one of those, for n elements in all.
  scalar result(const reduction& r, std::uint64_t n) const;
  /// Whether it is the value itself and not what is left of that modulo 2^bits: of integers; of floats true.
  bool fits(const reduction& r) const;

 private:
  dtype type_{};
  std::vector<one> sums_;
};

/// An empty sum of that term, at `state`.
void clear_sum(exact::term what, dtype type, void* state);
/// The result of r from the sums of its terms, for n elements in all.
scalar finish_exact(const reduction& r, const void* const* sums, std::uint64_t n);

}  // namespace bitfold::detail
