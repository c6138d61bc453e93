// What tests of exact sums by kernels on demand share: arrays, plans, and rooms for results.
#pragma once

#include <algorithm>
#include <bitfold/cpu.hpp>
#include <functional>
#include <numeric>

#include "catch.hpp"
#include "device_memory.hpp"
#include "exact_data.hpp"
#include "gpu_kernels.hpp"

#include "gpu/exact.hpp"
#include "gpu/launcher.hpp"
#include "gpu/output_plan.hpp"

namespace bitfold::test {

inline constexpr dtype floats[] = {dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

// Every operation by method exact of elements t, to its default output; of integers to f64 as well.
inline std::vector<reduction> exact_reductions(dtype t, int inputs) {
  std::vector<reduction> all;
  for (const op_info& op : all_op_infos) {
    if (!op.has_exact || op.inputs != inputs) continue;
    all.push_back(make_reduction(op.id, method_id::exact, t));
    if (!is_float(all.back().out()))
      all.push_back(make_reduction(op.id, method_id::exact, t, {}, dtype::f64));
  }
  return all;
}
inline reduction exact_of(op_id op, dtype t, std::optional<dtype> out = {}, int ddof = 0) {
  return make_reduction(op, method_id::exact, t, {}, out, ddof);
}

inline std::vector<std::size_t> all_of(std::span<const reduction> reductions) {
  std::vector<std::size_t> all(reductions.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}
inline gpu::plan plan_of(const gpu::problem& p, const cuda::launch& shape = {},
                         const gpu::device_facts& on = this_gpu()) {
  gpu::plan made;
  gpu::add_exact(made, p, all_of(p.reductions), on, shape);
  return made;
}
inline std::vector<gpu::pass> passes_of(const gpu::plan& p) {
  std::vector<gpu::pass> passes;
  for (const gpu::step& s : p.steps)
    if (const auto* one = std::get_if<gpu::pass>(&s)) passes.push_back(*one);
  return passes;
}

// Room for results, and a workspace, behind which nothing is to be written.
class room {
 public:
  room(std::span<const reduction> all, std::size_t outputs, std::size_t workspace)
      : all_(all),
        outputs_(outputs),
        each_((8 * outputs + 8 + 15) / 16 * 16),
        bytes_(workspace),
        results_(std::vector<std::uint8_t>(all.size() * each_, 0xab)),
        workspace_(std::vector<std::uint8_t>(workspace + 16, 0xcd)) {
    for (std::size_t k = 0; k < all.size(); ++k)
      out_.push_back(results_.as<std::byte>() + k * each_);
  }
  gpu::addresses addresses(const void* x, const void* y = nullptr, const void* list = nullptr) {
    return {x, y, list, workspace_.p, out_.data()};
  }
  std::vector<std::vector<scalar>> results() const {
    wait_for();
    std::vector<std::vector<scalar>> got;
    for (std::size_t k = 0; k < all_.size(); ++k) {
      const dtype t = all_[k].out();
      const auto* const begin = static_cast<const std::uint8_t*>(out_[k]);
      auto& of_one = got.emplace_back();
      for (std::size_t o = 0; o < outputs_; ++o)
        of_one.push_back(load_scalar(t, begin + o * size_of(t)));
      REQUIRE(std::all_of(begin + outputs_ * size_of(t), begin + each_,
                          [](std::uint8_t b) { return b == 0xab; }));
    }
    const auto* const end = workspace_.as<std::uint8_t>() + bytes_;
    REQUIRE(std::all_of(end, end + 16, [](std::uint8_t b) { return b == 0xcd; }));
    return got;
  }

 private:
  std::span<const reduction> all_;
  std::size_t outputs_, each_, bytes_;
  device_memory results_, workspace_;
  std::vector<void*> out_;
};

inline void check_same(std::span<const reduction> all, const std::vector<std::vector<scalar>>& got,
                       const std::function<std::vector<scalar>(const reduction&)>& right) {
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto wanted = right(all[k]);
    REQUIRE(got[k].size() == wanted.size());
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      if (to_hex(got[k][o]) == to_hex(wanted[o])) continue;
      INFO(describe(all[k], 0) << " output " << o);
      CHECK(to_hex(got[k][o]) == to_hex(wanted[o]));
    }
  }
}

// Arrays that are hard on exact sums, as bytes: those of two inputs are different ones.
struct array {
  std::string name;
  std::vector<std::byte> x, y;
};
inline std::vector<array> arrays_of(dtype t, std::size_t n, std::size_t every) {
  std::vector<array> all;
  visit(t, [&]<class T>(std::type_identity<T>) {
    const auto bytes = [](const std::vector<T>& v) {
      const auto* p = reinterpret_cast<const std::byte*>(v.data());
      return std::vector<std::byte>(p, p + v.size() * sizeof(T));
    };
    const auto xs = hard_arrays<T>(n, 3), ys = hard_arrays<T>(n, 4);
    for (std::size_t k = 0; k < xs.size(); k += every)
      all.push_back({xs[k].name, bytes(xs[k].values), bytes(ys[(k * 7 + 1) % ys.size()].values)});
  });
  for (const kind k : {kind::special, kind::any_bits})
    all.push_back({name(k), make_data(t, k, n, 1), make_data(t, k, n, 2)});
  return all;
}

// Any bits, but of no infinity nor NaN, which would hide all else, and of no double whose square is
// one. Exponents are the same in runs of so many elements.
inline std::vector<std::byte> any_finite_bits(dtype t, std::size_t n, std::uint64_t seed,
                                              std::size_t run = 1) {
  auto data = make_data(t, kind::any_bits, n, seed);
  visit(t, [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_integral_v<T>) {
      using range = exact::range<T>;
      using bits = typename range::bits;
      constexpr auto bit = [](int at) { return static_cast<bits>(bits{1} << at); };
      constexpr bits first = bit(range::width - 2), last = bit(range::mantissa),
                     exponent = static_cast<bits>(bits{2 * range::bias + 1} << range::mantissa);
      auto* const x = reinterpret_cast<bits*>(data.data());
      for (std::size_t i = 0; i < n; ++i) {
        x[i] &= static_cast<bits>(~(sizeof(T) == 8 ? first | last : last));
        x[i] = static_cast<bits>((x[i] & ~exponent) | (x[i - i % run] & exponent));
      }
    }
  });
  return data;
}

