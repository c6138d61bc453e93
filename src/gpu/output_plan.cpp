// The plan of many outputs. Pure arithmetic: needs no CUDA header.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "output_plan.hpp"
#include "plan.hpp"

namespace bitfold::cuda {

divisors divisors_of(const detail::axes& of) {
  divisors d{};
  d.narrow = of.size() <= index{1} << 32;
  for (int k = 0; k < of.rank && d.narrow; ++k) {
    const index extent = of.dims[k].extent;
    if (extent == 0) continue;
    d.each[k].shift = static_cast<int>(std::bit_width(extent - 1));
    d.each[k].factor = static_cast<std::uint32_t>(
        ((index{1} << 32) * ((index{1} << d.each[k].shift) - extent)) / extent + 1);
  }
  return d;
}

// The elements of several outputs on axes.
output_elements elements_of(const detail::layout& l) {
  output_elements e{};
  e.type = l.type;
  e.runs = runs_of::packs;
  e.kept = l.kept;
  e.reduced = l.reduced;
  e.by_kept = divisors_of(l.kept);
  e.by_reduced = divisors_of(l.reduced);
  e.outputs = l.outputs;
  e.n = l.n;
  e.two = l.y != nullptr;
  const auto is_aligned = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  e.aligned = is_aligned(l.x) && is_aligned(l.y);
  const auto pack = static_cast<std::int64_t>(16 / size_of(l.type));
  // Whether 16 bytes of neighbours along the last of some axes are neighbours in memory, and
  // aligned.
  const auto in_packs = [&](const detail::axes& along, const detail::axes& other,
                            std::int64_t detail::axes::axis::* stride, const void* data) {
    const auto whole = [&](const detail::axes& some, int rank) {
      return std::all_of(some.dims, some.dims + rank,
                         [&](const auto& axis) { return axis.*stride % pack == 0; });
    };
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && along.rank > 0 &&
           along.dims[along.rank - 1].*stride == 1 && whole(along, along.rank - 1) &&
           whole(other, other.rank);
  };
  const auto both_in_packs = [&](const detail::axes& along, const detail::axes& other) {
    using axis = detail::axes::axis;
    return in_packs(along, other, &axis::x, l.x) && (!l.y || in_packs(along, other, &axis::y, l.y));
  };
  const auto ends_with_a_pack = [&](const detail::axes& along) {
    return static_cast<std::int64_t>(along.dims[along.rank - 1].extent) % pack == 0;
  };
  e.in_packs =
      both_in_packs(l.reduced, l.kept) && (l.reduced.rank == 1 || ends_with_a_pack(l.reduced));
  e.unaligned = !e.in_packs && !l.y && l.reduced.rank == 1 && l.reduced.dims[0].x == 1 &&
                l.n > order::leaf &&
                (size_of(l.type) > 2 || l.n % order::leaf * size_of(l.type) >= 16);
  const auto alike = [](const detail::axes& some) {
    return std::all_of(some.dims, some.dims + some.rank,
                       [](const auto& axis) { return axis.x == axis.y; });
  };
  const bool are_alike = e.two && alike(l.kept) && alike(l.reduced);
  e.columns = (!e.two || are_alike) && l.reduced.rank == 1 && both_in_packs(l.kept, l.reduced) &&
              ends_with_a_pack(l.kept);
  e.alike = are_alike;
  e.two_alike = are_alike && (e.columns || e.in_packs);  // one by one found_pairs is quicker
  const index run = l.reduced.rank > 0 ? l.reduced.dims[l.reduced.rank - 1].extent : 0;
  e.runs = run % order::leaf == 0    ? runs_of::leaves
           : run % order::lanes == 0 ? runs_of::lanes
                                     : runs_of::packs;
  return e;
}

output_elements elements_of_lists(dtype type, bool two, std::size_t n, std::size_t outputs) {
  output_elements e{};
  e.type = type;
  e.runs = runs_of::packs;
  e.outputs = outputs;
  e.n = n / std::max<std::size_t>(outputs, 1);
  e.total = n;
  e.two = two;
  e.listed = true;
  e.offsets_each = 1;
  return e;
}

bool outputs_are_neighbours(const output_elements& from) {
  if (from.listed || from.kept.rank == 0 || from.reduced.rank == 0) return false;
  const auto inner = [](const detail::axes& of) { return std::abs(of.dims[of.rank - 1].x); };
  return inner(from.kept) < inner(from.reduced);
}

}  // namespace bitfold::cuda

