// A shared library that is opened when it is first needed, so that a build needs none of it.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

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

}  // namespace bitfold::gpu
