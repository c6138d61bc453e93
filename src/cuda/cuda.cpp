#include <bitfold/cuda.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <set>

#include <cuda_runtime_api.h>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "exact.hpp"
#include "groups.hpp"
#include "kernels.hpp"
#include "room.hpp"

namespace bitfold::cuda {
namespace {

void check_arguments(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
                     std::span<void* const> out) {
  if (out.size() != all.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(all.size()) + " reductions");
  check_engine(all);
  for (const reduction& r : all) {
    detail::check_inputs(r, x, y, n);
    if (r.in() != all[0].in())
      throw error(errc::usage, "reductions: of " + std::string(name(all[0].in())) + " and of " +
                                   std::string(name(r.in())) + " in one pass");
    for (const void* data : {x, y})
      if (reinterpret_cast<std::uintptr_t>(data) % size_of(r.in()))
        throw error(errc::usage, "data: not aligned to its element");
  }
  for (const void* p : out)
    if (p == nullptr) throw error(errc::usage, "out: null pointer");
}

// Two reductions with the same shared kernel have the same key; null if there is none.
template <class F, class T, class A>
constexpr char key = 0;
const char* key_of(kernel_kind kind, const reduction& r) {
  // Exact ones share whatever terms they have.
  if (detail::is_exact(r)) return kind == kernel_kind::shared ? &key<void, void, void> : nullptr;
  if (is_set(kind))
    return with_set<const char*>(kind, r, []<class Set>(int) { return &key<Set, void, void>; });
  return with_kernel<const char*>(kind, r,
                                  []<class F, class T, class A>() { return &key<F, T, A>; });
}

// What a kernel for any set is to do with r besides, but for where the result goes: false where
// that has no room, in arrays of n elements.
bool add_member(kernel_kind kind, const reduction& r, std::size_t n, member_results& to) {
  struct found {
    std::size_t at, bytes;
    index tile;
  };
  const found f = with_set<found>(kind, r, []<class Set>(int at) {
    const auto i = static_cast<std::size_t>(at);
    return found{i, Set::list::bytes[i], Set::tile};
  });
  const bool known = to.wanted >> f.at & 1;
  const sizes of{to.of.state + (known ? 0 : (f.bytes + 7) / 8 * 8), f.tile,
                 std::max(to.of.largest, f.bytes), std::popcount(to.wanted) + !known,
                 only_by_tiles};
  if (to.count == most_member_results || of.state > most_record || n > most_elements(of))
    return false;
  if (!known) to.at[f.at] = static_cast<std::int16_t>(to.of.state);
  to.wanted |= std::uint64_t{1} << f.at;
  to.of = of;
  to.member[to.count++] = static_cast<std::int16_t>(f.at);
  return true;
}

}  // namespace

void check(cudaError_t err, const char* call) {
  if (err != cudaSuccess)
    throw error(errc::cuda, std::string(call) + ": " + cudaGetErrorString(err));
}

void check_launch(const char* err) {
  if (err) throw error(errc::cuda, std::string("launch: ") + err);
}

std::vector<exact::term> terms_of(std::span<const reduction> all,
                                  std::span<const std::size_t> which) {
  std::vector<exact::term> terms;
  for (const std::size_t k : which)
    for (const exact::term what : detail::terms_of(all[k]))
      if (std::find(terms.begin(), terms.end(), what) == terms.end()) terms.push_back(what);
  return terms;
}

void check_compiled(const reduction& r, bool there) {
  if (!there)
    throw error(errc::usage, "cuda: this build has no kernel for " + std::string(name(r.op())) +
                                 " of " + std::string(name(r.in())) +
                                 "; build it with BITFOLD_CUDA_KERNELS=all");
}

void check_engine(std::span<const reduction> all) {
  for (const reduction& r : all)
    if (r.method() && !info(*r.method()).on_gpu())
      throw error(errc::usage,
                  "method: " + std::string(name(*r.method())) + " runs on the CPU only");
  if (devices().empty()) throw error(errc::no_device, "cuda: no usable GPU on this machine");
}

namespace {

// Puts number k to others that one kernel does, if there is room.
bool add_to(group& g, std::span<const reduction> all, std::size_t k, std::size_t n) {
  if (g.members ? !add_member(g.kind, all[k], n, *g.members) : g.which.size() == most_results)
    return false;
  g.which.push_back(k);
  return true;
}

// The kernel of the most bases of some, which saves the most passes; the smallest of these, if it
// has room for all results.
kernel_kind company_of_most(std::span<const reduction> all, const std::vector<std::size_t>& some,
                            bool sets) {
  kernel_kind company = kernel_kind::shared;
  std::size_t most = 1;
  for (const kernel_kind kind : companies) {
    if (is_set(kind) && !sets) continue;
    std::set<const char*> bases;
    std::size_t results = 0;
    for (const std::size_t k : some)
      if (key_of(kind, all[k])) bases.insert(key_of(kernel_kind::shared, all[k])), ++results;
    if (sets && !is_set(kind) && results > most_results) continue;
    const bool alone_are_many =
        is_set(kind) && company == kernel_kind::shared && results > most_results;
    if (bases.size() > most || alone_are_many) company = kind, most = std::max(most, bases.size());
  }
  return company;
}

std::vector<group> groups_by(std::span<const reduction> all, std::size_t n, bool sets) {
  std::vector<group> found;
  if (all.size() == 1) {
    found.push_back({kernel_kind::own, {0}, nullptr});
    return found;
  }
  std::vector<std::size_t> left(all.size());
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    const kernel_kind kind = company_of_most(all, left, sets);
    const std::size_t before = found.size();
    std::vector<std::size_t> others;
    for (const std::size_t k : left) {
      const char* const key = key_of(kind, all[k]);
      if (!key && kind != kernel_kind::shared) {
        others.push_back(k);
        continue;
      }
      const auto same = std::find_if(
          found.begin() + static_cast<std::ptrdiff_t>(before), found.end(), [&](group& g) {
            return key && key_of(kind, all[g.which[0]]) == key && add_to(g, all, k, n);
          });
      if (same != found.end()) continue;
      group g{kind, {}, is_set(kind) ? std::make_unique<member_results>() : nullptr};
      if (!add_to(g, all, k, n))
        g = {kernel_kind::own, {k}, nullptr};  // more elements than a set has room for
      found.push_back(std::move(g));
    }
    left = std::move(others);
  }
  for (group& g : found)
    if (g.which.size() == 1) g = {kernel_kind::own, std::move(g.which), nullptr};
  return found;
}

}  // namespace

