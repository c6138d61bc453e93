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

// How many elements follow one another along the last axis.
std::uint64_t neighbours_along(const detail::axes& a) {
  return a.rank == 0 || a.dims[a.rank - 1].x != 1 ? 1 : a.dims[a.rank - 1].extent;
}

}  // namespace

bool are_side_by_side(const detail::operand_layout& l) {
  constexpr std::uint64_t least = 4;
  const std::uint64_t n = neighbours_along(l.along);
  return l.n > 1 && n > neighbours_along(l.elements) && (n >= least || l.is_strided());
}

// Makes panels: reads their vectors, measures them, and interleaves their integers, or multiplies
// these at once.
class panel_maker {
 public:
  explicit panel_maker(integers& to)
      : to_(to),
        kernels_(find_product_kernels(to.used)),
        elements_(kernels_.elements(to.layout.type)),
        direct_(kernels_.direct ? kernels_.direct(to.layout.type) : direct_kernels{}),
        pack_(to.side == side::left ? to.by.pack_rows : to.by.pack_columns),
        pack_vectors_(to.side == side::left ? to.by.pack_row_vectors : to.by.pack_column_vectors),
        unpacked_(pack_ || pack_vectors_ ? new_integers(2 * width() * packed_at_once) : nullptr) {}

  // `panel`: of those of all matrices.
  void make(std::size_t panel) {
    const detail::operand_layout& l = to_.layout;
    const auto [matrix, first, count, at] = vectors_of(panel);
    if (to_.side == side::right && elements_.measure_across && are_side_by_side(l)) {
      const auto [x, places] = side_by_side(matrix, first, count, width());
      measure_across(x, places, at);
      const std::size_t most = pack_ ? packed_at_once : std::max<std::size_t>(l.n, 1);
      for (std::size_t begin = 0; begin < l.n; begin += most) {
        const std::size_t n = std::min(most, l.n - begin);
        const integers_at to = room_for(panel, begin);
        elements_.scale_across(x, places + begin, n, &to_.scales[at], to.high, to.low);
        pack(panel, begin, n);
      }
      return;
    }
    const bool is_measured = is_float(l.type);  // integers are as they are
    if (is_measured) measure(matrix, first, count);
    for_each_part(
        matrix, first, count, is_measured, [&, at = at](std::size_t begin, std::size_t n) {
          pack_vectors_ ? make_packed(panel, at, begin, n) : make_interleaved(panel, at, begin, n);
        });
  }

  /// Of columns of a matrix, the sums with a row, or with a row each: see neighbour_columns.
  void add_up(std::size_t matrix, direct_sums::columns of, const std::int32_t* row,
              std::int64_t* high, std::int64_t* low) {
    const detail::operand_layout& l = to_.layout;
    // (What is done once for each of short vectors would take longer than laying them side by
    // side.)
    if (are_side_by_side(l) || (l.n > 0 && l.n <= longest_copied))
      return add_up_across(direct_.across, matrix, of, row, 1, high, low);
    const std::size_t at = to_.vector_at(matrix, of.first);
    std::fill_n(high, of.count, 0);
    std::fill_n(low, of.count, 0);
    // A vector that lies in a row is multiplied as soon as it is measured: a cache still has it.
    const bool in_turn = lie_in_rows();
    if (!in_turn) measure(matrix, of.first, of.count);
    for_each_part(matrix, of.first, of.count, !in_turn, [&](std::size_t begin, std::size_t n) {
      for (std::size_t v = 0; v < of.count; ++v) {
        if (in_turn) {
          note(at + v, elements_.measure(vectors_[v], n));
          if (v + 1 < of.count) ask_for(vectors_[v + 1], n * size_of(to_.layout.type));
        }
        std::int64_t some_high, some_low;
        direct_.along(row + begin, vectors_[v], n, to_.scales[at + v], run(), &some_high,
                      &some_low);
        high[v] += some_high;
        low[v] += some_low;
      }
    });
  }
  void add_up_each(std::size_t matrix, direct_sums::columns of, const std::int32_t* rows,
                   std::size_t pitch, std::int64_t* high, std::int64_t* low) {
    add_up_across(direct_.across_each, matrix, of, rows, pitch, high, low);
  }

