// What goes to the places of a line, folded.
#include <algorithm>
#include <bit>
#include <cstring>

#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

template <class E, class Join>
class folder_of final : public line_folder {
 public:
  explicit folder_of(const scatter_task& t) : t_(t) {}

  void run(const std::uint32_t* keys, const std::byte* x, std::size_t n, std::size_t places,
           const std::byte* base, std::byte* out, std::size_t lines) override {
    const E* const numbers = loaded(t_.loops, x, n, numbers_);
    // Whole widths, and a place for what is left out.
    pitch_ = (places / width + 1) * width;
    E* const results = results_.get(pitch_);
    if (!t_.counts(base) && starts_from(base, places)) {
      for (std::size_t i = 0; i < n; ++i)
        results[keys[i]] = Join::apply(results[keys[i]], numbers[i]);
      return t_.loops.stores(results, nullptr, nullptr, places, out);
    }
    std::uint32_t* const counts = counts_.get(pitch_);
    std::fill_n(counts, pitch_, 0u);
    if (t_.folds_in_lanes(n, places))
      fold_in_lanes(keys, numbers, n, places, lines);
    else
      fold_as_they_come(keys, numbers, n, places);
    if (t_.with_base && base)
      t_.loops.joins(results, loaded(t_.loops, base, places, before_), places);
    if (t_.mean) t_.loops.divides(results, counts, t_.with_base, places);
    t_.loops.stores(results, base, counts, places, out);
  }

 private:
  static constexpr std::size_t width = scatter_loops::row_width;

  // What lay there is the first element, as no order shows; but a NaN keeps its bits where nothing
  // goes to it.
  bool starts_from(const std::byte* base, std::size_t places) {
    E* const results = results_.get();
    if (!t_.with_base) {
      std::fill_n(results, places + 1, Join::template neutral<E>);
      return true;
    }
    results[places] = Join::template neutral<E>;
    if (t_.loops.loads)
      t_.loops.loads(base, places, results);
    else
      std::memcpy(results, base, places * sizeof(E));
    if (!is_float(t_.type)) return true;
    E largest = results[0];
    for (std::size_t k = 1; k < places; ++k) largest = std::max(largest, results[k]);
    return largest != std::numeric_limits<E>::max();
  }

