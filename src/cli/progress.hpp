// The progress bar, on stderr.
#pragma once

#include <chrono>
#include <string>

namespace bitfold::cli {

/// How far something is that takes `total` in all, in whatever unit; 0: that is not known.
class progress {
 public:
  enum class style {
    kept,     ///< on a terminal one line that is rewritten; elsewhere a line now and then
    passing,  ///< on a terminal alone, if it takes longer than a second; gone at the end
  };
  explicit progress(double total, style s = style::kept);
  ~progress() { leave(); }
  progress(const progress&) = delete;

  /// What was done before this run counts as done, but not for the rate.
  void skip(double weight) { done_ += weight, skipped_ += weight; }
  void start(const std::string& what) { show(what, false); }
  void finish(double weight) { done_ += weight; }
  void end() {
    show("done", true);
    leave();
  }
  /// What is written next starts a line of its own.
  void leave();

 private:
  void show(const std::string& what, bool last);

  const style style_;
  const bool terminal_;
  const double total_;
  double done_ = 0, skipped_ = 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), last_;
};

}  // namespace bitfold::cli
