// The CUDA engine of a library built without CUDA: every call says so.
#include <bitfold/cuda.hpp>
#include <bitfold/rows.hpp>

namespace bitfold::cuda {
namespace {
[[noreturn]] void refuse() {
  throw error(errc::no_device,
              "cuda: this bitfold was built without CUDA; build it where nvcc is on the PATH");
}
}  // namespace

bool built() { return false; }
std::vector<std::string> devices() { return {}; }
current_device::current_device(int) : now_(0), before_(0) { refuse(); }
current_device::~current_device() = default;
void synchronize(stream) { refuse(); }
std::size_t workspace_bytes(const reduction&, std::size_t, const launch&) { refuse(); }
void reduce(const reduction&, const void*, std::size_t, void*, void*, std::size_t, stream,
            const launch&) {
  refuse();
}
void reduce(const reduction&, const void*, const void*, std::size_t, void*, void*, std::size_t,
            stream, const launch&) {
  refuse();
}
void reduce(const reduction&, const void*, std::size_t, void*, stream, const launch&) { refuse(); }
void reduce(const reduction&, const void*, const void*, std::size_t, void*, stream, const launch&) {
  refuse();
}
std::size_t workspace_bytes(std::span<const reduction>, std::size_t, const launch&) { refuse(); }
void reduce(std::span<const reduction>, const void*, const void*, std::size_t,
            std::span<void* const>, void*, std::size_t, stream, const launch&) {
  refuse();
}
std::size_t workspace_bytes(std::span<const reduction>, const view&, const view*,
                            std::span<const int>, const launch&) {
  refuse();
}
void reduce(std::span<const reduction>, const view&, const view*, std::span<const int>,
            std::span<void* const>, void*, std::size_t, stream, const launch&) {
  refuse();
}
std::size_t windows_workspace_bytes(std::span<const reduction>, const view&,
                                    std::span<const window>, const launch&) {
  refuse();
}
void reduce_windows(std::span<const reduction>, const view&, std::span<const window>,
                    std::span<void* const>, void*, std::size_t, stream, const launch&) {
  refuse();
}
void reduce_segments(std::span<const reduction>, const void*, const void*, std::size_t,
                     const std::int64_t*, std::size_t, std::span<void* const>, void*, std::size_t,
                     stream, const launch&) {
  refuse();
}
std::size_t segments_workspace_bytes(std::span<const reduction>, std::size_t, std::size_t,
                                     const launch&) {
  refuse();
}
std::size_t by_key_workspace_bytes(std::span<const reduction>, std::size_t, std::size_t,
                                   const launch&) {
  refuse();
}
void reduce_by_key(std::span<const reduction>, const void*, const void*, std::size_t,
                   const std::int64_t*, std::size_t, std::span<void* const>, void*, std::size_t,
                   stream, const launch&) {
  refuse();
}
void apply(row_function, const rows&, void*, stream) { refuse(); }
std::size_t parameter_gradients_workspace_bytes(row_function, const rows&) { refuse(); }
void parameter_gradients(row_function, const rows&, void*, void*, void*, std::size_t, stream) {
  refuse();
}
void sum_rows(const rows&, const row_segments&, const void*, void*, stream) { refuse(); }
void check_offsets(const std::int64_t*, std::size_t, std::size_t, stream) { refuse(); }
void check_keys(const std::int64_t*, std::size_t, std::size_t, stream) { refuse(); }
std::size_t pieces_workspace_bytes(const reduction&, std::span<const piece>) { refuse(); }
void reduce_pieces(const reduction&, std::span<const piece>, void*, void*, std::size_t, stream) {
  refuse();
}
struct in_parts::plans {};
in_parts::in_parts(std::span<const reduction>, std::size_t, std::size_t, const launch&) {
  refuse();
}
in_parts::~in_parts() = default;
std::size_t in_parts::elements() const { refuse(); }
std::size_t in_parts::workspace_bytes() const { refuse(); }
void in_parts::add(const void*, const void*, std::span<void* const>, void*, std::size_t, stream) {
  refuse();
}
std::vector<scalar> reduce_host(std::span<const reduction>, const void*, const void*, std::size_t,
                                int, const launch&) {
  refuse();
}
scalar reduce_host(const reduction&, const void*, std::size_t, int, const launch&) { refuse(); }
scalar reduce_host(const reduction&, const void*, const void*, std::size_t, int, const launch&) {
  refuse();
}

}  // namespace bitfold::cuda
