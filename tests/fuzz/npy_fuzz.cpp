// libFuzzer target for the npy parser.
#include <optional>
#include <span>

#include "check.hpp"
#include "io/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const auto& type : {std::optional<bitfold::io::element_type>(), {bitfold::dtype::bf16}})
    try {
      fuzz::check(bitfold::io::parse_npy(std::as_bytes(std::span(data, size)), type, nullptr),
                  size);
    } catch (const bitfold::error& e) {
      fuzz::check(e);
    }
  return 0;
}
