// Scatters on the CPU: what is asked for, and which way it is done.
#include "../scattering.hpp"
#include "scatter.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

namespace bitfold {
namespace {
[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }
}  // namespace

namespace detail {

void check_scatter(const view& x, const view& keys, int axis, const view& base) {
  if (axis < 0 || axis >= x.rank)
    refuse("axis: " + std::to_string(axis) + " of an array of " + std::to_string(x.rank) + " axes");
  if (keys.type != dtype::i64) refuse("keys: " + std::string(name(keys.type)) + ", and no i64");
  if (keys.rank != x.rank || keys.extent != x.extent) refuse("keys: not of x's extents");
  if (base.type != x.type) refuse("base: not of x's type");
  if (base.rank != x.rank) refuse("base: not as many axes as x");
  for (int k = 0; k < x.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (x.extent[i] < 0 || base.extent[i] < 0) refuse("x: a negative extent");
    if (k != axis && x.extent[i] > base.extent[i])
      refuse("base: shorter than x along axis " + std::to_string(k));
  }
  constexpr std::int64_t max = (std::int64_t{1} << 32) - 2;
  const auto i = static_cast<std::size_t>(axis);
  if (x.extent[i] > max || base.extent[i] > max) refuse("x: more than 2^32 - 2 along the axis");
}

std::uint64_t elements_of(const view& v) {
  std::uint64_t n = 1;
  for (int k = 0; k < v.rank; ++k) n *= static_cast<std::uint64_t>(v.extent[std::size_t(k)]);
  return n;
}

}  // namespace detail

namespace cpu {
namespace {

using detail::elements_of;

// Base to out, or zeros, in every place.
void copy_base(const view& base, void* out) {
  if (base.data == out) return;
  const std::size_t size = size_of(base.type);
  detail::axes all;
  all.rank = base.rank;
  for (int k = 0; k < base.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    all.dims[i] = {static_cast<std::uint64_t>(base.extent[i]), base.stride[i], 0};
  }
  constexpr std::uint64_t step = 1024;
  std::ptrdiff_t at[step];
  for (std::uint64_t first = 0, n = elements_of(base); first < n; first += step) {
    const std::uint64_t taken = std::min(step, n - first);
    detail::offsets_of(all, first, taken, at, nullptr);
    for (std::uint64_t i = 0; i < taken; ++i) {
      std::byte* const to = static_cast<std::byte*>(out) + at[i] * std::ptrdiff_t(size);
      if (base.data)
        std::memcpy(to, static_cast<const std::byte*>(base.data) + at[i] * std::ptrdiff_t(size),
                    size);
      else
        std::memset(to, 0, size);
    }
  }
}

// Looks at every key before anything is written.
void check_keys(const view& keys, std::uint64_t places, int threads) {
  std::vector<std::pair<std::int64_t, std::uint64_t>> axes;  // stride, extent
  for (int k = 0; k < keys.rank; ++k)
    if (const auto i = static_cast<std::size_t>(k); keys.stride[i] != 0 && keys.extent[i] > 1)
      axes.push_back({keys.stride[i], static_cast<std::uint64_t>(keys.extent[i])});
  if (axes.empty()) axes.push_back({1, 1});
  std::ranges::sort(axes, std::greater(), [](const auto& a) { return std::abs(a.first); });
  const std::int64_t step = axes.back().first;
  const std::uint64_t n = axes.back().second;
  std::uint64_t lines = 1;
  for (std::size_t k = 0; k + 1 < axes.size(); ++k) lines *= axes[k].second;
  // A long line is cut up.
  const std::uint64_t cuts = std::clamp<std::uint64_t>(chunk_count(threads) / lines, 1, n);
  const std::uint64_t all = lines * cuts, shares = std::min(all, chunk_count(threads));
  parallel_for(shares, threads, [&](std::size_t s) {
    std::uint64_t wrong = 0;
    for (std::uint64_t k = s * all / shares; k < (s + 1) * all / shares; ++k) {
      const auto* at = static_cast<const std::int64_t*>(keys.data);
      std::uint64_t line = k / cuts;
      for (std::size_t a = axes.size() - 1; a-- > 0; line /= axes[a].second)
        at += static_cast<std::int64_t>(line % axes[a].second) * axes[a].first;
      const std::uint64_t first = n * (k % cuts) / cuts, end = n * (k % cuts + 1) / cuts;
      if (step == 1)
        for (std::uint64_t i = first; i < end; ++i) wrong |= wrong_key(at[i], places);
      else
        for (std::uint64_t i = first; i < end; ++i)
          wrong |= wrong_key(at[static_cast<std::int64_t>(i) * step], places);
    }
    if (wrong >> 63) refuse_key(places);
  });
}

scatter_layout layout_of(const view& x, const view& keys, int axis, const view& base, void* out) {
  const auto axis_of = [&](int k) {
    const auto i = static_cast<std::size_t>(k);
    return scatter_layout::axis{static_cast<std::uint64_t>(x.extent[i]), x.stride[i],
                                keys.stride[i], base.stride[i]};
  };
  scatter_layout l{static_cast<const std::byte*>(x.data),
                   static_cast<const std::int64_t*>(keys.data),
                   static_cast<const std::byte*>(base.data),
                   static_cast<std::byte*>(out),
                   static_cast<std::uint64_t>(base.extent[std::size_t(axis)]),
                   axis_of(axis),
                   {},
                   1};
  for (int k = 0; k < x.rank; ++k) {
    if (k == axis) continue;
    const auto a = axis_of(k);
    l.lines *= a.extent;
    if (a.extent == 1) continue;
    const auto fits = [&](std::int64_t scatter_layout::axis::* stride) {
      return l.kept.back().*stride == static_cast<std::int64_t>(a.extent) * (a.*stride);
    };
    using axis_type = scatter_layout::axis;
    if (!l.kept.empty() && fits(&axis_type::x) && fits(&axis_type::key) &&
        fits(&axis_type::place)) {
      l.kept.back() = {l.kept.back().extent * a.extent, a.x, a.key, a.place};
    } else {
      l.kept.push_back(a);
    }
  }
  return l;
}

}  // namespace

void scatter(const scattering& how, const view& x, const view& keys, int axis, const view& base,
             void* out, const options& opts) {
  detail::check_scatter(x, keys, axis, base);
  scatter_task t = scatter_task_for(how, x.type, opts);
  t.with_base &= base.data != nullptr;
  if (elements_of(base) == 0 && elements_of(x) == 0) return;
  if (!out && elements_of(base) > 0) refuse("out: null");
  view to = base;
  bool whole = true;  // every place is on a line
  for (int k = 0; k < x.rank; ++k) {
    const auto i = static_cast<std::size_t>(k);
    whole &= k == axis || x.extent[i] == base.extent[i];
  }
  if (!whole || elements_of(x) == 0) {
    copy_base(base, out);
    if (elements_of(x) == 0) return;
    to.data = out;
  }
  if (base.extent[static_cast<std::size_t>(axis)] == 0) {
    if (!how.leaves_out) refuse("keys: there are some, and no places");
    return;
  }
  if (base.data == out && !how.leaves_out)
    check_keys(keys, static_cast<std::uint64_t>(base.extent[static_cast<std::size_t>(axis)]),
               threads_for(opts, elements_of(x) * sizeof(std::int64_t)));
  scatter_layout l = layout_of(x, keys, axis, to, out);
  report(t.used);
  constexpr std::uint64_t min_columns = 8;
  if (!l.kept.empty()) {
    const auto& last = l.kept.back();
    if (last.x == 1 && last.place == 1 && last.key == 0 && last.extent >= min_columns)
      return scatter_rows(t, l, opts);
  }
  scatter_lines(t, l, opts);
}

}  // namespace cpu
}  // namespace bitfold
