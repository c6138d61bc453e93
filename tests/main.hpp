#pragma once

#include <bitfold/cpu.hpp>

#include <cstdlib>
#include <vector>

namespace bitfold::test {
/// The CPU target that --target names, or the best one here.
extern cpu::target forced_target;

/// Built with a sanitizer: everything takes many times as long, so the longest arrays are left out.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
inline constexpr bool sanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool sanitized = false;
#endif

/// The machine has wider targets than the forced one, or --small says as much.
extern bool narrower;
/// Tests that take a sample of many alike take all of them (BITFOLD_WHOLE=1; docs/building.md).
inline bool whole() {
  const char* const asked = std::getenv("BITFOLD_WHOLE");
  return asked && *asked && *asked != '0';
}
/// Whether the longest tests take smaller sizes and fewer threads: where all is sanitized, and for
/// all targets but the widest, which takes them all. (Not to be asked in main.cpp, which no
/// sanitizer is told of.)
inline bool small_sizes() { return sanitized || narrower; }
/// Whether they take fewer shapes and random cases: there, and where a sample is enough.
inline bool brief() { return small_sizes() || !whole(); }
/// Whether a test takes the case k of those that it goes through, one of so many; in the whole all.
/// (Where k is a sum of places in several lists, each of any two lists is taken with others.)
inline bool takes(std::size_t k, std::size_t one_of) { return whole() || k % one_of == 0; }
/// Types that they take: some there (where all is sanitized one for the narrower targets), others
/// for the widest target, and all of both in the whole.
inline std::vector<dtype> types(std::vector<dtype> there, const std::vector<dtype>& of_the_widest) {
  if (sanitized && narrower && !whole()) there.resize(1);
  if (small_sizes()) return there;
  if (!whole()) return of_the_widest;
  there.insert(there.end(), of_the_widest.begin(), of_the_widest.end());
  return there;
}

/// The numbers of threads that tests go through, 0 for as many as there are.
inline std::vector<int> thread_counts() {
  return small_sizes() ? std::vector{1, 3} : std::vector{1, 3, 64, 0};
}
}  // namespace bitfold::test
