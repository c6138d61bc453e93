// What is done once for each operand: its scales, and its integers, panel by panel.
#include "product_operands.hpp"

#include <algorithm>
#include <cstring>

#include <bitfold/product_sum.hpp>

#include "../strided.hpp"

namespace bitfold::cpu {
namespace {

using integers = prepared::integers;

integer_array new_integers(std::size_t n) {
  return integer_array(static_cast<std::int32_t*>(
      ::operator new[](std::max<std::size_t>(n, 1) * sizeof(std::int32_t), std::align_val_t{64})));
}

}  // namespace

// Makes panels: reads their vectors, measures them, and interleaves their integers, or multiplies
// these at once.
class panel_maker {
 public:
  explicit panel_maker(integers& to)
      : to_(to),
        kernels_(find_product_kernels(to.used)),
        elements_(kernels_.elements(to.layout.type)),
        direct_(kernels_.direct ? kernels_.direct(to.layout.type) : direct_kernels{}),
        whole_(to.pairs ? new_integers(width() * to.layout.n) : nullptr) {}

  // `panel`: of those of all matrices.
  void make(std::size_t panel) {
    const std::size_t matrix = panel / to_.panels, at = panel % to_.panels,
                      place = to_.panel_at(matrix, at);
    std::int32_t* const to = to_.high.get() + place;
    if (!to_.pairs) return make(matrix, at, to, to_.low ? to_.low.get() + place : nullptr);
    make(matrix, at, whole_.get(), nullptr);
    const auto pack =
        to_.side == side::left ? kernels_.pairs.pack_rows : kernels_.pairs.pack_columns;
    pack(whole_.get(), to_.layout.n, to);
  }

  void add_up(std::size_t panel, const std::int32_t* row, std::int64_t* high, std::int64_t* low) {
    const detail::operand_layout& l = to_.layout;
    const std::size_t matrix = panel / to_.panels, first = panel % to_.panels * width(),
                      count = std::min(width(), l.vectors - first),
                      at = to_.vector_at(matrix, first),
                      run = std::size_t{1} << std::min(63 - 2 * (to_.product.bits() - 1), 30);
    if (l.n == 0) {
      std::fill_n(high, count, 0);
      std::fill_n(low, count, 0);
    } else if (l.vector_stride == 1 && l.vectors > 1) {
      const std::byte* x = l.address(matrix, first, 0);
      std::int64_t stride = l.element_stride;
      if (count < width()) {
        x = padded(matrix, first, count);
        stride = static_cast<std::int64_t>(width());
      }
      measure_across(x, stride, at);
      direct_.across(row, x, stride, l.n, &to_.scales[at], run, high, low);
    } else {
      find(matrix, first, count);
      for (std::size_t v = 0; v < count; ++v) {
        note(at + v, elements_.measure(vectors_[v], l.n));
        direct_.along(row, vectors_[v], l.n, to_.scales[at + v], run, high + v, low + v);
      }
    }
  }

 private:
  // Its integers of 32 bits, in one digit or in two.
  void make(std::size_t matrix, std::size_t panel, std::int32_t* high, std::int32_t* low) {
    const detail::operand_layout& l = to_.layout;
    const std::size_t first = panel * width(), count = std::min(width(), l.vectors - first),
                      at = to_.vector_at(matrix, first);
    if (to_.side == side::right && elements_.measure_across && l.vector_stride == 1 &&
        count == width() && l.n > 1) {
      const void* const x = l.address(matrix, first, 0);
      measure_across(x, l.element_stride, at);
      elements_.scale_across(x, l.element_stride, l.n, &to_.scales[at], high, low);
      return;
    }
    find(matrix, first, count);
    if (is_float(l.type))  // integers are as they are
      for (std::size_t v = 0; v < count; ++v) note(at + v, elements_.measure(vectors_[v], l.n));
    interleave(at, high, low);
  }

  std::size_t width() const { return static_cast<std::size_t>(to_.width); }
  void note(std::size_t vector, const magnitudes& m) const {
    to_.scales[vector] = product::scale_of(m.largest, to_.product.bits());
    to_.specials[vector] = m.special;
  }

  void measure_across(const void* x, std::ptrdiff_t stride, std::size_t at) const {
    elements_.measure_across(x, stride, to_.layout.n, to_.product.bits(), &to_.scales[at],
                             &to_.specials[at]);
  }

  // Vectors, each with its elements one behind the other.
  void find(std::size_t matrix, std::size_t first, std::size_t count) {
    const detail::operand_layout& l = to_.layout;
    vectors_.resize(count);
    if (l.element_stride == 1 || l.n <= 1)
      for (std::size_t v = 0; v < count; ++v) vectors_[v] = l.address(matrix, first + v, 0);
    else
      copy(matrix, first, count);
  }

  // A panel's neighbours that are fewer than it has room for, and zeros beside them.
  const std::byte* padded(std::size_t matrix, std::size_t first, std::size_t count) {
    const detail::operand_layout& l = to_.layout;
    const std::size_t size = size_of(l.type), pitch = width() * size;
    copies_.assign(l.n * pitch, std::byte{0});
    for (std::size_t p = 0; p < l.n; ++p)
      std::memcpy(&copies_[p * pitch], l.address(matrix, first, p), count * size);
    return copies_.data();
  }

