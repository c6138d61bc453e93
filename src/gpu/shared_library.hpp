// A shared library that is opened when it is first needed, so that a build needs none of it.
#pragma once

#include <dlfcn.h>

#include <array>
#include <bitfold/error.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver.hpp"

namespace bitfold::gpu {

class shared_library {
 public:
  /// The first of `names` that can be opened. It stays open until the program ends.
  explicit shared_library(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      handle_ = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
      if (handle_) return;
    }
  }
  explicit operator bool() const { return handle_ != nullptr; }
  /// Sets f to the function of that name, or to null.
  template <class F>
  bool find(const char* name, F*& f) const {
    f = reinterpret_cast<F*>(dlsym(handle_, name));
    return f != nullptr;
  }

 private:
  void* handle_ = nullptr;
};

/// Where a library of a CUDA toolkit is looked for, in this order: where the variable says, and
/// nowhere else; at the place that was given; by its names. A driver of CUDA 12 may be too old for
/// what comes with 13.
inline std::vector<std::string> places_of(const std::string& name, const char* variable,
                                          const std::string& given) {
  if (const char* const own = std::getenv(variable); own && *own) return {own};
  bool of_12 = false;
  try {
    int version = 0;
    of_12 = the_driver().cuDriverGetVersion(&version) == 0 && version / 1000 == 12;
  } catch (const error&) {  // there is no GPU
  }
  const std::string library = "lib" + name + ".so";
  std::vector<std::string> all;
  if (!given.empty() && !(of_12 && given.ends_with(".13"))) all.push_back(given);
  for (const char* version : of_12 ? std::array{".12", ".13"} : std::array{".13", ".12"})
    all.push_back(library + version);
  all.insert(all.end(), {library, "/usr/local/cuda/lib64/" + library});
  return all;
}

}  // namespace bitfold::gpu
