// Operands of products of matrices as kernels take them: panels of integers.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include <bitfold/matmul.hpp>

#include "../products.hpp"
#include "products.hpp"

namespace bitfold::cpu {

struct free_aligned {
  void operator()(void* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using integer_array = std::unique_ptr<std::int32_t[], free_aligned>;

/// Panels of rows or columns, one matrix after the other, each with all its terms: of an operand,
/// or of a part of it.
struct prepared::integers {
  /// `directly`: for direct_sums.
  enum class way { by_vectors, by_amx, directly };

  integers(const matrix_product& p, cpu::side s, const detail::operand_layout& x, target t, way w);

  matrix_product product;
  cpu::side side;
  detail::operand_layout layout;
  target used;
  int width = 0;           ///< vectors of a panel
  std::size_t panels = 0;  ///< of a matrix
  way how;
  panel_kernels by;            ///< how they lie
  std::size_t first = 0;       ///< the panel with which a part begins, of those of all matrices
  integer_array high, low;     ///< low: where there are two digits
  std::vector<int> scales;     ///< of each vector, padded to whole panels
  std::vector<char> specials;  ///< whether an element is not finite
  bool any_special = false;

  std::size_t padded() const { return panels * static_cast<std::size_t>(width); }
  std::size_t all_panels() const { return layout.count() * panels; }
  /// Where a panel's term p begins: the first of some that lie together, or the end.
  std::size_t term_at(std::size_t p) const {
    const auto together = static_cast<std::size_t>(by.terms);
    const int words = side == side::left ? by.row_words : by.column_words;
    return (p + together - 1) / together * static_cast<std::size_t>(words * width);
  }
  std::size_t panel_size() const { return term_at(layout.n); }
  std::size_t panel_at(std::size_t matrix, std::size_t panel) const {
    return (matrix * panels + panel - first) * panel_size();
  }
  std::size_t vector_at(std::size_t matrix, std::size_t vector) const {
    return matrix * padded() + vector - first * static_cast<std::size_t>(width);
  }
  std::size_t bytes_of_panel() const { return panel_size() * (two_digits() ? 8 : 4); }
  bool two_digits() const { return digits_of(product.bits()) == 2; }

  /// Room for so many panels, and for what is noted of their vectors alone.
  void make_room(std::size_t count);
  void make_notes(std::size_t count);
  /// Makes the panels from `begin` on, for which there is room.
  void make_part(std::size_t begin, std::size_t count);
  /// All of them, in room of their own.
  void make_all(const options& opts);
  void note_specials();
};

/// The faster way of such products.
prepared::integers::way way_of(const matrix_product& p, target t, std::uint64_t rows,
                               std::uint64_t columns, std::uint64_t terms);

/// Whether vectors are read side by side: there are more neighbours among them than among the
/// elements of one.
bool are_side_by_side(const detail::operand_layout& l);

/// Of a row of integers, in one digit, the sums with some columns, whose own integers are kept
/// nowhere.
class direct_sums {
 public:
  struct columns {
    std::size_t first, count;  ///< of a matrix
  };
  /// What is noted of a block's columns goes to `to`, whose `first` is the first of them.
  explicit direct_sums(prepared::integers& to);
  ~direct_sums();
  /// `high`, `low`, and what is noted, have room for direct_kernels::least_columns at least.
  void add_up(std::size_t matrix, columns of, const std::int32_t* row, std::int64_t* high,
              std::int64_t* low);
  /// The same of each column and of a row of its own, whose term p is at rows[p * pitch + c]: of
  /// columns that are read side by side. `rows` goes on for as many terms behind its last one.
  void add_up_each(std::size_t matrix, columns of, const std::int32_t* rows, std::size_t pitch,
                   std::int64_t* high, std::int64_t* low);
  /// Whether a target has them for such operands.
  static bool are_there(const matrix_product& p, target t);

 private:
  std::unique_ptr<class panel_maker> maker_;
};

/// The columns of a matrix in blocks of at most `most`: of whole lines of neighbours, or of a part
/// of one, where these are long enough to be taken as they lie.
class direct_blocks {
 public:
  direct_blocks(const prepared::integers& of, std::size_t most);
  std::size_t size() const { return count_; }
  direct_sums::columns operator[](std::size_t i) const;

 private:
  std::size_t vectors_, most_, count_, pieces_ = 1;
};

/// Whether products go by kernels: those of floats by `fixed`, and of integers that fit 32 bits.
inline bool has_integers(const matrix_product& p) {
  return !p.method() && (is_float(p.in()) || (size_of(p.in()) <= 4 && p.in() != dtype::u32));
}

}  // namespace bitfold::cpu
