#include "io/npy.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/field.hpp"

namespace bitfold::io {
namespace {

static_assert(std::endian::native == std::endian::little);

// ---- The header: a Python dict literal of three known keys, and nothing more lenient.

struct header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
};

class scanner {
 public:
  // Python 2 wrote a long integer as 2L.
  scanner(std::string_view text, bool may_be_python_2) : text_(text), longs_(may_be_python_2) {}

  bool eat(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view field, std::string_view token) {
    if (!eat(token)) fail(field, fmt::format("expected {}", token));
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  // Escapes are not undone: no string of a valid header has any.
  std::string_view string(std::string_view field) {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail(field, "expected a string");
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(field, "unterminated string");
    const auto s = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return s;
  }
  std::uint64_t integer(std::string_view field) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    std::uint64_t value = 0;
    const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (ec == std::errc::result_out_of_range) fail(field, "extent does not fit in 64 bits");
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (ec != std::errc() || (digits > 1 && rest[0] == '0'))
      fail(field, "expected a non-negative integer");
    at_ += digits;
    if (longs_ && peek() == 'L') ++at_;
    return value;
  }
  [[noreturn]] void fail(std::string_view field, std::string_view what) const {
    bad(field, fmt::format("{} at byte {} of the header", what, at_));
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }
  std::string_view text_;
  bool longs_;
  std::size_t at_ = 0;
};

std::vector<std::uint64_t> parse_shape(scanner& in) {
  std::vector<std::uint64_t> shape;
  in.expect("shape", "(");
  while (!in.eat(")")) {
    shape.push_back(in.integer("shape"));
    if (in.eat(",")) continue;
    in.expect("shape", ")");
    if (shape.size() == 1) in.fail("shape", "a tuple of one needs a comma");
    break;
  }
  return shape;
}

header parse_header(std::string_view text, bool may_be_python_2) {
  header h;
  scanner in(text, may_be_python_2);
  in.expect("header", "{");
  while (!in.eat("}")) {
    const auto key = in.string("header");
    in.expect("header", ":");
    if (key == "descr" && !h.descr) {
      if (in.eat("[")) bad("descr", "structured types are not supported");
      h.descr = in.string("descr");
    } else if (key == "fortran_order" && !h.fortran_order) {
      h.fortran_order = in.eat("True");
      if (!*h.fortran_order && !in.eat("False")) in.fail("fortran_order", "expected True or False");
    } else if (key == "shape" && !h.shape) {
      h.shape = parse_shape(in);
    } else {
      in.fail("header", "unknown or repeated key " + in_quotes(key));
    }
    if (in.eat(",")) continue;
    in.expect("header", "}");
    break;
  }
  if (!in.at_end()) in.fail("header", "text after the dict");
  if (!h.descr) bad("descr", "missing from the header");
  if (!h.fortran_order) bad("fortran_order", "missing from the header");
  if (!h.shape) bad("shape", "missing from the header");
  return h;
}

struct stored_type {
  element_type type;
  bool swapped;  // stored big endian
};

// What is not called as here.
constexpr std::pair<std::string_view, std::string_view> other_kinds[] = {
    {"b1", "bool"}, {"f1", "f8_e5m2"}, {"c8", "c64"}, {"c16", "c128"}};

stored_type parse_descr(std::string_view descr, std::optional<element_type> given) {
  const char order = descr.empty() ? '\0' : descr[0];
  const std::string_view kind = descr.substr(std::min<std::size_t>(descr.size(), 1));
  if (order == '<' || order == '>' || order == '=' || order == '|') {
    std::optional<element_type> type;
    if (kind.size() == 2 && kind[1] >= '1' && kind[1] <= '8')
      if (const auto t = parse_dtype(fmt::format("{}{}", kind[0], 8 * (kind[1] - '0')))) type = *t;
    for (const auto& [text, name] : other_kinds)
      if (kind == text) type = element_type::parse(name);
    const bool one_byte = type && item_bytes(*type) == 1;
    // "not applicable" leaves the byte order of a wider type open
    if (type && (order != '|' || one_byte)) return {*type, order == '>' && !one_byte};
    if (kind.starts_with('V') && order != '>') {
      if (given && kind == fmt::format("V{}", item_bytes(*given)) && bytes_of(*given, 1) > 0)
        return {*given, false};
      if (kind == "V1" || kind == "V2")
        bad("descr", in_quotes(descr) + " does not say of what type the bytes are; NumPy writes " +
                         (kind == "V2" ? "bfloat16 so: --dtype bf16"
                                       : "types of 8 bits so: --dtype f8_e4m3"));
    }
  }
  bad("descr", in_quotes(descr) +
                   " is not supported (a byte order and one of f2 f4 f8 i1 i2 i4 i8 u1 u2 "
                   "u4 u8 b1 c8 c16)");
}

// ---- Conversion to native endian and row-major order

// A complex number, of which each part has a byte order.
template <class U>
struct parts {
  U real, imaginary;
};

template <class U>
U load(const std::byte* p, bool swapped) {
  U v;
  std::memcpy(&v, p, sizeof v);
  if constexpr (requires { v.real; }) {
    using part = decltype(v.real);
    return {load<part>(p, swapped), load<part>(p + sizeof(part), swapped)};
  } else if constexpr (sizeof(U) == 2)
    return swapped ? __builtin_bswap16(v) : v;
  else if constexpr (sizeof(U) == 4)
    return swapped ? __builtin_bswap32(v) : v;
  else if constexpr (sizeof(U) == 8)
    return swapped ? __builtin_bswap64(v) : v;
  else
    return v;
}

// Fortran order to row-major order. The first extent has stride 1 in `from` and the last has stride
// 1 in `to`: these two are walked in square blocks, so that neither side leaves the cache, and the
// extents between them are counted through like an odometer. `extents` has two or more, none
// below 2.
template <class U>
void transpose(const std::byte* from, U* to, std::uint64_t count,
               std::span<const std::uint64_t> extents, bool swapped) {
  constexpr std::uint64_t block = 16;
  const std::uint64_t rows = extents.front(), columns = extents.back();
  const std::uint64_t from_stride = count / columns, to_stride = count / rows;

  struct digit {
    std::uint64_t extent, from_stride, to_stride, value;
  };
  std::vector<digit> digits;  // the outermost extent first, the fastest in `to` last
  std::uint64_t from_step = rows, to_step = to_stride;
  for (const std::uint64_t extent : extents.subspan(1, extents.size() - 2)) {
    to_step /= extent;
    digits.push_back({extent, from_step, to_step, 0});
    from_step *= extent;
  }

  std::uint64_t from_at = 0, to_at = 0;
  for (;;) {
    for (std::uint64_t r0 = 0; r0 < rows; r0 += block) {
      const std::uint64_t r1 = std::min(rows, r0 + block);
      for (std::uint64_t c0 = 0; c0 < columns; c0 += block) {
        const std::uint64_t c1 = std::min(columns, c0 + block);
        for (std::uint64_t r = r0; r < r1; ++r)
          for (std::uint64_t c = c0; c < c1; ++c)
            to[to_at + r * to_stride + c] =
                load<U>(from + (from_at + r + c * from_stride) * sizeof(U), swapped);
      }
    }
    auto d = digits.rbegin();
    for (; d != digits.rend(); ++d) {
      from_at += d->from_stride;
      to_at += d->to_stride;
      if (++d->value < d->extent) break;
      from_at -= d->extent * d->from_stride;
      to_at -= d->extent * d->to_stride;
      d->value = 0;
    }
    if (d == digits.rend()) return;
  }
}

template <class U>
void convert(const std::byte* from, std::byte* to_bytes, std::uint64_t count,
             std::span<const std::uint64_t> extents, bool swapped) {
  U* to = reinterpret_cast<U*>(to_bytes);  // from operator new: aligned for any element
  if (extents.size() >= 2) return transpose(from, to, count, extents, swapped);
  for (std::uint64_t i = 0; i < count; ++i) to[i] = load<U>(from + i * sizeof(U), swapped);
}

// Where the header begins, in a file of at least 8 bytes.
std::size_t header_at(std::span<const std::byte> file) { return file[6] == std::byte{1} ? 10 : 12; }

}  // namespace