 private:
  struct panel_vectors {
    std::size_t matrix, first, count, at;  // at: of what is noted
  };
  panel_vectors vectors_of(std::size_t panel) const {
    const std::size_t matrix = panel / to_.panels, first = panel % to_.panels * width();
    return {matrix, first, std::min(width(), to_.layout.vectors - first),
            to_.vector_at(matrix, first)};
  }
  // Of terms whose sum fits 64 bits.
  std::size_t run() const {
    return std::size_t{1} << std::min(63 - 2 * (to_.product.bits() - 1), 30);
  }
  void add_up_across(direct_kernels::of_columns add, std::size_t matrix, direct_sums::columns of,
                     const std::int32_t* row, std::size_t pitch, std::int64_t* high,
                     std::int64_t* low) {
    const bool of_each = add == direct_.across_each;
    const std::size_t line = neighbours_along(to_.layout.along), least = direct_.least_columns,
                      step = line < least ? of.count : line, at = to_.vector_at(matrix, of.first);
    for (std::size_t done = 0; done < of.count; done += step) {
      const std::size_t first = of.first + done, count = std::min(step, of.count - done);
      const auto [x, places] = side_by_side(matrix, first, count, least);
      add({x, places, to_.layout.n, std::max(count, least), row + (of_each ? done : 0), pitch},
          to_.product.bits(), run(),
          {&to_.scales[at + done], &to_.specials[at + done], high + done, low + done});
    }
  }

  // Integers in one digit, whose low one is null, or in two.
  struct integers_at {
    std::int32_t *high, *low;
  };
  // Where a panel's integers are kept from a term on, and where they are made.
  integers_at place_of(std::size_t panel, std::size_t term) const {
    const std::size_t place = to_.panel_at(0, panel) + to_.term_at(term);
    return {to_.high.get() + place, to_.low ? to_.low.get() + place : nullptr};
  }
  integers_at unpacked() const {
    return {unpacked_.get(), to_.low ? unpacked_.get() + width() * packed_at_once : nullptr};
  }
  integers_at room_for(std::size_t panel, std::size_t term) const {
    return pack_ ? unpacked() : place_of(panel, term);
  }
  // Of n terms that were made there.
  void pack(std::size_t panel, std::size_t term, std::size_t n) const {
    if (!pack_) return;
    const integers_at from = unpacked(), to = place_of(panel, term);
    pack_(from.high, n, to.high);
    if (to.low) pack_(from.low, n, to.low);
  }

  std::size_t width() const { return static_cast<std::size_t>(to_.width); }
  bool lie_in_rows() const {
    const detail::operand_layout& l = to_.layout;
    return l.n <= 1 || (l.elements.rank == 1 && l.elements.dims[0].x == 1);
  }