std::vector<group> groups_of_outputs(std::span<const reduction> all) {
  return groups_by(all, 0, false);
}
std::vector<group> groups_of(std::span<const reduction> all, std::size_t n) {
  return groups_by(all, n, true);
}

namespace {

// What a plan of a kernel depends on.
sizes sizes_of(kernel_kind kind, const reduction& r) {
  const auto of = with_kernel<sizes>(kind, r, []<class F, class T, class A>() {
    using choice = kernel_choice<F, T, A>;
    return sizes{
        .state = sizeof(fold::partial<F, A>), .tile = choice::tile, .by_tiles = choice::by_tiles};
  });
  check_compiled(r, of.state > 0);
  return of;
}

// One after the other, in the same workspace: from the same list that the workspace is sized by.
struct step {
  kernel_kind kind;
  ordering order;
  std::vector<std::size_t> which;
  plan ordered;
  exact_plan binned;
  std::unique_ptr<member_results> members;  // of a kernel for any set, but for where the results go

  std::size_t workspace() const {
    return order == ordering::independent ? binned.workspace : ordered.workspace;
  }
};

// `part`: elements that are there at a time.
std::vector<step> steps_of(std::span<const reduction> all, std::size_t n, std::size_t part,
                           const launch& shape) {
  std::vector<step> steps;
  for (group& g : groups_of(all, n)) {
    const reduction& r = all[g.which[0]];
    step s{g.kind, detail::ordering_of(r), std::move(g.which), {}, {}, std::move(g.members)};
    if (s.order == ordering::canonical) {
      s.ordered = make_plan(s.members ? s.members->of : sizes_of(s.kind, r), n, shape);
    } else if (s.order == ordering::independent) {
      s.binned = plan_exact(terms_of(all, s.which), r.in(), n, part, shape);
    } else {
      s.ordered = make_plan({1, 1}, 0, shape);  // of a sort the workspace alone
      s.ordered.workspace = sort_workspace(r.in(), n);
    }
    steps.push_back(std::move(s));
  }
  return steps;
}

std::size_t workspace_of(const std::vector<step>& steps) {
  std::size_t most = 0;
  for (const step& s : steps) most = std::max(most, s.workspace());
  return most;
}

// Enqueues what a step does with elements first to first + count - 1 of n, which lie at x and y.
void run(const step& s, std::span<const reduction> all, const void* x, const void* y, std::size_t n,
         std::size_t first, std::size_t count, std::span<void* const> out, void* workspace,
         stream where, const launch& shape) {
  const reduction& r = all[s.which[0]];
  const auto aligned = [](const void* q) { return reinterpret_cast<std::uintptr_t>(q) % 16 == 0; };
  const bool two_kernels = s.order == ordering::independent ? !s.binned.alone : s.ordered.nodes > 1;
  arguments a{{x, y, r.in(), aligned(x) && aligned(y)},  n, first, count, {}, workspace, where,
              shape.overlap && two_kernels && overlaps()};
  member_results members;
  if (s.members) a.members = &(members = *s.members);
  result* to = s.members ? members.each : a.how.each;
  for (const std::size_t k : s.which) *to++ = {out[k], all[k].out(), all[k].op(), all[k].ddof()};
  if (!s.members) a.how.count = static_cast<int>(s.which.size());
  const auto launch_ordered = [&] {
    plan p = s.ordered;
    p.begin = first / p.node;
    p.end = std::min(p.nodes, (first + count + p.node - 1) / p.node);
    p.blocks = static_cast<int>(std::min<index>(static_cast<index>(p.blocks), p.end - p.begin));
    using launcher = const char* (*)(kernel_kind, const reduction&, const plan&, const arguments&);
    const launcher launch =
        s.members ? with_set<launcher>(
                        s.kind, r, []<class Set>(int) -> launcher { return launch_part<Set::in>; })
                  : with_kernel<launcher>(s.kind, r, []<class F, class T, class A>() -> launcher {
                      return launch_part<kernel_choice<F, T, A>::in>;
                    });
    return launch(s.kind, r, p, a);
  };
  check_launch(s.order == ordering::independent ? launch_exact(s.binned, a)
               : s.order == ordering::sorted    ? launch_distinct(a)
                                                : launch_ordered());
}
void run(const std::vector<step>& steps, std::span<const reduction> all, const void* x,
         const void* y, std::size_t n, std::span<void* const> out, void* workspace, stream where,
         const launch& shape) {
  for (const step& s : steps) run(s, all, x, y, n, 0, n, out, workspace, where, shape);
}

// From the host's copy, which the call has taken before it returns. All of them, or an error and
// none.
void write_empty(std::span<const reduction> all, std::span<void* const> out, stream where) {
  std::vector<scalar> results;
  for (const reduction& r : all) results.push_back(detail::empty_result(r));
  for (std::size_t k = 0; k < all.size(); ++k) {
    std::byte bytes[8];
    store_scalar(results[k], bytes);
    for (std::size_t i = 0; i < size_of(results[k].type); ++i)
      check(cudaMemsetAsync(static_cast<std::byte*>(out[k]) + i, static_cast<int>(bytes[i]), 1,
                            where),
            "cudaMemsetAsync");
  }
}

}  // namespace

