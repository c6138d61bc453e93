// Folds over contributions by kernels on demand: the bits of the CPU's.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <bitfold/contributions.hpp>

#include "array_on_gpu.hpp"
#include "catch.hpp"
#include "data.hpp"
#include "gpu_kernels.hpp"

#include "gpu/contributions.hpp"
#include "gpu/exact.hpp"

using namespace bitfold;
using test::array_on_gpu;

namespace {

using bytes = std::vector<std::byte>;

std::string title(const reduction& r) {
  return std::string(name(r.op())) + " " + std::string(name(r.method())) + " of " +
         std::string(name(r.in())) + " to " + std::string(name(r.out()));
}

struct contributions {
  std::vector<bytes> all;
  std::vector<std::unique_ptr<array_on_gpu>> there;
  std::size_t n;

  contributions(dtype type, std::size_t m, std::size_t n_, std::size_t off = 0) : n(n_) {
    for (std::size_t k = 0; k < m; ++k)
      add(test::make_data(type, k % 3 ? test::kind::near_one : test::kind::special, n, k), type,
          off);
  }
  void add(const bytes& one, dtype type, std::size_t off = 0) {
    all.push_back(one);
    there.push_back(std::make_unique<array_on_gpu>(one, type, off));
  }
  // One each of contributions `first` to `last` - 1.
  std::vector<contribution_node> nodes(std::size_t first, std::size_t last, bool on_gpu) const {
    std::vector<contribution_node> list;
    for (std::size_t k = first; k < last; ++k)
      list.push_back({k, 1, on_gpu ? there[k]->at() : all[k].data(), true});
    return list;
  }
};

// The results, or the states, of nodes that lie on the GPU.
bytes done(const reduction& r, const std::vector<contribution_node>& nodes, std::size_t n,
           bool finish, std::size_t off = 0) {
  const std::size_t size = finish ? size_of(r.out()) : contribution_state_bytes(r),
                    room = cuda::contributions_workspace_bytes(r, nodes, n);
  const array_on_gpu out(bytes(n * size), finish ? r.out() : dtype::f64, finish ? off : 0),
      workspace(bytes(room), dtype::f64);
  (finish ? cuda::reduce_contributions : cuda::fold_contributions)(r, nodes, n, out.at(),
                                                                   workspace.at(), room, nullptr);
  test::wait_for();
  return out.contents();
}

void check(const reduction& r, const contributions& of, std::size_t off = 0) {
  const std::size_t m = of.all.size();
  bytes wanted(of.n * size_of(r.out()));
  cpu::reduce_contributions(r, of.nodes(0, m, false), of.n, wanted.data());
  INFO(title(r) << ", " << m << " contributions of " << of.n << " elements, off " << off);
  test::check_same("results", done(r, of.nodes(0, m, true), of.n, true, off), wanted);
}
void check_results(const reduction& r, std::size_t m, std::size_t n, std::size_t off = 0) {
  check(r, contributions(r.in(), m, n, off), off);
}

// Nodes of 1, 2, 4 or 8, or what is left of such a one, which GPUs and CPUs have folded.
void check_nodes(const reduction& r, std::size_t m, std::size_t n) {
  const contributions of(r.in(), m, n);
  INFO(title(r) << ", nodes of " << m << " contributions of " << n << " elements");
  std::vector<contribution_node> nodes;
  std::vector<std::unique_ptr<array_on_gpu>> states;
  for (std::size_t first = 0; first < m;) {
    std::size_t count = 1;
    while (first % (2 * count) == 0 && count < 8 && first + count < m && (first + count) % 5)
      count *= 2;
    const std::size_t last = std::min(first + count, m);
    if (count == 1) {
      nodes.push_back(of.nodes(first, last, true)[0]);
    } else {
      bytes made = done(r, of.nodes(first, last, true), n, false);
      if (first % 16 == 0)  // the CPU's
        cpu::fold_contributions(r, of.nodes(first, last, false), n, made.data());
      states.push_back(std::make_unique<array_on_gpu>(made, dtype::f64));
      nodes.push_back({first, last - first, states.back()->at(), false});
    }
    first = last;
  }
  bytes wanted(n * size_of(r.out()));
  cpu::reduce_contributions(r, of.nodes(0, m, false), n, wanted.data());
  test::check_same("results", done(r, nodes, n, true), wanted);
}

std::vector<reduction> reductions_of(dtype in) {
  std::vector<reduction> all;
  for (const op_info& op : all_op_infos)
    if (op.inputs == 1 && op.id != op_id::count_distinct)
      for (const auto method : methods_of(op.id))
        if (method != method_id::sequential) all.push_back(make_reduction(op.id, method, in));
  return all;
}

const std::vector<reduction>& some_reductions() {
  static const std::vector<reduction> some = {
      make_reduction(op_id::sum, {}, dtype::f32),
      make_reduction(op_id::mean, method_id::kahan, dtype::bf16),
      make_reduction(op_id::sum, method_id::exact, dtype::f32),
      make_reduction(op_id::var, method_id::exact, dtype::f16),
      make_reduction(op_id::mean, method_id::exact, dtype::f32),
      make_reduction(op_id::mean, method_id::exact, dtype::bf16),
      make_reduction(op_id::argmax, {}, dtype::f64),
      make_reduction(op_id::sum, {}, dtype::bf16, {}, dtype::f32),
      make_reduction(op_id::any, {}, dtype::u8),
  };
  return some;
}

}  // namespace

