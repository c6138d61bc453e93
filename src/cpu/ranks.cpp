#include <bitfold/ranks.hpp>
#include <bitfold/shares.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include "../agreement.hpp"
#include "../dispatch.hpp"
#include "../rank_layout.hpp"
#include "task.hpp"

namespace bitfold {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

std::string from_to(const contribution_node& node) {
  return "that of " + std::to_string(node.count) + " contributions from " +
         std::to_string(node.first) + " on";
}

}  // namespace

std::uint64_t own_contributions::count() const {
  if (is_one_) return 1;
  std::uint64_t all = each_.size();
  for (const contribution_node& node : folded_) all += node.count;
  return all;
}

std::vector<contribution_node> own_contributions::nodes(std::uint64_t first) const {
  if (is_one_) return {{first, 1, one_, true}};
  std::vector<contribution_node> all(folded_.begin(), folded_.end());
  for (const void* x : each_) all.push_back({first++, 1, x, true});
  return all;
}

std::uint64_t first_of(communicator& by, std::uint64_t count) {
  const auto calls = detail::agree(by, [&] { return detail::rank_call{"first_of", count}; });
  std::uint64_t first = 0;
  for (int r = 0; r < by.rank(); ++r) first += calls[static_cast<std::size_t>(r)].count;
  return first;
}

