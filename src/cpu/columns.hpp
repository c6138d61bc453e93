// Folds neighbouring outputs side by side, each in a lane of a vector (columns.inl). Columns are
// read in place, and widened lane by lane; other elements are first gathered into a tile, leaf by
// leaf, widened or transposed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../batch.hpp"
#include "task.hpp"

namespace bitfold::cpu {

struct column_plan {
  bool transposed;      ///< outputs lie in a row each, of one leaf; or else their elements of one
                        ///< number do
  int outputs;          ///< at once, in a strip
  order::index run;     ///< outputs that are neighbours in memory, which are cut into strips
  order::index strips;  ///< of all runs
  order::index chunk,
      chunks;           ///< elements of an output in a chunk, a complete subtree but for the last
  bool tiny = false;    ///< rows of so few elements that they are transposed as they are stored
  bool narrow = false;  ///< too few outputs are neighbours for vectors of them
  order::index apart = 0;         ///< the indices of the first elements of neighbouring outputs are
  order::index runs_at_once = 1,  ///< of which a strip is, where it is not a part of one,
      runs = 1;                   ///< of this many, which lie equally far apart

  struct strip {
    order::index first;
    int count;
  };
  strip strip_at(order::index s) const {
    const order::index width = runs_at_once > 1 ? runs_at_once * run
                                                : static_cast<order::index>(outputs),
                       length = runs * run, of_length = (length - 1) / width + 1,
                       begin = s % of_length * width;
    return {s / of_length * length + begin, static_cast<int>(std::min(width, length - begin))};
  }
};

/// Outputs at once that are brought together.
inline constexpr int max_columns = 256;
/// Shorter rows are transposed into columns.
inline constexpr order::index min_row = order::lanes;
/// Whether outputs of n elements in a row each are better folded several at once. Short ones are,
/// of which several fit into the first-level cache even when widened; so are longer ones that spend
/// most of their time in the tail.
inline bool are_short(std::span<const task> tasks, order::index n) {
  bool slow_tail = false, widened = false;
  for (const task& t : tasks) {
    if (!t.kernels.batch.rows) return false;
    slow_tail |= t.kernels.slow_tail;
    widened |= t.kernels.batch.widen_before() != nullptr;
  }
  return n < 2 * order::leaf ||
         (n < max_tailed_row && (!widened || (slow_tail && n % order::leaf > n / 8)));
}
/// Whether `outputs` longer ones are, too: what is done once for each of them is done for a vector
/// of them. Several tasks take them leaf by leaf, and threads that wait for a vector's last rows
/// lose more.
inline bool are_long_rows(std::span<const task> tasks, order::index n, order::index outputs,
                          int threads) {
  if (n < max_tailed_row || n >= max_row || tasks.size() != 1) return false;
  const batch_kernels& kernels = tasks[0].kernels.batch;
  if (!kernels.rows || kernels.widen_before()) return false;
  const auto at_once = static_cast<order::index>(kernels.width * threads),
             all = (outputs - 1) / at_once * at_once + at_once;
  return all - outputs <= outputs / 16;
}

/// Empty where outputs of this layout are not worth folding side by side.
inline std::optional<column_plan> plan_columns(std::span<const task> tasks, const detail::layout& l,
                                               int threads) {
  if (l.n == 0 || l.outputs < 2) return {};
  column_plan p{l.contiguous() && l.n < min_row, 0, l.outputs, 0, 0, 0};
  const auto& inner = l.kept.dims[l.kept.rank - 1];
  if (!p.transposed && (l.contiguous() || inner.x != 1 || (l.y && inner.y != 1))) return {};
  const std::size_t size = size_of(l.type);
  std::size_t element = size;
  bool widened = false;
  for (const task& t : tasks) {
    element = std::max(element, t.kernels.batch.element);
    widened |= t.kernels.batch.widen_before() != nullptr;
  }
  // To bring columns into rows costs by the byte, to widen them side by side by the element.
  const std::size_t min_width = widened ? 32 * element / size : column_width;
  p.narrow = !p.transposed && l.n >= 4 * order::leaf && inner.extent < min_width;
  p.tiny = p.transposed && l.n <= 8;
  if (p.tiny) {
    p.outputs = 1024;
  } else if (p.narrow) {
    p.run = inner.extent;
    p.outputs = static_cast<int>(p.run);
  } else if (!p.transposed && inner.extent >= column_width) {
    // A page wide, for the sake of prefetching; of several tasks, a leaf is read again from the
    // cache; and a widened lane stays in the first-level cache.
    const order::index lane = std::min<order::index>((l.n - 1) / order::lanes + 1, order::rows);
    std::size_t page = (tasks.size() == 1 ? 4096 : 1024) / element;
    if (widened) page = std::min(page, 16384 / (lane * element));
    p.run = inner.extent;
    const order::index of_run = (p.run - 1) / page + 1, vectors = (p.run - 1) / column_width + 1;
    p.outputs = static_cast<int>((vectors - 1) / of_run + 1) * column_width;
    if (of_run == 1 && l.kept.rank > 1) {  // or several runs
      const order::index rows = l.kept.dims[l.kept.rank - 2].extent,
                         share = l.outputs / p.run / chunk_count(threads),
                         at_once = std::min({rows, page / static_cast<order::index>(p.outputs),
                                             std::max<order::index>(1, share)});
      if (at_once > 1) {
        p.runs = rows;
        p.runs_at_once = (rows - 1) / ((rows - 1) / at_once + 1) + 1;
      }
    }
  } else {  // a tile in the second-level cache, as wide as can be
    const auto height = static_cast<int>(std::min<std::uint64_t>(l.n, order::leaf));
    p.outputs = std::clamp(65536 / height, std::max(column_width, 64 / static_cast<int>(size)),
                           max_columns);
  }
  p.strips = p.runs_at_once > 1
                 ? l.outputs / (p.runs * p.run) * ((p.runs - 1) / p.runs_at_once + 1)
                 : l.outputs / p.run * ((p.run - 1) / static_cast<order::index>(p.outputs) + 1);
  const order::index leaves = order::leaf_count(l.n);
  p.chunk = std::min(leaves, max_leaves);
  if (threads > 1) {
    const order::index share = leaves * p.strips / chunk_count(threads) + 1;
    p.chunk = std::min(p.chunk, std::max<order::index>(16, std::bit_ceil(share)));
  }
  p.chunks = (leaves - 1) / p.chunk + 1;
  p.chunk *= order::leaf;
  return p;
}

/// One output's elements as columns that follow each other in the canonical order, where these are
/// of whole leaves and neighbours in memory: their chunks are nodes of its tree. Empty where they
/// are not.
inline std::optional<column_plan> plan_joined_columns(std::span<const task> tasks,
                                                      const detail::layout& columns, int threads) {
  const order::index leaves = columns.n / order::leaf;
  if (columns.n % order::leaf != 0 || columns.kept.rank == 0) return {};
  const auto& inner = columns.kept.dims[columns.kept.rank - 1];
  if (inner.extent < static_cast<std::uint64_t>(column_width)) return {};
  auto p = plan_columns(tasks, columns, threads);
  if (!p) return {};
  p->chunk = std::min(p->chunk, (leaves & -leaves) * order::leaf);
  p->chunks = columns.n / p->chunk;
  p->apart = columns.n;
  return p;
}

/// Folds columns on one thread, and keeps the memory that this takes.
class column_worker {
 public:
  column_worker(std::span<const task> tasks, const detail::layout& l, const column_plan& p)
      : tasks_(tasks), l_(l), p_(p), size_(size_of(l_.type)), counters_(tasks.size()) {}

