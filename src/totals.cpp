#include <bitfold/totals.hpp>

#include <string>

#include "binned.hpp"
#include "cpu/exact.hpp"
#include "dispatch.hpp"

namespace bitfold {

namespace {
std::vector<reduction> checked(std::vector<reduction> all) {
  for (const reduction& r : all) {
    if (!detail::is_exact(r))
      throw error(errc::usage,
                  "reductions: " + std::string(name(r.op())) + " is not by method exact");
    detail::check_together(all[0], r);
  }
  return all;
}
}  // namespace

totals::totals(std::vector<reduction> all) : all_(checked(std::move(all))), sums_(all_) {}

void totals::add(const void* x, const void* y, std::size_t n, const cpu::options& how) {
  sums_.merge(cpu::sums_of(all_, {x, y}, n, how));
  count_ += n;
}

void totals::merge(const totals& o) {
  if (all_ != o.all_) throw error(errc::usage, "totals: of other reductions");
  sums_.merge(o.sums_);
  count_ += o.count_;
}

scalar totals::result(std::size_t k) const { return sums_.result(all_.at(k), count_); }
bool totals::fits(std::size_t k) const { return sums_.fits(all_.at(k)); }

void totals::check_type(dtype given) const {
  if (!all_.empty() && given != all_[0].in())
    throw error(errc::usage, "data: " + std::string(name(given)) + ", but the reductions are of " +
                                 std::string(name(all_[0].in())));
}

}  // namespace bitfold
