// Plans of what needs a sort.
#include <algorithm>
#include <bit>
#include <bitfold/cuda/distinct.hpp>
#include <bitfold/cuda/sort.hpp>
#include <bitfold/error.hpp>
#include <cstddef>
#include <string>
#include <type_traits>

#include "output_plan.hpp"
#include "sort.hpp"

namespace bitfold::gpu {
namespace {

std::string bits_of(std::size_t bytes) { return "std::uint" + std::to_string(8 * bytes) + "_t"; }
std::string element_of(dtype t) {
  return "bitfold::type_of<bitfold::dtype::" + std::string(name(t)) + ">";
}

// A kernel of keys.cuh that takes `each` elements with a thread, by at most so many blocks; or by
// as many as it takes.
constexpr std::size_t any_blocks = ~std::size_t{0};
pass& add_pass(plan& to, std::string_view what, const std::string& types, std::size_t n,
               std::size_t each, unsigned threads, std::size_t most_blocks) {
  const std::size_t of_block = threads * each, blocks = n / of_block + (n % of_block != 0);
  return std::get<pass>(to.steps.emplace_back(
      pass{instantiation{what, "bitfold/cuda/keys.cuh", "",
                         "bitfold::cuda::" + std::string(what) + "<" + types + ">"},
           grid_of(std::clamp<std::size_t>(blocks, 1, most_blocks), n), threads}));
}
constexpr std::size_t many_blocks = 1 << 14;

// Rooms in a workspace, one behind the other.
struct rooms {
  std::size_t end;
  place take(std::size_t bytes) {
    const place at = in_workspace(end);
    end += rounded_up(bytes);
    return at;
  }
};

// ---- count_distinct -----------------------------------------------------------------------------

// Without a sort, of whole arrays.

pass distinct_pass(std::string_view what, dtype t, std::size_t blocks) {
  return pass{instantiation{what, "bitfold/cuda/distinct.cuh", "",
                            "bitfold::cuda::" + std::string(what) + "<" + element_of(t) + ">"},
              static_cast<unsigned>(blocks), cuda::distinct_threads};
}

// Of few elements, in one block's shared memory.
void add_table(plan& to, const problem& p, dtype t, place result) {
  const std::size_t slots = cuda::slots_of_table(p.n, size_of(t));
  pass made = distinct_pass("count_by_table", t, 1);
  made.shared_bytes = slots * size_of(t);
  made.bytes_read = p.n * size_of(t);
  made.with.add_address(p.x)
      .add(static_cast<std::uint32_t>(p.n))
      .add(static_cast<std::uint32_t>(slots))
      .add_address(result);
  to.steps.emplace_back(std::move(made));
}

// Of elements of 1 or 2 bytes.
void add_patterns(plan& to, const problem& p, dtype t, place result, const device_facts& on) {
  const std::size_t bytes = p.n * size_of(t),
                    most = static_cast<std::size_t>(on.processors *
                                                    on.numbers->pattern_blocks_of_processor),
                    blocks = std::clamp<std::size_t>(bytes / cuda::bytes_of_pattern_block, 1, most),
                    words = cuda::words_of_patterns(size_of(t)) * sizeof(std::uint32_t),
                    together = words + sizeof(std::uint32_t);
  place all{}, blocks_done{};
  if (blocks > 1) {
    all = in_workspace(p.workspace);
    blocks_done = all.behind(words);
    to.steps.emplace_back(fill{all, together});
    to.workspace = std::max(to.workspace, p.workspace + rounded_up(together));
  }
  pass made = distinct_pass("count_patterns", t, blocks);
  made.bytes_read = bytes;
  made.with.add_address(p.x)
      .add(std::uint64_t{p.n})
      .add_address(all)
      .add_address(blocks_done)
      .add_address(result);
  to.steps.emplace_back(std::move(made));
}

// Whether there is such a way.
bool add_without_sort(plan& to, const problem& p, dtype t, std::span<const std::size_t> which,
                      const device_facts& on) {
  const bool patterns = size_of(t) <= 2;
  if (p.outputs || p.n == 0 || (!patterns && p.n > cuda::elements_of_table(size_of(t))))
    return false;
  for (const std::size_t k : which)
    if (patterns)
      add_patterns(to, p, t, p.result(k), on);
    else
      add_table(to, p, t, p.result(k));
  return true;
}

// Outputs whose keys are sorted together.
struct set {
  std::size_t first, outputs;  // on axes; or all segments
  std::size_t n;               // elements together
  bool more;                   // elements may be of none of them
};

class distinct_planner {
 public:
  distinct_planner(plan& to, const problem& p, std::span<const std::size_t> which, const tuning& by)
      : to_(to), p_(p), which_(which), by_(by), type_(p.reductions[which[0]].in()) {}