bool overlaps() {
  int device = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "cudaDeviceGetAttribute");
  return major >= 9;
}

bool built() { return true; }

std::vector<std::string> devices() {
  // Never destroyed: a static's destructor may ask.
  static const auto& found = *new const std::vector<std::string>([] {
    std::vector<std::string> out;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      cudaGetLastError();  // no driver or no GPU: not an error of the caller's
      return out;
    }
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp p;
      if (cudaGetDeviceProperties(&p, i) == cudaSuccess) out.emplace_back(p.name);
    }
    return out;
  }());
  return found;
}

current_device::current_device(int ordinal) : now_(ordinal) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (now_ != before_) check(cudaSetDevice(now_), "cudaSetDevice");
}
current_device::~current_device() {
  if (now_ != before_) cudaSetDevice(before_);
}

void synchronize(stream where) { check(cudaStreamSynchronize(where), "cudaStreamSynchronize"); }

std::size_t workspace_bytes(std::span<const reduction> all, std::size_t n, const launch& shape) {
  return workspace_of(steps_of(all, n, n, shape));
}
std::size_t workspace_bytes(const reduction& r, std::size_t n, const launch& shape) {
  return workspace_bytes({&r, 1}, n, shape);
}

void reduce(std::span<const reduction> all, const void* x, const void* y, std::size_t n,
            std::span<void* const> out, void* workspace, std::size_t workspace_size, stream where,
            const launch& shape) {
  check_arguments(all, x, y, n, out);
  const std::vector<step> steps = steps_of(all, n, n, shape);
  if (n == 0) return write_empty(all, out, where);
  check_workspace(workspace, workspace_size, workspace_of(steps));
  run(steps, all, x, y, n, out, workspace, where, shape);
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
  check_arguments({&r, 1}, x, y, n, {&out, 1});
  const std::vector<step> steps = steps_of({&r, 1}, n, n, shape);
  if (n == 0) return write_empty({&r, 1}, {&out, 1}, where);
  void* workspace = nullptr;
  if (const std::size_t bytes = workspace_of(steps); bytes > 0)
    check(cudaMallocAsync(&workspace, bytes, where), "cudaMallocAsync");
  try {
    run(steps, {&r, 1}, x, y, n, {&out, 1}, workspace, where, shape);
  } catch (...) {
    if (workspace) cudaFreeAsync(workspace, where);
    throw;
  }
  if (workspace) check(cudaFreeAsync(workspace, where), "cudaFreeAsync");
}
void reduce(const reduction& r, const void* data, std::size_t n, void* out, stream where,
            const launch& shape) {
  reduce(r, data, nullptr, n, out, where, shape);
}

