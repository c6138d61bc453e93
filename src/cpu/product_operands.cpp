// What is done once for each operand: its scales, and its integers, panel by panel.
#include "product_operands.hpp"

#include <algorithm>
#include <cmath>

#include "../strided.hpp"

namespace bitfold::cpu {
namespace {

using integers = prepared::integers;

integer_array new_integers(std::size_t n) {
  return integer_array(static_cast<std::int32_t*>(
      ::operator new[](std::max<std::size_t>(n, 1) * sizeof(std::int32_t), std::align_val_t{64})));
}

// The largest s with |a| 2^s <= 63 2^(bits - 7) for the largest |a|.
int scale_of(double largest, int bits) {
  if (largest == 0) return 0;
  int e;
  const double fraction = std::frexp(largest, &e);  // in 1/2 to 1
  return bits - 1 - e - (fraction > 63.0 / 64);
}

// Makes one panel: reads its vectors, measures them, and interleaves their integers.
class panel_maker {
 public:
  panel_maker(integers& to, const product_kernels& kernels)
      : to_(to), pairs_(kernels.pairs), elements_(kernels.elements(to.layout.type)) {}

  void make(std::size_t matrix, std::size_t panel) const {
    std::int32_t* const to = to_.high.get() + to_.panel_at(matrix, panel);
    if (!to_.pairs)
      return make(matrix, panel, to,
                  to_.low ? to_.low.get() + to_.panel_at(matrix, panel) : nullptr);
    std::vector<std::int32_t> whole(width() * to_.layout.n);
    make(matrix, panel, whole.data(), nullptr);
    (to_.side == side::left ? pairs_.pack_rows : pairs_.pack_columns)(whole.data(), to_.layout.n,
                                                                      to);
  }

 private:
  // Its integers of 32 bits, in one digit or in two.
  void make(std::size_t matrix, std::size_t panel, std::int32_t* high, std::int32_t* low) const {
    const detail::operand_layout& l = to_.layout;
    const std::size_t first = panel * width(), count = std::min(width(), l.vectors - first),
                      at = matrix * to_.padded() + first;
    if (to_.side == side::right && elements_.measure_across && l.vector_stride == 1 &&
        count == width() && l.n > 1) {
      std::vector<magnitudes> each(count);
      const void* const x = l.address(matrix, first, 0);
      elements_.measure_across(x, l.element_stride, l.n, each.data());
      for (std::size_t v = 0; v < count; ++v) note(at + v, each[v]);
      elements_.scale_across(x, l.element_stride, l.n, &to_.scales[at], high, low);
      return;
    }
    std::vector<std::byte> copies;
    std::vector<const std::byte*> x(count);
    if (l.element_stride == 1 || l.n <= 1)
      for (std::size_t v = 0; v < count; ++v) x[v] = l.address(matrix, first + v, 0);
    else
      copy(matrix, first, count, copies, x);
    if (is_float(l.type))  // integers are as they are
      for (std::size_t v = 0; v < count; ++v) note(at + v, elements_.measure(x[v], l.n));
    interleave(matrix, panel, x, high, low);
  }

  std::size_t width() const { return static_cast<std::size_t>(to_.width); }
  void note(std::size_t vector, const magnitudes& m) const {
    to_.scales[vector] = scale_of(m.largest, to_.product.bits());
    to_.specials[vector] = m.special;
  }

  void copy(std::size_t matrix, std::size_t first, std::size_t count,
            std::vector<std::byte>& copies, std::vector<const std::byte*>& x) const {
    const detail::operand_layout& l = to_.layout;
    const std::size_t pitch = l.n * size_of(l.type);
    copies.resize(count * pitch);
    detail::axes vectors, elements;
    vectors.dims[vectors.rank++] = {count, l.vector_stride, 0};
    elements.dims[elements.rank++] = {l.n, l.element_stride, 0};
    const detail::strided_matrix all{l.type, l.address(matrix, first, 0), &detail::axes::axis::x,
                                     vectors, elements};
    all.copy(0, count, 0, l.n, copies.data(), pitch);
    for (std::size_t v = 0; v < count; ++v) x[v] = copies.data() + v * pitch;
  }

