// count_distinct: by a table of all keys where these are few, or else by sorts.
#include <algorithm>
#include <bitset>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "task.hpp"

namespace bitfold::cpu {
namespace {

template <class T>
auto key_at(const void* data, std::size_t i) {
  T x;
  std::memcpy(&x, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
  return arith::key_of(x);
}

// Calls f(part, begin, end) for as many neighbouring parts of n elements.
template <class F>
void for_each_range(std::size_t chunks, std::size_t n, int threads, F f) {
  const auto begin = [&](std::size_t k) { return n / chunks * k + std::min(k, n % chunks); };
  parallel_for(chunks, threads, [&](std::size_t k) { f(k, begin(k), begin(k + 1)); });
}

// Few keys: which of them there are.
template <class T>
std::size_t by_table(const void* data, std::size_t n, int threads) {
  using table = std::bitset<std::size_t{1} << 8 * sizeof(T)>;
  std::vector<table> found(static_cast<std::size_t>(threads));
  for_each_range(found.size(), n, threads,
                 [&](std::size_t chunk, std::size_t begin, std::size_t end) {
                   for (std::size_t i = begin; i < end; ++i)
                     found[chunk][key_at<T>(data, i)] = true;
                 });
  for (const table& t : found) found[0] |= t;
  return found[0].count();
}

template <class Key>
std::size_t count_sorted(Key* begin, Key* end) {
  std::sort(begin, end);
  return static_cast<std::size_t>(std::unique(begin, end) - begin);
}

// Some keys, sorted, are bounds of as many buckets, each of which a thread sorts: they are counted,
// and go to no bucket, so that one that comes often makes none of them long.
template <class T>
std::size_t by_sort(const void* data, std::size_t n, int threads) {
  using key = decltype(key_at<T>(data, 0));
  const auto keys = std::make_unique_for_overwrite<key[]>(n);
  if (threads == 1) {
    for (std::size_t i = 0; i < n; ++i) keys[i] = key_at<T>(data, i);
    return count_sorted(keys.get(), keys.get() + n);
  }
  constexpr std::size_t of_each_bound = 16, most_bounds = 1024;
  const auto chunks = static_cast<std::size_t>(threads);
  std::vector<key> sample, bounds;
  const std::size_t step = n / (std::min(chunk_count(threads), most_bounds) * of_each_bound) + 1;
  for (std::size_t i = 0; i < n; i += step) sample.push_back(key_at<T>(data, i));
  std::sort(sample.begin(), sample.end());
  for (std::size_t i = 0; i < sample.size(); i += of_each_bound)
    if (bounds.empty() || bounds.back() != sample[i]) bounds.push_back(sample[i]);
  const std::size_t buckets = bounds.size() + 1;
  // Calls f(bucket, key) for those that are no bounds.
  const auto place = [&](std::size_t begin, std::size_t end, auto f) {
    for (std::size_t i = begin; i < end; ++i) {
      const key k = key_at<T>(data, i);
      const auto above = std::lower_bound(bounds.begin(), bounds.end(), k);
      if (above == bounds.end() || *above != k)
        f(static_cast<std::size_t>(above - bounds.begin()), k);
    }
  };
  // Where each part's keys of each bucket go: first how many they are, then from where on they lie.
  std::vector<std::size_t> to(chunks * buckets), first(buckets + 1);
  for_each_range(chunks, n, threads, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
    std::vector<std::size_t> count(buckets);
    place(begin, end, [&](std::size_t bucket, key) { ++count[bucket]; });
    std::copy(count.begin(), count.end(),
              to.begin() + static_cast<std::ptrdiff_t>(chunk * buckets));
  });
  for (std::size_t b = 0; b < buckets; ++b) {
    first[b + 1] = first[b];
    for (std::size_t chunk = 0; chunk < chunks; ++chunk)
      first[b + 1] += std::exchange(to[chunk * buckets + b], first[b + 1]);
  }
  for_each_range(chunks, n, threads, [&](std::size_t chunk, std::size_t begin, std::size_t end) {
    std::size_t* const next = &to[chunk * buckets];
    place(begin, end, [&](std::size_t bucket, key k) { keys[next[bucket]++] = k; });
  });
  std::vector<std::size_t> distinct(buckets);
  parallel_for(buckets, threads, [&](std::size_t b) {
    distinct[b] = count_sorted(keys.get() + first[b], keys.get() + first[b + 1]);
  });
  return std::accumulate(distinct.begin(), distinct.end(), bounds.size());
}

}  // namespace

std::size_t count_distinct(dtype type, const void* data, std::size_t n, int threads) {
  return visit(type, [&]<class T>(std::type_identity<T>) {
    if constexpr (sizeof(T) <= 2)
      return by_table<T>(data, n, threads);
    else
      return by_sort<T>(data, n, threads);
  });
}

}  // namespace bitfold::cpu