namespace {
exact_pieces_plan checked_plan(const reduction& r, std::span<const piece> pieces) {
  if (!detail::is_exact(r) || info(r.op()).inputs != 1 || !is_float(r.in()))
    throw error(errc::usage,
                "reduction: of several arrays only by method exact, of floats and one input");
  for (const piece& p : pieces) detail::check_inputs(r, p.data, nullptr, p.n);
  return plan_exact_pieces(r, pieces);
}
}  // namespace

std::size_t pieces_workspace_bytes(const reduction& r, std::span<const piece> pieces) {
  return checked_plan(r, pieces).workspace;
}

void reduce_pieces(const reduction& r, std::span<const piece> pieces, void* out, void* workspace,
                   std::size_t workspace_size, stream where) {
  check_engine({&r, 1});
  for (const piece& p : pieces)
    if (reinterpret_cast<std::uintptr_t>(p.data) % size_of(r.in()))
      throw error(errc::usage, "pieces: not aligned to their elements");
  if (out == nullptr) throw error(errc::usage, "out: null pointer");
  const exact_pieces_plan plan = checked_plan(r, pieces);
  if (plan.n == 0) return write_empty({&r, 1}, {&out, 1}, where);
  check_workspace(workspace, workspace_size, plan.workspace);
  check_launch(launch_exact_pieces(plan, r, out, workspace, where));
}

// ---- Arrays that come in parts

struct in_parts::plans {
  std::vector<reduction> all;
  std::size_t n, part, next = 0;
  launch shape;
  std::vector<step> steps;

  // Each step's states are kept from part to part, in a place of its own.
  std::size_t workspace() const {
    std::size_t bytes = 0;
    for (const step& s : steps) bytes += rounded_up(s.workspace());
    return bytes;
  }
};

