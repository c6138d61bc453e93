#include "exact_outputs.hpp"

#include <cmath>
#include <utility>

#include "../fp_environment.hpp"
#include "columns.hpp"
#include "conversions.hpp"

namespace bitfold::cpu {

using detail::inexact_flag;

namespace {

void round_sums(const work& w, std::uint64_t first, std::size_t count, const double* sums) {
  rounding_of_doubles(w.reductions[0].out(), w.used)(
      sums, w.in_doubles.parts == 2 ? sums + count : nullptr, count, w.result_address(0, first));
}

// Whether the sums of output k of some are exact, where nothing was rounded.
bool are_finite(const work& w, const double* sums, std::size_t count, std::size_t k) {
  return std::isfinite(sums[k]) && std::isfinite(sums[(w.in_doubles.parts - 1) * count + k]);
}

// Columns on one thread.
class exact_columns {
 public:
  // Of a strip, but for the last of a run, which may be up to a vector wider: a page of floats.
  static constexpr std::uint64_t max_width = 1024;

  exact_columns(const work& w, const detail::layout& l, const std::ptrdiff_t* rows)
      : w_(w), l_(l), rows_(rows), any_(w) {}

  void run(std::uint64_t first, std::size_t count) {
    const double* const sums = sum(first, count);
    if (sums) round_sums(w_, first, count, sums);
    const auto is_exact = [&](std::uint64_t o) {
      return sums && are_finite(w_, sums, count, o - first);
    };
    const std::uint64_t end = first + count, n = l_.n;
    const std::size_t pitch = n * size_of(l_.type);
    for (std::uint64_t o = first; o < end; ++o) {
      if (is_exact(o)) continue;
      const std::uint64_t taken = std::min(w_.source.gathered_outputs(), end - o);
      gathered_.resize(w_.source.gathered_outputs() * pitch);
      w_.source.gather(o, taken, 0, n, gathered_.data(), pitch, 0);
      for (const std::uint64_t begin = o; o < begin + taken; ++o)
        if (!is_exact(o)) any_.put_any(o, {gathered_.data() + (o - begin) * pitch, n});
      --o;
    }
  }

 private:
  // The sums; those that are not exact are not finite. Null if most are not.
  const double* sum(std::uint64_t first, std::size_t count) {
    const std::byte* const x =
        l_.x + l_.kept.offset_of(first).x * static_cast<std::int64_t>(size_of(l_.type));
    const std::size_t rows =
        std::max<std::size_t>(8, 4096 / count);  // between two looks at the flag
    double *from = sums_[0], *to = sums_[1];
    std::fill_n(from, w_.in_doubles.parts * count, -0.0);
    for (std::size_t i = 0; i < l_.n; i += rows, std::swap(from, to)) {
      const std::size_t here = std::min<std::size_t>(rows, l_.n - i);
      inexact_flag::lower();
      w_.in_doubles.add(x, rows_ + i, here, count, from, to);
      if (!inexact_flag::is_up()) continue;
      w_.in_doubles.add_or_lose(x, rows_ + i, here, count, from, to);
      const auto lost = std::count_if(to, to + count, [](double s) { return std::isnan(s); });
      if (2 * static_cast<std::size_t>(lost) > count) return nullptr;
    }
    return from;
  }

  const work& w_;
  const detail::layout& l_;
  const std::ptrdiff_t* const rows_;  // of each element of an output: how far it is from the first
  exact_rows any_;
  std::vector<std::byte> gathered_;
  double sums_[2][2 * (max_width + column_width)];
};

}  // namespace

void exact_rows::flush() {
  const std::size_t count = std::exchange(count_, 0);
  elements_ = 0;
  bool exact[max_rows] = {};
  if (skipped_ > 0) {
    --skipped_;
  } else if (count > 0) {
    double sums[2 * max_rows];
    // Those of some of the rows, where they are exact; says how many are not.
    const auto put = [&](std::size_t first, std::size_t rows) {
      inexact_flag::lower();
      w_.in_doubles.of_rows(rows_ + first, rows, sums);
      if (inexact_flag::is_up()) return rows;
      round_sums(w_, first_ + first, rows, sums);
      std::size_t lost = 0;
      for (std::size_t k = 0; k < rows; ++k)
        lost += !(exact[first + k] = are_finite(w_, sums, rows, k));
      return lost;
    };
    std::size_t lost = put(0, count);
    if (lost == count && count > 1) {
      lost = 0;
      for (std::size_t k = 0; k < count; ++k) lost += put(k, 1);
    }
    skipped_ = missed_ = 2 * lost > count ? std::min(2 * missed_ + 1, 63) : 0;
  }
  for (std::size_t k = 0; k < count; ++k)
    if (!exact[k]) put_any(first_ + k, rows_[k]);
}

void exact_rows::put_any(std::uint64_t output, element_row row) const {
  detail::exact_sums any(w_.sums);
  deposit(any, w_.used, {row.x, nullptr}, row.n);
  w_.put(0, output, any.result(w_.reductions[0], row.n));
}

void run_exact_rows(const work& w, const detail::layout& l, int threads) {
  constexpr std::uint64_t max = 64;
  const std::uint64_t blocks = (l.outputs - 1) / max + 1,
                      shares = std::min(blocks, chunk_count(threads));
  const auto size = static_cast<std::ptrdiff_t>(size_of(l.type));
  parallel_for(shares, threads, [&](std::size_t share) {
    exact_rows mine(w);
    const std::uint64_t end = std::min(l.outputs, (share + 1) * blocks / shares * max);
    for (std::uint64_t first = share * blocks / shares * max; first < end; first += max) {
      std::ptrdiff_t offsets[max];
      const std::uint64_t count = std::min(max, end - first);
      detail::offsets_of(l.kept, first, count, offsets, nullptr);
      for (std::uint64_t k = 0; k < count; ++k) mine.add(first + k, {l.x + offsets[k] * size, l.n});
    }
    mine.flush();
  });
}

bool are_exact_columns(const detail::layout& l) {
  if (l.kept.rank == 0 || l.contiguous()) return false;
  const auto& inner = l.kept.dims[l.kept.rank - 1];
  return inner.x == 1 && inner.extent >= column_width;
}

void run_exact_columns(const work& w, const detail::layout& l, int threads) {
  const std::uint64_t run = l.kept.dims[l.kept.rank - 1].extent,
                      share = l.outputs / chunk_count(threads, 2),
                      width = std::clamp<std::uint64_t>(share, 64, exact_columns::max_width),
                      of_run = (run - 1) / width + 1;
  // (Strips of a run begin with whole vectors, and none is much shorter than the others.)
  const auto cut = [&](std::uint64_t k) {
    return k == of_run ? run : run * k / of_run / column_width * column_width;
  };
  std::vector<std::ptrdiff_t> rows(l.n);
  detail::offsets_of(l.reduced, 0, l.n, rows.data(), nullptr);
  const std::uint64_t strips = l.outputs / run * of_run,
                      shares = std::min(strips, chunk_count(threads));
  parallel_for(shares, threads, [&](std::size_t k) {
    exact_columns mine(w, l, rows.data());
    for (std::uint64_t s = k * strips / shares; s < (k + 1) * strips / shares; ++s) {
      const std::uint64_t begin = cut(s % of_run);
      mine.run(s / of_run * run + begin, cut(s % of_run + 1) - begin);
    }
  });
}

}  // namespace bitfold::cpu
