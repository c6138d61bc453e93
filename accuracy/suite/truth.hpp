// What is known of an array without running anybody.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "accuracy/bounds.hpp"
#include "accuracy/measures.hpp"
#include "accuracy/oracle.hpp"
#include "studies.hpp"

namespace bitfold::accuracy {

/// error / bound: 0 for no error, infinite for that of a wrong infinity or NaN.
inline double over_bound(const real& error, const real& bound) {
  if (error == 0) return 0;
  if (!isfinite(error)) return std::numeric_limits<double>::infinity();
  return static_cast<double>(real(error / bound));
}

struct truth {
  struct by_method {
    scalar result;
    std::optional<trace> way;  // of sums
    real bound;
  };
  using arithmetic = std::tuple<op_id, std::string, dtype>;  // op, accumulator, output
  std::map<op_id, real> values;
  real condition;  // of the sum
  by_reduction<by_method> methods;
  std::map<arithmetic, real> any_order;  // bounds

  // What it approximates. Sums of integers are defined modulo 2^64, but by method exact.
  real exact(const contestant_info& i) const {
    const real& value = values.at(i.op);
    const bool wraps = !is_float(i.in) && info(i.op).types == typing::additive &&
                       !(i.promise && takes_any_order(*i.promise));
    return wraps ? value_of(round_correctly(value, is_signed_int(i.in) ? dtype::i64 : dtype::u64))
                 : value;
  }

  static arithmetic of(const contestant_info& i) { return {i.op, i.acc, i.out}; }
  // Its own bound, or that of any order where it is known; or null.
  const real* bound(const contestant_info& i) const {
    if (i.bound) return &methods.at(*i.bound).bound;
    const auto it = any_order.find(of(i));
    return it == any_order.end() ? nullptr : &it->second;
  }
};

truth truth_of(const array_view& x, const std::vector<contestant*>& who, bool any_order);

}  // namespace bitfold::accuracy
