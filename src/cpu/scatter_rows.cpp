// A scatter of rows of columns with one key for each row: rows are sorted by key, and those of one
// place are put together side by side, column by column in the lanes of vectors.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "../strided.hpp"
#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

// The rows of each place, in their order, as numbers of rows.
class sorted_rows {
 public:
  // Of a place they are neighbours.
  sorted_rows(const std::int64_t* offsets, std::size_t places, std::size_t n) {
    bool wrong = offsets[0] != 0 || offsets[places] > static_cast<std::int64_t>(n);
    for (std::size_t k = 0; k < places; ++k) wrong |= offsets[k] > offsets[k + 1];
    if (wrong) throw error(errc::usage, "offsets: they do not go up from 0 to the number of rows");
    begins_.assign(offsets, offsets + places + 1);
    all_ = begins_[places];
    std::uint32_t* const rows = rows_.get(n);
    std::iota(rows, rows + n, std::uint32_t{0});
  }
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
    all_ = begins_[l.places];
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    next[lost] = all_;
    std::uint32_t* const rows = rows_.get(n);
    for (std::size_t i = 0; i < n; ++i) rows[next[narrow[i]]++] = static_cast<std::uint32_t>(i);
  }
  std::span<const std::uint32_t> of(std::uint64_t place) const {
    return {rows_.get() + begins_[place], begins_[place + 1] - begins_[place]};
  }
  /// How many rows follow those of a place.
  std::size_t behind(std::uint64_t place) const { return all_ - begins_[place + 1]; }
  /// Of the places before, those and all rows of them.
  std::uint64_t work_before(std::uint64_t place) const { return place + begins_[place]; }

 private:
  std::vector<std::uint32_t> begins_;
  std::uint32_t all_;  // of places
  scratch<std::uint32_t> keys_, rows_;
};

// Which rows are meant, by their numbers, and numbers E by which they are multiplied.
struct list_of_rows {
  const std::int64_t* numbers = nullptr;  // null: those rows
  const void* weights = nullptr;          // null: none
};

// Columns that are neighbours, of a number of rows that lie somewhere.
struct block_of_rows {
  const std::byte* x;  // the first column of row 0
  std::int64_t pitch;  // elements from row to row
  std::span<const std::uint32_t> rows;
  std::size_t columns;
  list_of_rows list;
  std::size_t behind;  // so many are in memory behind these, which are folded next

  // Of one behind them, too.
  std::int64_t number(std::size_t i) const {
    const std::uint32_t row = rows.data()[i];
    return list.numbers ? list.numbers[row] : std::int64_t{row};
  }
};

template <class E, class Join>
class block_folder {
 public:
  block_folder(const scatter_task& t, std::uint64_t columns)
      : t_(t),
        folds_(t.folds),
        size_(static_cast<std::int64_t>(t.size())),
        ahead_(std::clamp<std::size_t>(bytes_ahead / (columns * t.size()), 1, order::lanes)) {}

