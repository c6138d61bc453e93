#include <bitfold/totals.hpp>

#include <string>

#include "binned.hpp"
#include "cpu/exact.hpp"
#include "dispatch.hpp"

namespace bitfold {

namespace {
std::vector<reduction> checked(std::vector<reduction> reductions) {
  for (const reduction& r : reductions) {
    if (!detail::is_exact(r))
      throw error(errc::usage,
                  "reductions: " + std::string(name(r.op())) + " is not by method exact");
    detail::check_together(reductions[0], r);
  }
  return reductions;
}
}  // namespace

totals::totals(std::vector<reduction> reductions)
    : reductions_(checked(std::move(reductions))), sums_(reductions_) {}

void totals::add(const void* x, const void* y, std::size_t n, const cpu::options& opts) {
  sums_.merge(cpu::sums_of(reductions_, {x, y}, n, opts));
  count_ += n;
}

void totals::merge(const totals& o) {
  if (reductions_ != o.reductions_) throw error(errc::usage, "totals: of other reductions");
  sums_.merge(o.sums_);
  count_ += o.count_;
}

scalar totals::result(std::size_t k) const { return sums_.result(reductions_.at(k), count_); }
bool totals::fits(std::size_t k) const { return sums_.fits(reductions_.at(k)); }

void totals::check_type(dtype given) const {
  if (!reductions_.empty() && given != reductions_[0].in())
    throw error(errc::usage, "data: " + std::string(name(given)) + ", but the reductions are of " +
                                 std::string(name(reductions_[0].in())));
}

}  // namespace bitfold