bool npy_tells(element_type type) {
  const auto in_others = [&](const auto& other) { return other.second == name(type); };
  return std::any_of(std::begin(other_kinds), std::end(other_kinds), in_others) ||
         (arithmetic_of(type) && type != dtype::bf16);
}

bool looks_like_npy(std::span<const std::byte> file) {
  return as_text(file).starts_with("\x93NUMPY");
}

std::uint64_t npy_head_size(std::span<const std::byte> start, std::uint64_t size) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(start[i]); };
  if (!looks_like_npy(start)) bad("magic", "not a npy file");
  if (start.size() < 8) bad("version", "truncated file");
  const auto major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    bad("version", fmt::format("{}.{} is not supported (1.0, 2.0, 3.0)", major, minor));
  if (start.size() < header_at(start)) bad("header length", "truncated file");
  std::uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > size - header_at(start))
    bad("header length",
        fmt::format("{} bytes, but {} are left in the file", length, size - header_at(start)));
  return header_at(start) + length;
}

array_place parse_npy_head(std::span<const std::byte> head, std::optional<element_type> given) {
  const std::string_view text = as_text(head);
  header h = parse_header(text.substr(header_at(head)), head[6] < std::byte{3});
  const auto [type, swapped] = parse_descr(*h.descr, given);
  const auto count = element_count(*h.shape, item_bytes(type));
  if (!count) bad("shape", "the array does not fit in 64 bits");
  const auto more_than_one = [](std::uint64_t extent) { return extent != 1; };
  const bool column_major =
      *h.fortran_order && *count > 0 && std::ranges::count_if(*h.shape, more_than_one) > 1;
  return {"", type, std::move(*h.shape), *count, head.size(), swapped && *count > 0, column_major};
}

