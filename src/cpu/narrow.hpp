// Few neighbouring columns: too narrow for the lanes of vectors, they are brought into rows, a tile
// at a time.
#pragma once

#include <bit>
#include <span>
#include <vector>

#include "columns.hpp"

namespace bitfold::cpu {

/// Folds such columns on one thread, and keeps the memory that this takes.
class narrow_worker {
 public:
  narrow_worker(std::span<const task> tasks, const detail::layout& l, const column_plan& p)
      : tasks_(tasks), l_(l), p_(p) {}

  /// As column_worker::run.
  template <class Done>
  void run(order::index first, int outputs, order::index begin, order::index n, Done done) {
    const std::size_t size = size_of(l_.type), count = static_cast<std::size_t>(outputs),
                      tile = std::clamp<std::size_t>(std::bit_floor(first_level / (count * size)),
                                                     order::leaf, tile_elements),
                      pitch = tile * size + 64, second = count * pitch;
    const detail::strided_matrix x{l_.type, l_.x, &detail::axes::axis::x, l_.kept, l_.reduced},
        y{l_.type, l_.y, &detail::axes::axis::y, l_.kept, l_.reduced};
    rows_.resize(2 * second);
    std::vector<tile_counter> counters(count * tasks_.size());
    target used;
    for (order::index i = 0; i < n; i += tile) {
      const std::size_t taken = std::min<order::index>(tile, n - i);
      x.copy(first, count, begin + i, taken, rows_.data(), pitch);
      if (l_.y) y.copy(first, count, begin + i, taken, rows_.data() + second, pitch);
      for (std::size_t o = 0; o < count; ++o) {
        const std::byte* const row = rows_.data() + o * pitch;
        folder_.fold(tasks_, {row, l_.y ? row + second : nullptr}, taken,
                     (first + o) * p_.apart + begin + i, used,
                     [&](std::size_t k, const partial& s) {
                       counters[o * tasks_.size() + k].push(tasks_[k], s);
                     });
      }
    }
    for (std::size_t k = 0; k < tasks_.size(); ++k) {
      const std::size_t bytes = tasks_[k].states.size;
      states_.resize(count * bytes);
      for (std::size_t o = 0; o < count; ++o)
        std::memcpy(&states_[o * bytes], counters[o * tasks_.size() + k].total(tasks_[k]).bytes,
                    bytes);
      done(k, static_cast<const std::byte*>(states_.data()));
    }
  }

 private:
  static constexpr std::size_t first_level = std::size_t{1} << 15;  // bytes of a cache

  const std::span<const task> tasks_;
  const detail::layout& l_;
  const column_plan& p_;
  tile_folder folder_;
  std::vector<std::byte> rows_, states_;
};

}  // namespace bitfold::cpu