/// Whose numbers are emptied most often.
inline constexpr cuda::launch one_warp{.threads = 32, .blocks = 1};

struct layout_case {
  std::vector<std::int64_t> extents, strides;
  std::vector<int> axes;
  const char* by;
  std::int64_t first = 0;  ///< element of the array
  cuda::launch shape{};
};
inline view view_of(const layout_case& c, dtype t, const std::byte* data) {
  view v{t, data + c.first * static_cast<std::int64_t>(size_of(t)),
         static_cast<int>(c.extents.size())};
  std::copy(c.extents.begin(), c.extents.end(), v.extent.begin());
  std::copy(c.strides.begin(), c.strides.end(), v.stride.begin());
  return v;
}

inline const std::vector<layout_case> layouts{
    {{50, 3}, {3, 1}, {1}, "exact_outputs"},
    {{50, 16}, {16, 1}, {1}, "exact_outputs"},
    {{7, 128}, {128, 1}, {1}, "exact_outputs"},
    {{9, 700}, {704, 1}, {1}, "exact_outputs"},
    {{3, 700}, {701, 1}, {1}, "exact_outputs", 1},
    {{6, 11, 13}, {143, 13, 1}, {0, 2}, "exact_outputs"},
    {{4, 6, 160}, {960, 160, 1}, {0, 2}, "exact_outputs"},
    {{20, 3, 128}, {384, 128, 1}, {0, 2}, "exact_chunks"},
    {{2, 17000}, {17008, 1}, {1}, "exact_chunks"},
    {{500, 7}, {7, 1}, {0}, "exact_outputs"},
    {{1500, 40}, {40, 1}, {0}, "exact_columns"},
    {{900, 33}, {48, 1}, {0}, "exact_columns", 1, {.threads = 64, .blocks = 3}},
    {{3, 0}, {1, 1}, {1}, "exact_outputs"},
    {{1, 20003}, {1, 3}, {1}, "exact_pass_in_steps", 1},
    {{1, 5}, {1, 2}, {1}, "exact_pass_in_steps"},
    {{3, 5000}, {10001, 2}, {1}, "exact_outputs"},
};

}  // namespace bitfold::test
