// What is asked for in one call.
#pragma once

#include <vector>

#include "data.hpp"

namespace bitfold::test {

/// Lists of reductions of dtype t, of so many inputs: all that there are, some that a GPU folds in
/// one kernel, and many results of one fold. With of_none, those that are defined of no elements.
inline std::vector<std::vector<reduction>> companies(dtype t, int inputs, bool of_none = false) {
  using enum op_id;
  std::vector<std::vector<reduction>> lists{reductions_of_all_ops(t)};
  for (const std::vector<op_id>& ops : {std::vector{max, min},
                                        {argmin, min},
                                        {max, argmax},
                                        {mean, var},
                                        {softmax_denominator, max, logsumexp},
                                        {op_id::std, min, sum, max, var, mean}}) {
    lists.emplace_back();
    for (const op_id op : ops) lists.back().push_back(make_reduction(op, {}, t));
  }
  lists.emplace_back();
  for (int ddof = 0; ddof < 10; ++ddof)
    lists.back().push_back(make_reduction(var, {}, t, {}, {}, ddof));
  for (auto& list : lists)
    std::erase_if(list, [&](const reduction& r) {
      return info(r.op()).inputs != inputs || (of_none && info(r.op()).empty == if_empty::refused);
    });
  std::erase_if(lists, [](const auto& list) { return list.empty(); });
  return lists;
}

/// Lengths around every boundary of the order, and where in random elements arrays of that length
/// begin: short ones at several places, so that there is something special in some.
struct stretch {
  std::size_t first, n;
};
inline std::vector<stretch> stretches() {
  std::vector<stretch> all;
  for (const std::size_t n : boundary_lengths())
    for (std::size_t k = 0; k < (n < 300 ? 4 : 1); ++k) all.push_back({n % 3 + 301 * k, n});
  return all;
}

}  // namespace bitfold::test
