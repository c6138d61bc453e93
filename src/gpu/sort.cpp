#include "sort.hpp"

#include <algorithm>
#include <bitfold/cuda/sort.hpp>
#include <cstddef>
#include <string>
#include <utility>

namespace bitfold::gpu {
namespace {

constexpr std::string_view header = "bitfold/cuda/sort.cuh";
// Where there are counters of blocks: the first for those that count, then one for each pass.
constexpr std::size_t begun_bytes = rounded_up(sizeof(std::uint32_t) * (1 + sizeof(std::uint64_t)));

const sort_line& line_for(const sorting& what, const tuning& by) {
  return *std::ranges::find_if(by.sorts, [&](const sort_line& l) {
    return what.key_bytes <= l.key && what.value_bytes <= l.value && what.n <= l.most;
  });
}

std::string word_of(std::size_t bytes) {
  return bytes == 0 ? "bitfold::cuda::no_value" : "std::uint" + std::to_string(8 * bytes) + "_t";
}

}  // namespace

std::size_t sorter::tiles() const {
  const std::size_t tile = tile_of(shape_);
  return what_.n / tile + (what_.n % tile != 0);
}

sorter::sorter(const sorting& what, std::size_t workspace, const tuning& by)
    : what_(what), shape_(line_for(what, by)), passes_(cuda::digits_of(what.bits)) {
  const auto take = [&](std::size_t bytes) {
    return in_workspace(std::exchange(workspace, workspace + rounded_up(bytes)));
  };
  end_ = workspace;
  if (few()) return;
  const std::size_t status = tiles() * cuda::digits * words();
  counts_ = take(static_cast<std::size_t>(passes_) * cuda::digits * sizeof(std::uint64_t));
  begun_ = take(begun_bytes);
  status_[0] = take(status);
  cleared_ = workspace - counts_.bytes;
  if (passes_ > 1) status_[1] = take(status);
  end_ = workspace;
}

void sorter::add_clearing(plan& to) const {
  if (!few()) to.steps.emplace_back(fill{counts_, cleared_});
}

void sorter::add_counts(arguments& to) const {
  using c = cuda::digit_counts;
  to.add(c{nullptr, nullptr, what_.first_bit, few() ? 0 : what_.bits})
      .set(offsetof(c, counts), counts_)
      .set(offsetof(c, blocks_done), begun_);
}

void sorter::add_counting(plan& to, place keys) const {
  if (few()) return;
  constexpr std::size_t of_block = 8 * cuda::counting_threads;
  const std::size_t blocks = (what_.n + of_block - 1) / of_block;
  pass p{instantiation{"count_digits", header, "",
                       "bitfold::cuda::count_digits<" + word_of(what_.key_bytes) + ">"},
         static_cast<unsigned>(std::min<std::size_t>(blocks, most_counting_blocks)),
         cuda::counting_threads};
  p.with.add_address(keys).add(std::uint64_t{what_.n});
  add_counts(p.with);
  to.steps.emplace_back(std::move(p));
}

sort_buffers sorter::add_passes(plan& to, sort_buffers at) const {
  return add_passes(to, at, at.values[0]);
}
sort_buffers sorter::add_passes(plan& to, sort_buffers at, place first_values) const {
  using s = cuda::sort_step;
  if (what_.n == 0) return at;
  const std::string types = word_of(what_.key_bytes) + ", " + word_of(what_.value_bytes);
  const std::string shape = ", bitfold::cuda::sort_shape<" + std::to_string(shape_.threads) + ", " +
                            std::to_string(shape_.items) + ", " +
                            std::to_string(shape_.least_blocks) + ">>";
  const instantiation one{"sort_few", header, "", "bitfold::cuda::sort_few<" + types + shape},
      each{"sort_pass", header, "",
           "bitfold::cuda::sort_pass<" + types + ", " + word_of(words()) + shape};
  for (int k = 0; k < (few() ? 1 : passes_); ++k) {
    const int before = k * cuda::digit_bits;
    pass p{few() ? one : each, grid_of(tiles(), what_.n), static_cast<unsigned>(shape_.threads)};
    p.line = shape_.name;
    s step{};
    step.n = what_.n;
    step.first_bit = what_.first_bit + before;
    step.bits = what_.bits - before;
    const auto number = static_cast<std::size_t>(k);
    p.with.add(step)
        .set(offsetof(s, keys), at.keys[0])
        .set(offsetof(s, sorted_keys), at.keys[1])
        .set(offsetof(s, values), k == 0 ? first_values : at.values[0])
        .set(offsetof(s, sorted_values), at.values[1])
        .set(offsetof(s, begins), counts_.behind(number * cuda::digits * sizeof(std::uint64_t)))
        .set(offsetof(s, tiles_begun), begun_.behind((1 + number) * sizeof(std::uint32_t)))
        .set(offsetof(s, status), status_[k % 2])
        .set(offsetof(s, next_status), k + 1 < passes_ ? status_[(k + 1) % 2] : place{});
    to.steps.emplace_back(std::move(p));
    std::swap(at.keys[0], at.keys[1]);
    std::swap(at.values[0], at.values[1]);
  }
  return at;
}

sorted add_sort(plan& to, const sorting& what, const sort_buffers& at, std::size_t workspace,
                const tuning& by) {
  const sorter sort(what, workspace, by);
  sort.add_clearing(to);
  sort.add_counting(to, at.keys[0]);
  return {sort.add_passes(to, at), sort.end()};
}

}  // namespace bitfold::gpu