  void interleave(std::size_t matrix, std::size_t panel, const std::vector<const std::byte*>& x,
                  std::int32_t* to_high, std::int32_t* to_low) const {
    constexpr std::size_t at_once = 256;
    alignas(64) std::int32_t high[at_once], low[at_once];
    const std::size_t n = to_.layout.n, size = size_of(to_.layout.type);
    for (std::size_t v = 0; v < width(); ++v) {
      const int s = to_.scales[matrix * to_.padded() + panel * width() + v];
      for (std::size_t begin = 0; begin < n; begin += at_once) {
        const std::size_t count = std::min(at_once, n - begin);
        if (v < x.size()) {
          elements_.scale(x[v] + begin * size, count, s, high, to_low ? low : nullptr);
        } else {
          std::fill_n(high, count, 0);
          std::fill_n(low, count, 0);
        }
        for (std::size_t p = 0; p < count; ++p) to_high[(begin + p) * width() + v] = high[p];
        if (to_low)
          for (std::size_t p = 0; p < count; ++p) to_low[(begin + p) * width() + v] = low[p];
      }
    }
  }

  integers& to_;
  const pair_kernels pairs_;
  const product_elements elements_;
};

}  // namespace

void check_type(const matrix_product& p, const view& x, const char* which) {
  if (x.type != p.in())
    throw error(errc::usage, std::string(which) + ": of type " + std::string(name(x.type)) +
                                 ", not " + std::string(name(p.in())));
}

std::unique_ptr<integers> make_integers(const matrix_product& p, side s, const view& x,
                                        const options& opts) {
  auto made = std::make_unique<integers>(p);
  made->side = s;
  made->of = x;
  made->layout = detail::layout_of(x, s == side::left);
  made->used = resolve_target(opts);
  const product_kernels kernels = find_product_kernels(made->used);
  made->width = s == side::left ? kernels.tile_rows : kernels.tile_columns;
  const auto width = static_cast<std::size_t>(made->width);
  made->panels = (made->layout.vectors + width - 1) / width;
  made->pairs = kernels.pairs.add && is_float(p.in()) && p.bits() <= pair_bits;
  const std::size_t matrices = made->layout.count(),
                    all = matrices * made->panels * made->panel_size();
  made->high = new_integers(all);
  if (digits_of(p.bits()) == 2) made->low = new_integers(all);
  made->scales.resize(matrices * made->padded());
  made->specials.resize(matrices * made->padded());
  const panel_maker maker(*made, kernels);
  parallel_for(matrices * made->panels, threads_for(opts, all * sizeof(std::int32_t)),
               [&](std::size_t i) { maker.make(i / made->panels, i % made->panels); });
  made->any_special =
      std::find(made->specials.begin(), made->specials.end(), 1) != made->specials.end();
  return made;
}

prepared::prepared(const matrix_product& p, side s, const view& x, const options& opts) {
  if (!has_integers(p))
    throw error(
        errc::usage,
        "product: only operands of method fixed are prepared, and no integers of 64 bits or u32");
  check_type(p, x, "x");
  made_ = make_integers(p, s, x, opts);
}
prepared::prepared(prepared&&) noexcept = default;
prepared& prepared::operator=(prepared&&) noexcept = default;
prepared::~prepared() = default;
const matrix_product& prepared::product() const { return made_->product; }
const view& prepared::of() const { return made_->of; }
std::size_t prepared::bytes() const {
  const std::size_t n = made_->layout.count() * made_->panels * made_->panel_size();
  return n * (made_->low ? 8 : 4) + made_->scales.size() * (sizeof(int) + 1);
}

}  // namespace bitfold::cpu
