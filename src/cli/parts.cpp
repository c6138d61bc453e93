#include "cli/parts.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <bitfold/error.hpp>

#include "batch.hpp"

namespace bitfold::cli {
namespace {

constexpr std::size_t alignment = 256;

// What a part takes, one behind the other.
struct room_layout {
  std::size_t total = 0, x, y, list, work, work_bytes;  // list: offsets or keys
  std::vector<std::size_t> out;

  room_layout(std::span<const reduction> all, std::size_t outputs, std::size_t x_bytes,
              std::size_t y_bytes, std::size_t list_bytes, std::size_t workspace)
      : x(add(x_bytes)),
        y(add(y_bytes)),
        list(add(list_bytes)),
        work(add(workspace)),
        work_bytes(workspace) {
    for (const reduction& r : all) out.push_back(add(outputs * size_of(r.out())));
  }

 private:
  std::size_t add(std::size_t bytes) {
    const std::size_t begin = total;
    total += (bytes + alignment - 1) / alignment * alignment;
    return begin;
  }
};

// Writes to the device's memory, one behind the other: short pieces many at once.
class writer {
 public:
  writer(device& gpu, std::byte* to, const given& done) : gpu_(gpu), to_(to), done_(done) {}

  void add(const void* data, std::size_t bytes) {
    constexpr std::size_t max = std::size_t{32} << 20;
    for (const auto* from = static_cast<const std::byte*>(data); bytes > 0;) {
      const std::size_t taken = std::min(bytes, max - held_.size());
      if (taken == max)
        put(from, taken);
      else
        held_.insert(held_.end(), from, from + taken);
      if (held_.size() == max) finish();
      from += taken;
      bytes -= taken;
    }
  }
  void finish() {
    put(held_.data(), held_.size());
    held_.clear();
  }

 private:
  void put(const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    gpu_.put(to_, from, bytes);
    to_ += bytes;
    if (done_) done_(bytes);
  }

