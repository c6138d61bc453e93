#include "rank_layout.hpp"

#include <bitfold/error.hpp>

#include <algorithm>
#include <numeric>

namespace bitfold {
namespace detail {
namespace {

// Up to so many bytes, which each rank would send, every rank folds all elements: one exchange,
// where there would be two.
constexpr std::size_t few_bytes = std::size_t{1} << 16;
constexpr std::uint64_t most = std::uint64_t{1} << 60;

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

std::string_view word(collective what) {
  switch (what) {
    case collective::all_reduce: return "all_reduce";
    case collective::reduce: return "reduce";
    case collective::reduce_scatter: return "reduce_scatter";
  }
  return {};
}

std::vector<interval> even_parts(std::size_t n, std::size_t size) {
  const std::size_t each = rounded_up((n + size - 1) / size);
  std::vector<interval> parts;
  for (std::size_t r = 0; r < size; ++r)
    parts.push_back({std::min(r * each, n), std::min((r + 1) * each, n)});
  return parts;
}

}  // namespace

std::size_t bytes_for_messages = std::size_t{1} << 21;

std::string in_words(collective what, const reduction& r, std::size_t n, int root, int size) {
  if (what == collective::reduce && (root < 0 || root >= size))
    refuse("root: " + std::to_string(root) + " is none of " + std::to_string(size) + " ranks");
  const std::size_t parts = what == collective::reduce_scatter ? static_cast<std::size_t>(size) : 1;
  const std::size_t bytes =
      std::max({contribution_state_bytes(r), size_of(r.in()), sizeof(double)});
  if (n > most / bytes / parts) refuse("n: " + std::to_string(n) + " elements are too many");
  std::string text =
      std::string(word(what)) + " of " + std::to_string(n) + " elements, " + in_words(r);
  if (what == collective::reduce) text += ", on rank " + std::to_string(root);
  return text;
}

std::string in_words(const reduction& r) {
  std::string text(name(r.op()));
  if (r.method()) text += " by " + std::string(name(*r.method()));
  text += " of " + std::string(name(r.in())) + " in " + std::string(name(r.acc())) + " to " +
          std::string(name(r.out()));
  return r.ddof() == 0 ? text : text + ", ddof " + std::to_string(r.ddof());
}

rank_layout::rank_layout(collective what, const reduction& r,
                         std::span<const std::uint64_t> contributions, std::size_t n, int root)
    : element(size_of(r.in())), state(contribution_state_bytes(r)), result(size_of(r.out())) {
  const std::size_t size = contributions.size();
  std::uint64_t all = 0;
  for (const std::uint64_t count : contributions) {
    if (count > most - all) refuse("contributions: more than 2^60");
    all += count;
  }
  if (all == 0) refuse("contributions: none, on all ranks");
  for (std::uint64_t first = 0; const std::uint64_t count : contributions) {
    covers.push_back(covering(first, first + count, all));
    first += count;
  }
  if (what == collective::reduce_scatter) {
    for (std::size_t k = 0; k < size; ++k) parts.push_back({k * n, (k + 1) * n});
  } else if (size > 1 && n > few_bytes / state / (size - 1)) {
    parts = even_parts(n, size);
    sends_results = true;
  } else {
    for (std::size_t k = 0; k < size; ++k)
      parts.push_back(
          {0, what == collective::all_reduce || k == static_cast<std::size_t>(root) ? n : 0});
  }
  if (what == collective::reduce) this->root = root;

  // As many elements at once as every rank has room for.
  piece = together;
  std::size_t unit = 0;
  for (std::size_t k = 0; k < size; ++k) unit = std::max(unit, rooms(k));
  const std::size_t longest = std::ranges::max(parts, {}, &interval::size).size();
  piece = unit == 0 ? std::max<std::size_t>(longest, 1)
                    : together * std::max<std::size_t>(1, bytes_for_messages / unit);
  steps = longest / piece + (longest % piece != 0);
}

interval rank_layout::piece_of(std::size_t rank, std::size_t step) const {
  const interval& part = parts[rank];
  return {std::min(part.begin + step * piece, part.end),
          std::min(part.begin + (step + 1) * piece, part.end)};
}

std::size_t rank_layout::coming(std::size_t rank) const {
  const std::size_t n = std::min(piece, parts[rank].size());
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < size(); ++k)
    for (const contribution_node& node : covers[k])
      bytes += k == rank ? 0 : rounded_up(n * bytes_of(node));
  return bytes;
}

std::size_t rank_layout::going(std::size_t rank) const {
  const auto folded = static_cast<std::size_t>(
      std::ranges::count_if(covers[rank], [](const auto& node) { return node.count > 1; }));
  std::size_t bytes = 0;
  for (std::size_t k = 0; k < size(); ++k)
    bytes += k == rank ? 0 : folded * rounded_up(std::min(piece, parts[k].size()) * state);
  return bytes;
}

std::size_t rank_layout::passing(std::size_t rank) const {
  const bool keeps = root < 0 || rank == static_cast<std::size_t>(root);
  return keeps ? 0 : rounded_up(std::min(piece, parts[rank].size()) * result);
}

}  // namespace detail

