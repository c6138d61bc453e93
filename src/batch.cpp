#include "batch.hpp"

#include <cstring>
#include <string>

#include "dispatch.hpp"

namespace bitfold::detail {

std::uint64_t batch::first_empty() const {
  std::uint64_t o = 0;
  while (o < outputs && count(o) > 0) ++o;
  return o;
}

void keyed_batch::gather(std::uint64_t k, std::uint64_t, std::uint64_t first, std::uint64_t n,
                         std::byte* to, std::size_t, std::size_t second) const {
  const std::uint64_t* const at = &indices_[begins_[k] + first];
  with_bits(type, [&]<class T>(T) {
    const auto copy = [&](const std::byte* from, std::byte* here) {
      for (std::uint64_t i = 0; i < n; ++i)
        std::memcpy(here + i * sizeof(T), from + at[i] * sizeof(T), sizeof(T));
    };
    copy(data.x, to);
    if (data.y) copy(data.y, to + second);
  });
}

segment_batch segments_of(dtype type, pointers data, std::uint64_t n,
                          std::span<const std::int64_t> offsets) {
  const auto refuse = [&](std::size_t k, const std::string& what) {
    throw error(errc::usage,
                "offsets[" + std::to_string(k) + "]: " + std::to_string(offsets[k]) + what);
  };
  if (offsets.empty())
    throw error(errc::usage, "offsets: none; there is one more of them than of segments");
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    if (k > 0 && offsets[k] < offsets[k - 1]) refuse(k, " is below the one before");
    if (offsets[k] < 0 || static_cast<std::uint64_t>(offsets[k]) > n)
      refuse(k, " of " + std::to_string(n) + " elements");
  }
  return {type, data, offsets};
}

void check_keys(std::span<const std::int64_t> keys, std::uint64_t outputs) {
  if (outputs > std::uint64_t{1} << 59) throw error(errc::usage, "outputs: more than 2^59");
  if (outputs == 0 && !keys.empty())
    throw error(errc::usage, "keys: " + std::to_string(keys.size()) + ", and no outputs");
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i] < 0 || static_cast<std::uint64_t>(keys[i]) >= outputs)
      throw error(errc::usage, "keys[" + std::to_string(i) + "]: " + std::to_string(keys[i]) +
                                   " is not from 0 to " +
                                   std::to_string(static_cast<std::int64_t>(outputs) - 1));
}

keyed_batch keys_of(dtype type, pointers data, std::span<const std::int64_t> keys,
                    std::uint64_t outputs) {
  check_keys(keys, outputs);
  std::vector<std::uint64_t> begins(outputs + 1);
  for (const std::int64_t key : keys) ++begins[static_cast<std::size_t>(key) + 1];
  for (std::uint64_t k = 0; k < outputs; ++k) begins[k + 1] += begins[k];
  std::vector<std::uint64_t> next(begins.begin(), begins.end() - 1), indices(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    indices[next[static_cast<std::size_t>(keys[i])]++] = i;
  return {type, data, std::move(begins), std::move(indices)};
}

void check_elements(const reduction& r, dtype type) {
  if (r.in() != type)
    throw error(errc::usage, "reductions: of " + std::string(name(r.in())) +
                                 ", and the elements are " + std::string(name(type)));
}

void check_batch(const batch& b, std::span<const reduction> reductions, std::span<void* const> out,
                 std::uint64_t first) {
  const auto refuse = [](const std::string& what) { throw error(errc::usage, what); };
  if (out.size() != reductions.size())
    refuse("out: room for " + std::to_string(out.size()) + " results of " +
           std::to_string(reductions.size()) + " reductions");
  std::size_t refusing = reductions.size();
  for (std::size_t k = 0; k < reductions.size(); ++k) {
    check_together(reductions[0], reductions[k]);
    check_elements(reductions[k], b.type);
    check_inputs(reductions[k], b.data.x, b.data.y, b.elements);
    if (b.outputs > 0 && !out[k]) refuse("out: null pointer");
    if (info(reductions[k].op()).empty == if_empty::refused) refusing = k;
  }
  if (refusing == reductions.size()) return;
  if (const std::uint64_t empty = b.first_empty(); empty < b.outputs)
    refuse("output " + std::to_string(first + empty) + ": no elements, and " +
           std::string(name(reductions[refusing].op())) + " of none is not defined");
}

}  // namespace bitfold::detail
