// Outputs whose elements lie in a row each, several at a time.
#pragma once

#include <algorithm>
#include <vector>

#include "work.hpp"

namespace bitfold::cpu {

/// Folds such outputs on one thread, and keeps the memory that this takes.
class short_rows {
 public:
  static constexpr order::index max = 64;

  explicit short_rows(const work& w) : w_(w) {}

  /// Outputs first, ..., first + count - 1, at most `max`, of n elements each: those of output
  /// first + i at rows[i].
  void run(order::index first, order::index count, order::index n, const inputs* rows) {
    for (std::size_t k = 0; k < w_.tasks.size(); ++k) {
      const task& t = w_.tasks[k];
      const batch_kernels& kernels = t.kernels.batch;
      states_.resize(max * t.states.size);
      const auto fold = [&](order::index begin, order::index taken, const inputs* from) {
        kernels.rows(from, static_cast<int>(taken), static_cast<int>(n), states_.data());
        w_.put_states(k, first + begin, taken, states_.data(), n);
      };
      const converter widen = kernels.widen_before();
      if (!widen) {
        fold(0, count, rows);
        continue;
      }
      // Widened rows have to stay in the first-level cache.
      const std::size_t pitch = n * kernels.element;
      const auto width = static_cast<order::index>(kernels.width),
                 fit = 16384 / (pitch * width) * width, at_once = std::clamp(fit, width, max);
      widened_.resize(2 * at_once * pitch);
      inputs wide[max];
      for (order::index begin = 0; begin < count; begin += at_once) {
        const order::index taken = std::min(at_once, count - begin);
        for (order::index i = 0; i < taken; ++i) {
          std::byte *const x = widened_.data() + i * pitch, *const y = x + at_once * pitch;
          const inputs& row = rows[begin + i];
          widen(row.x, n, x);
          if (row.y) widen(row.y, n, y);
          wide[i] = {x, row.y ? y : nullptr};
        }
        fold(begin, taken, wide);
      }
    }
  }

 private:
  const work& w_;
  std::vector<std::byte> states_, widened_;
};

}  // namespace bitfold::cpu
