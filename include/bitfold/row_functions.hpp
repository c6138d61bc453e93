// The algebra of row functions (rows.hpp). Each says which reductions of a row it needs, the
// operand that it makes of an element for them, the statistics that it makes of their results, and
// the value of an element. A is float, or double for f64.
#pragma once

#include <array>

#include <bitfold/arith.hpp>
#include <bitfold/fold.hpp>
#include <bitfold/formats.hpp>

namespace bitfold::row {

/// Element i of the inputs, and of the parameters.
template <class A>
struct element {
  A x, y, w, b;
};
/// The statistics of a row; each function says what a, b, c and d are. Of norms and their gradients
/// a and b are the mean and rstd, which `finish` makes, or takes as they were saved.
template <class A>
struct statistics {
  A a{}, b{}, c{}, d{};
};
// Conditions by bits, where compilers would otherwise make branches and no vectors.
template <class A>
using bits_of = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
template <class A>
BITFOLD_HD inline bits_of<A> mask(bool condition) {
  return condition ? ~bits_of<A>(0) : bits_of<A>(0);
}
/// Below it exp(x) is less than half the smallest number.
template <class A>
inline constexpr A exp_vanishes = std::is_same_v<A, float> ? -104 : -746;
/// x squared where wanted, else x. The factor is chosen by bits: by a condition, compilers would
/// square all elements, and squares of small numbers are slow on a CPU.
template <class A>
BITFOLD_HD inline A squared_where(bool wanted, A x) {
  const bits_of<A> bits = mask<A>(wanted), factor = (arith::bit_cast<bits_of<A>>(x) & bits) |
                                                    (arith::bit_cast<bits_of<A>>(A(1)) & ~bits);
  return arith::mul(x, arith::bit_cast<A>(factor));
}
template <class A>
BITFOLD_HD inline A kept_where(bool wanted, A x) {
  return arith::bit_cast<A>(arith::bit_cast<bits_of<A>>(x) & mask<A>(wanted));
}
/// exp(x) for x <= 0, some number for NaN, down to the smallest numbers: below the floor of
/// exp_nonpositive by its square, where it vanishes by that of 0.
template <class A>
BITFOLD_HD inline A exp_below(A x) {
  const bool deep = x < arith::exp_floor<A>;
  const A e = arith::exp_nonpositive(arith::mul(x, deep ? A(0.5) : A(1)));
  return squared_where(deep, kept_where(x >= exp_vanishes<A>, e));
}
/// The same bits, in fewer instructions: a GPU's softmax takes an eighth less time with it (and
/// log_softmax's gradient takes more).
template <class A>
BITFOLD_HD inline A exp_below_by_selection(A x) {
  const bool deep = x < arith::exp_floor<A>;
  const A half = arith::mul(x, A(0.5)), e = arith::exp_nonpositive(deep ? half : x),
          square = arith::mul(e, e);
  return deep ? square : e;
}
/// exp(x) of any x, of what is positive by its inverse. Its relative error is below 2 u, or 5 u
/// below exp_floor, and half the smallest number more; where x > 0, below 3 u, or 7 u above
/// -exp_floor.
template <class A>
BITFOLD_HD inline A exp_of_any(A x) {
  const bool positive = x > A(0);
  const A down = positive ? arith::neg(x) : x;
  const bool deep = down < arith::exp_floor<A>;
  const A e = arith::exp_nonpositive(arith::mul(down, deep ? A(0.5) : A(1)));
  const A y =
      squared_where(deep, positive ? arith::div(A(1), e) : kept_where(x >= exp_vanishes<A>, e));
  return arith::bit_cast<A>(arith::bit_cast<bits_of<A>>(y) | mask<A>(x != x));  // NaN of NaN
}
template <class A>
BITFOLD_HD A inverse_root(A x, double eps) {
  return arith::div(A(1), arith::sqrt(arith::add(x, static_cast<A>(eps))));
}
/// Rows are not longer than this, so that n is a float, and sum / n is rounded once.
inline constexpr order::index max_elements = order::index{1} << 24;
template <class A>
BITFOLD_HD A over(A sum, order::index n) {
  return arith::div(sum, static_cast<A>(n));
}

using sum_of_first = fold::additive<method::tree, fold::identity>;
using sum_of_products = fold::additive<method::tree, fold::times>;

/// The base of all functions. Fold is what is folded of a row, one operation of Ops or two of them;
/// `finish` takes its state.
template <class Fold, op_id... Ops>
struct function {
  using folded = Fold;
  static constexpr std::array<op_id, sizeof...(Ops)> ops{Ops...};
  static constexpr bool
      elementwise = false,  // each result depends on its element only: nothing is folded, and rows
                            // mean nothing
      takes_y = false,      // y
      affine = false,       // w, and b where it is centred
      writes = false, reads = false,  // rstd, and the mean where it is centred
      centred = false,
      exp_of_y = false;  // value takes exp of y; <A, true>: which is not below its floor, nor NaN
  static constexpr bool weighted = false;         // the fold wants w
  static constexpr bool by_channel = false;       // w and b are of channels
  static constexpr bool takes_as_stored = false;  // a pair is x and y themselves
  static constexpr int results =
      0;  // of reductions that `of_results` makes statistics of, if it can
};

/// Of one sum, which is statistic a.
template <class Fold, op_id Op>
struct function_of_sum : function<Fold, Op> {
  template <class A>
  BITFOLD_HD static statistics<A> finish(const method::tree::state<A>& s, order::index, double,
                                         const statistics<A>&) {
    return {s.sum};
  }
  static constexpr int results = 1;
  template <class A>
  BITFOLD_HD static statistics<A> of_results(A sum, A) {
    return {sum};
  }
};

struct softmax : function<op::logsumexp_fold, op_id::softmax_denominator> {
  template <class A>
  BITFOLD_HD static A operand(const element<A>& e, const statistics<A>&) {
    return e.x;
  }
  /// The sum of exp(x - the largest); NaN where that is infinite or NaN.
  template <class A>
  BITFOLD_HD static A denominator(const op::logsumexp_fold::state<A>& s) {
    return arith::add(s.sum, arith::sub(s.max, s.max));
  }
  // a: the largest element; b: 1 / the sum of exp(x - a).
  static constexpr int results = 2;
  template <class A>
  BITFOLD_HD static statistics<A> of_results(A max, A sum) {
    return {max, arith::div(A(1), sum)};
  }
  template <class A>
  BITFOLD_HD static statistics<A> finish(const op::logsumexp_fold::state<A>& s, order::index,
                                         double, const statistics<A>&) {
    return of_results<A>(s.max, denominator(s));
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    const A x = arith::sub(e.x, s.a);
#ifdef __CUDA_ARCH__
    return arith::mul(exp_below_by_selection(x), s.b);
#else
    return arith::mul(exp_below(x), s.b);
#endif
  }
};

struct log_softmax : softmax {
  // a: the largest element; b: the logarithm of that sum.
  template <class A>
  BITFOLD_HD static statistics<A> of_results(A max, A sum) {
    return {max, sum == sum ? static_cast<A>(arith::log_from_one(static_cast<double>(sum))) : sum};
  }
  template <class A>
  BITFOLD_HD static statistics<A> finish(const op::logsumexp_fold::state<A>& s, order::index,
                                         double, const statistics<A>&) {
    return of_results<A>(s.max, denominator(s));
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    return arith::sub(arith::sub(e.x, s.a), s.b);
  }
};

struct softmax_backward : function_of_sum<sum_of_products, op_id::dot> {
  static constexpr bool takes_y = true, takes_as_stored = true;
  template <class A>
  BITFOLD_HD static fold::pair_of<A> operand(const element<A>& e, const statistics<A>&) {
    return {e.x, e.y};
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    return arith::mul(arith::sub(e.x, s.a), e.y);
  }
};

struct log_softmax_backward : function_of_sum<sum_of_first, op_id::sum> {
  static constexpr bool takes_y = true, exp_of_y = true;
  template <class A>
  BITFOLD_HD static A operand(const element<A>& e, const statistics<A>&) {
    return e.x;
  }
  template <class A, bool Ordinary = false>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    if constexpr (Ordinary) return arith::sub(e.x, arith::mul(arith::exp_nonpositive(e.y), s.a));
    const A share = arith::bit_cast<A>(arith::bit_cast<bits_of<A>>(exp_below(e.y)) |
                                       mask<A>(e.y != e.y));  // NaN of NaN
    return arith::sub(e.x, arith::mul(share, s.a));
  }
};

