// A scatter of one line of many places, cut up by its keys, by all threads.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "scatter.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace bitfold::cpu {
namespace {

// Room that, where it is much, comes in large pages if the system gives them: small ones take as
// long to come as what is done with them.
struct freed {
  void operator()(void* p) const { std::free(p); }
};
template <class T>
std::unique_ptr<T[], freed> on_large_pages(std::size_t n) {
  constexpr std::size_t large = std::size_t{1} << 21;
  const std::size_t page = n * sizeof(T) < large ? 64 : large,
                    bytes = (n * sizeof(T) / page + 1) * page;
  void* const room = std::aligned_alloc(page, bytes);
  if (!room) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (page == large) madvise(room, bytes, MADV_HUGEPAGE);
#endif
  return std::unique_ptr<T[], freed>(static_cast<T*>(room));
}

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
        bits_(std::max<int>(std::min<int>(12, std::bit_width(l.places / std::clamp<std::uint64_t>(
                                                                            n_ >> 13, 16, 512))),
                            std::bit_width(l.places >> 11))),
        buckets_((l.places >> bits_) + 1),
        chunks_(std::min<std::size_t>(static_cast<std::size_t>(threads), n_ / 4096 + 1)),
        begins_(chunks_ * buckets_),
        first_of_(buckets_ + 1) {}

  void run() {
    const bool lies = l_.along.x == 1 && l_.along.place == 1;
    if (lies && !t_.counts(l_.base) && !is_float(t_.type) && chunks_ * l_.places <= n_)
      return with_numbers(t_, [&]<class E, class Join>(E, Join) { join_anyhow<E, Join>(); });
    count();
    detail::with_bits(t_.type, [&]<class T>(T) {
      const auto elements = on_large_pages<element<T>>(n_);
      move(reinterpret_cast<const T*>(l_.x), elements.get());
      const std::size_t shares = std::min<std::size_t>(buckets_, chunk_count(threads_));
      parallel_for(shares, threads_, [&](std::size_t s) {
        bucket_folder<T> folder(t_);
        for (std::size_t b = s * buckets_ / shares; b < (s + 1) * buckets_ / shares; ++b)
          fold(b, elements.get(), folder);
      });
    });
  }

 private:
  template <class T>
  struct element {
    T value;
    std::uint32_t key;  // a place of its bucket
  };
  // Of one thread.
  template <class T>
  struct bucket_folder {
    explicit bucket_folder(const scatter_task& t) : fold(folder_for(t)) {}
    std::unique_ptr<line_folder> fold;
    scratch<std::uint32_t> keys;
    scratch<T> values, before, results;
  };

  std::size_t chunk_begin(std::size_t c) const { return n_ * c / chunks_; }

