#include "channel_functions.hpp"

#include <string>

#include "arguments.hpp"

namespace bitfold::channel {
namespace {

using detail::check_arrays;
using detail::refuse_argument;

void check_elements(const channels& of) {
  detail::check_float(of.type);
  if (of.sharing == 0 || of.count % of.sharing)
    refuse_argument("sharing", std::to_string(of.sharing) + ", which does not divide " +
                                   std::to_string(of.count) + " channels");
  (void)detail::size_of_x({of.outer, of.count, of.inner});
}

std::size_t wide(dtype type) { return size_of(type == dtype::f64 ? dtype::f64 : dtype::f32); }

}  // namespace

void check(channel_function f, const channels& of, const void* out) {
  check_elements(of);
  if (of.size() == 0) return;
  visit(f, [&]<class F>(std::type_identity<F>) {
    check_arrays({{"x", of.x, true}, {"y", of.y, F::takes_y}, {"out", out, true}},
                 size_of(of.type));
    check_arrays({{"w", of.w, false},
                  {"b", of.b, false},
                  {"mean", of.mean, F::centred},
                  {"rstd", of.rstd, true},
                  {"low", of.low, F::takes_low},
                  {"mean_g", of.mean_g, F::takes_sums},
                  {"slope", of.slope, F::takes_sums}},
                 wide(of.type));
  });
}

void check(const channels& of, const channel_sums& to) {
  check_elements(of);
  if (of.size() == 0) refuse_argument("x", "no elements, of which there are no gradients");
  if (!to.mean_g && !to.slope && !to.dw && !to.db) refuse_argument("to", "nothing that is wanted");
  check_arrays({{"x", of.x, true}, {"y", of.y, true}}, size_of(of.type));
  check_arrays({{"w", of.w, false},
                {"mean", of.mean, true},
                {"rstd", of.rstd, true},
                {"mean_g", to.mean_g, false},
                {"slope", to.slope, false},
                {"dw", to.dw, false},
                {"db", to.db, false}},
               wide(of.type));
}

std::vector<sums_pass> passes_of(const channels& of, const channel_sums& to) {
  const bool statistics = to.mean_g || to.slope, parameters = to.dw || to.db,
             of_one = of.sharing == 1 && (!of.of_each_outer || of.outer == 1);
  if (of_one) return {{true, statistics, parameters, to}};
  std::vector<sums_pass> passes;
  if (statistics) passes.push_back({false, true, false, {to.mean_g, to.slope, nullptr, nullptr}});
  if (parameters) passes.push_back({true, false, true, {nullptr, nullptr, to.dw, to.db}});
  return passes;
}

view view_of(const channels& of) {
  const auto extent = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  return row_major(
      of.type, of.x,
      {extent(of.outer), extent(of.count / of.sharing), extent(of.sharing), extent(of.inner)});
}
std::span<const int> axes_of(const channels& of, const sums_pass& p) {
  static constexpr int outer_and_inner[] = {0, 3}, all_of_statistic[] = {0, 2, 3},
                       of_each_outer[] = {2, 3};
  if (p.of_channels) return outer_and_inner;
  if (of.of_each_outer) return of_each_outer;
  return all_of_statistic;
}

}  // namespace bitfold::channel
