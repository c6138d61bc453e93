// A scatter of columns, each with keys of its own. Some are copied at once, row by row, and then
// folded as one line: column c's place k is place k * columns + c of it.
#include <algorithm>
#include <bit>
#include <cstring>

#include "scatter.hpp"

namespace bitfold::cpu {
namespace {

class columns_worker {
 public:
  columns_worker(const scatter_task& t, const scatter_layout& l, std::size_t side)
      : t_(t),
        l_(l),
        inner_(l.kept.back()),
        n_(l.along.extent),
        side_(side),
        folder_(folder_for(t)) {}

  // Neighbouring columns of one outer position.
  void run(std::uint64_t first, std::size_t columns) {
    at_ = l_.offset_of(first);
    columns_ = columns;
    keys_.get(n_ * columns);
    for (scratch<std::byte>* room : {&x_, &base_, &out_})
      room->get((room == &x_ ? n_ : l_.places) * columns * t_.size());
    detail::with_bits(t_.type, [&]<class T>(T) { run_typed<T>(); });
  }

 private:
  // Calls f(first column, columns) for each block of columns that are folded as one.
  template <class F>
  void for_each_block(F f) const {
    for (std::size_t c = 0; c < columns_; c += side_) f(c, std::min(side_, columns_ - c));
  }

  template <class T>
  void run_typed() {
    std::uint64_t wrong = 0;
    copy_keys(wrong);
    if (wrong >> 63) refuse_key(l_.places);
    auto *const x = reinterpret_cast<T*>(x_.get()), *const base = reinterpret_cast<T*>(base_.get()),
                *const out = reinterpret_cast<T*>(out_.get());
    move(reinterpret_cast<const T*>(l_.x) + at_.x, n_, l_.along.x, inner_.x,
         [=](const T& far, std::size_t near) { x[near] = far; });
    if (l_.base)
      move(reinterpret_cast<const T*>(l_.base) + at_.place, l_.places, l_.along.place, inner_.place,
           [=](const T& far, std::size_t near) { base[near] = far; });
    for_each_block([&](std::size_t c, std::size_t columns) {
      folder_->run(keys_.get() + c * n_, reinterpret_cast<const std::byte*>(x + c * n_),
                   n_ * columns, l_.places * columns,
                   l_.base ? reinterpret_cast<const std::byte*>(base + c * l_.places) : nullptr,
                   reinterpret_cast<std::byte*>(out + c * l_.places), 1);  // they take turns
    });
    move(reinterpret_cast<T*>(l_.out) + at_.place, l_.places, l_.along.place, inner_.place,
         [=](T& far, std::size_t near) { far = out[near]; });
  }

  // copy(an element of the array, its number among the blocks) of all elements, row by row.
  template <class T, class Copy>
  void move(T* far, std::uint64_t rows, std::int64_t down, std::int64_t across, Copy copy) const {
    for (std::uint64_t i = 0; i < rows; ++i) {
      T* const row = far + static_cast<std::int64_t>(i) * down;
      for_each_block([&](std::size_t c, std::size_t columns) {
        const std::size_t near = c * rows + i * columns;
        if (across == 1)
          for (std::size_t d = 0; d < columns; ++d) copy(row[c + d], near + d);
        else
          for (std::size_t d = 0; d < columns; ++d)
            copy(row[static_cast<std::int64_t>(c + d) * across], near + d);
      });
    }
  }

  void copy_keys(std::uint64_t& wrong) {
    std::uint32_t* const to = keys_.get();
    for (std::uint64_t i = 0; i < n_; ++i) {
      const std::int64_t* const row =
          l_.keys + at_.key + static_cast<std::int64_t>(i) * l_.along.key;
      for_each_block([&](std::size_t c, std::size_t columns) {
        std::uint32_t* const near = to + c * n_ + i * columns;
        const auto each = [&](auto key_of) {
          for (std::size_t d = 0; d < columns; ++d) {
            wrong |= wrong_key(key_of(d), l_.places);
            near[d] = static_cast<std::uint32_t>(key_of(d)) * static_cast<std::uint32_t>(columns) +
                      static_cast<std::uint32_t>(d);
          }
        };
        if (inner_.key == 1)
          each([&](std::size_t d) { return row[c + d]; });
        else
          each([&](std::size_t d) { return row[static_cast<std::int64_t>(c + d) * inner_.key]; });
        if (t_.leaves_out && wrong >> 63)
          leave_out(row + static_cast<std::int64_t>(c) * inner_.key, columns, near, wrong);
      });
    }
  }
  void leave_out(const std::int64_t* row, std::size_t columns, std::uint32_t* keys,
                 std::uint64_t& wrong) const {
    wrong = 0;
    for (std::size_t d = 0; d < columns; ++d)
      if (static_cast<std::uint64_t>(row[static_cast<std::int64_t>(d) * inner_.key]) >= l_.places)
        keys[d] = static_cast<std::uint32_t>(l_.places * columns);
  }

  const scatter_task& t_;
  const scatter_layout& l_;
  const scatter_layout::axis inner_;
  const std::size_t n_, side_;
  std::unique_ptr<line_folder> folder_;
  scatter_layout::offset at_;
  std::size_t columns_ = 0;
  scratch<std::uint32_t> keys_;
  scratch<std::byte> x_, base_, out_;
};

}  // namespace

void scatter_columns(const scatter_task& t, const scatter_layout& l, int threads) {
  const std::uint64_t inner = l.kept.back().extent, outer = l.lines / inner;
  const std::size_t longest = std::max<std::size_t>(l.along.extent, l.places);
  // What is folded as one stays in the second-level cache. As many columns are copied at once as
  // lie in some lines of the cache, so that a page is not looked up for each.
  const std::size_t side = std::clamp<std::size_t>(
      std::bit_floor((std::size_t{1} << 19) / (longest * (t.number_size() + 4)) + 1), 1, 16);
  const std::size_t column_bytes = l.along.extent * (t.size() + 4) + 2 * l.places * t.size();
  const std::size_t wide =
      std::clamp<std::size_t>((std::size_t{1} << 22) / column_bytes / side * side, side, 64);
  const std::uint64_t groups = (inner - 1) / wide + 1;
  const std::uint64_t shares = std::min<std::uint64_t>(outer * groups, chunk_count(threads));
  parallel_for(shares, threads, [&](std::size_t s) {
    columns_worker mine(t, l, side);
    for (std::uint64_t g = s * outer * groups / shares; g < (s + 1) * outer * groups / shares;
         ++g) {
      const std::uint64_t column = g % groups * wide;
      mine.run(g / groups * inner + column, std::min<std::uint64_t>(wide, inner - column));
    }
  });
}

}  // namespace bitfold::cpu
