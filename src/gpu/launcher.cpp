#include "launcher.hpp"

#include "../dispatch.hpp"

namespace bitfold::gpu {
namespace {

// The arguments of one launch, where the driver finds them.
class arguments {
 public:
  arguments(const pass& step, const problem& what, void* const* out, void* workspace) {
    for (const std::size_t k : step.reductions) {
      const reduction& r = what.reductions[k];
      // An array has elements. Of what has no result for none, the caller has made sure that there
      // are some.
      const bool may_be_empty = what.outputs && info(r.op()).empty != if_empty::refused;
      results_.push_back({out[k], may_be_empty ? detail::empty_result(r).bits : 0, r.ddof()});
    }
    numbers_.reserve(step.arguments.size());  // so that they stay where they are
    for (const argument& a : step.arguments)
      addresses_.push_back(address_of(a, step, what, workspace));
  }
  arguments(const arguments&) = delete;
  arguments& operator=(const arguments&) = delete;
  void** addresses() { return addresses_.data(); }

 private:
  void* address_of(const argument& a, const pass& step, const problem& what, void* workspace) {
    switch (a.what) {
      case argument::kind::number32:  // whose low half comes first
      case argument::kind::number64: return &numbers_.emplace_back(a.value);
      case argument::kind::workspace:
        return &numbers_.emplace_back(reinterpret_cast<std::uintptr_t>(workspace));
      case argument::kind::array: return const_cast<cuda::elements*>(&what.array);
      case argument::kind::outputs: return const_cast<cuda::output_elements*>(what.outputs);
      case argument::kind::unaligned_outputs:
        unaligned_ = *what.outputs;
        unaligned_.unaligned = true;
        return &unaligned_;
      case argument::kind::listed_nodes: return &(list_ = step.list.in(workspace));
      case argument::kind::results: break;
    }
    return results_.data();
  }

  std::vector<cuda::result_place> results_;
  cuda::output_elements unaligned_{};
  cuda::node_list list_{};
  std::vector<std::uint64_t> numbers_;
  std::vector<void*> addresses_;
};

}  // namespace

void run(const plan& p, const problem& what, void* const* out, void* workspace, stream on) {
  const driver& d = the_driver();
  const current where = current_device();
  const bool can_overlap = facts_of_device(where.device).major >= 9;
  // All kernels first: nothing is enqueued where one of them cannot be had.
  std::vector<function> kernels;
  for (const pass& step : p.passes) kernels.push_back(load(step.what, where));
  for (std::size_t i = 0; i < p.passes.size(); ++i) {
    const pass& step = p.passes[i];
    if (step.cleared_bytes > 0)
      check(d.cuMemsetD8Async(reinterpret_cast<address>(workspace), 0, step.cleared_bytes, on),
            "cuMemsetD8Async");
    launch_attribute early{programmatic_stream_serialization, 0, 1, {}};
    const launch_configuration how{{step.blocks, 1, 1},
                                   {step.threads, 1, 1},
                                   static_cast<unsigned>(step.shared_bytes),
                                   on,
                                   &early,
                                   step.overlaps && can_overlap ? 1u : 0u};
    arguments values(step, what, out, workspace);
    check(d.cuLaunchKernelEx(&how, kernels[i], values.addresses(), nullptr), "cuLaunchKernelEx");
  }
}

}  // namespace bitfold::gpu
