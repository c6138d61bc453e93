// Many outputs on a GPU: their plan, and the calls of cuda.hpp that take views, segments and keys.
#include "views.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include <cuda_runtime_api.h>

#include "../binned.hpp"
#include "exact.hpp"
#include "groups.hpp"
#include "room.hpp"

namespace bitfold::cuda {
namespace {

// What is done one after the other, in the same workspace.
struct output_step {
  kernel_kind kind;
  ordering order;
  std::vector<std::size_t> which;
  output_plan plan;                // of kernels of states,
  std::vector<exact::term> terms;  // or what is summed exactly, and how
  exact_outputs_plan exact;
  std::size_t workspace;
};

// Room for the elements of one output, and whatever follows.
std::size_t gathered_bytes(const output_elements& from) {
  return rounded_up(from.n * size_of(from.type));
}

// A sort of each output, one after the other.
const char* launch_distinct_of_each(const output_elements& from, std::byte* out, void* workspace,
                                    stream where) {
  const char* err = nullptr;
  if (from.n == 0) {
    const cudaError_t none = cudaMemsetAsync(out, 0, 8 * from.outputs, where);
    return none == cudaSuccess ? nullptr : cudaGetErrorString(none);
  }
  for (index o = 0; o < from.outputs && !err; ++o) {
    err = launch_gather(from, o, workspace, where);
    arguments a{{workspace, nullptr, from.type, true},
                from.n,
                0,
                from.n,
                {},
                static_cast<std::byte*>(workspace) + gathered_bytes(from),
                where,
                false};
    a.how.each[a.how.count++] = {out + 8 * o, dtype::i64, op_id::count_distinct, 0};
    if (!err) err = launch_distinct(a);
  }
  return err;
}

std::vector<output_step> steps_of(std::span<const reduction> all, const output_elements& from,
                                  const launch& shape) {
  std::vector<output_step> steps;
  for (group& g : groups_of_outputs(all)) {
    const reduction& r = all[g.which[0]];
    output_step step{g.kind == kernel_kind::own ? kernel_kind::shared : g.kind,
                     detail::ordering_of(r),
                     std::move(g.which),
                     {},
                     {},
                     {},
                     0};
    if (step.order == ordering::independent) {
      step.terms = terms_of(all, step.which);
      step.exact = plan_exact_outputs(step.terms, from, shape);
      check_compiled(r, step.exact.blocks > 0);
      step.workspace = step.exact.workspace;
    } else if (step.order == ordering::sorted) {
      if (from.offsets && from.outputs >= (index{1} << 32) - 1)
        throw error(errc::usage, "segments: 2^32 or more, of which count_distinct is asked for");
      step.workspace = from.offsets
                           ? sort_workspace_of_segments(from.type, from.total, from.outputs)
                           : gathered_bytes(from) + sort_workspace(from.type, from.n);
    } else {
      const auto [of, in_packs] =
          with_kernel<std::pair<sizes, bool>>(step.kind, r, []<class F, class T, class A>() {
            constexpr bool stored = output_kernel_choice<F, T, A>::stored;
            return std::pair(
                sizes{sizeof(fold::partial<F, A>), stored ? tile_bytes / sizeof(T) : widened_tile},
                stored);
          });
      check_compiled(r, of.state > 0);
      step.plan = plan_outputs(of, in_packs, from, shape);
      step.workspace = step.plan.workspace;
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

std::size_t workspace_of(const std::vector<output_step>& steps) {
  std::size_t most = 0;
  for (const output_step& s : steps) most = std::max(most, s.workspace);
  return most;
}

void run(const std::vector<output_step>& steps, std::span<const reduction> all,
         const output_elements& from, std::span<void* const> out, void* workspace, stream where) {
  using launcher = const char* (*)(kernel_kind, const reduction&, const output_plan&,
                                   const output_elements&, const output_results&, void*, stream);
  for (const output_step& s : steps) {
    output_results how{};
    for (const std::size_t k : s.which) {
      const reduction& r = all[k];
      how.bytes[how.list.count] = static_cast<int>(size_of(r.out()));
      // Of what has none for no elements, the host has made sure that there are some, or was told
      // that there are.
      how.empty[how.list.count] =
          info(r.op()).empty == if_empty::refused ? 0 : detail::empty_result(r).bits;
      how.list.each[how.list.count++] = {out[k], r.out(), r.op(), r.ddof()};
    }
    const reduction& r = all[s.which[0]];
    const auto launched = [&] {
      if (s.order == ordering::independent)
        return launch_exact_outputs(s.exact, s.terms, from, how, workspace, where);
      if (s.order == ordering::sorted && from.offsets)
        return launch_distinct_of_segments(from, static_cast<std::int64_t*>(out[s.which[0]]),
                                           workspace, where);
      if (s.order == ordering::sorted)
        return launch_distinct_of_each(from, static_cast<std::byte*>(out[s.which[0]]), workspace,
                                       where);
      return with_kernel<launcher>(s.kind, r, []<class F, class T, class A>() -> launcher {
        return launch_outputs<output_kernel_choice<F, T, A>::in>;
      })(s.kind, r, s.plan, from, how, workspace, where);
    };
    check_launch(launched());
  }
}

}  // namespace

// ---- Axes ---------------------------------------------------------------------------------------

namespace {
void check_aligned(dtype type, const void* x, const void* y) {
  for (const auto& [name, data] : {std::pair{"x", x}, {"y", y}})
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(type))
      throw error(errc::usage, std::string(name) + ".data: not aligned to its elements");
}

// One output whose elements lie one behind the other is an array, for which there are kernels.
bool is_array(const detail::layout& l) {
  return l.outputs == 1 && l.n > 0 && l.reduced.rank == 1 && l.contiguous();
}
}  // namespace

std::size_t workspace_bytes(std::span<const reduction> all, const view& x, const view* y,
                            std::span<const int> axes, const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  return is_array(l) ? workspace_bytes(all, l.n, shape)
                     : workspace_of(steps_of(all, elements_of(l), shape));
}

void reduce(std::span<const reduction> all, const view& x, const view* y, std::span<const int> axes,
            std::span<void* const> out, void* workspace, std::size_t workspace_size, stream where,
            const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  detail::check_batch(detail::strided_batch(l), all, out);
  check_engine(all);
  check_aligned(l.type, l.x, l.y);
  if (is_array(l)) return reduce(all, l.x, l.y, l.n, out, workspace, workspace_size, where, shape);
  const output_elements from = elements_of(l);
  const auto steps = steps_of(all, from, shape);
  check_workspace(workspace, workspace_size, workspace_of(steps));
  if (l.outputs > 0) run(steps, all, from, out, workspace, where);
}

// ---- Windows ------------------------------------------------------------------------------------

namespace {

// Where a box leaves its results, one behind the other, before they are moved to their places: the
// first takes it all.
struct room_of_results {
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
};
room_of_results room_for(std::span<const reduction> all, const detail::window_boxes& boxes,
                         const detail::window_box& b) {
  room_of_results room;
  for (const reduction& r : all) {
    room.at.push_back(room.bytes);
    if (boxes.boxes.size() > 1) room.bytes += rounded_up(b.results.size() * size_of(r.out()));
  }
  return room;
}

std::size_t workspace_of(std::span<const reduction> all, const detail::window_boxes& boxes,
                         const launch& shape) {
  std::size_t most = 0;
  for (const auto& b : boxes.boxes)
    most = std::max(most, room_for(all, boxes, b).bytes +
                              workspace_bytes(all, b.x, nullptr, boxes.reduced, shape));
  return most;
}

}  // namespace

std::size_t windows_workspace_bytes(std::span<const reduction> all, const view& x,
                                    std::span<const window> of, const launch& shape) {
  return workspace_of(all, detail::boxes_of(x, of), shape);
}

void reduce_windows(std::span<const reduction> all, const view& x, std::span<const window> of,
                    std::span<void* const> out, void* workspace, std::size_t workspace_size,
                    stream where, const launch& shape) {
  const detail::window_boxes boxes = detail::boxes_of(x, of);
  for (const auto& b : boxes.boxes)
    detail::check_batch(detail::strided_batch(detail::layout_of(b.x, nullptr, boxes.reduced)), all,
                        out, b.first);
  if (boxes.boxes.size() == 1)
    return reduce(all, boxes.boxes[0].x, nullptr, boxes.reduced, out, workspace, workspace_size,
                  where, shape);
  check_engine(all);
  check_aligned(x.type, x.data, nullptr);
  check_workspace(workspace, workspace_size, workspace_of(all, boxes, shape));
  for (const auto& b : boxes.boxes) {
    const room_of_results room = room_for(all, boxes, b);
    auto* const results = static_cast<std::byte*>(workspace);
    std::vector<void*> to;
    for (const std::size_t at : room.at) to.push_back(results + at);
    reduce(all, b.x, nullptr, boxes.reduced, to, results + room.bytes, workspace_size - room.bytes,
           where, shape);
    for (std::size_t k = 0; k < all.size(); ++k)
      check_launch(launch_scatter(to[k], all[k].out(), b.results, divisors_of(b.results), b.first,
                                  out[k], where));
  }
}

// ---- Segments and keys --------------------------------------------------------------------------

namespace {

// A list without entries may be anywhere.
void check_lists(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                 std::size_t entries, const std::int64_t* list, const char* name,
                 std::span<void* const> out) {
  // As of one output: what depends on the lengths is not known here.
  const view one =
      row_major(all.empty() ? dtype::f32 : all[0].in(), x, {static_cast<std::int64_t>(n)});
  view other = one;
  other.data = y;
  detail::check_batch(
      detail::strided_batch(detail::layout_of(one, y ? &other : nullptr, std::array{0})),
      n > 0 ? all : all.first(0), n > 0 ? out : out.first(0));
  if (entries > 0 &&
      (list == nullptr || reinterpret_cast<std::uintptr_t>(list) % alignof(std::int64_t)))
    throw error(errc::usage, std::string(name) + ": null or not aligned");
  check_engine(all);
  check_aligned(one.type, x, y);
}

// Any address that is not null: the plan asks whether there are segments, not where.
constexpr std::int64_t somewhere = 0;

// Where the elements are is not known yet.
std::vector<output_step> steps_of_lists(std::span<const reduction> all, output_elements from,
                                        const launch& shape) {
  from.offsets = &somewhere;
  return steps_of(all, from, shape);
}

}  // namespace

std::size_t segments_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                     std::size_t segments, const launch& shape) {
  return workspace_of(steps_of_lists(all, elements_of(all, nullptr, nullptr, n, segments), shape));
}
void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     const std::int64_t* offsets, std::size_t segments, std::span<void* const> out,
                     void* workspace, std::size_t workspace_size, stream where,
                     const launch& shape) {
  check_lists(all, x, y, n, segments, offsets, "offsets", out);
  output_elements from = elements_of(all, x, y, n, segments);
  const auto steps = steps_of_lists(all, from, shape);
  check_workspace(workspace, workspace_size, workspace_of(steps));
  from.offsets = offsets;
  if (segments > 0) run(steps, all, from, out, workspace, where);
}

std::size_t by_key_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                   std::size_t outputs, const launch& shape) {
  if (all.empty()) return 0;
  return keys_workspace(all[0].in(), info(all[0].op()).inputs == 2, n, outputs) +
         workspace_of(steps_of_lists(all, elements_of(all, nullptr, nullptr, n, outputs), shape));
}
void reduce_by_key(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                   const std::int64_t* keys, std::size_t outputs, std::span<void* const> out,
                   void* workspace, std::size_t workspace_size, stream where, const launch& shape) {
  check_lists(all, x, y, n, n, keys, "keys", out);
  if (n >= std::size_t{1} << 32 || outputs >= (std::size_t{1} << 32) - 1)
    throw error(errc::usage, "n: 2^32 elements or outputs, or more");
  if (all.empty()) return;
  output_elements from = elements_of(all, x, y, n, outputs);
  const auto steps = steps_of_lists(all, from, shape);
  const std::size_t for_keys = keys_workspace(from.type, y != nullptr, n, outputs);
  check_workspace(workspace, workspace_size, for_keys + workspace_of(steps));
  if (outputs == 0) return;
  check_launch(launch_keys(keys, n, outputs, workspace, where, from));
  run(steps, all, from, out, static_cast<std::byte*>(workspace) + for_keys, where);
}

namespace {
std::vector<std::int64_t> on_the_host(const std::int64_t* from, std::size_t n, stream where) {
  std::vector<std::int64_t> copy(n);
  check(cudaMemcpyAsync(copy.data(), from, n * sizeof(std::int64_t), cudaMemcpyDeviceToHost, where),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(where), "cudaStreamSynchronize");
  return copy;
}
}  // namespace

void check_offsets(const std::int64_t* offsets, std::size_t segments, std::size_t n, stream where) {
  (void)detail::segments_of(dtype::f32, {nullptr, nullptr}, n,
                            on_the_host(offsets, segments + 1, where));
}
void check_keys(const std::int64_t* keys, std::size_t n, std::size_t outputs, stream where) {
  detail::check_keys(on_the_host(keys, n, where), outputs);
}

}  // namespace bitfold::cuda
