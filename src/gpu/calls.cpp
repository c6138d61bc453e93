// The calls of bitfold/cuda.hpp: each checks its arguments, makes one plan, and launches it.
#include <algorithm>
#include <array>
#include <bitfold/contributions.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/error.hpp>
#include <functional>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "devices.hpp"
#include "exact.hpp"
#include "explain.hpp"
#include "launcher.hpp"
#include "request.hpp"

namespace bitfold::cuda {
namespace {

bool is_aligned(const void* x, const void* y) {
  return (reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y)) % 16 == 0;
}

void check_array(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                 std::span<void* const> out) {
  if (out.size() != all.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(all.size()) + " reductions");
  for (const reduction& r : all) {
    detail::check_together(all[0], r);
    detail::check_inputs(r, x, y, n);
    for (const void* data : {x, y})
      if (reinterpret_cast<std::uintptr_t>(data) % size_of(r.in()))
        throw error(errc::usage, "data: not aligned to its element");
  }
  for (const void* p : out)
    if (p == nullptr) throw error(errc::usage, "out: null pointer");
}

const gpu::device_facts& here() { return gpu::facts_of_current_device(); }
// What can be refused without a GPU is refused first.
const gpu::device_facts& here(std::span<const reduction> all, const launch& shape) {
  gpu::check_methods(all);
  check(shape);
  return here();
}

gpu::plan plan_array(std::span<const reduction> all, std::size_t n, bool aligned,
                     const launch& shape) {
  return gpu::plan_of({all, n, aligned}, shape, here(all, shape));
}

void run(const gpu::plan& p, gpu::addresses at, void* workspace, std::size_t workspace_size,
         stream where) {
  check_workspace(workspace, workspace_size, p.workspace);
  at.workspace = workspace;
  gpu::run(p, at, where);
}

}  // namespace

// ---- Arrays -------------------------------------------------------------------------------------

std::size_t workspace_bytes(std::span<const reduction> all, std::size_t n, const launch& shape) {
  return plan_array(all, n, true, shape).workspace;
}
std::size_t workspace_bytes(const reduction& r, std::size_t n, const launch& shape) {
  return workspace_bytes({&r, 1}, n, shape);
}

void reduce(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
            std::span<void* const> out, void* workspace, std::size_t workspace_size, stream where,
            const launch& shape) {
  check_array(all, x, y, n, out);
  run(plan_array(all, n, is_aligned(x, y), shape), {x, y, nullptr, nullptr, out.data()}, workspace,
      workspace_size, where);
}
void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out,
            void* workspace, std::size_t workspace_size, stream where, const launch& shape) {
  reduce({&r, 1}, x, y, n, {&out, 1}, workspace, workspace_size, where, shape);
}
void reduce(const reduction& r, const void* data, std::size_t n, void* out, void* workspace,
            std::size_t workspace_size, stream where, const launch& shape) {
  reduce(r, data, nullptr, n, out, workspace, workspace_size, where, shape);
}

void reduce(const reduction& r, const void* x, const void* y, std::size_t n, void* out,
            stream where, const launch& shape) {
  check_array({&r, 1}, x, y, n, {&out, 1});
  const gpu::plan p = plan_array({&r, 1}, n, is_aligned(x, y), shape);
  const gpu::driver& d = gpu::the_driver();
  gpu::address workspace = 0;
  if (p.workspace > 0) {
    (void)gpu::current_device();
    gpu::check(d.cuMemAllocAsync(&workspace, p.workspace, where), "cuMemAllocAsync");
  }
  try {
    run(p, {x, y, nullptr, nullptr, &out}, reinterpret_cast<void*>(workspace), p.workspace, where);
  } catch (...) {
    if (workspace) d.cuMemFreeAsync(workspace, where);
    throw;
  }
  if (workspace) gpu::check(d.cuMemFreeAsync(workspace, where), "cuMemFreeAsync");
}
void reduce(const reduction& r, const void* data, std::size_t n, void* out, stream where,
            const launch& shape) {
  reduce(r, data, nullptr, n, out, where, shape);
}

// ---- Several arrays as one ----------------------------------------------------------------------

namespace {
gpu::plan plan_pieces(const reduction& r, std::span<const piece> pieces, bool finish = true) {
  gpu::check_takes_pieces(r);
  std::size_t n = 0;
  for (const piece& p : pieces) {
    detail::check_inputs(r, p.data, nullptr, p.n);
    n += p.n;
  }
  const gpu::problem of{{&r, 1}, n, true};
  gpu::plan made;
  if (n > 0)
    gpu::add_exact_pieces(made, of, pieces, here(), finish);
  else if (finish)
    made = gpu::plan_of(of, {}, here());
  else
    made.steps.emplace_back(gpu::fill{of.result(0), contribution_state_bytes(r)});
  return made;
}
void run_pieces(const reduction& r, std::span<const piece> pieces, bool finish, void* out,
                void* workspace, std::size_t workspace_size, stream where) {
  for (const piece& p : pieces)
    if (reinterpret_cast<std::uintptr_t>(p.data) % size_of(r.in()))
      throw error(errc::usage, "pieces: not aligned to their elements");
  if (out == nullptr) throw error(errc::usage, "out: null pointer");
  run(plan_pieces(r, pieces, finish), {nullptr, nullptr, nullptr, nullptr, &out}, workspace,
      workspace_size, where);
}
}  // namespace

