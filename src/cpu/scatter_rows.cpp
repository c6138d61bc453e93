// A scatter of rows of columns with one key for each row: rows are sorted by key, and those of one
// place are put together side by side, column by column in the lanes of vectors.
#include <algorithm>
#include <bit>
#include <cstring>

#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

// The rows of each place, in their order, as numbers of rows.
class sorted_rows {
 public:
  sorted_rows(const std::int64_t* keys, const scatter_layout& l, bool leaves_out)
      : begins_(l.places + 2) {
    const std::size_t n = l.along.extent;
    const auto lost = static_cast<std::uint32_t>(l.places);
    std::uint32_t* const narrow = keys_.get(n);
    if (!narrow_keys(keys, l.along.key, n, l.places,
                     leaves_out ? std::optional(lost) : std::nullopt, narrow))
      refuse_key(l.places);
    for (std::size_t i = 0; i < n; ++i) ++begins_[narrow[i] + 1];
    for (std::size_t k = 0; k < l.places; ++k) begins_[k + 1] += begins_[k];
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    next[lost] = begins_[l.places];
    std::uint32_t* const rows = rows_.get(n);
    for (std::size_t i = 0; i < n; ++i) rows[next[narrow[i]]++] = static_cast<std::uint32_t>(i);
  }
  std::span<const std::uint32_t> of(std::uint64_t place) const {
    return {rows_.get() + begins_[place], begins_[place + 1] - begins_[place]};
  }
  /// Of the places before, those and all rows of them.
  std::uint64_t work_before(std::uint64_t place) const { return place + begins_[place]; }

 private:
  std::vector<std::uint32_t> begins_;
  scratch<std::uint32_t> keys_, rows_;
};

// Columns that are neighbours, of a number of rows that lie somewhere.
struct block_of_rows {
  const std::byte* x;  // the first column of row 0
  std::int64_t pitch;  // elements from row to row
  std::span<const std::uint32_t> rows;
  std::size_t columns;
};

template <class E, class Join>
class block_folder {
 public:
  explicit block_folder(const scatter_task& t) : t_(t), folds_(t.folds) {}

  void run(const block_of_rows& b, const std::byte* base, std::byte* out) {
    const bool joins = t_.with_base && base;
    E* const room = results_.get(b.columns + scatter_loops::row_width);
    const E* const result =
        b.rows.size() == 1 && t_.direct > 0 ? loaded(row(b, 0), b.columns, room) : folded(b, room);
    if (joins && !t_.mean)
      return t_.loops.joins_and_stores(result, loaded(base, b.columns, loaded_.get(b.columns)),
                                       b.columns, out);
    if (t_.mean) {
      if (result != room) std::copy_n(result, b.columns, room);
      if (joins) t_.loops.joins(room, loaded(base, b.columns, loaded_.get(b.columns)), b.columns);
      const auto count = static_cast<std::uint32_t>(b.rows.size());
      t_.loops.divides(room, nullptr, count + t_.with_base, b.columns);
    }
    t_.loops.stores(t_.mean ? room : result, nullptr, nullptr, b.columns, out);
  }

 private:
  const std::byte* row(const block_of_rows& b, std::size_t i) const {
    return b.x + b.pitch * static_cast<std::int64_t>(b.rows[i]) * std::int64_t(t_.size());
  }
  const E* loaded(const std::byte* x, std::size_t columns, E* room) const {
    if (!t_.loops.loads) return reinterpret_cast<const E*>(x);
    t_.loops.loads(x, columns, room);
    return room;
  }
  const E* folded(const block_of_rows& b, E* to) {
    if (b.rows.size() <= t_.direct)
      fold_directly(b, to);
    else if (t_.by_pairs && b.rows.size() <= order::lanes)
      fold_pairs(b, to);
    else if (folds_.kernels.fold)
      fold_side_by_side(b, to);
    else
      fold_each(b, to);
    return to;
  }
  void load(const std::byte* x, std::size_t columns, E* to) const {
    if (t_.loops.loads)
      t_.loops.loads(x, columns, to);
    else
      std::memcpy(to, x, columns * sizeof(E));
  }

