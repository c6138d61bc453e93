// How a call over ranks is shared out: which elements a rank folds, which nodes of the tree over
// contributions it sends, and in which pieces. All ranks compute the same.
#pragma once

#include <bitfold/ranks.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace bitfold::detail {

/// Elements `begin` to `end` - 1.
struct interval {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

/// What a rank may have for messages at a time, in bytes. (Tests have less.)
extern std::size_t bytes_for_messages;

/// In elements, where intervals and pieces begin; in bytes, where what is sent lies in a room.
inline constexpr std::size_t together = 64;
constexpr std::size_t rounded_up(std::size_t n) { return (n + together - 1) / together * together; }

/// What a reduction is, in words.
std::string in_words(const reduction& r);
/// What a call is, the same on all of its ranks. Errors (errc::usage): r has no states; a root
/// that is none of the ranks; too many elements.
std::string in_words(collective what, const reduction& r, std::size_t n, int root, int size);

struct rank_layout {
  /// For what in_words has taken. Errors (errc::usage): none on all ranks; too many.
  rank_layout(collective what, const reduction& r, std::span<const std::uint64_t> contributions,
              std::size_t n, int root);

  std::size_t size() const { return parts.size(); }
  /// What a rank folds in a step.
  interval piece_of(std::size_t rank, std::size_t step) const;
  /// Whether results come to that rank from those that folded them.
  bool has_results_sent(std::size_t rank) const {
    return sends_results && (root < 0 || rank == static_cast<std::size_t>(root));
  }
  /// Of an element, as the node is sent.
  std::size_t bytes_of(const contribution_node& node) const {
    return node.count == 1 ? element : state;
  }

  /// Bytes of a rank's rooms: for the nodes that come in a step, of which rooms there are two; for
  /// the states that go; for results that another rank keeps, of which there are two as well.
  std::size_t coming(std::size_t rank) const;
  std::size_t going(std::size_t rank) const;
  std::size_t passing(std::size_t rank) const;
  std::size_t rooms(std::size_t rank) const {
    return 2 * coming(rank) + going(rank) + 2 * passing(rank);
  }

  std::size_t element = 0, state = 0, result = 0;      // bytes of one
  std::vector<std::vector<contribution_node>> covers;  // of each rank, without data
  std::vector<interval> parts;                         // what each rank folds
  bool sends_results = false;
  int root = -1;  // the rank that alone has results, if one has
  std::size_t piece = 0, steps = 0;
};

}  // namespace bitfold::detail
