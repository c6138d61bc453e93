// libFuzzer target for the serialised form of exact sums, of every type.
#include <algorithm>

#include <bitfold/accumulator.hpp>

#include "check.hpp"

namespace {
template <class A>
void try_as(std::span<const std::byte> bytes) {
  try {
    const A a = A::from_bytes(bytes);
    fuzz::require(std::ranges::equal(a.to_bytes(), bytes));  // one sum, one form
    fuzz::require(A().merge(a).to_bytes() == a.to_bytes());
    a.template round<double>();
    a.template round_quotient<float>(3);
    a.template round_root<bitfold::float16>();
  } catch (const bitfold::error& e) {
    fuzz::check(e);
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  for (const bitfold::dtype t : bitfold::all_dtypes)
    bitfold::visit(t, [&]<class T>(std::type_identity<T>) {
      try_as<bitfold::accumulator<T>>(bytes);
      try_as<bitfold::product_accumulator<T>>(bytes);
    });
  return 0;
}
