// What tests change around the code under test.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace bitfold::test {

/// An environment variable as long as this lives; then what it was.
class environment {
 public:
  environment(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace bitfold::test