namespace bitfold::gpu {
namespace {

using cuda::output_elements;

constexpr index warp = order::lanes;
constexpr index most_nodes = warp << 16;
constexpr index least_beside = 8;  // columns, with which a patch is worth its block

// Rows without gaps, of up to 1 KiB, in shared memory: elements from one to the next, so that the
// threads of a warp, each in a row of its own, find their words in different banks. 0: they are not
// that.
int staged_pitch(const output_elements& from) {
  const auto n = static_cast<std::int64_t>(from.n),
             size = static_cast<std::int64_t>(size_of(from.type));
  if (from.two || from.listed || !from.aligned || n <= 1 || n * size > 1024) return 0;
  if (from.kept.rank != 1 || from.kept.dims[0].x != n || from.reduced.rank != 1 ||
      from.reduced.dims[0].x != 1)
    return 0;
  if (size >= 4) return static_cast<int>(n | 1);
  return static_cast<int>((n + 1) / 4 * 4 + 2);
}

// Columns: what lies behind one element of the axis, none of the last, along which elements are
// neighbours. Of no elements: there is no such axis.
struct columns_of_output {
  index inner = 0, beside = 0;  // elements of each; of these so many are neighbours
  std::int64_t stride = 0;      // between elements of a column; 0: it is not the same for all
  std::size_t word = 0;         // bytes that are neighbours and aligned, at most 4 or an element's
};
columns_of_output columns_of(const output_elements& from) {
  const detail::axes& all = from.reduced;
  const auto* const end = all.dims + all.rank;
  const auto* const along =
      std::find_if(all.dims, end, [](const auto& axis) { return axis.x == 1; });
  if (from.two || from.listed || end - along < 2) return {};
  columns_of_output c{1, along->extent, end - along == 2 ? along[1].x : 0, size_of(from.type)};
  for (const auto* axis = along + 1; axis != end; ++axis) c.inner *= axis->extent;
  if (c.word >= 4) return c;
  const auto of_word = static_cast<std::int64_t>(4 / c.word);
  const auto in_words = [&](const detail::axes& some) {
    return std::all_of(some.dims, some.dims + some.rank,
                       [&](const auto& axis) { return &axis == along || axis.x % of_word == 0; });
  };
  if (from.aligned && c.beside % static_cast<index>(of_word) == 0 && in_words(from.kept) &&
      in_words(all))
    c.word = 4;
  return c;
}

// Columns that warps take leaf by leaf: too short for patches, or of two inputs. Of no neighbours:
// they do not.
struct leaves_across {
  int many = 0, of_leaf = 1;  // neighbours that a thread reads together; columns that make a leaf
  index inner = 0, beside = 0;
  std::int64_t stride = 0;
  index columns() const { return static_cast<index>(std::max(many, of_leaf)); }
};
leaves_across leaves_of(const output_elements& from) {
  constexpr index leaf = order::leaf;
  const detail::axes& all = from.reduced;
  if (from.listed || (from.two && !from.alike) || !from.aligned || all.rank < 2) return {};
  const auto &along = all.dims[all.rank - 2], &column = all.dims[all.rank - 1];
  const index inner = column.extent;
  leaves_across l{static_cast<int>(16 / size_of(from.type)), 1, inner, along.extent, column.x};
  if (along.x != 1 || inner < index{order::lanes}) return {};
  if (inner < leaf && leaf % inner == 0)
    l.of_leaf = static_cast<int>(leaf / inner);
  else if (!from.two || inner % leaf != 0)
    return {};
  const auto in_packs = [&](const detail::axes& some) {
    return std::all_of(some.dims, some.dims + some.rank,
                       [&](const auto& axis) { return &axis == &along || axis.x % l.many == 0; });
  };
  return along.extent % l.columns() == 0 && in_packs(from.kept) && in_packs(all) ? l
                                                                                 : leaves_across{};
}

[[noreturn]] void refuse(strategy by) {
  throw std::logic_error("no plan of outputs on axes by " + std::string(name(by)));
}

// Of a block, as the kernels' launch bounds have it.
int most_threads(strategy by) {
  switch (by) {
    case strategy::staged_threads: return 64;
    case strategy::row_teams:
    case strategy::leaf_teams:
    case strategy::columns:
    case strategy::short_columns: return 128;
    case strategy::threads:
    case strategy::lines:
    case strategy::patches:
    case strategy::across:
    case strategy::warps: return 256;
    case strategy::blocks: return cuda::max_threads;
    default: refuse(by);
  }
}

// The plan of one line of the table, for outputs that it fits.
class planner {
 public:
  planner(const cuda::sizes& of, const output_elements& from, const cuda::launch& shape,
          const tuning& by)
      : of_(of),
        from_(from),
        shape_(shape),
        by_(by),
        leaves_(order::leaf_count(from.n)),
        tiles_(from.n / of.tile + (from.n % of.tile != 0)),
        groups_(from.outputs / static_cast<index>(std::max(of.columns, 1))) {}

