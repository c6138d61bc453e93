#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "io/field.hpp"
#include "studies.hpp"

namespace bitfold::accuracy {
namespace {

std::vector<std::byte> random_bits(std::size_t bytes, std::uint64_t seed) {
  random_source random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& b : out) b = static_cast<std::byte>(random.bits() >> 56);
  return out;
}

}  // namespace

std::uint64_t next_id() {
  static std::uint64_t last = 0;
  return ++last;
}

maker from(const input& in, std::size_t n, dtype t) {
  return [&in, n, t](std::uint64_t seed) { return pack(in.make(n, seed, t), t); };
}

maker integers(std::size_t n, dtype t) {
  return [n, t](std::uint64_t seed) { return random_bits(n * size_of(t), seed); };
}

maker twice(maker make) {
  return [make = std::move(make)](std::uint64_t seed) {
    constexpr std::uint64_t far_from_samples = 1 << 20;
    std::vector<std::byte> both = make(seed);
    const std::vector<std::byte> second = make(seed + far_from_samples);
    both.insert(both.end(), second.begin(), second.end());
    return both;
  };
}

std::vector<std::byte> shuffled(const array_view& x, std::uint64_t seed) {
  random_source random(seed);
  const std::size_t size = size_of(x.type);
  const auto* first = static_cast<const std::byte*>(x.data);
  std::vector<std::byte> out(first, first + x.n * size);
  for (std::size_t i = x.n; i > 1; --i) {
    const std::size_t j = random.bits() % i;
    std::swap_ranges(&out[(i - 1) * size], &out[(i - 1) * size] + size, &out[j * size]);
  }
  return out;
}

std::vector<std::pair<std::string, io::array>> arrays_of(const std::string& file) {
  std::vector<std::pair<std::string, io::array>> arrays;
  for (const io::array& a : io::read_arrays(file))
    if (const auto t = io::arithmetic_of(a.type); t && is_float(*t) && a.count > 0)
      arrays.emplace_back(a.name.empty() ? file : file + ":" + a.name, a);
  if (arrays.empty())
    throw error(errc::bad_input, io::printable(file) + ": no float array to measure");
  return arrays;
}

array repeated(dtype t, std::size_t n, int inputs) {
  const std::size_t block = std::min(n, std::size_t{1} << 16);
  const auto one = is_float(t) ? pack(input_named("normal").make(block, 1, t), t)
                               : random_bits(block * size_of(t), 1);
  std::vector<std::byte> bytes(static_cast<std::size_t>(inputs) * n * size_of(t));
  for (std::size_t i = 0; i < bytes.size(); i += one.size())
    std::memcpy(&bytes[i], one.data(), std::min(one.size(), bytes.size() - i));
  return array(t, std::move(bytes), inputs);
}

const input& input_named(std::string_view name) {
  for (const input& in : all_inputs())
    if (in.name == name) return in;
  throw std::logic_error("suite: no input " + std::string(name));
}

std::string condition_name(int power) { return fmt::format("condition-1e{}", power); }

std::vector<int> condition_powers(bool full) {
  std::vector<int> powers;
  for (int p = 0; p <= 40; p += full ? 1 : 2) powers.push_back(p);
  return powers;
}

}  // namespace bitfold::accuracy
