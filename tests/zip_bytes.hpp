// Zip archives built by hand for tests, as NumPy's savez and savez_compressed write them.
#pragma once

#include <zlib.h>

#include <string>
#include <vector>

#include "io_bytes.hpp"

namespace bytes {

struct zip_entry {
  std::string name, content;
  bool deflated = false;
};

inline std::string deflated(const std::string& content) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, content.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// With `wide`, sizes and places stand in the fields of zip64, as NumPy has those of local headers.
inline std::string zip(const std::vector<zip_entry>& entries, bool wide = false) {
  std::string file, directory;
  for (const auto& e : entries) {
    const std::string data = e.deflated ? deflated(e.content) : e.content;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(e.content.data()),
                           static_cast<uInt>(e.content.size()));
    const auto number = [](std::uint64_t n, int size) { return little_endian(n, size); };
    const auto size = [&](std::uint64_t n) { return number(wide ? 0xffffffff : n, 4); };
    const std::string sizes =
        number(crc, 4) + size(data.size()) + size(e.content.size()) + number(e.name.size(), 2);
    const std::string start =
        number(45, 2) + number(0, 2) + number(e.deflated ? 8 : 0, 2) + number(0, 4);
    const std::string own_sizes = number(e.content.size(), 8) + number(data.size(), 8);
    const std::string local = wide ? number(1, 2) + number(16, 2) + own_sizes : "";
    const std::string central = wide ? number(7, 2) + number(1, 2) + "x" + number(1, 2) +
                                           number(24, 2) + own_sizes + number(file.size(), 8)
                                     : "";
    directory += "PK\1\2" + number(45, 2) + start + sizes + number(central.size(), 2) +
                 std::string(10, '\0') + size(file.size()) + e.name + central;
    file += "PK\3\4" + start + sizes + number(local.size(), 2) + e.name + local + data;
  }
  const auto number = [](std::uint64_t n, int size) { return little_endian(n, size); };
  const std::uint64_t at = file.size(), end = at + directory.size();
  file += directory;
  if (wide)
    file += "PK\6\6" + number(44, 8) + std::string(12, '\0') + number(entries.size(), 8) +
            number(entries.size(), 8) + number(directory.size(), 8) + number(at, 8) + "PK\6\7" +
            number(0, 4) + number(end, 8) + number(1, 4);
  const std::uint64_t count = wide ? 0xffff : entries.size();
  return file + "PK\5\6" + number(0, 4) + number(count, 2) + number(count, 2) +
         number(wide ? 0xffffffff : directory.size(), 4) + number(wide ? 0xffffffff : at, 4) +
         number(0, 2);
}

}  // namespace bytes