  output_plan make() {
    if (from_.listed) {
      by_segments();
    } else {
      const auto line = std::find_if(by_.outputs.begin(), by_.outputs.end(),
                                     [&](const outputs_line& l) { return fits(l) && takes(l.by); });
      by_line(*line);
      add_second_pass();
    }
    if (shape_.blocks) p_.blocks = std::min(p_.blocks, shape_.blocks);
    return p_;
  }

 private:
  bool fits(const outputs_line& l) const {
    const bool columns = l.by == strategy::columns || l.by == strategy::short_columns;
    return from_.n <= l.most_elements && of_.state <= l.most_state &&
           (columns ? groups_ : from_.outputs) >= l.least_outputs &&
           leaves_ * from_.outputs >= l.least_leaves &&
           (!l.only_neighbours || cuda::outputs_are_neighbours(from_));
  }

  // Whether the strategy's kernel can take such outputs, with the tiles that are asked for.
  bool takes(strategy by) const {
    const bool any_tiles = shape_.tiles == 0, line = from_.reduced.rank == 1;
    if (from_.two_alike && by != strategy::columns && by != strategy::short_columns &&
        by != strategy::threads && by != strategy::row_teams && by != strategy::leaf_teams &&
        by != strategy::warps && by != strategy::blocks)
      return false;  // its kernel reads one input
    switch (by) {
      case strategy::row_teams:
        return any_tiles && (!from_.two || from_.two_alike) && from_.in_packs && line &&
               from_.n > 0 && from_.n % owned() == 0 && from_.n <= of_.tile / 2;
      case strategy::lines: return !from_.two && line && from_.n > 0 && from_.n <= order::leaf;
      case strategy::short_columns:
        return from_.columns && from_.n > 1 && from_.n <= 2 * order::lanes;
      case strategy::columns: return from_.columns && from_.n > 1;
      case strategy::staged_threads: return any_tiles && !from_.two && staged_pitch(from_) > 0;
      case strategy::leaf_teams: {
        const auto& along = from_.reduced.dims[0];
        // Of two inputs whole tiles of packs are quicker as these; of channels it takes none.
        const bool in_tiles = from_.in_packs && owned() > 1 && from_.n % of_.tile == 0;
        const bool its_rows =
            from_.two ? along.y == 1 && !in_tiles : !from_.two_alike && !from_.in_packs;
        return any_tiles && its_rows && line && along.x == 1 && from_.n <= cuda::most_by_leaf_teams;
      }
      case strategy::warps: return any_tiles && tiles_ < 32;  // its counter has no more
      case strategy::across:  // whose leaves' states go through memory
        return any_tiles && leaves_ > 1 && leaves_of(from_).many > 0;
      case strategy::patches: {
        const columns_of_output of = columns_of(from_);
        return any_tiles && of.inner >= index{order::leaf} && of.beside >= least_beside;
      }
      default: return true;
    }
  }

