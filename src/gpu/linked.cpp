// Calls of ranks whose GPUs write to one another's memory.
#include "linked.hpp"

#include <bitfold/cuda/linked.hpp>
#include <bitfold/cuda/plan.hpp>
#include <bitfold/error.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "../binned.hpp"
#include "contributions.hpp"
#include "devices.hpp"
#include "launcher.hpp"

namespace bitfold::gpu {

instantiation kernel_of_linked(const reduction& r, int ranks, linked_way way) {
  const bool at_once = way == linked_way::at_once;
  const std::string_view name = at_once ? "reduce_linked_at_once" : "reduce_linked_shares";
  return {name, "bitfold/cuda/linked.cuh", definition_of_contributions(r),
          "bitfold::cuda::" + std::string(name) + "<kernel::by, " + std::to_string(ranks) + ", " +
              std::to_string(16 / size_of(r.in())) +
              (at_once                       ? ">"
               : way == linked_way::gathered ? ", true>"
                                             : ", false>")};
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {
namespace {

using gpu::linked_way;

constexpr int reach_others = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
constexpr std::size_t packet_bytes = 16;
// Of a share, that a block takes at once where it has as many packets of results.
index most_packets(int ranks) { return ranks > 4 ? 1024 : ranks > 2 ? 2048 : 4096; }
// Of a packet's elements: f32 of bf16, say.
constexpr index most_result_packets = 2;
std::size_t bytes_of_slot(int ranks) {
  return bytes_of_linked_block(most_packets(ranks), ranks, 1) * most_blocks_on_links;
}

[[noreturn]] void refuse(const std::string& what) { throw error(errc::usage, what); }

void check_place(const void* p, const char* name) {
  if (!p) refuse(std::string(name) + ": null pointer");
  if (reinterpret_cast<std::uintptr_t>(p) % 16)
    refuse(std::string(name) + ": not aligned to 16 bytes");
}

}  // namespace

struct linked_ranks::state {
  int rank, ranks;
  std::uint64_t limit;
  std::size_t slot_bytes;
  gpu::device_memory memory;
  std::vector<gpu::address> opened;
  std::byte* at[most_linked] = {};
  unsigned steps = 0;  // that were done

  state(int which, int count, std::uint64_t nanoseconds, std::size_t slot)
      : rank(which),
        ranks(count),
        limit(nanoseconds),
        slot_bytes(slot),
        memory(bytes_ahead_of_slots + 2 * slot) {}
};

linked_ranks::linked_ranks(int rank, int ranks, double seconds)
    : of_([&] {
        if (ranks < 2 || ranks > most)
          refuse("ranks: " + std::to_string(ranks) + ", where 2 to 8 may be linked");
        if (rank < 0 || rank >= ranks)
          refuse("rank: " + std::to_string(rank) + " is none of " + std::to_string(ranks));
        static_assert(most == most_linked);
        return std::make_unique<state>(rank, ranks, static_cast<std::uint64_t>(seconds * 1e9),
                                       bytes_of_slot(ranks));
      }()) {
  static_assert(sizeof(memory_handle) == sizeof(gpu::memory_handle));
  const gpu::driver& d = gpu::the_driver();
  gpu::check(d.cuMemsetD8Async(reinterpret_cast<gpu::address>(of_->memory.begin()), 0,
                               bytes_ahead_of_slots, nullptr),
             "cuMemsetD8Async");
  synchronize(nullptr);
}

linked_ranks::~linked_ranks() {
  for (const gpu::address opened : of_->opened) gpu::the_driver().cuIpcCloseMemHandle(opened);
}

memory_handle linked_ranks::handle() const {
  gpu::memory_handle made{};
  gpu::check(gpu::the_driver().cuIpcGetMemHandle(
                 &made, reinterpret_cast<gpu::address>(of_->memory.begin())),
             "cuIpcGetMemHandle");
  memory_handle bytes;
  std::memcpy(bytes.data(), &made, sizeof made);
  return bytes;
}

void linked_ranks::open(std::span<const memory_handle> all) {
  state& s = *of_;
  if (all.size() != static_cast<std::size_t>(s.ranks)) refuse("all: not of as many ranks");
  if (s.at[s.rank]) refuse("all: opened already");
  for (int k = 0; k < s.ranks; ++k) {
    if (k == s.rank) continue;
    gpu::memory_handle of{};
    std::memcpy(&of, all[static_cast<std::size_t>(k)].data(), sizeof of);
    gpu::address opened = 0;
    gpu::check(gpu::the_driver().cuIpcOpenMemHandle_v2(&opened, of, reach_others),
               "cuIpcOpenMemHandle");
    s.opened.push_back(opened);
    s.at[k] = reinterpret_cast<std::byte*>(opened);
  }
  s.at[s.rank] = s.memory.begin();
}

bool linked_ranks::takes(const reduction& r) {
  return info(r.op()).inputs == 1 && r.op() != op_id::count_distinct &&
         gpu::has_results_of_few(r) && r.method() != method_id::sequential &&
         size_of(r.out()) >= size_of(r.in()) &&
         size_of(r.out()) <= most_result_packets * size_of(r.in());
}

void linked_ranks::reduce(const reduction& r, const void* x, std::size_t n, std::size_t share,
                          bool gather, void* out, stream where) {
  state& s = *of_;
  if (!takes(r)) refuse("reduction: " + std::string(name(r.op())) + " does not go over links");
  if (!s.at[s.rank]) refuse("linked_ranks: open() was not called");
  if (n == 0) return;
  check_place(x, "x");
  check_place(out, "out");
  // Each element is sent before its result is written: so both may lie at one place.
  const auto from = reinterpret_cast<std::uintptr_t>(x), to = reinterpret_cast<std::uintptr_t>(out);
  const std::size_t size = size_of(r.in()),
                    first = gather ? 0 : share * size * static_cast<std::size_t>(s.rank),
                    results = (gather ? n : share) * size_of(r.out());
  const bool is_one_place = size_of(r.out()) == size && to == from + first;
  if (!is_one_place && to < from + n * size && from < to + results) refuse("out: overlaps x");
  const index together = packet_bytes / size_of(r.in()), packets = gpu::shares(share, together),
              blocks = std::clamp<index>(
                  gpu::shares(packets, threads_on_links / 2), 1,
                  std::clamp<index>(static_cast<index>(how.blocks), 1, most_blocks_on_links));
  linked_call call{};
  std::copy(std::begin(s.at), std::end(s.at), call.memory);
  call.rank = s.rank;
  call.ddof = r.ddof();
  call.slot = s.steps & 1;
  call.slot_bytes = s.slot_bytes;
  call.n = n;
  call.share = share;
  // As many as a slot has room for, with their results.
  const auto wider = static_cast<int>(size_of(r.out()) / size);
  const index room =
      s.slot_bytes / (bytes_of_linked_block(1, s.ranks, wider) * most_blocks_on_links);
  call.packets = std::min(gpu::shares(packets, blocks),
                          std::clamp<index>(static_cast<index>(how.packets), 1, room));
  call.steps = gpu::shares(packets, blocks * call.packets);
  call.limit = s.limit;
  gpu::plan p;
  gpu::pass& one = std::get<gpu::pass>(
      p.steps.emplace_back(gpu::pass{gpu::kernel_of_linked(r, s.ranks,
                                                           share == n ? linked_way::at_once
                                                           : gather   ? linked_way::gathered
                                                                      : linked_way::scattered),
                                     static_cast<unsigned>(blocks), threads_on_links}));
  one.with.add(call).add(x).add(out);
  one.bytes_read = n * size_of(r.in());
  gpu::run(p, {}, where);
  s.steps += static_cast<unsigned>(call.steps);
}

void linked_ranks::all_reduce(const reduction& r, const void* x, std::size_t n, void* out,
                              stream where) {
  const index together = packet_bytes / size_of(r.in());
  const std::size_t share =
      n * size_of(r.in()) <= how.at_once
          ? n
          : gpu::shares(gpu::shares(n, static_cast<index>(of_->ranks)), together) * together;
  reduce(r, x, n, share, true, out, where);
}

void linked_ranks::reduce_scatter(const reduction& r, const void* x, std::size_t n, void* out,
                                  stream where) {
  if (n * size_of(r.in()) % packet_bytes)
    refuse("n: " + std::to_string(n) + " elements, which are no multiple of 16 bytes");
  reduce(r, x, n * static_cast<std::size_t>(of_->ranks), n, false, out, where);
}

}  // namespace bitfold::cuda
