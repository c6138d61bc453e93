// libFuzzer target for the npy parser.
#include <span>

#include "check.hpp"
#include "io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    fuzz::check(bitfold::io::parse_npy(std::as_bytes(std::span(data, size)), nullptr), size);
  } catch (const bitfold::error& e) {
    fuzz::check(e);
  }
  return 0;
}
