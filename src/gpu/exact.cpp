// The passes of exact sums.
#include "exact.hpp"

#include <algorithm>
#include <bit>
#include <bitfold/cuda/plan.hpp>
#include <cstddef>
#include <tuple>

#include "../binned.hpp"
#include "exact_kernels.hpp"
#include "output_plan.hpp"

namespace bitfold::gpu {
namespace {

using order::index;

// The cells of one term, those of all blocks one behind the other.
struct cells {
  term what;
  int blocks, count;  // of a block
  std::size_t at;     // bytes from the workspace's beginning
};
constexpr std::size_t bytes_of(int blocks, int count) {
  return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(count) * sizeof(std::int64_t);
}
// As a kernel's exact_cells, from some block on.
static_assert(sizeof(cuda::exact_cells<3>) == 40 && offsetof(cuda::exact_cells<3>, blocks) == 24);
void add_cells(arguments& to, std::span<const cells> all, int first_block = 0) {
  std::vector<std::byte> bytes((12 * all.size() + 7) / 8 * 8);
  for (std::size_t k = 0; k < all.size(); ++k)
    std::memcpy(bytes.data() + 8 * all.size() + 4 * k, &all[k].blocks, 4);
  to.add_bytes(bytes.data(), bytes.size());
  for (std::size_t k = 0; k < all.size(); ++k)
    to.set(8 * k, in_workspace(all[k].at + bytes_of(first_block, all[k].count)));
}

constexpr std::string_view header_of(dtype type) {
  return is_float(type) ? "bitfold/cuda/exact.cuh" : "bitfold/cuda/exact_integers.cuh";
}
pass& add_pass(plan& to, instantiation what, int blocks, int threads, std::size_t shared) {
  return std::get<pass>(to.steps.emplace_back(pass{std::move(what), static_cast<unsigned>(blocks),
                                                   static_cast<unsigned>(threads), shared}));
}

// The passes of terms: each with its cells.
struct set_of_terms {
  exact_kernel kernel;
  int threads, blocks;  // of each part
  std::vector<cells> to;
};
struct sets_of_terms {
  std::vector<set_of_terms> all;
  std::size_t workspace;  // bytes, with those of others ahead

