#include "io/npz.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/npy.hpp"

namespace bitfold::io {
namespace {

// Little-endian fields of a record, which must be there as a whole.
class record {
 public:
  record(std::span<const std::byte> file, std::uint64_t offset, std::size_t size,
         std::string_view mark) {
    if (offset > file.size() || file.size() - offset < size ||
        !as_text(file.subspan(offset)).starts_with(mark))
      bad("zip archive", fmt::format("damaged or truncated at byte {}", offset));
    rest_ = file.subspan(offset);
    size_ = size;
  }
  std::uint64_t number(std::size_t offset, int bytes) const {
    std::uint64_t n = 0;
    while (bytes-- > 0)
      n = n << 8 | static_cast<std::uint64_t>(rest_[offset + static_cast<std::size_t>(bytes)]);
    return n;
  }
  // What follows the record.
  std::span<const std::byte> after(std::uint64_t skipped, std::uint64_t bytes) const {
    const auto rest = rest_.subspan(size_);
    if (skipped > rest.size() || rest.size() - skipped < bytes) bad("zip archive", "truncated");
    return rest.subspan(skipped, bytes);
  }

 private:
  std::span<const std::byte> rest_;
  std::size_t size_;
};

struct entry {
  std::string name;
  std::uint64_t method, flags, crc, stored, size, offset;
};

constexpr std::uint64_t in_zip64 = 0xffffffff;

// The records at the end: where the directory is, and of how many entries.
std::pair<std::uint64_t, std::uint64_t> find_directory(std::span<const std::byte> file) {
  constexpr std::size_t end_size = 22, locator_size = 20, end64_size = 56, longest_comment = 0xffff;
  const auto tail = file.last(std::min(file.size(), end_size + longest_comment));
  const auto found = as_text(tail).rfind("PK\5\6");
  if (found == std::string_view::npos) bad("zip archive", "no directory at its end: truncated?");
  const std::uint64_t offset = file.size() - tail.size() + found;
  const record end(file, offset, end_size, "PK\5\6");
  std::uint64_t entries = end.number(10, 2), directory = end.number(16, 4);
  if (entries != 0xffff && directory != in_zip64) return {directory, entries};
  if (offset < locator_size) bad("zip archive", "truncated");
  const record locator(file, offset - locator_size, locator_size, "PK\6\7");
  const record end64(file, locator.number(8, 8), end64_size, "PK\6\6");
  return {end64.number(48, 8), end64.number(32, 8)};
}

std::vector<entry> read_directory(std::span<const std::byte> file) {
  constexpr std::size_t entry_size = 46;
  auto [offset, count] = find_directory(file);
  std::vector<entry> entries;
  for (; count > 0; --count) {
    const record r(file, offset, entry_size, "PK\1\2");
    const std::uint64_t name = r.number(28, 2), extra = r.number(30, 2), comment = r.number(32, 2);
    entry e{std::string(as_text(r.after(0, name))),
            r.number(10, 2),
            r.number(8, 2),
            r.number(16, 4),
            r.number(20, 4),
            r.number(24, 4),
            r.number(42, 4)};
    // The extra fields; what does not fit 32 bits stands in that of number 1, in this order.
    for (auto fields = r.after(name, extra); fields.size() >= 4;) {
      const record head(fields, 0, 4, "");
      auto body = head.after(0, head.number(2, 2));
      fields = fields.subspan(4 + body.size());
      if (head.number(0, 2) != 1) continue;
      for (std::uint64_t* n : {&e.size, &e.stored, &e.offset})
        if (*n == in_zip64) {
          *n = record(body, 0, 8, "").number(0, 8);
          body = body.subspan(8);
        }
    }
    entries.push_back(std::move(e));
    offset += entry_size + name + extra + comment;
  }
  return entries;
}

std::shared_ptr<std::byte[]> inflated(std::span<const std::byte> compressed, std::uint64_t size) {
  constexpr std::uint64_t largest_ratio = 1032;  // of deflate
  if (size / largest_ratio > compressed.size()) bad("size", "more than its data can hold");
  std::shared_ptr<std::byte[]> bytes(new std::byte[size]);
  z_stream z{};
  if (::inflateInit2(&z, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const auto piece = [](std::uint64_t left) {
    return static_cast<uInt>(std::min<std::uint64_t>(left, std::numeric_limits<uInt>::max()));
  };
  std::uint64_t in = 0, out = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(compressed.data() + in));
    z.next_out = reinterpret_cast<Bytef*>(bytes.get() + out);
    z.avail_in = piece(compressed.size() - in);
    z.avail_out = piece(size - out);
    const uInt given = z.avail_in, room = z.avail_out;
    state = ::inflate(&z, Z_NO_FLUSH);
    in += given - z.avail_in;
    out += room - z.avail_out;
  }
  ::inflateEnd(&z);
  if (state != Z_STREAM_END || in != compressed.size() || out != size)
    bad("data", "cannot be inflated to what the directory says");
  return bytes;
}

array read_entry(std::span<const std::byte> file, const entry& e, std::optional<element_type> type,
                 const std::shared_ptr<const void>& owner) {
  constexpr std::size_t header_size = 30;
  constexpr std::uint64_t stored = 0, deflated = 8;
  if (e.flags & 1) bad("data", "encrypted");
  if (e.method != stored && e.method != deflated)
    bad("data",
        fmt::format("compressed by method {}; stored and deflated ones are read", e.method));
  const record header(file, e.offset, header_size, "PK\3\4");
  auto bytes = header.after(header.number(26, 2) + header.number(28, 2), e.stored);
  std::shared_ptr<const void> bytes_owner = owner;
  if (e.method == deflated) {
    const auto copy = inflated(bytes, e.size);
    bytes = {copy.get(), e.size};
    bytes_owner = copy;
  } else if (e.size != e.stored) {
    bad("size", "is not that of its data");
  }
  if (::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != e.crc)
    bad("data", "damaged: its CRC-32 is not that of the directory");
  return parse_npy(bytes, type, bytes_owner);
}

}  // namespace

bool looks_like_npz(std::span<const std::byte> start) {
  return zip_entry(as_text(start)).ends_with(".npy");
}

std::vector<array> parse_npz(std::span<const std::byte> file, std::optional<element_type> type,
                             const std::optional<std::string>& tensor,
                             const std::shared_ptr<const void>& owner) {
  constexpr std::string_view ending = ".npy";
  std::vector<array> arrays;
  std::set<std::string> names;
  for (const entry& e : read_directory(file)) {
    const std::string shown = "entry " + in_quotes(e.name);
    if (!e.name.ends_with(ending)) bad(shown, "is no .npy file");
    const std::string name = e.name.substr(0, e.name.size() - ending.size());
    if (!is_utf8(name)) bad(shown, "its name is not UTF-8");
    if (!names.insert(name).second) bad(shown, "stands there twice");
    if (tensor && *tensor != name) continue;
    try {
      arrays.push_back(read_entry(file, e, type, owner));
    } catch (const error& problem) {
      throw error(problem.code(), shown + " " + problem.what());
    }
    arrays.back().name = name;
  }
  if (tensor && arrays.empty()) bad("tensor " + in_quotes(*tensor), "not in the file");
  return arrays;
}

}  // namespace bitfold::io