std::size_t pieces_workspace_bytes(const reduction& r, std::span<const piece> pieces) {
  return plan_pieces(r, pieces).workspace;
}

void reduce_pieces(const reduction& r, std::span<const piece> pieces, void* out, void* workspace,
                   std::size_t workspace_size, stream where) {
  run_pieces(r, pieces, true, out, workspace, workspace_size, where);
}
void fold_pieces(const reduction& r, std::span<const piece> pieces, void* state, void* workspace,
                 std::size_t workspace_size, stream where) {
  run_pieces(r, pieces, false, state, workspace, workspace_size, where);
}

// ---- Of each of several arrays a result ---------------------------------------------------------

namespace {
gpu::plan plan_arrays(const reduction& r, std::span<const piece> arrays) {
  for (const piece& a : arrays) {
    detail::check_inputs(r, a.data, nullptr, a.n);
    if (a.n == 0) (void)detail::empty_result(r);
  }
  return gpu::plan_arrays(r, arrays, here({&r, 1}, {}));
}
}  // namespace

std::size_t arrays_workspace_bytes(const reduction& r, std::span<const piece> arrays) {
  return plan_arrays(r, arrays).workspace;
}

void reduce_arrays(const reduction& r, std::span<const piece> arrays, void* out, void* workspace,
                   std::size_t workspace_size, stream where) {
  for (const piece& a : arrays)
    if (reinterpret_cast<std::uintptr_t>(a.data) % size_of(r.in()))
      throw error(errc::usage, "arrays: not aligned to their elements");
  if (!arrays.empty() && out == nullptr) throw error(errc::usage, "out: null pointer");
  const piece* const first = gpu::first_with_elements(arrays);
  run(plan_arrays(r, arrays), {first ? first->data : nullptr, nullptr, nullptr, nullptr, &out},
      workspace, workspace_size, where);
}

// ---- Axes and windows ---------------------------------------------------------------------------

namespace {
void check_aligned(dtype type, const void* x, const void* y) {
  for (const auto& [name, data] : {std::pair{"x", x}, {"y", y}})
    if (reinterpret_cast<std::uintptr_t>(data) % size_of(type))
      throw error(errc::usage, std::string(name) + ".data: not aligned to its elements");
}
}  // namespace

std::size_t workspace_bytes(std::span<const reduction> all, const view& x, const view* y,
                            std::span<const int> axes, const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  return gpu::plan_axes(all, l, shape, here(all, shape)).workspace;
}

void reduce(std::span<const reduction> all, const view& x, const view* y, std::span<const int> axes,
            std::span<void* const> out, void* workspace, std::size_t workspace_size, stream where,
            const launch& shape) {
  const detail::layout l = detail::layout_of(x, y, axes);
  detail::check_batch(detail::strided_batch(l), all, out);
  check_aligned(l.type, l.x, l.y);
  run(gpu::plan_axes(all, l, shape, here(all, shape)), {l.x, l.y, nullptr, nullptr, out.data()},
      workspace, workspace_size, where);
}

std::size_t windows_workspace_bytes(std::span<const reduction> all, const view& x,
                                    std::span<const window> of, const launch& shape) {
  const detail::window_boxes boxes = detail::boxes_of(x, of);
  return gpu::plan_windows(all, boxes, x.data, shape, here(all, shape)).workspace;
}

void reduce_windows(std::span<const reduction> all, const view& x, std::span<const window> of,
                    std::span<void* const> out, void* workspace, std::size_t workspace_size,
                    stream where, const launch& shape) {
  const detail::window_boxes boxes = detail::boxes_of(x, of);
  for (const auto& b : boxes.boxes)
    detail::check_batch(detail::strided_batch(detail::layout_of(b.x, nullptr, boxes.reduced)), all,
                        out, b.first);
  check_aligned(x.type, x.data, nullptr);
  run(gpu::plan_windows(all, boxes, x.data, shape, here(all, shape)),
      {x.data, nullptr, nullptr, nullptr, out.data()}, workspace, workspace_size, where);
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
  check_aligned(one.type, x, y);
}

bool takes_two(std::span<const reduction> all) {
  return !all.empty() && info(all[0].op()).inputs == 2;
}

}  // namespace

