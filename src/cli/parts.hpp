// Arrays of results from a device with memory of its own, in as many parts as that asks for. A part
// is some neighbouring outputs, or, of one that is too long for the device, some of its elements:
// no bit shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include <bitfold/reduction.hpp>
#include <bitfold/view.hpp>

namespace bitfold::cli {

/// One output whose elements come in parts, as with cuda::in_parts.
class output_in_parts {
 public:
  virtual ~output_in_parts() = default;
  virtual std::size_t elements() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  virtual void add(const void* x, const void* y, std::span<void* const> out, void* workspace,
                   std::size_t workspace_size) = 0;
};

/// The calls that there are, as in cuda.hpp: of what lies in the device's memory. Errors: theirs,
/// and the device's.
class device {
 public:
  virtual ~device() = default;

  /// Bytes that a part may take.
  virtual std::size_t memory() const = 0;
  /// So much of it, 256-byte aligned, in place of what was given before.
  virtual std::byte* room(std::size_t bytes) = 0;
  virtual void put(std::byte* to, const void* from, std::size_t bytes) = 0;
  virtual void get(void* to, const std::byte* from, std::size_t bytes) = 0;

  virtual std::unique_ptr<output_in_parts> in_parts(std::span<const reduction> all, std::size_t n,
                                                    std::size_t memory) = 0;
  virtual std::size_t workspace_bytes(std::span<const reduction> all, const view& x, const view* y,
                                      std::span<const int> axes) = 0;
  virtual void reduce(std::span<const reduction> all, const view& x, const view* y,
                      std::span<const int> axes, std::span<void* const> out, void* workspace,
                      std::size_t workspace_size) = 0;
  virtual void reduce_segments(std::span<const reduction> all, const void* x, const void* y,
                               std::size_t n, const std::int64_t* offsets, std::size_t segments,
                               std::span<void* const> out, void* workspace,
                               std::size_t workspace_size) = 0;
  virtual std::size_t segments_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                               std::size_t segments) = 0;
  virtual std::size_t by_key_workspace_bytes(std::span<const reduction> all, std::size_t n,
                                             std::size_t outputs) = 0;
  virtual void reduce_by_key(std::span<const reduction> all, const void* x, const void* y,
                             std::size_t n, const std::int64_t* keys, std::size_t outputs,
                             std::span<void* const> out, void* workspace,
                             std::size_t workspace_size) = 0;
};

/// Told how many bytes of the inputs the device was given since it was called last.
using given = std::function<void(std::size_t)>;

/// As cpu::reduce, cpu::reduce_segments and cpu::reduce_by_key, of arrays in host memory, whose
/// errors these are too. Besides (errc::usage): an output that is more than the device takes, even
/// in parts.
void reduce_in_parts(device& by, std::span<const reduction> all, const view& x, const view* y,
                     std::span<const int> axes, std::span<void* const> out, const given& done);
void reduce_segments_in_parts(device& by, std::span<const reduction> all, const void* x,
                              const void* y, std::size_t n, std::span<const std::int64_t> offsets,
                              std::span<void* const> out, const given& done);
void reduce_by_key_in_parts(device& by, std::span<const reduction> all, const void* x,
                            const void* y, std::span<const std::int64_t> keys, std::size_t outputs,
                            std::span<void* const> out, const given& done);

}  // namespace bitfold::cli
