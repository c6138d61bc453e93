// Reductions by method exact of an input that comes in pieces: arrays of a list, parts of a file,
// shares of threads or machines. The result is that of all of it in one array, in whatever order
// and pieces it came:
//
//   using namespace bitfold;
//   totals norm({make_reduction(op_id::norm_l2, method_id::exact, dtype::f32)});
//   for (const auto& tensor : gradients) norm.add<float>(tensor);
//   const scalar length = norm.result(0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <bitfold/cpu.hpp>
#include <bitfold/exact.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold {

namespace detail {

/// Room for a sum of any type.
inline constexpr std::size_t max_sum_bytes = sizeof(exact::sum<double, 2>);

/// The terms' sums of several exact reductions, each once. Of elements of one type.
class exact_sums {
 public:
  /// Of those among `reductions` that are exact.
  explicit exact_sums(std::span<const reduction> reductions);

  bool empty() const { return sums_.empty(); }
  /// What is to be summed, and where to.
  struct term_sum {
    exact::term what;
    alignas(16) std::byte state[max_sum_bytes];
  };
  std::span<term_sum> sums() { return sums_; }
  dtype type() const { return type_; }

  /// Adds those of the same reductions of other elements.
  void merge(const exact_sums& o);
  /// The result of r, one of those, for n elements in all.
  scalar result(const reduction& r, std::uint64_t n) const;
  /// Whether it is the value itself and not what is left of that modulo 2^bits: of integers; of
  /// floats true.
  bool fits(const reduction& r) const;

 private:
  dtype type_{};
  std::vector<term_sum> sums_;
};

}  // namespace detail

/// Exact reductions of what comes in pieces: add() some, merge() those of others, and ask for a
/// result() at any time. The results depend neither on the order nor on the pieces. Two threads
/// must not change the same one. Up to 2^60 elements. Memory: below a KiB for each sum, whatever
/// the number of elements.
class totals {
 public:
  /// Of nothing yet.
  /// reductions: by method exact, of one element type and number of inputs.
  /// Errors (errc::usage): others.
  explicit totals(std::vector<reduction> reductions);

  /// Adds n elements, or pairs of them (y is null where the reductions take one input); any
  /// alignment. Where it throws, nothing is added. Errors: as those of cpu::reduce.
  void add(const void* x, const void* y, std::size_t n, const cpu::options& opts = {});
  /// Errors (errc::usage), besides: a T that is not the element type; spans of two lengths.
  template <class T>
  void add(std::span<const T> x, const cpu::options& opts = {}) {
    check_type(dtype_of<T>);
    add(x.data(), nullptr, x.size(), opts);
  }
  template <class T>
  void add(std::span<const T> x, std::span<const T> y, const cpu::options& opts = {}) {
    check_type(dtype_of<T>);
    if (x.size() != y.size()) throw error(errc::usage, "y: not of the length of x");
    add(x.data(), y.data(), x.size(), opts);
  }
  /// Adds what another one has. Errors (errc::usage): it is of other reductions.
  void merge(const totals& o);

  /// Those that it was made of.
  const std::vector<reduction>& reductions() const { return reductions_; }
  /// How many elements, or pairs of them, were added.
  std::uint64_t count() const { return count_; }
  /// Of reductions()[k]: what cpu::reduce gives for all elements at once. Errors: std::out_of_range
  /// where there is no such reduction.
  scalar result(std::size_t k) const;
  /// Whether that is the true value: false for an integer that its type does not hold, where it is
  /// what is left of it modulo 2^bits.
  bool fits(std::size_t k) const;

 private:
  void check_type(dtype given) const;

  std::vector<reduction> reductions_;
  detail::exact_sums sums_;
  std::uint64_t count_ = 0;
};

}  // namespace bitfold