std::vector<contribution_node> covering(std::uint64_t first, std::uint64_t last,
                                        std::uint64_t all) {
  std::vector<contribution_node> nodes;
  while (first < last) {
    std::uint64_t size = 1;
    while (size < all && first % (2 * size) == 0 && std::min(first + 2 * size, all) <= last)
      size *= 2;
    const std::uint64_t count = std::min(first + size, all) - first;
    nodes.push_back({first, count, nullptr, count == 1});
    first += count;
  }
  return nodes;
}

rank_plan plan_of(collective what, const reduction& r, std::span<const std::uint64_t> contributions,
                  std::size_t n, int rank, int root) {
  const int size = static_cast<int>(contributions.size());
  if (rank < 0 || rank >= size)
    detail::refuse("rank: " + std::to_string(rank) + " is none of " + std::to_string(size));
  rank_plan p;
  p.call = detail::in_words(what, r, n, root, size);
  const detail::rank_layout by(what, r, contributions, n, root);
  const auto here = static_cast<std::size_t>(rank);
  p.rank = rank;
  p.size = size;
  p.begin = by.parts[here].begin;
  p.end = by.parts[here].end;
  p.steps = by.steps;
  p.piece = by.piece;
  p.memory = by.rooms(here);
  const auto bytes_of_nodes = [&](std::size_t from) {
    return std::accumulate(
        by.covers[from].begin(), by.covers[from].end(), std::uint64_t{0},
        [&](std::uint64_t sum, const contribution_node& node) { return sum + by.bytes_of(node); });
  };
  for (std::size_t k = 0; k < by.size(); ++k) {
    if (k == here) continue;
    p.sent += by.parts[k].size() * bytes_of_nodes(here);
    p.received += by.parts[here].size() * bytes_of_nodes(k);
    if (by.has_results_sent(k)) p.sent += by.parts[here].size() * by.result;
    if (by.has_results_sent(here)) p.received += by.parts[k].size() * by.result;
  }
  return p;
}

std::string rank_plan::explain() const {
  const auto text = [](std::uint64_t n) { return std::to_string(n); };
  std::string lines = "rank " + text(static_cast<std::uint64_t>(rank)) + " of " +
                      text(static_cast<std::uint64_t>(size)) + ": " + call + "\n";
  if (begin == end)
    lines += "  folds nothing\n";
  else
    lines += "  folds elements " + text(begin) + " to " + text(end - 1) + "\n";
  lines += "  messages: in steps of up to " + text(piece) + " elements from each rank to each, " +
           text(steps) + " of them\n";
  lines += "  sends " + text(sent) + " bytes, receives " + text(received) +
           ", and a header of 512 from each rank\n";
  return lines + "  has room for " + text(memory) + " bytes of messages\n";
}

}  // namespace bitfold