  void measure_across(const void* x, const std::ptrdiff_t* places, std::size_t at) const {
    elements_.measure_across(x, places, to_.layout.n, to_.product.bits(), &to_.scales[at],
                             &to_.specials[at]);
  }
  void measure(std::size_t matrix, std::size_t first, std::size_t count) {
    measures_.assign(count, {});
    for_each_part(matrix, first, count, false, [&](std::size_t, std::size_t n) {
      for (std::size_t v = 0; v < count; ++v) {
        const magnitudes some = elements_.measure(vectors_[v], n);
        measures_[v].largest = std::max(measures_[v].largest, some.largest);
        measures_[v].special = measures_[v].special || some.special;
      }
    });
    const std::size_t at = to_.vector_at(matrix, first);
    for (std::size_t v = 0; v < count; ++v) note(at + v, measures_[v]);
  }
  void note(std::size_t at, const magnitudes& m) {
    to_.scales[at] = product::scale_of(m.largest, to_.product.bits());
    to_.specials[at] = m.special;
  }
  // So that the first of it are there when they are read.
  static void ask_for(const std::byte* x, std::size_t bytes) {
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 4096); i += 64)
      __builtin_prefetch(x + i, 0, 2);
  }

  // Vectors side by side: element p of vector v at x[places[p] + v]. Where they lie, or in a copy,
  // which has at least `least` of them: those that are not there are zeros.
  struct neighbours {
    const std::byte* x;
    const std::ptrdiff_t* places;
  };
  neighbours side_by_side(std::size_t matrix, std::size_t first, std::size_t count,
                          std::size_t least) {
    const detail::operand_layout& l = to_.layout;
    const auto size = static_cast<std::int64_t>(size_of(l.type));
    if (elements_at_.empty()) {
      elements_at_.resize(l.n);
      detail::offsets_of(l.elements, 0, l.n, elements_at_.data(), nullptr);
    }
    if (matrix != matrix_ || !first_of_matrix_) {
      matrix_ = matrix;
      first_of_matrix_ = l.address(matrix, 0, 0);
    }
    const std::uint64_t most = neighbours_along(l.along);
    if (count >= least && first % most + count <= most)
      return {first_of_matrix_ + l.along.offset_of(first).x * size, elements_at_.data()};
    const std::size_t pitch = std::max(count, least), bytes = l.n * pitch * size_of(l.type);
    if (count == pitch)
      copies_.resize(bytes);
    else
      copies_.assign(bytes, std::byte{0});
    detail::with_bits(l.type, [&]<class T>(T) {
      copy_neighbours(reinterpret_cast<const T*>(first_of_matrix_), first, count,
                      reinterpret_cast<T*>(copies_.data()), pitch);
    });
    copies_at_.resize(l.n);
    for (std::size_t p = 0; p < l.n; ++p) copies_at_[p] = static_cast<std::ptrdiff_t>(p * pitch);
    return {copies_.data(), copies_at_.data()};
  }
  template <class T>
  void copy_neighbours(const T* from, std::size_t first, std::size_t count, T* to,
                       std::size_t pitch) {
    constexpr std::size_t at_once = 256;  // elements, whose copies stay in the cache
    const detail::operand_layout& l = to_.layout;
    places_.resize(count);
    detail::offsets_of(l.along, first, count, places_.data(), nullptr);
    for (std::size_t begin = 0; begin < l.n; begin += at_once)
      for (std::size_t v = 0, end; v < count; v = end) {
        for (end = v + 1; end < count && places_[end] == places_[end - 1] + 1;) ++end;
        const std::size_t n = std::min(begin + at_once, l.n);
        if (end == v + 1)
          for (std::size_t p = begin; p < n; ++p)
            std::memcpy(to + p * pitch + v, from + places_[v] + elements_at_[p], sizeof(T));
        else
          for (std::size_t p = begin; p < n; ++p)
            copy_run(from + places_[v] + elements_at_[p], end - v, to + p * pitch + v);
      }
  }
  // Of any alignment. A few elements, for which memcpy as a function would take longer.
  template <class T>
  static void copy_run(const T* from, std::size_t n, T* to) {
    constexpr std::size_t block = 16 / sizeof(T);
    if (n < block) {
      for (std::size_t i = 0; i < n; ++i) std::memcpy(to + i, from + i, sizeof(T));
      return;
    }
    for (std::size_t i = 0; i + block < n; i += block) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + n - block, from + n - block, 16);
  }

  // Calls f(begin, n) for parts of some vectors, whose elements begin, ..., begin + n - 1 then lie
  // one behind the other at vectors_: where they do, or in a copy that a cache holds. `again`: the
  // last call was for the same vectors.
  template <class F>
  void for_each_part(std::size_t matrix, std::size_t first, std::size_t count, bool again, F&& f) {
    constexpr std::size_t most_bytes = std::size_t{1} << 18;
    const detail::operand_layout& l = to_.layout;
    vectors_.resize(count);
    if (lie_in_rows()) {
      for (std::size_t v = 0; v < count; ++v) vectors_[v] = l.address(matrix, first + v, 0);
      return f(0, l.n);
    }
    const std::size_t size = size_of(l.type),
                      most = std::max<std::size_t>(most_bytes / (count * size) / 64 * 64, 64),
                      pitch = std::min(most, l.n) * size;
    copies_.resize(count * pitch);
    for (std::size_t v = 0; v < count; ++v) vectors_[v] = copies_.data() + v * pitch;
    const detail::strided_matrix all{l.type, l.address(matrix, 0, 0), &detail::axes::axis::x,
                                     l.along, l.elements};
    for (std::size_t begin = 0; begin < l.n; begin += most) {
      const std::size_t n = std::min(most, l.n - begin);
      if (!again || l.n > most) all.copy(first, count, begin, n, copies_.data(), pitch);
      f(begin, n);
    }
  }

  // Of vectors_, some at a time, and of each a few elements, which the first cache holds with their
  // places.
  void make_interleaved(std::size_t panel, std::size_t at, std::size_t first_term,
                        std::size_t n) const {
    constexpr std::size_t at_once = terms_at_once;
    alignas(64) std::int32_t highs[max_interleaved * at_once], lows[max_interleaved * at_once];
    const std::size_t size = size_of(to_.layout.type);
    for (std::size_t begin = 0; begin < n; begin += at_once) {
      const std::size_t count = std::min(at_once, n - begin);
      const integers_at to = room_for(panel, first_term + begin);
      for (std::size_t first = 0; first < width(); first += max_interleaved) {
        const std::size_t some = std::min(max_interleaved, width() - first);
        for (std::size_t v = 0; v < some; ++v) {
          std::int32_t *const h = highs + v * at_once, *const l = lows + v * at_once;
          if (first + v < vectors_.size()) {
            elements_.scale(vectors_[first + v] + begin * size, count, to_.scales[at + first + v],
                            h, to.low ? l : nullptr);
          } else {
            std::fill_n(h, count, 0);
            std::fill_n(l, count, 0);
          }
        }
        kernels_.interleave(highs, some, at_once, count, to.high + first, width());
        if (to.low) kernels_.interleave(lows, some, at_once, count, to.low + first, width());
      }
      pack(panel, first_term + begin, count);
    }
  }

  // The same without interleaving them.
  void make_packed(std::size_t panel, std::size_t at, std::size_t first_term, std::size_t n) const {
    const auto together = static_cast<std::size_t>(to_.by.terms);
    const std::size_t size = size_of(to_.layout.type);
    const auto [high, low] = unpacked();
    for (std::size_t begin = 0; begin < n; begin += together) {
      const std::size_t count = std::min(together, n - begin);
      if (count < together || vectors_.size() < width())
        for (std::int32_t* const x : {high, low})
          if (x) std::fill_n(x, width() * together, 0);
      for (std::size_t v = 0; v < vectors_.size(); ++v)
        elements_.scale(vectors_[v] + begin * size, count, to_.scales[at + v], high + v * together,
                        low ? low + v * together : nullptr);
      const integers_at to = place_of(panel, first_term + begin);
      pack_vectors_(high, to.high);
      if (low) pack_vectors_(low, to.low);
    }
  }

  integers& to_;
  const product_kernels kernels_;
  const product_elements elements_;
  const direct_kernels direct_;
  const panel_kernels::packer pack_;
  const panel_kernels::vector_packer pack_vectors_;
  static constexpr std::size_t packed_at_once = 2 * terms_at_once;  // which a cache holds
  static constexpr std::size_t longest_copied = 24;
  // Used for each panel anew.
  const integer_array unpacked_;  ///< high ones, then low ones
  std::vector<std::byte> copies_;
  std::vector<const std::byte*> vectors_;
  std::vector<magnitudes> measures_;
  std::size_t matrix_ = 0;
  const std::byte* first_of_matrix_ = nullptr;           ///< null before there is any
  std::vector<std::ptrdiff_t> places_;                   ///< of vectors
  std::vector<std::ptrdiff_t> elements_at_, copies_at_;  ///< of their elements, from there
};

