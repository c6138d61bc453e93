// Contractions on a GPU: the calls. Products of operands whose vectors and elements lie along
// several axes (bitfold/matmul.hpp).
#include <bitfold/cuda/plan.hpp>
#include <optional>
#include <string>

#include "../arguments.hpp"
#include "launcher.hpp"
#include "products.hpp"

namespace bitfold::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

struct asked {
  asked(const matrix_product& p, const view& x, const view& y, contracted_axes by,
        const view* addend)
      : product(p) {
    detail::expect_contractible(p, x, y);
    layout = detail::layout_of(x, y, by);
    detail::check_aligned("a", x.data, size_of(x.type));
    detail::check_aligned("b", y.data, size_of(y.type));
    if (!addend) return;
    detail::expect_addend(p, *addend);
    detail::check_aligned("addend", addend->data, size_of(addend->type));
    added = detail::layout_of(*addend, layout);
  }
  gpu::product_problem problem(void* out) const {
    return {product, layout, added ? &*added : nullptr, out};
  }
  bool is_empty() const { return layout.results.size() * layout.a.vectors * layout.b.vectors == 0; }

  const matrix_product& product;
  detail::product_layout layout;
  std::optional<detail::addend_layout> added;
};

gpu::plan plan_of(const asked& of, void* out) {
  const gpu::device_facts& on = gpu::facts_of_current_device();
  if (of.is_empty()) return {};
  if (!gpu::can_contract(of.problem(out)))
    refuse("a: a GPU has no contraction of elements so far apart (can_contract)");
  return gpu::plan_product(of.problem(out), default_product_memory, on);
}

}  // namespace

bool can_contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes) {
  return gpu::can_contract(asked(p, a, b, axes, nullptr).problem(nullptr));
}

std::size_t contract_workspace_bytes(const matrix_product& p, const view& a, const view& b,
                                     contracted_axes axes, const view* addend) {
  return plan_of(asked(p, a, b, axes, addend), nullptr).workspace;
}

void contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes,
              const view* addend, void* out, void* workspace, std::size_t workspace_size,
              stream where) {
  const gpu::plan made = plan_of(asked(p, a, b, axes, addend), out);
  if (made.steps.empty()) return;
  if (!out) refuse("out: a null pointer");
  detail::check_aligned("out", out, size_of(p.out()));
  check_workspace(workspace, workspace_size, made.workspace);
  gpu::run(made, {.workspace = workspace}, where);
}

}  // namespace bitfold::cuda
