// What `record` and `check` measure of an array.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <bitfold/reduction.hpp>

#include "io/arrays.hpp"

namespace bitfold::cli {

struct fingerprint_job {
  const io::array* array;
  std::vector<reduction> reductions;  ///< of this array's element type, of one input
};

struct fingerprint {
  std::string digest;           ///< of the array's bytes; empty if it was not asked for
  std::vector<scalar> results;  ///< of the reductions
};

/// All arrays at once, on up to `threads` threads (0: one per core). What reads an array's bytes
/// comes together, so that they are read from disk once, and from memory once where the cache holds
/// them.
std::vector<fingerprint> fingerprints(std::span<const fingerprint_job> jobs, bool with_digest,
                                      int threads);

}  // namespace bitfold::cli
