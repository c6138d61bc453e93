#include "blocks.hpp"

#include <cstdlib>
#include <limits>

namespace bitfold::cpu {
namespace {

using detail::axes;

// The bytes of a row of memory that are read at once: enough for memory to see long streams. And
// what is brought together of an input: it stays in the second-level cache.
constexpr order::index row_bytes = 512, block_bytes = order::index{1} << 19;

// The axis along which the elements of an input are closest together; the innermost one if it has
// one element for a whole axis there.
int closest(const axes& a, std::int64_t axes::axis::* stride) {
  int best = a.rank - 1;
  for (int k = a.rank - 1; k >= 0 && a.dims[best].*stride != 0; --k) {
    const std::int64_t here = std::abs(a.dims[k].*stride);
    if (here != 0 && here < std::abs(a.dims[best].*stride)) best = k;
  }
  return best;
}

axes some_of(const axes& a, int begin, int end) {
  axes some;
  for (int k = begin; k < end; ++k) some.dims[some.rank++] = a.dims[k];
  return some;
}

}  // namespace

block_plan::interval block_plan::rows_of(order::index block) const {
  if (runs > 0) return {block * runs * run, std::min((block + 1) * runs * run, row_count())};
  const order::index parts = (run - 1) / height + 1, first = block / parts * run;
  return {first + block % parts * height, first + std::min((block % parts + 1) * height, run)};
}

bool are_blocks(const detail::layout& l) {
  if (l.n <= tile_elements) return false;
  const axes& a = l.reduced;
  const auto nearest = [](const axes& some) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int k = 0; k < some.rank; ++k)
      for (const std::int64_t stride : {some.dims[k].x, some.dims[k].y})
        if (stride != 0) least = std::min(least, std::abs(stride));
    return least;
  };
  if (l.outputs > 1 && nearest(l.kept) < nearest(a)) return false;
  const axes::axis& inner = a.dims[a.rank - 1];
  return plan_blocks(l, 1).rows.rank > 0 || l.outputs == 1 ||
         (inner.x == 1 && (!l.y || inner.y == 1) && inner.extent >= tile_elements);
}

block_plan plan_blocks(const detail::layout& l, int threads) {
  const axes& a = l.reduced;
  const int innermost = a.rank - 1, by_x = closest(a, &axes::axis::x),
            by_y = l.y ? closest(a, &axes::axis::y) : innermost,
            split = (by_x != innermost ? by_x : by_y) + 1;
  block_plan p{};
  p.type = l.type;
  p.two = l.y != nullptr;
  p.n = p.length = l.n;
  p.columns = a;
  p.width = tile_elements;
  p.blocks = 1;
  const axes::axis& inner = a.dims[innermost];
  if (inner.x == 1 && (!l.y || inner.y == 1)) p.run_length = inner.extent;
  if (split <= innermost) {
    const auto size = static_cast<order::index>(size_of(l.type)) * (p.two ? 2 : 1);
    p.rows = some_of(a, 0, split);
    p.columns = some_of(a, split, a.rank);
    p.length = p.columns.size();
    p.run = p.rows.dims[split - 1].extent;
    p.height = std::min(p.run, row_bytes / size);
    p.width = std::max<order::index>(order::leaf,
                                     block_bytes / (p.height * size) / order::leaf * order::leaf);
    p.runs = p.width / p.length * p.height / p.run;
    p.blocks = p.runs > 0 ? (p.row_count() / p.run - 1) / p.runs + 1
                          : p.row_count() / p.run * ((p.run - 1) / p.height + 1);
  }
  // Blocks are cut where there are few of them.
  const order::index wanted = chunk_count(threads), least = p.one_row() ? 4 * p.width : p.width;
  const order::index cuts = p.whole_rows() ? 1
                                           : std::min((wanted - 1) / p.blocks + 1,
                                                      std::max<order::index>(1, p.length / least));
  p.range = (p.length / cuts + least - 1) / least * least;
  p.ranges = std::max<order::index>(1, p.length / p.range);
  return p;
}

}  // namespace bitfold::cpu