void refuse_second_npy(std::span<const std::byte> following) {
  if (looks_like_npy(following))
    bad("size",
        "another array follows the first: NumPy's save was called on one file more than once; "
        "its savez makes a file of several (.npz)");
}

void check_npy_size(const array_place& p, std::uint64_t bytes,
                    std::span<const std::byte> following) {
  refuse_second_npy(following);
  if (p.bytes() != bytes)
    bad("shape", fmt::format("{} elements of {} are {} bytes, but the file has {}", p.count,
                             name(p.type), p.bytes(), bytes));
}

array parse_npy(std::span<const std::byte> file, std::optional<element_type> type,
                const std::shared_ptr<const void>& owner) {
  const std::uint64_t head = npy_head_size(file, file.size());
  array_place p = parse_npy_head(file.first(head), type);
  const auto body = file.subspan(head);
  check_npy_size(p, body.size(), body.subspan(std::min<std::uint64_t>(p.bytes(), body.size())));

  array a{"", p.type, std::move(p.shape), p.count, body.data(), owner};
  if (!p.column_major && !p.swapped) return a;
  std::vector<std::uint64_t> extents;  // those that matter for the order of elements
  if (p.column_major)
    std::copy_if(a.shape.begin(), a.shape.end(), std::back_inserter(extents),
                 [](std::uint64_t extent) { return extent != 1; });

  const std::shared_ptr<std::byte[]> copy(new std::byte[body.size()]);
  const auto convert_to = [&]<class U>(std::type_identity<U>) {
    convert<U>(a.data, copy.get(), a.count, extents, p.swapped);
  };
  const bool complex = item_bytes(a.type) > a.type.properties().swapped;
  switch (item_bytes(a.type)) {
    case 1: convert_to(std::type_identity<std::uint8_t>()); break;
    case 2: convert_to(std::type_identity<std::uint16_t>()); break;
    case 4: convert_to(std::type_identity<std::uint32_t>()); break;
    case 8:
      if (complex)
        convert_to(std::type_identity<parts<std::uint32_t>>());
      else
        convert_to(std::type_identity<std::uint64_t>());
      break;
    default: convert_to(std::type_identity<parts<std::uint64_t>>()); break;
  }
  a.data = copy.get();
  a.owner = copy;
  return a;
}

std::string npy_text(dtype type, std::span<const std::uint64_t> shape,
                     std::span<const std::byte> elements) {
  constexpr std::size_t header_at = 10, aligned = 64;
  const std::size_t size = size_of(type);
  std::string text =
      fmt::format("\x93NUMPY{}{{'descr': '{}{}{}', 'fortran_order': False, 'shape': ({}{}), }}",
                  std::string_view("\1\0\0\0", 4), size == 1 ? '|' : '<', name(type)[0], size,
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  text.append(aligned - 1 - text.size() % aligned, ' ');
  text += '\n';
  const std::size_t length = text.size() - header_at;
  text[8] = static_cast<char>(length & 0xff);
  text[9] = static_cast<char>(length >> 8);
  text.append(reinterpret_cast<const char*>(elements.data()), elements.size());
  return text;
}

}  // namespace bitfold::io
