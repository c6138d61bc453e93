#include <bitfold/shares.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>

#include "../binned.hpp"
#include "../dispatch.hpp"
#include "../fp_environment.hpp"
#include "exact.hpp"
#include "forest.hpp"
#include "task.hpp"

namespace bitfold::cpu {
namespace {

using order::index;

// How a share begins. Behind it: a code for each reduction; the elements of x, then those of y,
// that belong to leaves which are not whole in it, those before its whole leaves first; for each
// task the number of its nodes, and each node with its state; the exact sums.
struct header {
  std::uint32_t magic = 0x68736662, version = 1;
  std::uint64_t reductions = 0, first = 0, n = 0;
};
using code = std::array<std::int32_t, 6>;
struct node_header {
  std::uint64_t leaf, leaves, n;
};

code code_of(const reduction& r) {
  return {static_cast<std::int32_t>(r.op()),
          static_cast<std::int32_t>(r.method().value_or(method_id::tree)),
          static_cast<std::int32_t>(r.in()),
          static_cast<std::int32_t>(r.acc()),
          static_cast<std::int32_t>(r.out()),
          r.ddof()};
}

// The reductions whose states merge in an order, and which those are.
struct ordered {
  std::vector<task> tasks;
  std::vector<std::size_t> of;

  ordered(std::span<const reduction> reductions, target t) {
    for (std::size_t k = 0; k < reductions.size(); ++k) {
      const reduction& r = reductions[k];
      detail::check_together(reductions[0], r);
      if (detail::is_exact(r)) continue;
      tasks.push_back({find_kernels(t, r), functions_for(r)});
      of.push_back(k);
      if (!tasks.back().kernels.fold || tasks.back().states.size == 0)
        throw error(errc::usage, "op: " + std::string(name(r.op())) + (r.method() ? " by " : "") +
                                     std::string(r.method() ? name(*r.method()) : "") +
                                     " has no states of parts of an array");
    }
  }
};

// Which elements of a share belong to whole leaves, counted from its first one.
struct split {
  std::size_t begin, end;
  split(index first, std::size_t n) {
    const index before = (order::leaf - first % order::leaf) % order::leaf;
    begin = static_cast<std::size_t>(std::min<index>(before, n));
    end = begin + (n - begin) / order::leaf * order::leaf;
  }
};

// ---- Making one ---------------------------------------------------------------------------------

class writer {
 public:
  void put(const void* data, std::size_t bytes) {
    const auto* const from = static_cast<const std::byte*>(data);
    if (bytes > 0) bytes_.insert(bytes_.end(), from, from + bytes);
  }
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(&value, sizeof value);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// The states of whole leaves, n elements in all of which the first has index `first`: a forest for
// each task.
std::vector<forest> fold_leaves(std::span<const task> tasks, std::size_t element, inputs data,
                                std::size_t n, index first, const options& opts) {
  constexpr std::size_t chunk = 64 * tile_elements;
  if (n == 0 || tasks.empty()) return std::vector<forest>(tasks.size());
  // Chunks and tiles begin at multiples of their lengths, in the whole array.
  const index chunks = (first + n - 1) / chunk - first / chunk + 1;
  std::vector<std::vector<forest>> parts(tasks.size(), std::vector<forest>(chunks));
  std::vector<target> used(chunks);
  parallel_for(chunks, threads_for(opts, n * element * (data.y ? 2 : 1)), [&](std::size_t c) {
    tile_folder folder;
    const index chunk_begin = (first / chunk + c) * chunk;
    const index end = std::min<index>(first + n, chunk_begin + chunk);
    for (index i = std::max(first, chunk_begin); i < end;) {
      // A tile's leaves make a node only where all of them are there.
      const bool whole = i % tile_elements == 0 && end - i >= tile_elements;
      const std::size_t taken = whole ? tile_elements : order::leaf;
      const inputs at = offset(data, static_cast<std::ptrdiff_t>((i - first) * element));
      folder.fold(tasks, at, taken, i, used[c], [&](std::size_t k, const partial& s) {
        parts[k][c].push(tasks[k], i / order::leaf, taken / order::leaf, taken, s.bytes);
      });
      i += taken;
    }
  });
  report(used[0]);
  std::vector<forest> whole;
  for (std::size_t k = 0; k < tasks.size(); ++k)
    whole.push_back(forest::joined(tasks[k], parts[k]));
  return whole;
}

void put_forest(writer& to, const task& t, const forest& f) {
  to.put(std::uint64_t{f.size()});
  f.each(t, [&](index leaf, index leaves, index n, const std::byte* state) {
    to.put(node_header{leaf, leaves, n});
    to.put(state, t.states.size);
  });
}

std::vector<reduction> exact_ones(std::span<const reduction> reductions) {
  std::vector<reduction> exact;
  std::ranges::copy_if(reductions, std::back_inserter(exact), detail::is_exact);
  return exact;
}

// ---- Reading one --------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& what) {
  throw error(errc::bad_input, "shares: " + what);
}

class reader {
 public:
  explicit reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> take(std::uint64_t bytes) {
    if (bytes > bytes_.size()) refuse("one is cut off");
    const auto taken = bytes_.first(static_cast<std::size_t>(bytes));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

// All shares, joined one after the other.
class joined_shares {
 public:
  joined_shares(std::span<const reduction> reductions)
      : reductions_(reductions),
        by_(reductions, resolve_target({})),
        forests_(by_.tasks.size()),
        exact_(exact_ones(reductions)),
        sums_(exact_),
        element_(reductions.empty() ? 0 : size_of(reductions[0].in())),
        inputs_(reductions.empty() ? 0
                                   : static_cast<std::size_t>(info(reductions[0].op()).inputs)) {}

  void add(std::span<const std::byte> share) {
    reader from(share);
    const auto head = from.take<header>();
    if (head.magic != header{}.magic || head.version != header{}.version)
      refuse("one was not made by make_share, or by another version of bitfold");
    if (head.reductions != reductions_.size()) refuse("one is of other reductions");
    for (const reduction& r : reductions_) {
      if (from.take<code>() != code_of(r)) refuse("one is of other reductions");
    }
    if (head.first != n_) refuse("one does not begin where the one before it ends");
    if (!by_.tasks.empty()) add_leaves(from, head);
    add_sums(from);
    if (!from.at_end()) refuse("one is too long");
    n_ += head.n;
  }

  void finish(std::span<scalar> out) {
    if (!pending_[0].empty()) fold_pending();
    const detail::fp_environment guard;
    for (std::size_t k = 0; k < reductions_.size(); ++k)
      if (n_ == 0)
        out[k] = detail::empty_result(reductions_[k]);
      else if (detail::is_exact(reductions_[k]))
        out[k] = sums_.result(reductions_[k], n_);
    for (std::size_t t = 0; t < by_.tasks.size() && n_ > 0; ++t) {
      if (forests_[t].empty()) refuse("states are missing");
      const partial s = forests_[t].total(by_.tasks[t]);
      if (s.n != n_) refuse("states are missing");
      out[by_.of[t]] = by_.tasks[t].states.result(reductions_[by_.of[t]], s.bytes, n_);
    }
  }

 private:
  void add_leaves(reader& from, const header& head) {
    const split s(head.first, static_cast<std::size_t>(head.n));
    const std::size_t tail = static_cast<std::size_t>(head.n) - s.end;
    std::span<const std::byte> parts[2];
    for (std::size_t i = 0; i < inputs_; ++i) parts[i] = from.take((s.begin + tail) * element_);
    append(parts, 0, s.begin, head.first);
    const detail::fp_environment guard;
    for (std::size_t t = 0; t < by_.tasks.size(); ++t)
      for (auto left = from.take<std::uint64_t>(); left > 0; --left) {
        const auto n = from.take<node_header>();
        forests_[t].push(by_.tasks[t], n.leaf, n.leaves, n.n,
                         from.take(by_.tasks[t].states.size).data());
      }
    append(parts, s.begin, tail, head.first + s.end);
  }
  void add_sums(reader& from) {
    detail::exact_sums more(exact_);
    for (auto& s : more.sums())
      std::memcpy(s.state, from.take(sizeof s.state).data(), sizeof s.state);
    sums_.merge(more);
  }
  // Elements of a leaf that is not whole yet: `count` of them, from `begin` on, the first of which
  // has that index in the whole array.
  void append(std::span<const std::byte> (&parts)[2], std::size_t begin, std::size_t count,
              index first) {
    leaf_ = count > 0 ? first / order::leaf : leaf_;
    for (std::size_t i = 0; i < inputs_; ++i) {
      const auto some = parts[i].subspan(begin * element_, count * element_);
      pending_[i].insert(pending_[i].end(), some.begin(), some.end());
    }
    if (pending_[0].size() == order::leaf * element_) fold_pending();
  }
  void fold_pending() {
    const detail::fp_environment guard;
    const std::size_t n = pending_[0].size() / element_;
    tile_folder folder;
    target used{};
    folder.fold(by_.tasks, {pending_[0].data(), inputs_ == 2 ? pending_[1].data() : nullptr}, n,
                leaf_ * order::leaf, used, [&](std::size_t t, const partial& s) {
                  forests_[t].push(by_.tasks[t], leaf_, 1, n, s.bytes);
                });
    for (auto& p : pending_) p.clear();
  }

  std::span<const reduction> reductions_;
  ordered by_;
  std::vector<forest> forests_;
  std::vector<reduction> exact_;
  detail::exact_sums sums_;
  std::size_t element_, inputs_;
  std::uint64_t n_ = 0;
  std::vector<std::byte> pending_[2];
  index leaf_ = 0;
};

}  // namespace

std::vector<std::byte> make_share(std::span<const reduction> reductions, const void* x,
                                  const void* y, std::size_t n, std::uint64_t first,
                                  const options& opts) {
  const target best = resolve_target(opts);
  const ordered by(reductions, best);
  writer to;
  to.put(header{.reductions = reductions.size(), .first = first, .n = n});
  for (const reduction& r : reductions) {
    detail::check_inputs(r, x, y, n);
    to.put(code_of(r));
  }
  if (reductions.empty()) return to.take();
  const std::size_t element = size_of(reductions[0].in());
  if (!by.tasks.empty()) {
    const split s(first, n);
    for (const void* input : {x, y}) {
      const auto* const at = static_cast<const std::byte*>(input);
      if (!at) continue;
      to.put(at, s.begin * element);
      to.put(at + s.end * element, (n - s.end) * element);
    }
    const detail::fp_environment guard;
    const auto forests = fold_leaves(
        by.tasks, element,
        n > 0 ? offset({x, y}, static_cast<std::ptrdiff_t>(s.begin * element)) : inputs{},
        s.end - s.begin, first + s.begin, opts);
    for (std::size_t t = 0; t < by.tasks.size(); ++t) put_forest(to, by.tasks[t], forests[t]);
  }
  const auto exact = exact_ones(reductions);
  auto sums = exact.empty() ? detail::exact_sums(exact) : sums_of(exact, {x, y}, n, opts);
  for (const auto& s : sums.sums()) to.put(s.state, sizeof s.state);
  return to.take();
}

void reduce_shares(std::span<const reduction> reductions,
                   std::span<const std::span<const std::byte>> shares, std::span<scalar> out) {
  if (out.size() != reductions.size())
    throw error(errc::usage, "out: room for " + std::to_string(out.size()) + " results of " +
                                 std::to_string(reductions.size()) + " reductions");
  joined_shares all(reductions);
  for (const auto& s : shares) all.add(s);
  all.finish(out);
}

}  // namespace bitfold::cpu
