// What is asked of a GPU, and the plan of it: pure arithmetic, without addresses, which the
// launcher takes as it stands.
#pragma once

#include <bitfold/cuda.hpp>
#include <bitfold/cuda/outputs.hpp>
#include <bitfold/cuda/tile.hpp>
#include <cstring>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "driver.hpp"
#include "facts.hpp"
#include "kernel.hpp"

namespace bitfold::gpu {

/// What an address is counted from. The launcher knows where these are, a plan does not.
enum class base : std::uint8_t {
  nothing,    ///< no address: null
  workspace,  ///< of the plan
  x,          ///< the first input
  y,          ///< the second
  list,       ///< offsets of segments, or keys
  result      ///< of a reduction
};
struct place {
  base from = base::nothing;
  std::uint32_t number = 0;  ///< of the reduction
  std::uint64_t bytes = 0;   ///< behind it
  place behind(std::uint64_t more) const { return {from, number, bytes + more}; }
};
/// How often `of_each` is begun by so many.
constexpr std::size_t shares(std::size_t items, std::size_t of_each) {
  return (items + of_each - 1) / of_each;
}
/// The next multiple.
constexpr std::size_t up_to(std::size_t size, std::size_t multiple) {
  return shares(size, multiple) * multiple;
}
/// Bytes to where the next thing may lie in a workspace.
constexpr std::size_t rounded_up(std::size_t bytes) { return up_to(bytes, 256); }
inline place in_workspace(std::uint64_t bytes) { return {base::workspace, 0, bytes}; }

/// The arguments of a kernel, one behind the other, as its parameters are. Where addresses go in
/// them is written down; the launcher puts them there.
class arguments {
 public:
  template <class T>
  arguments& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);
    return add_bytes(&value, sizeof(T));
  }
  arguments& add_bytes(const void* from, std::size_t n) {
    begins_.push_back(bytes_.size());
    bytes_.resize((bytes_.size() + n + 15) / 16 * 16);
    std::memcpy(bytes_.data() + begins_.back(), from, n);
    return *this;
  }
  arguments& add_address(place of) { return add(std::uint64_t{0}).set(0, of); }
  /// Of the argument that was added last, the pointer `at` bytes from its beginning.
  arguments& set(std::size_t at, place to) {
    if (to.from != base::nothing) addresses_.push_back({begins_.back() + at, to});
    return *this;
  }

  struct address_at {
    std::size_t at;
    place to;
  };
  const std::vector<std::byte>& bytes() const { return bytes_; }
  const std::vector<std::size_t>& begins() const { return begins_; }
  const std::vector<address_at>& addresses() const { return addresses_; }

 private:
  std::vector<std::byte> bytes_;  // each argument aligned to 16
  std::vector<std::size_t> begins_;
  std::vector<address_at> addresses_;
};

/// Blocks of a grid. Errors (errc::usage): so many elements `n` that it would have more than a
/// grid takes.
unsigned grid_of(std::size_t blocks, std::size_t n);

struct pass {
  kernel what;
  unsigned blocks, threads;
  std::size_t shared_bytes = 0;
  arguments with{};
  bool overlaps = false;  ///< may be set up while the pass ahead of it ends
  unsigned rows_of_blocks = 1;
  std::uint64_t bytes_read = 0;  ///< of the inputs
  std::string_view line{};       ///< of the tuning table, that chose it
};
/// Bytes of one value.
struct fill {
  place at;
  std::size_t bytes;
  unsigned char value = 0;
};
/// Products of matrices of integers of 8 bits into sums of 32, exact, by a library (cuBLASLt):
/// `count` times each of `rows` vectors at `a` with each of `columns` at `b`, of n bytes one behind
/// the other. The steps, in bytes, are from one of those times to the next.
struct integer_product {
  place a, b, to;
  std::uint64_t rows, columns, n, count;
  std::uint64_t a_step, b_step;
  bool adds;  ///< to the sums that are there
  place scratch;
  std::size_t scratch_bytes;
};
using step = std::variant<pass, fill, integer_product>;

struct plan {
  std::vector<step> steps;    ///< in this order
  std::size_t workspace = 0;  ///< bytes, aligned to 16
};

/// Reductions of one element type and number of inputs: of a whole array, or of each of many
/// outputs; and where their operands and results are.
struct problem {
  std::span<const reduction> reductions;
  std::size_t n;                                   ///< elements, at least one, of a whole array;
  bool aligned;                                    ///< which lies at a multiple of 16 bytes, as y;
  const cuda::output_elements* outputs = nullptr;  ///< or outputs on axes, or segments
  /// Of a whole array that comes in parts of `part` elements: those that are there now, at x.
  std::size_t first = 0, count = n, part = n;
  place x{base::x}, y{base::y}, offsets{base::list}, places{};
  std::span<const place> results{};  ///< of each reduction; empty: those of the launcher's
  std::size_t workspace = 0;         ///< bytes of it ahead, which others use
  bool is_in_parts() const { return part < n; }
  place result(std::size_t k) const {
    return results.empty() ? place{base::result, static_cast<std::uint32_t>(k)} : results[k];
  }
};

struct output_plan;

/// Adds what is to be done for reductions with a canonical order, those numbers of the problem's.
/// Those of one base are folded once, those of several in one kernel. Errors (errc::usage): those
/// of plan_array and plan_outputs.
void add_folds(plan& to, const problem& p, std::span<const std::size_t> which,
               const cuda::launch& shape, const tuning& by);

/// The elements of a node of those: what a part of an array has whole numbers of.
std::size_t node_of(const problem& p, std::span<const std::size_t> which, const cuda::launch& shape,
                    const tuning& by);

/// Adds what the kernel of a strategy takes of the plan of outputs on axes, as its parameters are:
/// the numbers, and where the states of its nodes go, if there are several.
void add_numbers(arguments& to, const output_plan& of, place states);
/// The same of the kernel that folds those states.
void add_state_numbers(arguments& to, const output_plan& of, place states, order::index node,
                       order::index nodes);

/// Adds the places of those results, as a parameter of as many cuda::result_place one behind the
/// other; and of outputs, with its addresses, as a parameter.
void add_results(arguments& to, const problem& p, std::span<const std::size_t> which);
void add_outputs(arguments& to, const problem& p, const cuda::output_elements& from);

}  // namespace bitfold::gpu