direct_blocks::direct_blocks(const integers& of, std::size_t most)
    : vectors_(of.layout.vectors), most_(most), count_((vectors_ - 1) / most + 1) {
  const std::size_t line = neighbours_along(of.layout.along);
  if (line < find_product_kernels(of.used).direct(of.layout.type).least_columns) return;
  pieces_ = (line - 1) / most + 1;
  most_ = pieces_ > 1 ? line : most / line * line;
  count_ = ((vectors_ - 1) / most_ + 1) * pieces_;
}
direct_sums::columns direct_blocks::operator[](std::size_t i) const {
  const std::size_t first = i / pieces_ * most_, count = std::min(most_, vectors_ - first),
                    piece = i % pieces_, begin = count * piece / pieces_;
  return {first + begin, count * (piece + 1) / pieces_ - begin};
}

direct_sums::direct_sums(integers& to) : maker_(std::make_unique<panel_maker>(to)) {}
direct_sums::~direct_sums() = default;
void direct_sums::add_up(std::size_t matrix, columns of, const std::int32_t* row,
                         std::int64_t* high, std::int64_t* low) {
  maker_->add_up(matrix, of, row, high, low);
}
void direct_sums::add_up_each(std::size_t matrix, columns of, const std::int32_t* rows,
                              std::size_t pitch, std::int64_t* high, std::int64_t* low) {
  maker_->add_up_each(matrix, of, rows, pitch, high, low);
}
bool direct_sums::are_there(const matrix_product& p, target t) {
  const product_kernels kernels = find_product_kernels(t);
  return kernels.direct && kernels.direct(p.in()).along && digits_of(p.bits()) == 1;
}

