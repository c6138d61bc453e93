// Random shapes, layouts and axes, windows, segments and keys; and smaller cases of the same kind.
#pragma once

#include <bitfold/reference.hpp>
#include <bitfold/view.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "catch.hpp"
#include "data.hpp"

namespace bitfold::test {

/// What lies in memory: elements of one output after the other, or the results of some reductions.
using arrays = std::vector<std::vector<std::byte>>;

/// Room for the results of `all`, filled with what no result is made of, and more of that behind
/// it.
inline arrays room_for(std::span<const reduction> all, std::size_t outputs) {
  arrays r;
  for (const reduction& one : all)
    r.emplace_back(outputs * size_of(one.out()) + 8, std::byte{0xa5});
  return r;
}
inline std::vector<void*> pointers_to(arrays& r) {
  std::vector<void*> p;
  for (auto& v : r) p.push_back(v.data());
  return p;
}

/// What is defined of outputs of which some may have no elements.
inline std::vector<reduction> reductions_for(dtype type, bool two, bool some_empty) {
  std::vector<reduction> all = reductions_of_all_ops(type);
  std::erase_if(all, [&](const reduction& r) {
    return info(r.op()).inputs != (two ? 2 : 1) ||
           (some_empty && info(r.op()).empty == if_empty::refused);
  });
  return all;
}
/// By the reference, of outputs that have these elements; y is empty where there is one input.
inline arrays results_of(std::span<const reduction> all, const arrays& x, const arrays& y) {
  arrays want = room_for(all, x.size());
  for (std::size_t k = 0; k < all.size(); ++k)
    for (std::size_t o = 0; o < x.size(); ++o)
      store_scalar(reference(all[k], x[o].data(), y.empty() || x[o].empty() ? nullptr : y[o].data(),
                             x[o].size() / size_of(all[k].in())),
                   &want[k][o * size_of(all[k].out())]);
  return want;
}
inline bool some_are_empty(const arrays& elements) {
  return std::any_of(elements.begin(), elements.end(), [](const auto& e) { return e.empty(); });
}

/// Calls f(some, number of the first, way): all of them in each way, and each alone in one.
template <class Function>
void for_each_way(std::span<const reduction> all, std::size_t ways, Function f) {
  for (std::size_t way = 0; way < ways && !all.empty(); ++way) f(all, std::size_t{0}, way);
  for (std::size_t k = 0; k < all.size(); ++k)
    f(all.subspan(k, 1), k, k % 3 == 2 ? 1 + k / 3 % (ways - 1) : std::size_t{0});
}

/// Which of `all` have other results than these where run(some, way) gives them: all together, in
/// each of some ways, and each alone, most in the first way.
template <class Way, class Run>
std::string differing(std::span<const reduction> all, const arrays& want,
                      const std::vector<Way>& ways, Run run) {
  std::string which;
  const auto compare = [&](std::span<const reduction> some, std::size_t first, std::size_t way) {
    const arrays got = run(some, ways[way]);
    for (std::size_t k = 0; k < some.size(); ++k)
      if (got[k] != want[first + k])
        which += "\n " + std::string(name(some[k].op())) + " " +
                 std::string(name(some[k].method())) + " acc=" + std::string(name(some[k].acc())) +
                 (some.size() > 1 ? " together," : " alone,") + " way " + std::to_string(way);
  };
  for_each_way(all, ways.size(), compare);
  return which;
}

/// The same case as small as it still fails.
template <class Case, class Fails>
Case shrunk(Case c, Fails fails) {
  for (bool again = true; again;) {
    again = false;
    for (Case& s : c.smaller())
      if (fails(s)) {
        c = std::move(s);
        again = true;
        break;
      }
  }
  return c;
}
/// Fails with the smallest case that is found, if differing(c), which tells what is wrong, is not
/// empty.
template <class Case, class Differing>
void check_case(const Case& c, Differing differing) {
  if (differing(c).empty()) return;
  const Case small = shrunk(c, [&](const Case& s) { return !differing(s).empty(); });
  FAIL(small.describe() << differing(small));
}

inline std::string text_of(const auto& list) {
  std::string s = "[";
  for (const auto i : list) s += (s.size() > 1 ? "," : "") + std::to_string(i);
  return s + "]";
}

/// Elements that are the same for the same type, extents and seed, laid out in memory in some order
/// of the axes, with gaps, backwards, or one for a whole axis.
struct view_case {
  dtype type = dtype::f32;
  std::vector<std::int64_t> extent;
  std::vector<int> axes;       // that are reduced
  std::vector<int> order;      // the axes in memory, outermost first
  std::vector<int> gap = {};   // 1: none; by axis
  std::vector<int> sign = {};  // 1, -1, or 0: one element for the whole axis
  bool two = false;
  bool specials =
      true;  // some elements are NaN, infinite or -0: rather not where outputs are of hundreds
  std::vector<int> second_gap = {}, second_sign = {};
  std::vector<int> second_one = {};    // 1: y has one element along this axis
  std::vector<int> second_order = {};  // as order, if it is another one
  mutable std::vector<std::byte> storage[2] = {};
  mutable view second_view = {};