TEST_CASE("contributions on demand have the CPU's bits", "[racecheck]") {
  std::size_t place = 0;
  for (const reduction& r : some_reductions()) {
    std::size_t k = place++;
    const auto takes = [&] { return test::takes_kernels(k++, 2); };
    if (takes()) check_results(r, 3, 1003);
    if (takes()) check_results(r, 3, 77, 1);
    if (takes()) check_results(r, 1, 9);
    if (takes()) check_results(r, 200, 40);  // in several passes
    if (takes()) check_results(r, 13, 300);
    if (takes()) check_results(r, 4, 0);
    if (takes()) check_nodes(r, 13, 261);
    if (takes()) check_nodes(r, 37, 50);
  }
}

TEST_CASE("few contributions on demand: exact sums and means of any numbers") {
  for (const dtype type : {dtype::f16, dtype::bf16, dtype::f32})
    for (const op_id op : {op_id::sum, op_id::mean})
      for (const std::size_t m : {2, 3, 7}) {
        const reduction r = make_reduction(op, method_id::exact, type);
        for (const test::kind kind : test::all_kinds) {
          contributions of(type, 0, 3000);
          for (std::size_t k = 0; k < m; ++k) {
            bytes one = test::make_data(type, kind, of.n, k);
            const std::size_t size = size_of(type);
            if (k == 1)  // some of the first one's, negated
              for (std::size_t i = of.n / 2; i < of.n; ++i) {
                std::copy_n(&of.all[0][i * size], size, &one[i * size]);
                one[i * size + size - 1] ^= std::byte{0x80};
              }
            of.add(one, type);
          }
          check(r, of);
        }
      }
}

TEST_CASE("contributions on demand have the CPU's bits: all kernels", "[.all]") {
  for (const dtype type : all_dtypes)
    for (const reduction& r : reductions_of(type)) {
      check_results(r, 5, 333);
      check_nodes(r, 37, 50);
    }
}

TEST_CASE("exact sums of several arrays on demand join as states") {
  for (const dtype type : {dtype::bf16, dtype::f64})
    for (const op_id op : {op_id::sum, op_id::norm_l1, op_id::norm_l2}) {
      const reduction r = make_reduction(op, method_id::exact, type);
      const contributions of(type, 5, 777);
      bytes states;
      std::vector<contribution_node> nodes;
      const std::size_t size = contribution_state_bytes(r);
      // Of three ranks, the second of which has nothing.
      for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 2}, {2, 2}, {2, 5}}) {
        std::vector<cuda::piece> pieces;
        for (std::size_t k = begin; k < end; ++k) pieces.push_back({of.there[k]->at(), of.n});
        const std::size_t room = cuda::pieces_workspace_bytes(r, pieces);
        const array_on_gpu state(bytes(size, std::byte{1}), dtype::f64),
            workspace(bytes(room), dtype::f64);
        cuda::fold_pieces(r, pieces, state.at(), workspace.at(), room);
        test::wait_for();
        const bytes made = state.contents();
        states.insert(states.end(), made.begin(), made.end());
      }
      for (std::size_t k = 0; k < 3; ++k) nodes.push_back({k, 1, &states[k * size], false});
      bytes found(size_of(r.out())), all;
      cpu::reduce_contributions(r, nodes, 1, found.data());
      for (const bytes& one : of.all) all.insert(all.end(), one.begin(), one.end());
      INFO(title(r));
      CHECK(load_scalar(r.out(), found.data()) == cpu::reduce(r, all.data(), 5 * of.n));
    }
}

