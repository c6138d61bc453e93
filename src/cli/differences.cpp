#include "cli/differences.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <bitfold/arith.hpp>
#include <bitfold/testing.hpp>

#include "cpu/task.hpp"

namespace bitfold::cli {
namespace {

// Adds one element to the furthest so far. Elements come in order, so that the first one stays.
template <class Distance>
void add(std::optional<furthest<Distance>>& so_far, const furthest<Distance>& one) {
  if (one.distance > (so_far ? so_far->distance : Distance{})) so_far = one;
}

void add_difference(differences& d, std::uint64_t at) {
  if (d.count++ == 0) d.first = at;
}

template <class T>
void add_floats(differences& d, std::uint64_t at, scalar a, scalar b, T x, T y) {
  const double p = arith::widen<double>(x), q = arith::widen<double>(y), apart = std::abs(p - q);
  if (std::isnan(apart)) return;  // two NaNs; infinities of one sign have the same bits
  add(d.absolute, {apart, at, a, b});
  const double larger = std::max(std::abs(p), std::abs(q));
  if (larger == 0) return;
  const double of_it = std::isinf(larger)  ? larger
                       : std::isinf(apart) ? std::abs(p / larger - q / larger)
                                           : apart / larger;
  add(d.relative, {of_it, at, a, b});
}

template <class T>
void add_elements(differences& d, const std::byte* x, const std::byte* y, std::uint64_t begin,
                  std::uint64_t end) {
  for (std::uint64_t i = begin; i < end; ++i) {
    T p, q;
    std::memcpy(&p, x + i * sizeof(T), sizeof p);
    std::memcpy(&q, y + i * sizeof(T), sizeof q);
    const scalar a = testing::as_scalar(p), b = testing::as_scalar(q);
    if (a == b) continue;
    add_difference(d, i);
    const std::uint64_t ulps = testing::ulp_distance(a, b);
    if (ulps == testing::no_distance && is_float(a.type)) {
      ++d.nan;
      continue;
    }
    add(d.ulps, {ulps, i, a, b});
    if constexpr (!std::is_integral_v<T>) add_floats(d, i, a, b, p, q);
  }
}

// Elements of any number of bits, packed from the lowest bit of each byte on.
void add_opaque(differences& d, const io::array& x, const io::array& y, std::uint64_t begin,
                std::uint64_t end) {
  const std::uint64_t bits = x.type.properties().bits, bytes = x.bytes();
  const auto part = [&](const std::byte* from, std::uint64_t bit) {
    const std::uint64_t at = bit / 8;
    const unsigned low = std::to_integer<unsigned>(from[at]),
                   high = at + 1 < bytes ? std::to_integer<unsigned>(from[at + 1]) : 0;
    return (low | high << 8) >> bit % 8 & ((1u << std::min<std::uint64_t>(bits, 8)) - 1);
  };
  for (std::uint64_t i = begin; i < end; ++i) {
    bool same = true;
    for (std::uint64_t bit = i * bits; same && bit < (i + 1) * bits; bit += 8)
      same = part(x.data, bit) == part(y.data, bit);
    if (!same) add_difference(d, i);
  }
}

differences part_of(const io::array& x, const io::array& y, std::uint64_t begin,
                    std::uint64_t end) {
  differences d;
  const std::uint64_t from = io::bytes_of(x.type, begin), to = io::bytes_of(x.type, end);
  if (std::memcmp(x.data + from, y.data + from, to - from) == 0) return d;
  if (!has_distances(x.type))
    add_opaque(d, x, y, begin, end);
  else
    visit(*io::arithmetic_of(x.type),
          [&]<class T>(std::type_identity<T>) { add_elements<T>(d, x.data, y.data, begin, end); });
  return d;
}

void join(differences& all, const differences& part) {
  if (all.count == 0) all.first = part.first;
  all.count += part.count;
  all.nan += part.nan;
  if (part.ulps) add(all.ulps, *part.ulps);
  if (part.absolute) add(all.absolute, *part.absolute);
  if (part.relative) add(all.relative, *part.relative);
}

}  // namespace

differences differences_of(const io::array& x, const io::array& y, int threads) {
  // A multiple of 8, so that parts of packed elements begin with a byte.
  constexpr std::uint64_t elements = std::uint64_t{1} << 18, most_parts = std::uint64_t{1} << 16;
  const std::uint64_t each = elements * (1 + x.count / elements / most_parts);
  std::vector<differences> parts((x.count + each - 1) / each);
  cpu::limit_threads(threads);
  cpu::parallel_for(parts.size(), cpu::max_threads, [&](std::size_t k) {
    parts[k] = part_of(x, y, k * each, std::min(x.count, (k + 1) * each));
  });
  differences all;
  for (const differences& part : parts) join(all, part);
  return all;
}

}  // namespace bitfold::cli
