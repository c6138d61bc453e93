// What the tests of bitfold/cuda.hpp's calls share: arrays and views on a GPU, launch shapes, and
// the kernels of what a test asks for, made at once.
#pragma once

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>
#include <bitfold/view.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cuda_lists.hpp"
#include "device_memory.hpp"
#include "gpu_kernels.hpp"
#include "view_data.hpp"

#include "gpu/request.hpp"

namespace bitfold::test {

/// The launch shapes that the tests vary at will; the first is the library's own choice.
inline std::vector<cuda::launch> launch_shapes() {
  std::vector<cuda::launch> out{{}};
  for (int threads : {32, 96, 256, 512})
    for (int blocks : {1, 2, 7, 500})
      for (int tiles : {1, 4, 1024}) out.push_back({threads, blocks, tiles, tiles != 4});
  return out;
}
/// The library's own choice, which of short arrays is a leaf a warp; and shapes with which they go
/// by tiles.
inline const std::vector<cuda::launch> by_leaves{{}}, by_leaves_and_tiles{{}, {.threads = 64}};

inline std::string describe(const cuda::launch& s) {
  return " threads=" + std::to_string(s.threads) + " blocks=" + std::to_string(s.blocks) +
         " tiles=" + std::to_string(s.tiles) + " overlap=" + std::to_string(s.overlap);
}

// ---- Whole arrays -------------------------------------------------------------------------------

/// Makes the kernels of lists of whole arrays of these lengths, at addresses of packs, at others,
/// or both.
inline void prepare(const lists& of, const std::vector<std::size_t>& lengths,
                    const std::vector<cuda::launch>& shapes,
                    const std::vector<bool>& aligned = {true, false}) {
  std::vector<gpu::plan> plans;
  for (const list& all : of)
    for (const std::size_t n : lengths)
      for (const bool in_packs : aligned)
        for (const cuda::launch& shape : shapes)
          if (!all.empty() && n > 0)
            plans.push_back(gpu::plan_of({all, n, in_packs}, shape, test::this_gpu()));
  prepare(plans);
}

/// One array on the device, reduced in many ways. Of two inputs the second starts at another of its
/// elements.
class on_device {
 public:
  explicit on_device(const std::vector<std::byte>& data) : data_(data), in_(data.size() + 16) {
    put(in_.p, data.data(), data.size());
  }
  const void* begin() const { return in_.p; }

  /// In one call.
  std::vector<scalar> reduce(std::span<const reduction> all, std::size_t first, std::size_t n,
                             const cuda::launch& shape, std::size_t second = 0) {
    std::vector<std::byte> host(all.size() * slot);
    std::vector<void*> where;
    for (std::size_t k = 0; k < all.size(); ++k) where.push_back(out_.as<std::byte>() + k * slot);
    const std::size_t work = cuda::workspace_bytes(all, n, shape);
    REQUIRE(all.size() <= 256);
    if (work > room_) workspace_.emplace(room_ = work);
    set(out_.p, 0xab, host.size());
    const auto at = [&](std::size_t i) { return in_.as<std::byte>() + i * size_of(all[0].in()); };
    cuda::reduce(all, at(first), info(all[0].op()).inputs == 2 ? at(second) : nullptr, n, where,
                 workspace_ ? workspace_->p : nullptr, work, nullptr, shape);
    get(host.data(), out_.p, host.size());
    std::vector<scalar> got;
    for (std::size_t k = 0; k < all.size(); ++k) {
      REQUIRE(host[k * slot + size_of(all[k].out())] ==
              std::byte{0xab});  // wrote its own bytes only
      got.push_back(load_scalar(all[k].out(), &host[k * slot]));
    }
    return got;
  }

  /// That a list has the bits of right(reduction, x, y), in each of these shapes.
  template <class Right>
  void compare(std::span<const reduction> all, std::size_t first, std::size_t second, std::size_t n,
               const std::vector<cuda::launch>& shapes, const std::string& what, Right right) {
    if (all.empty()) return;
    const std::size_t size = size_of(all[0].in());
    const void *const x = data_.data() + first * size, *const y = info(all[0].op()).inputs == 2
                                                                      ? data_.data() + second * size
                                                                      : nullptr;
    std::vector<scalar> want;
    for (const reduction& r : all) want.push_back(right(r, x, y));
    for (const cuda::launch& shape : shapes) {
      const std::vector<scalar> got = reduce(all, first, n, shape, second);
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (got[k] == want[k]) continue;
        INFO(test::describe(all[k], n)
             << " number " << k << " of " << all.size() << " first=" << first
             << " second=" << second << describe(shape) << " " << what);
        CHECK(to_hex(got[k]) == to_hex(want[k]));
      }
    }
  }
  /// The reference's bits.
  void compare(std::span<const reduction> all, std::size_t first, std::size_t second, std::size_t n,
               const std::vector<cuda::launch>& shapes, const std::string& what) {
    compare(
        all, first, second, n, shapes, what,
        [&](const reduction& r, const void* x, const void* y) { return reference(r, x, y, n); });
  }

