// The elements of an output that do not lie in a row, a block at a time. Blocks are cut where they
// lie together in memory, so that every line of the cache is read once: they come in another order
// than the canonical one, but in whole leaves.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "../batch.hpp"
#include "task.hpp"

namespace bitfold::cpu {

/// One output's elements as a matrix whose rows follow each other: `rows` are the outer reduced
/// axes, `columns` the inner ones. Rows that are neighbours in memory make a block, of which some
/// columns at a time are brought together. Or, where the elements of the innermost axis are
/// neighbours, all is one row.
struct block_plan {
  dtype type;
  bool two;  ///< inputs
  bool
      gathered[2];  ///< of an input that there is: its elements do not all lie one behind the other
  order::index n;   ///< elements
  detail::axes rows, columns;
  order::index length;      ///< elements of a row
  order::index run;         ///< rows up to those that lie elsewhere
  order::index height;      ///< rows of a block, or fewer at the end of a run
  order::index runs;        ///< whole runs that make a block together, or 0: a part of one does
  order::index width;       ///< columns that are brought together
  order::index run_length;  ///< elements that lie one behind the other, where all is one row
  order::index blocks, ranges, range;  ///< ranges of so many columns, into which a block is cut

  bool one_row() const { return rows.rank == 0; }
  /// Whether the leaves of runs are folded where they lie.
  bool long_runs() const { return run_length >= 4 * order::leaf; }
  /// Whether a block is brought together with the whole of its rows.
  bool whole_rows() const { return !one_row() && width >= length; }
  order::index items() const { return blocks * ranges; }
  order::index row_count() const { return n / length; }
  struct interval {
    order::index begin, end;
  };
  interval rows_of(order::index block) const;
};

/// Whether outputs of this layout, which has elements that do not lie in a row, are best read in
/// blocks, one after the other: not where neighbouring outputs share lines of the cache.
bool are_blocks(const detail::layout& l);
/// Of outputs of this layout, of which each is shared among so many threads.
block_plan plan_blocks(const detail::layout& l, int threads);

/// Reads outputs' blocks on one thread, and keeps the memory that this takes.
class block_reader {
 public:
  /// max_leaves: a power of two.
  block_reader(const block_plan& p, order::index max_leaves) : p_(p), max_leaves_(max_leaves) {}

  /// Calls f(row, runs, first, n) for elements first, ..., first + n - 1, which are a node of at
  /// most max_leaves leaves, or all to the end: all items together have each once. Those of one row
  /// of the item come in order.
  template <class F>
  void read(detail::pointers output, order::index item, F f) {
    data_ = output;
    const order::index block = item / p_.ranges, range = item % p_.ranges;
    const order::index begin = range * p_.range,
                       end = range + 1 == p_.ranges ? p_.length : begin + p_.range;
    if (p_.one_row())
      read_row(begin, end, f);
    else if (p_.whole_rows())
      read_rows(p_.rows_of(block), f);
    else
      read_columns(p_.rows_of(block), begin, end, f);
  }

 private:
  static constexpr order::index leaf = order::leaf;

  std::size_t size() const { return size_of(p_.type); }
  /// Room for n elements of each input that is gathered.
  void reserve(order::index n) {
    if (room_ >= n) return;
    room_ = n;
    for (int k = 0; k < 2; ++k)
      if (p_.gathered[k])
        buffers_[k] = std::make_unique_for_overwrite<std::byte[]>(n * size() + 64);
  }
  /// Elements from `first` on, which were gathered from element i of the buffers on.
  inputs at(order::index i, order::index first) const {
    const auto input = [&](int k, const std::byte* data) {
      return p_.gathered[k] ? buffers_[k].get() + i * size() : data + first * size();
    };
    return {input(0, data_.x), p_.two ? input(1, data_.y) : nullptr};
  }
  /// Elements of `count` rows to the buffers from element `to` on.
  void gather(order::index row, order::index count, order::index first, order::index n,
              order::index to, order::index pitch) {
    for (int k = 0; k < 2; ++k)
      if (p_.gathered[k])
        detail::strided_matrix{p_.type, k ? data_.y : data_.x,
                               k ? &detail::axes::axis::y : &detail::axes::axis::x, p_.rows,
                               p_.columns}
            .copy(row, count, first, n, buffers_[k].get() + to * size(), pitch * size());
  }

  /// Memory is asked for n elements from `first` on of the input that is not gathered, if there is
  /// one: the next row of a block is too far away to be foreseen.
  void foresee(order::index first, order::index n) const {
    for (int k = 0; k < (p_.two ? 2 : 1); ++k)
      if (!p_.gathered[k])
        detail::foresee(reinterpret_cast<std::uintptr_t>(k ? data_.y : data_.x) + first * size(),
                        n * size());
  }

  /// How many of n elements from `first` on f takes at once.
  order::index node_of(order::index first, order::index n) const {
    const order::index at = first / leaf,
                       room = (at == 0 ? max_leaves_ : std::min(max_leaves_, at & -at)) * leaf;
    if (first + n == p_.n && n <= room) return n;
    return std::min(room, std::bit_floor(n / leaf) * leaf);
  }
  /// Elements that lie one behind the other.
  template <class F>
  void emit(order::index row, inputs data, order::index first, order::index n, F f) const {
    while (n > 0) {
      const order::index taken = node_of(first, n);
      const leaf_run run{data, taken / leaf};
      f(row, std::span(&run, 1), first, taken);
      data = offset(data, static_cast<std::ptrdiff_t>(taken * size()));
      first += taken;
      n -= taken;
    }
  }