  int rank() const { return static_cast<int>(extent.size()); }
  bool is_reduced(int k) const { return std::find(axes.begin(), axes.end(), k) != axes.end(); }
  std::size_t count(bool of_reduced) const {
    std::size_t n = 1;
    for (int k = 0; k < rank(); ++k)
      if (is_reduced(k) == of_reduced)
        n *= static_cast<std::size_t>(extent[static_cast<std::size_t>(k)]);
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
  /// x's elements, without gaps or signs, in another order of the axes, each `step` elements apart
  /// and each axis but the innermost `step` times as long as it need be.
  std::vector<std::byte> laid_out(std::vector<int> axis_order, int step) const {
    view_case other = *this;
    other.order = std::move(axis_order);
    other.gap.assign(extent.size(), step);
    other.storage[0].clear();
    const view from = x(), to = other.x();
    const auto size = static_cast<std::int64_t>(size_of(type));
    const auto copy = [&](auto self, std::size_t axis, std::int64_t there,
                          std::int64_t here) -> void {
      if (axis == extent.size()) {
        std::memcpy(const_cast<std::byte*>(static_cast<const std::byte*>(to.data)) + there * size,
                    static_cast<const std::byte*>(from.data) + here * size, size_of(type));
        return;
      }
      for (std::int64_t i = 0; i < extent[axis]; ++i)
        self(self, axis + 1, there + i * to.stride[axis], here + i * from.stride[axis]);
    };
    copy(copy, 0, 0, 0);
    return std::move(other.storage[0]);
  }

  /// Axes shorter, or more plainly laid out.
  std::vector<view_case> smaller() const {
    std::vector<view_case> all;
    const auto add = [&](auto change) {
      view_case s = *this;
      for (auto& bytes : s.storage) bytes.clear();
      change(s);
      all.push_back(std::move(s));
    };
    for (std::size_t k = 0; k < extent.size(); ++k) {
      for (const std::int64_t to : {extent[k] / 2, extent[k] - 1})
        if (to >= 0 && to < extent[k]) add([&](view_case& s) { s.extent[k] = to; });
      for (auto of :
           {&view_case::gap, &view_case::sign, &view_case::second_gap, &view_case::second_sign})
        if (!(this->*of).empty() && (this->*of)[k] != 1) add([&](view_case& s) { (s.*of)[k] = 1; });
    }
    return all;
  }

  std::string describe() const {
    return std::string(name(type)) + " extent " + text_of(extent) + " axes " + text_of(axes) +
           " order " + text_of(order) + " gap " + text_of(gap) + " sign " + text_of(sign) +
           (two ? " and gap " + text_of(second_gap) + " sign " + text_of(second_sign) + " one " +
                      text_of(second_one)
                : "") +
           ":";
  }

 private:
  view made(std::uint64_t which, const std::vector<int>& gaps,
            const std::vector<int>& signs) const {
    view v{type, nullptr, rank(), {}, {}};
    const auto& axis_order = which == 1 && !second_order.empty() ? second_order : order;
    std::int64_t stride = 1, begin = 0;
    for (int p = rank() - 1; p >= 0; --p) {
      const auto k = static_cast<std::size_t>(axis_order[static_cast<std::size_t>(p)]);
      const std::int64_t g = gaps.empty() ? 1 : gaps[k], s = signs.empty() ? 1 : signs[k];
      v.extent[k] = extent[k];
      v.stride[k] = stride * g * s;
      if (s < 0) begin += (extent[k] - 1) * stride * g;
      if (s != 0) stride *= g * std::max<std::int64_t>(extent[k], 1);
    }
    auto& bytes = storage[which];
    if (bytes.empty()) {
      const auto n = static_cast<std::size_t>(stride);
      bytes = make_data(type, kind::near_one, n, 9 + which);
      // Mostly plain numbers: a NaN would hide all others.
      const std::size_t some = specials && n >= 97 ? (n + 96) / 97 : 0;
      const auto special = make_data(type, kind::special, some, 7 + which);
      for (std::size_t k = 0; k < some; ++k)
        std::copy_n(&special[k * size_of(type)], size_of(type), &bytes[k * 97 * size_of(type)]);
    }
    v.data =
        bytes.data() + std::max<std::int64_t>(begin, 0) * static_cast<std::int64_t>(size_of(type));
    return v;
  }
};

inline view_case random_view(random_bits& next) {
  view_case c;
  c.type = all_dtypes[next() % all_dtypes.size()];
  const int rank = static_cast<int>(next() % 4 ? next() % 5 : 5 + next() % 4);
  std::int64_t left = 6000;
  for (int k = 0; k < rank; ++k) {
    const std::int64_t sizes[] = {
        1, 2, 3, 7, 16, 31, 33, 64, 255, 257, 1000, 4097, static_cast<std::int64_t>(next() % 50)};
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
    for (auto* gaps : {&c.gap, &c.second_gap})
      gaps->push_back(k > 4 || next() % 4 ? 1 : 1 + static_cast<int>(next() % 3));
    c.second_one.push_back(next() % 5 == 0);
    for (auto* signs : {&c.sign, &c.second_sign})
      signs->push_back(next() % 5 ? 1 : next() % 2 ? -1 : 0);
  }
  return c;
}

/// Windows of a view, and the elements of each, found one by one.
struct windows_case {
  view_case of;  // no axis is reduced
  std::vector<window> windows;

