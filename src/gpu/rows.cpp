// Row functions on a GPU: plans, and the calls that run them.
#include "rows.hpp"

#include <algorithm>
#include <bit>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/cuda/rows.hpp>
#include <initializer_list>

#include "../row_functions.hpp"
#include "launcher.hpp"

namespace bitfold::gpu {
namespace {

constexpr int warp = order::lanes;
constexpr std::size_t most_blocks = 1 << 30;

unsigned as_blocks(std::size_t n) { return static_cast<unsigned>(std::min(n, most_blocks)); }
// ---- How elements are read ----------------------------------------------------------------------

/// Neighbouring elements that a thread takes together, as registers allow; `inputs` of as many rows
/// at once.
int owned_of(dtype type, int inputs) {
  return size_of(type) == 2 ? 4 : (inputs > 1 ? 8 : 16) / static_cast<int>(size_of(type));
}
bool in_packets(dtype type, int owned, std::size_t n, std::initializer_list<const void*> arrays) {
  const std::size_t packet = static_cast<std::size_t>(owned) * size_of(type);
  return n % static_cast<std::size_t>(owned) == 0 &&
         std::ranges::all_of(arrays, [&](const void* p) {
           return reinterpret_cast<std::uintptr_t>(p) % packet == 0;
         });
}
order::index tile_of(int owned) { return static_cast<order::index>(warp * owned * order::rows); }

// ---- Kernels ------------------------------------------------------------------------------------

struct traits {
  bool elementwise, takes_y, weighted, by_channel;
  std::size_t state;  ///< bytes of what is folded
};
traits traits_of(row_function f, dtype type) {
  return row::visit(f, [&]<class F>(std::type_identity<F>) {
    using fold::partial;
    return traits{F::elementwise, F::takes_y, F::weighted, F::by_channel,
                  type == dtype::f64 ? sizeof(partial<typename F::folded, double>)
                                     : sizeof(partial<typename F::folded, float>)};
  });
}

/// name<..., element, owned>, with these definitions besides; owned: 0 where it has none.
instantiation kernel_of(std::string_view name, std::string_view header, dtype type, int owned,
                        const std::string& definitions, const std::string& first,
                        const std::string& last = "") {
  return {name, header, "using element = " + std::string(type_name(type)) + ";\n" + definitions,
          "bitfold::cuda::" + std::string(name) + "<" + first + "kernel::element" +
              (owned > 0 ? ", " + std::to_string(owned) : "") + last + ">"};
}
/// Of f, held to the size of the states that its plan has room for.
instantiation kernel_of(std::string_view name, std::string_view header, row_function f, dtype type,
                        int owned = 0, const std::string& last = "") {
  return kernel_of(name, header, type, owned,
                   "using function = row::" + std::string(row::name(f)) +
                       ";\nstatic_assert(sizeof(fold::partial<function::folded, "
                       "row::accumulator<element>>) == " +
                       std::to_string(traits_of(f, type).state) + ");\n",
                   "kernel::function, ", last);
}
constexpr std::string_view of_rows = "bitfold/cuda/rows.cuh",
                           of_sums = "bitfold/cuda/sums_of_rows.cuh";

// ---- Rows ---------------------------------------------------------------------------------------

// Each thread takes `owned` neighbours.
pass map_each(row_function f, const rows& of, void* out, int owned) {
  const std::size_t of_block = cuda::most_warps * tile_of(owned);
  pass p{kernel_of("map_each", of_rows, f, of.type, owned),
         as_blocks(shares(of.count * of.n, of_block)), cuda::most_warps * warp};
  p.with.add(rows{of.type, of.count, of.n, of.x}).add(out);
  return p;
}
// Of up to a leaf: a team of threads takes one.
pass map_short_rows(row_function f, const rows& of, void* out, int owned) {
  const std::size_t most = std::bit_ceil(shares(of.n, warp)),
                    team = std::bit_ceil(
                        shares(std::min<std::size_t>(of.n, warp), static_cast<std::size_t>(owned))),
                    sets = std::max<std::size_t>(4 / most, 1),
                    of_block = cuda::threads_on_short_rows / team * sets;
  pass p{kernel_of("map_short_rows", "bitfold/cuda/short_rows.cuh", f, of.type, owned,
                   ", " + std::to_string(most) + ", " + std::to_string(sets)),
         as_blocks(shares(of.count, of_block)), cuda::threads_on_short_rows};
  p.with.add(of).add(static_cast<int>(team)).add(out);
  return p;
}
// The kernel's Held (rows.cuh). With more registers for elements, or more neighbours of a thread
// over all tiles, holding takes longer than to read twice (H200). States of doubles take what
// registers there are.
int tiles_held(row_function f, const rows& of, int owned, std::size_t tiles, int warps) {
  constexpr std::size_t most_neighbours = 8;
  const traits t = traits_of(f, of.type);
  const std::size_t neighbours = static_cast<std::size_t>(owned), size = size_of(of.type),
                    each = shares(tiles, static_cast<std::size_t>(warps)),
                    inputs = std::size_t{1} + t.takes_y + t.weighted,
                    registers = each * inputs * order::rows *
                                std::max<std::size_t>(1, neighbours * size / 4),
                    most_registers = owned == 1 ? 96 : 64;
  if (each == 1) return of.n % static_cast<std::size_t>(tile_of(owned)) ? 1 : 0;
  const bool fits = size < 8 && registers <= most_registers && each * neighbours <= most_neighbours;
  return fits ? static_cast<int>(each) : 0;
}
pass map_rows(row_function f, const rows& of, void* out, int owned) {
  if (of.n <= order::leaf) return map_short_rows(f, of, out, owned);
  const std::size_t tiles = shares(of.n, tile_of(owned)), state = traits_of(f, of.type).state;
  if (tiles <= cuda::tiles_of_warps) {
    int warps = 1;
    while (warps < cuda::most_warps && static_cast<std::size_t>(warps) < tiles) warps *= 2;
    const int at_once = warps < 4 ? 4 / warps : 1;
    pass p{kernel_of("map_rows", of_rows, f, of.type, owned,
                     ", " + std::to_string(tiles_held(f, of, owned, tiles, warps))),
           as_blocks(shares(of.count, static_cast<std::size_t>(at_once))),
           static_cast<unsigned>(at_once * warps * warp),
           static_cast<std::size_t>(at_once) * cuda::tiles_of_warps * state};
    p.with.add(of).add(warps).add(out);
    return p;
  }
  constexpr int node = 1024;  // a row has at most 2^6 of these, of 2^8 elements and more a tile
  pass p{kernel_of("map_long_rows", of_rows, f, of.type, owned), as_blocks(of.count),
         cuda::most_warps * warp, (node + node / warp) * state};
  p.with.add(of).add(node).add(out);
  return p;
}

int neighbours_of_thread(row_function f, const rows& of, const void* out, const tuning& by) {
  const traits t = traits_of(f, of.type);
  int owned = owned_of(of.type, 1 + t.takes_y + t.weighted);
  const int twice = 2 * owned;
  if (t.elementwise)  // no row has to begin where a packet does
    return in_packets(of.type, owned, 0, {of.x, out}) ? owned : 1;
  const auto fits = [&](int many) {
    if (t.by_channel)  // w and b are read one by one, and a packet is of one channel
      return in_packets(of.type, many, of.inner, {of.x, out});
    return in_packets(of.type, many, of.n, {of.x, of.y, of.w, of.b, out});
  };
  // Of a row of up to half a tile half of a warp's threads would have nothing.
  if (of.n > order::leaf && of.n <= tile_of(owned) / 2) owned /= 2;
  if (size_of(of.type) == 2 && !t.takes_y && of.count >= by.rows_of_wide_packets &&
      of.n % tile_of(twice) == 0 && fits(twice))
    return twice;
  return fits(owned) ? owned : 1;
}

// ---- Gradients of parameters --------------------------------------------------------------------

/// How they are cut: parts of so many rows each, but the last.
struct parts_of_rows {
  std::size_t each, count, workspace;
};
// Parts of a power of two of leaves, as many as fill a GPU.
parts_of_rows parts_of(row_function f, const rows& of, const tuning& by) {
  constexpr std::size_t columns_of_block = 128;
  std::size_t part = order::leaf;
  while (part < of.count &&
         shares(of.count, 2 * part) * (of.n / columns_of_block + 1) >= by.parameter_blocks)
    part *= 2;
  const std::size_t parts = shares(of.count, part);
  return {part, parts, parts > 1 ? parts * of.n * traits_of(f, of.type).state : 0};
}

void add_results(arguments& to, bool dw, bool db) {
  to.add_address(dw ? place{base::result, 0} : place{});
  to.add_address(db ? place{base::result, 1} : place{});
}

}  // namespace

plan plan_rows(row_function f, const rows& of, void* out, const tuning& by) {
  plan made;
  if (of.count == 0 || of.n == 0) return made;
  const int owned = neighbours_of_thread(f, of, out, by);
  const traits t = traits_of(f, of.type);
  pass p = t.elementwise ? map_each(f, of, out, owned) : map_rows(f, of, out, owned);
  p.bytes_read = of.count * of.n * size_of(of.type) * (t.takes_y ? 2 : 1);
  made.steps.emplace_back(std::move(p));
  return made;
}

// A thread takes some rows' neighbouring elements, of a chunk of their places.
plan plan_rows(row_function f, const rows_across& of, void* out, const device_facts& on) {
  plan made;
  if (of.size() == 0) return made;
  const std::size_t size = size_of(of.type), packet = 16 / size,
                    owned =
                        in_packets(of.type, static_cast<int>(packet), of.inner, {of.x, of.y, out})
                            ? packet
                            : 1,
                    columns = of.outer * (of.inner / owned),
                    threads = static_cast<std::size_t>(on.processors * on.threads),
                    chunks = std::clamp<std::size_t>(2 * threads / columns, 1,
                                                     shares(of.n, cuda::least_places_across)),
                    chunk = shares(of.n, chunks);
  pass p{kernel_of("map_rows_across", "bitfold/cuda/rows_across.cuh", f, of.type,
                   static_cast<int>(owned)),
         as_blocks(shares(columns * shares(of.n, chunk), cuda::threads_across)),
         cuda::threads_across};
  p.bytes_read = of.size() * size * (traits_of(f, of.type).takes_y ? 2 : 1);
  p.with.add(of).add(chunk).add(out);
  made.steps.emplace_back(std::move(p));
  return made;
}

plan plan_parameter_gradients(row_function f, const rows& of, bool dw, bool db, const tuning& by) {
  plan made;
  if (of.n == 0) return made;
  if (of.count == 0) {
    const std::size_t bytes = of.n * size_of(of.type);
    made.steps.reserve(2);  // of a vector that grows here g++ 13 thinks that it writes to none
    if (dw) made.steps.emplace_back(fill{{base::result, 0}, bytes});
    if (db) made.steps.emplace_back(fill{{base::result, 1}, bytes});
    return made;
  }
  const parts_of_rows cut = parts_of(f, of, by);
  const int wanted = owned_of(of.type, 2),
            owned = in_packets(of.type, wanted, of.n, {of.x, of.y}) ? wanted : 1,
            part = static_cast<int>(cut.each), parts = static_cast<int>(cut.count);
  made.workspace = cut.workspace;
  const place states = parts > 1 ? in_workspace(0) : place{};
  pass first{kernel_of("fold_parameters", of_sums, f, of.type, owned),
             static_cast<unsigned>(shares(of.n / static_cast<std::size_t>(owned), warp)),
             cuda::warps_on_columns * warp};
  first.rows_of_blocks = static_cast<unsigned>(parts);
  first.bytes_read = 2 * of.count * of.n * size_of(of.type);
  first.with.add(of).add(part).add(parts).add_address(states);
  add_results(first.with, dw, db);
  made.steps.emplace_back(std::move(first));
  if (parts > 1) {
    const auto run = static_cast<int>(std::bit_ceil(shares(cut.count, cuda::warps_on_parts)));
    pass second{kernel_of("fold_parts_of_parameters", of_sums, f, of.type),
                static_cast<unsigned>(shares(of.n, warp)), cuda::warps_on_parts * warp};
    second.with.add(of).add(part).add(parts).add(run).add_address(states);
    add_results(second.with, dw, db);
    made.steps.emplace_back(std::move(second));
  }
  return made;
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {

namespace {
const gpu::tuning& numbers_here() { return *gpu::facts_of_current_device().numbers; }
}  // namespace

void apply(row_function f, const rows& of, void* out, stream where) {
  row::check(f, of, out);
  (void)gpu::the_driver();
  if (of.count == 0 || of.n == 0) return;
  gpu::run(gpu::plan_rows(f, of, out, numbers_here()), {}, where);
}

void apply(row_function f, const rows_across& of, void* out, stream where) {
  row::check(f, of, out);
  (void)gpu::the_driver();
  if (of.size() == 0) return;
  gpu::run(gpu::plan_rows(f, of, out, gpu::facts_of_current_device()), {}, where);
}

std::size_t parameter_gradients_workspace_bytes(row_function f, const rows& of) {
  return gpu::parts_of(f, of, numbers_here()).workspace;
}

void parameter_gradients(row_function f, const rows& of, void* dw, void* db, void* workspace,
                         std::size_t workspace_size, stream where) {
  row::check_parameters(f, of, dw, db);
  (void)gpu::the_driver();
  const gpu::plan p = gpu::plan_parameter_gradients(f, of, dw, db, numbers_here());
  check_workspace(workspace, workspace_size, p.workspace);
  if (of.n == 0) return;
  void* const results[] = {dw, db};
  gpu::run(p, {.workspace = workspace, .results = results}, where);
}

}  // namespace bitfold::cuda
