// Functions of channels as channels.hpp defines them, spelled out with the reference's sums.
#pragma once

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <bitfold/arith.hpp>
#include <bitfold/channels.hpp>
#include <bitfold/formats.hpp>
#include <bitfold/reference.hpp>

#include "data.hpp"

namespace bitfold::test {

inline constexpr channel_function all_channel_functions[] = {
    channel_function::channel_norm, channel_function::channel_norm_at_rest,
    channel_function::channel_norm_backward, channel_function::channel_norm_at_rest_backward};

/// How elements lie.
struct channel_shape {
  std::size_t outer, count, inner, sharing = 1;
  bool of_each_outer = false;
};

/// The inputs of all functions, and what comes of them.
struct channel_case {
  dtype type{};
  channel_shape shape{};
  bool with_w = false, with_b = false;
  std::vector<std::byte> x, y, w, b, mean, rstd, low, mean_g, slope;  // given
  std::vector<std::byte> out;                                         // of a function
  std::array<std::vector<std::byte>, 4> sums;                         // mean_g, slope, dw and db

  dtype wide() const { return type == dtype::f64 ? dtype::f64 : dtype::f32; }
  std::string describe() const {
    std::string s(name(type));
    for (const std::size_t n : {shape.outer, shape.count, shape.inner, shape.sharing})
      s += " " + std::to_string(n);
    return s + (shape.of_each_outer ? " of each" : "") + (with_w ? " w" : "") +
           (with_b ? " b" : "");
  }
  /// Where all arrays lie: at(one of them).
  template <class At>
  channels on(At at) const {
    return {type,
            shape.outer,
            shape.count,
            shape.inner,
            shape.sharing,
            shape.of_each_outer,
            at(x),
            at(y),
            with_w ? at(w) : nullptr,
            with_b ? at(b) : nullptr,
            at(mean),
            at(rstd),
            at(low),
            at(mean_g),
            at(slope)};
  }
};

inline channel_case make_channel_case(dtype type, kind k, const channel_shape& shape,
                                      std::uint64_t seed) {
  channel_case c;
  c.type = type, c.shape = shape, c.with_w = seed % 3 != 0, c.with_b = seed % 3 == 1;
  const std::size_t n = shape.outer * shape.count * shape.inner,
                    statistics =
                        (shape.of_each_outer ? shape.outer : 1) * shape.count / shape.sharing;
  c.x = make_data(type, k, n, seed);
  c.y = make_data(type, k, n, seed + 100);
  std::uint64_t next = seed + 200;
  for (auto* of : {&c.w, &c.b}) *of = make_data(c.wide(), kind::near_one, shape.count, next++);
  for (auto* of : {&c.mean, &c.rstd, &c.low, &c.mean_g, &c.slope})
    *of = make_data(c.wide(), kind::near_one, statistics, next++);
  c.out.resize(n * size_of(type));
  const std::size_t a = size_of(c.wide());
  c.sums = {std::vector<std::byte>(statistics * a), std::vector<std::byte>(statistics * a),
            std::vector<std::byte>(shape.count * a), std::vector<std::byte>(shape.count * a)};
  return c;
}

/// Fills `out` and `sums` element by element.
template <class T, class A>
void channels_by_the_book(channel_case& c, channel_function f) {
  const auto get = []<class V>(const std::vector<std::byte>& from, std::size_t i, V) {
    V v;
    std::memcpy(&v, from.data() + i * sizeof v, sizeof v);
    return v;
  };
  const auto set = []<class V>(std::vector<std::byte>& to, std::size_t i, V v) {
    std::memcpy(to.data() + i * sizeof v, &v, sizeof v);
  };
  const channel_shape& s = c.shape;
  const std::size_t in_a_row = s.count / s.sharing,
                    statistics = (s.of_each_outer ? s.outer : 1) * in_a_row;
  std::vector<std::vector<A>> weighted(statistics), weighted_z(statistics), plain(s.count),
      plain_z(s.count);
  for (std::size_t i = 0; i < s.outer * s.count * s.inner; ++i) {
    const std::size_t outer = i / (s.count * s.inner), channel = i / s.inner % s.count,
                      statistic = (s.of_each_outer ? outer * in_a_row : 0) + channel / s.sharing;
    const auto known = [&](const std::vector<std::byte>& of) { return get(of, statistic, A{}); };
    const A x = arith::widen<A>(get(c.x, i, T{})), y = arith::widen<A>(get(c.y, i, T{})),
            w = c.with_w ? get(c.w, channel, A{}) : A(1), mean = known(c.mean),
            rstd = known(c.rstd), g = x * w, z = (y - mean) * rstd;
    weighted[statistic].push_back(g), weighted_z[statistic].push_back(z);
    plain[channel].push_back(x), plain_z[channel].push_back(z);
    A value = (x - mean) * rstd;
    if (f == channel_function::channel_norm) value = value - known(c.low) * rstd;
    value = value * w;
    if (c.with_b) value = value + get(c.b, channel, A{});
    if (f == channel_function::channel_norm_backward)
      value = ((g - known(c.mean_g)) - z * known(c.slope)) * rstd;
    if (f == channel_function::channel_norm_at_rest_backward) value = g * rstd;
    set(c.out, i, arith::round_to<T>(value));
  }
  const auto fold = [](op_id op, const std::vector<A>& x, const std::vector<A>* y) {
    const reduction r = make_reduction(op, method_id::tree, dtype_of<A>);
    A result;
    store_scalar(y ? reference(r, x.data(), y->data(), x.size()) : reference(r, x.data(), x.size()),
                 &result);
    return result;
  };
  for (std::size_t k = 0; k < statistics; ++k) {
    set(c.sums[0], k, fold(op_id::mean, weighted[k], nullptr));
    const A n = static_cast<A>(weighted[k].size());
    set(c.sums[1], k, arith::round_to<A>(fold(op_id::dot, weighted[k], &weighted_z[k]) / n));
  }
  for (std::size_t k = 0; k < s.count; ++k) {
    set(c.sums[2], k, fold(op_id::dot, plain[k], &plain_z[k]));
    set(c.sums[3], k, fold(op_id::sum, plain[k], nullptr));
  }
}
inline channel_case by_the_book(channel_case c, channel_function f) {
  switch (c.type) {
    case dtype::f16: channels_by_the_book<float16, float>(c, f); break;
    case dtype::bf16: channels_by_the_book<bfloat16, float>(c, f); break;
    case dtype::f32: channels_by_the_book<float, float>(c, f); break;
    default: channels_by_the_book<double, double>(c, f);
  }
  return c;
}

}  // namespace bitfold::test