  bool fits() const {
    return std::ranges::all_of(windows, [&](const window& w) {
      return (w.size - 1) * w.dilation <
             of.extent[static_cast<std::size_t>(w.axis)] + 2 * w.padding;
    });
  }
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
    std::sort(in_order.begin(), in_order.end(),
              [](const window& a, const window& b) { return a.axis < b.axis; });
    const auto each_of_window = [&](auto self, std::size_t k,
                                    const std::vector<std::int64_t>& place) -> void {
      if (k == in_order.size()) {
        const auto* p = static_cast<const std::byte*>(x.data);
        for (int a = 0; a < x.rank; ++a)
          p += place[static_cast<std::size_t>(a)] * x.stride[a] *
               static_cast<std::int64_t>(size_of(x.type));
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
  std::vector<windows_case> smaller() const {
    std::vector<windows_case> all;
    for (view_case& s : of.smaller()) all.push_back({std::move(s), windows});
    for (std::size_t k = 0; k < windows.size(); ++k) {
      all.push_back(*this);
      all.back().windows.erase(all.back().windows.begin() + static_cast<std::ptrdiff_t>(k));
      for (const auto& [what, least] : {std::pair{&window::size, 1},
                                        {&window::stride, 1},
                                        {&window::dilation, 1},
                                        {&window::padding, 0}})
        for (const std::int64_t to : {std::int64_t{least}, windows[k].*what - 1}) {
          if (to < least || to >= windows[k].*what) continue;
          all.push_back(*this);
          window& w = all.back().windows[k];
          w.*what = to;
          w.padding = std::min(w.padding, (w.size - 1) * w.dilation);
        }
    }
    std::erase_if(all, [](const windows_case& c) { return !c.fits(); });
    return all;
  }
  std::string describe() const {
    std::string s = of.describe();
    for (const window& w : windows)
      s += " window of " + std::to_string(w.axis) + " size " + std::to_string(w.size) + " stride " +
           std::to_string(w.stride) + " dilation " + std::to_string(w.dilation) + " padding " +
           std::to_string(w.padding);
    return s;
  }
};

inline windows_case random_windows(random_bits& next) {
  const auto upto = [&](int most) {
    return 1 + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(most));
  };
  windows_case c;
  c.of.type = all_dtypes[next() % all_dtypes.size()];
  c.of.specials = false;
  const int rank = static_cast<int>(upto(4)), most = rank < 3 ? 24 : 9;
  for (int k = 0; k < rank; ++k) {
    c.of.extent.push_back(next() % 16 ? upto(most) : 0);
    c.of.order.insert(c.of.order.begin() +
                          static_cast<std::ptrdiff_t>(next() % static_cast<std::uint64_t>(k + 1)),
                      k);
    c.of.gap.push_back(static_cast<int>(upto(2)));
    c.of.sign.push_back(next() % 4 ? 1 : -1);
    if (next() % 4 == 0 || c.windows.size() == 3) continue;
    window w{.axis = k, .size = upto(5), .stride = upto(3), .dilation = upto(3)};
    w.padding = static_cast<std::int64_t>(
        next() % static_cast<std::uint64_t>((w.size - 1) * w.dilation + 1));
    const auto at =
        c.windows.begin() + static_cast<std::ptrdiff_t>(next() % (c.windows.size() + 1));
    if (const auto put = c.windows.insert(at, w); !c.fits()) c.windows.erase(put);
  }
  return c;
}

/// Outputs of any lengths: as segments, or by keys that are strewn about.
struct lists_case {
  dtype type = dtype::f32;
  bool two = false, strewn = true, specials = true;
  std::vector<std::int64_t> lengths;
  std::int64_t outside = 0;  // elements of no output: half of them before the first segment; or of
                             // keys that are too low or too high