in_parts::in_parts(std::span<const reduction> all, std::size_t n, std::size_t memory,
                   const launch& shape)
    : of_(std::make_unique<plans>(plans{{all.begin(), all.end()}, n, n, 0, shape, {}})) {
  if (all.empty() || n == 0) return;
  check_engine(all);
  for (const reduction& r : all)
    if (detail::ordering_of(r) == ordering::sorted)
      throw error(errc::usage,
                  std::string(name(r.op())) + ": sorts all elements at once, and so not in parts");
  const auto inputs = static_cast<std::size_t>(info(all[0].op()).inputs),
             size = size_of(all[0].in());
  const auto bytes = [&](std::size_t part) { return inputs * rounded_up(part * size); };
  for (plans& p = *of_;;) {
    p.steps = steps_of(all, n, p.part, shape);
    const std::size_t work = p.workspace();
    if (bytes(p.part) + work <= memory) return;
    // The next smaller part of whole nodes, and of whole packs, that fits beside this workspace.
    index node = 256;
    for (const step& s : p.steps)
      if (s.order == ordering::canonical) node = std::max(node, s.ordered.node);
    const std::size_t most = memory > work ? (memory - work) / inputs / 256 * 256 / size : 0;
    p.part = std::min(most, p.part - 1) / node * node;
    if (p.part == 0)
      throw error(errc::usage, "memory: " + std::to_string(memory) +
                                   " bytes are too few for a part of the elements");
  }
}
in_parts::~in_parts() = default;

std::size_t in_parts::elements() const { return of_->part; }
std::size_t in_parts::workspace_bytes() const { return of_->workspace(); }

void in_parts::add(const void* x, const void* y, std::span<void* const> out, void* workspace,
                   std::size_t workspace_size, stream where) {
  plans& p = *of_;
  const std::size_t first = p.next, count = std::min(p.part, p.n - first);
  if (first == p.n && p.n > 0) throw error(errc::usage, "x: a part after the last");
  check_arguments(p.all, x, y, count, out);
  check_workspace(workspace, workspace_size, p.workspace());
  if (p.n == 0) return write_empty(p.all, out, where);
  auto* room = static_cast<std::byte*>(workspace);
  for (const step& s : p.steps) {
    run(s, p.all, x, y, p.n, first, count, out, room, where, p.shape);
    room += rounded_up(s.workspace());
  }
  p.next += count;
}

std::vector<scalar> reduce_host(std::span<const reduction> all, const void* x, const void* y,
                                std::size_t n, int device, const launch& shape) {
  if (all.empty()) return {};
  if (device < 0 || static_cast<std::size_t>(device) >= devices().size())
    throw error(errc::no_device, "cuda: no GPU number " + std::to_string(device) + "; " +
                                     std::to_string(devices().size()) + " usable");
  // Frees on every way out.
  struct memory {
    void* p = nullptr;
    explicit memory(std::size_t bytes) {
      const cudaError_t err = cudaMalloc(&p, bytes);
      if (err != cudaSuccess) cudaGetLastError();  // not sticky: leave nothing for the next call
      check(err, "cudaMalloc");
    }
    ~memory() { cudaFree(p); }
  };
  const current_device guard(device);
  const std::size_t bytes = n * size_of(all[0].in()), work = workspace_bytes(all, n, shape);
  const memory first(bytes + 16), second(y ? bytes + 16 : 16), out(8 * all.size()),
      workspace(work + 16);
  check(cudaMemcpy(first.p, x, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  if (y) check(cudaMemcpy(second.p, y, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  std::vector<void*> where;
  for (std::size_t k = 0; k < all.size(); ++k)
    where.push_back(static_cast<std::byte*>(out.p) + 8 * k);
  reduce(all, first.p, y ? second.p : nullptr, n, where, workspace.p, work, nullptr, shape);
  std::vector<std::byte> results(8 * all.size());
  check(cudaMemcpy(results.data(), out.p, results.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::vector<scalar> scalars;
  for (std::size_t k = 0; k < all.size(); ++k)
    scalars.push_back(load_scalar(all[k].out(), &results[8 * k]));
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
