// Arrays that are read in pieces, added to totals at a constant memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <bitfold/totals.hpp>

#include "io/stream.hpp"

namespace bitfold::cli {

struct streamed_array {
  io::stream* file;
  std::size_t which;
  const io::array_place& place() const { return file->arrays()[which]; }
};

/// Adds an array, or two element by element, of one type; `done` is told how many bytes were read
/// since it was called last. False if one of the two is longer. Errors: those of io::stream and of
/// totals::add.
bool add_in_pieces(totals& sums, std::span<const streamed_array> operands, const cpu::options& opts,
                   const std::function<void(std::size_t)>& done);

}  // namespace bitfold::cli
