// Which reductions share a kernel.
#pragma once

#include <bitfold/reduction.hpp>
#include <span>
#include <vector>

#include "tuning.hpp"

namespace bitfold::gpu {

/// What the host knows of a fold.
struct fold_facts {
  const void* key;              ///< the same for those of one base and accumulator
  std::size_t size, alignment;  ///< of its partial
};

struct group {
  std::vector<fold_facts> folds;        ///< different ones
  std::vector<std::size_t> reductions;  ///< of those asked for
  /// Bytes of the states of all folds in one.
  std::size_t state_bytes() const;
};

/// Of those numbers of `all`. Errors (errc::usage): a reduction without a canonical order.
std::vector<group> groups_of(std::span<const reduction> all, std::span<const std::size_t> which,
                             const tuning& by);

}  // namespace bitfold::gpu