  device& gpu_;
  std::byte* to_;
  const given& done_;
  std::vector<std::byte> held_;
};

const given nobody;

std::uint64_t elements_of(const view& v) {
  std::uint64_t n = 1;
  for (int k = 0; k < v.rank; ++k) n *= static_cast<std::uint64_t>(v.extent[k]);
  return std::count(v.extent.begin(), v.extent.begin() + v.rank, 0) > 0 ? 0 : n;
}
std::size_t bytes_of(const view* v) { return v ? elements_of(*v) * size_of(v->type) : 0; }

// The elements of a view in row-major order, from an axis on.
void add_elements(writer& to, const view& v, int axis = 0) {
  std::int64_t run = 1;
  bool in_a_row = true;
  for (int k = v.rank; k-- > axis; run *= v.extent[k])
    in_a_row = in_a_row && (v.extent[k] == 1 || v.stride[k] == run);
  if (in_a_row) return to.add(v.data, static_cast<std::size_t>(run) * size_of(v.type));
  for (std::int64_t i = 0; i < v.extent[axis]; ++i)
    add_elements(to, sliced(v, axis, i, 1), axis + 1);
}
void put_elements(device& gpu, std::byte* to, const view& v, const given& done) {
  if (elements_of(v) == 0) return;
  writer w(gpu, to, done);
  add_elements(w, v);
  w.finish();
}

view packed(const view& v, const void* data) {
  return row_major(v.type, data, std::span(v.extent).first(static_cast<std::size_t>(v.rank)));
}

// What is left of the memory beside the results of one output.
std::size_t memory_for_one(const device& gpu, std::span<const reduction> all) {
  const std::size_t taken = all.size() * alignment;
  return gpu.memory() > taken ? gpu.memory() - taken : 0;
}

// What the device takes at once; or a single output, whose elements it takes as that says.
template <class Part>
struct step {
  Part part;
  std::unique_ptr<output_in_parts> in_parts;
};
// In the order of the outputs. halves(part) is two of them, the first outputs first, or nothing for
// a single output; count(part) its elements.
template <class Part, class Fits, class Halves, class Count>
std::vector<step<Part>> steps_of(device& gpu, std::span<const reduction> all_of, Part all,
                                 Fits fits, Halves halves, Count count) {
  std::vector<step<Part>> steps;
  std::vector<Part> left{std::move(all)};
  while (!left.empty()) {
    Part p = std::move(left.back());
    left.pop_back();
    if (fits(p)) {
      steps.push_back({std::move(p), nullptr});
    } else if (auto two = halves(p)) {
      left.push_back(std::move(two->second));
      left.push_back(std::move(two->first));
    } else {
      try {
        auto in_parts = gpu.in_parts(all_of, count(p), memory_for_one(gpu, all_of));
        steps.push_back({std::move(p), std::move(in_parts)});
      } catch (const error& e) {
        if (e.code() != errc::usage) throw;
        throw error(errc::usage, "output " + std::to_string(p.begin) + ": its " +
                                     std::to_string(count(p)) +
                                     " elements are more than the GPU takes (with " +
                                     std::to_string(gpu.memory()) +
                                     " bytes of memory): " + e.what() + "; use --device cpu");
      }
    }
  }
  return steps;
}

void get_results(device& gpu, std::span<const reduction> all, const std::byte* room,
                 const room_layout& layout, std::uint64_t begin, std::uint64_t end,
                 std::span<void* const> out) {
  for (std::size_t k = 0; k < all.size(); ++k) {
    const std::size_t size = size_of(all[k].out());
    if (begin < end)
      gpu.get(static_cast<std::byte*>(out[k]) + begin * size, room + layout.out[k],
              (end - begin) * size);
  }
}

std::vector<void*> results_at(std::byte* room, const room_layout& layout) {
  std::vector<void*> out;
  for (const std::size_t offset : layout.out) out.push_back(room + offset);
  return out;
}

// ---- Elements of one output

// Elements first to first + count - 1 of an output, one behind the other.
void put_elements(device& gpu, const detail::batch& batch, std::uint64_t output,
                  std::uint64_t first, std::size_t count, std::byte* x, std::byte* y,
                  const given& done) {
  const std::size_t size = size_of(batch.type), max = std::min(std::size_t{1} << 22, count);
  std::vector<std::byte> gathered;
  for (std::size_t begin = 0; begin < count; begin += max) {
    const std::size_t taken = std::min(max, count - begin), bytes = taken * size;
    detail::pointers from = batch.address(output, first + begin, taken);
    if (!from.x) {
      gathered.resize(2 * max * size);
      batch.gather(output, 1, first + begin, taken, gathered.data(), 0, max * size);
      from = {gathered.data(), gathered.data() + max * size};
    }
    gpu.put(x + begin * size, from.x, bytes);
    if (batch.data.y) gpu.put(y + begin * size, from.y, bytes);
    if (done) done(batch.data.y ? 2 * bytes : bytes);
  }
}

void reduce_one_in_parts(device& gpu, std::span<const reduction> all, output_in_parts& parts,
                         const detail::batch& batch, std::uint64_t output, std::uint64_t row,
                         std::span<void* const> out, const given& done) {
  const std::size_t n = batch.count(output), max = parts.elements(),
                    bytes = max * size_of(batch.type);
  const room_layout layout(all, 1, bytes, batch.data.y ? bytes : 0, 0, parts.workspace_bytes());
  std::byte* const room = gpu.room(layout.total);
  for (std::size_t first = 0; first < n; first += max) {
    put_elements(gpu, batch, output, first, std::min(max, n - first), room + layout.x,
                 room + layout.y, done);
    parts.add(room + layout.x, batch.data.y ? room + layout.y : nullptr, results_at(room, layout),
              room + layout.work, layout.work_bytes);
  }
  get_results(gpu, all, room, layout, row, row + 1, out);
}

// ---- Axes

struct box {
  view x;
  std::optional<view> y;
  std::uint64_t begin, end;  // of the outputs

