// What a scatter is made of on the CPU: elements as they are put together, and how they lie.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <bitfold/row_inputs.hpp>
#include <bitfold/scatter.hpp>

#include "../batch.hpp"
#include "task.hpp"

namespace bitfold::cpu {

/// Elements are put together as numbers E: float, double or uint64_t, which sums and products of
/// all integers are right modulo; or, of extrema, as int32_t or int64_t, whose larger ones are the
/// more extreme elements, so that there is neither a NaN nor a zero of two signs.
enum class joining : std::uint8_t { sum, product, extremum };

/// Loops of elements as they are stored and numbers E, n of each.
struct scatter_loops {
  using load = void (*)(const void* stored, std::size_t n, void* numbers);
  /// Where a count is 0 what `base` has, or 0 where that is null. Without counts all are stored.
  using store = void (*)(const void* numbers, const void* base, const std::uint32_t* counts,
                         std::size_t n, void* stored);
  using join = void (*)(void* to, const void* with, std::size_t n);
  using join_and_store = void (*)(const void* numbers, const void* with, std::size_t n,
                                  void* stored);
  /// By counts[i] + more, or more where there are no counts.
  using divide = void (*)(void* numbers, const std::uint32_t* counts, std::uint32_t more,
                          std::size_t n);
  /// What up to order::lanes rows of a multiple of row_width columns fold to in adjacent pairs,
  /// column by column: of floats each times its weight, where weights (numbers E) are not null.
  /// `soon`, where it is not null: as many rows that are read soon.
  using fold_pairs = void (*)(const void* const* rows, const void* weights, std::size_t n,
                              std::size_t columns, const void* const* soon, void* to);
  static constexpr std::size_t row_width = 16;
  /// The sum of those above `few`.
  using sum_counts = std::size_t (*)(const std::uint32_t* counts, std::uint32_t few, std::size_t n);
  using max_count = std::uint32_t (*)(const std::uint32_t* counts, std::size_t n);
  load loads;  ///< null where numbers are as they are stored
  store stores;
  join joins;
  divide divides;  ///< of means
  join_and_store joins_and_stores;
  fold_pairs folds_pairs;
  sum_counts counts_above;
  max_count largest_count;  ///< 0 of none
};

struct scatter_task {
  joining how;
  dtype type, number;  ///< of elements; and E: f32, f64, u64, or, of extrema, i32 or i64
  bool with_base, mean, leaves_out;
  bool ordered;          ///< or else no order of elements shows in the result
  std::size_t direct;    ///< so many elements one after the other give the bits of their order
  std::size_t in_lanes;  ///< of so many the lanes are their elements joined one after the other,
                         ///< and fold in adjacent pairs: 0, or order::lanes or more
  reduction whole;       ///< of more, of numbers, and what folds them
  task folds;
  scatter_loops loops;
  target used;

  std::size_t size() const { return size_of(type); }
  std::size_t number_size() const { return size_of(number); }
  /// Whether it is asked how many elements go to a place. (A sum of none is 0, as are zeros.)
  bool counts(const std::byte* base) const {
    return ordered || mean || (!with_base && (base || how != joining::sum));
  }
  static constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();
  /// Whether n elements of a line go to a table of the places' lanes: of fewer most are right as
  /// they come, and of more they are sorted.
  bool folds_in_lanes(std::size_t n, std::size_t places) const {
    return direct != any_number && in_lanes > 0 && 2 * n > 3 * places && n <= 128 * places;
  }
};
/// Errors (errc::usage): an operation, a method or a type that there is not.
scatter_task scatter_task_for(const scattering& how, dtype type, const options& opts);

/// Lines: of each its elements along the axis, and the places that these go to. Strides are in
/// elements.
struct scatter_layout {
  struct axis {
    std::uint64_t extent;
    std::int64_t x, key, place;
  };
  struct offset {
    std::int64_t x = 0, key = 0, place = 0;
  };
  const std::byte* x;
  const std::int64_t* keys;
  const std::byte* base;
  std::byte* out;
  std::uint64_t places;  ///< of a line,
  axis along;            ///< and its elements
  std::vector<axis> kept;
  std::uint64_t lines;

