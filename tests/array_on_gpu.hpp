// Arrays on a GPU beside which nothing may be written.
#pragma once

#include <algorithm>
#include <vector>

#include <bitfold/dtype.hpp>

#include "catch.hpp"
#include "device_memory.hpp"

namespace bitfold::test {

/// An array `off` elements away from where it is aligned, and what lies behind it.
class array_on_gpu {
 public:
  array_on_gpu(const std::vector<std::byte>& from, dtype type, std::size_t off = 0)
      : size_(from.size()),
        begin_(off * size_of(type)),
        memory_(std::vector(begin_ + size_ + behind, untouched)) {
    std::copy(from.begin(), from.end(), at());
  }
  std::byte* at() const { return memory_.as<std::byte>() + begin_; }
  /// Once the GPU has done its work. Nothing may have been written beside it.
  std::vector<std::byte> contents() const {
    const auto is_untouched = [](const std::byte* p, std::size_t n) {
      return std::all_of(p, p + n, [](std::byte b) { return b == untouched; });
    };
    CHECK(is_untouched(memory_.as<std::byte>(), begin_));
    CHECK(is_untouched(at() + size_, behind));
    return {at(), at() + size_};
  }

 private:
  static constexpr std::size_t behind = 64;
  static constexpr std::byte untouched{0xa5};
  std::size_t size_, begin_;
  test::device_memory memory_;
};

/// (Whole arrays would make long messages.)
inline void check_same(const char* what, const std::vector<std::byte>& got,
                       const std::vector<std::byte>& want) {
  REQUIRE(got.size() == want.size());
  const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
  INFO(what << " differs from byte " << at << " on");
  CHECK(at == static_cast<std::ptrdiff_t>(got.size()));
}

}  // namespace bitfold::test
