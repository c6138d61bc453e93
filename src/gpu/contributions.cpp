// Folds over contributions on a GPU: plans, and the calls that run them.
#include "contributions.hpp"

#include <bitfold/cuda/contributions.hpp>
#include <bitfold/cuda/plan.hpp>

#include <algorithm>
#include <string>

#include "../binned.hpp"
#include "../contribution_tree.hpp"
#include "launcher.hpp"

namespace bitfold::gpu {

std::string definition_of_contributions(const reduction& r) {
  const std::string of = "<op_id::" + std::string(name(r.op())) + ", ", in = type_name(r.in()),
                    out = type_name(r.out());
  return "using by = cuda::" +
         (detail::is_exact(r) ? "exact_contributions" + of + in + ", " + out
                              : "ordered_contributions" + of + "method::" +
                                    std::string(name(r.method().value_or(method_id::tree))) + ", " +
                                    in + ", " + type_name(r.acc()) + ", " + out) +
         ">;\nstatic_assert(sizeof(by::state) == " + std::to_string(contribution_state_bytes(r)) +
         ");\n";
}

bool has_results_of_few(const reduction& r) {
  return !detail::is_exact(r) || ((r.op() == op_id::sum || r.op() == op_id::mean) &&
                                  is_float(r.in()) && r.in() != dtype::f64);
}

namespace {

using cuda::listed_node;

std::vector<listed_node> listed(const detail::tree_plan& tree) {
  std::vector<listed_node> all;
  for (const detail::tree_step& s : tree.steps())
    if (s.node)
      all.push_back(
          {s.node->data, s.node->first, s.node->count, s.node->is_elements, s.left > 0 ? 1u : 0u});
    else
      ++all.back().merges;
  return all;
}

class planner {
 public:
  planner(plan& to, const reduction& r, std::size_t n, void* out, bool finish,
          const device_facts& on)
      : to_(to),
        r_(r),
        n_(n),
        out_(out),
        finish_(finish),
        on_(on),
        state_(contribution_state_bytes(r)),
        definition_(definition_of_contributions(r)) {}

  void add(std::span<const contribution_node> nodes) {
    const detail::tree_plan tree(nodes, n_);
    check_aligned(nodes);
    if (n_ == 0) return;
    const auto is_element = [](const contribution_node& node) { return node.is_elements; };
    const bool has_few = !detail::is_exact(r_) || (finish_ && has_results_of_few(r_));
    if (nodes.size() <= cuda::most_of_few && has_few && std::ranges::all_of(nodes, is_element))
      add_few(nodes);
    else
      add_nodes(listed(tree));
  }

 private:
  void check_aligned(std::span<const contribution_node> nodes) const {
    // (What a type's size is a multiple of, its alignment is not more than.)
    const std::size_t words = std::min<std::size_t>(state_ & (0 - state_), alignof(std::uint64_t));
    const auto at_a_multiple = [](const void* p, std::size_t bytes) {
      return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
    };
    for (const contribution_node& node : nodes)
      if (!at_a_multiple(node.data, node.is_elements ? size_of(r_.in()) : words))
        throw error(errc::usage, "nodes: data is not aligned");
    if (!at_a_multiple(out_, finish_ ? size_of(r_.out()) : words))
      throw error(errc::usage, "out: not aligned");
    if (n_ > 0 && !out_) throw error(errc::usage, "out: null pointer");
  }
  pass& add_pass(const char* name, bool finish, const std::string& numbers, std::size_t threads) {
    const std::size_t of_block = cuda::threads_on_contributions,
                      blocks = (threads + of_block - 1) / of_block,
                      most = static_cast<std::size_t>(on_.processors) * 8;
    return std::get<pass>(to_.steps.emplace_back(
        pass{instantiation{name, "bitfold/cuda/contributions.cuh", definition_,
                           "bitfold::cuda::" + std::string(name) + "<kernel::by, " +
                               (finish ? "true" : "false") + numbers + ">"},
             static_cast<unsigned>(std::min(blocks, most)), cuda::threads_on_contributions}));
  }

  void add_few(std::span<const contribution_node> nodes) {
    cuda::few_contributions from{{}, nodes[0].first};
    bool in_packets =
        (state_ <= 16 || detail::is_exact(r_)) && reinterpret_cast<std::uintptr_t>(out_) % 16 == 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      from.data[k] = nodes[k].data;
      in_packets = in_packets && reinterpret_cast<std::uintptr_t>(nodes[k].data) % 16 == 0;
    }
    const std::size_t together = in_packets ? 16 / size_of(r_.in()) : 1;
    pass& p = add_pass("fold_few_contributions", finish_,
                       ", " + std::to_string(nodes.size()) + ", " + std::to_string(together),
                       (n_ + together - 1) / together);
    p.with.add(from).add(index{n_}).add(r_.ddof()).add(out_);
    p.bytes_read = n_ * nodes.size() * size_of(r_.in());
  }

