// The passes of exact sums, and their launch.
#include "exact.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <bitfold/cuda/launch.hpp>

#include "../binned.hpp"
#include "groups.hpp"

namespace bitfold::cuda {
namespace {

// Calls f with the type by which the kernels of a type are known.
template <class F>
auto with_kernel_type(dtype type, F f) {
  switch (type) {
    case dtype::f16: return f(std::type_identity<float16>{});
    case dtype::bf16: return f(std::type_identity<bfloat16>{});
    case dtype::f32: return f(std::type_identity<float>{});
    case dtype::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<std::int64_t>{});
  }
}

// Of the current device.
int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}
int processors() { return attribute(cudaDevAttrMultiProcessorCount); }
std::size_t room_of_block() {
  return static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

// How many blocks the current device runs at once; may be launched there from then on.
int blocks_at_once(const exact_kernel& k, int threads) {
  static std::mutex lock;
  // Not destroyed at the program's end.
  static auto& known = *new std::map<std::tuple<int, const void*, int, std::size_t>, int>;
  int device = 0, each = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  const std::lock_guard guard(lock);
  int& blocks = known[{device, k.function, threads, k.shared}];
  if (blocks == 0) {
    cudaFuncAttributes has;  // a kernel of any terms takes more for some than for others
    check(cudaFuncGetAttributes(&has, k.function), "cudaFuncGetAttributes");
    if (const auto room = static_cast<int>(k.shared); has.maxDynamicSharedSizeBytes < room)
      check(cudaFuncSetAttribute(k.function, cudaFuncAttributeMaxDynamicSharedMemorySize, room),
            "cudaFuncSetAttribute");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, k.function, threads, k.shared),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    blocks = std::max(1, processors() * each);
  }
  return blocks;
}

// Of one of several arrays, that a block takes before it looks for the next.
constexpr std::size_t stripe_bytes = 1 << 17;

// Threads of a block, for n elements. What a thread begins with and leaves behind takes its time:
// few elements, in one block, and so few that the device has processors left, are for few threads.
int threads_for(const exact_kernel& k, std::size_t n) {
  constexpr int few = 64, some = 128;
  const std::size_t each = k.elements / static_cast<std::size_t>(k.threads);
  const auto needed =
      static_cast<int>(std::min<std::size_t>((n + 32 * each - 1) / (32 * each) * 32, 1 << 30));
  if (n <= k.elements) return std::clamp(needed, std::min(few, k.threads), k.threads);
  return needed <= some * processors() ? std::min(some, k.threads) : k.threads;
}

// As many as the shape wants, or as the device runs at once; but no more than there is work for.
int blocks_for(const exact_kernel& k, int threads, std::size_t n, int wanted) {
  const int most = blocks_at_once(k, threads);
  const std::size_t at_once =
      k.elements * static_cast<std::size_t>(threads) / static_cast<std::size_t>(k.threads);
  const std::size_t work = n / at_once + (n % at_once != 0);
  return static_cast<int>(std::clamp<std::size_t>(
      work, 1, static_cast<std::size_t>(std::min(wanted ? wanted : most, most_blocks))));
}

// As many of these terms as go together: those of as many inputs, for whose columns a block has
// room. Other than a kernel of their own, one for any terms has to have room for those of so many
// threads, since fewer wait for memory longer than passes of their own would take.
constexpr int enough_threads = 128;

std::pair<exact_kernel, unsigned> kernel_for(dtype type, unsigned terms, std::size_t room) {
  if (terms & ~of_two_inputs) terms &= ~of_two_inputs;
  return with_kernel_type(type, [&]<class T>(std::type_identity<T>) {
    std::pair<exact_kernel, unsigned> best{};
    for (unsigned set = terms; set; set = (set - 1) & terms) {
      const int more = std::popcount(set) - std::popcount(best.second);
      const exact_kernel own = exact_kernel_of<T>(set), any = exact_kernel_of_any<T>(set);
      const std::size_t bytes =
          any.function && !std::has_single_bit(set)
              ? any.shared * static_cast<std::size_t>(std::max(1, enough_threads / any.threads))
              : any.shared;
      if (more > 0 && any.function && bytes <= room) best = {any, set};
      if (more >= 0 && own.function && own.shared <= room) best = {own, set};
    }
    if (!best.second)
      best = {exact_kernel_of<T>(terms & ~(terms - 1)),
              terms & ~(terms - 1)};  // which the device refuses
    return best;
  });
}