  void fold_directly(const block_of_rows& b, E* to) {
    load(row(b, 0), b.columns, to);
    for (std::size_t i = 1; i < b.rows.size(); ++i)
      t_.loops.joins(to, loaded(row(b, i), b.columns, loaded_.get(b.columns)), b.columns);
  }

  // Whole widths of columns of rows where they lie, or of copies.
  void fold_pairs(const block_of_rows& b, E* to) {
    constexpr std::size_t width = scatter_loops::row_width;
    const std::size_t n = b.rows.size(), whole = t_.loops.loads ? 0 : b.columns / width * width,
                      rest = b.columns - whole;
    const void* rows[order::lanes];
    for (std::size_t i = 0; i < n && whole > 0; ++i) rows[i] = row(b, i);
    t_.loops.folds_pairs(rows, n, whole, to);
    if (rest == 0) return;
    const std::size_t pitch = (rest + width - 1) / width * width;
    E* const copies = tile_.get(n * pitch);
    for (std::size_t i = 0; i < n; ++i) {
      load(row(b, i) + whole * t_.size(), rest, copies + i * pitch);
      std::fill_n(copies + i * pitch + rest, pitch - rest, E{});
      rows[i] = copies + i * pitch;
    }
    t_.loops.folds_pairs(rows, n, pitch, to + whole);
  }

  // By the kernels of columns, leaf by leaf.
  void fold_side_by_side(const block_of_rows& b, E* to) {
    const std::size_t n = b.rows.size();
    const bool in_place = !t_.loops.loads && b.columns >= column_width;
    const std::size_t columns =
        in_place ? b.columns : (b.columns + column_width - 1) / column_width * column_width;
    const auto lanes = order::leaf_count(n) * order::lanes;
    const auto entries = static_cast<std::size_t>(std::bit_width(lanes - 1) + 1);
    std::size_t bytes = entries * (columns + column_width) * folds_.states.size + column_alignment;
    void* room = pending_.get(bytes);
    std::align(column_alignment, 1, room, bytes);
    column_counter counter;
    counter.pending = room;
    const batch_kernels& kernels = folds_.kernels.batch;
    std::ptrdiff_t at[order::leaf];
    for (std::size_t first = 0; first < n; first += order::leaf) {
      const int size = static_cast<int>(std::min<std::size_t>(order::leaf, n - first));
      column_leaf leaf{b.x, nullptr, at, nullptr, size, static_cast<int>(first)};
      if (!in_place) leaf.x = tile_.get(static_cast<std::size_t>(size) * columns);
      for (int i = 0; i < size; ++i) {
        const std::size_t k = first + static_cast<std::size_t>(i);
        if (in_place) {
          at[i] = b.pitch * static_cast<std::int64_t>(b.rows[k]);
        } else {
          at[i] = i * static_cast<std::ptrdiff_t>(columns);
          E* const copy = tile_.get() + at[i];
          load(row(b, k), b.columns, copy);
          std::fill(copy + b.columns, copy + columns, E{});
        }
      }
      kernels.add(counter, leaf, static_cast<int>(columns));
    }
    std::byte* const states = states_.get(columns * folds_.states.size);
    kernels.total(counter, static_cast<int>(columns), 0, 0, states);
    folds_.states.finish(t_.whole, states, b.columns, n, to);
  }

  // By methods without kernels.
  void fold_each(const block_of_rows& b, E* to) {
    const std::size_t n = b.rows.size();
    E* const x = tile_.get(n);
    for (std::size_t c = 0; c < b.columns; ++c) {
      for (std::size_t i = 0; i < n; ++i) load(row(b, i) + c * t_.size(), 1, x + i);
      store_scalar(reduce(t_.whole, x, n, {.threads = 1, .target = t_.used}), to + c);
    }
  }

  const scatter_task& t_;
  const task& folds_;
  scratch<E> results_, loaded_, tile_;
  scratch<std::byte> pending_, states_;
};

