// Reductions whose elements lie with several processes (bitfold/contributions.hpp,
// bitfold/shares.hpp) for Python: what is sent is memory of the caller's, and bytes.
#include "family.hpp"
#include "requests.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bitfold/contributions.hpp>
#include <bitfold/linked.hpp>
#include <bitfold/shares.hpp>

namespace bitfold::python {
namespace {

using namespace nb::literals;

// first, count, address, whether there are elements
using node = std::tuple<std::uint64_t, std::uint64_t, std::uintptr_t, bool>;

void fold_contributions(request& wanted, nb::handle type, const std::vector<node>& nodes,
                        std::int64_t n, nb::handle out_given, bool finish, const family& by) {
  std::vector<contribution_node> list;
  for (const auto& [first, count, address, is_elements] : nodes)
    list.push_back({first, count, reinterpret_cast<const void*>(address), is_elements});
  const element_type in = parse_type("dtype", type);
  const reduction& r = wanted.of(in);
  const input out(out_given, "out", &by, taking::results);
  void* const to = const_cast<void*>(needed(out, "out").where.data);
  const auto size = static_cast<std::size_t>(n);
  described work{in, row_major(in.stored, nullptr, {n})};  // by whose size threads are chosen
  work.device_type = out->device_type;
  work.device = out->device;
  by.run(
      work, {out->type, out.object()},
      [&] { return cuda::contributions_workspace_bytes(r, list, size); },
      [&](workspace room, cuda::stream where) {
        const auto f = finish ? cuda::reduce_contributions : cuda::fold_contributions;
        f(r, list, size, to, room.address, room.size, where);
      },
      [&](const cpu::options& opts) {
        const auto f = finish ? cpu::reduce_contributions : cpu::fold_contributions;
        f(r, list, size, to, opts);
      });
}

// Ranks whose GPUs write to one another's memory.
class linked {
 public:
  linked(int rank, int ranks, double seconds, int device) : device_(device) {
    const cuda::current_device here(device_);
    of_ = std::make_unique<cuda::linked_ranks>(rank, ranks, seconds);
  }
  ~linked() {
    try {
      const cuda::current_device here(device_);
      of_.reset();
    } catch (const error&) {  // the driver has ended
      static_cast<void>(of_.release());
    }
  }
  nb::bytes handle() const {
    const cuda::current_device here(device_);
    const cuda::memory_handle h = of_->handle();
    return nb::bytes(h.data(), h.size());
  }
  void open(const std::vector<nb::bytes>& all) {
    std::vector<cuda::memory_handle> handles(all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (all[k].size() != handles[k].size()) refuse("all: not handles");
      std::memcpy(handles[k].data(), all[k].data(), handles[k].size());
    }
    const cuda::current_device here(device_);
    of_->open(handles);
  }
  static bool takes(request& wanted, nb::handle type) {
    return cuda::linked_ranks::takes(wanted.of(parse_type("dtype", type)));
  }
  void shape(std::size_t at_once, int blocks, int packets) {
    of_->how = {at_once, blocks, packets};
  }
  // x and out: elements and results, or their bytes.
  void reduce(request& wanted, nb::handle type, nb::handle x_given, std::uint64_t n,
              nb::handle out_given, bool scatter, const family& by) {
    const reduction& r = wanted.of(parse_type("dtype", type));
    const input x(x_given, "x", &by, taking::elements), out(out_given, "out", &by, taking::results);
    const void* const from = needed(x, "x").where.data;
    void* const to = const_cast<void*>(needed(out, "out").where.data);
    const auto bytes_of = [](const input& of) { return of->size() * size_of(of->type.stored); };
    const std::uint64_t size = size_of(r.in()) * n;
    if (bytes_of(x) < size || (size && bytes_of(x) % size) || bytes_of(out) < size_of(r.out()) * n)
      refuse("x, out: not of n elements");
    by.run(
        *out, {out->type, out.object()}, no_room,
        [&](workspace, cuda::stream where) {
          if (scatter)
            of_->reduce_scatter(r, from, n, to, where);
          else
            of_->all_reduce(r, from, n, to, where);
        },
        [](const cpu::options&) { refuse("out: not on a GPU"); });
  }

