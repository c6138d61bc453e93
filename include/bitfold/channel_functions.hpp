// The algebra of functions of channels (channels.hpp): the value of an element, and what gradients
// sum. A is float, or double for f64.
#pragma once

#include <bitfold/channel_inputs.hpp>
#include <bitfold/row_functions.hpp>

namespace bitfold::channel {

template <class A>
struct element {
  A x, y;
};
/// What is known of an element's channel and its statistic. What a function does not take is
/// neutral.
template <class A>
struct parameters {
  A mean, rstd, w, b, low, mean_g, slope;
};

/// The base of all functions: what they take besides the mean and rstd.
struct function {
  static constexpr bool takes_y = false, centred = true,  // the mean
      biased = false,                                     // b
      takes_low = false, takes_sums = false;              // mean_g and slope
};

struct channel_norm_at_rest : function {
  static constexpr bool biased = true;
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const parameters<A>& p) {
    const A z = arith::mul(arith::sub(e.x, p.mean), p.rstd);
    return arith::add(arith::mul(z, p.w), p.b);
  }
};
struct channel_norm : channel_norm_at_rest {
  static constexpr bool takes_low = true;
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const parameters<A>& p) {
    const A rounded = arith::mul(arith::sub(e.x, p.mean), p.rstd),
            z = arith::sub(rounded, arith::mul(p.low, p.rstd));
    return arith::add(arith::mul(z, p.w), p.b);
  }
};
/// As layer_norm's of rows.
struct channel_norm_backward : function {
  static constexpr bool takes_y = true, takes_sums = true;
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const parameters<A>& p) {
    return row::layer_norm_backward::value<A>({e.x, e.y, p.w, A(0)},
                                              {p.mean, p.rstd, p.mean_g, p.slope});
  }
};
struct channel_norm_at_rest_backward : function {
  static constexpr bool centred = false;
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const parameters<A>& p) {
    return arith::mul(arith::mul(e.x, p.w), p.rstd);
  }
};

/// What F takes of a channel and of a statistic.
template <class F, class A>
BITFOLD_HD parameters<A> parameters_of(const channels& of, order::index channel,
                                       order::index statistic) {
  const auto at = [](const void* from, order::index i, A neutral) {
    return from ? static_cast<const A*>(from)[i] : neutral;
  };
  parameters<A> p{};
  if constexpr (F::centred) p.mean = at(of.mean, statistic, A(0));
  p.rstd = at(of.rstd, statistic, A(0));
  p.w = at(of.w, channel, A(1));
  if constexpr (F::biased) p.b = at(of.b, channel, -A(0));
  if constexpr (F::takes_low) p.low = at(of.low, statistic, A(0));
  if constexpr (F::takes_sums) {
    p.mean_g = at(of.mean_g, statistic, A(0));
    p.slope = at(of.slope, statistic, A(0));
  }
  return p;
}

/// What gradients sum takes what their norm took.
struct gradient_sums : function {};
/// Of an element: g w, z, and g itself.
template <class A>
struct gradient {
  A x, y, g;
};
template <class A>
BITFOLD_HD gradient<A> gradient_of(const element<A>& e, const parameters<A>& p) {
  const auto [g, z] = row::layer_norm_backward::operand<A>({e.x, e.y, p.w, A(0)}, {p.mean, p.rstd});
  return {g, z, e.x};
}

/// Their terms. Weighted: of g w, else of g.
template <bool Weighted>
struct product_with_z {
  static constexpr auto element = fold::element_kind::single;
  template <class, class A>
  BITFOLD_HD static A apply(const gradient<A>& e) {
    return arith::mul(Weighted ? e.x : e.g, e.y);
  }
};
template <bool Weighted>
struct by_itself {
  static constexpr auto element = fold::element_kind::single;
  template <class, class A>
  BITFOLD_HD static A apply(const gradient<A>& e) {
    return Weighted ? e.x : e.g;
  }
};
template <bool Weighted>
using sums = fold::both<fold::additive<method::tree, product_with_z<Weighted>>,
                        fold::additive<method::tree, by_itself<Weighted>>>;
/// With weights; and without.
using both_sums = fold::both<sums<true>, sums<false>>;

/// What becomes of a state of `sums`, of n elements.
template <class A, class State>
BITFOLD_HD A slope_of(const State& s, order::index n) {
  return row::over(s.a.sum, n);
}
template <class A, class State>
BITFOLD_HD A mean_of(const State& s, order::index n) {
  return arith::round_quotient_to<A>(static_cast<double>(s.b.sum), 0.0, n);
}

}  // namespace bitfold::channel