namespace cpu {
namespace {

using detail::interval;

const std::byte* at(const void* data, std::size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
std::byte* at(void* data, std::size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

struct call {
  collective what;
  const reduction& r;
  const own_contributions& mine;
  std::size_t n;
  void* out;
  int root;
  const options& opts;
};

// What this rank has folded: nodes of the tree, whatever comes on other ranks. True where the last
// one is a node only if nothing comes.
bool is_for_the_end(std::span<const contribution_node> nodes) {
  std::uint64_t next = nodes.empty() ? 0 : nodes[0].first;
  for (const contribution_node& node : nodes) {
    if (node.first != next || node.count == 0 || node.first % std::bit_ceil(node.count) != 0 ||
        (!std::has_single_bit(node.count) && &node != &nodes.back()))
      refuse("contributions: " + from_to(node) + " is no node of the tree, or out of place");
    if (node.is_elements != (node.count == 1))
      refuse("contributions: " + from_to(node) +
             (node.is_elements ? " has no elements" : " has states, where its elements are taken"));
    next += node.count;
  }
  return !nodes.empty() && !std::has_single_bit(nodes.back().count);
}

// Results of elements `begin` on go to `out`: to where those elements lie, or apart from all.
void check_apart(const call& c, std::span<const contribution_node> nodes, std::size_t elements,
                 const interval& kept) {
  const std::size_t element = size_of(c.r.in()), state = contribution_state_bytes(c.r),
                    result = size_of(c.r.out());
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  for (const contribution_node& node : nodes) {
    const std::size_t size = node.is_elements ? element : state;
    if (node.is_elements && element == result && at(node.data, kept.begin * size) == c.out)
      continue;
    if (address(c.out) < address(node.data) + elements * size &&
        address(node.data) < address(c.out) + kept.size() * result)
      refuse("out: it overlaps a contribution, and results would lie where other elements do");
  }
}

// Of this rank, before it knows of others.
detail::rank_call described(const call& c, int rank, int size) {
  detail::rank_call made{detail::in_words(c.what, c.r, c.n, c.root, size), c.mine.count()};
  static_cast<void>(resolve_target(c.opts));
  const bool scatters = c.what == collective::reduce_scatter;
  const bool keeps = c.what != collective::reduce || rank == c.root;
  const auto here = static_cast<std::size_t>(rank);
  const auto nodes = c.mine.nodes(0);
  made.is_numbered = c.mine.is_numbered();
  made.first = made.is_numbered ? nodes[0].first : 0;
  made.ends = made.is_numbered && is_for_the_end(nodes);
  if (c.n == 0) return made;
  for (const contribution_node& node : nodes)
    if (!node.data) refuse("contributions: null pointer");
  if (!keeps) return made;
  if (!c.out) refuse("out: null pointer");
  check_apart(c, nodes, scatters ? c.n * static_cast<std::size_t>(size) : c.n,
              scatters ? interval{here * c.n, (here + 1) * c.n} : interval{0, c.n});
  return made;
}

// How many contributions each rank has, where what is numbered is numbered as it lies.
std::vector<std::uint64_t> counts_of(const std::vector<detail::rank_call>& calls) {
  std::vector<std::uint64_t> counts;
  std::uint64_t all = 0;
  std::size_t ending = calls.size();
  for (std::size_t r = 0; r < calls.size(); ++r) {
    const auto of_rank = "contributions: those of rank " + std::to_string(r);
    if (calls[r].is_numbered && calls[r].first != all)
      refuse(of_rank + " begin at " + std::to_string(calls[r].first) + ", and " +
             std::to_string(all) + " lie before them");
    if (calls[r].count > 0 && ending < r)
      refuse(of_rank + " come behind a node of rank " + std::to_string(ending) +
             "'s that is none of the tree's but at the end");
    if (calls[r].ends) ending = r;
    counts.push_back(calls[r].count);
    all += calls[r].count;
  }
  return counts;
}

// The steps of a call that is agreed on.
class exchange {
 public:
  exchange(communicator& by, const call& c, std::span<const std::uint64_t> counts)
      : by_(by),
        call_(c),
        layout_(c.what, c.r, counts, c.n, c.root),
        here_(static_cast<std::size_t>(by.rank())) {
    std::uint64_t first = 0;
    for (std::size_t r = 0; r < here_; ++r) first += counts[r];
    mine_ = c.mine.nodes(first);
    std::byte* room = by.room(layout_.rooms(here_));
    for (auto& coming : coming_) room = at(coming = room, layout_.coming(here_));
    room = at(going_ = room, layout_.going(here_));
    for (auto& passing : passing_) room = at(passing = room, layout_.passing(here_));
    kept_ = c.what == collective::reduce_scatter ? layout_.parts[here_].begin : 0;
  }

  // While a step is folded the nodes of the next one come, and the results of the one before go.
  // So no result lies where an element is that is still to be sent or read.
  void run() {
    const std::size_t steps = layout_.steps;
    if (steps == 0) return;
    add_nodes(0);
    start();
    by_.wait();
    for (std::size_t step = 0; step < steps; ++step) {
      const bool more = step + 1 < steps, results = layout_.sends_results && step > 0;
      if (more) add_nodes(step + 1);
      if (results) add_results(step - 1);
      const bool messages = more || results;
      if (messages) start();
      try {
        fold(step);
      } catch (...) {
        if (messages) by_.wait();  // for which there is memory until then
        throw;
      }
      if (messages) by_.wait();
    }
    if (!layout_.sends_results) return;
    add_results(steps - 1);
    start();
    by_.wait();
  }

 private:
  void send(std::size_t to, const std::byte* data, std::size_t bytes) {
    if (bytes > 0) sent_.push_back({static_cast<int>(to), {data, bytes}});
  }
  void receive(std::size_t from, std::byte* data, std::size_t bytes) {
    if (bytes > 0) received_.push_back({static_cast<int>(from), {data, bytes}});
  }
  void start() {
    by_.start(sent_, received_);
    sent_.clear();
    received_.clear();
  }
  // Calls f(rank) for all others, the next one first, so that not all send to the same one.
  template <class F>
  void each_other(F f) const {
    for (std::size_t k = 1; k < layout_.size(); ++k) f((here_ + k) % layout_.size());
  }

  // Of this rank's nodes what others fold, and from them what this one folds.
  void add_nodes(std::size_t step) {
    std::byte* room = going_;
    each_other([&](std::size_t to) {
      const interval part = layout_.piece_of(to, step);
      for (const contribution_node& node : layout_.covers[here_]) {
        const std::size_t size = layout_.bytes_of(node);
        const auto within = part_of_mine(node);
        if (within.size() == 1) {
          send(to, at(within[0].data, part.begin * size), part.size() * size);
        } else if (part.size() > 0) {
          fold_contributions(call_.r, moved(within, part.begin), part.size(), room, call_.opts);
          send(to, room, part.size() * size);
          room += detail::rounded_up(part.size() * size);
        }
      }
    });
    const std::size_t n = layout_.piece_of(here_, step).size();
    room = coming_[step % 2];
    for (std::size_t from = 0; from < layout_.size(); ++from)
      for (const contribution_node& node : layout_.covers[from])
        if (from != here_) {
          receive(from, room, n * layout_.bytes_of(node));
          room += detail::rounded_up(n * layout_.bytes_of(node));
        }
  }
  // What this rank folded, to those that have it sent, and what they folded.
  void add_results(std::size_t step) {
    const interval mine = layout_.piece_of(here_, step);
    each_other([&](std::size_t r) {
      if (layout_.has_results_sent(r)) send(r, results(mine, step), mine.size() * layout_.result);
      if (layout_.has_results_sent(here_)) {
        const interval theirs = layout_.piece_of(r, step);
        receive(r, results(theirs, step), theirs.size() * layout_.result);
      }
    });
  }
  void fold(std::size_t step) {
    const interval part = layout_.piece_of(here_, step);
    if (part.size() == 0) return;
    std::vector<contribution_node> all;
    const std::byte* room = coming_[step % 2];
    for (std::size_t from = 0; from < layout_.size(); ++from) {
      if (from == here_) {
        std::ranges::copy(moved(mine_, part.begin), std::back_inserter(all));
        continue;
      }
      for (contribution_node node : layout_.covers[from]) {
        node.data = room;
        room += detail::rounded_up(part.size() * layout_.bytes_of(node));
        all.push_back(node);
      }
    }
    reduce_contributions(call_.r, all, part.size(), results(part, step), call_.opts);
  }

  // Where results of those elements are on this rank.
  std::byte* results(const interval& part, std::size_t step) const {
    return layout_.passing(here_) > 0 ? passing_[step % 2]
                                      : at(call_.out, (part.begin - kept_) * layout_.result);
  }
  // Those of which a node is made that it sends: that one, or several which are folded to it.
  std::span<const contribution_node> part_of_mine(const contribution_node& node) const {
    const auto begin = std::ranges::lower_bound(mine_, node.first, {}, &contribution_node::first);
    const auto end =
        std::ranges::lower_bound(mine_, node.first + node.count, {}, &contribution_node::first);
    return {begin, end};
  }
  // The same nodes from that element on.
  std::vector<contribution_node> moved(std::span<const contribution_node> nodes,
                                       std::size_t begin) const {
    std::vector<contribution_node> all(nodes.begin(), nodes.end());
    for (contribution_node& node : all)
      node.data = at(node.data, begin * (node.is_elements ? layout_.element : layout_.state));
    return all;
  }

  communicator& by_;
  const call& call_;
  const detail::rank_layout layout_;
  const std::size_t here_;
  std::vector<contribution_node> mine_;
  std::byte *coming_[2] = {}, *going_ = nullptr, *passing_[2] = {};
  std::size_t kept_ = 0;  // the element whose result is the first one in `out`
  std::vector<communicator::outgoing> sent_;
  std::vector<communicator::incoming> received_;
};

void make(communicator& by, const call& c) {
  const auto counts =
      counts_of(detail::agree(by, [&] { return described(c, by.rank(), by.size()); }));
  exchange(by, c, counts).run();
}

}  // namespace

void all_reduce(communicator& by, const reduction& r, const own_contributions& mine, std::size_t n,
                void* out, const options& opts) {
  make(by, {collective::all_reduce, r, mine, n, out, 0, opts});
}

void reduce(communicator& by, const reduction& r, const own_contributions& mine, std::size_t n,
            void* out, int root, const options& opts) {
  make(by, {collective::reduce, r, mine, n, out, root, opts});
}

void reduce_scatter(communicator& by, const reduction& r, const own_contributions& mine,
                    std::size_t n, void* out, const options& opts) {
  make(by, {collective::reduce_scatter, r, mine, n, out, 0, opts});
}

void reduce_shares(communicator& by, std::span<const reduction> reductions, const void* x,
                   const void* y, std::size_t n, std::span<scalar> out, const options& opts) {
  const auto describe = [&] {
    detail::rank_call made{"reduce_shares of an array:", n};
    if (out.size() != reductions.size())
      refuse("out: room for " + std::to_string(out.size()) + " results of " +
             std::to_string(reductions.size()) + " reductions");
    for (const reduction& r : reductions) {
      detail::check_inputs(r, x, y, n);
      detail::check_together(reductions[0], r);
      made.line += " " + detail::in_words(r) + ";";
    }
    static_cast<void>(make_share(reductions, nullptr, nullptr, 0, 0, opts));  // refuses the others
    return made;
  };
  const auto calls = detail::agree(by, describe);
  const auto here = static_cast<std::size_t>(by.rank());
  std::uint64_t first = 0;
  for (std::size_t r = 0; r < here; ++r) first += calls[r].count;
  const auto mine = make_share(reductions, x, y, n, first, opts);

  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(calls.size());
  by.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)));
  std::vector<std::vector<std::byte>> theirs(calls.size());
  std::vector<std::span<const std::byte>> shares(calls.size());
  std::vector<communicator::outgoing> send;
  std::vector<communicator::incoming> receive;
  for (std::size_t r = 0; r < calls.size(); ++r) {
    if (r == here) {
      shares[r] = mine;
      continue;
    }
    theirs[r].resize(lengths[r]);
    shares[r] = theirs[r];
    send.push_back({static_cast<int>(r), mine});
    receive.push_back({static_cast<int>(r), theirs[r]});
  }
  by.start(send, receive);
  by.wait();
  reduce_shares(reductions, shares, out);
}

}  // namespace cpu
}  // namespace bitfold
