// Test inputs: named, seeded, and the same bits on every platform. They are built from integers,
// powers of two and single IEEE operations; no std:: distribution and no libm function is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <bitfold/dtype.hpp>

namespace bitfold::accuracy {

/// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits();
  double uniform();  ///< a multiple of 2^-53 in [0, 1)
  double normal();   ///< sum of twelve uniforms minus 6 (Irwin-Hall): variance 1, within +-6
  int below(int k);  ///< 0 .. k-1, each as likely up to k 2^-31

 private:
  std::uint64_t state_;
};

struct input {
  std::string_view name;
  std::string_view description;
  /// n values, meant to be rounded to the float type `type`: some inputs depend on its range or
  /// precision.
  std::vector<double> (*make)(std::size_t n, std::uint64_t seed, dtype type);
};

std::span<const input> all_inputs();

/// The values rounded to `type`, as an array of it; for integers they must be some of its.
std::vector<std::byte> pack(std::span<const double> values, dtype type);

/// n values of float type `type`, in random order, whose sum has condition number sum|x| / |sum x|
/// within a factor of 2 of `condition` (>= 1, and for f16, whose range allows no more, at most
/// 2^26). Needs n >= 100 or so for the largest. After algorithm 6.1 (GenDot) of Ogita, Rump and
/// Oishi (SIAM J. Sci. Comput. 26(6), 2005): half of the values are random with exponents spread
/// over log2(condition); each of the others nearly cancels the exact sum of all before it, with the
/// exponent going down; the last sets the sum.
std::vector<double> cancellation(std::size_t n, std::uint64_t seed, dtype type, double condition);

/// Two vectors of n values whose dot product has condition number 2 sum|x y| / |sum x y| within a
/// factor of 2 of `condition` (>= 2), by the same algorithm, in the same limits.
struct dot_input {
  std::vector<double> x, y;
};
dot_input dot_cancellation(std::size_t n, std::uint64_t seed, dtype type, double condition);

/// Integers from 0 to 3, most of them 0, or from -3 to 3, few of them 0, and their sum. Every sum
/// of consecutive ones is exact even in bf16, so whoever adds them gets this sum. The first and the
/// last are not 0.
struct exact_input {
  std::vector<double> x;
  double sum;
};
exact_input small_integers(std::size_t n, std::uint64_t seed, bool negative);

}  // namespace bitfold::accuracy
