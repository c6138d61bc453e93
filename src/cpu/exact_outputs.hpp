// Exact sums of many short outputs: in doubles, by plain additions of which none is rounded, as the
// processor's flag tells (docs/exact.md). Others are added as anything.
#pragma once

#include "work.hpp"

namespace bitfold::cpu {

/// Of outputs whose elements lie one behind the other, on one thread: some at a time.
class exact_rows {
 public:
  explicit exact_rows(const work& w) : w_(w) {}

  /// Elements that stay there until flush().
  void add(std::uint64_t output, element_row row) {
    if (count_ == max_rows || elements_ + row.n > max_elements || output != first_ + count_)
      flush();
    if (count_ == 0) first_ = output;
    rows_[count_++] = row;
    elements_ += row.n;
  }
  void flush();
  /// An output alone, whatever its elements are.
  void put_any(std::uint64_t output, element_row row) const;

 private:
  static constexpr std::size_t max_rows = 64, max_elements = tile_elements;

  const work& w_;
  element_row rows_[max_rows];
  std::uint64_t first_ = 0;  // output
  std::size_t count_ = 0, elements_ = 0;
  int missed_ = 0, skipped_ = 0;  // flushes without doubles: the last time, and left
};

/// Whether outputs lie side by side, so that vectors of them are summed where they are.
bool are_exact_columns(const detail::layout& l);
void run_exact_columns(const work& w, const detail::layout& l, int threads);
/// Contiguous outputs of a tile at most.
void run_exact_rows(const work& w, const detail::layout& l, int threads);

}  // namespace bitfold::cpu