  void add(const set& of) {
    key_bits_ = static_cast<int>(8 * size_of(type_));
    number_bits_ = static_cast<int>(std::bit_width(of.more ? of.outputs : of.outputs - 1));
    const int bits = key_bits_ + number_bits_;
    const bool wide = bits > 64;
    const std::size_t bytes = bits <= 32 ? 4 : 8;
    keys_ =
        wide ? "bitfold::cuda::wide_keys" : "bitfold::cuda::joined_keys<" + bits_of(bytes) + ">";
    rooms room{p_.workspace};
    sort_buffers at;
    for (place& k : at.keys) k = room.take(of.n * bytes);
    if (wide)
      for (place& v : at.values) v = room.take(of.n * sizeof(std::uint32_t));
    const sorter sort({bytes, wide ? 4u : 0u, of.n, 0, wide ? key_bits_ : bits}, room.end, by_);
    std::size_t end = sort.end();
    sort.add_clearing(to_);
    add_making(of, sort, at);
    at = sort.add_passes(to_, at);
    if (wide) {
      // By output, and of each by key, as the sort is stable.
      const sort_buffers by_output{{at.values[0], at.values[1]}, {at.keys[0], at.keys[1]}};
      const sorted made = add_sort(to_, {4, 8, of.n, 0, number_bits_}, by_output, sort.end(), by_);
      at = {{made.at.values[0], {}}, {made.at.keys[0], {}}};
      end = made.end;
    }
    for (const std::size_t k : which_) add_counting(of, at, p_.result(k));
    to_.workspace = std::max(to_.workspace, end);
  }

 private:
  void add_keys(arguments& with, const sort_buffers& at) const {
    using m = cuda::made_keys;
    static_assert(std::has_unique_object_representations_v<m>);
    with.add(m{nullptr, nullptr, key_bits_})
        .set(offsetof(m, keys), at.keys[0])
        .set(offsetof(m, outputs), at.values[0]);
  }

  void add_making(const set& of, const sorter& sort, const sort_buffers& at) {
    const bool of_array = !p_.outputs, of_segments = p_.outputs && p_.outputs->listed;
    pass& made = add_pass(to_,
                          of_array      ? "make_keys_of_array"
                          : of_segments ? "make_keys_of_segments"
                                        : "make_keys_of_outputs",
                          element_of(type_) + ", " + keys_, of.n,
                          of_array      ? 8
                          : of_segments ? 1
                                        : 4,
                          cuda::counting_threads, sorter::most_counting_blocks);
    made.bytes_read = of.n * size_of(type_);
    if (of_array)
      made.with.add_address(p_.x).add(std::uint64_t{of.n});
    else
      add_outputs(made.with, p_, *p_.outputs);
    if (!of_array && !of_segments)
      made.with.add(std::uint64_t{of.first})
          .add(std::uint64_t{of.outputs})
          .add(!cuda::outputs_are_neighbours(*p_.outputs));
    add_keys(made.with, at);
    sort.add_counts(made.with);
  }

  void add_counting(const set& of, const sort_buffers& at, place result) {
    pass& made = add_pass(to_, "count_runs", keys_, of.n, cuda::rows_of_runs, cuda::moving_threads,
                          any_blocks);
    add_keys(made.with, at);
    made.with.add(std::uint64_t{of.n})
        .add(std::uint64_t{of.outputs})
        .add_address(result.behind(of.first * sizeof(std::int64_t)));
  }