  void copy(std::size_t matrix, std::size_t first, std::size_t count) {
    const detail::operand_layout& l = to_.layout;
    const std::size_t pitch = l.n * size_of(l.type);
    copies_.resize(count * pitch);
    detail::axes vectors, elements;
    vectors.dims[vectors.rank++] = {count, l.vector_stride, 0};
    elements.dims[elements.rank++] = {l.n, l.element_stride, 0};
    const detail::strided_matrix all{l.type, l.address(matrix, first, 0), &detail::axes::axis::x,
                                     vectors, elements};
    all.copy(0, count, 0, l.n, copies_.data(), pitch);
    for (std::size_t v = 0; v < count; ++v) vectors_[v] = copies_.data() + v * pitch;
  }

  // Some vectors at a time, of a few elements each, which the first cache holds with their places.
  void interleave(std::size_t at, std::int32_t* high, std::int32_t* low) const {
    constexpr std::size_t at_once = 64;
    alignas(64) std::int32_t highs[max_interleaved * at_once], lows[max_interleaved * at_once];
    const std::size_t n = to_.layout.n, size = size_of(to_.layout.type);
    for (std::size_t begin = 0; begin < n; begin += at_once) {
      const std::size_t count = std::min(at_once, n - begin);
      for (std::size_t first = 0; first < width(); first += max_interleaved) {
        const std::size_t some = std::min(max_interleaved, width() - first);
        for (std::size_t v = 0; v < some; ++v) {
          std::int32_t *const h = highs + v * at_once, *const l = lows + v * at_once;
          if (first + v < vectors_.size()) {
            elements_.scale(vectors_[first + v] + begin * size, count, to_.scales[at + first + v],
                            h, low ? l : nullptr);
          } else {
            std::fill_n(h, count, 0);
            std::fill_n(l, count, 0);
          }
        }
        const std::size_t place = begin * width() + first;
        kernels_.interleave(highs, some, at_once, count, high + place, width());
        if (low) kernels_.interleave(lows, some, at_once, count, low + place, width());
      }
    }
  }

  integers& to_;
  const product_kernels kernels_;
  const product_elements elements_;
  const direct_kernels direct_;
  // Used for each panel anew.
  const integer_array whole_;
  std::vector<std::byte> copies_;
  std::vector<const std::byte*> vectors_;
};

direct_sums::direct_sums(integers& to) : maker_(std::make_unique<panel_maker>(to)) {}
direct_sums::~direct_sums() = default;
void direct_sums::add_up(std::size_t panel, const std::int32_t* row, std::int64_t* high,
                         std::int64_t* low) {
  maker_->add_up(panel, row, high, low);
}
bool direct_sums::are_there(const matrix_product& p, target t) {
  const product_kernels kernels = find_product_kernels(t);
  return kernels.direct && kernels.direct(p.in()).along && digits_of(p.bits()) == 1;
}

integers::integers(const matrix_product& p, cpu::side s, const view& x, target t, bool direct)
    : product(p), side(s), of(x), layout(detail::layout_of(x, s == side::left)), used(t) {
  const product_kernels kernels = find_product_kernels(t);
  width = s == side::right ? kernels.tile_columns : direct ? 1 : kernels.tile_rows;
  panels = (layout.vectors + static_cast<std::size_t>(width) - 1) / static_cast<std::size_t>(width);
  pairs = !direct && kernels.pairs.add && is_float(p.in()) && p.bits() <= pair_bits;
}

void integers::make_room(std::size_t count) {
  high = new_integers(count * panel_size());
  if (two_digits()) low = new_integers(count * panel_size());
  make_notes(count);
}

void integers::make_notes(std::size_t count) {
  scales.assign(count * static_cast<std::size_t>(width), 0);
  specials.assign(count * static_cast<std::size_t>(width), 0);
}

void integers::make_part(std::size_t begin, std::size_t count) {
  first = begin;
  std::fill(scales.begin(), scales.end(), 0);
  std::fill(specials.begin(), specials.end(), 0);
  panel_maker maker(*this);
  for (std::size_t i = 0; i < count; ++i) maker.make(begin + i);
  note_specials();
}

void integers::make_all(const options& opts) {
  const std::size_t count = all_panels();
  make_room(count);
  const int threads = threads_for(opts, count * bytes_of_panel());
  const std::size_t tasks = std::min(count, chunk_count(threads));
  parallel_for(tasks, threads, [&](std::size_t task) {
    panel_maker maker(*this);
    for (std::size_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) maker.make(i);
  });
  note_specials();
}

void integers::note_specials() {
  any_special = std::find(specials.begin(), specials.end(), 1) != specials.end();
}

prepared::prepared(const matrix_product& p, side s, const view& x, const options& opts) {
  if (!has_integers(p))
    throw error(
        errc::usage,
        "product: only operands of method fixed are prepared, and no integers of 64 bits or u32");
  detail::expect_type(p, x, "x");
  made_ = std::make_unique<integers>(p, s, x, resolve_target(opts));
  made_->make_all(opts);
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