// Adds the passes of some terms, by pass_of(kernel), to a plan.
template <class Plan>
void add_passes(Plan& plan, std::span<const exact::term> of, dtype type, std::size_t room,
                const auto& pass_of) {
  unsigned left = 0;
  for (const exact::term what : of) left |= only(what);
  while (left) {
    const auto [kernel, terms] = kernel_for(type, left, room);
    auto [pass, blocks] = pass_of(kernel);
    for (unsigned these = terms; these; these &= these - 1) {
      const auto what = static_cast<exact::term>(std::countr_zero(these));
      const int cells = kernel.cells[exact::degree(what) - 1];
      pass.slots.each[pass.slots.count++] = {what, blocks, cells, nullptr};
      plan.workspace +=
          static_cast<std::size_t>(blocks) * static_cast<std::size_t>(cells) * sizeof(std::int64_t);
    }
    plan.passes.push_back(pass);
    left &= ~terms;
  }
}

// What makes the results of all passes.
const void* finish_of(const auto& plan) {
  const exact_kernel& k = plan.passes[0].kernel;
  return plan.passes.size() == 1 ? k.finish : k.finish_all;
}

}  // namespace

exact_plan plan_exact(std::span<const exact::term> terms, dtype type, std::size_t n,
                      std::size_t part, const launch& shape, std::optional<std::size_t> room) {
  (void)make_plan({1, 1}, 0, shape);  // refuses a shape that is not allowed
  const std::size_t parts = n > part ? n / part + (n % part != 0) : 1;
  if (parts > most_blocks) throw error(errc::usage, "n: in " + std::to_string(parts) + " parts");
  const int of_all = static_cast<int>(parts);
  exact_plan plan{};
  plan.part = part;
  add_passes(plan, terms, type, room ? *room : room_of_block(), [&](const exact_kernel& k) {
    const int threads =
        shape.threads ? std::min(shape.threads, k.threads) : threads_for(k, std::min(n, part));
    const int blocks =
        std::min(blocks_for(k, threads, std::min(n, part), shape.blocks), most_blocks / of_all);
    return std::pair(exact_plan::pass{k, threads, blocks, {}}, blocks * of_all);
  });
  plan.alone = parts == 1 && plan.passes.size() == 1 && plan.passes[0].blocks == 1 &&
               plan.passes[0].kernel.alone;
  if (plan.alone) plan.workspace = 0;
  return plan;
}