  // As many as a kernel takes at a time; what these leave on the stack is ahead of the next ones.
  void add_nodes(const std::vector<listed_node>& all) {
    std::vector<listed_node> stack;
    for (std::size_t done = 0; done < all.size();) {
      cuda::listed_nodes from{};
      const std::size_t states = stack.size();
      for (listed_node node : stack) from.each[from.count++] = node;
      std::size_t depth = states;
      for (; done < all.size() && from.count < cuda::most_nodes; ++done) {
        from.each[from.count++] = all[done];
        depth = std::max(depth, push(stack, all[done]));
      }
      const bool is_last = done == all.size();
      add_nodes(from, states, is_last, depth);
      if (!is_last) to_.workspace = std::max(to_.workspace, stack.size() * n_ * state_);
    }
  }
  // How high the stack is then, at most. Those on it have their numbers and no merges.
  static std::size_t push(std::vector<listed_node>& stack, const listed_node& node) {
    stack.push_back({nullptr, node.first, node.count, 0, 0});
    const std::size_t height = stack.size();
    for (std::uint32_t k = 0; k < node.merges; ++k) {
      const index right = stack.back().count;
      stack.pop_back();
      stack.back().count += right;
    }
    return height;
  }
  // The first `states` of them lie in the workspace.
  void add_nodes(const cuda::listed_nodes& from, std::size_t states, bool is_last,
                 std::size_t depth) {
    std::size_t room = 2;
    while (room < depth) room *= 2;
    pass& p = add_pass("fold_nodes_of_contributions", finish_ && is_last,
                       ", " + std::to_string(room), n_);
    p.with.add(from);
    for (std::size_t k = 0; k < states; ++k)
      p.with.set(offsetof(cuda::listed_nodes, each) + k * sizeof(listed_node) +
                     offsetof(listed_node, data),
                 in_workspace(k * n_ * state_));
    p.with.add(index{n_}).add(r_.ddof());
    if (is_last)
      p.with.add(out_);
    else
      p.with.add_address(in_workspace(0));
    for (std::uint32_t k = 0; k < from.count; ++k)
      p.bytes_read += n_ * (from.each[k].is_elements ? size_of(r_.in()) : state_);
  }

  using index = order::index;
  plan& to_;
  const reduction& r_;
  const std::size_t n_;
  void* const out_;
  const bool finish_;
  const device_facts& on_;
  const std::size_t state_;
  const std::string definition_;
};

}  // namespace

plan plan_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* out, bool finish, const device_facts& on) {
  if (finish) detail::expect_all_contributions(nodes);
  plan made;
  planner(made, r, n, out, finish, on).add(nodes);
  return made;
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {
namespace {
void fold(const reduction& r, std::span<const contribution_node> nodes, std::size_t n, void* out,
          bool finish, void* workspace, std::size_t workspace_size, stream where) {
  const gpu::plan p =
      gpu::plan_contributions(r, nodes, n, out, finish, gpu::facts_of_current_device());
  check_workspace(workspace, workspace_size, p.workspace);
  gpu::run(p, {.workspace = workspace}, where);
}
}  // namespace

std::size_t contributions_workspace_bytes(const reduction& r,
                                          std::span<const contribution_node> nodes, std::size_t n) {
  if (nodes.size() <= most_nodes) return 0;
  // (Where results go is nothing to it.)
  alignas(16) static std::byte somewhere[1];
  return gpu::plan_contributions(r, nodes, n, somewhere, false, gpu::facts_of_current_device())
      .workspace;
}

void fold_contributions(const reduction& r, std::span<const contribution_node> nodes, std::size_t n,
                        void* states, void* workspace, std::size_t workspace_size, stream where) {
  fold(r, nodes, n, states, false, workspace, workspace_size, where);
}
void reduce_contributions(const reduction& r, std::span<const contribution_node> nodes,
                          std::size_t n, void* out, void* workspace, std::size_t workspace_size,
                          stream where) {
  fold(r, nodes, n, out, true, workspace, workspace_size, where);
}

}  // namespace bitfold::cuda
