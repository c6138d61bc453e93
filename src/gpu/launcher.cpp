#include "launcher.hpp"

#include "integer_products.hpp"

namespace bitfold::gpu {
namespace {

address address_of(place p, const addresses& at) {
  const void* from = nullptr;
  switch (p.from) {
    case base::nothing: return 0;
    case base::workspace: from = at.workspace; break;
    case base::x: from = at.x; break;
    case base::y: from = at.y; break;
    case base::list: from = at.list; break;
    case base::result: from = at.results[p.number]; break;
  }
  return reinterpret_cast<address>(from) + p.bytes;
}

// The arguments of one launch, where the driver finds them.
class placed_arguments {
 public:
  placed_arguments(const arguments& from, const addresses& at) {
    const std::vector<std::byte>& bytes = from.bytes();
    // (Each is aligned to 16 bytes from the beginning, and so is what `new` gives.)
    values_ = bytes;
    for (const arguments::address_at& a : from.addresses()) {
      const address there = address_of(a.to, at);
      std::memcpy(values_.data() + a.at, &there, sizeof there);
    }
    for (const std::size_t begin : from.begins()) pointers_.push_back(values_.data() + begin);
  }
  void** pointers() { return pointers_.data(); }

 private:
  std::vector<std::byte> values_;
  std::vector<void*> pointers_;
};

void launch(const pass& p, function kernel, const addresses& at, bool can_overlap, stream on) {
  launch_attribute early{programmatic_stream_serialization, 0, 1, {}};
  const launch_configuration how{{p.blocks, p.rows_of_blocks, 1},
                                 {p.threads, 1, 1},
                                 static_cast<unsigned>(p.shared_bytes),
                                 on,
                                 &early,
                                 p.overlaps && can_overlap ? 1u : 0u};
  placed_arguments values(p.with, at);
  check(the_driver().cuLaunchKernelEx(&how, kernel, values.pointers(), nullptr),
        "cuLaunchKernelEx");
}

// In the order of the passes; several that are not there yet are compiled at once. The library of
// products is opened, too.
std::vector<function> load_all(const plan& p, const current& where) {
  std::vector<function> found;
  found.reserve(p.steps.size());
  std::size_t missing = 0;
  for (const step& s : p.steps)
    if (const pass* const one = std::get_if<pass>(&s)) {
      found.push_back(find(one->what, where));
      missing += !found.back();
    } else if (std::holds_alternative<integer_product>(s)) {
      prepare_products(where);
    }
  if (missing == 0) return found;
  if (missing > 1) prepare(p, where);
  found.clear();
  for (const step& s : p.steps)
    if (const pass* const one = std::get_if<pass>(&s)) found.push_back(load(one->what, where));
  return found;
}

}  // namespace

void run(const plan& p, const addresses& at, stream on) {
  const current where = current_device();
  const bool can_overlap = facts_of_device(where.device).major >= 9;
  // All kernels first: nothing is enqueued where one of them cannot be had.
  const std::vector<function> kernels = load_all(p, where);
  auto kernel = kernels.begin();
  for (const step& s : p.steps) {
    if (const pass* const one = std::get_if<pass>(&s)) {
      launch(*one, *kernel++, at, can_overlap, on);
    } else if (const fill* const f = std::get_if<fill>(&s)) {
      if (f->bytes > 0)
        check(the_driver().cuMemsetD8Async(address_of(f->at, at), f->value, f->bytes, on),
              "cuMemsetD8Async");
    } else {
      const integer_product& product = std::get<integer_product>(s);
      multiply(product,
               {address_of(product.a, at), address_of(product.b, at), address_of(product.to, at),
                address_of(product.scratch, at)},
               where, on);
    }
  }
}

std::vector<kernel> kernels_of(const plan& p) {
  std::vector<kernel> kernels;
  for (const step& s : p.steps)
    if (const pass* const one = std::get_if<pass>(&s)) kernels.push_back(one->what);
  return kernels;
}
void prepare(const plan& p, const current& where) { prepare(kernels_of(p), where); }

}  // namespace bitfold::gpu