  // All is one row: where runs are long, most leaves lie in place.
  template <class F>
  void read_row(order::index begin, order::index end, F f) {
    while (begin < end) {
      const order::index n = node_of(begin, end - begin);
      if (p_.long_runs()) {
        find_leaves(begin, n);
      } else {
        reserve(n);
        gather(0, 1, begin, n, 0, 0);
        runs_.assign(1, {at(0, begin), n / leaf});
      }
      f(order::index{0}, std::span<const leaf_run>(runs_), begin, n);
      begin += n;
    }
  }
  // The leaves that run on from one run of elements to the next are brought together.
  void find_leaves(order::index begin, order::index n) {
    const auto bytes = static_cast<std::int64_t>(size());
    const order::index end = begin + n;
    reserve((n / p_.run_length + 2) * leaf);
    runs_.clear();
    for (order::index i = begin, gathered = 0; i < end;) {
      const order::index left = std::min(end - i, p_.run_length - i % p_.run_length);
      order::index taken = i + left == p_.n ? left : left / leaf * leaf;
      if (taken > 0) {
        const auto o = p_.columns.offset_of(i);
        const inputs here{data_.x + o.x * bytes, p_.two ? data_.y + o.y * bytes : nullptr};
        foresee_begin(here);
        runs_.push_back({here, taken / leaf});
      } else {
        taken = std::min(end - i, leaf);
        gather(0, 1, i, taken, gathered, 0);
        runs_.push_back({at(gathered, i), taken / leaf});
        gathered += leaf;
      }
      i += taken;
    }
  }
  void foresee_begin(inputs run) const {
    constexpr std::size_t begin = 512;  // bytes, after which memory foresees the others
    detail::foresee(reinterpret_cast<std::uintptr_t>(run.x), begin);
    if (run.y) detail::foresee(reinterpret_cast<std::uintptr_t>(run.y), begin);
  }

  // Whole rows, and the elements behind them that end the last leaf.
  template <class F>
  void read_rows(block_plan::interval rows, F f) {
    const order::index begin = rows.begin * p_.length, end = rows.end * p_.length;
    const order::index first = std::min(order::leaf_count(begin) * leaf, p_.n),
                       to = std::min(order::leaf_count(end) * leaf, p_.n);
    if (first == to) return;
    reserve(to - begin);
    gather(rows.begin, rows.end - rows.begin, 0, p_.length, 0, p_.length);
    for (order::index i = end; i < to;) {
      const order::index taken = std::min(to - i, p_.length - i % p_.length);
      gather(i / p_.length, 1, i % p_.length, taken, i - begin, 0);
      i += taken;
    }
    emit(0, at(first - begin, first), first, to - first, f);
  }

  // Columns begin, ..., end - 1 of some rows; and, where leaves do not end with them, those behind
  // them. What is left over after whole leaves waits before the next columns of its row.
  template <class F>
  void read_columns(block_plan::interval rows, order::index begin, order::index end, F f) {
    const order::index count = rows.end - rows.begin, pitch = leaf + p_.width + leaf + 64 / size();
    reserve(count * pitch);
    for (order::index column = begin; column < end;) {
      const order::index left = end - column, taken = left < p_.width + leaf ? left : p_.width;
      gather(rows.begin, count, column, taken, leaf, pitch);
      for (order::index k = 0; k < count; ++k) {
        const order::index at_column = (rows.begin + k) * p_.length + column,
                           before = at_column % leaf, after = (at_column + taken) % leaf;
        const order::index from = column == begin ? leaf + (leaf - before) % leaf : leaf - before,
                           to = leaf + taken - after, start = k * pitch;
        foresee(at_column + p_.length, taken);
        if (from < to)
          emit(k, at(start + from, at_column + from - leaf), at_column + from - leaf, to - from, f);
        for (int input = 0; input < 2; ++input) {
          if (!p_.gathered[input]) continue;
          std::byte* const row = buffers_[input].get() + start * size();
          std::memmove(row + (leaf - after) * size(), row + to * size(), after * size());
        }
      }
      column += taken;
    }
    if (p_.length % leaf == 0 && end % leaf == 0) return;
    if (end < p_.length)
      gather(rows.begin, count, end, leaf - 1, leaf, pitch);
    else
      gather(rows.begin + 1, std::min(count, p_.row_count() - rows.begin - 1), 0, leaf - 1, leaf,
             pitch);
    for (order::index k = 0; k < count; ++k) {
      const order::index at_end = (rows.begin + k) * p_.length + end, waiting = at_end % leaf;
      if (waiting > 0)
        emit(k, at(k * pitch + leaf - waiting, at_end - waiting), at_end - waiting,
             waiting + std::min(leaf - waiting, p_.n - at_end), f);
    }
  }

  const block_plan& p_;
  detail::pointers data_{};
  const order::index max_leaves_;
  order::index room_ = 0;
  std::vector<leaf_run> runs_;
  std::unique_ptr<std::byte[]> buffers_[2];
};

}  // namespace bitfold::cpu
