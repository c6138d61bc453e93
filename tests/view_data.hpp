// Random shapes, layouts and axes, and smaller ones of the same kind.
#pragma once

#include <bitfold/view.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "data.hpp"

namespace bitfold::test {

/// Elements that are the same for the same type, extents and seed, laid out in memory in some order of the axes, with gaps,
/// backwards, or one for a whole axis.
struct view_case {
  dtype type = dtype::f32;
  std::vector<std::int64_t> extent;
  std::vector<int> axes;           // that are reduced
  std::vector<int> order;          // the axes in memory, outermost first
  std::vector<int> gap = {};       // 1: none; by axis
  std::vector<int> sign = {};      // 1, -1, or 0: one element for the whole axis
  bool two = false;
  bool specials = true;            // some elements are NaN, infinite or -0: rather not where outputs are of hundreds
  std::vector<int> second_gap = {}, second_sign = {};
  std::vector<int> second_one = {};  // 1: y has one element along this axis
  mutable std::vector<std::byte> storage[2] = {};
  mutable view second_view = {};

  int rank() const { return static_cast<int>(extent.size()); }
  bool is_reduced(int k) const { return std::find(axes.begin(), axes.end(), k) != axes.end(); }
  std::size_t count(bool of_reduced) const {
    std::size_t n = 1;
    for (int k = 0; k < rank(); ++k)
      if (is_reduced(k) == of_reduced) n *= static_cast<std::size_t>(extent[static_cast<std::size_t>(k)]);
    return n;
  }
  std::size_t outputs() const { return count(false); }
  std::size_t elements_each() const { return count(true); }

  view x() const { return made(0, gap, sign); }
  const view* y() const {
    if (!two) return nullptr;
    second_view = made(1, second_gap, second_sign);
    for (std::size_t k = 0; k < second_one.size(); ++k)
      if (second_one[k] && extent[k] > 0) second_view.extent[k] = 1;
    return &second_view;
  }
  /// x's elements, without gaps or signs, in another order of the axes, each `step` elements apart and each axis but the
  /// innermost `step` times as long as it need be.
  std::vector<std::byte> laid_out(std::vector<int> axis_order, int step) const {
    view_case other = *this;
    other.order = std::move(axis_order);
    other.gap.assign(extent.size(), step);
    other.storage[0].clear();
    const view from = x(), to = other.x();
    const auto size = static_cast<std::int64_t>(size_of(type));
    for (std::int64_t i = 0; i < extent[0]; ++i)
      for (std::int64_t j = 0; j < extent[1]; ++j)
        std::memcpy(const_cast<std::byte*>(static_cast<const std::byte*>(to.data)) + (i * to.stride[0] + j * to.stride[1]) * size,
                    static_cast<const std::byte*>(from.data) + (i * from.stride[0] + j * from.stride[1]) * size, size_of(type));
    return std::move(other.storage[0]);
  }

  std::string describe() const {
    const auto list = [](const auto& v) {
      std::string s = "[";
      for (const auto i : v) s += (s.size() > 1 ? "," : "") + std::to_string(i);
      return s + "]";
    };
    return std::string(name(type)) + " extent " + list(extent) + " axes " + list(axes) + " order " + list(order) + " gap " + list(gap) +
           " sign " + list(sign) + (two ? " and gap " + list(second_gap) + " sign " + list(second_sign) + " one " + list(second_one) : "") + ":";
  }

 private:
  view made(std::uint64_t which, const std::vector<int>& gaps, const std::vector<int>& signs) const {
    view v{type, nullptr, rank(), {}, {}};
    std::int64_t stride = 1, begin = 0;
    for (int p = rank() - 1; p >= 0; --p) {
      const auto k = static_cast<std::size_t>(order[static_cast<std::size_t>(p)]);
      const std::int64_t g = gaps.empty() ? 1 : gaps[k], s = signs.empty() ? 1 : signs[k];
      v.extent[k] = extent[k];
      v.stride[k] = stride * g * s;
      if (s < 0) begin += (extent[k] - 1) * stride * g;
      if (s != 0) stride *= g * std::max<std::int64_t>(extent[k], 1);
    }
    auto& bytes = storage[which];
    if (bytes.empty()) {
      const auto n = static_cast<std::size_t>(stride);
      bytes = make_data(type, kind::special, n, 7 + which);
      const auto plain = make_data(type, kind::near_one, n, 9 + which);
      for (std::size_t i = 0; i < n; ++i)  // mostly plain numbers: a NaN would hide all others
        if (i % 97 || n < 97 || !specials) std::copy_n(&plain[i * size_of(type)], size_of(type), &bytes[i * size_of(type)]);
    }
    v.data = bytes.data() + std::max<std::int64_t>(begin, 0) * static_cast<std::int64_t>(size_of(type));
    return v;
  }
};

inline view_case random_view(random_bits& next) {
  view_case c;
  c.type = all_dtypes[next() % all_dtypes.size()];
  const int rank = static_cast<int>(next() % 4 ? next() % 5 : 5 + next() % 4);
  std::int64_t left = 6000;
  for (int k = 0; k < rank; ++k) {
    const std::int64_t sizes[] = {1, 2, 3, 7, 16, 31, 33, 64, 255, 257, 1000, 4097, static_cast<std::int64_t>(next() % 50)};
    c.extent.push_back(std::min(left, sizes[next() % std::size(sizes)]));
    left = std::max<std::int64_t>(1, left / std::max<std::int64_t>(1, c.extent.back()));
  }
  c.two = next() % 2;
  c.order.resize(static_cast<std::size_t>(rank));
  std::iota(c.order.begin(), c.order.end(), 0);
  if (next() % 3 == 0)
    for (std::size_t k = c.order.size(); k > 1; --k) std::swap(c.order[k - 1], c.order[next() % k]);
  for (int k = 0; k < rank; ++k) {
    if (next() % 2) c.axes.push_back(k);
    for (auto* gaps : {&c.gap, &c.second_gap}) gaps->push_back(k > 4 || next() % 4 ? 1 : 1 + static_cast<int>(next() % 3));
    c.second_one.push_back(next() % 5 == 0);
    for (auto* signs : {&c.sign, &c.second_sign}) signs->push_back(next() % 5 ? 1 : next() % 2 ? -1 : 0);
  }
  return c;
}

/// Windows of a view, and the elements of each, found one by one.
struct windows_case {
  view_case of;  // no axis is reduced
  std::vector<window> windows;

