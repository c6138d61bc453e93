// Row functions as rows.hpp defines them, spelled out with the reference's statistics.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <bitfold/arith.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/rows.hpp>

#include "data.hpp"
#include "walk.hpp"

namespace bitfold::test {

inline constexpr row_function all_row_functions[] = {row_function::softmax,
                                                     row_function::log_softmax,
                                                     row_function::layer_norm,
                                                     row_function::rms_norm,
                                                     row_function::softmax_backward,
                                                     row_function::log_softmax_backward,
                                                     row_function::layer_norm_backward,
                                                     row_function::rms_norm_backward,
                                                     row_function::exp,
                                                     row_function::group_norm};

/// One call: its inputs, and what comes out of it.
struct row_case {
  row_function f{};
  dtype type{};
  std::size_t count = 0, n = 0;
  bool with_w = false, with_b = false;
  double eps = 1e-5;
  std::vector<std::byte> x, y, w, b, mean,
      rstd;  // mean and rstd: given to gradients, made by norms
  std::vector<std::byte> out;

  bool is_gradient() const {
    return f >= row_function::softmax_backward && f <= row_function::rms_norm_backward;
  }
  bool is_norm() const {
    return f == row_function::layer_norm || f == row_function::rms_norm ||
           f == row_function::layer_norm_backward || f == row_function::rms_norm_backward ||
           f == row_function::group_norm;
  }
  bool is_centred() const {
    return f == row_function::layer_norm || f == row_function::layer_norm_backward ||
           f == row_function::group_norm;
  }
  /// Of group_norm: rows of two channels, of five groups, or of one where their number is odd.
  std::size_t inner() const { return n % 2 ? n : n / 2; }
  std::size_t channels() const { return 5 * (n / inner()); }
  std::string describe() const {
    return "function " + std::to_string(static_cast<int>(f)) + " " + std::string(name(type)) + " " +
           std::to_string(count) + "x" + std::to_string(n) + (with_w ? " w" : "") +
           (with_b ? " b" : "");
  }
  rows on(const std::byte* x_at, const std::byte* y_at, const std::byte* w_at,
          const std::byte* b_at, std::byte* mean_at, std::byte* rstd_at) const {
    return {type,
            count,
            n,
            x_at,
            is_gradient() ? y_at : nullptr,
            with_w ? w_at : nullptr,
            with_b ? b_at : nullptr,
            is_centred() ? mean_at : nullptr,
            is_norm() ? rstd_at : nullptr,
            eps,
            f == row_function::group_norm ? inner() : 0,
            f == row_function::group_norm ? channels() : 0};
  }
};

inline row_case make_row_case(row_function f, dtype type, kind k, std::size_t count, std::size_t n,
                              std::uint64_t seed) {
  const dtype a = type == dtype::f64 ? dtype::f64 : dtype::f32;
  row_case c;
  c.f = f, c.type = type, c.count = count, c.n = n;
  c.with_w = c.is_norm() && seed % 3 != 0;
  c.with_b = (f == row_function::layer_norm || f == row_function::group_norm) && seed % 3 == 1;
  c.x = make_data(type, k, count * n, seed);
  c.y = make_data(type,
                  f == row_function::softmax_backward || f == row_function::log_softmax_backward
                      ? kind::near_one
                      : k,
                  count * n, seed + 100);
  if (f == row_function::log_softmax_backward)  // logarithms of what is at most 1
    for (std::size_t i = 0; i < count * n; ++i) c.y[(i + 1) * size_of(type) - 1] |= std::byte{0x80};
  const std::size_t parameters = f == row_function::group_norm ? c.channels() : n;
  c.w = make_data(type, kind::near_one, parameters, seed + 200);
  c.b = make_data(type, kind::near_one, parameters, seed + 300);
  c.mean = make_data(a, kind::near_one, count, seed + 400);
  c.rstd = make_data(a, kind::near_one, count, seed + 500);
  c.out.resize(count * n * size_of(type));
  return c;
}

template <class F>
void with_float(dtype type, F f) {
  switch (type) {
    case dtype::f16: return f(float16{}, 0.0f);
    case dtype::bf16: return f(bfloat16{}, 0.0f);
    case dtype::f32: return f(0.0f, 0.0f);
    default: f(0.0, 0.0);
  }
}

template <class T, class A>
void by_the_book(row_case& c) {
  const auto values = [&](const std::vector<std::byte>& bytes, std::size_t first) {
    std::vector<A> v(c.n);
    for (std::size_t i = 0; i < c.n; ++i) {
      T one;
      std::memcpy(&one, bytes.data() + (first + i) * sizeof(T), sizeof one);
      v[i] = arith::widen<A>(one);
    }
    return v;
  };
  const auto statistic = [&](op_id op, const std::vector<A>& x, const std::vector<A>* y = nullptr) {
    const auto method = info(op).takes_method ? std::optional(method_id::tree) : std::nullopt;
    const reduction r = make_reduction(op, method, dtype_of<A>);
    A result;
    store_scalar(y ? reference(r, x.data(), y->data(), c.n) : reference(r, x.data(), c.n), &result);
    return result;
  };
  const auto exponential = [](A x) {
    const bool deep = std::abs(x) > -arith::exp_floor<A>;
    const A down = -std::abs(x), e = arith::exp_nonpositive(deep ? down / 2 : down),
            of_x = x > 0 ? 1 / e : e;
    return std::isnan(x) ? x : deep ? of_x * of_x : of_x;
  };
  const auto saved = [&](const std::vector<std::byte>& bytes, std::size_t row) {
    A v;
    std::memcpy(&v, bytes.data() + row * sizeof v, sizeof v);
    return v;
  };
  const auto save = [&](std::vector<std::byte>& bytes, std::size_t row, A v) {
    v = arith::round_to<A>(v);
    std::memcpy(bytes.data() + row * sizeof v, &v, sizeof v);
  };
  const A n = static_cast<A>(c.n), eps = static_cast<A>(c.eps);
  const auto inverse_root = [&](A v) { return 1 / static_cast<A>(std::sqrt(v + eps)); };
  const auto parameters = [&](bool there, const std::vector<std::byte>& bytes, std::size_t row,
                              A neutral) {
    std::vector<A> all(c.n, neutral);
    for (std::size_t i = 0; i < c.n && there; ++i) {
      T one;
      const std::size_t at =
          c.f != row_function::group_norm ? i : (row * c.n + i) / c.inner() % c.channels();
      std::memcpy(&one, bytes.data() + at * sizeof(T), sizeof one);
      all[i] = arith::widen<A>(one);
    }
    return all;
  };
  for (std::size_t row = 0; row < c.count; ++row) {
    const std::vector<A> w = parameters(c.with_w, c.w, row, A(1)),
                         b = parameters(c.with_b, c.b, row, -A(0));
    const std::vector<A> x = values(c.x, row * c.n), y = values(c.y, row * c.n);
    std::vector<A> z(c.n), g(c.n), result(c.n);
    const A mean = c.is_centred() && c.is_gradient() ? saved(c.mean, row) : 0,
            rstd = c.is_gradient() ? saved(c.rstd, row) : 0;
    for (std::size_t i = 0; i < c.n; ++i) {
      g[i] = x[i] * w[i];
      z[i] = (c.is_centred() ? y[i] - mean : y[i]) * rstd;
    }
    const auto each = [&](auto f) {
      for (std::size_t i = 0; i < c.n; ++i) result[i] = f(i);
    };
    switch (c.f) {
      case row_function::softmax: {
        const A most = statistic(op_id::max, x), sum = statistic(op_id::softmax_denominator, x);
        each([&](std::size_t i) { return exponential(x[i] - most) * (1 / sum); });
        break;
      }
      case row_function::log_softmax: {
        const A most = statistic(op_id::max, x), sum = statistic(op_id::softmax_denominator, x);
        const A log_sum = std::isnan(sum) ? sum : static_cast<A>(arith::log_from_one(sum));
        each([&](std::size_t i) { return x[i] - most - log_sum; });
        break;
      }
      case row_function::layer_norm:
      case row_function::group_norm: {
        // The mean in two parts, and 1 / sqrt(var + eps): all of the elements times s.
        using moments = op::moments<2>;
        const auto state = detail::walk<moments>(c.n, [&](std::uint64_t i) { return x[i]; });
        const double s = moments::scale_of(state),
                     var = moments::mean_square(state, static_cast<double>(c.n)).sum;
        const auto mean = moments::mean_of(state);
        const bool fits = std::isfinite(c.eps * s * s);
        const double root = std::sqrt(fits ? var + c.eps * s * s : var / s / s + c.eps);
        const A m = arith::round_to<A>(mean.sum / s), r = arith::round_to<A>((fits ? s : 1) / root);
        const A e = arith::round_to<A>((mean.sum / s - static_cast<double>(m)) + mean.error / s);
        save(c.mean, row, m), save(c.rstd, row, r);
        each([&](std::size_t i) { return ((x[i] - m) - e) * r * w[i] + b[i]; });
        break;
      }
      case row_function::rms_norm: {
        const A r = inverse_root(statistic(op_id::sum_squares, x) / n);
        save(c.rstd, row, r);
        each([&](std::size_t i) { return x[i] * r * w[i]; });
        break;
      }
      case row_function::softmax_backward: {
        const A d = statistic(op_id::dot, x, &y);
        each([&](std::size_t i) { return (x[i] - d) * y[i]; });
        break;
      }
      case row_function::log_softmax_backward: {
        const A sum = statistic(op_id::sum, x);
        each([&](std::size_t i) { return x[i] - exponential(y[i]) * sum; });
        break;
      }
      case row_function::layer_norm_backward: {
        const A of_g = statistic(op_id::mean, g), d = statistic(op_id::dot, g, &z) / n;
        each([&](std::size_t i) { return (g[i] - of_g - z[i] * d) * rstd; });
        break;
      }
      case row_function::rms_norm_backward: {
        const A d = statistic(op_id::dot, g, &z) / n;
        each([&](std::size_t i) { return (g[i] - z[i] * d) * rstd; });
        break;
      }
      case row_function::exp: each([&](std::size_t i) { return exponential(x[i]); }); break;
    }
    for (std::size_t i = 0; i < c.n; ++i) {
      const T one = arith::round_to<T>(result[i]);
      std::memcpy(c.out.data() + (row * c.n + i) * sizeof one, &one, sizeof one);
    }
  }
}

/// The case with what it is to write.
inline row_case done_by_the_book(row_case c) {
  with_float(c.type, [&]<class T, class A>(T, A) { by_the_book<T, A>(c); });
  return c;
}

// ---- Sums along the rows' direction -------------------------------------------------------------

/// The sum by method tree of v(0), v(1), ... v(count - 1), or of their products with w(0), ...
template <class A, class V>
A tree_sum(std::size_t count, V v, const std::vector<A>* w = nullptr) {
  std::vector<A> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = v(i);
  A result;
  if (w)
    store_scalar(reference(make_reduction(op_id::dot, method_id::tree, dtype_of<A>), x.data(),
                           w->data(), count),
                 &result);
  else
    store_scalar(
        reference(make_reduction(op_id::sum, method_id::tree, dtype_of<A>), x.data(), count),
        &result);
  return result;
}
template <class T, class A>
A element_of(const std::vector<std::byte>& bytes, std::size_t i) {
  T one;
  std::memcpy(&one, bytes.data() + i * sizeof one, sizeof one);
  return arith::widen<A>(one);
}
template <class T, class A>
void put(std::vector<std::byte>& bytes, std::size_t i, A value) {
  const T one = arith::round_to<T>(value);
  std::memcpy(bytes.data() + i * sizeof one, &one, sizeof one);
}
/// dw, then db, of a case of layer_norm_backward or rms_norm_backward.
template <class T, class A>
std::array<std::vector<std::byte>, 2> parameters_by_the_book(const row_case& c) {
  std::array<std::vector<std::byte>, 2> d{std::vector<std::byte>(c.n * sizeof(T)),
                                          std::vector<std::byte>(c.n * sizeof(T))};
  for (std::size_t i = 0; i < c.n; ++i) {
    const auto g = [&](std::size_t row) { return element_of<T, A>(c.x, row * c.n + i); };
    std::vector<A> z(c.count);
    for (std::size_t row = 0; row < c.count; ++row) {
      const A y = element_of<T, A>(c.y, row * c.n + i),
              mean = c.is_centred() ? element_of<A, A>(c.mean, row) : 0;
      z[row] = (c.is_centred() ? y - mean : y) * element_of<A, A>(c.rstd, row);
    }
    put<T>(d[0], i, tree_sum<A>(c.count, g, &z));
    put<T>(d[1], i, tree_sum<A>(c.count, g));
  }
  return d;
}

/// The functions of rows that lie across.
inline constexpr row_function all_functions_across[] = {
    row_function::softmax, row_function::log_softmax, row_function::softmax_backward,
    row_function::log_softmax_backward};

/// The rows of a case as they lie across, `inner` beside each other, with their reductions'
/// results.
struct across_case {
  dtype type;
  std::size_t outer, n, inner;
  std::vector<std::byte> x, y, first, second, out;
};
/// `of`: with its results.
inline across_case laid_across(const row_case& of, std::size_t inner) {
  across_case c{of.type, of.count / inner, of.n, inner, of.x, of.y, {}, {}, of.out};
  const std::size_t size = size_of(of.type);
  const std::pair<const std::vector<std::byte>*, std::vector<std::byte>*> arrays[] = {
      {&of.x, &c.x}, {&of.y, &c.y}, {&of.out, &c.out}};
  for (const auto& [from, to] : arrays)
    for (std::size_t row = 0; row < of.count; ++row)
      for (std::size_t i = 0; i < of.n; ++i) {
        const std::size_t at = (row / inner * of.n + i) * inner + row % inner;
        std::copy_n(from->data() + (row * of.n + i) * size, size, to->data() + at * size);
      }
  const dtype wide = of.type == dtype::f64 ? dtype::f64 : dtype::f32;
  const auto results = [&](op_id op, bool two) {
    const auto method = info(op).takes_method ? std::optional(method_id::tree) : std::nullopt;
    const reduction r = make_reduction(op, method, of.type, {}, accumulates(op) ? wide : of.type);
    std::vector<std::byte> all(of.count * size_of(wide));
    for (std::size_t row = 0; row < of.count; ++row) {
      const std::byte *const x = of.x.data() + row * of.n * size, *const y = of.y.data() +
                                                                             row * of.n * size;
      std::byte* const to = all.data() + row * size_of(wide);
      const scalar s = two ? reference(r, x, y, of.n) : reference(r, x, of.n);
      if (s.type == wide) {
        store_scalar(s, to);
        continue;
      }
      const float widened = [&] {  // of a half type
        std::byte stored[8];
        store_scalar(s, stored);
        float f = 0;
        with_float(of.type, [&](auto t, auto) {
          std::memcpy(&t, stored, sizeof t);
          f = static_cast<float>(arith::widen<float>(t));
        });
        return f;
      }();
      std::memcpy(to, &widened, sizeof widened);
    }
    return all;
  };
  switch (of.f) {
    case row_function::softmax_backward: c.first = results(op_id::dot, true); break;
    case row_function::log_softmax_backward: c.first = results(op_id::sum, false); break;
    default:
      c.first = results(op_id::max, false);
      c.second = results(op_id::softmax_denominator, false);
  }
  return c;
}

}  // namespace bitfold::test
