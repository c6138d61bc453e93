// count_distinct: by a table of all keys where these are few, or else by a sort.
#include <algorithm>
#include <bitset>
#include <cstring>
#include <functional>
#include <memory>

#include <tbb/blocked_range.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/parallel_sort.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "backend.hpp"

namespace bitfold::cpu {
namespace {

using range = tbb::blocked_range<std::size_t>;

// A single thread has nothing to do with oneTBB, which a process that was forked may be left without.
template <class Value, class Part, class Join>
Value reduced(bool alone, const range& all, Value first, Part part, Join join) {
  return alone ? part(all, std::move(first)) : tbb::parallel_reduce(all, std::move(first), part, join);
}

template <class T>
auto key_at(const void* data, std::size_t i) {
  T x;
  std::memcpy(&x, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return arith::key_of(x);
}

// Few keys: which of them there are.
template <class T>
std::size_t by_table(bool alone, const void* data, std::size_t n) {
  using table = std::bitset<std::size_t{1} << 8 * sizeof(T)>;
  const auto found = reduced(
      alone, range(0, n, 1 << 16), table{},
      [&](const range& part, table seen) {
        for (std::size_t i = part.begin(); i < part.end(); ++i) seen[key_at<T>(data, i)] = true;
        return seen;
      },
      std::bit_or<table>());
  return found.count();
}

template <class T>
std::size_t by_sort(bool alone, const void* data, std::size_t n) {
  using key = decltype(key_at<T>(data, 0));
  const auto keys = std::make_unique_for_overwrite<key[]>(n);
  const auto make = [&](const range& part) {
    for (std::size_t i = part.begin(); i < part.end(); ++i) keys[i] = key_at<T>(data, i);
  };
  if (alone) {
    make(range(0, n));
    std::sort(keys.get(), keys.get() + n);
  } else {
    tbb::parallel_for(range(0, n), make);
    tbb::parallel_sort(keys.get(), keys.get() + n);
  }
  return 1 + reduced(
      alone, range(1, n), std::size_t{0},
      [&](const range& part, std::size_t count) {
        for (std::size_t i = part.begin(); i < part.end(); ++i) count += keys[i] != keys[i - 1];
        return count;
      },
      std::plus<>());
}

}  // namespace

std::size_t count_distinct(dtype type, const void* data, std::size_t n, int threads) {
  std::size_t count = 0;
  const auto run = [&](bool alone) {
    visit(type, [&]<class T>(std::type_identity<T>) {
      if constexpr (sizeof(T) <= 2)
        count = by_table<T>(alone, data, n);
      else
        count = by_sort<T>(alone, data, n);
    });
  };
  if (threads == 1) {
    run(true);
    return count;
  }
  // An arena and a group of its own: a caller's tasks neither cancel these nor run while they are waited for.
  // (oneTBB warns on stderr of an arena larger than the machine.)
  tbb::task_arena(std::min(threads, tbb::info::default_concurrency())).execute([&] {
    tbb::task_group_context context(tbb::task_group_context::isolated);
    tbb::task_group(context).run_and_wait([&] { run(false); });
  });
  return count;
}

}  // namespace bitfold::cpu
