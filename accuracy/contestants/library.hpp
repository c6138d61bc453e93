// A shared library that may not be there, opened while the program runs.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>

namespace bitfold::accuracy {

class library {
 public:
  /// The first of these names that can be opened. It stays open: what it started (threads,
  /// contexts) may outlive any owner.
  explicit library(std::initializer_list<std::string> names) {
    for (const auto& name : names)
      if (!handle_ && (handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL))) name_ = name;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& name() const { return name_; }

  /// The function of that name, or null. F: its type.
  template <class F>
  F* find(const char* symbol) const {
    static_assert(std::is_function_v<F>);
    return handle_ ? reinterpret_cast<F*>(dlsym(handle_, symbol)) : nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace bitfold::accuracy