  // Calls f(first element, keys, n) for the elements of a chunk, some at a time.
  template <class F>
  void for_each_block(std::size_t c, F f) const {
    constexpr std::size_t block = 1024;
    std::uint32_t keys[block];
    // Of the elements of a block, from the first one's on: without a branch for each.
    std::vector<std::uint32_t> columns(columns_ > 1 ? block + columns_ : 0);
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i] = static_cast<std::uint32_t>(i % columns_);
    const auto places = static_cast<std::uint32_t>(l_.places / columns_);  // of a column
    const std::uint32_t of_row = columns_;
    const auto lost = t_.leaves_out ? std::optional(places) : std::nullopt;
    const std::size_t end = chunk_begin(c + 1);
    for (std::size_t first = chunk_begin(c), n = 0; first < end; first += n) {
      n = std::min(block, end - first);
      if (!narrow_keys(l_.keys + at_.key + static_cast<std::int64_t>(first) * l_.along.key,
                       l_.along.key, n, places, lost, keys))
        refuse_key(places);
      if (columns_ > 1) {
        const std::uint32_t* const column = columns.data() + first % columns_;
        for (std::size_t i = 0; i < n; ++i) {
          const std::uint32_t named = lost ? keys[i] < places : 1;
          keys[i] = keys[i] * of_row + named * column[i];
        }
      }
      f(first, keys, n);
    }
  }

  // Of integers no order shows: each chunk's are joined place by place, and then those of all.
  template <class E, class Join>
  void join_anyhow() {
    const std::size_t pitch = l_.places + 1;  // and what is left out
    const auto all = on_large_pages<E>(chunks_ * pitch);
    const auto at = [&](std::int64_t offset, std::size_t i) {
      return (offset + static_cast<std::int64_t>(i)) * static_cast<std::int64_t>(t_.size());
    };
    parallel_for(chunks_, threads_, [&](std::size_t c) {
      E* const results = all.get() + c * pitch;
      std::fill_n(results, pitch, Join::template neutral<E>);
      scratch<E> room;
      for_each_block(c, [&](std::size_t first, const std::uint32_t* keys, std::size_t n) {
        const E* const numbers = loaded(t_.loops, l_.x + at(at_.x, first), n, room);
        for (std::size_t i = 0; i < n; ++i)
          results[keys[i]] = Join::apply(results[keys[i]], numbers[i]);
      });
    });
    const std::size_t shares = std::min<std::size_t>(l_.places, chunk_count(threads_));
    parallel_for(shares, threads_, [&](std::size_t s) {
      const std::size_t first = l_.places * s / shares, n = l_.places * (s + 1) / shares - first;
      E* const results = all.get() + first;
      for (std::size_t c = 1; c < chunks_; ++c) t_.loops.joins(results, results + c * pitch, n);
      scratch<E> room;
      if (t_.with_base)
        t_.loops.joins(results, loaded(t_.loops, l_.base + at(at_.place, first), n, room), n);
      t_.loops.stores(results, nullptr, nullptr, n, l_.out + at(at_.place, first));
    });
  }

  void count() {
    parallel_for(chunks_, threads_, [&](std::size_t c) {
      std::size_t* const counts = &begins_[c * buckets_];
      for_each_block(c, [&](std::size_t, const std::uint32_t* keys, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) ++counts[keys[i] >> bits_];
      });
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
  void move(const T* x, element<T>* to) {
    const auto within = static_cast<std::uint32_t>((std::uint64_t{1} << bits_) - 1);
    parallel_for(chunks_, threads_, [&](std::size_t c) {
      std::size_t* const next = &begins_[c * buckets_];
      const std::int64_t stride = l_.along.x;
      const int bits = bits_;
      for_each_block(c, [&](std::size_t first, const std::uint32_t* keys, std::size_t n) {
        const T* from = x + at_.x + static_cast<std::int64_t>(first) * stride;
        for (std::size_t i = 0; i < n; ++i, from += stride) {
          detail::foresee(reinterpret_cast<std::uintptr_t>(from) + detail::far_ahead, 1);
          const std::size_t place = next[keys[i] >> bits]++;
          to[place] = {*from, keys[i] & within};
          // A bucket's next line of the cache is there when it is written.
          __builtin_prefetch(to + place + 64 / sizeof(element<T>), 1);
        }
      });
    });
  }

  template <class T>
  void fold(std::size_t b, const element<T>* elements, bucket_folder<T>& by) {
    const std::uint64_t first = static_cast<std::uint64_t>(b) << bits_,
                        places = std::min(std::uint64_t{1} << bits_, l_.places - first);
    if (places == 0) return;
    const auto* const base = reinterpret_cast<const T*>(l_.base);
    auto* const out = reinterpret_cast<T*>(l_.out);
    const auto place = [&](std::uint64_t k) {
      return at_.place + static_cast<std::int64_t>(first + k) * l_.along.place;
    };
    const std::size_t n = first_of_[b + 1] - first_of_[b];
    std::uint32_t* const keys = by.keys.get(n);
    T* const values = by.values.get(n);
    for (std::size_t i = 0; i < n; ++i) {
      const element<T> e = elements[first_of_[b] + i];
      __builtin_prefetch(elements + first_of_[b] + i + 256);
      keys[i] = e.key, values[i] = e.value;
    }
    const auto run = [&](const T* before, T* to) {
      by.fold->run(keys, reinterpret_cast<const std::byte*>(values), n, places,
                   reinterpret_cast<const std::byte*>(before), reinterpret_cast<std::byte*>(to), 1);
    };
    if (l_.along.place == 1) return run(base ? base + place(0) : nullptr, out + place(0));
    T *const before = by.before.get(places), *const to = by.results.get(places);
    for (std::uint64_t k = 0; k < places && base; ++k) before[k] = base[place(k)];
    run(base ? before : nullptr, to);
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

bool scatter_long_lines(const scatter_task& t, const scatter_layout& l, int threads) {
  constexpr std::size_t most_places = 1 << 16, long_column = 1 << 14;
  const std::size_t n = l.along.extent;
  if (const auto line = as_one_line(l); line && std::max<std::size_t>(n, l.places) >= long_column) {
    long_line(t, *line, 0, threads, static_cast<std::uint32_t>(l.lines)).run();
    return true;
  }
  const bool few = threads > 1 && l.lines < 2 * static_cast<std::uint64_t>(threads) &&
                   n > (std::size_t{1} << 18);
  if (!few && (l.places <= most_places || n <= most_places / 16)) return false;
  for (std::uint64_t k = 0; k < l.lines; ++k) long_line(t, l, k, threads).run();
  return true;
}

}  // namespace bitfold::cpu
