#include <bitfold/error.hpp>
#include "exact.hpp"
#include "sort.hpp"
namespace bitfold::gpu {
[[noreturn]] static void no() { throw error(errc::usage, "not yet"); }
void add_exact(plan&, const problem&, std::span<const std::size_t>, const device_facts&, const cuda::launch&) { no(); }
void add_exact_pieces(plan&, const problem&, std::span<const cuda::piece>, const device_facts&) { no(); }
sorted_keys add_keys(plan&, dtype, bool, std::size_t, std::size_t, std::size_t) { no(); }
void add_distinct(plan&, const problem&, std::span<const std::size_t>) { no(); }
void add_scatter(plan&, place, dtype, const detail::axes&, std::uint64_t, place) { no(); }
}