std::size_t segments_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                     std::size_t segments, const launch& shape) {
  return gpu::plan_segments(all, takes_two(all), n, segments, shape, here(all, shape)).workspace;
}
void reduce_segments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     const std::int64_t* offsets, std::size_t segments, std::span<void* const> out,
                     void* workspace, std::size_t workspace_size, stream where,
                     const launch& shape) {
  check_lists(all, x, y, n, segments, offsets, "offsets", out);
  run(gpu::plan_segments(all, takes_two(all), n, segments, shape, here(all, shape)),
      {x, y, offsets, nullptr, out.data()}, workspace, workspace_size, where);
}

std::size_t by_key_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                   std::size_t outputs, const launch& shape) {
  return gpu::plan_keys(all, takes_two(all), n, outputs, shape, here(all, shape)).workspace;
}
void reduce_by_key(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                   const std::int64_t* keys, std::size_t outputs, std::span<void* const> out,
                   void* workspace, std::size_t workspace_size, stream where, const launch& shape) {
  check_lists(all, x, y, n, n, keys, "keys", out);
  run(gpu::plan_keys(all, takes_two(all), n, outputs, shape, here(all, shape)),
      {x, y, keys, nullptr, out.data()}, workspace, workspace_size, where);
}

namespace {
std::vector<std::int64_t> on_the_host(const std::int64_t* from, std::size_t n, stream where) {
  (void)gpu::current_device();
  std::vector<std::int64_t> copy(n);
  gpu::copy_to_host(copy.data(), from, n * sizeof(std::int64_t), where);
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

// ---- Arrays that come in parts ------------------------------------------------------------------

struct in_parts::plans {
  std::vector<reduction> all;
  std::size_t n, part, next = 0, workspace = 0;
  launch shape;
  const gpu::device_facts* on = nullptr;

  gpu::plan plan_of(std::size_t first, bool aligned) const {
    gpu::problem p{all, n, aligned};
    p.first = first;
    p.count = std::min(part, n - first);
    p.part = part;
    return gpu::plan_of(p, shape, *on);
  }
  // Elements of which parts have whole numbers.
  std::size_t unit() const {
    std::vector<std::size_t> folds;
    for (std::size_t k = 0; k < all.size(); ++k)
      if (detail::ordering_of(all[k]) == ordering::canonical) folds.push_back(k);
    return std::max<std::size_t>(256, gpu::node_of({all, n, true}, folds, shape, *on->numbers));
  }
};

in_parts::in_parts(std::span<const reduction> all, std::size_t n, std::size_t memory,
                   const launch& shape)
    : of_(std::make_unique<plans>(plans{{all.begin(), all.end()}, n, n, 0, 0, shape})) {
  of_->on = &here(all, shape);
  if (all.empty() || n == 0) return;
  for (const reduction& r : all)
    if (detail::ordering_of(r) == ordering::sorted)
      throw error(errc::usage,
                  std::string(name(r.op())) + ": sorts all elements at once, and so not in parts");
  const auto inputs = static_cast<std::size_t>(info(all[0].op()).inputs),
             size = size_of(all[0].in());
  const auto bytes = [&](std::size_t part) { return inputs * gpu::rounded_up(part * size); };
  plans& p = *of_;
  const std::size_t unit = p.unit();
  for (;;) {
    p.workspace = gpu::rounded_up(p.plan_of(0, true).workspace);
    if (bytes(p.part) + p.workspace <= memory) return;
    // The next smaller part of whole units that fits beside this workspace.
    const std::size_t most =
        memory > p.workspace ? (memory - p.workspace) / inputs / 256 * 256 / size : 0;
    p.part = std::min(most, p.part - 1) / unit * unit;
    if (p.part == 0)
      throw error(errc::usage, "memory: " + std::to_string(memory) +
                                   " bytes are too few for a part of the elements");
  }
}
in_parts::~in_parts() = default;

std::size_t in_parts::elements() const { return of_->part; }
std::size_t in_parts::workspace_bytes() const { return of_->workspace; }

void in_parts::add(const void* x, const void* y, std::span<void* const> out, void* workspace,
                   std::size_t workspace_size, stream where) {
  plans& p = *of_;
  if (p.next == p.n && p.n > 0) throw error(errc::usage, "x: a part after the last");
  const std::size_t count = std::min(p.part, p.n - p.next);
  check_array(p.all, x, y, count, out);
  check_workspace(workspace, workspace_size, p.workspace);
  gpu::run(p.plan_of(p.next, is_aligned(x, y)), {x, y, nullptr, workspace, out.data()}, where);
  p.next += count;
}

// ---- What a call would do -----------------------------------------------------------------------

struct request::asked {
  std::function<gpu::plan(const gpu::device_facts&)> plan_for;
  template <class Plan>
  static request by(Plan plan) {
    return request(std::make_shared<const asked>(asked{std::move(plan)}));
  }
  static std::vector<gpu::kernel> kernels_of(std::span<const request> several,
                                             const gpu::device_facts& on) {
    std::vector<gpu::kernel> all;
    for (const request& r : several)
      for (gpu::kernel& k : gpu::kernels_of(r.of_->plan_for(on))) all.push_back(std::move(k));
    return all;
  }
};

request request::array(std::span<const reduction> all, std::size_t n, bool aligned,
                       const launch& shape) {
  return asked::by([=, some = std::vector(all.begin(), all.end())](const gpu::device_facts& on) {
    return gpu::plan_of({some, n, aligned}, shape, on);
  });
}
request request::axes(std::span<const reduction> all, const view& x, const view* y,
                      std::span<const int> axes, const launch& shape) {
  return asked::by([=, some = std::vector(all.begin(), all.end()),
                    l = detail::layout_of(x, y, axes)](const gpu::device_facts& on) {
    return gpu::plan_axes(some, l, shape, on);
  });
}
request request::windows(std::span<const reduction> all, const view& x, std::span<const window> of,
                         const launch& shape) {
  return asked::by([=, some = std::vector(all.begin(), all.end()), boxes = detail::boxes_of(x, of),
                    data = x.data](const gpu::device_facts& on) {
    return gpu::plan_windows(some, boxes, data, shape, on);
  });
}
request request::segments(std::span<const reduction> all, std::size_t n, std::size_t segments,
                          const launch& shape) {
  return asked::by([=, some = std::vector(all.begin(), all.end())](const gpu::device_facts& on) {
    return gpu::plan_segments(some, takes_two(some), n, segments, shape, on);
  });
}
request request::by_key(std::span<const reduction> all, std::size_t n, std::size_t outputs,
                        const launch& shape) {
  return asked::by([=, some = std::vector(all.begin(), all.end())](const gpu::device_facts& on) {
    return gpu::plan_keys(some, takes_two(some), n, outputs, shape, on);
  });
}

std::size_t request::workspace_bytes() const { return of_->plan_for(here()).workspace; }
std::string request::explain() const {
  const gpu::device_facts on = devices().empty() ? gpu::facts_of({9, 0}) : here();
  return gpu::explain(of_->plan_for(on), on);
}
void request::prepare(std::span<const request> several) {
  gpu::prepare(asked::kernels_of(several, here()), gpu::current_device());
}
std::size_t request::make_ahead(std::span<const request> several, int major, int minor,
                                const std::string& pack) {
  const gpu::capability of{major, minor};
  const std::vector<gpu::kernel> kernels = asked::kernels_of(several, gpu::facts_of(of));
  if (pack.empty()) return gpu::make_ahead(kernels, of, nullptr);
  const auto files = gpu::kernel_files::of_pack(pack);
  return gpu::make_ahead(kernels, of, &files);
}

// ---- Arrays of the host's -----------------------------------------------------------------------

std::vector<scalar> reduce_host(std::span<const reduction> all, const void* x, const void* y,
                                std::size_t n, int device, const launch& shape) {
  if (all.empty()) return {};
  if (device < 0 || static_cast<std::size_t>(device) >= devices().size())
    throw error(errc::no_device, "cuda: no GPU number " + std::to_string(device) + "; " +
                                     std::to_string(devices().size()) + " usable");
  const current_device guard(device);
  const std::size_t bytes = n * size_of(all[0].in()), work = workspace_bytes(all, n, shape);
  const gpu::device_memory first(bytes + 16), second(y ? bytes + 16 : 16), results(8 * all.size()),
      workspace(work + 16);
  gpu::copy_to_device(first.begin(), x, bytes);
  if (y) gpu::copy_to_device(second.begin(), y, bytes);
  std::vector<void*> out;
  for (std::size_t k = 0; k < all.size(); ++k) out.push_back(results.begin() + 8 * k);
  reduce(all, first.begin(), y ? second.begin() : nullptr, n, out, workspace.begin(), work, nullptr,
         shape);
  std::vector<std::byte> made(8 * all.size());
  gpu::copy_to_host(made.data(), results.begin(), made.size());
  std::vector<scalar> scalars;
  for (std::size_t k = 0; k < all.size(); ++k)
    scalars.push_back(load_scalar(all[k].out(), &made[8 * k]));
  return scalars;
}

scalar reduce_host(const reduction& r, const void* x, const void* y, std::size_t n, int device,
                   const launch& shape) {
  return reduce_host({&r, 1}, x, y, n, device, shape)[0];
}
scalar reduce_host(const reduction& r, const void* data, std::size_t n, int device,
                   const launch& shape) {
  return reduce_host(r, data, nullptr, n, device, shape);
}

}  // namespace bitfold::cuda