struct layer_norm : function<op::moments<2>, op_id::var> {
  static constexpr bool affine = true, writes = true, centred = true;
  template <class A>
  BITFOLD_HD static A operand(const element<A>& e, const statistics<A>&) {
    return e.x;
  }
  // a: the mean; c: what it was rounded by; b: 1 / sqrt(var + eps). Each is computed in f64 and
  // rounded once. A row that is scaled has its eps scaled, too, where that is finite.
  template <class A>
  BITFOLD_HD static statistics<A> finish(const op::moments<2>::state<A>& s, order::index n,
                                         double eps, const statistics<A>&) {
    using op::moments;
    const double scale = moments<2>::scale_of(s),
                 var = moments<2>::mean_square(s, static_cast<double>(n)).sum;
    const double scaled_eps = arith::mul(arith::mul(eps, scale), scale);
    const double rstd =
        arith::is_finite(scaled_eps)
            ? arith::div(scale, arith::sqrt(arith::add(var, scaled_eps)))
            : arith::div(1.0,
                         arith::sqrt(arith::add(arith::div(arith::div(var, scale), scale), eps)));
    const auto scaled_mean = moments<2>::mean_of(s);
    const double mean = arith::div(scaled_mean.sum, scale),
                 low = arith::div(scaled_mean.error, scale);
    const A rounded = arith::round_to<A>(mean);
    return {rounded, arith::round_to<A>(rstd),
            arith::round_to<A>(arith::add(arith::sub(mean, static_cast<double>(rounded)), low))};
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    const A from_mean = arith::sub(arith::sub(e.x, s.a), s.c);
    return arith::add(arith::mul(arith::mul(from_mean, s.b), e.w), e.b);
  }
};