// Lines of rows on one thread.
template <class E, class Join>
class rows_worker {
 public:
  rows_worker(const scatter_task& t, const scatter_layout& l) : t_(t), l_(l), folder_(t) {}

  // Some places and some columns of a line.
  void run(const scatter_layout::offset& line, const sorted_rows& sorted, std::uint64_t first,
           std::uint64_t end, std::uint64_t first_column, std::uint64_t end_column) {
    // What a thread works on stays in the first-level cache.
    constexpr std::uint64_t block = 4096 / sizeof(E);
    const auto size = static_cast<std::int64_t>(t_.size());
    for (std::uint64_t place = first; place < end; ++place) {
      const auto rows = sorted.of(place);
      for (std::uint64_t c = first_column; c < end_column; c += block) {
        const std::uint64_t columns = std::min(block, end_column - c);
        const std::int64_t at = line.place + static_cast<std::int64_t>(place) * l_.along.place +
                                static_cast<std::int64_t>(c);
        const std::byte* const base = l_.base ? l_.base + at * size : nullptr;
        std::byte* const out = l_.out + at * size;
        const std::byte* const x = l_.x + (line.x + static_cast<std::int64_t>(c)) * size;
        if (!rows.empty())
          folder_.run({x, l_.along.x, rows, columns}, base, out);
        else if (!base)
          std::memset(out, 0, columns * t_.size());
        else if (base != out)
          std::memcpy(out, base, columns * t_.size());
      }
    }
  }

 private:
  const scatter_task& t_;
  const scatter_layout& l_;
  block_folder<E, Join> folder_;
};

// One line by all threads.
template <class E, class Join>
void run_line(const scatter_task& t, const scatter_layout& l, const scatter_layout::offset& line,
              const sorted_rows& sorted, std::uint64_t columns, int threads) {
  struct part {
    std::uint64_t first, end, first_column, end_column;
  };
  std::vector<part> parts;
  const std::uint64_t share = sorted.work_before(l.places) / chunk_count(threads) + 1;
  for (std::uint64_t first = 0, end = 1; first < l.places; first = end++) {
    const std::uint64_t before = sorted.work_before(first);
    while (end < l.places && sorted.work_before(end + 1) - before <= share) ++end;
    // A place of very many rows is shared out by columns.
    const std::uint64_t cuts = std::clamp<std::uint64_t>((sorted.work_before(end) - before) / share,
                                                         1, (columns - 1) / 64 + 1);
    for (std::uint64_t c = 0; c < cuts; ++c)
      parts.push_back({first, end, columns * c / cuts, columns * (c + 1) / cuts});
  }
  parallel_for(parts.size(), threads, [&](std::size_t i) {
    const part& p = parts[i];
    rows_worker<E, Join>(t, l).run(line, sorted, p.first, p.end, p.first_column, p.end_column);
  });
}

}  // namespace

void scatter_rows(const scatter_task& t, const scatter_layout& all, const options& opts) {
  scatter_layout l = all;
  const std::uint64_t columns = l.kept.back().extent;
  l.kept.pop_back();
  l.lines /= columns;
  const int threads = threads_for(opts, l.lines * (l.along.extent + l.places) * columns * t.size());
  const bool many = l.lines >= chunk_count(threads, 2);
  const std::uint64_t shares = many ? std::min(l.lines, chunk_count(threads)) : 1;
  with_numbers(t, [&]<class E, class Join>(E, Join) {
    parallel_for(shares, threads, [&](std::size_t s) {
      std::optional<sorted_rows> sorted;
      std::int64_t key_offset = 0;
      rows_worker<E, Join> mine(t, l);
      for (std::uint64_t k = s * l.lines / shares; k < (s + 1) * l.lines / shares; ++k) {
        const auto line = l.offset_of(k);
        if (!sorted || line.key != key_offset) sorted.emplace(l.keys + line.key, l, t.leaves_out);
        key_offset = line.key;
        if (many)
          mine.run(line, *sorted, 0, l.places, 0, columns);
        else
          run_line<E, Join>(t, l, line, *sorted, columns, threads);
      }
    });
  });
}

}  // namespace bitfold::cpu
