#include "blocks.hpp"

#include <bit>
#include <cstdlib>
#include <limits>

#include "../binned.hpp"
#include "columns.hpp"
#include "forest.hpp"
#include "work.hpp"

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

// Whether the elements of an input lie one behind the other.
bool lie_in_order(const axes& a, std::int64_t axes::axis::* stride) {
  std::int64_t next = 1;
  for (int k = a.rank - 1; k >= 0; --k) {
    if (a.dims[k].*stride != next) return false;
    next *= static_cast<std::int64_t>(a.dims[k].extent);
  }
  return true;
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
  const block_plan p = plan_blocks(l, 1);
  return l.outputs == 1 || !p.one_row() || p.long_runs();
}

block_plan plan_blocks(const detail::layout& l, int threads) {
  const axes& a = l.reduced;
  const int innermost = a.rank - 1, by_x = closest(a, &axes::axis::x),
            by_y = l.y ? closest(a, &axes::axis::y) : innermost,
            split = (by_x != innermost ? by_x : by_y) + 1;
  block_plan p{};
  p.type = l.type;
  p.two = l.y != nullptr;
  p.gathered[0] = !lie_in_order(a, &axes::axis::x);
  p.gathered[1] = p.two && !lie_in_order(a, &axes::axis::y);
  p.n = p.length = l.n;
  p.columns = a;
  p.width = tile_elements;
  p.blocks = 1;
  const axes::axis& inner = a.dims[innermost];
  if (inner.x == 1 && (!l.y || inner.y == 1)) p.run_length = inner.extent;
  if (split <= innermost) {
    const auto size =
        static_cast<order::index>(size_of(l.type)) * (p.gathered[0] && p.gathered[1] ? 2 : 1);
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
  const order::index wanted = (chunk_count(threads) - 1) / p.blocks + 1,
                     least = p.one_row() ? 4 * p.width : std::min(p.width, tile_elements),
                     cuts =
                         p.whole_rows() ? 1 : std::clamp<order::index>(p.length / least, 1, wanted);
  p.range = (p.length / cuts + least - 1) / least * least;
  p.ranges = std::max<order::index>(1, p.length / p.range);
  return p;
}

namespace {

// The blocks of outputs, as one thread folds them.
class block_worker {
 public:
  block_worker(const work& w, const block_plan& p)
      : w_(w), reader_(p, leaves_at_once(w, p)), rows_(w.tasks.size()) {
    for (auto& rows : rows_) rows.resize(p.one_row() || p.whole_rows() ? 1 : p.height);
  }

  /// What an item makes of each task, and of exact sums. `whole`, where it is not null, takes the
  /// elements of an input.
  target run(detail::pointers output, order::index item, forest* made, detail::exact_sums& sums,
             std::byte* const* whole) {
    target used = w_.used;
    for (auto& rows : rows_)
      for (forest& f : rows) f.clear();
    const std::size_t size = size_of(w_.source.type);
    const auto fold = [&](order::index row, std::span<const leaf_run> runs, order::index first,
                          order::index n) {
      folder_.fold(w_.tasks, runs, n, first, used, [&](std::size_t k, const partial& s) {
        rows_[k][row].push(w_.tasks[k], first / order::leaf, order::leaf_count(n), n, s.bytes);
      });
      if (sums.empty() && !whole[0]) return;
      for (const leaf_run& run : runs) {
        const order::index taken = &run == &runs.back() ? n : run.leaves * order::leaf;
        if (!sums.empty()) used = deposit(sums, w_.used, run.data, taken);
        if (whole[0]) std::memcpy(whole[0] + first * size, run.data.x, taken * size);
        if (whole[1]) std::memcpy(whole[1] + first * size, run.data.y, taken * size);
        first += taken;
        n -= taken;
      }
    };
    reader_.read(output, item, fold);
    for (std::size_t k = 0; k < w_.tasks.size(); ++k)
      made[k] = forest::joined(w_.tasks[k], rows_[k]);
    return used;
  }

 private:
  // What is widened or taken by several tasks stays in the first-level cache, or nearly. Elements
  // of one input that lie apart are folded while the next few leaves are on their way; of narrow
  // types these would be too few bytes for that.
  static order::index leaves_at_once(const work& w, const block_plan& p) {
    constexpr order::index few = 4, tile = tile_elements / order::leaf;
    bool converts = false;
    for (const task& t : w.tasks) converts |= t.kernels.convert != nullptr;
    if (p.one_row() && p.run_length == 0 && !p.two && !converts && size_of(p.type) >= 4) return few;
    return converts || w.tasks.size() > 1 || (p.one_row() && !p.long_runs()) ? tile : 16 * tile;
  }

  const work& w_;
  block_reader reader_;
  tile_folder folder_;
  std::vector<std::vector<forest>> rows_;  // of each task, of the rows of a block
};

// One of the outputs; `workers` has one for each of its shares, or room for it.
target run_output(const work& w, const detail::layout& l, const block_plan& p, std::uint64_t output,
                  std::span<std::unique_ptr<block_worker>> workers, int threads) {
  const auto at = l.kept.offset_of(output);
  const auto size = static_cast<std::int64_t>(size_of(l.type));
  const detail::pointers data{l.x + at.x * size, l.y ? l.y + at.y * size : nullptr};
  if (w.only_tasks()) {
    const detail::layout columns{l.type,    data.x,        data.y,  p.rows,
                                 p.columns, p.row_count(), p.length};
    if (const auto c = plan_joined_columns(w.tasks, columns, threads)) {
      run_joined_columns(w, columns, *c, output, threads);
      return w.used;
    }
  }
  const std::size_t tasks = w.tasks.size(), shares = workers.size(),
                    bytes = w.whole_reductions.empty() ? 0 : l.n * size_of(l.type);
  const auto elements = std::make_unique_for_overwrite<std::byte[]>((l.y ? 2 : 1) * bytes);
  std::byte* const whole[] = {bytes ? elements.get() : nullptr,
                              bytes && l.y ? elements.get() + bytes : nullptr};
  std::vector<std::vector<forest>> made(p.items(), std::vector<forest>(tasks));
  std::vector<detail::exact_sums> sums(shares, w.sums);
  std::vector<target> ran(shares, w.used);
  parallel_for(shares, threads, [&](std::size_t share) {
    std::unique_ptr<block_worker>& mine = workers[share];
    if (!mine) mine = std::make_unique<block_worker>(w, p);
    for (order::index i = share * p.items() / shares; i < (share + 1) * p.items() / shares; ++i)
      ran[share] = mine->run(data, i, made[i].data(), sums[share], whole);
  });
  for (std::size_t k = 0; k < tasks; ++k) {
    std::vector<forest> parts;
    for (auto& of_item : made) parts.push_back(std::move(of_item[k]));
    w.put_states(k, output, 1, forest::joined(w.tasks[k], parts).total(w.tasks[k]).bytes, l.n);
  }
  for (std::size_t k = 1; k < shares; ++k) sums[0].merge(sums[k]);
  for (std::size_t k = 0; k < w.reductions.size(); ++k)
    if (detail::is_exact(w.reductions[k])) w.put(k, output, sums[0].result(w.reductions[k], l.n));
  for (const std::size_t k : w.whole_reductions)
    w.put(k, output, reduce_without_kernels(w.reductions[k], {whole[0], whole[1]}, l.n, threads));
  return ran[0];
}

}  // namespace

target run_blocks(const work& w, const detail::layout& l, const block_plan& p, std::uint64_t first,
                  std::uint64_t end, int threads) {
  std::vector<std::unique_ptr<block_worker>> workers(std::min(p.items(), chunk_count(threads)));
  target used = w.used;
  for (std::uint64_t o = first; o < end; ++o) used = run_output(w, l, p, o, workers, threads);
  return used;
}

}  // namespace bitfold::cpu