struct group_norm : layer_norm {
  static constexpr bool by_channel = true;
};

struct rms_norm : function_of_sum<fold::additive<method::tree, fold::square>, op_id::sum_squares> {
  static constexpr bool affine = true, writes = true;
  static constexpr int results = 0;
  template <class A>
  BITFOLD_HD static A operand(const element<A>& e, const statistics<A>&) {
    return e.x;
  }
  template <class A>
  BITFOLD_HD static statistics<A> finish(const method::tree::state<A>& s, order::index n,
                                         double eps, const statistics<A>&) {
    return {A(0), inverse_root(over(s.sum, n), eps)};
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    return arith::mul(arith::mul(e.x, s.b), e.w);
  }
};

// Of gradients of norms a and b are the mean and rstd, as saved; c: mean(g w); d: dot(g w, z) / n.
struct rms_norm_backward : function_of_sum<sum_of_products, op_id::dot> {
  static constexpr bool takes_y = true, weighted = true, reads = true;
  static constexpr int results = 0;
  template <class A>
  BITFOLD_HD static fold::pair_of<A> operand(const element<A>& e, const statistics<A>& s) {
    return {arith::mul(e.x, e.w), arith::mul(e.y, s.b)};
  }
  template <class A>
  BITFOLD_HD static statistics<A> finish(const method::tree::state<A>& s, order::index n, double,
                                         const statistics<A>& saved) {
    return {A(0), saved.b, A(0), over(s.sum, n)};
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    return value(operand(e, s), s);
  }
  template <class A>
  BITFOLD_HD static A value(const fold::pair_of<A>& made, const statistics<A>& s) {
    return arith::mul(arith::sub(made.x, arith::mul(made.y, s.d)), s.b);
  }
};

struct layer_norm_backward
    : function<fold::both<sum_of_products,
                          fold::additive<method::tree, fold::one_of_two<fold::identity, true>>>,
               op_id::dot, op_id::sum> {
  static constexpr bool takes_y = true, weighted = true, reads = true, centred = true;
  template <class A>
  BITFOLD_HD static fold::pair_of<A> operand(const element<A>& e, const statistics<A>& s) {
    return {arith::mul(e.x, e.w), arith::mul(arith::sub(e.y, s.a), s.b)};
  }
  template <class A>
  BITFOLD_HD static statistics<A> finish(const fold::partial<folded, A>& s, order::index n, double,
                                         const statistics<A>& saved) {
    return {saved.a, saved.b, over(s.b.sum, n), over(s.a.sum, n)};
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>& s) {
    return value(operand(e, s), s);
  }
  template <class A>
  BITFOLD_HD static A value(const fold::pair_of<A>& made, const statistics<A>& s) {
    return arith::mul(arith::sub(arith::sub(made.x, s.c), arith::mul(made.y, s.d)), s.b);
  }
};

struct exp
    : function<sum_of_first> {  // which is not folded: kernels' sources have the shape of one
  static constexpr bool elementwise = true;
  template <class A>
  BITFOLD_HD static A operand(const element<A>& e, const statistics<A>&) {
    return e.x;
  }
  template <class A>
  BITFOLD_HD static A value(const element<A>& e, const statistics<A>&) {
    return exp_of_any(e.x);
  }
};

/// What computes with elements T.
template <class T>
using accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace bitfold::row
