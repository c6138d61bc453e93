#include "cli/pieces.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "cpu/task.hpp"

namespace bitfold::cli {

bool add_in_pieces(totals& sums, std::span<const streamed_array> operands, const cpu::options& opts,
                   const std::function<void(std::size_t)>& done) {
  constexpr std::size_t piece = std::size_t{4} << 20;  // bytes: what is read is still in the cache
  const std::size_t size = size_of(io::arithmetic(operands[0].place().type));
  // Of the longer of the two; nothing: that shows at the end.
  std::uint64_t left = 0;
  for (const streamed_array& a : operands)
    left = std::max(left,
                    a.file->bytes() ? a.place().count : std::numeric_limits<std::uint64_t>::max());
  const std::size_t most = static_cast<std::size_t>(std::min<std::uint64_t>(piece / size, left));
  std::unique_ptr<std::byte[]> buffers[2][2];
  struct lengths {
    std::size_t x, y;
  };
  const auto read = [&](int b) {
    const auto next = [&](std::size_t i) {
      if (!buffers[b][i]) buffers[b][i] = std::make_unique_for_overwrite<std::byte[]>(most * size);
      return operands[i].file->read(operands[i].which, {buffers[b][i].get(), most * size});
    };
    const std::size_t x = next(0);
    return lengths{x, operands.size() == 2 ? next(1) : x};
  };
  // One piece is added while the next one is read.
  lengths n = read(0);
  for (int b = 0; n.x == n.y; b ^= 1) {
    if (n.x == 0) return true;
    left -= n.x;
    const bool more = n.x == most && left > 0;
    lengths next{};
    cpu::parallel_for(more ? 2 : 1, 2, [&](std::size_t part) {
      if (part == 0)
        sums.add(buffers[b][0].get(), operands.size() == 2 ? buffers[b][1].get() : nullptr, n.x,
                 opts);
      else
        next = read(b ^ 1);
    });
    done(n.x * size * operands.size());
    if (!more) return true;
    n = next;
  }
  return false;
}

}  // namespace bitfold::cli