  offset offset_of(std::uint64_t line) const {
    offset o;
    for (std::size_t k = kept.size(); k-- > 0; line /= kept[k].extent) {
      const auto digit = static_cast<std::int64_t>(line % kept[k].extent);
      o.x += digit * kept[k].x;
      o.key += digit * kept[k].key;
      o.place += digit * kept[k].place;
    }
    return o;
  }
};

/// Folds one line, or several as one: elements one behind the other, with keys below `places`, or
/// equal to it where they are left out. `lines`: how many lines of n / lines elements these are,
/// each with places of its own; 1 if they do not lie so.
class line_folder {
 public:
  virtual ~line_folder() = default;
  virtual void run(const std::uint32_t* keys, const std::byte* x, std::size_t n, std::size_t places,
                   const std::byte* base, std::byte* out, std::size_t lines) = 0;
};

std::unique_ptr<line_folder> folder_for(const scatter_task& t);

/// Lines for all threads, one after the other; false, and nothing is done, where they are none.
bool scatter_long_lines(const scatter_task& t, const scatter_layout& l, int threads);
/// Each line by itself.
void scatter_lines(const scatter_task& t, const scatter_layout& l, const options& opts);
/// Lines whose neighbours are closer in memory than their own elements, several at once.
void scatter_columns(const scatter_task& t, const scatter_layout& l, int threads);
/// The last of the kept axes is one of columns, which lie one behind the other and have the same
/// keys: lines are rows of these, and what goes to a place is added up side by side.
void scatter_rows(const scatter_task& t, const scatter_layout& l, const options& opts);

/// Its sign is set if the key names no place.
inline std::uint64_t wrong_key(std::int64_t key, std::uint64_t places) {
  const auto k = static_cast<std::uint64_t>(key);
  return k | (places - 1 - k);
}
/// Keys as numbers below `places`; one that names no place becomes `lost`, if that is given, or
/// else false is returned.
bool narrow_keys(const std::int64_t* keys, std::int64_t stride, std::size_t n, std::uint64_t places,
                 std::optional<std::uint32_t> lost, std::uint32_t* to);
[[noreturn]] void refuse_key(std::uint64_t places);

struct adds {
  template <class E>
  static E apply(E a, E b) {
    return arith::add(a, b);
  }
  template <class E>
  static constexpr E neutral = std::is_floating_point_v<E> ? E(-0.0) : E(0);
};
struct multiplies {
  template <class E>
  static E apply(E a, E b) {
    return arith::mul(a, b);
  }
  template <class E>
  static constexpr E neutral = 1;
};
struct takes_larger {
  template <class E>
  static E apply(E a, E b) {
    return a < b ? b : a;
  }
  template <class E>
  static constexpr E neutral = std::numeric_limits<E>::min();
};
/// Calls f(E{}, join) with E and what joins two of them.
template <class F>
void with_numbers(const scatter_task& t, F f) {
  const auto with = [&]<class E>(E number) {
    if (t.how == joining::sum)
      f(number, adds{});
    else
      f(number, multiplies{});
  };
  switch (t.number) {
    case dtype::f32: return with(float{});
    case dtype::f64: return with(double{});
    case dtype::i32: return f(std::int32_t{}, takes_larger{});
    case dtype::i64: return f(std::int64_t{}, takes_larger{});
    default: return with(std::uint64_t{});
  }
}

/// Room that grows and is not cleared.
template <class E>
class scratch {
 public:
  E* get(std::size_t n) {
    if (n > size_) {
      room_ = std::make_unique_for_overwrite<E[]>(n);
      size_ = n;
    }
    return room_.get();
  }
  E* get() const { return room_.get(); }

 private:
  std::unique_ptr<E[]> room_;
  std::size_t size_ = 0;
};

/// Numbers as they are stored, or loaded into `room`.
template <class E>
const E* loaded(const scatter_loops& by, const std::byte* stored, std::size_t n, scratch<E>& room) {
  if (!by.loads) return reinterpret_cast<const E*>(stored);
  E* const numbers = room.get(n);
  by.loads(stored, n, numbers);
  return numbers;
}

}  // namespace bitfold::cpu
