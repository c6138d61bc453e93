#include "cli/explained.hpp"

#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>

namespace bitfold::cli {

// Nobody looks there; a plan asks how it is aligned.
std::byte* explained_device::room(std::size_t) {
  alignas(256) static std::byte nowhere;
  return &nowhere;
}

std::unique_ptr<output_in_parts> explained_device::in_parts(std::span<const reduction>, std::size_t,
                                                            std::size_t) {
  throw error(errc::usage, "it is larger than any GPU's memory");
}

void explained_device::reduce(std::span<const reduction> all, const view& x, const view* y,
                              std::span<const int> axes, std::span<void* const>, void*,
                              std::size_t) {
  text_ += cuda::request::axes(all, x, y, axes).explain();
}
void explained_device::reduce_segments(std::span<const reduction> all, const void*, const void*,
                                       std::size_t n, const std::int64_t*, std::size_t segments,
                                       std::span<void* const>, void*, std::size_t) {
  text_ += cuda::request::segments(all, n, segments).explain();
}
void explained_device::reduce_by_key(std::span<const reduction> all, const void*, const void*,
                                     std::size_t n, const std::int64_t*, std::size_t outputs,
                                     std::span<void* const>, void*, std::size_t) {
  text_ += cuda::request::by_key(all, n, outputs).explain();
}

}  // namespace bitfold::cli
