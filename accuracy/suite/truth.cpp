#include "truth.hpp"

namespace bitfold::accuracy {

truth truth_of(const array_view& x, const std::vector<contestant*>& who, bool any_order) {
  truth t;
  const exact_sum sum = sum_exactly(x.type, x.data, x.n);
  t.condition = sum.condition();
  for (const contestant* c : who) {
    const op_id op = c->info.op;
    const elements in{x.type, x.data, x.second(op), x.n};
    if (!t.values.contains(op))
      t.values.emplace(op, op == op_id::sum ? sum.sum : exact_value(op, in));
    for (const auto& r : {c->info.promise, c->info.bound})
      if (r && !t.methods.contains(*r)) {
        truth::by_method& by = t.methods[*r];
        if (op == op_id::sum) by.way = trace_of(*r, x.data, x.n);
        by.result = by.way ? by.way->result : reference_of(*r, x);
        by.bound =
            op == op_id::sum && is_float(x.type) ? error_bound(*r, x.n, sum) : error_bound(*r, in);
      }
    const auto key = truth::of(c->info);
    const auto acc = parse_dtype(c->info.acc);
    if (any_order && !c->info.bound && acc && !t.any_order.contains(key))
      t.any_order.emplace(key, any_order_bound(op, *acc, c->info.out, in));
  }
  return t;
}

}  // namespace bitfold::accuracy
