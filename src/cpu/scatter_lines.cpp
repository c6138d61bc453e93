// A scatter line by line, each by one thread; short lines are brought together, some at a time, and
// one of many places is cut up by its keys.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

// ---- One line -----------------------------------------------------------------------------------

template <class E, class Join>
class folder_of final : public line_folder {
 public:
  explicit folder_of(const scatter_task& t) : t_(t) {}

  void run(const std::uint32_t* keys, const std::byte* x, std::size_t n, std::size_t places,
           const std::byte* base, std::byte* out) override {
    const E* const numbers = loaded(x, n, numbers_);
    E* const results = results_.get(places + 1);
    if (!t_.counts() && starts_from(base, places)) {
      for (std::size_t i = 0; i < n; ++i)
        results[keys[i]] = Join::apply(results[keys[i]], numbers[i]);
      return t_.loops.stores(results, nullptr, nullptr, places, out);
    }
    std::fill_n(results, places + 1, Join::template neutral<E>);
    std::uint32_t* const counts = counts_.get(places + 1);
    std::fill_n(counts, places + 1, 0u);
    const auto join_all = [&] {
      for (std::size_t i = 0; i < n; ++i)
        results[keys[i]] = Join::apply(results[keys[i]], numbers[i]);
    };
    if (t_.direct == scatter_task::any_number || !(is_crowded_ || n > 4 * places)) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t k = keys[i];
        ++counts[k];
        results[k] = Join::apply(results[k], numbers[i]);
      }
      if (t_.direct != scatter_task::any_number) fold_more(keys, numbers, n, places, [] {});
    } else {  // most are to be sorted, as those of the line before
      for (std::size_t i = 0; i < n; ++i) ++counts[keys[i]];
      fold_more(keys, numbers, n, places, join_all);
    }
    if (t_.with_base && base) t_.loops.joins(results, loaded(base, places, before_), places);
    if (t_.mean) t_.loops.divides(results, counts, t_.with_base, places);
    t_.loops.stores(results, base, counts, places, out);
  }

 private:
  const E* loaded(const std::byte* x, std::size_t n, scratch<E>& room) {
    if (!t_.loops.loads) return reinterpret_cast<const E*>(x);
    t_.loops.loads(x, n, room.get(n));
    return room.get(n);
  }

  // What lay there is the first element, as no order shows; but a NaN keeps its bits where nothing
  // goes to it.
  bool starts_from(const std::byte* base, std::size_t places) {
    E* const results = results_.get();
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

  // The results of places to which more elements go than fold one after the other; calls before()
  // where there are others. Loops have no branches that nobody could foresee.
  template <class Before>
  void fold_more(const std::uint32_t* keys, const E* numbers, std::size_t n, std::size_t places,
                 Before before) {
    const std::uint32_t* const counts = counts_.get();
    const auto direct = static_cast<std::uint32_t>(t_.direct);
    const std::size_t all = t_.loops.counts_above(counts, direct, places);
    is_crowded_ = 2 * all > n;
    if (all < n) before();
    if (all == 0) return;
    std::uint32_t *const which = which_.get(n + 1), *const next = next_.get(places),
                         *const crowded = crowded_.get(places + 1);
    std::size_t many = 0, more = 0, end = 0;
    for (std::size_t k = 0; k < places; ++k) {
      crowded[many] = static_cast<std::uint32_t>(k);
      many += counts[k] > direct;
    }
    for (std::size_t j = 0; j < many; end += counts[crowded[j++]])
      next[crowded[j]] = static_cast<std::uint32_t>(end);
    E* const sorted = sorted_.get(all);
    if (all == n) {
      for (std::size_t i = 0; i < n; ++i) sorted[next[keys[i]]++] = numbers[i];
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        which[more] = static_cast<std::uint32_t>(i);
        more += counts[keys[i]] > direct;
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
    if (t_.by_pairs && n <= order::lanes) {
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
  bool is_crowded_ = false;
  scratch<E> numbers_, before_, results_, sorted_;
  scratch<std::uint32_t> counts_, which_, next_, crowded_;
};

// ---- Lines brought together ---------------------------------------------------------------------

// Calls copy(line, element) for n elements of each, in squares that stay in the cache.
template <class Copy>
void copy_lines(std::size_t lines, std::size_t n, Copy copy) {
  constexpr std::size_t side = 16;
  for (std::size_t i = 0; i < n; i += side)
    for (std::size_t c = 0; c < lines; c += side)
      for (std::size_t j = i; j < std::min(n, i + side); ++j)
        for (std::size_t d = c; d < std::min(lines, c + side); ++d) copy(d, j);
}

class line_worker {
 public:
  /// `at_once` of them: 0 for one, where it lies.
  line_worker(const scatter_task& t, const scatter_layout& l, std::size_t at_once)
      : t_(t), l_(l), n_(l.along.extent), at_once_(at_once), folder_(folder_for(t)) {
    // Short lines are folded together, as one. The rows of others do not begin at multiples of a
    // page, which share lines of the cache.
    const std::size_t longest = std::max<std::size_t>({n_, l.places, 1});
    together_ = std::clamp<std::size_t>(2048 / longest, 1, std::max<std::size_t>(at_once, 1));
    const std::size_t gap = together_ == 1 ? 32 : 0;
    pitch_ = n_ + gap, places_pitch_ = l.places + gap;
  }

  void run(std::uint64_t first, std::size_t lines) {
    at_.resize(lines);
    for (std::size_t c = 0; c < lines; ++c) at_[c] = l_.offset_of(first + c);
    if (at_once_ == 0) return run_in_place();
    const std::size_t size = t_.size();
    std::uint32_t* const keys = keys_.get(at_once_ * pitch_);
    std::byte* const x = x_.get(at_once_ * pitch_ * size);
    std::byte* const base = base_.get(at_once_ * places_pitch_ * size);
    std::byte* const out = out_.get(at_once_ * places_pitch_ * size);
    const bool lies = l_.base != nullptr;
    detail::with_bits(t_.type, [&]<class T>(T) {
      const auto *from = reinterpret_cast<const T*>(l_.x),
                 *before = reinterpret_cast<const T*>(l_.base);
      gather_keys(lines, keys);
      gather(lines, n_, &scatter_layout::offset::x, l_.along.x, from, reinterpret_cast<T*>(x),
             pitch_);
      if (lies)
        gather(lines, l_.places, &scatter_layout::offset::place, l_.along.place, before,
               reinterpret_cast<T*>(base), places_pitch_);
      for (std::size_t c = 0; c < lines; c += together_) {
        const std::size_t taken = std::min(together_, lines - c);
        folder_->run(keys + c * pitch_, x + c * pitch_ * size, taken * n_, taken * l_.places,
                     lies ? base + c * places_pitch_ * size : nullptr,
                     out + c * places_pitch_ * size);
      }
      auto* const to = reinterpret_cast<T*>(l_.out);
      const auto* const results = reinterpret_cast<const T*>(out);
      if (l_.along.place == 1)
        for (std::size_t c = 0; c < lines; ++c)
          std::copy_n(results + c * places_pitch_, l_.places, to + at_[c].place);
      else
        copy_lines(lines, l_.places, [&](std::size_t c, std::size_t i) {
          to[at_[c].place + static_cast<std::int64_t>(i) * l_.along.place] =
              results[c * places_pitch_ + i];
        });
    });
  }

 private:
  void run_in_place() {
    const std::size_t size = t_.size();
    const auto at = [&](auto* from, std::int64_t k) { return from + k * std::int64_t(size); };
    const auto& o = at_[0];
    if (!has_keys_ || o.key != key_offset_) {
      if (!narrow_keys(l_.keys + o.key, l_.along.key, n_, l_.places, lost(l_.places),
                       keys_.get(n_)))
        refuse_key(l_.places);
      has_keys_ = true, key_offset_ = o.key;
    }
    folder_->run(keys_.get(n_), at(l_.x, o.x), n_, l_.places,
                 l_.base ? at(l_.base, o.place) : nullptr, at(l_.out, o.place));
  }

  std::optional<std::uint32_t> lost(std::uint64_t places) const {
    return t_.leaves_out ? std::optional(static_cast<std::uint32_t>(places)) : std::nullopt;
  }

  template <class T>
  void gather(std::size_t lines, std::size_t n, std::int64_t scatter_layout::offset::* offset,
              std::int64_t stride, const T* from, T* to, std::size_t pitch) const {
    if (stride == 1) {
      for (std::size_t c = 0; c < lines; ++c) std::copy_n(from + at_[c].*offset, n, to + c * pitch);
      return;
    }
    copy_lines(lines, n, [&](std::size_t c, std::size_t i) {
      to[c * pitch + i] = from[at_[c].*offset + static_cast<std::int64_t>(i) * stride];
    });
  }
  // Of lines that are folded together, the places lie one behind the other.
  void gather_keys(std::size_t lines, std::uint32_t* to) {
    struct place {
      std::uint64_t first, end;  // of the line, and of all those
    };
    std::vector<place> places(lines);
    for (std::size_t c = 0; c < lines; ++c) {
      const std::size_t within = c % together_, all = std::min(together_, lines - (c - within));
      places[c] = {within * l_.places, all * l_.places};
    }
    std::uint64_t wrong = 0;
    const bool drops = t_.leaves_out;
    const auto put = [&](std::size_t c, std::size_t i) {
      const std::int64_t key = l_.keys[at_[c].key + static_cast<std::int64_t>(i) * l_.along.key];
      const std::uint64_t how = wrong_key(key, l_.places);
      const bool lost = drops && how >> 63;
      wrong |= lost ? 0 : how;
      to[c * pitch_ + i] = static_cast<std::uint32_t>(
          lost ? places[c].end : static_cast<std::uint64_t>(key) + places[c].first);
    };
    if (l_.along.key == 1)
      for (std::size_t c = 0; c < lines; ++c)
        for (std::size_t i = 0; i < n_; ++i) put(c, i);
    else
      copy_lines(lines, n_, put);
    if (wrong >> 63) refuse_key(l_.places);
  }

  const scatter_task& t_;
  const scatter_layout& l_;
  const std::size_t n_, at_once_;
  std::size_t together_, pitch_, places_pitch_;
  std::unique_ptr<line_folder> folder_;
  std::vector<scatter_layout::offset> at_;
  scratch<std::uint32_t> keys_;
  scratch<std::byte> x_, base_, out_;
  bool has_keys_ = false;
  std::int64_t key_offset_ = 0;
};

// ---- One line of many places --------------------------------------------------------------------

// Elements are shared out among buckets of neighbouring places, in their order, which fit into the
// cache.
class long_line {
 public:
  /// `columns`: the elements' keys are of so many columns, one beside the other.
  long_line(const scatter_task& t, const scatter_layout& l, std::uint64_t line, int threads,
            std::uint32_t columns = 1)
      : t_(t),
        l_(l),
        columns_(columns),
        at_(l.offset_of(line)),
        n_(l.along.extent),
        threads_(threads),
        bits_(std::max<int>(std::min<int>(13, std::bit_width(l.places / chunk_count(threads))),
                            std::bit_width(l.places >> 11))),
        buckets_((l.places >> bits_) + 1),
        chunks_(std::min<std::size_t>(static_cast<std::size_t>(threads), n_ / 4096 + 1)),
        begins_(chunks_ * buckets_),
        first_of_(buckets_ + 1) {}

  void run() {
    count();
    detail::with_bits(t_.type, [&]<class T>(T) {
      move(reinterpret_cast<const T*>(l_.x), reinterpret_cast<T*>(values_.get(n_ * sizeof(T))));
      const std::size_t shares = std::min<std::size_t>(buckets_, chunk_count(threads_));
      parallel_for(shares, threads_, [&](std::size_t s) {
        const auto folder = folder_for(t_);
        for (std::size_t b = s * buckets_ / shares; b < (s + 1) * buckets_ / shares; ++b)
          fold<T>(b, *folder);
      });
    });
  }

 private:
  std::size_t chunk_begin(std::size_t c) const { return n_ * c / chunks_; }

  void count() {
    std::uint32_t* const keys = keys_.get(n_);
    const auto places = static_cast<std::uint32_t>(l_.places / columns_);  // of a column
    const auto lost = t_.leaves_out ? std::optional(places) : std::nullopt;
    parallel_for(chunks_, threads_, [&](std::size_t c) {
      const std::size_t first = chunk_begin(c), end = chunk_begin(c + 1);
      if (!narrow_keys(l_.keys + at_.key + static_cast<std::int64_t>(first) * l_.along.key,
                       l_.along.key, end - first, places, lost, keys + first))
        refuse_key(places);
      if (columns_ > 1) {
        auto column = static_cast<std::uint32_t>(first % columns_);
        for (std::size_t i = first; i < end; ++i) {
          keys[i] = keys[i] * columns_ + (keys[i] < places ? column : 0);
          column = column + 1 == columns_ ? 0 : column + 1;
        }
      }
      for (std::size_t i = first; i < end; ++i) ++begins_[c * buckets_ + (keys[i] >> bits_)];
    });
    std::size_t sum = 0;
    for (std::size_t b = 0; b < buckets_; ++b) {
      first_of_[b] = sum;
      for (std::size_t c = 0; c < chunks_; ++c)
        sum += std::exchange(begins_[c * buckets_ + b], sum);
    }
    first_of_[buckets_] = sum;
  }

  template <class T>
  void move(const T* x, T* to) {
    const std::uint32_t* const keys = keys_.get(n_);
    std::uint32_t* const keys_to = bucket_keys_.get(n_);
    const auto within = static_cast<std::uint32_t>((std::uint64_t{1} << bits_) - 1);
    parallel_for(chunks_, threads_, [&](std::size_t c) {
      std::size_t* const next = &begins_[c * buckets_];
      for (std::size_t i = chunk_begin(c); i < chunk_begin(c + 1); ++i) {
        const std::size_t place = next[keys[i] >> bits_]++;
        keys_to[place] = keys[i] & within;
        to[place] = x[at_.x + static_cast<std::int64_t>(i) * l_.along.x];
      }
    });
  }

  template <class T>
  void fold(std::size_t b, line_folder& folder) {
    const std::uint64_t first = static_cast<std::uint64_t>(b) << bits_,
                        places = std::min(std::uint64_t{1} << bits_, l_.places - first);
    if (places == 0) return;
    const auto* const base = reinterpret_cast<const T*>(l_.base);
    auto* const out = reinterpret_cast<T*>(l_.out);
    const auto place = [&](std::uint64_t k) {
      return at_.place + static_cast<std::int64_t>(first + k) * l_.along.place;
    };
    const auto run = [&](const T* before, T* to) {
      folder.run(bucket_keys_.get(n_) + first_of_[b],
                 values_.get(n_ * sizeof(T)) + first_of_[b] * sizeof(T),
                 first_of_[b + 1] - first_of_[b], places,
                 reinterpret_cast<const std::byte*>(before), reinterpret_cast<std::byte*>(to));
    };
    if (l_.along.place == 1) return run(base ? base + place(0) : nullptr, out + place(0));
    std::vector<T> before(base ? places : 0), to(places);
    for (std::uint64_t k = 0; k < before.size(); ++k) before[k] = base[place(k)];
    run(base ? before.data() : nullptr, to.data());
    for (std::uint64_t k = 0; k < places; ++k) out[place(k)] = to[k];
  }

  const scatter_task& t_;
  const scatter_layout& l_;
  const std::uint32_t columns_;
  const scatter_layout::offset at_;
  const std::size_t n_;
  const int threads_, bits_;
  const std::size_t buckets_, chunks_;
  std::vector<std::size_t> begins_;    // where a chunk's elements of a bucket go,
  std::vector<std::size_t> first_of_;  // and the first of a bucket
  scratch<std::uint32_t> keys_, bucket_keys_;
  scratch<std::byte> values_;
};

// Columns of arrays that lie as they are read: what their elements go to is one line of places. (Of
// very many columns some at a time take less memory, and as long.)
std::optional<scatter_layout> as_one_line(const scatter_layout& l) {
  constexpr std::uint64_t most_columns = 256;
  if (l.kept.size() != 1 || l.lines > most_columns) return {};
  const auto &across = l.kept[0], &down = l.along;
  const auto lies = [&](std::int64_t scatter_layout::axis::* stride) {
    return across.*stride == 1 && down.*stride == static_cast<std::int64_t>(across.extent);
  };
  using axis = scatter_layout::axis;
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  if (!lies(&axis::x) || !lies(&axis::key) || !lies(&axis::place) ||
      std::max(l.places, down.extent) >= most / across.extent)
    return {};
  return scatter_layout{
      l.x, l.keys, l.base, l.out, l.places * across.extent, {down.extent * across.extent, 1, 1, 1},
      {},  1};
}

}  // namespace

std::unique_ptr<line_folder> folder_for(const scatter_task& t) {
  std::unique_ptr<line_folder> f;
  with_numbers(t,
               [&]<class E, class Join>(E, Join) { f = std::make_unique<folder_of<E, Join>>(t); });
  return f;
}

bool narrow_keys(const std::int64_t* keys, std::int64_t stride, std::size_t n, std::uint64_t places,
                 std::optional<std::uint32_t> lost, std::uint32_t* to) {
  std::uint64_t wrong = 0;
  const auto each = [&](auto key_of) {
    if (!lost) {
      for (std::size_t i = 0; i < n; ++i) {
        wrong |= wrong_key(key_of(i), places);
        to[i] = static_cast<std::uint32_t>(key_of(i));
      }
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        const bool names_none = wrong_key(key_of(i), places) >> 63;
        to[i] = names_none ? *lost : static_cast<std::uint32_t>(key_of(i));
      }
    }
  };
  if (stride == 1)
    each([&](std::size_t i) { return keys[i]; });
  else
    each([&](std::size_t i) { return keys[static_cast<std::int64_t>(i) * stride]; });
  return !(wrong >> 63);
}

void refuse_key(std::uint64_t places) {
  throw error(errc::usage, "keys: one is not from 0 to " +
                               std::to_string(static_cast<std::int64_t>(places) - 1));
}

void scatter_lines(const scatter_task& t, const scatter_layout& l, const options& opts) {
  const std::size_t n = l.along.extent, line_bytes = n * (t.size() + 8) + l.places * t.size();
  const int threads = threads_for(opts, l.lines * line_bytes);
  constexpr std::size_t short_line = 512, most_places = 1 << 16, long_column = 1 << 14;
  if (const auto line = as_one_line(l); line && std::max(n, l.places) >= long_column)
    return long_line(t, *line, 0, threads, static_cast<std::uint32_t>(l.lines)).run();
  const bool few = threads > 1 && l.lines < 2 * static_cast<std::uint64_t>(threads) &&
                   n > (std::size_t{1} << 18);
  if ((l.places > most_places && n > most_places / 16) || few) {
    for (std::uint64_t k = 0; k < l.lines; ++k) long_line(t, l, k, threads).run();
    return;
  }
  if (!l.kept.empty() && std::abs(l.kept.back().x) < std::abs(l.along.x))
    return scatter_columns(t, l, threads);
  const bool in_place = l.along.x == 1 && l.along.place == 1 && (l.along.key == 1 || n == 1) &&
                        std::max<std::size_t>(n, l.places) >= short_line;
  // As many as fit into the second-level cache, where they are brought together.
  const std::size_t fit =
      (std::size_t{1} << 20) / (n * (t.size() + 4) + 2 * l.places * t.size() + 1);
  const std::size_t at_once = in_place       ? 0
                              : l.lines == 1 ? 1
                                             : std::clamp<std::size_t>(fit, 1, 256);
  const std::uint64_t step = std::max<std::size_t>(at_once, 1), groups = (l.lines - 1) / step + 1;
  const std::uint64_t shares = std::min<std::uint64_t>(groups, chunk_count(threads));
  parallel_for(shares, threads, [&](std::size_t s) {
    line_worker mine(t, l, at_once);
    for (std::uint64_t g = s * groups / shares; g < (s + 1) * groups / shares; ++g)
      mine.run(g * step, std::min(step, l.lines - g * step));
  });
}

}  // namespace bitfold::cpu
