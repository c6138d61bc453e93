// What `record` and `check` measure of an array, or of two together.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <bitfold/reduction.hpp>

#include "cli/operands.hpp"
#include "cli/progress.hpp"
#include "io/arrays.hpp"

namespace bitfold::cli {

struct fingerprint_job {
  operands<io::array> inputs;
  std::vector<reduction> reductions;  ///< of these arrays' element type; none where that has none
};

struct fingerprint {
  std::vector<std::string> digests;  ///< of each array's bytes; none if they were not asked for
  std::vector<scalar> results;       ///< of the reductions
};

/// All of them at once, on up to `threads` threads (0: one per core). What reads an array's bytes
/// comes together, so that they are read from disk once, and from memory once where the cache holds
/// them. Without with_digest, only what has no reductions has one. The bar counts bytes.
std::vector<fingerprint> fingerprints(std::span<const fingerprint_job> jobs, bool with_digest,
                                      int threads, progress& bar);

}  // namespace bitfold::cli
