#include "cli/pieces.hpp"

#include <vector>

#include "cpu/task.hpp"

namespace bitfold::cli {

bool add_in_pieces(totals& to, std::span<const streamed_array> from, const cpu::options& how,
                   const std::function<void(std::size_t)>& done) {
  constexpr std::size_t piece = std::size_t{4} << 20;  // bytes: what is read is still in the cache
  const std::size_t size = size_of(from[0].place().type), most = piece / size;
  std::vector<std::byte> buffers[2][2];
  struct lengths {
    std::size_t x, y;
  };
  const auto read = [&](int b) {
    const auto next = [&](std::size_t i) {
      buffers[b][i].resize(piece);
      return from[i].file->read(from[i].which, buffers[b][i]);
    };
    const std::size_t x = next(0);
    return lengths{x, from.size() == 2 ? next(1) : x};
  };
  // One piece is added while the next one is read.
  lengths n = read(0);
  for (int b = 0; n.x == n.y; b ^= 1) {
    if (n.x == 0) return true;
    const bool last = n.x < most;
    lengths next{};
    cpu::for_each_part(last ? 1 : 2, 2, [&](std::size_t part) {
      if (part == 0)
        to.add(buffers[b][0].data(), from.size() == 2 ? buffers[b][1].data() : nullptr, n.x, how);
      else
        next = read(b ^ 1);
    });
    done(n.x * size * from.size());
    if (last) return true;
    n = next;
  }
  return false;
}

}  // namespace bitfold::cli
