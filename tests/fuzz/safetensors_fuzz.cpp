// libFuzzer target for the safetensors parser: the whole file, one tensor of it, and an index of
// shards.
#include <optional>
#include <span>
#include <string>

#include "check.hpp"
#include "io/safetensors.hpp"
#include "io/shards.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::optional<std::string> tensor;
  for (int run = 0; run < 2; ++run) {
    try {
      std::size_t total = 0;
      for (const auto& a : bitfold::io::parse_safetensors(input, tensor, nullptr)) {
        fuzz::check(a, size);
        fuzz::require(!tensor || a.name == *tensor);
        total += a.bytes();
      }
      fuzz::require(total <= size);  // no byte belongs to two tensors
    } catch (const bitfold::error& e) {
      fuzz::check(e);
    }
    // The head alone, of a pipe.
    try {
      const auto head = bitfold::io::safetensors_head_size(input, size);
      std::uint64_t end = 0;
      for (const auto& p :
           bitfold::io::parse_safetensors_head(input.first(head), tensor, {}, end)) {
        fuzz::require(p.begin >= head && p.begin <= end);
        fuzz::require(p.bytes() <= end - p.begin);
      }
    } catch (const bitfold::error& e) {
      fuzz::check(e);
    }
    tensor = "a";
  }
  try {
    for (const auto& [file, tensors] : bitfold::io::parse_index(input))
      fuzz::require(!file.empty() && !tensors.empty());
  } catch (const bitfold::error& e) {
    fuzz::check(e);
  }
  return 0;
}
