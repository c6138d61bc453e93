// For the tests that ask whether operations are true.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>

#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/fold.hpp>
#include <bitfold/reference.hpp>

#include "accuracy/bounds.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "tests/catch.hpp"
#include "tests/data.hpp"
#include "tests/float_reductions.hpp"

namespace bitfold::test::truth {

using namespace accuracy;

inline constexpr double inf = std::numeric_limits<double>::infinity();

inline elements as_elements(dtype t, const std::vector<std::byte>& x,
                            const std::vector<std::byte>& y = {}) {
  return {t, x.data(), y.empty() ? nullptr : y.data(), x.size() / size_of(t)};
}

inline elements of_op(const elements& in, op_id op) {
  return {in.type, in.x, info(op).inputs == 2 ? in.y : nullptr, in.n};
}

inline scalar run(const reduction& r, const elements& in) {
  return reference(r, in.x, info(r.op()).inputs == 2 ? in.y : nullptr, in.n);
}

inline double run(const reduction& r, const std::vector<double>& x,
                  const std::vector<double>& y = {}) {
  const auto a = pack(x, r.in()), b = pack(y, r.in());
  return static_cast<double>(value_of(run(r, as_elements(r.in(), a, b))));
}

inline bool same(const real& a, const real& b) {
  return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

// Integers of type t, wrapping.
inline std::vector<std::byte> pack_any(const std::vector<double>& values, dtype t) {
  if (is_float(t)) return pack(values, t);
  std::vector<std::byte> out(values.size() * size_of(t));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_scalar(round_correctly(real(values[i]), t), out.data() + i * size_of(t));
  return out;
}

// Every reduction of an op there is, with every accumulator and output type. (Most that are tried
// are refused, and to throw takes long, so each is tried once.)
inline const std::vector<reduction>& all_of(op_id op, dtype in) {
  static std::map<std::pair<op_id, dtype>, std::vector<reduction>> known;
  const auto [entry, is_new] = known.try_emplace({op, in});
  std::vector<reduction>& list = entry->second;
  if (!is_new) return list;
  std::set<std::string> seen;
  for (const auto& method : methods_of(op))
    for (std::size_t a = 0; a <= all_dtypes.size(); ++a)
      for (dtype out : all_dtypes) {
        const std::optional<dtype> acc = a ? std::optional(all_dtypes[a - 1]) : std::nullopt;
        try {
          const reduction r = make_reduction(op, method, in, acc, out);
          if (seen.insert(test::describe(r, 0)).second) list.push_back(r);
        } catch (const error&) {
          // not a combination that there is
        }
      }
  return list;
}

}  // namespace bitfold::test::truth
