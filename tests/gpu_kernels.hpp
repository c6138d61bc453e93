// Kernels for tests, made several at a time.
#pragma once

#include <algorithm>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <cctype>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/compiler.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launcher.hpp"
#include "main.hpp"

namespace bitfold::test {

/// Whether it is the tests' own driver that is asked, which computes on the CPU.
inline bool is_emulated() {
  const auto devices = cuda::devices();
  return devices.size() == 1 && devices[0] == "an emulated GPU";
}

/// As test::takes, for what asks for kernels of its own: a real GPU takes every case. Where k is
/// the sum of a case's places in several lists, such as of types and of strategies, each of a list
/// is there, and of any two lists each is with some of the other.
inline bool takes_kernels(std::size_t k, std::size_t one_of) {
  static const bool emulated = is_emulated();
  return !emulated || takes(k, one_of);
}

/// The facts of the GPU that is here; or else of one of compute capability 9.0.
inline const gpu::device_facts& this_gpu() {
  static const gpu::device_facts none = gpu::facts_of({9, 0});
  return cuda::devices().empty() ? none : gpu::facts_of_current_device();
}
inline const gpu::tuning& numbers() { return *this_gpu().numbers; }

/// Those of outputs on axes.
inline std::vector<gpu::strategy> strategies_of_outputs() {
  std::vector<gpu::strategy> all;
  for (int s = static_cast<int>(gpu::strategy::threads);
       s <= static_cast<int>(gpu::strategy::segment_states); ++s) {
    const auto what = static_cast<gpu::strategy>(s);
    if (gpu::takes_elements(what) && what != gpu::strategy::short_segments &&
        what != gpu::strategy::segment_nodes)
      all.push_back(what);
  }
  return all;
}

/// Compiles the kernels of these plans that are not there yet, as many at a time as there are
/// processors.
inline void prepare(const std::vector<gpu::plan>& plans) {
  std::vector<gpu::kernel> kernels;
  for (const gpu::plan& p : plans)
    for (gpu::kernel& k : gpu::kernels_of(p)) kernels.push_back(std::move(k));
  gpu::prepare(kernels, gpu::current_device());
}

/// Whether NVRTC is here; says so, or that the test is skipped.
inline bool has_compiler() {
  try {
    std::printf("NVRTC %s\n", gpu::compiler_version().c_str());
    return true;
  } catch (const error& e) {
    if (std::string_view(e.what()).find("install NVRTC") == std::string_view::npos) throw;
    std::printf("skipped: %s\n", e.what());
    return false;
  }
}

/// A sample of kernels that differ in what they are made of, for compilers that take some tenths of
/// a second for each: of every word of their texts, and every number that a template takes, the
/// first kernel that has it. All of them, once each, where the whole is asked for.
class sample_of_kernels {
 public:
  explicit sample_of_kernels(bool all = whole()) : all_(all) {}
  bool takes(const gpu::kernel& k) { return takes(gpu::source_of(k)); }
  bool takes(const gpu::kernel_source& source) {
    const bool names = add_words(source.text, false);
    const bool numbers = add_words(source.expression, true);
    const bool another = known_.insert(source.text + source.expression).second;
    return names || numbers || (all_ && another);
  }

 private:
  // Whether one of these words is new.
  bool add_words(std::string_view text, bool numbers) {
    const auto in_a_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    const std::size_t before = known_.size();
    for (auto end = text.begin();;) {
      const auto begin = std::find_if(end, text.end(), in_a_word);
      if (begin == text.end()) return known_.size() > before;
      end = std::find_if_not(begin, text.end(), in_a_word);
      if (numbers || !std::isdigit(static_cast<unsigned char>(*begin))) known_.emplace(begin, end);
    }
  }
  bool all_;
  std::set<std::string> known_;
};

}  // namespace bitfold::test
