// Contractions on a GPU: the calls. Products of operands whose vectors and elements lie along
// several axes (bitfold/matmul.hpp).
#include <bitfold/cuda/plan.hpp>
#include <optional>
#include <string>
#include <utility>

#include "../arguments.hpp"
#include "launcher.hpp"
#include "product_tiles.hpp"

namespace bitfold::cuda {
namespace {

using detail::axes;

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

axes some_axes(const view& x, int begin, int end) {
  axes some;
  for (int k = begin; k < end; ++k)
    some.dims[some.rank++] = {static_cast<std::uint64_t>(x.extent[static_cast<std::size_t>(k)]),
                              x.stride[static_cast<std::size_t>(k)], 0};
  return some;
}

void check_axes(const view& x, int batch, int vectors, const char* name) {
  const std::string argument(name);
  if (x.rank < 0 || x.rank > max_axes || batch < 0 || vectors < 0 || batch > x.rank ||
      vectors >= x.rank - batch)
    refuse(argument + ".rank: " + std::to_string(x.rank) + ", where " + std::to_string(batch) +
           " axes are of a batch, " + std::to_string(vectors) +
           " of vectors, and more of elements");
  std::uint64_t size = 1;
  for (int k = 0; k < x.rank; ++k) {
    const std::int64_t extent = x.extent[static_cast<std::size_t>(k)];
    if (extent < 0 || __builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size) ||
        size >> 60)
      refuse(argument + ": extents that are negative, or an array of more than 2^60 elements");
  }
}
void check_axes(const view& x, const view& y, contracted_axes of) {
  check_axes(x, of.batch, of.a_vectors, "a");
  check_axes(y, of.batch, of.b_vectors, "b");
}

// The batch's axis k, and where both operands have their matrices along it.
axes::axis batch_axis(const view& x, const view& y, std::size_t k) {
  const std::int64_t m = x.extent[k], n = y.extent[k];
  return {static_cast<std::uint64_t>(detail::common_extent(m, n)), m == 1 ? 0 : x.stride[k],
          n == 1 ? 0 : y.stride[k]};
}

gpu::contracted operand_of(const matrix_product& p, const view& x, int batch, int vectors,
                           const char* name) {
  detail::expect_type(p, x, name);
  const axes along = some_axes(x, batch, batch + vectors),
             elements = some_axes(x, batch + vectors, x.rank);
  if (along.size() * elements.size() > 0 && !x.data) refuse(std::string(name) + ": a null pointer");
  detail::check_aligned(name, x.data, size_of(x.type));
  return {x.type, static_cast<const std::byte*>(x.data), along, elements};
}

struct asked {
  asked(const matrix_product& p, const view& x, const view& y, contracted_axes of,
        const view* addend)
      : product(p),
        a((check_axes(x, y, of), operand_of(p, x, of.batch, of.a_vectors, "a"))),
        b(operand_of(p, y, of.batch, of.b_vectors, "b")) {
    if (p.method() || !is_float(p.in()))
      refuse("method: contractions are of floats, by method fixed");
    if (a.elements.size() != b.elements.size())
      refuse("b: vectors of " + std::to_string(b.elements.size()) + " elements for those of " +
             std::to_string(a.elements.size()));
    detail::product_layout l{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(of.batch); ++k) {
      l.results.dims[l.results.rank++] = batch_axis(x, y, k);
      l.extents.push_back(static_cast<std::int64_t>(l.results.dims[k].extent));
    }
    l.extents.push_back(static_cast<std::int64_t>(a.vectors.size()));
    l.extents.push_back(static_cast<std::int64_t>(b.vectors.size()));
    results = l.results;
    if (!addend) return;
    detail::expect_addend(p, *addend);
    detail::check_aligned("addend", addend->data, size_of(addend->type));
    const view matrix{p.in(), nullptr, 2, {}, {}};
    added = detail::layout_of(*addend, l, matrix, matrix);
  }
  gpu::contraction_problem problem(void* out) const {
    return {product, a, b, results, added ? &*added : nullptr, out};
  }
  bool is_empty() const { return results.size() * a.vectors.size() * b.vectors.size() == 0; }

  const matrix_product& product;
  gpu::contracted a, b;
  axes results;
  std::optional<detail::addend_layout> added;
};

gpu::plan plan_of(const asked& of, void* out) {
  const gpu::device_facts& on = gpu::facts_of_current_device();
  if (of.is_empty()) return {};
  if (!gpu::can_contract(of.problem(out), on))
    refuse("a: this GPU has no contraction of such operands (can_contract)");
  return gpu::plan_contraction(of.problem(out), default_product_memory, on);
}

}  // namespace

bool can_contract(const matrix_product& p, const view& a, const view& b, contracted_axes axes) {
  return gpu::can_contract(asked(p, a, b, axes, nullptr).problem(nullptr),
                           gpu::facts_of_current_device());
}

std::vector<std::int64_t> contracted_extents(const view& a, const view& b, contracted_axes of) {
  check_axes(a, b, of);
  std::vector<std::int64_t> extents;
  for (int k = 0; k < of.batch; ++k)
    extents.push_back(
        static_cast<std::int64_t>(batch_axis(a, b, static_cast<std::size_t>(k)).extent));
  for (const auto& [x, vectors] : {std::pair(&a, of.a_vectors), std::pair(&b, of.b_vectors)})
    extents.insert(extents.end(), x->extent.begin() + of.batch,
                   x->extent.begin() + of.batch + vectors);
  return extents;
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