  plan& to_;
  const problem& p_;
  std::span<const std::size_t> which_;
  const tuning& by_;
  dtype type_;
  int key_bits_ = 0, number_bits_ = 0;
  std::string keys_;
};

}  // namespace

void add_distinct(plan& to, const problem& p, std::span<const std::size_t> which,
                  const device_facts& on, std::size_t elements_of_set) {
  if (add_without_sort(to, p, p.reductions[which[0]].in(), which, on)) return;
  const std::size_t outputs = p.outputs ? p.outputs->outputs : 1;
  const bool listed = p.outputs && p.outputs->listed;
  if (listed && outputs >= (std::size_t{1} << 32) - 1)
    throw error(errc::usage, "segments: 2^32 or more, of which count_distinct is asked for");
  for (const std::size_t k : which)
    to.steps.emplace_back(fill{p.result(k), outputs * sizeof(std::int64_t)});
  const std::size_t n = !p.outputs ? p.n : listed ? p.outputs->total : p.outputs->n;
  if (n == 0 || outputs == 0) return;
  distinct_planner planner(to, p, which, *on.numbers);
  if (!p.outputs || listed) return planner.add({0, outputs, n, listed});
  const std::size_t at_once = std::clamp<std::size_t>(elements_of_set / n, 1, outputs);
  for (std::size_t first = 0; first < outputs; first += at_once) {
    const std::size_t some = std::min(at_once, outputs - first);
    planner.add({first, some, some * n, false});
  }
}

// ---- By key -------------------------------------------------------------------------------------

cuda::keys_on_axes keys_in_a_row(std::size_t n, std::size_t outputs) {
  cuda::keys_on_axes of{};
  of.all.rank = 1;
  of.all.dims[0] = {n, 1, 0};
  of.by = cuda::divisors_of(of.all);
  of.n = n;
  of.places = of.lost = outputs;
  of.stride = 1;
  return of;
}

sorted_keys add_keys(plan& to, const cuda::keys_on_axes& of, std::optional<dtype> type,
                     std::size_t outputs, place any_lost, std::size_t workspace, const tuning& by) {
  const std::size_t n = of.n, value = type ? size_of(*type) : sizeof(std::uint32_t);
  const int bits =
      static_cast<int>(std::bit_width((of.lost < outputs ? outputs - 1 : outputs) | 1));
  rooms room{workspace};
  const place begins = room.take((outputs + 1) * sizeof(std::int64_t));
  sort_buffers at;
  for (place& k : at.keys) k = room.take(n * sizeof(std::uint32_t));
  at.values[1] = room.take(n * value);
  if (cuda::digits_of(bits) > 1) at.values[0] = room.take(n * value);
  const sorter sort({sizeof(std::uint32_t), value, n, 0, bits}, room.end, by);
  const std::string key = bits_of(sizeof(std::uint32_t));
  if (n > 0) {
    sort.add_clearing(to);
    pass& made =
        add_pass(to, "make_keys", key, n, 8, cuda::counting_threads, sorter::most_counting_blocks);
    made.with.add(of)
        .set(offsetof(cuda::keys_on_axes, keys), {base::list})
        .set(offsetof(cuda::keys_on_axes, any_lost), any_lost)
        .add_address(at.keys[0]);
    sort.add_counts(made.with);
    at = sort.add_passes(to, at, type ? place{base::x} : place{});
  }
  const bool searched = outputs / 16 > n;
  pass& found = add_pass(to, searched ? "search_begins" : "find_begins", key,
                         searched ? outputs : n, 1, cuda::moving_threads, many_blocks);
  found.with.add_address(at.keys[0])
      .add(std::uint64_t{n})
      .add(std::uint64_t{outputs})
      .add_address(begins);
  to.workspace = std::max(to.workspace, sort.end());
  return {begins, type ? at.values[0] : place{}, type ? place{} : at.values[0], sort.end()};
}

// ---- Several arrays -----------------------------------------------------------------------------

void add_words(plan& to, std::span<const std::uint64_t> words, place at) {
  constexpr std::size_t most = std::size(cuda::words_to_put{}.each);
  for (std::size_t first = 0; first < words.size(); first += most) {
    cuda::words_to_put some{};
    some.count = std::min(most, words.size() - first);
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(first), some.count, some.each);
    pass made{instantiation{"put_words", "bitfold/cuda/keys.cuh", "", "bitfold::cuda::put_words"},
              1, cuda::moving_threads};
    made.with.add(some).add_address(at.behind(first * sizeof(std::uint64_t)));
    to.steps.emplace_back(std::move(made));
  }
}

// ---- Windows ------------------------------------------------------------------------------------

void add_scatter(plan& to, place from, dtype type, const detail::axes& places, std::uint64_t first,
                 place result) {
  const std::size_t n = places.size();
  if (n == 0) return;
  pass& made =
      add_pass(to, "scatter", bits_of(size_of(type)), n, 1, cuda::moving_threads, many_blocks);
  made.with.add_address(from)
      .add(std::uint64_t{n})
      .add(places)
      .add(cuda::divisors_of(places))
      .add_address(result.behind(first * size_of(type)));
}

}  // namespace bitfold::gpu