  void run(const block_of_rows& b, const std::byte* base, std::byte* out) {
    const bool joins = t_.with_base && base;
    E* const room = results_.get(b.columns + scatter_loops::row_width);
    const E* const result =
        b.rows.size() == 1 && t_.direct > 0 ? loaded_row(b, 0, room) : folded(b, room);
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
  static constexpr std::size_t most_ahead = 8 * 64, bytes_ahead = 8192;
  const std::byte* row(const block_of_rows& b, std::size_t i) const {
    return b.x + b.pitch * size_ * b.number(i);
  }
  static E weight(const block_of_rows& b, std::size_t i) {
    return static_cast<const E*>(b.list.weights)[b.rows[i]];
  }
  bool as_they_lie(const block_of_rows& b) const { return !t_.loops.loads && !b.list.weights; }
  const E* loaded_row(const block_of_rows& b, std::size_t i, E* room) const {
    foresee(b, i);
    if (as_they_lie(b)) return reinterpret_cast<const E*>(row(b, i));
    load_row(b, i, 0, b.columns, room);
    return room;
  }
  // Rows lie anywhere: memory is asked for some ahead, one for each that is read. They are behind
  // all of this place, whose columns are read some at a time.
  std::size_t ahead(const block_of_rows& b) const { return std::max(ahead_, b.rows.size()); }
  std::size_t last(const block_of_rows& b) const { return b.rows.size() + b.behind - 1; }
  // (Inlined, as g++ takes a function that only asks for memory for one that does nothing.)
  [[gnu::always_inline]] void foresee(const block_of_rows& b, std::size_t i) const {
    detail::foresee(reinterpret_cast<std::uintptr_t>(row(b, std::min(i + ahead(b), last(b)))),
                    std::min(b.columns * t_.size(), most_ahead));
  }
  // Where the rows lie, and those ahead of them.
  void find_rows(const block_of_rows& b, const void** rows, const void** soon) const {
    const auto each = [&, of = b.rows.data(), n = b.rows.size(), x = b.x, pitch = b.pitch * size_,
                       ahead = ahead(b), last = last(b)](auto number) {
      for (std::size_t i = 0; i < n; ++i) {
        rows[i] = x + pitch * number(of[i]);
        soon[i] = x + pitch * number(of[std::min(i + ahead, last)]);
      }
    };
    if (const std::int64_t* const numbers = b.list.numbers) {
      // Of bags they are read one behind the other.
      detail::foresee(reinterpret_cast<std::uintptr_t>(numbers + b.rows[0]) + detail::far_ahead,
                      b.rows.size() * sizeof *numbers);
      each([=](std::uint32_t row) { return numbers[row]; });
    } else {
      each([](std::uint32_t row) { return std::int64_t{row}; });
    }
  }
  // Some columns of a row, times its weight.
  void load_row(const block_of_rows& b, std::size_t i, std::size_t first, std::size_t columns,
                E* to) const {
    const std::byte* const x = row(b, i) + first * t_.size();
    if constexpr (std::is_floating_point_v<E>) {
      if (b.list.weights) {
        const E* const numbers = loaded(x, columns, to);
        const E w = weight(b, i);
        for (std::size_t c = 0; c < columns; ++c) to[c] = arith::mul(numbers[c], w);
        return;
      }
    }
    load(x, columns, to);
  }
  const E* loaded(const std::byte* x, std::size_t columns, E* room) const {
    if (!t_.loops.loads) return reinterpret_cast<const E*>(x);
    t_.loops.loads(x, columns, room);
    return room;
  }
  const E* folded(const block_of_rows& b, E* to) {
    if (b.rows.size() <= t_.direct)
      fold_directly(b, to);
    else if (t_.in_lanes > 0 && b.rows.size() <= order::lanes)
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
    foresee(b, 0);
    load_row(b, 0, 0, b.columns, to);
    for (std::size_t i = 1; i < b.rows.size(); ++i)
      t_.loops.joins(to, loaded_row(b, i, loaded_.get(b.columns)), b.columns);
  }

  // Whole widths of columns of rows where they lie, or of copies.
  void fold_pairs(const block_of_rows& b, E* to) {
    constexpr std::size_t width = scatter_loops::row_width;
    const std::size_t n = b.rows.size(), whole = t_.loops.loads ? 0 : b.columns / width * width,
                      rest = b.columns - whole;
    const void *rows[order::lanes], *soon[order::lanes];
    E weights[order::lanes];
    if (whole > 0) {
      find_rows(b, rows, soon);
      for (std::size_t i = 0; i < n && b.list.weights; ++i) weights[i] = weight(b, i);
      const E* const w = b.list.weights ? weights : nullptr;
      t_.loops.folds_pairs(rows, w, n, whole, soon, to);
    }
    if (rest == 0) return;
    const std::size_t pitch = (rest + width - 1) / width * width;
    E* const copies = tile_.get(n * pitch);
    for (std::size_t i = 0; i < n; ++i) {
      if (whole == 0) foresee(b, i);
      load_row(b, i, whole, rest, copies + i * pitch);
      std::fill_n(copies + i * pitch + rest, pitch - rest, E{});
      rows[i] = copies + i * pitch;
    }
    t_.loops.folds_pairs(rows, nullptr, n, pitch, nullptr, to + whole);
  }

  // By the kernels of columns, leaf by leaf.
  void fold_side_by_side(const block_of_rows& b, E* to) {
    const std::size_t n = b.rows.size();
    const bool in_place = as_they_lie(b) && b.columns >= column_width;
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
        foresee(b, k);
        if (in_place) {
          at[i] = b.pitch * b.number(k);
        } else {
          at[i] = i * static_cast<std::ptrdiff_t>(columns);
          E* const copy = tile_.get() + at[i];
          load_row(b, k, 0, b.columns, copy);
          std::fill(copy + b.columns, copy + columns, E{});
        }
      }
      kernels.add(counter, leaf, static_cast<int>(columns));
    }
    std::byte* const states = states_.get(columns * folds_.states.size);
    kernels.total(counter, static_cast<int>(columns), 1, 0, 0, states);
    folds_.states.finish(t_.whole, states, b.columns, n, to);
  }

  // By methods without kernels.
  void fold_each(const block_of_rows& b, E* to) {
    const std::size_t n = b.rows.size();
    E* const x = tile_.get(n);
    for (std::size_t c = 0; c < b.columns; ++c) {
      for (std::size_t i = 0; i < n; ++i) load_row(b, i, c, 1, x + i);
      store_scalar(reduce(t_.whole, x, n, {.threads = 1, .target = t_.used}), to + c);
    }
  }

  const scatter_task& t_;
  const task& folds_;
  const std::int64_t size_;
  const std::size_t ahead_;
  scratch<E> results_, loaded_, tile_;
  scratch<std::byte> pending_, states_;
};