  void by_line(const outputs_line& l) {
    p_.by = l.by;
    p_.line = l.name;
    p_.threads = std::min(l.threads, most_threads(l.by));
    p_.nodes = 1;
    switch (l.by) {
      case strategy::row_teams: return by_row_teams(l);
      case strategy::lines: return by_lines(l);
      case strategy::short_columns:
        p_.numbers = {of_.columns, from_.n <= order::lanes ? 1 : 2};
        return set_blocks(l, groups_, p_.threads);
      case strategy::columns: return by_columns(l);
      case strategy::threads:
        set_nodes(leaves_of_thread(leaves_ * from_.outputs / l.enough, 1));
        return set_blocks(l, from_.outputs * p_.nodes, p_.threads);
      case strategy::staged_threads:
        p_.pitch = staged_pitch(from_);
        p_.shared = static_cast<std::size_t>(p_.threads) * static_cast<std::size_t>(p_.pitch) *
                    size_of(from_.type);
        return set_blocks(l, from_.outputs, p_.threads);
      case strategy::leaf_teams:
        p_.at_once = static_cast<int>(std::clamp<index>(shares(from_.outputs, l.enough), 1, warp));
        return set_blocks_of_warps(l);
      case strategy::warps:
        p_.at_once = static_cast<int>(
            std::clamp<index>(from_.outputs / l.more,
                              std::min<index>(shares(from_.outputs, l.enough),
                                              std::max<index>(16 / std::max<index>(tiles_, 1), 1)),
                              warp));
        return set_blocks_of_warps(l);
      case strategy::patches: return by_patches(l);
      case strategy::across: return by_leaves_across(l);
      case strategy::blocks: return by_blocks(l);
      default: refuse(l.by);
    }
  }

  // Of a thread that takes neighbours in a row.
  index owned() const { return of_.tile / order::leaf; }

  // Blocks, each of which takes so many.
  void set_blocks(const outputs_line& l, index items, index of_each) {
    p_.blocks = static_cast<int>(std::clamp<index>(shares(items, of_each), 1, l.most_blocks));
  }
  void set_blocks(const outputs_line& l, index items, int of_each) {
    set_blocks(l, items, static_cast<index>(of_each));
  }
  void set_blocks_of_warps(const outputs_line& l) {
    if (shape_.threads) p_.threads = std::min(shape_.threads, most_threads(l.by));
    set_blocks(l, from_.outputs, p_.threads / 32 * p_.at_once);
  }

  // A power of two of about so many, of which `parts` make a node.
  index leaves_of_thread(index about, index parts) const {
    index each =
        std::clamp<index>(std::bit_floor(about + 1), 1, index{cuda::most_leaves_of_thread});
    while (shares(leaves_, each * parts) > most_nodes) each *= 2;
    if (each > index{cuda::most_leaves_of_thread}) refuse_length();
    return each;
  }
  void set_nodes(index leaves_of_node) {
    p_.node = leaves_of_node * order::leaf;
    p_.nodes = std::max<index>(1, shares(leaves_, leaves_of_node));
  }
  [[noreturn]] void refuse_length() const {
    throw error(errc::usage,
                "x: outputs of " + std::to_string(from_.n) + " elements each are too long");
  }

  void by_lines(const outputs_line& l) {
    const auto rows = static_cast<int>(std::bit_ceil(shares(from_.n, index{order::lanes})));
    p_.numbers = {rows,
                  from_.n == static_cast<index>(rows * order::lanes)};  // whether they are whole
    set_blocks(l, from_.outputs, p_.threads);
  }

  void by_row_teams(const outputs_line& l) {
    const index of_leaf = order::lanes / owned();
    p_.team = static_cast<int>(from_.n <= order::lanes ? std::bit_ceil(from_.n / owned())
                                                       : of_leaf * std::bit_ceil(leaves_));
    const index teams = warp / static_cast<index>(p_.team);
    p_.at_once = static_cast<int>(
        std::clamp<index>(shares(shares(from_.outputs, l.enough), teams) * teams, teams, warp));
    const int rows = from_.n <= order::lanes       ? 1
                     : from_.n <= 2 * order::lanes ? 2
                     : from_.n <= 4 * order::lanes ? 4
                                                   : order::rows;
    // Of two inputs registers hold half as many.
    const int registers = from_.two_alike ? 2 : 4;
    p_.numbers = {rows, std::max(rows <= 2 ? registers : registers * 2 / rows, 1)};
    set_blocks_of_warps(l);
  }