TEST_CASE("contributions on demand: what is no node, or not aligned, is refused") {
  const reduction sum = make_reduction(op_id::sum, {}, dtype::f32);
  const contributions of(dtype::f32, 3, 8);
  const array_on_gpu out(bytes(32), dtype::f32);
  const auto refused = [&](std::vector<contribution_node> nodes, void* to, std::string_view why) {
    try {
      cuda::reduce_contributions(sum, nodes, 8, to, nullptr, 0, nullptr);
      FAIL("no error: " << why);
    } catch (const error& e) {
      INFO(e.what());
      CHECK(std::string_view(e.what()).find(why) != std::string_view::npos);
    }
  };
  refused({}, out.at(), "nodes: none");
  refused(of.nodes(1, 3, true), out.at(), "contributions before 1 are missing");
  refused({{0, 1, of.there[0]->at() + 2}}, out.at(), "nodes: data is not aligned");
  refused(of.nodes(0, 3, true), out.at() + 1, "out: not aligned");
  refused(of.nodes(0, 3, true), nullptr, "out: null pointer");
  std::vector<contribution_node> many;
  for (std::size_t k = 0; k < 100; ++k) many.push_back({k, 1, of.there[0]->at(), true});
  refused(many, out.at(), "workspace");
}

namespace {
// Few of them, and nodes of any kind: results and states.
std::vector<gpu::plan> plans_of(const reduction& r) {
  alignas(16) static std::byte data[16];
  std::vector<contribution_node> few, many;
  for (std::size_t k = 0; k < 9; ++k) {
    if (k < 8) few.push_back({k, 1, data, true});
    many.push_back({k, 1, data, true});
  }
  std::vector<gpu::plan> all;
  for (const auto& nodes : {few, many})
    for (const bool finish : {false, true})
      all.push_back(gpu::plan_contributions(r, nodes, 100, data, finish, test::this_gpu()));
  return all;
}

// The exact sum of several arrays, as a state.
gpu::plan plan_of_sum(const reduction& r) {
  alignas(16) static std::byte data[16];
  const cuda::piece pieces[] = {{data, 2}, {data, 1}};
  gpu::plan p;
  gpu::add_exact_pieces(p, {{&r, 1}, 3, true}, pieces, test::this_gpu(), false);
  return p;
}

void check_nvrtc(const std::vector<reduction>& reductions, test::sample_of_kernels sample) {
  if (!test::has_compiler()) return;
  std::map<std::string, gpu::kernel> kernels;
  const reduction norm = make_reduction(op_id::norm_l2, method_id::exact, dtype::f32);
  for (const gpu::kernel& k : gpu::kernels_of(plan_of_sum(norm)))
    kernels.emplace(signature_of(k), k);
  for (const reduction& r : reductions)
    for (const gpu::plan& p : plans_of(r))
      for (const gpu::kernel& k : gpu::kernels_of(p)) kernels.emplace(signature_of(k), k);
  std::erase_if(kernels, [&](const auto& k) { return !sample.takes(k.second); });
  for (const auto& [signature, kernel] : kernels) {
    INFO(signature);
    CHECK(gpu::compile(gpu::source_of(kernel), 9, 0).image.size() > 1000);
  }
  std::printf("%zu kernels of contributions\n", kernels.size());
}
}  // namespace

TEST_CASE("NVRTC compiles folds over contributions", "[.][nvrtc]") {
  check_nvrtc(some_reductions(), test::sample_of_kernels());
}
TEST_CASE("NVRTC compiles every fold over contributions", "[.all]") {
  for (const dtype type : {dtype::f32, dtype::f64, dtype::bf16, dtype::u8})
    check_nvrtc(reductions_of(type), test::sample_of_kernels(true));
}