  /// Calls done(k, partials of tasks[k], one behind the other) for elements begin, ..., begin
  /// + n - 1 of outputs first, ..., first + outputs - 1.
  template <class Done>
  void run(order::index first, int outputs, order::index begin, order::index n, Done done) {
    find_outputs(first, outputs);
    const auto padded = [](int count) {
      return (count + column_width - 1) / column_width * column_width;
    };
    padded_outputs_ =
        is_in_place() ? static_cast<int>(runs_.size()) * padded(runs_[0].count) : padded(outputs);
    start(order::leaf_count(n));
    for (order::index i = 0; i < n; i += order::leaf) {
      const int size = static_cast<int>(std::min<order::index>(order::leaf, n - i));
      if (!p_.transposed && found_ != begin + i + 1) {
        detail::offsets_of(l_.reduced, begin + i, static_cast<order::index>(size), offsets_[0],
                           l_.y ? offsets_[1] : nullptr);
        found_ = begin + i + 1;
      }
      const batch_kernels* last = nullptr;
      for (std::size_t k = 0; k < tasks_.size(); ++k) {
        const batch_kernels& kernels = tasks_[k].kernels.batch;
        const int first_index = static_cast<int>(i);
        if (is_in_place() || p_.tiny) {  // as they are stored
          if (p_.tiny && k == 0) gather_tiny(first, size);
          const converter widen = kernels.widen_before();
          if (widen)
            widened_.resize(2 * order::rows * static_cast<std::size_t>(padded_outputs_) *
                            kernels.element);
          column_leaf leaf{tile_.data(),   tile_.data() + tile_.size() / 2,
                           tile_rows_,     tile_rows_,
                           size,           first_index,
                           widen,          size_,
                           widened_.data()};
          if (!p_.tiny) {
            leaf.x = runs_[0].x, leaf.x_rows = offsets_[0];
            leaf.y = runs_[0].y, leaf.y_rows = offsets_[1];
            leaf.runs = runs();
            if (leaf.runs > 1) {
              const auto& rows = l_.kept.dims[l_.kept.rank - 2];
              leaf.x_apart = rows.x, leaf.y_apart = rows.y;
            }
          }
          if (!l_.y) leaf.y = nullptr;
          (widen ? kernels.add : kernels.add_stored)(counters_[k], leaf, columns());
          continue;
        }
        if (!last || last->transpose != kernels.transpose) gather(kernels, size);
        last = &kernels;
        kernels.add(counters_[k],
                    {tile_.data(), tile_.data() + tile_.size() / 2, tile_rows_, tile_rows_, size,
                     first_index},
                    columns());
      }
    }
    for (std::size_t k = 0; k < tasks_.size(); ++k) {
      states_.resize(static_cast<std::size_t>(padded_outputs_) * tasks_[k].states.size);
      tasks_[k].kernels.batch.total(counters_[k], columns(), runs(), first * p_.apart + begin,
                                    p_.apart, states_.data());
      done(k, static_cast<const std::byte*>(states_.data()));
    }
  }