  void by_columns(const outputs_line& l) {
    p_.numbers = {of_.columns, 0};
    const auto threads = static_cast<index>(p_.threads);
    const index items = leaves_ * groups_,
                widest = std::min({l.beside, std::bit_ceil(groups_), threads});
    index width = widest, split = 1, parts = 1, each = 1, nodes = 1;
    const auto share_out = [&](index beside) {
      width = beside;
      const index most = std::bit_floor(threads / width);
      split = std::clamp<index>(std::bit_floor(l.enough / 2 / std::max<index>(items, 1)), 1,
                                std::min<index>(most, 8));
      parts = std::min(most, std::bit_ceil(leaves_) * split);
      each = leaves_of_thread(items / l.enough, parts / split);
      nodes = shares(leaves_, parts / split * each);
    };
    // Fewer beside each other, where one node has all of their leaves then.
    constexpr index narrow = 16;
    for (share_out(widest); nodes > 1 && width > narrow;) share_out(width / 2);
    if (nodes > 1) share_out(widest);
    // Instead of two nodes one, where it leaves work for most processors.
    const index stripes = shares(groups_, threads / parts);
    if (nodes == 2 && stripes * threads >= l.enough / 4 &&
        each < index{cuda::most_leaves_of_thread})
      each *= 2;
    p_.parts = static_cast<int>(parts);
    p_.split = static_cast<int>(split);
    set_nodes(std::min(parts / split * each, std::bit_ceil(leaves_)));  // no more than there are
    p_.shared = threads * static_cast<index>(of_.columns) * of_.state;
    set_blocks(l, stripes * p_.nodes, 1);
  }

  // Chunks of columns, as long as there are enough blocks: of each that is no whole number of
  // leaves a leaf's rows are read twice.
  void by_patches(const outputs_line& l) {
    const columns_of_output of = columns_of(from_);
    const auto columns = static_cast<index>(cuda::columns_of_patch(of.word, size_of(from_.type)));
    const index stripes =
        from_.outputs * (from_.n / of.inner / of.beside) * shares(of.beside, columns);
    constexpr index leaf = order::leaf;
    const index rows =
        std::max(shares(shares(of.inner, shares(l.enough, stripes)), leaf) * leaf, l.more * leaf);
    p_.threads = cuda::patch_threads;
    p_.columns = {of.inner, of.beside, of.stride};
    p_.patch = {rows, shares(of.inner, rows)};
    p_.numbers = {static_cast<int>(of.word), 0};
    p_.shared = cuda::bytes_of_patch(of.word);
    p_.node = leaf;
    p_.nodes = leaves_;
    set_blocks(l, stripes * p_.patch.chunks, 1);
  }

  void by_leaves_across(const outputs_line& l) {
    const leaves_across of = leaves_of(from_);
    constexpr index leaf = order::leaf;
    p_.threads = 256;
    p_.columns = {of.inner, of.beside, of.stride};
    p_.numbers = {of.many, of.of_leaf};
    p_.node = leaf;
    p_.nodes = leaves_;
    const index columns = from_.outputs * (from_.n / of.inner);
    set_blocks(l, columns / of.columns() * (of.of_leaf > 1 ? 1 : of.inner / leaf), 8);
  }

  // As many warps as an output has tiles, or as are left to one where they are many; few long ones
  // in nodes.
  void by_blocks(const outputs_line& l) {
    const index warps = std::clamp<index>(tiles_, 1, static_cast<index>(p_.threads) / 32);
    p_.threads = shape_.threads ? shape_.threads : static_cast<int>(32 * std::bit_ceil(warps));
    const index room = std::bit_floor(cuda::room_for_states(of_.state)),
                about = tiles_ * std::max<index>(from_.outputs, 1) / l.enough + 1;
    index per_node = shape_.tiles ? std::min(static_cast<index>(shape_.tiles), room)
                                  : std::clamp<index>(std::bit_ceil(about), 16, room);
    while (shares(tiles_, per_node) > most_nodes && per_node < room) per_node *= 2;
    p_.tiles = static_cast<int>(per_node);
    p_.node = per_node * of_.tile;
    p_.nodes = std::max<index>(1, shares(tiles_, per_node));
    if (p_.nodes > most_nodes) refuse_length();
    p_.shared = cuda::bytes_for_states(std::min(per_node, std::max<index>(tiles_, 1)), of_.state);
    set_blocks(l, from_.outputs * p_.nodes, 1);
  }