integers::way way_of(const matrix_product& p, target t, std::uint64_t rows, std::uint64_t columns,
                     std::uint64_t terms) {
  if (t != target::avx512 || !is_float(p.in()) || !find_amx_kernels(1, rows).add ||
      find_product_kernels(t).tile_columns != amx_columns)
    return integers::way::by_vectors;
  // Of what whole tiles hold at least a half is wanted.
  const auto whole = [](std::uint64_t n, std::uint64_t of) {
    return n == 0 ? 0
                  : static_cast<double>((n - 1) / of + 1) * static_cast<double>(of) /
                        static_cast<double>(n);
  };
  return whole(rows, 16) * whole(columns, amx_columns) * whole(terms, 64) <= 2
             ? integers::way::by_amx
             : integers::way::by_vectors;
}

integers::integers(const matrix_product& p, cpu::side s, const detail::operand_layout& x, target t,
                   way w)
    : product(p), side(s), layout(x), used(t), how(w) {
  const product_kernels kernels = find_product_kernels(t);
  by = kernels.panels;
  if (how == way::by_amx)
    by = find_amx_kernels(std::min(p.bits(), digit_bits), s == side::left ? x.vectors : 0);
  else if (how == way::by_vectors && kernels.pairs.add && is_float(p.in()) && p.bits() <= pair_bits)
    by = kernels.pairs;
  width = how == way::directly ? 1 : s == side::right ? kernels.tile_columns : by.tile_rows;
  panels = (layout.vectors + static_cast<std::size_t>(width) - 1) / static_cast<std::size_t>(width);
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

prepared::prepared(const matrix_product& p, side s, const view& x, const options& opts) : of_(x) {
  if (!has_integers(p))
    throw error(
        errc::usage,
        "product: only operands of method fixed are prepared, and no integers of 64 bits or u32");
  detail::expect_type(p, x, "x");
  const target t = resolve_target(opts);
  const detail::operand_layout l = detail::layout_of(x, s == side::left);
  // Its terms alone decide, as the other operand may have any number of vectors, and be prepared,
  // too.
  const integers::way how = way_of(p, t, amx_columns, amx_columns, l.n);
  made_ = std::make_unique<integers>(p, s, l, t, how);
  made_->make_all(opts);
}
prepared::prepared(prepared&&) noexcept = default;
prepared& prepared::operator=(prepared&&) noexcept = default;
prepared::~prepared() = default;
const matrix_product& prepared::product() const { return made_->product; }
const view& prepared::of() const { return of_; }
std::size_t prepared::bytes() const {
  const std::size_t n = made_->layout.count() * made_->panels * made_->panel_size();
  return n * (made_->low ? 8 : 4) + made_->scales.size() * (sizeof(int) + 1);
}

}  // namespace bitfold::cpu