// Lines of rows on one thread.
template <class E, class Join>
class rows_worker {
 public:
  rows_worker(const scatter_task& t, const scatter_layout& l, std::uint64_t columns,
              const list_of_rows& list = {})
      : t_(t), l_(l), list_(list), folder_(t, columns) {}

  // Some places and some columns of a line.
  void run(const scatter_layout::offset& line, const sorted_rows& sorted, std::uint64_t first,
           std::uint64_t end, std::uint64_t first_column, std::uint64_t end_column) {
    // What a thread works on stays in the first-level cache.
    constexpr std::uint64_t block = 4096 / sizeof(E);
    const auto size = static_cast<std::int64_t>(t_.size());
    for (std::uint64_t place = first; place < end; ++place) {
      const auto rows = sorted.of(place);
      const std::size_t behind = sorted.behind(place);
      for (std::uint64_t c = first_column; c < end_column; c += block) {
        const std::uint64_t columns = std::min(block, end_column - c);
        const std::int64_t at = line.place + static_cast<std::int64_t>(place) * l_.along.place +
                                static_cast<std::int64_t>(c);
        const std::byte* const base = l_.base ? l_.base + at * size : nullptr;
        std::byte* const out = l_.out + at * size;
        const std::byte* const x = l_.x + (line.x + static_cast<std::int64_t>(c)) * size;
        if (!rows.empty())
          folder_.run({x, l_.along.x, rows, columns, list_, behind}, base, out);
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
  const list_of_rows list_;
  block_folder<E, Join> folder_;
};

// One line by all threads.
template <class E, class Join>
void run_line(const scatter_task& t, const scatter_layout& l, const scatter_layout::offset& line,
              const sorted_rows& sorted, std::uint64_t columns, int threads,
              const list_of_rows& list = {}) {
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
    rows_worker<E, Join>(t, l, columns, list)
        .run(line, sorted, p.first, p.end, p.first_column, p.end_column);
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
      rows_worker<E, Join> mine(t, l, columns);
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

void scatter_rows(const scattering& how, const listed_rows& x, const places_of_rows& to, void* out,
                  const options& opts) {
  const auto refuse = [](const char* what) { throw error(errc::usage, what); };
  if (how.with_base) refuse("how: rows go to places that have nothing");
  if (!to.keys == !to.offsets) refuse("keys: expected them, or offsets");
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (x.count >= most || to.count >= most) refuse("x: 2^32 - 1 rows or places, or more");
  const scatter_task t = scatter_task_for(how, x.type, opts);
  if (x.weights && (t.how != joining::sum || !is_float(x.type)))
    refuse("weights: of sums and means of floats alone");
  if (to.keys && to.count == 0 && x.count > 0 && !how.leaves_out)
    refuse("keys: there are some, and no places");
  if (to.count * x.n == 0) return;
  if (!out || (x.count > 0 && !x.x)) refuse("x, out: a null pointer");
  const auto pitch = static_cast<std::int64_t>(x.n);
  const scatter_layout l{
      static_cast<const std::byte*>(x.x), to.keys, nullptr, static_cast<std::byte*>(out), to.count,
      {x.count, pitch, 1, pitch},         {},      1};
  const sorted_rows sorted = to.keys ? sorted_rows(to.keys, l, how.leaves_out)
                                     : sorted_rows(to.offsets, to.count, x.count);
  report(t.used);
  const int threads = threads_for(opts, (x.count + to.count) * x.n * t.size());
  with_numbers(t, [&]<class E, class Join>(E, Join) {
    scratch<E> weights;
    const void* of_numbers = x.weights;
    if (x.weights && t.loops.loads) {
      t.loops.loads(x.weights, x.count, weights.get(x.count));
      of_numbers = weights.get();
    }
    run_line<E, Join>(t, l, {}, sorted, x.n, threads, {x.list, of_numbers});
  });
}

}  // namespace bitfold::cpu
