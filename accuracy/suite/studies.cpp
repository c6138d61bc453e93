#include "studies.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include <bitfold/reference.hpp>

namespace bitfold::accuracy {

scalar reference_of(const reduction& r, const array_view& x) {
  return reference(r, x.data, x.second(r.op()), x.n);
}

bool reduction_less::operator()(const reduction& a, const reduction& b) const {
  const auto key = [](const reduction& r) {
    return std::tuple(r.op(), r.method(), r.in(), r.acc(), r.out());
  };
  return key(a) < key(b);
}

bool takes_any_order(const reduction& r) {
  return r.method() && info(*r.method()).ordering == ordering::any;
}

finding_row finding(const contestant& c, const char* kind, std::string where, std::string expected, std::string got) {
  return {c.info.id, kind, std::move(where), std::move(expected), std::move(got)};
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

void let_others_settle(const contestant& c, std::size_t way) {
  if (c.info.device == "cpu" && c.variations()[way].threads != 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
}

}  // namespace bitfold::accuracy
