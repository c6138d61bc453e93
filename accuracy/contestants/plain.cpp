// What people write themselves: a loop from left to right, the same accumulated in 16 bits (to show
// why not), and the loop that -ffast-math makes of it.
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <bitfold/arith.hpp>
#include <bitfold/formats.hpp>

#include "../contestant.hpp"
#include "bench/fast_math.hpp"

namespace bitfold::accuracy {
namespace {

struct walk {
  scalar sum;
  std::uint64_t stagnations;
};

// Elements of type T, added in A: each addition is done in double or float and rounded to A once.
template <class T, class A>
walk loop(const array_view& x) {
  using wide = std::conditional_t<std::is_same_v<A, double>, double, float>;
  wide sum = 0;
  std::uint64_t stagnations = 0;
  for (std::size_t i = 0; i < x.n; ++i) {
    T v;
    std::memcpy(&v, static_cast<const std::byte*>(x.data) + i * sizeof v, sizeof v);
    const wide term = arith::widen<wide>(v);
    // For 16 bits: the f32 sum of two such values, rounded again, is their correctly rounded sum
    // (f32 has more than twice their precision and two bits; Figueroa, SIGNUM Newsletter 30, 1995).
    const A rounded = arith::round_to<A>(arith::add(sum, term));
    const wide next = arith::widen<wide>(rounded);
    stagnations +=
        arith::is_finite(next) && ((next == sum && term != 0) || (next == term && sum != 0));
    sum = next;
  }
  const T out = arith::round_to<T>(sum);
  return {load_scalar(dtype_of<T>, &out), stagnations};
}

template <class T>
scalar fast(const array_view& x) {
  const T sum = fast_math::sum(static_cast<const T*>(x.data), x.n);
  return load_scalar(dtype_of<T>, &sum);
}

class function final : public contestant {
 public:
  using sum = scalar (*)(const array_view&);
  using counted = walk (*)(const array_view&);
  function(contestant_info i, sum f, counted g = nullptr)
      : contestant(std::move(i)), f_(f), g_(g) {}
  std::vector<variation> variations() const override { return {{"1 thread", true, 1}}; }
  scalar run(const array_view& x, std::size_t) override { return f_(x); }
  std::optional<std::uint64_t> stagnations(const array_view& x) const override {
    return g_ ? std::optional(g_(x).stagnations) : std::nullopt;
  }

 private:
  sum f_;
  counted g_;
};

template <class T, class A>
void add_loop(contestants& c) {
  const dtype in = dtype_of<T>, acc = dtype_of<A>;
  const bool half = size_of(acc) == 2;
  contestant_info i{.id = fmt::format("plain/loop/{}/{}", name(in), name(acc)),
                    .name = half ? fmt::format("loop in {}", name(acc)) : "plain loop",
                    .family = "plain",
                    .device = "cpu",
                    .about = fmt::format("for (x : data) sum += x, with sum in {}", name(acc)),
                    .in = in,
                    .acc = std::string(name(acc)),
                    .out = in};
  // In 16 bits no reduction of bitfold's adds, whose walk would give the bound and the stagnations.
  if (!half) i.bound = make_reduction(op_id::sum, method_id::sequential, in, acc);
  c.list.push_back(std::make_unique<function>(
      std::move(i), [](const array_view& x) { return loop<T, A>(x).sum; },
      half ? loop<T, A> : nullptr));
}

template <class T>
void add_fast(contestants& c) {
  const dtype t = dtype_of<T>;
  c.list.push_back(std::make_unique<function>(
      contestant_info{.id = fmt::format("plain/fast-math/{}", name(t)),
                      .name = "-ffast-math loop",
                      .family = "plain",
                      .device = "cpu",
                      .about = "the plain loop compiled with -O3 -ffast-math: the compiler orders",
                      .in = t,
                      .acc = std::string(name(t)),
                      .out = t},
      fast<T>));
}

}  // namespace

void add_plain(contestants& c) {
  add_loop<float, float>(c);
  add_loop<double, double>(c);
  add_loop<float16, float>(c);
  add_loop<float16, float16>(c);
  add_loop<bfloat16, float>(c);
  add_loop<bfloat16, bfloat16>(c);
  add_fast<float>(c);
  add_fast<double>(c);
}

}  // namespace bitfold::accuracy
