// A long-lived Python process that reduces what it is given: peers.py, which says how it is talked
// to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "../contestant.hpp"

namespace bitfold::accuracy {

/// Whatever goes wrong throws bitfold::error in one line: no such interpreter; an answer "error
/// ..."; one that is none; a process that ends, or does not answer for `patience` seconds (it is
/// killed). After the last two, load() starts another, twice at most.
class python_helper {
 public:
  using line = std::vector<std::string>;

  python_helper(std::string interpreter, std::string script, double patience);
  ~python_helper();
  python_helper(const python_helper&) = delete;
  python_helper& operator=(const python_helper&) = delete;

  /// Starts it and asks for what is there: lines of "found", "missing" and "op".
  std::vector<line> list(bool cpu, bool cuda);
  /// Hands over x, unless it was the last one. It goes through memory without a name, so that there
  /// is no file to remove.
  void load(const array_view& x);
  /// What it answers to a request after "ok".
  line ask(const line& request);

  /// Of the process, for the tests; -1 where none runs.
  pid_t pid() const { return pid_; }

 private:
  void start();
  void stop() noexcept;
  [[noreturn]] void give_up(const std::string& why);
  std::string read_line();
  std::vector<line> exchange(const line& request);

  const std::string interpreter_, script_;
  const double patience_;
  line greeting_;  // the request that list() made
  int starts_ = 0;
  pid_t pid_ = -1;
  int socket_ = -1, memory_ = -1;
  std::string unread_;
  std::optional<std::uint64_t> loaded_;
};

}  // namespace bitfold::accuracy
