// Reductions over the ranks of a communicator: of arrays that each rank has some of, and of one
// array that lies in parts on ranks. The bits are those of one process that has all
// (docs/distributed.md).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <bitfold/communicator.hpp>
#include <bitfold/contributions.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/reduction.hpp>

namespace bitfold {

/// What a rank has of the contributions of a call: none; one; some, each at an address; or what it
/// has folded of them. It refers to what it is made of.
class own_contributions {
 public:
  own_contributions() = default;
  /// One, at this address.
  own_contributions(const void* x) : one_(x), is_one_(true) {}
  /// Some, each at an address, in their order.
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const void* const>>
  own_contributions(const Range& each) : each_(each) {}
  /// What was folded of some (cpu::fold_contributions), numbered over all ranks (first_of). A node
  /// of one contribution has its elements.
  template <class Range>
    requires std::convertible_to<const Range&, std::span<const contribution_node>>
  own_contributions(const Range& folded) : folded_(folded), is_numbered_(true) {}

  /// How many contributions these are.
  std::uint64_t count() const;
  /// Whether their nodes have numbers of their own.
  bool is_numbered() const { return is_numbered_ && !folded_.empty(); }
  /// As nodes, the first of which has that number if they have none of their own.
  std::vector<contribution_node> nodes(std::uint64_t first) const;

 private:
  const void* one_ = nullptr;
  std::span<const void* const> each_;
  std::span<const contribution_node> folded_;
  bool is_one_ = false, is_numbered_ = false;
};

/// The kinds of calls that a plan can be of.
enum class collective { all_reduce, reduce, reduce_scatter };

/// What a rank does in a call: computed by the call itself from these very numbers.
struct rank_plan {
  std::string call;  ///< what it is, in words
  int rank = 0, size = 1;
  std::size_t begin = 0, end = 0;    ///< elements that this rank folds: `begin` to `end` - 1
  std::size_t steps = 0, piece = 0;  ///< how often ranks exchange elements, and of how many each
  std::uint64_t sent = 0, received = 0;  ///< bytes of its messages, without a header of 512 bytes
  std::uint64_t memory = 0;              ///< bytes beyond the arrays, which the communicator keeps

  /// A line for the call, one for what is folded, one for messages, one for memory.
  std::string explain() const;
};

/// The plan of `rank` for a call. Sends nothing, and needs no other rank.
/// contributions: contributions[r] is how many rank r has.
/// n, root: those of the call.
/// Errors (errc::usage): those of the call.
rank_plan plan_of(collective what, const reduction& r, std::span<const std::uint64_t> contributions,
                  std::size_t n, int rank, int root = 0);

/// How many contributions the ranks before this one have, where it has `count`: the number of its
/// first one. All ranks call it. Errors: what the communicator throws; errc::usage where other
/// ranks make another call.
std::uint64_t first_of(communicator& by, std::uint64_t count);

namespace cpu {

// All ranks make these calls, in the same order, whose errors are those of all_reduce.

/// The reduction of all ranks' contributions, element by element, on every rank: the results of
/// reduce_contributions, where the contributions of rank 0 come first.
/// by: the ranks, of which each makes this call.
/// r: an operation of one input, by a method that has an order or by exact.
/// mine: what this rank has: none, one, some, or folded ones, of n elements of type r.in() each.
/// n: the same on all ranks.
/// out: room for n results of type r.out(). It may be a contribution if its elements are as large.
/// opts: threads and target of this rank, on which no bit depends. The communicator is called by
/// the thread that calls. Cost: plan_of says how many bytes each rank sends, receives and keeps.
/// The call begins with a header, by which ranks compare what they ask for: the kind of call, the
/// reduction, n and root. Errors (errc::usage) on every rank, before any element is sent: calls
/// that differ; one that a rank refuses, which has that error itself; no contributions on all ranks
/// together; folded ones that are not numbered as they lie on ranks. A rank refuses, besides what
/// fold_contributions does, a null pointer, and an `out` that overlaps a contribution, unless each
/// result lies where the same element does. What the communicator throws goes on to the caller;
/// some results may be written then.
void all_reduce(communicator& by, const reduction& r, const own_contributions& mine, std::size_t n,
                void* out, const options& opts = {});

/// As all_reduce, with the results on rank `root` alone: elsewhere `out` is not looked at and may
/// be null. Errors, besides: a root that is no rank.
void reduce(communicator& by, const reduction& r, const own_contributions& mine, std::size_t n,
            void* out, int root = 0, const options& opts = {});

/// As all_reduce, of which each rank gets its part alone.
/// mine: contributions of n elements for each rank, those for rank 0 first.
/// n: results of a rank.
/// out: room for the n results of this rank.
void reduce_scatter(communicator& by, const reduction& r, const own_contributions& mine,
                    std::size_t n, void* out, const options& opts = {});

/// Reductions of one array that lies in shares on the ranks, those of rank 0 first: on every rank
/// the results of the whole array, in one pass.
/// x, y: this rank's share; y is null where the reductions take one input.
/// n: elements of the share, perhaps none, and others on other ranks.
/// out: out[k] is the result of reductions[k].
/// Errors (errc::usage), besides: those of make_share; no result for no elements.
void reduce_shares(communicator& by, std::span<const reduction> reductions, const void* x,
                   const void* y, std::size_t n, std::span<scalar> out, const options& opts = {});

}  // namespace cpu
}  // namespace bitfold