  void fold_as_they_come(const std::uint32_t* keys, const E* numbers, std::size_t n,
                         std::size_t places) {
    E* const results = results_.get();
    std::uint32_t* const counts = counts_.get();
    std::fill_n(results, pitch_, Join::template neutral<E>);
    const auto join = [&](std::uint32_t k, std::size_t i) {
      results[k] = Join::apply(results[k], numbers[i]);
    };
    const bool any_order = t_.direct == scatter_task::any_number;
    std::size_t sorted = 0;
    if (any_order || n <= 4 * places) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t k = keys[i];
        ++counts[k], join(k, i);
      }
      if (!any_order) sorted = counts_above(t_.direct, places);
    } else {
      for (std::size_t i = 0; i < n; ++i) ++counts[keys[i]];
      sorted = counts_above(t_.direct, places);
      for (std::size_t i = 0; i < n && sorted < n; ++i) join(keys[i], i);
    }
    if (sorted > 0) fold_sorted(keys, numbers, n, places, t_.direct);
  }

  // The elements of places with more than `few`.
  std::size_t counts_above(std::size_t few, std::size_t places) const {
    return t_.loops.counts_above(counts_.get(), static_cast<std::uint32_t>(few), places);
  }

  // The lanes of all places are rows of a table, which fold side by side. A lane that a place does
  // not have is neutral, and so is what its first element is joined with. Places with more elements
  // than the lanes are right for are sorted.
  void fold_in_lanes(const std::uint32_t* keys, const E* numbers, std::size_t n, std::size_t places,
                     std::size_t lines) {
    std::uint32_t* const counts = counts_.get();
    const std::size_t lanes =
                          std::bit_ceil(std::clamp<std::size_t>(4 * n / places, 8, order::lanes)),
                      limit = lanes < order::lanes ? lanes : t_.in_lanes;
    E* const table = table_.get(lanes * pitch_);
    std::fill_n(table, lanes * pitch_, Join::template neutral<E>);
    const auto add = [&](std::size_t i) {
      const std::uint32_t k = keys[i];
      E& lane = table[(counts[k]++ & (lanes - 1)) * pitch_ + k];
      lane = Join::apply(lane, numbers[i]);
    };
    if (lines > 1) {
      // An element of each line in turn: of one line the next often goes to the same place, whose
      // count and lane the processor is still writing. Each line lags behind the one before, where
      // else all would ask for the same lines of the cache.
      const std::size_t of_line = n / lines, lag = of_line % 512 == 0 ? 8 : 0,
                        end = of_line + lag * (lines - 1);
      for (std::size_t i = 0; i < end; ++i) {
        const std::size_t first = i < of_line ? 0 : (i - of_line) / lag + 1,
                          last = lag > 0 ? std::min(lines, i / lag + 1) : lines;
        for (std::size_t c = first; c < last; ++c) add(c * of_line + i - c * lag);
      }
    } else {
      for (std::size_t first = 0; first < n; first += width) {
        // Of long lines these are not in the cache.
        __builtin_prefetch(keys + first + 512);
        __builtin_prefetch(numbers + first + 512);
        for (std::size_t i = first; i < std::min(n, first + width); ++i) add(i);
      }
    }
    const std::size_t most = t_.loops.largest_count(counts, places);
    if (most > limit && 2 * counts_above(limit, places) > n) {
      std::fill_n(results_.get(), pitch_, Join::template neutral<E>);
      return fold_sorted(keys, numbers, n, places, 0);
    }
    constexpr std::size_t block = 4 * width;  // of about as many lanes
    for (std::size_t k = 0; k < pitch_; k += block) {
      const std::uint32_t deepest =
          t_.loops.largest_count(counts + k, std::min(block, places - std::min(k, places)));
      const void* rows[order::lanes];
      for (std::size_t r = 0; r < lanes; ++r) rows[r] = table + r * pitch_ + k;
      t_.loops.folds_pairs(rows, nullptr, std::clamp<std::size_t>(deepest, 1, lanes),
                           std::min(block, pitch_ - k), nullptr, results_.get() + k);
    }
    if (most > limit) fold_sorted(keys, numbers, n, places, limit);
  }

  // The results of places to which more than `few` elements go. Loops have no branches that nobody
  // could foresee.
  void fold_sorted(const std::uint32_t* keys, const E* numbers, std::size_t n, std::size_t places,
                   std::size_t few) {
    const std::uint32_t* const counts = counts_.get();
    const std::size_t all = counts_above(few, places);
    std::uint32_t *const which = which_.get(n + 1), *const next = next_.get(places),
                         *const crowded = crowded_.get(places + 1);
    std::size_t many = 0, more = 0, end = 0;
    for (std::size_t k = 0; k < places; ++k) {
      crowded[many] = static_cast<std::uint32_t>(k);
      many += counts[k] > few;
    }
    for (std::size_t j = 0; j < many; end += counts[crowded[j++]])
      next[crowded[j]] = static_cast<std::uint32_t>(end);
    E* const sorted = sorted_.get(all);
    if (all == n) {
      for (std::size_t i = 0; i < n; ++i) sorted[next[keys[i]]++] = numbers[i];
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        which[more] = static_cast<std::uint32_t>(i);
        more += counts[keys[i]] > few;
      }
      for (std::size_t j = 0; j < more; ++j)
        if (const std::uint32_t k = keys[which[j]]; k < places)
          sorted[next[k]++] = numbers[which[j]];
    }
    E* elements = sorted;
    for (std::size_t j = 0; j < many; ++j) {
      const std::uint32_t k = crowded[j];
      results_.get()[k] = folded(elements, counts[k]);
      elements += counts[k];
    }
  }

  // In the canonical order; overwrites them.
  E folded(E* x, std::size_t n) const {
    E result;
    if (t_.in_lanes > 0 && n <= order::lanes) {
      for (; n > 1; n = (n + 1) / 2) {
        for (std::size_t j = 0; j < n / 2; ++j) x[j] = Join::apply(x[2 * j], x[2 * j + 1]);
        if (n % 2) x[n / 2] = x[n - 1];
      }
      return x[0];
    }
    if (t_.folds.kernels.fold && n / order::leaf < max_leaves) {
      partial s;
      target used;
      fold_whole(t_.folds, {x, nullptr}, n, 0, s, used);
      t_.folds.states.finish(t_.whole, s.bytes, 1, n, &result);
    } else {
      store_scalar(reduce(t_.whole, x, n, {.threads = 1, .target = t_.used}), &result);
    }
    return result;
  }

  const scatter_task& t_;
  std::size_t pitch_ = 0;
  scratch<E> numbers_, before_, results_, sorted_, table_;
  scratch<std::uint32_t> counts_, which_, next_, crowded_;
};

}  // namespace

std::unique_ptr<line_folder> folder_for(const scatter_task& t) {
  std::unique_ptr<line_folder> f;
  with_numbers(t,
               [&]<class E, class Join>(E, Join) { f = std::make_unique<folder_of<E, Join>>(t); });
  return f;
}

}  // namespace bitfold::cpu
