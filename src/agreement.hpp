// How a call over ranks begins: each rank says what it calls, and all of them see whether that is
// the same.
#pragma once

#include <bitfold/communicator.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace bitfold::detail {

/// What a rank says of a call.
struct rank_call {
  std::string line;          ///< what has to be the same on all ranks
  std::uint64_t count = 0;   ///< its contributions, or elements
  std::uint64_t first = 0;   ///< the number of the first one
  bool is_numbered = false;  ///< `first` is the caller's
  bool ends = false;         ///< what it has folded fits only where nothing comes behind it
};

/// What all ranks say, without their lines. Errors (errc::usage), on every rank: one has `refused`
/// its call, and throws that itself; the lines differ.
std::vector<rank_call> agreed(communicator& by, const rank_call& mine, std::exception_ptr refused);

/// Errors (errc::usage): a communicator of no rank, or whose own is none.
void check_ranks(const communicator& by);

/// The same of what describe() makes, or refuses with an exception.
template <class Describe>
std::vector<rank_call> agree(communicator& by, Describe describe) {
  rank_call mine;
  std::exception_ptr refused;
  try {
    check_ranks(by);
    mine = describe();
  } catch (...) {
    refused = std::current_exception();
  }
  return agreed(by, mine, refused);
}

}  // namespace bitfold::detail
