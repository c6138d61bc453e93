// The lists of reductions that the tests on a GPU ask for. Each has kernels of its own in each
// strategy, and a kernel takes a second to compile: so the lists are few and always the same, while
// shapes, which cost nothing, are many. Every operation of every type, by every method and
// accumulator, is held to the CPU's bits in whole arrays; each operation, of some types, in each
// strategy; and each type in each strategy.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "data.hpp"

namespace bitfold::test {

/// Of these types, those that BITFOLD_TEST_TYPES names, or all: several processes can share them
/// out.
inline std::vector<dtype> types_of_test(std::vector<dtype> types = {all_dtypes.begin(),
                                                                    all_dtypes.end()}) {
  if (const char* const some = std::getenv("BITFOLD_TEST_TYPES"))
    std::erase_if(types, [&](dtype t) {
      return ("," + std::string(some) + ",").find("," + std::string(name(t)) + ",") ==
             std::string::npos;
    });
  return types;
}
/// Those that stand for the others where these would want too many kernels.
inline std::vector<dtype> some_types() {
  return types_of_test({dtype::f16, dtype::f32, dtype::f64, dtype::i16});
}

using list = std::vector<reduction>;
using lists = std::vector<list>;

/// Folds in the canonical order.
inline bool has_an_order(const reduction& r) {
  return r.op() != op_id::count_distinct &&
         (!r.method() || info(*r.method()).ordering == ordering::canonical);
}
inline list defined_of_none(list all) {
  std::erase_if(all, [](const reduction& r) { return info(r.op()).empty == if_empty::refused; });
  return all;
}

/// Sums by every method, in every accumulator, to every output type: one kernel.
inline list all_sums(dtype t) {
  list all = all_reductions(t);
  std::erase_if(all, [](const reduction& r) { return !has_an_order(r); });
  return all;
}
/// Every operation by every method, in every accumulator: some in each kernel.
inline list all_operations(dtype t, int inputs) {
  list all = reductions_of_all_ops(t);
  std::erase_if(
      all, [&](const reduction& r) { return info(r.op()).inputs != inputs || !has_an_order(r); });
  return all;
}
/// Every operation once, by the methods in turn.
inline list each_operation(dtype t, int inputs) {
  constexpr method_id methods[] = {method_id::tree, method_id::pairwise, method_id::kahan};
  list all;
  for (const op_info& op : all_op_infos)
    if (op.inputs == inputs && op.id != op_id::count_distinct)
      all.push_back(make_reduction(
          op.id, op.takes_method ? std::optional(methods[all.size() % 3]) : std::nullopt, t));
  return all;
}
/// States of several sizes, of what is defined of no elements, too: one kernel.
inline list everyday(dtype t, int inputs) {
  using enum op_id;
  const auto wide = is_float(t) ? std::optional(dtype::f64) : std::nullopt;
  if (inputs == 2)
    return {make_reduction(dot, method_id::tree, t), make_reduction(mae, method_id::kahan, t),
            make_reduction(cosine, {}, t)};
  return {make_reduction(sum, method_id::tree, t), make_reduction(var, {}, t, {}, {}, 1),
          make_reduction(sum, method_id::kahan, t, wide), make_reduction(mean, method_id::tree, t),
          make_reduction(count_nonzero, {}, t)};
}
/// Extremes and their places: one kernel.
inline list extremes(dtype t) {
  list all;
  for (const op_id op : {op_id::max, op_id::argmax, op_id::argmin, op_id::min})
    all.push_back(make_reduction(op, {}, t));
  return all;
}

/// The operations with an exact form, those of the same terms together, which have a pass of their
/// own; to the default output, and to f64.
inline std::vector<list> exact_lists(dtype t, int inputs) {
  using enum op_id;
  const std::vector<std::vector<op_id>> one{
      {sum, mean}, {nansum}, {nanmean}, {norm_l1}, {norm_l2, sum_squares}, {var, op_id::std}},
      two{{dot}, {squared_distance, mse}, {mae}};
  std::vector<list> lists;
  for (const auto& ops : inputs == 1 ? one : two) {
    list& made = lists.emplace_back();
    for (const op_id op : ops)
      for (const auto out : {std::optional<dtype>(), std::optional(dtype::f64)})
        if (const auto r = make_reduction(op, method_id::exact, t, {}, out);
            std::ranges::find(made, r) == made.end())
          made.push_back(r);
  }
  return lists;
}
/// All of them together.
inline list all_exact(dtype t, int inputs) {
  list all;
  for (const list& some : exact_lists(t, inputs)) all.insert(all.end(), some.begin(), some.end());
  return all;
}

/// Of each kind of step one: folds in one kernel, of some types exact sums, and a sort.
inline list every_kind(dtype t, int inputs) {
  list all = everyday(t, inputs);
  const list exact = all_exact(t, inputs);
  if (is_float(t) || t == dtype::i8) all.insert(all.end(), exact.begin(), exact.end());
  if (inputs == 1) all.push_back(make_reduction(op_id::count_distinct, {}, t));
  return all;
}

}  // namespace bitfold::test
