// A scatter line by line, each by one thread; short lines are brought together, some at a time, and
// one of many places is cut up by its keys (scatter_long.cpp).
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "../strided.hpp"
#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

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
    // Short lines are folded together, as one: up to 2048 elements or places, or 32 lines of up to
    // 16384, which the cache holds. The rows of others do not begin at multiples of a page, which
    // share lines of the cache.
    const std::size_t longest = std::max<std::size_t>({n_, l.places, 1}),
                      wanted = std::max(2048 / longest, std::min<std::size_t>(32, 16384 / longest));
    together_ = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(at_once, 1));
    const std::size_t gap = together_ == 1 ? 32 : 0;
    pitch_ = n_ + gap, places_pitch_ = l.places + gap;
  }

  void run(std::uint64_t first, std::size_t lines) {
    at_.resize(lines);
    for (std::size_t c = 0; c < lines; ++c) at_[c] = l_.offset_of(first + c);
    if (at_once_ == 0) return run_in_place();
    std::uint32_t* const keys = keys_.get(at_once_ * pitch_);
    gather_keys(lines, keys);
    detail::with_bits(t_.type, [&]<class T>(T) {
      using offset = scatter_layout::offset;
      const auto *x = reinterpret_cast<const T*>(l_.x) + at_[0].x,
                 *base = l_.base ? reinterpret_cast<const T*>(l_.base) + at_[0].place : nullptr;
      T *const to = reinterpret_cast<T*>(l_.out), *out = to + at_[0].place;
      std::size_t pitch = n_, places_pitch = l_.places;
      if (!are_neighbours(lines, &offset::x, l_.along.x, n_)) {
        pitch = pitch_;
        x = gather(lines, n_, &offset::x, l_.along.x, reinterpret_cast<const T*>(l_.x), x_, pitch);
      }
      const bool in_place = are_neighbours(lines, &offset::place, l_.along.place, l_.places);
      if (!in_place) {
        places_pitch = places_pitch_;
        if (l_.base)
          base = gather(lines, l_.places, &offset::place, l_.along.place,
                        reinterpret_cast<const T*>(l_.base), base_, places_pitch);
        out = reinterpret_cast<T*>(out_.get(at_once_ * places_pitch * sizeof(T)));
      }
      for (std::size_t c = 0; c < lines; c += together_) {
        const std::size_t taken = std::min(together_, lines - c);
        folder_->run(
            keys + c * pitch_, reinterpret_cast<const std::byte*>(x + c * pitch), taken * n_,
            taken * l_.places,
            l_.base ? reinterpret_cast<const std::byte*>(base + c * places_pitch) : nullptr,
            reinterpret_cast<std::byte*>(out + c * places_pitch), taken);
      }
      if (in_place) return;
      if (l_.along.place == 1)
        for (std::size_t c = 0; c < lines; ++c)
          std::copy_n(out + c * places_pitch, l_.places, to + at_[c].place);
      else
        copy_lines(lines, l_.places, [&](std::size_t c, std::size_t i) {
          to[at_[c].place + static_cast<std::int64_t>(i) * l_.along.place] =
              out[c * places_pitch + i];
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
                 l_.base ? at(l_.base, o.place) : nullptr, at(l_.out, o.place), 1);
  }

  std::optional<std::uint32_t> lost(std::uint64_t places) const {
    return t_.leaves_out ? std::optional(static_cast<std::uint32_t>(places)) : std::nullopt;
  }

  // Whether lines lie one behind the other, as they are folded.
  bool are_neighbours(std::size_t lines, std::int64_t scatter_layout::offset::* offset,
                      std::int64_t stride, std::size_t n) const {
    bool all = stride == 1 || n == 1;
    for (std::size_t c = 1; c < lines; ++c)
      all &= at_[c].*offset == at_[c - 1].*offset + static_cast<std::int64_t>(n);
    return all;
  }
  template <class T>
  T* gather(std::size_t lines, std::size_t n, std::int64_t scatter_layout::offset::* offset,
            std::int64_t stride, const T* from, scratch<std::byte>& room, std::size_t pitch) const {
    T* const to = reinterpret_cast<T*>(room.get(at_once_ * pitch * sizeof(T)));
    if (stride == 1) {
      for (std::size_t c = 0; c < lines; ++c) std::copy_n(from + at_[c].*offset, n, to + c * pitch);
      return to;
    }
    copy_lines(lines, n, [&](std::size_t c, std::size_t i) {
      to[c * pitch + i] = from[at_[c].*offset + static_cast<std::int64_t>(i) * stride];
    });
    return to;
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

}  // namespace

bool narrow_keys(const std::int64_t* keys, std::int64_t stride, std::size_t n, std::uint64_t places,
                 std::optional<std::uint32_t> lost, std::uint32_t* to) {
  // Memory is asked for keys some time before they are read: without that it is late.
  std::uint64_t wrong = 0;
  const auto each = [&](auto key_of, std::size_t begin, std::size_t end) {
    if (!lost) {
      for (std::size_t i = begin; i < end; ++i) {
        wrong |= wrong_key(key_of(i), places);
        to[i] = static_cast<std::uint32_t>(key_of(i));
      }
    } else {
      for (std::size_t i = begin; i < end; ++i) {
        const bool names_none = wrong_key(key_of(i), places) >> 63;
        to[i] = names_none ? *lost : static_cast<std::uint32_t>(key_of(i));
      }
    }
  };
  if (stride != 1) {
    each([&](std::size_t i) { return keys[static_cast<std::int64_t>(i) * stride]; }, 0, n);
  } else {
    constexpr std::size_t some = 32;
    for (std::size_t k = 0; k < n; k += some) {
      detail::foresee(reinterpret_cast<std::uintptr_t>(keys + k) + detail::far_ahead,
                      some * sizeof *keys);
      each([&](std::size_t i) { return keys[i]; }, k, std::min(n, k + some));
    }
  }
  return !(wrong >> 63);
}

void refuse_key(std::uint64_t places) {
  throw error(errc::usage, "keys: one is not from 0 to " +
                               std::to_string(static_cast<std::int64_t>(places) - 1));
}

void scatter_lines(const scatter_task& t, const scatter_layout& l, const options& opts) {
  const std::size_t n = l.along.extent, line_bytes = n * (t.size() + 8) + l.places * t.size();
  const int threads = threads_for(opts, l.lines * line_bytes);
  constexpr std::size_t short_line = 512;
  if (scatter_long_lines(t, l, threads)) return;
  if (!l.kept.empty() && std::abs(l.kept.back().x) < std::abs(l.along.x))
    return scatter_columns(t, l, threads);
  const std::size_t of_thread =
      static_cast<std::size_t>(l.lines) / static_cast<std::size_t>(std::max(threads, 1));
  // Of few places one is often written again before the processor is done with it: lines take
  // turns, if they have keys of their own.
  const bool take_turns =
      of_thread > 1 && l.places < 256 && n < 4096 && t.folds_in_lanes(n, l.places) &&
      std::ranges::any_of(l.kept, [](const scatter_layout::axis& a) { return a.key != 0; });
  const bool in_place = l.along.x == 1 && l.along.place == 1 && (l.along.key == 1 || n == 1) &&
                        std::max<std::size_t>(n, l.places) >= short_line && !take_turns;
  const std::size_t bytes = n * (t.size() + 4) + 2 * l.places * t.size() + 1;
  // As many as fit into the second-level cache, where they are brought together; or, where they
  // share lines of the cache and none is long, as many as share one. But each thread has some.
  const bool apart = l.along.key == 1 && l.along.place == 1;
  const std::size_t fit = (std::size_t{1} << 20) / bytes, least = apart ? 1 : 16,
                    together = std::clamp<std::size_t>(
                        std::max(fit, std::min(least, (std::size_t{1} << 22) / bytes)), 1, 256),
                    at_once =
                        in_place ? 0 : std::min(together, std::max<std::size_t>(of_thread, 1));
  const std::uint64_t step = std::max<std::size_t>(at_once, 1), groups = (l.lines - 1) / step + 1;
  const std::uint64_t shares = std::min<std::uint64_t>(groups, chunk_count(threads));
  parallel_for(shares, threads, [&](std::size_t s) {
    line_worker mine(t, l, at_once);
    for (std::uint64_t g = s * groups / shares; g < (s + 1) * groups / shares; ++g)
      mine.run(g * step, std::min(step, l.lines - g * step));
  });
}

}  // namespace bitfold::cpu
