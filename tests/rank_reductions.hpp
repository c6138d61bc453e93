// What reductions over ranks are tested with.
#pragma once

#include <vector>

#include <bitfold/reduction.hpp>

namespace bitfold::test {

/// Every operation of so many inputs that has states, by every method that has.
inline std::vector<reduction> reductions_with_states(dtype in, int inputs) {
  std::vector<reduction> all;
  for (const op_info& op : all_op_infos)
    if (op.inputs == inputs && op.id != op_id::count_distinct)
      for (const auto method : methods_of(op.id))
        if (method != method_id::sequential) all.push_back(make_reduction(op.id, method, in));
  return all;
}

}  // namespace bitfold::test