 private:
  // Some outputs that are neighbours in memory.
  struct contiguous_outputs {
    const std::byte *x, *y;
    int count;
  };

  void find_outputs(order::index first, int outputs) {
    outputs_ = outputs;
    if (p_.tiny) return;
    if (p_.transposed)
      return detail::offsets_of(l_.kept, first, static_cast<order::index>(outputs), offsets_[0],
                                l_.y ? offsets_[1] : nullptr);
    const order::index inner = l_.kept.dims[l_.kept.rank - 1].extent;
    const auto bytes = static_cast<std::int64_t>(size_);
    for (runs_.clear(); outputs > 0;
         outputs -= runs_.back().count, first += static_cast<order::index>(runs_.back().count)) {
      const auto start = l_.kept.offset_of(first);
      runs_.push_back(
          {l_.x + start.x * bytes, l_.y ? l_.y + start.y * bytes : nullptr,
           static_cast<int>(std::min(static_cast<order::index>(outputs), inner - first % inner))});
    }
  }

  // Empty counters, with room.
  void start(order::index leaves) {
    const auto entries = static_cast<std::size_t>(std::bit_width(leaves * order::lanes - 1) + 1);
    const auto bytes_for = [&](const task& t) {
      return entries * static_cast<std::size_t>(padded_outputs_) * t.states.size;
    };
    std::size_t bytes = column_alignment;
    for (const task& t : tasks_) bytes += bytes_for(t);
    if (pending_.size() < bytes) pending_.resize(bytes);
    void* room = pending_.data();
    std::align(column_alignment, 1, room, bytes);
    for (std::size_t k = 0; k < tasks_.size(); ++k) {
      counters_[k].lanes = 0;
      counters_[k].depth = 0;
      counters_[k].pending = room;
      room = static_cast<std::byte*>(room) + bytes_for(tasks_[k]);
    }
  }

