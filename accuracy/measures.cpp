// The tracing numbers come before measures.hpp: the methods, which it includes, look up arith::add
// and the others where they are defined, and so find these overloads too. That is how a trace runs
// the very methods of the engines; one that is added later is traced without a word here.
#include <cmath>
#include <cstdint>

#include <bitfold/arith.hpp>
#include <bitfold/formats.hpp>

namespace bitfold::accuracy::tracing {

struct recorder {
  double scale = 1;         // of what is summed in sum_abs
  double sum_abs = 0;       // of the results of all additions whose error is lost
  std::uint64_t lossy = 0;  // how many
  std::uint64_t stagnations = 0, overflows = 0;
  double rounded_hi = 0, rounded_lo = 0;  // what was rounded to the output type, in two parts
};

/// A number of accumulator type A, whose additions leave their marks in a recorder.
template <class A>
struct number {
  A value;
  recorder* log;
};

template <class A>
inline void note_overflow(number<A> a, number<A> b, A result) {
  a.log->overflows +=
      !arith::is_finite(result) && arith::is_finite(a.value) && arith::is_finite(b.value);
}

template <class A>
inline number<A> add(number<A> a, number<A> b) {
  const A s = arith::add(a.value, b.value);
  recorder& log = *a.log;
  log.sum_abs += std::fabs(static_cast<double>(s)) * log.scale;
  ++log.lossy;
  const bool unchanged = (s == a.value && b.value != 0) || (s == b.value && a.value != 0);
  log.stagnations += unchanged && arith::is_finite(s);
  note_overflow(a, b, s);
  return {s, &log};
}
template <class A>
inline number<A> add_alternate(number<A> a, number<A> b) {
  return add(a, b);
}

template <class A>
inline number<A> neutral(number<A> x) {
  return {arith::neutral(x.value), x.log};
}

// Nothing is lost here: the error goes on as a number. Where it is not finite, something
// overflowed.
template <class A>
inline arith::sum_and_error<number<A>> two_sum(number<A> a, number<A> b) {
  const auto t = arith::two_sum(a.value, b.value);
  note_overflow(a, b, t.error);
  return {{t.sum, a.log}, {t.error, a.log}};
}

template <class Out, class A>
inline Out round_sum_to(number<A> hi, number<A> lo) {
  hi.log->rounded_hi = hi.value;
  hi.log->rounded_lo = lo.value;
  return arith::round_sum_to<Out>(hi.value, lo.value);
}
template <class Out, class A>
inline Out round_to(number<A> x) {
  x.log->rounded_hi = x.value;
  return arith::round_to<Out>(x.value);
}

}  // namespace bitfold::accuracy::tracing

namespace bitfold::arith {
using accuracy::tracing::add;
using accuracy::tracing::add_alternate;
using accuracy::tracing::neutral;
using accuracy::tracing::round_sum_to;
using accuracy::tracing::round_to;
using accuracy::tracing::two_sum;
}  // namespace bitfold::arith

#include "measures.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include <bitfold/reference.hpp>

#include "dispatch.hpp"
#include "fp_environment.hpp"
#include "walk.hpp"

namespace bitfold::accuracy {
namespace {

const real infinity = std::numeric_limits<double>::infinity();

// The elements under method M, in the canonical order or left to right, as reference() takes them.
template <class M, class T, class A>
BITFOLD_OPAQUE scalar walk(const reduction& r, const void* data, std::uint64_t n,
                           tracing::recorder& log) {
  const detail::fp_environment guard;
  const auto element = [&](std::uint64_t i) {
    T x;
    std::memcpy(&x, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
    return tracing::number<A>{arith::widen<A>(x), &log};
  };
  const auto state = detail::walk<fold::summed<M, fold::identity>>(n, element);
  return visit(r.out(), [&]<class Out>(std::type_identity<Out>) -> scalar {
    if constexpr (std::is_integral_v<Out>) {
      throw std::logic_error("trace_of: a float sum has no integer output");
    } else {
      const Out v = M::template round<Out>(state);
      return load_scalar(r.out(), &v);
    }
  });
}

scalar walk(const reduction& r, const void* data, std::uint64_t n, tracing::recorder& log) {
  if (r.op() != op_id::sum) throw std::logic_error("trace_of: only sums are walked");
  return visit(*r.method(), [&]<class M>(std::type_identity<M>) {
    return visit(r.in(), [&]<class T>(std::type_identity<T>) -> scalar {
      if constexpr (std::is_integral_v<T>) {
        throw std::logic_error("trace_of: integers are not walked");
      } else {
        if constexpr (!std::is_same_v<T, double>)
          if (r.acc() == dtype::f32) return walk<M, T, float>(r, data, n, log);
        return walk<M, T, double>(r, data, n, log);
      }
    });
  });
}

}  // namespace

trace trace_of(const reduction& r, const void* data, std::size_t n) {
  trace t{reference(r, data, n), 0, 0, 0};
  if (n == 0) return t;
  real state, lost = 0;  // what was rounded to the output type; the bound on what was lost before
  if (!is_float(r.out())) return t;
  if (info(*r.method()).ordering == ordering::independent) {
    state = sum_exactly(r.in(), data, n).sum;
  } else if (is_float(r.in())) {
    tracing::recorder log;
    scalar result = walk(r, data, n, log);
    if (!std::isfinite(log.sum_abs)) {  // perhaps only because it is the sum of so many
      log = {.scale = 0x1p-64};
      result = walk(r, data, n, log);
    }
    if (result != t.result) throw std::logic_error("trace_of: not the bits of reference()");
    t.stagnations = log.stagnations;
    t.overflows = log.overflows;
    state = real(log.rounded_hi) + log.rounded_lo;
    // The sum of k terms >= 0 in double is too small by at most a factor 1 - k 2^-53; twice that
    // covers what underflows in scaling, too. Nothing here is rounded: it all fits the bits of a
    // real.
    lost =
        unit_roundoff(r.acc()) * real(log.sum_abs) * (1 + ldexp(real(log.lossy), -52)) / log.scale;
  } else {
    state =
        value_of(reference(make_reduction(r.op(), r.method(), r.in(), r.acc(), r.acc()), data, n));
  }
  const real result = value_of(t.result);
  t.overflows += isfinite(state) && !isfinite(result);
  t.running_bound = isfinite(result) && isfinite(state) && isfinite(lost)
                        ? real(lost + abs(result - state))
                        : infinity;
  return t;
}

double signed_error_in_ulps(scalar result, const real& exact) {
  const real got = value_of(result);
  if (isnan(got) != isnan(exact)) return std::numeric_limits<double>::quiet_NaN();
  const double error = error_in_ulps(result, exact);
  return got < exact ? -error : error;
}

double correct_bits(scalar result, const real& exact) {
  const int precision = is_float(result.type) ? format_of(result.type).precision
                                              : 8 * static_cast<int>(size_of(result.type));
  const double error = relative_error(result, exact);
  return error == 0 ? precision
                    : std::clamp(-std::log2(error), 0.0, static_cast<double>(precision));
}

}  // namespace bitfold::accuracy
