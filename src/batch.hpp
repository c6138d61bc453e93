// A batch: the outputs of one grouping (axes, segments or keys) as an engine or the reference asks
// for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

#include "strided.hpp"

namespace bitfold::detail {

/// One or two inputs of elements T; y is null where there is one.
struct pointers {
  const std::byte *x, *y;
};

class batch {
 public:
  batch(dtype type, std::uint64_t outputs, std::uint64_t elements, pointers data)
      : type(type), outputs(outputs), elements(elements), data(data) {}
  virtual ~batch() = default;

  const dtype type;
  const std::uint64_t outputs, elements;  ///< of all outputs together
  const pointers data;

  virtual std::uint64_t count(std::uint64_t output) const = 0;
  /// The first output without elements; `outputs` if all have some.
  virtual std::uint64_t first_empty() const;
  /// The addresses of elements first, ..., first + n - 1 of an output if these are contiguous, else
  /// null.
  virtual pointers address(std::uint64_t output, std::uint64_t first, std::uint64_t n) const = 0;
  pointers address(std::uint64_t output) const { return address(output, 0, count(output)); }
  /// Copies elements first, ..., first + n - 1 of each of some neighbouring outputs, which have so
  /// many: to rows that are `pitch` bytes apart, y's `second` bytes behind x's.
  virtual void gather(std::uint64_t output, std::uint64_t outputs_, std::uint64_t first,
                      std::uint64_t n, std::byte* to, std::size_t pitch,
                      std::size_t second) const = 0;
  /// How many neighbouring outputs are best gathered at once.
  virtual std::uint64_t gathered_outputs() const { return 1; }
};

/// The same outputs with their elements in the order of memory, as far as there is one: for what no
/// order shows in. Of a layout that has elements.
layout in_memory_order(const layout& l);

/// The outputs of reducing some axes.
class strided_batch : public batch {
 public:
  explicit strided_batch(const layout& l)
      : batch(l.type, l.outputs, l.outputs * l.n, {l.x, l.y}), l_(l), contiguous_(l.contiguous()) {
    if (l.reduced.rank == 0) return;
    const axes::axis& inner = l.reduced.dims[l.reduced.rank - 1];
    if (inner.x == 1 && (!l.y || inner.y == 1)) run_length_ = inner.extent;
  }

  std::uint64_t count(std::uint64_t) const override { return l_.n; }
  std::uint64_t first_empty() const override { return l_.n == 0 ? 0 : outputs; }
  using batch::address;
  pointers address(std::uint64_t output, std::uint64_t first, std::uint64_t n) const override {
    if (l_.n == 0) return {nullptr, nullptr};  // an axis without elements has no address
    if (!contiguous_ && (run_length_ == 0 || first % run_length_ + n > run_length_))
      return {nullptr, nullptr};
    const auto outer = l_.kept.offset_of(output), inner = l_.reduced.offset_of(first);
    return pointers_at({outer.x + inner.x, outer.y + inner.y});
  }
  void gather(std::uint64_t output, std::uint64_t outputs_, std::uint64_t first, std::uint64_t n,
              std::byte* to, std::size_t pitch, std::size_t second) const override {
    const strided_matrix x{type, l_.x, &axes::axis::x, l_.kept, l_.reduced},
        y{type, l_.y, &axes::axis::y, l_.kept, l_.reduced};
    x.copy(output, outputs_, first, n, to, pitch);
    if (l_.y) y.copy(output, outputs_, first, n, to + second, pitch);
  }
  std::uint64_t gathered_outputs() const override {
    if (contiguous_) return 1;
    const std::uint64_t size = size_of(type);
    if (run_length_ == 0) return 64 / size;  // which share lines of the cache
    if (run_length_ >= 4096 / size) return 1;
    // Pages, as the short runs of planes do: so many that a tile of each (cpu/task.hpp), which are
    // gathered at once, stays in the first-level cache, or nearly.
    return std::max<std::uint64_t>(2, 8 / size);
  }

 private:
  pointers pointers_at(axes::offset o) const {
    const auto size = static_cast<std::int64_t>(size_of(type));
    return {l_.x + o.x * size, l_.y ? l_.y + o.y * size : nullptr};
  }

  const layout l_;
  const bool contiguous_;
  std::uint64_t run_length_ = 0;  // elements of an output; 0: in none
};

/// Output k has elements offsets[k] to offsets[k + 1] - 1.
class segment_batch : public batch {
 public:
  segment_batch(dtype type, pointers data, std::span<const std::int64_t> offsets)
      : batch(type, offsets.size() - 1,
              static_cast<std::uint64_t>(offsets.back() - offsets.front()), data),
        offsets_(offsets) {}

  std::uint64_t count(std::uint64_t k) const override {
    return static_cast<std::uint64_t>(offsets_[k + 1] - offsets_[k]);
  }
  using batch::address;
  pointers address(std::uint64_t k, std::uint64_t first, std::uint64_t) const override {
    const auto at =
        (offsets_[k] + static_cast<std::int64_t>(first)) * static_cast<std::int64_t>(size_of(type));
    return {data.x + at, data.y ? data.y + at : nullptr};
  }
  void gather(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::byte*, std::size_t,
              std::size_t) const override {}

 private:
  const std::span<const std::int64_t> offsets_;
};

/// Output k has the elements whose key is k, in their order.
class keyed_batch : public batch {
 public:
  /// indices: those of the elements of output 0, of output 1, ..., which begin at begins[k].
  keyed_batch(dtype type, pointers data, std::vector<std::uint64_t> begins,
              std::vector<std::uint64_t> indices)
      : batch(type, begins.size() - 1, indices.size(), data),
        begins_(std::move(begins)),
        indices_(std::move(indices)) {}

  std::uint64_t count(std::uint64_t k) const override { return begins_[k + 1] - begins_[k]; }
  using batch::address;
  pointers address(std::uint64_t, std::uint64_t, std::uint64_t) const override {
    return {nullptr, nullptr};
  }
  void gather(std::uint64_t k, std::uint64_t, std::uint64_t first, std::uint64_t n, std::byte* to,
              std::size_t, std::size_t second) const override;

 private:
  const std::vector<std::uint64_t> begins_, indices_;
};

/// Errors (errc::usage, naming the argument): no offsets; some that fall or leave the array of n
/// elements.
segment_batch segments_of(dtype type, pointers data, std::uint64_t n,
                          std::span<const std::int64_t> offsets);
/// Errors (errc::usage): a key that is negative or not below `outputs`.
void check_keys(std::span<const std::int64_t> keys, std::uint64_t outputs);
keyed_batch keys_of(dtype type, pointers data, std::span<const std::int64_t> keys,
                    std::uint64_t outputs);

/// Refuses (errc::usage) a reduction of other elements.
void check_elements(const reduction& r, dtype type);

/// Errors (errc::usage, naming the argument): reductions of another type or number of inputs than
/// there are, or that no pass can do together; not one `out` for each, or a null one; an output
/// without elements of which one has no result. `first`: the number of the first output, for the
/// error's text.
void check_batch(const batch& b, std::span<const reduction> reductions, std::span<void* const> out,
                 std::uint64_t first = 0);

}  // namespace bitfold::detail