  bool is_in_place() const {
    return !p_.transposed && (runs_.size() == 1 || p_.runs_at_once > 1) &&
           runs_[0].count >= column_width;
  }
  // In each of some runs.
  int columns() const { return is_in_place() ? runs_[0].count : padded_outputs_; }
  int runs() const { return is_in_place() ? static_cast<int>(runs_.size()) : 1; }

  // The n elements of all outputs, which lie in short rows, to the tile.
  void gather_tiny(order::index first, int n) {
    const auto pitch = static_cast<std::size_t>(padded_outputs_),
               half = static_cast<std::size_t>(n) * pitch * size_;
    if (tile_.size() < 2 * half) tile_.resize(2 * half);
    for (int i = 0; i < n; ++i) tile_rows_[i] = static_cast<std::ptrdiff_t>(i) * padded_outputs_;
    for (int input = 0; input < (l_.y ? 2 : 1); ++input)
      detail::strided_matrix{l_.type, input ? l_.y : l_.x,
                             input ? &detail::axes::axis::y : &detail::axes::axis::x, l_.reduced,
                             l_.kept}
          .copy(0, static_cast<order::index>(n), first, static_cast<order::index>(outputs_),
                tile_.data() + static_cast<std::size_t>(input) * tile_.size() / 2, pitch * size_);
  }

  // The leaf's n elements of all outputs, to the tile.
  void gather(const batch_kernels& kernels, int n) {
    const std::size_t half =
        static_cast<std::size_t>(n) * static_cast<std::size_t>(padded_outputs_) * sizeof(double);
    if (tile_.size() < 2 * half) tile_.resize(2 * half);
    for (int i = 0; i < n; ++i) tile_rows_[i] = static_cast<std::ptrdiff_t>(i) * padded_outputs_;
    for (int input = 0; input < (l_.y ? 2 : 1); ++input) {
      std::byte* target = tile_.data() + static_cast<std::size_t>(input) * tile_.size() / 2;
      if (p_.transposed) {
        kernels.transpose(input ? l_.y : l_.x, offsets_[input], outputs_, n, target,
                          padded_outputs_);
        continue;
      }
      for (const contiguous_outputs& run : runs_) {
        for (int i = 0; i < n; ++i) {
          const std::byte* const source =
              (input ? run.y : run.x) + offsets_[input][i] * static_cast<std::ptrdiff_t>(size_);
          std::byte* const row = target + static_cast<std::size_t>(i) *
                                              static_cast<std::size_t>(padded_outputs_) *
                                              kernels.element;
          if (kernels.widen)
            kernels.widen(source, static_cast<std::size_t>(run.count), row);
          else
            std::memcpy(row, source, static_cast<std::size_t>(run.count) * size_);
        }
        target += static_cast<std::size_t>(run.count) * kernels.element;
      }
    }
  }

  const std::span<const task> tasks_;
  const detail::layout& l_;
  const column_plan& p_;
  const std::size_t size_;
  std::vector<column_counter> counters_;
  int outputs_ = 0, padded_outputs_ = 0;  // of a strip; rounded up, each run by itself
  order::index found_ = 0;                // 1 + the first element of which there are offsets, or 0
  std::vector<contiguous_outputs> runs_;
  std::vector<std::byte> pending_, tile_, widened_, states_;
  static_assert(max_columns == order::leaf);
  std::ptrdiff_t offsets_[2][order::leaf];  // of a leaf's elements, or, transposed, of the outputs
  std::ptrdiff_t tile_rows_[order::leaf];
};

}  // namespace bitfold::cpu