 private:
  static constexpr std::size_t slot = 16;  // from one result to the next
  const std::vector<std::byte>& data_;
  device_memory in_, out_{256 * slot};
  std::optional<device_memory> workspace_;
  std::size_t room_ = 0;
};

// ---- Many outputs -------------------------------------------------------------------------------

/// A view of the same elements in device memory.
struct moved_view {
  device_memory room;
  view v;
  moved_view(const view& of, const std::vector<std::byte>& storage) : room(storage), v(of) {
    v.data = room.as<std::byte>() + (static_cast<const std::byte*>(of.data) - storage.data());
  }
};

/// The results of `all`, of so many outputs each, that call(out) leaves on the device; and what
/// lies behind them.
template <class Call>
arrays results_by(std::span<const reduction> all, std::size_t outputs, Call call) {
  arrays got = room_for(all, outputs);
  std::vector<std::size_t> begins{0};
  for (const auto& one : got) begins.push_back((begins.back() + one.size() + 15) / 8 * 8);
  const device_memory out(begins.back());
  set(out.p, 0xa5, begins.back());
  std::vector<void*> to;
  for (std::size_t k = 0; k < all.size(); ++k) to.push_back(out.as<std::byte>() + begins[k]);
  call(to);
  for (std::size_t k = 0; k < all.size(); ++k) get(got[k].data(), to[k], got[k].size());
  return got;
}

/// Which of `all` have other results than these in each of some launch shapes, by run(all, shape).
template <class Run>
std::string differing(std::span<const reduction> all, const arrays& want,
                      const std::vector<cuda::launch>& shapes, Run run) {
  std::string which;
  for (const cuda::launch& shape : shapes) {
    const arrays got = run(all, shape);
    for (std::size_t k = 0; k < all.size(); ++k)
      if (got[k] != want[k])
        which += "\n " + describe(all[k], 0) + ", number " + std::to_string(k) + " of " +
                 std::to_string(all.size()) + describe(shape);
  }
  return which;
}

/// What the reference leaves of each output's elements, one list of reductions.
inline arrays by_reference(std::span<const reduction> all, const view_case& c) {
  const view x = c.x();
  arrays want = room_for(all, c.outputs());
  for (std::size_t k = 0; k < all.size(); ++k) reference(all[k], x, c.y(), c.axes, want[k].data());
  return want;
}
/// The CPU's engine, for what takes the reference long.
inline arrays by_cpu(std::span<const reduction> all, const view_case& c) {
  const view x = c.x();
  arrays want = room_for(all, c.outputs());
  cpu::reduce(all, x, c.y(), c.axes, pointers_to(want));
  return want;
}

/// A case's outputs on a GPU.
class on_axes {
 public:
  explicit on_axes(const view_case& c) : c_(c), x_(c.x(), c.storage[0]) {
    if (const view* y = c.y()) y_.emplace(*y, c.storage[1]);
  }
  arrays operator()(std::span<const reduction> all, const cuda::launch& shape) const {
    return results_by(all, c_.outputs(), [&](std::span<void* const> to) {
      const view* const second = y_ ? &y_->v : nullptr;
      const std::size_t work = cuda::workspace_bytes(all, x_.v, second, c_.axes, shape);
      const device_memory workspace(work);
      cuda::reduce(all, x_.v, second, c_.axes, to, workspace.p, work, nullptr, shape);
    });
  }

 private:
  const view_case& c_;
  moved_view x_;
  std::optional<moved_view> y_;
};

/// That views have the bits of want(list, case), as on_axes gives them, of each of lists_of(case);
/// the kernels of all are made at once. Fails with the smallest case that is found.
template <class Lists, class Want>
void check_views(const std::vector<view_case>& cases, const std::vector<cuda::launch>& shapes,
                 Lists lists_of, Want want) {
  std::vector<gpu::plan> plans;
  for (const view_case& c : cases)
    for (const list& all : lists_of(c))
      for (const cuda::launch& shape : shapes) {
        const view x = c.x();
        plans.push_back(
            gpu::plan_axes(all, detail::layout_of(x, c.y(), c.axes), shape, test::this_gpu()));
      }
  prepare(plans);
  for (const view_case& c : cases)
    check_case(c, [&](const view_case& one) {
      std::string which;
      for (const list& all : lists_of(one))
        which += differing(all, want(all, one), shapes, on_axes(one));
      return which;
    });
}

}  // namespace bitfold::test