 private:
  const int device_;
  std::unique_ptr<cuda::linked_ranks> of_;
};

std::vector<reduction> reductions_for(const std::vector<request*>& wanted, element_type in) {
  std::vector<reduction> all;
  for (request* r : wanted) all.push_back(r->of(in));
  return all;
}

const described& elements_on_cpu(const input& x, const char* argument) {
  const described& d = needed(x, argument);
  if (d.on_gpu() || !d.is_row_major())
    refuse(std::string(argument) + ": elements in a row in the CPU's memory are taken");
  return d;
}

nb::bytes make_share(const std::vector<request*>& wanted, nb::handle x_given, nb::handle y_given,
                     std::uint64_t first, const family& by) {
  const input x_in(x_given, "x", &by, taking::elements);
  const described& x = elements_on_cpu(x_in, "x");
  std::optional<input> y_in;
  if (!y_given.is_none()) {
    const described& y = elements_on_cpu(y_in.emplace(y_given, "y", &by, taking::elements), "y");
    if (!(y.type == x.type) || y.size() != x.size()) refuse("y: not of the type and size of x");
  }
  std::vector<std::byte> share, room;
  by.run(
      x, {x.type, x_in.object()}, no_room, [](workspace, cuda::stream) {},
      [&](const cpu::options& opts) {
        const described of = x.type.is_bool ? with_truths(x, room, opts) : x;
        const void* const y = y_in ? (*y_in)->where.data : nullptr;
        share = cpu::make_share(reductions_for(wanted, x.type), of.where.data, y, x.size(), first,
                                opts);
      });
  return nb::bytes(share.data(), share.size());
}

nb::list reduce_shares(const std::vector<request*>& wanted, nb::handle type,
                       const std::vector<nb::bytes>& shares) {
  const element_type in = parse_type("dtype", type);
  const std::vector<reduction> reductions = reductions_for(wanted, in);
  std::vector<std::span<const std::byte>> all;
  for (const nb::bytes& s : shares)
    all.emplace_back(static_cast<const std::byte*>(s.data()), s.size());
  std::vector<scalar> out(reductions.size());
  cpu::reduce_shares(reductions, all, out);
  nb::list results;
  for (std::size_t k = 0; k < out.size(); ++k)
    results.append(nb::make_tuple(str(wanted[k]->result(in).name()), out[k].bits));
  return results;
}

}  // namespace

void add_distributed(nb::module_& m) {
  m.def(
      "contribution_state_bytes",
      [](request& wanted, nb::handle type) {
        return contribution_state_bytes(wanted.of(parse_type("dtype", type)));
      },
      "request"_a, "dtype"_a, "Of one element.");
  m.def(
      "fold_contributions", fold_contributions, "request"_a, "dtype"_a, "nodes"_a, "n"_a, "out"_a,
      "finish"_a, "family"_a,
      "Of nodes (first, count, address, whether there are elements) the states, or the results, to "
      "`out`, which is on their device.");
  m.def(
      "covering",
      [](std::uint64_t first, std::uint64_t last, std::uint64_t all) {
        nb::list nodes;
        for (const contribution_node& node : covering(first, last, all))
          nodes.append(nb::make_tuple(node.first, node.count));
        return nodes;
      },
      "first"_a, "last"_a, "all"_a,
      "The nodes that cover contributions `first` to `last` - 1 of all: where each begins, and how "
      "many it has.");
  nb::class_<linked>(m, "LinkedRanks", "Ranks whose GPUs write to one another's memory.")
      .def(nb::init<int, int, double, int>(), "rank"_a, "ranks"_a, "seconds"_a, "device"_a)
      .def("handle", &linked::handle)
      .def("open", &linked::open, "all"_a, "The handles of all ranks.")
      .def_static("takes", &linked::takes, "request"_a, "dtype"_a)
      .def("shape", &linked::shape, "at_once"_a, "blocks"_a, "packets"_a)
      .def("reduce", &linked::reduce, "request"_a, "dtype"_a, "x"_a, "n"_a, "out"_a, "scatter"_a,
           "family"_a);
  m.def("make_share", make_share, "requests"_a, "x"_a, "y"_a.none(), "first"_a, "family"_a,
        "What is to be known of a part of an array in host memory.");
  m.def("reduce_shares", reduce_shares, "requests"_a, "dtype"_a, "shares"_a,
        "Of the whole array, for each request the name of its type and its bits.");
}

}  // namespace bitfold::python
