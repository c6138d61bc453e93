// The serialised form of exact sums.
#include <bitfold/accumulator.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace bitfold::exact {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char magic[] = {'b', 'f', 'x', 's'};
constexpr std::byte version{1};
constexpr std::size_t head = 16;

// The part of a number that is not zeros below nor copies of the sign above, as two's complement.
struct trimmed {
  int first = 0, count = 0;
};
trimmed trim(std::span<const word> w) {
  int first = 0, last = static_cast<int>(w.size());
  while (first < last && w[static_cast<std::size_t>(first)] == 0) ++first;
  const word sign = w.back() >> 63 ? ~word{0} : 0;
  for (; last - first > 1; --last) {
    const auto top = static_cast<std::size_t>(last - 1);
    if (w[top] != sign || (w[top - 1] ^ sign) >> 63) break;
  }
  return {first, last - first};
}

template <class T>
void put(std::vector<std::byte>& out, std::size_t at, T x) {
  std::memcpy(out.data() + at, &x, sizeof x);
}
template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T x;
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

[[noreturn]] void refuse(const std::string& field, const std::string& why) {
  throw error(errc::bad_input, "accumulator: " + field + ": " + why);
}

}  // namespace

std::vector<std::byte> to_bytes(const layout& of, kind k, std::span<const word> words) {
  const trimmed part = k == kind::finite ? trim(words) : trimmed{};
  std::vector<std::byte> out(head + 8 * static_cast<std::size_t>(part.count));
  std::memcpy(out.data(), magic, sizeof magic);
  out[4] = version;
  out[5] = static_cast<std::byte>(of.type);
  out[6] = static_cast<std::byte>(of.degree);
  out[7] = static_cast<std::byte>(k);
  put(out, 8, static_cast<std::int32_t>(part.count ? of.low + 64 * part.first : 0));
  put(out, 12, static_cast<std::uint32_t>(part.count));
  for (std::size_t i = 0, first = static_cast<std::size_t>(part.first); head + 8 * i < out.size();
       ++i)
    put(out, head + 8 * i, words[first + i]);
  return out;
}

kind from_bytes(const layout& of, std::span<const std::byte> bytes, std::span<word> words) {
  if (bytes.size() < head)
    refuse("length", std::to_string(bytes.size()) + " bytes, fewer than the 16 of the head");
  if (std::memcmp(bytes.data(), magic, sizeof magic) != 0) refuse("magic", "is not \"bfxs\"");
  if (bytes[4] != version)
    refuse("version", std::to_string(std::to_integer<int>(bytes[4])) + ", where 1 is read");
  if (bytes[5] != static_cast<std::byte>(of.type))
    refuse("dtype", "code " + std::to_string(std::to_integer<int>(bytes[5])) +
                        ", which is not that of " + std::string(name(of.type)));
  if (bytes[6] != static_cast<std::byte>(of.degree))
    refuse("degree", std::to_string(std::to_integer<int>(bytes[6])) + ", where " +
                         std::to_string(of.degree) + " is read");
  if (bytes[7] > static_cast<std::byte>(kind::nan))
    refuse("kind", "code " + std::to_string(std::to_integer<int>(bytes[7])) + " is unknown");
  const auto k = static_cast<kind>(bytes[7]);
  if (!is_float(of.type) && k != kind::empty && k != kind::finite)
    refuse("kind", "code " + std::to_string(std::to_integer<int>(bytes[7])) +
                       " is that of no sum of " + std::string(name(of.type)));
  const auto exponent = get<std::int32_t>(bytes, 8);
  const auto count = get<std::uint32_t>(bytes, 12);
  if (count > static_cast<std::uint32_t>(of.words))
    refuse("limbs",
           std::to_string(count) + ", more than the " + std::to_string(of.words) + " of this type");
  if (bytes.size() != head + 8 * std::size_t{count})
    refuse("length",
           std::to_string(bytes.size()) + " bytes for " + std::to_string(count) + " limbs");
  if (count == 0) {
    if (exponent != 0) refuse("exponent", "is not 0, without limbs");
    return k;
  }
  if (k != kind::finite) refuse("limbs", "of what is not finite or of -0");
  const std::int64_t above = std::int64_t{exponent} - of.low;
  if (above < 0 || above % 64 != 0 || above / 64 + count > static_cast<std::int64_t>(of.words))
    refuse("exponent", std::to_string(exponent) + " is not that of a limb of this type");
  const int first = static_cast<int>(above / 64);
  for (std::uint32_t i = 0; i < count; ++i)
    words[static_cast<std::size_t>(first) + i] = get<word>(bytes, head + 8 * i);
  if (words[static_cast<std::size_t>(first) + count - 1] >> 63)
    std::fill(words.begin() + first + static_cast<int>(count), words.end(), ~word{0});
  const trimmed part = trim(words);
  if (part.first != first || part.count != static_cast<int>(count))
    refuse("limbs", "are not trimmed");
  return k;
}

}  // namespace bitfold::exact
