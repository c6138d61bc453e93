#include "request.hpp"

#include <algorithm>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/error.hpp>

#include "../dispatch.hpp"
#include "exact.hpp"
#include "output_plan.hpp"
#include "sort.hpp"

namespace bitfold::gpu {
namespace {

// One output whose elements lie one behind the other is an array, for which there are kernels.
bool is_array(const detail::layout& l) {
  return l.outputs == 1 && l.n > 0 && l.reduced.rank == 1 && l.contiguous();
}

// The results of no elements, byte by byte: the plan alone holds them, also while a graph is
// captured. All of them, or an error and none.
void add_empty_results(plan& to, const problem& p) {
  std::vector<scalar> results;
  for (const reduction& r : p.reductions) results.push_back(detail::empty_result(r));
  for (std::size_t k = 0; k < results.size(); ++k) {
    std::uint8_t bytes[8];
    store_scalar(results[k], bytes);
    for (std::size_t i = 0; i < size_of(results[k].type); ++i)
      to.steps.emplace_back(fill{p.result(k).behind(i), 1, bytes[i]});
  }
}

void add_all(plan& to, problem p, const cuda::launch& shape, const device_facts& on) {
  cuda::check(shape);
  for (const reduction& r : p.reductions) detail::check_together(p.reductions[0], r);
  if (!p.outputs && p.n == 0) return add_empty_results(to, p);
  std::vector<std::size_t> which[4];
  for (std::size_t k = 0; k < p.reductions.size(); ++k)
    which[static_cast<int>(detail::ordering_of(p.reductions[k]))].push_back(k);
  check_methods(p.reductions);
  const auto of = [&](ordering o) -> const std::vector<std::size_t>& {
    return which[static_cast<int>(o)];
  };
  if (const auto& folds = of(ordering::canonical); !folds.empty()) {
    add_folds(to, p, folds, shape, *on.numbers);
    // What parts of an array leave is kept from one to the next.
    if (p.is_in_parts()) p.workspace = rounded_up(to.workspace);
  }
  if (const auto& exact = of(ordering::independent); !exact.empty())
    add_exact(to, p, exact, on, shape);
  if (const auto& sorted = of(ordering::sorted); !sorted.empty()) add_distinct(to, p, sorted, on);
}

// `bytes`: from the launcher's x to the layout's.
void add_axes(plan& to, std::span<const reduction> all, const detail::layout& l,
              std::uint64_t bytes, std::span<const place> results, std::size_t workspace,
              const cuda::launch& shape, const device_facts& on) {
  for (const reduction& r : all) {
    detail::check_elements(r, l.type);
    detail::check_inputs(r, l.x, l.y, l.outputs * l.n);
  }
  const cuda::output_elements from = cuda::elements_of(l);
  problem p{all, l.n, from.aligned};
  p.x.bytes = bytes;
  p.results = results;
  p.workspace = workspace;
  if (!is_array(l)) {
    if (l.outputs == 0) return;
    p.outputs = &from;
  }
  add_all(to, p, shape, on);
}

}  // namespace

const cuda::piece* first_with_elements(std::span<const cuda::piece> arrays) {
  const auto found = std::ranges::find_if(arrays, [](const cuda::piece& a) { return a.n > 0; });
  return found == arrays.end() ? nullptr : &*found;
}

void check_methods(std::span<const reduction> all) {
  for (const reduction& r : all)
    if (r.method() && !info(*r.method()).on_gpu())
      throw error(errc::usage,
                  "method: " + std::string(name(*r.method())) + " runs on the CPU only");
}

plan plan_of(const problem& p, const cuda::launch& shape, const device_facts& on) {
  plan made;
  add_all(made, p, shape, on);
  return made;
}

plan plan_axes(std::span<const reduction> all, const detail::layout& layout,
               const cuda::launch& shape, const device_facts& on) {
  plan made;
  add_axes(made, all, layout, 0, {}, 0, shape, on);
  return made;
}

plan plan_windows(std::span<const reduction> all, const detail::window_boxes& boxes,
                  const void* data, const cuda::launch& shape, const device_facts& on) {
  plan made;
  for (const detail::window_box& b : boxes.boxes) {
    const std::uint64_t bytes =
        reinterpret_cast<std::uintptr_t>(b.x.data) - reinterpret_cast<std::uintptr_t>(data);
    const detail::layout l = detail::layout_of(b.x, nullptr, boxes.reduced);
    if (boxes.boxes.size() == 1) {
      add_axes(made, all, l, bytes, {}, 0, shape, on);
      break;
    }
    // A box leaves its results one behind the other; then they are moved to their places.
    std::vector<place> results;
    std::size_t room = 0;
    for (const reduction& r : all) {
      results.push_back(in_workspace(room));
      room += rounded_up(b.results.size() * size_of(r.out()));
    }
    made.workspace = std::max(made.workspace, room);
    add_axes(made, all, l, bytes, results, room, shape, on);
    for (std::size_t k = 0; k < all.size(); ++k)
      add_scatter(made, results[k], all[k].out(), b.results, b.first,
                  {base::result, static_cast<std::uint32_t>(k)});
  }
  return made;
}

plan plan_segments(std::span<const reduction> all, bool two, std::size_t n, std::size_t segments,
                   const cuda::launch& shape, const device_facts& on) {
  plan made;
  if (all.empty() || segments == 0) return made;
  const cuda::output_elements from = cuda::elements_of_lists(all[0].in(), two, n, segments);
  problem p{all, n, true};
  p.outputs = &from;
  add_all(made, p, shape, on);
  return made;
}

plan plan_arrays(const reduction& r, std::span<const cuda::piece> arrays, const device_facts& on) {
  plan made;
  if (arrays.empty()) return made;
  if (detail::ordering_of(r) == ordering::sorted)
    throw error(errc::usage, "reduction: count_distinct, which no list of arrays has");
  const auto* const first = first_with_elements(arrays);
  std::size_t n = 0;
  std::vector<std::uint64_t> ends;
  for (const cuda::piece& a : arrays) {
    const std::int64_t bytes = a.n == 0 ? 0
                                        : static_cast<const std::byte*>(a.data) -
                                              static_cast<const std::byte*>(first->data),
                       begin = bytes / static_cast<std::int64_t>(size_of(r.in()));
    ends.push_back(static_cast<std::uint64_t>(begin));
    ends.push_back(static_cast<std::uint64_t>(begin) + a.n);
    n += a.n;
  }
  add_words(made, ends, in_workspace(0));
  cuda::output_elements from = cuda::elements_of_lists(r.in(), false, n, arrays.size());
  from.offsets_each = 2;
  problem p{{&r, 1}, n, true};
  p.outputs = &from;
  p.offsets = in_workspace(0);
  p.workspace = rounded_up(ends.size() * sizeof(std::uint64_t));
  made.workspace = p.workspace;
  add_all(made, p, {}, on);
  return made;
}

plan plan_keys(std::span<const reduction> all, bool two, std::size_t n, std::size_t outputs,
               const cuda::launch& shape, const device_facts& on) {
  if (n >= std::size_t{1} << 32 || outputs >= (std::size_t{1} << 32) - 1)
    throw error(errc::usage, "n: 2^32 elements or outputs, or more");
  plan made;
  if (all.empty() || outputs == 0) return made;
  const sorted_keys sorted =
      add_keys(made, keys_in_a_row(n, outputs), two ? std::nullopt : std::optional(all[0].in()),
               outputs, {}, 0, *on.numbers);
  cuda::output_elements from = cuda::elements_of_lists(all[0].in(), two, n, outputs);
  problem p{all, n, true};
  p.outputs = &from;
  p.offsets = sorted.offsets;
  if (two) {
    from.placed = true;
    p.places = sorted.places;
  } else {
    p.x = sorted.x;
  }
  p.workspace = sorted.end;
  add_all(made, p, shape, on);
  made.workspace = std::max(made.workspace, sorted.end);
  return made;
}

}  // namespace bitfold::gpu