  std::vector<std::vector<std::byte>> elements() const {
    const view x = of.x();
    std::vector<std::int64_t> count = of.extent;
    for (const window& w : windows) {
      std::int64_t& n = count[static_cast<std::size_t>(w.axis)];
      const std::int64_t extent = n;
      for (n = 0; n * w.stride - w.padding + (w.size - 1) * w.dilation < extent + w.padding;) ++n;
    }
    std::vector<std::vector<std::byte>> all;
    std::vector<std::int64_t> at(of.extent.size());
    std::vector<window> in_order = windows;
    std::sort(in_order.begin(), in_order.end(), [](const window& a, const window& b) { return a.axis < b.axis; });
    const auto each_of_window = [&](auto self, std::size_t k, const std::vector<std::int64_t>& place) -> void {
      if (k == in_order.size()) {
        const auto* p = static_cast<const std::byte*>(x.data);
        for (int a = 0; a < x.rank; ++a) p += place[static_cast<std::size_t>(a)] * x.stride[a] * static_cast<std::int64_t>(size_of(x.type));
        all.back().insert(all.back().end(), p, p + size_of(x.type));
        return;
      }
      const window& w = in_order[k];
      const auto axis = static_cast<std::size_t>(w.axis);
      for (std::int64_t i = 0; i < w.size; ++i) {
        auto inner = place;
        inner[axis] = at[axis] * w.stride - w.padding + i * w.dilation;
        if (inner[axis] >= 0 && inner[axis] < x.extent[w.axis]) self(self, k + 1, inner);
      }
    };
    const auto each_output = [&](auto self, std::size_t k) -> void {
      if (k < at.size()) {
        for (at[k] = 0; at[k] < count[k]; ++at[k]) self(self, k + 1);
      } else {
        all.emplace_back();
        each_of_window(each_of_window, 0, at);
      }
    };
    each_output(each_output, 0);
    return all;
  }
  /// What is defined of each window, of one input.
  std::vector<reduction> reductions(const std::vector<std::vector<std::byte>>& elements) const {
    const bool some_empty = std::any_of(elements.begin(), elements.end(), [](const auto& e) { return e.empty(); });
    std::vector<reduction> all;
    for (const reduction& r : reductions_of_all_ops(of.type))
      if (info(r.op()).inputs == 1 && (!some_empty || info(r.op()).empty != if_empty::refused)) all.push_back(r);
    return all;
  }
  std::string describe() const {
    std::string s = of.describe();
    for (const window& w : windows)
      s += " window of " + std::to_string(w.axis) + " size " + std::to_string(w.size) + " stride " + std::to_string(w.stride) + " dilation " +
           std::to_string(w.dilation) + " padding " + std::to_string(w.padding);
    return s;
  }
};

inline windows_case random_windows(random_bits& next) {
  const auto upto = [&](int most) { return 1 + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(most)); };
  windows_case c;
  c.of.type = all_dtypes[next() % all_dtypes.size()];
  c.of.specials = false;
  const int rank = static_cast<int>(upto(4)), most = rank < 3 ? 24 : 9;
  for (int k = 0; k < rank; ++k) {
    c.of.extent.push_back(next() % 16 ? upto(most) : 0);
    c.of.order.insert(c.of.order.begin() + static_cast<std::ptrdiff_t>(next() % static_cast<std::uint64_t>(k + 1)), k);
    c.of.gap.push_back(static_cast<int>(upto(2)));
    c.of.sign.push_back(next() % 4 ? 1 : -1);
    if (next() % 4 == 0 || c.windows.size() == 3) continue;
    window w{.axis = k, .size = upto(5), .stride = upto(3), .dilation = upto(3)};
    w.padding = static_cast<std::int64_t>(next() % static_cast<std::uint64_t>((w.size - 1) * w.dilation + 1));
    c.windows.insert(c.windows.begin() + static_cast<std::ptrdiff_t>(next() % (c.windows.size() + 1)), w);
  }
  return c;
}

/// The same case as small as it still fails.
template <class Fails>
view_case shrunk(view_case c, Fails fails) {
  const auto accept = [&](view_case smaller) {
    for (auto& s : smaller.storage) s.clear();
    if (!fails(smaller)) return false;
    c = std::move(smaller);
    return true;
  };
  for (bool again = true; again;) {
    again = false;
    for (std::size_t k = 0; k < c.extent.size() && !again; ++k) {
      for (const std::int64_t to : {c.extent[k] / 2, c.extent[k] - 1}) {
        view_case s = c;
        s.extent[k] = to;
        if (to >= 0 && to < c.extent[k] && !again) again = accept(s);
      }
      for (auto of : {&view_case::gap, &view_case::sign, &view_case::second_gap, &view_case::second_sign}) {
        view_case s = c;
        if ((s.*of)[k] != 1 && !again) (s.*of)[k] = 1, again = accept(s);
      }
    }
  }
  return c;
}

}  // namespace bitfold::test