  std::size_t outputs() const { return lengths.size(); }
  std::size_t n() const {
    return static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), outside));
  }
  std::vector<std::byte> data(std::uint64_t which) const {
    return make_data(type, specials ? kind::special : kind::near_one, n(), 1 + which);
  }
  std::vector<std::int64_t> offsets() const {
    std::vector<std::int64_t> all{outside / 2};
    for (const std::int64_t length : lengths) all.push_back(all.back() + length);
    return all;
  }
  std::vector<std::int64_t> keys() const {
    std::vector<std::int64_t> all;
    for (std::size_t k = 0; k < lengths.size(); ++k)
      all.insert(all.end(), static_cast<std::size_t>(lengths[k]), static_cast<std::int64_t>(k));
    for (std::int64_t i = 0; i < outside; ++i)
      all.push_back(i % 2 ? -1 - i : static_cast<std::int64_t>(outputs()) + i);
    random_bits next{n()};
    for (std::size_t i = all.size(); i > 1 && strewn; --i) std::swap(all[i - 1], all[next() % i]);
    return all;
  }
  /// What each output has of these elements.
  arrays elements(const std::vector<std::byte>& of, bool by_key) const {
    const auto size = static_cast<std::ptrdiff_t>(size_of(type));
    arrays all(outputs());
    const auto add = [&](std::size_t to, std::int64_t first, std::int64_t end) {
      all[to].insert(all[to].end(), of.begin() + first * size, of.begin() + end * size);
    };
    if (by_key) {
      std::int64_t i = 0;
      for (const std::int64_t key : keys()) {
        if (static_cast<std::size_t>(key) < outputs()) add(static_cast<std::size_t>(key), i, i + 1);
        ++i;
      }
    } else {
      const auto offset = offsets();
      for (std::size_t k = 0; k < outputs(); ++k) add(k, offset[k], offset[k + 1]);
    }
    return all;
  }
  std::vector<lists_case> smaller() const {
    std::vector<lists_case> all;
    const auto add = [&](auto change) {
      all.push_back(*this);
      change(all.back());
    };
    const auto end = static_cast<std::ptrdiff_t>(lengths.size());
    for (std::ptrdiff_t some = end / 2; some > 0; some /= 2)  // without so many outputs
      for (std::ptrdiff_t first = 0; first < end; first += some)
        add([&](lists_case& s) {
          s.lengths.erase(s.lengths.begin() + first,
                          s.lengths.begin() + std::min(first + some, end));
        });
    for (std::size_t k = 0; k < lengths.size(); ++k)
      for (const std::int64_t to : {lengths[k] / 2, lengths[k] - 1})
        if (to >= 0 && to < lengths[k]) add([&](lists_case& s) { s.lengths[k] = to; });
    if (outside > 0) add([](lists_case& s) { s.outside = 0; });
    if (strewn) add([](lists_case& s) { s.strewn = false; });
    if (specials) add([](lists_case& s) { s.specials = false; });
    return all;
  }
  std::string describe() const {
    return std::string(name(type)) + (two ? " two inputs" : "") + (strewn ? " strewn" : "") +
           (specials ? " specials" : "") + " lengths " + text_of(lengths) + " and " +
           std::to_string(outside) + " outside:";
  }
};

inline lists_case random_lists(random_bits& next) {
  lists_case c;
  c.type = all_dtypes[next() % all_dtypes.size()];
  c.two = next() % 2;
  c.strewn = next() % 4;
  c.specials = next() % 2;
  c.outside = next() % 2 ? 0 : static_cast<std::int64_t>(next() % 20);
  const std::uint64_t outputs = next() % 60,
                      least = next() % 2;  // not all is defined of no elements
  for (std::uint64_t k = 0; k < outputs; ++k) {
    const std::uint64_t some[] = {0,
                                  1,
                                  next() % 40,
                                  31 + next() % 3,
                                  255 + next() % 3,
                                  next() % 700,
                                  next() % 20 ? 2 : 1 + next() % 20'000};
    c.lengths.push_back(static_cast<std::int64_t>(std::max(least, some[next() % std::size(some)])));
  }
  return c;
}

}  // namespace bitfold::test