  std::vector<cells> every() const {
    std::vector<cells> together;
    for (const set_of_terms& s : all) together.insert(together.end(), s.to.begin(), s.to.end());
    return together;
  }
};
// `shape_of` gives a kernel's threads and blocks, of which there are cells `times` times.
template <class Shape>
sets_of_terms sets_of(std::vector<term> left, dtype type, const device_facts& on,
                      std::size_t workspace, int times, Shape shape_of) {
  sets_of_terms made{{}, workspace};
  while (!left.empty()) {
    set_of_terms s{kernel_for(type, left, on), 0, 0, {}};
    std::tie(s.threads, s.blocks) = shape_of(s.kernel);
    for (const term what : s.kernel.terms) {
      const int count = cells_of(type, what), blocks = s.blocks * times;
      s.to.push_back({what, blocks, count, made.workspace});
      made.workspace += bytes_of(blocks, count);
      std::erase(left, what);
    }
    made.all.push_back(std::move(s));
  }
  return made;
}

// Makes the results of all cells.
void add_finish(plan& to, const problem& p, std::span<const std::size_t> which,
                const sets_of_terms& sets, std::size_t n, bool overlaps, bool finish = true) {
  const dtype type = p.reductions[which[0]].in();
  const std::vector<cells> from = sets.every();
  std::vector<term> terms;
  for (const cells& c : from) terms.push_back(c.what);
  pass& last =
      add_pass(to,
               {"exact_finish", "bitfold/cuda/exact_finish.cuh",
                definition_of_terms(type, terms) + (finish ? definition_of_results(p, which)
                                                           : definition_of_state(type, terms[0])),
                "bitfold::cuda::exact_finish<kernel::terms, kernel::results>"},
               1, cuda::finish_threads, 0);
  last.overlaps = overlaps;
  last.with.add(index{n});
  add_cells(last.with, from);
  add_results(last.with, p, which);
}

// ---- Whole arrays -------------------------------------------------------------------------------

// Threads of a block, for n elements. What a thread begins with and leaves behind takes its time:
// few elements, in one block, and so few that the device has processors left, are for few threads.
int threads_for(const exact_kernel& k, std::size_t n, const device_facts& on) {
  const int few = on.numbers->exact.few_threads, some = on.numbers->exact.some_threads;
  const std::size_t each = k.elements / static_cast<std::size_t>(k.threads);
  const auto needed =
      static_cast<int>(std::min<std::size_t>((n + 32 * each - 1) / (32 * each) * 32, 1 << 30));
  if (n <= k.elements) return std::clamp(needed, std::min(few, k.threads), k.threads);
  return needed <= some * on.processors ? std::min(some, k.threads) : k.threads;
}

// As many as the shape wants, or as the device runs at once; but no more than there is work for.
int blocks_for(const exact_kernel& k, int threads, std::size_t n, int wanted,
               const device_facts& on) {
  const int most = wanted ? wanted : blocks_at_once(k, threads, k.blocks, on);
  const std::size_t at_once =
      k.elements * static_cast<std::size_t>(threads) / static_cast<std::size_t>(k.threads);
  const std::size_t work = n / at_once + (n % at_once != 0);
  return static_cast<int>(std::clamp<std::size_t>(
      work, 1, static_cast<std::size_t>(std::min(most, cuda::most_blocks))));
}

void add_array(plan& to, const problem& p, std::span<const std::size_t> which,
               const device_facts& on, const cuda::launch& shape) {
  if (p.n == 0) throw error(errc::usage, "n: no elements, of which no kernel makes a result");
  const reduction& r = p.reductions[which[0]];
  const bool two = info(r.op()).inputs == 2;
  const std::size_t parts = p.n > p.part ? p.n / p.part + (p.n % p.part != 0) : 1,
                    at_once = std::min(p.n, p.part);
  if (parts > cuda::most_blocks)
    throw error(errc::usage, "n: in " + std::to_string(parts) + " parts");
  const int of_all = static_cast<int>(parts), this_part = static_cast<int>(p.first / p.part);
  const auto shape_of = [&](const exact_kernel& k) {
    const int threads =
        shape.threads ? std::min(shape.threads, k.threads) : threads_for(k, at_once, on);
    return std::pair(threads, std::min(blocks_for(k, threads, at_once, shape.blocks, on),
                                       cuda::most_blocks / of_all));
  };
  const sets_of_terms sets = sets_of(terms_of(p, which), r.in(), on, p.workspace, of_all, shape_of);
  const exact_kernel& first = sets.all[0].kernel;
  // Floats at equal distances, of which they are one output.
  const detail::axes::axis* const steps = p.outputs ? &p.outputs->reduced.dims[0] : nullptr;
  const bool alone =
      !steps && parts == 1 && sets.all.size() == 1 && sets.all[0].blocks == 1 &&
      first.shared + first.terms.size() * bytes_of_sum(r.in()) <= on.max_shared_bytes;
  const cuda::elements array{nullptr, nullptr, r.in(), p.aligned};
  for (const set_of_terms& s : sets.all) {
    const bool floats = is_float(r.in());
    const std::string_view of_type = floats ? "exact_pass" : "exact_integers";
    const std::string name = "bitfold::cuda::" + std::string(of_type),
                      packs = floats ? std::to_string(s.kernel.packs) + ", " : "",
                      sums = packs + std::to_string(s.kernel.blocks) + ", kernel::sums>";
    instantiation what{of_type, header_of(r.in()), s.kernel.definitions, name + "<" + sums};
    if (steps) {
      what.name = "exact_pass_in_steps";
      what.expression = name + "_in_steps<" + sums;
    }
    if (alone) {
      what.name = floats ? "exact_pass_alone" : "exact_integers_alone";
      what.definitions += definition_of_results(p, which);
      what.expression = name + "_alone<" + packs + "kernel::sums, kernel::results>";
    }
    pass& made = add_pass(to, std::move(what), s.blocks, s.threads, s.kernel.shared);
    made.bytes_read = p.count * size_of(r.in()) * (two ? 2 : 1);
    made.with.add(array)
        .set(offsetof(cuda::elements, x), p.x)
        .set(offsetof(cuda::elements, y), two ? p.y : place{});
    made.with.add(index{p.count});
    if (steps) made.with.add(steps->x).add(steps->y);
    if (alone)
      add_results(made.with, p, which);
    else
      add_cells(made.with, s.to, this_part * s.blocks);
  }
  if (alone) return;
  if (p.first + p.count == p.n)
    add_finish(to, p, which, sets, p.n, shape.overlap && sets.all.size() == 1);
  to.workspace = std::max(to.workspace, sets.workspace);
}

// ---- Many outputs -------------------------------------------------------------------------------

// How they are shared out.
struct sharing {
  int team, rows;  // threads that take an output; outputs that a warp takes
  bool columns;    // a thread takes an output, or a chunk of one
  index chunks;    // of an output
  index chunk;     // elements of each
  int threads, blocks, finish_blocks;
  bool by_cells;  // not whole outputs
};

sharing share_out(const cuda::output_elements& from, std::size_t bytes_of_cells,
                  const cuda::launch& shape, const exact_numbers& by) {
  sharing p{};
  p.threads = shape.threads ? std::min(shape.threads, cuda::output_threads) : cuda::output_threads;
  const auto blocks_for = [&](index items) {
    const auto most = static_cast<index>(shape.blocks ? shape.blocks : 1 << 16),
               warps = static_cast<index>(p.threads / 32);
    return static_cast<int>(std::clamp<index>((items + warps - 1) / warps, 1, most));
  };
  const auto add_up = [&](index items) {  // of chunks, in cells
    p.blocks = blocks_for(items);
    p.finish_blocks = blocks_for(from.outputs);
    p.by_cells = true;
  };
  // Unless the cells would be much beside the elements; and so few of these that no cell overflows
  // (docs/exact.md).
  p.columns = is_float(from.type) && cuda::outputs_are_neighbours(from) && from.reduced.rank == 1 &&
              from.outputs >= 32 && from.n <= index{1} << 28 &&
              from.n * size_of(from.type) >= 4 * bytes_of_cells;
  if (p.columns) {
    const index stripes = (from.outputs + 31) / 32;
    p.chunk = std::clamp((from.n * stripes + by.many_warps - 1) / by.many_warps, by.least_chunk,
                         cuda::output_chunk);
    p.chunks = (from.n + p.chunk - 1) / p.chunk;
    add_up(stripes * p.chunks);
    return p;
  }
  p.chunk = cuda::output_chunk;
  p.chunks = from.listed ? 1 : std::max<index>(1, (from.n + p.chunk - 1) / p.chunk);
  const bool of_runs = from.in_packs && from.reduced.rank > 1 &&
                       from.n >= by.least_of_runs;  // what takes chunks finds these faster
  if (p.chunks > 1 || of_runs) {
    add_up(from.outputs * p.chunks);
    return p;
  }
  const index of_thread =
      static_cast<index>(cuda::packs_at_once) * (is_float(from.type) ? 16 / size_of(from.type) : 2);
  p.team = from.listed ? 32
                       : static_cast<int>(std::clamp<index>(
                             std::bit_ceil((from.n + of_thread - 1) / of_thread), 1, 32));
  p.rows = static_cast<int>(std::clamp<index>(std::bit_floor(from.outputs / by.many_warps),
                                              static_cast<index>(32 / p.team), 32));
  p.blocks =
      blocks_for((from.outputs + static_cast<index>(p.rows) - 1) / static_cast<index>(p.rows));
  return p;
}

void add_outputs_of(plan& to, const problem& p, std::span<const std::size_t> which,
                    const device_facts& on, const cuda::launch& shape) {
  const cuda::output_elements& from = *p.outputs;
  const std::vector<term> terms = terms_of(p, which);
  std::vector<cells> slots;
  std::size_t workspace = p.workspace;
  for (const term what : terms) {
    const int count = cells_of(from.type, what);
    slots.push_back({what, 0, count, workspace});
    workspace += from.outputs * static_cast<std::size_t>(count) * sizeof(std::int64_t);
  }
  const sharing how = share_out(from, (workspace - p.workspace) / std::max<index>(from.outputs, 1),
                                shape, on.numbers->exact);
  const std::size_t warps = static_cast<std::size_t>(how.threads) / 32,
                    shared = warps * bytes_of_warp(from.type, terms.size());
  const auto add = [&](const char* name, bool has_results, int blocks,
                       std::size_t bytes) -> arguments& {
    return add_pass(to,
                    {name, "bitfold/cuda/exact_outputs.cuh",
                     definition_of_terms(from.type, terms) +
                         (has_results ? definition_of_results(p, which) : ""),
                     "bitfold::cuda::" + std::string(name) + "<kernel::terms" +
                         (has_results ? ", kernel::results>" : ">")},
                    blocks, how.threads, bytes)
        .with;
  };
  const auto reads = [&] {
    std::get<pass>(to.steps.back()).bytes_read =
        (from.listed ? from.total : from.outputs * from.n) * size_of(from.type) *
        (from.two ? 2 : 1);
  };
  if (!how.by_cells) {
    arguments& with = add("exact_outputs", true, how.blocks, shared);
    add_outputs(with, p, from);
    with.add(how.team).add(how.rows);
    add_results(with, p, which);
    return reads();
  }
  to.steps.emplace_back(fill{in_workspace(p.workspace), workspace - p.workspace});
  arguments& first =
      how.columns ? add("exact_columns", false, how.blocks, 0)
                  : add("exact_chunks", false, how.blocks, warps * bytes_of_warp(from.type, 0));
  add_outputs(first, p, from);
  add_cells(first, slots);
  first.add(how.chunks).add(how.chunk);
  reads();
  arguments& last = add("exact_finish_outputs", true, how.finish_blocks, shared);
  last.add(from.outputs).add(from.n);
  add_cells(last, slots);
  add_results(last, p, which);
  to.workspace = std::max(to.workspace, workspace);
}

// ---- Several arrays -----------------------------------------------------------------------------

bool is_one_in_steps(const cuda::output_elements& from) {
  return !from.listed && is_float(from.type) && from.outputs == 1 && from.n > 1 &&
         from.reduced.rank == 1;
}

struct lists_of_pieces {
  std::vector<cuda::exact_pieces> all;
  std::size_t n = 0, items = 0;
};

// Stripes as long for all terms, and short enough that blocks end together.
lists_of_pieces lists_of(std::span<const cuda::piece> pieces, dtype type,
                         std::size_t stripe_bytes) {
  const auto stripe = static_cast<index>(stripe_bytes / size_of(type));
  lists_of_pieces lists;
  for (const cuda::piece& p : pieces) {
    if (p.n == 0) continue;
    if (lists.all.empty() || lists.all.back().count == cuda::most_pieces)
      lists.all.push_back({0, stripe, {}, {}});
    cuda::exact_pieces& list = lists.all.back();
    const index here = (p.n + stripe - 1) / stripe;
    if (here >= UINT32_MAX - list.first[list.count])
      throw error(errc::usage, "pieces: more than 2^49 bytes");
    list.each[list.count] = {p.data, p.n};
    ++list.count;
    list.first[list.count] = list.first[list.count - 1] + static_cast<unsigned>(here);
    lists.n += p.n;
    lists.items += here;
  }
  if (lists.n == 0)
    throw error(errc::usage, "pieces: no elements, of which no kernel makes a result");
  if (lists.all.size() > cuda::most_blocks) throw error(errc::usage, "pieces: too many of them");
  return lists;
}

}  // namespace

void add_exact(plan& to, const problem& p, std::span<const std::size_t> which,
               const device_facts& on, const cuda::launch& shape) {
  if (which.empty()) return;
  cuda::check(shape);
  if (p.outputs && !is_one_in_steps(*p.outputs))
    add_outputs_of(to, p, which, on, shape);
  else
    add_array(to, p, which, on, shape);
}

void check_takes_pieces(const reduction& r) {
  if (!detail::is_exact(r) || info(r.op()).inputs != 1 || !is_float(r.in()))
    throw error(errc::usage,
                "reduction: of several arrays only by method exact, of floats and one input");
}

void add_exact_pieces(plan& to, const problem& p, std::span<const cuda::piece> pieces,
                      const device_facts& on, bool finish) {
  const reduction& r = p.reductions[0];
  check_takes_pieces(r);
  if (!finish && detail::terms_of(r).size() != 1)
    throw error(errc::usage, "reduction: of several terms, whose sums are no single state");
  const std::size_t which[] = {0};
  const lists_of_pieces lists = lists_of(pieces, r.in(), on.numbers->exact.stripe_bytes);
  const auto times = static_cast<int>(lists.all.size());
  const auto shape_of = [&](const exact_kernel& k) {
    const auto most = static_cast<int>(std::min<std::size_t>(lists.items, cuda::most_blocks));
    return std::pair(k.threads, std::min({blocks_at_once(k, k.threads, k.blocks_of_pieces, on),
                                          cuda::most_blocks / times, most}));
  };
  const sets_of_terms sets = sets_of(terms_of(p, which), r.in(), on, p.workspace, times, shape_of);
  for (const set_of_terms& s : sets.all)
    for (int list = 0; list < times; ++list) {
      const cuda::exact_pieces& from = lists.all[static_cast<std::size_t>(list)];
      pass& made =
          add_pass(to,
                   {"exact_pass_of_pieces", header_of(r.in()), s.kernel.definitions,
                    "bitfold::cuda::exact_pass_of_pieces<" + std::to_string(s.kernel.packs) + ", " +
                        std::to_string(s.kernel.blocks_of_pieces) + ", kernel::sums>"},
                   s.blocks, s.threads, s.kernel.shared);
      for (int k = 0; k < from.count; ++k) made.bytes_read += from.each[k].n * size_of(r.in());
      made.with.add(from);
      add_cells(made.with, s.to, list * s.blocks);
    }
  add_finish(to, p, which, sets, lists.n, false, finish);
  to.workspace = std::max(to.workspace, sets.workspace);
}

}  // namespace bitfold::gpu
