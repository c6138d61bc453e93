// What --device cuda would do, in words.
#pragma once

#include <string>
#include <utility>

#include "cli/parts.hpp"

namespace bitfold::cli {

/// A device on which nothing is done: it keeps what each call would be planned as. It needs no GPU.
class explained_device final : public device {
 public:
  /// What was asked since the last time.
  std::string take() { return std::exchange(text_, {}); }

  std::size_t memory() const override { return std::size_t{1} << 62; }
  std::byte* room(std::size_t) override;
  void put(std::byte*, const void*, std::size_t) override {}
  void get(void*, const std::byte*, std::size_t) override {}
  std::unique_ptr<output_in_parts> in_parts(std::span<const reduction>, std::size_t,
                                            std::size_t) override;
  std::size_t workspace_bytes(std::span<const reduction>, const view&, const view*,
                              std::span<const int>) override {
    return 0;
  }
  void reduce(std::span<const reduction> all, const view& x, const view* y,
              std::span<const int> axes, std::span<void* const>, void*, std::size_t) override;
  void reduce_segments(std::span<const reduction> all, const void*, const void*, std::size_t n,
                       const std::int64_t*, std::size_t segments, std::span<void* const>, void*,
                       std::size_t) override;
  std::size_t segments_workspace_bytes(std::span<const reduction>, std::size_t,
                                       std::size_t) override {
    return 0;
  }
  std::size_t by_key_workspace_bytes(std::span<const reduction>, std::size_t,
                                     std::size_t) override {
    return 0;
  }
  void reduce_by_key(std::span<const reduction> all, const void*, const void*, std::size_t n,
                     const std::int64_t*, std::size_t outputs, std::span<void* const>, void*,
                     std::size_t) override;

 private:
  std::string text_;
};

}  // namespace bitfold::cli
