// libFuzzer target for the parser of golden files.
#include "check.hpp"
#include "io/golden.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitfold::io;
  try {
    const auto text = golden_text(parse_golden({reinterpret_cast<const char*>(data), size}));
    fuzz::require(golden_text(parse_golden(text)) == text);  // what is written can be read
  } catch (const bitfold::error& e) {
    fuzz::check(e);
  }
  return 0;
}