  // Of any lengths. Nodes are small, so that many blocks have some.
  void by_segments() {
    const segments_numbers& l = by_.segments;
    const index most_tiles = std::bit_floor(cuda::room_for_states(of_.state));
    p_.by = strategy::short_segments;
    p_.line = l.name;
    p_.threads = shape_.threads ? shape_.threads : l.threads;
    p_.tiles = static_cast<int>(
        shape_.tiles ? std::min(static_cast<index>(shape_.tiles), most_tiles) : index(l.tiles));
    p_.nodes = 1;
    p_.at_once = static_cast<int>(std::clamp<index>(shares(from_.outputs, l.enough), 1, warp));
    const auto node = [&] { return static_cast<index>(p_.tiles) * of_.tile; };
    while (from_.total / node() > most_nodes && static_cast<index>(p_.tiles) < most_tiles)
      p_.tiles *= 2;
    if (from_.total / node() > most_nodes)
      throw error(errc::usage, "n: " + std::to_string(from_.total) + " elements are too many");
    p_.list = cuda::node_list::of(node(), from_.total);
    p_.shared = cuda::bytes_for_states(static_cast<index>(p_.tiles), of_.state);
    const auto blocks = [](index items, index of_each, int most) {
      return static_cast<int>(
          std::clamp<index>(shares(items, of_each), 1, static_cast<index>(most)));
    };
    const auto threads = static_cast<index>(p_.threads);
    p_.blocks =
        blocks(from_.outputs, threads / warp * static_cast<index>(p_.at_once), l.most_blocks);
    p_.short_blocks = blocks(from_.outputs, threads, l.most_short_blocks);
    p_.list_blocks = blocks(p_.list.room, 1, l.most_list_blocks);
    set_second_threads(256);
    p_.second_blocks = blocks(p_.list.room_for_several, 1, l.most_second_blocks);
    p_.workspace = p_.list.bytes(of_.state);
    if (shape_.blocks)
      for (int* some : {&p_.short_blocks, &p_.list_blocks}) *some = std::min(*some, shape_.blocks);
  }

  // A state for each warp.
  void set_second_threads(index threads) {
    p_.second_threads = static_cast<int>(threads);
    p_.second_shared = threads / warp * of_.state;
  }

  void add_second_pass() {
    index nodes = p_.nodes;
    p_.workspace = nodes > 1 ? from_.outputs * nodes * of_.state : 0;
    const bool by_leaves = p_.by == strategy::patches || p_.by == strategy::across;
    if (by_leaves && nodes > by_.states_of_one_pass) {
      // A warp takes as many one after the other as each of a block's does of the longer ones.
      const index each = std::max<index>(warp, (index{1} << std::bit_width(nodes) / 2) / 4);
      constexpr int threads = 256;
      nodes = shares(nodes, each);
      if (nodes > most_nodes) refuse_length();
      const index blocks = shares(from_.outputs * nodes, index{threads} / warp);
      p_.longer = {each, nodes, rounded_up(p_.workspace),
                   static_cast<int>(std::min<index>(blocks, 1 << 16)), threads};
      p_.workspace = p_.longer.behind + from_.outputs * nodes * of_.state;
    }
    p_.nodes_of_warp = std::max<index>(warp, std::bit_ceil((nodes + 15) / 16));
    const index warps = shares(nodes, p_.nodes_of_warp);
    set_second_threads(warps > 1 ? warps * warp : 256);
    p_.second_blocks =
        static_cast<int>(std::clamp<index>(shares(from_.outputs, warps > 1 ? 1 : 8), 1, 1 << 16));
  }

  const cuda::sizes& of_;
  const output_elements& from_;
  const cuda::launch& shape_;
  const tuning& by_;
  const index leaves_, tiles_;  // of an output
  const index groups_;          // of columns of a thread
  output_plan p_{};
};

}  // namespace

output_plan plan_outputs(const cuda::sizes& of, const output_elements& from,
                         const cuda::launch& shape, const tuning& by) {
  cuda::check(shape);
  return planner(of, from, shape, by).make();
}

}  // namespace bitfold::gpu