  const view* second() const { return y ? &*y : nullptr; }
  std::vector<std::int64_t> extents() const { return result_extents(x, second(), {}); }
};

// Some places of an axis of both.
view part_of(const view& v, int axis, int rank, std::int64_t begin, std::int64_t count) {
  const int own = axis - (rank - v.rank);
  return own < 0 || v.extent[own] == 1 ? v : sliced(v, own, begin, count);
}

std::optional<std::pair<box, box>> halves_of(const box& b, std::span<const int> axes) {
  const auto extents = b.extents();
  const int rank = static_cast<int>(extents.size());
  for (int k = 0; k < rank; ++k) {
    const std::int64_t extent = extents[static_cast<std::size_t>(k)], half = extent / 2;
    if (half == 0 || std::find(axes.begin(), axes.end(), k) != axes.end()) continue;
    const auto part = [&](std::int64_t from, std::int64_t count) {
      const std::uint64_t outputs_each = (b.end - b.begin) / static_cast<std::uint64_t>(extent);
      box p{part_of(b.x, k, rank, from, count),
            {},
            b.begin + static_cast<std::uint64_t>(from) * outputs_each,
            0};
      if (b.y) p.y = part_of(*b.y, k, rank, from, count);
      p.end = p.begin + static_cast<std::uint64_t>(count) * outputs_each;
      return p;
    };
    return std::pair(part(0, half), part(half, extent - half));
  }
  return {};
}

room_layout room_for(device& gpu, std::span<const reduction> all, const box& b,
                     std::span<const int> axes) {
  // The plan asks how aligned the elements are, not where they lie.
  alignas(alignment) static constexpr std::byte anywhere{};
  const view x = packed(b.x, &anywhere), y = packed(b.y.value_or(b.x), &anywhere);
  return {all,
          b.end - b.begin,
          bytes_of(&b.x),
          bytes_of(b.second()),
          0,
          gpu.workspace_bytes(all, x, b.y ? &y : nullptr, axes)};
}

// ---- Segments and keys

// Outputs begin to end - 1.
struct range {
  std::uint64_t begin, end;
};

std::optional<std::pair<range, range>> halves_of(const range& r) {
  if (r.end - r.begin < 2) return {};
  const std::uint64_t middle = r.begin + (r.end - r.begin) / 2;
  return std::pair(range{r.begin, middle}, range{middle, r.end});
}

}  // namespace

void reduce_in_parts(device& gpu, std::span<const reduction> all, const view& x, const view* y,
                     std::span<const int> axes, std::span<void* const> out, const given& done) {
  const detail::layout l = detail::layout_of(x, y, axes);
  detail::check_batch(detail::strided_batch(l), all, out);
  const auto fits = [&](const box& b) { return room_for(gpu, all, b, axes).total <= gpu.memory(); };
  const auto steps = steps_of(
      gpu, all, box{x, y ? std::optional(*y) : std::nullopt, 0, l.outputs}, fits,
      [&](const box& b) { return halves_of(b, axes); }, [&](const box&) { return l.n; });
  for (const auto& step : steps) {
    const box& b = step.part;
    if (step.in_parts) {
      reduce_one_in_parts(gpu, all, *step.in_parts, detail::strided_batch(l), b.begin, b.begin, out,
                          done);
      continue;
    }
    const room_layout layout = room_for(gpu, all, b, axes);
    std::byte* const room = gpu.room(layout.total);
    put_elements(gpu, room + layout.x, b.x, done);
    if (b.y) put_elements(gpu, room + layout.y, *b.y, done);
    const view first = packed(b.x, room + layout.x),
               second = packed(b.y.value_or(b.x), room + layout.y);
    gpu.reduce(all, first, b.y ? &second : nullptr, axes, results_at(room, layout),
               room + layout.work, layout.work_bytes);
    get_results(gpu, all, room, layout, b.begin, b.end, out);
  }
}

void reduce_segments_in_parts(device& gpu, std::span<const reduction> all, const void* x,
                              const void* y, std::size_t n, std::span<const std::int64_t> offsets,
                              std::span<void* const> out, const given& done) {
  const dtype type = all[0].in();
  const std::size_t size = size_of(type);
  const auto *first = static_cast<const std::byte*>(x), *second = static_cast<const std::byte*>(y);
  const detail::segment_batch batch = detail::segments_of(type, {first, second}, n, offsets);
  detail::check_batch(batch, all, out);
  const auto count = [&](const range& r) {
    return static_cast<std::size_t>(offsets[r.end] - offsets[r.begin]);
  };
  const auto room_for = [&](const range& r) {
    const std::size_t bytes = count(r) * size;
    return room_layout(all, r.end - r.begin, bytes, y ? bytes : 0,
                       (r.end - r.begin + 1) * sizeof(std::int64_t),
                       gpu.segments_workspace_bytes(all, count(r), r.end - r.begin));
  };
  const auto fits = [&](const range& r) { return room_for(r).total <= gpu.memory(); };
  const auto steps = steps_of(
      gpu, all, range{0, offsets.size() - 1}, fits, [](const range& r) { return halves_of(r); },
      count);
  for (const auto& step : steps) {
    const range& r = step.part;
    if (step.in_parts) {
      reduce_one_in_parts(gpu, all, *step.in_parts, batch, r.begin, r.begin, out, done);
      continue;
    }
    const room_layout layout = room_for(r);
    std::byte* const room = gpu.room(layout.total);
    const auto put = [&](const std::byte* from, std::size_t to) {
      writer w(gpu, room + to, done);
      w.add(from + static_cast<std::size_t>(offsets[r.begin]) * size, count(r) * size);
      w.finish();
    };
    if (count(r) > 0) put(first, layout.x);
    if (count(r) > 0 && y) put(second, layout.y);
    std::vector<std::int64_t> own;
    for (std::uint64_t k = r.begin; k <= r.end; ++k) own.push_back(offsets[k] - offsets[r.begin]);
    gpu.put(room + layout.list, own.data(), own.size() * sizeof own[0]);
    gpu.reduce_segments(all, room + layout.x, y ? room + layout.y : nullptr, count(r),
                        reinterpret_cast<const std::int64_t*>(room + layout.list), r.end - r.begin,
                        results_at(room, layout), room + layout.work, layout.work_bytes);
    get_results(gpu, all, room, layout, r.begin, r.end, out);
  }
}

void reduce_by_key_in_parts(device& gpu, std::span<const reduction> all, const void* x,
                            const void* y, std::span<const std::int64_t> keys, std::size_t outputs,
                            std::span<void* const> out, const given& done) {
  const dtype type = all[0].in();
  const std::size_t size = size_of(type);
  const auto *first = static_cast<const std::byte*>(x), *second = static_cast<const std::byte*>(y);
  detail::check_keys(keys, outputs);
  std::vector<std::uint64_t> begins(outputs + 1);  // of the outputs, if the elements were sorted
  for (const std::int64_t key : keys) ++begins[static_cast<std::size_t>(key) + 1];
  for (std::size_t k = 0; k < outputs; ++k) begins[k + 1] += begins[k];
  detail::check_batch(detail::keyed_batch(type, {first, second}, begins, {}), all, out);
  const auto count = [&](const range& r) { return begins[r.end] - begins[r.begin]; };
  const auto room_for = [&](const range& r) {
    const std::size_t n = count(r), bytes = n * size;
    return room_layout(all, r.end - r.begin, bytes, y ? bytes : 0, n * sizeof(std::int64_t),
                       gpu.by_key_workspace_bytes(all, n, r.end - r.begin));
  };
  // See cuda::reduce_by_key.
  constexpr std::uint64_t too_many = (std::uint64_t{1} << 32) - 1;
  const auto fits = [&](const range& r) {
    return count(r) < too_many && r.end - r.begin < too_many && room_for(r).total <= gpu.memory();
  };
  const auto steps = steps_of(
      gpu, all, range{0, outputs}, fits, [](const range& r) { return halves_of(r); }, count);
  for (const auto& step : steps) {
    const range& r = step.part;
    if (step.in_parts) {
      std::vector<std::uint64_t> own;
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (static_cast<std::uint64_t>(keys[i]) == r.begin) own.push_back(i);
      const std::size_t all_own = own.size();
      const auto batch = detail::keyed_batch(type, {first, second}, {0, all_own}, std::move(own));
      reduce_one_in_parts(gpu, all, *step.in_parts, batch, 0, r.begin, out, done);
      continue;
    }
    const room_layout layout = room_for(r);
    std::byte* const room = gpu.room(layout.total);
    writer to_x(gpu, room + layout.x, done), to_y(gpu, room + layout.y, done),
        to_keys(gpu, room + layout.list, nobody);
    const auto is_own = [&](std::int64_t key) {
      return static_cast<std::uint64_t>(key) - r.begin < r.end - r.begin;
    };
    for (auto from = keys.begin(); (from = std::find_if(from, keys.end(), is_own)) != keys.end();) {
      const auto to = std::find_if_not(from, keys.end(), is_own);
      const auto begin = static_cast<std::size_t>(from - keys.begin()),
                 run = static_cast<std::size_t>(to - from);
      to_x.add(first + begin * size, run * size);
      if (y) to_y.add(second + begin * size, run * size);
      if (r.begin == 0)
        to_keys.add(&keys[begin], run * sizeof keys[0]);
      else
        for (const std::int64_t key : keys.subspan(begin, run)) {
          const auto own = key - static_cast<std::int64_t>(r.begin);
          to_keys.add(&own, sizeof own);
        }
      from = to;
    }
    for (writer* w : {&to_x, &to_y, &to_keys}) w->finish();
    gpu.reduce_by_key(all, room + layout.x, y ? room + layout.y : nullptr, count(r),
                      reinterpret_cast<const std::int64_t*>(room + layout.list), r.end - r.begin,
                      results_at(room, layout), room + layout.work, layout.work_bytes);
    get_results(gpu, all, room, layout, r.begin, r.end, out);
  }
}

}  // namespace bitfold::cli
