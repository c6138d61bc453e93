#pragma once
#include "plan.hpp"
namespace bitfold::gpu {
void add_exact(plan& to, const problem& p, std::span<const std::size_t> which,
               const device_facts& on, const cuda::launch& shape);
void add_exact_pieces(plan& to, const problem& p, std::span<const cuda::piece> pieces,
                      const device_facts& on);
}
