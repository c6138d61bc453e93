// One pass over the elements for several reductions at once, those of the caller's own among them:
// the seam under bitfold::reduce (bitfold/reduce.hpp), with types hidden behind functions.
#pragma once

#include <cstddef>
#include <span>

#include <bitfold/cpu.hpp>
#include <bitfold/fold.hpp>

namespace bitfold::cpu {

/// A fold that is compiled in the caller's own code.
struct own_fold {
  const void* source;  ///< where its elements come from
  std::size_t state_bytes;
  /// The canonical state of elements first to first + n, n >= 1.
  void (*fold)(const void* source, order::index first, std::size_t n, void* state);
  /// The state of `left` elements followed by `right` elements, written to a.
  void (*merge)(void* a, order::index left, const void* b, order::index right);
  /// Writes the result for n elements to out.
  void (*finish)(const void* state, order::index n, void* out);
  void* out;
};

/// The elements of one pass, and what is made of them.
struct pass {
  std::size_t n = 0;
  std::size_t element_bytes = 0;  ///< bytes that are read for an element, of all inputs together
  std::span<const reduction> reductions;
  /// The inputs of `reductions`, as stored (y is null where they take one);
  const void *x = nullptr, *y = nullptr;
  /// or, if there is this function, generated tile by tile: it writes elements first to first + n
  /// to x, and of pairs to x and y.
  void (*generate)(const void* source, order::index first, std::size_t n, void* x,
                   void* y) = nullptr;
  const void* source = nullptr;
  bool generates_pairs = false;
  std::span<const own_fold> own_folds;
};

/// Results of `reductions` go to `out`, those of `own_folds` to where they say. Errors as in
/// reduce(); no elements are an error here if there is a fold of the caller's own.
void reduce(const pass& p, std::span<scalar> out, const options& opts = {});

}  // namespace bitfold::cpu