const char* launch_exact(const exact_plan& plan, const arguments& a) {
  exact_slots all{};
  auto* next = static_cast<std::int64_t*>(a.workspace);
  elements data = a.data;
  order::index n = a.n, count = a.count;
  cudaError_t err = cudaSuccess;
  for (const exact_plan::pass& p : plan.passes) {
    exact_slots here{};
    for (int k = 0; k < p.slots.count; ++k) {
      exact_slot s = p.slots.each[k];
      s.at = next;
      all.each[all.count++] = s;
      if (!plan.alone) {
        next += std::ptrdiff_t{s.blocks} * s.cells;
        s.at += static_cast<std::ptrdiff_t>(a.first / plan.part) * p.blocks * s.cells;
      }
      here.each[here.count++] = s;
    }
    result_list how{};
    if (plan.alone) how = a.how;
    void* values[] = {&data, &count, &here, &how};
    if (err == cudaSuccess)
      err =
          enqueue(p.kernel.function, p.blocks, p.threads, p.kernel.shared, a.where, false, values);
  }
  if (!plan.alone && a.first + a.count == a.n && err == cudaSuccess) {
    result_list how = a.how;
    void* values[] = {&n, &all, &how};
    err = enqueue(finish_of(plan), 1, finish_threads, 0, a.where,
                  a.overlap && plan.passes.size() == 1, values);
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

// ---- Several arrays -----------------------------------------------------------------------------

exact_pieces_plan plan_exact_pieces(const reduction& r, std::span<const piece> pieces) {
  exact_pieces_plan plan{};
  // Stripes as long for all terms, and short enough that blocks end together.
  const auto stripe = static_cast<index>(stripe_bytes / size_of(r.in()));
  std::size_t items = 0;
  for (const piece& p : pieces) {
    if (p.n == 0) continue;
    if (plan.lists.empty() || plan.lists.back().count == most_pieces)
      plan.lists.push_back({0, stripe, {}, {0}});
    exact_pieces& list = plan.lists.back();
    const index here = (p.n + stripe - 1) / stripe;
    if (here >= UINT32_MAX - list.first[list.count])
      throw error(errc::usage, "pieces: more than 2^49 bytes");
    list.each[list.count] = p;
    ++list.count;
    list.first[list.count] = list.first[list.count - 1] + static_cast<unsigned>(here);
    plan.n += p.n;
    items += here;
  }
  const int lists = std::max(1, static_cast<int>(plan.lists.size()));
  if (lists > most_blocks) throw error(errc::usage, "pieces: too many of them");
  add_passes(plan, detail::terms_of(r), r.in(), room_of_block(), [&](const exact_kernel& k) {
    check_compiled(r, k.of_pieces != nullptr);
    exact_kernel runs = k;
    runs.function = k.of_pieces;
    const int blocks = std::min({blocks_at_once(runs, k.threads), most_blocks / lists,
                                 static_cast<int>(std::clamp<std::size_t>(items, 1, most_blocks))});
    return std::pair(exact_pieces_plan::pass{runs, {}, blocks}, blocks * lists);
  });
  return plan;
}

const char* launch_exact_pieces(const exact_pieces_plan& plan, const reduction& r, void* out,
                                void* workspace, stream where) {
  exact_slots all{};
  auto* next = static_cast<std::int64_t*>(workspace);
  cudaError_t err = cudaSuccess;
  for (const exact_pieces_plan::pass& p : plan.passes) {
    exact_slots here = p.slots;
    for (int k = 0; k < here.count; ++k) {
      exact_slot& s = here.each[k];
      s.at = next;
      all.each[all.count++] = s;
      next += std::ptrdiff_t{s.blocks} * s.cells;
    }
    for (exact_pieces list : plan.lists) {
      void* values[] = {&list, &here};
      if (err == cudaSuccess)
        err = enqueue(p.kernel.function, p.blocks, p.kernel.threads, p.kernel.shared, where, false,
                      values);
      for (int k = 0; k < here.count; ++k)
        here.each[k].at += std::ptrdiff_t{p.blocks} * here.each[k].cells;
    }
  }
  index n = plan.n;
  result_list how{1, {{out, r.out(), r.op(), r.ddof()}}};
  void* values[] = {&n, &all, &how};
  if (err == cudaSuccess)
    err = enqueue(finish_of(plan), 1, finish_threads, 0, where, false, values);
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

namespace {
exact_outputs_kernels outputs_kernels(dtype type) {
  return with_kernel_type(
      type, []<class T>(std::type_identity<T>) { return exact_outputs_kernels_of<T>(); });
}
// Enough warps for any device; more than these wait.
constexpr index many_warps = 1 << 13, least_chunk = 256, least_of_runs = 2048;
}  // namespace

exact_outputs_plan plan_exact_outputs(std::span<const exact::term> terms,
                                      const output_elements& from, const launch& shape) {
  (void)make_plan({1, 1}, 0, shape);  // refuses a shape that is not allowed
  const exact_outputs_kernels k = outputs_kernels(from.type);
  exact_outputs_plan p{};
  if (!k.whole[0]) return p;
  const auto blocks_for = [&](index items) {
    const auto most = static_cast<index>(shape.blocks ? shape.blocks : 1 << 16),
               warps = static_cast<index>(p.threads / 32);
    return static_cast<int>(std::clamp<index>((items + warps - 1) / warps, 1, most));
  };
  p.threads = shape.threads ? std::min(shape.threads, output_threads) : output_threads;
  std::size_t cells = 0;  // bytes of an output's
  for (const exact::term what : terms)
    cells += static_cast<std::size_t>(k.cells[exact::degree(what) - 1]) * sizeof(std::int64_t);
  const auto add_up = [&](index items) {  // of chunks, in cells
    p.blocks = blocks_for(items);
    p.finish_blocks = blocks_for(from.outputs);
    p.workspace = from.outputs * cells;
  };
  // Unless the cells would be much beside the elements; and so few of these that no cell overflows
  // (docs/exact.md).
  p.columns = k.columns[0] && outputs_are_neighbours(from) && from.reduced.rank == 1 &&
              from.outputs >= 32 && from.n <= index{1} << 28 &&
              from.n * size_of(from.type) >= 4 * cells;
  if (p.columns) {
    const index stripes = (from.outputs + 31) / 32;
    p.chunk =
        std::clamp((from.n * stripes + many_warps - 1) / many_warps, least_chunk, output_chunk);
    p.chunks = (from.n + p.chunk - 1) / p.chunk;
    add_up(stripes * p.chunks);
    return p;
  }
  p.chunk = output_chunk;
  p.chunks = from.offsets ? 1 : std::max<index>(1, (from.n + output_chunk - 1) / output_chunk);
  const bool of_runs = from.in_packs && from.reduced.rank > 1 &&
                       from.n >= least_of_runs;  // what takes chunks finds these faster
  if (p.chunks > 1 || of_runs) {
    add_up(from.outputs * p.chunks);
    return p;
  }
  const index of_thread = static_cast<index>(k.elements);
  p.team = from.offsets ? 32
                        : static_cast<int>(std::clamp<index>(
                              std::bit_ceil((from.n + of_thread - 1) / of_thread), 1, 32));
  p.rows = static_cast<int>(std::clamp<index>(std::bit_floor(from.outputs / many_warps),
                                              static_cast<index>(32 / p.team), 32));
  p.blocks =
      blocks_for((from.outputs + static_cast<index>(p.rows) - 1) / static_cast<index>(p.rows));
  return p;
}

const char* launch_exact_outputs(const exact_outputs_plan& p, std::span<const exact::term> terms,
                                 const output_elements& from, const output_results& how,
                                 void* workspace, stream where) {
  const exact_outputs_kernels k = outputs_kernels(from.type);
  exact_slots slots{};
  auto* next = static_cast<std::int64_t*>(workspace);
  for (const exact::term what : terms) {
    const int cells = k.cells[exact::degree(what) - 1];
    slots.each[slots.count++] = {what, 0, cells, next};
    if (p.workspace > 0) next += from.outputs * static_cast<index>(cells);
  }
  const bool of_elements = terms.size() == 1 && terms[0] == exact::term::element && k.whole[1];
  const std::size_t warps = static_cast<std::size_t>(p.threads / 32),
                    shared = warps * k.shared(slots.count);
  output_elements data = from;
  output_results results = how;
  cudaError_t err = cudaSuccess;
  if (p.workspace == 0) {
    int team = p.team, rows = p.rows;
    void* values[] = {&data, &slots, &team, &rows, &results};
    err = enqueue(k.whole[of_elements], p.blocks, p.threads, shared, where, false, values);
  } else {
    index chunks = p.chunks, chunk = p.chunk, outputs = from.outputs, n = from.n;
    void* values[] = {&data, &slots, &chunks, &chunk};
    err = cudaMemsetAsync(workspace, 0, p.workspace, where);
    if (err == cudaSuccess)
      err = enqueue(p.columns ? k.columns[of_elements] : k.chunks[of_elements], p.blocks, p.threads,
                    p.columns ? 0 : warps * k.shared(0), where, false, values);
    void* finish_values[] = {&outputs, &n, &slots, &results};
    if (err == cudaSuccess)
      err = enqueue(k.finish, p.finish_blocks, p.threads, shared, where, false, finish_values);
  }
  return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

}  // namespace bitfold::cuda
