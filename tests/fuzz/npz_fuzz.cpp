// libFuzzer target for the parser of .npz files.
#include <span>

#include "check.hpp"
#include "io/npz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t largest_ratio = 1032;  // of deflate
  try {
    for (const auto& a :
         bitfold::io::parse_npz(std::as_bytes(std::span(data, size)), {}, {}, nullptr))
      fuzz::check(a, largest_ratio * size);
  } catch (const bitfold::error& e) {
    fuzz::check(e);
  }
  return 0;
}
