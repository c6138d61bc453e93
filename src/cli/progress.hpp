// The progress bar, on stderr.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

namespace bitfold::cli {

/// How far something is that takes `total` in all, in whatever unit; 0: that is not known. Threads
/// may share one.
class progress {
 public:
  enum class style {
    kept,     ///< on a terminal one line that is rewritten; elsewhere a line now and then
    passing,  ///< on a terminal alone, if it takes longer than a second; gone at the end
    none
  };
  explicit progress(double total, style s = style::kept);
  ~progress() { leave(); }
  progress(const progress&) = delete;

  /// What was done before this run counts as done, but not for the rate.
  void skip(double weight);
  /// So much is done at least; what was not told of counts as skipped.
  void reach(double done);
  void start(const std::string& what);
  void finish(double weight);
  void end();
  /// What is written next starts a line of its own.
  void leave();
  /// Whether anybody sees it.
  bool visible() const { return terminal_ && style_ != style::none; }

 private:
  void clear();
  void show(const std::string& what, bool last);

  const style style_;
  const bool terminal_;
  const double total_;
  double done_ = 0, skipped_ = 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), last_;
  std::mutex mutex_;
};

/// Moves the clock of the bar while one thing goes on that tells nothing until its end.
class waiting {
 public:
  waiting(progress& bar, std::string what);
  ~waiting();
  waiting(const waiting&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread clock_;
};

/// Adds --quiet, which does what `help` says.
void add_quiet(CLI::App& command, bool& quiet, const std::string& help = "Show no progress");

/// A passing one, or none.
inline progress::style passing_unless(bool quiet) {
  return quiet ? progress::style::none : progress::style::passing;
}

}  // namespace bitfold::cli
