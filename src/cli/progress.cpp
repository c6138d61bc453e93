#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/field.hpp"

namespace bitfold::cli {
namespace {

std::string clock(double seconds) {
  const auto s = static_cast<long>(seconds);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

progress::progress(double total, style s)
    : style_(s), terminal_(isatty(STDERR_FILENO)), total_(total) {}

void progress::skip(double weight) {
  const std::lock_guard lock(mutex_);
  done_ += weight;
  skipped_ += weight;
}

void progress::reach(double done) {
  const std::lock_guard lock(mutex_);
  if (done <= done_) return;
  skipped_ += done - done_;
  done_ = done;
}

void progress::start(const std::string& what) {
  const std::lock_guard lock(mutex_);
  show(what, false);
}

void progress::finish(double weight) {
  const std::lock_guard lock(mutex_);
  done_ += weight;
}

void progress::end() {
  const std::lock_guard lock(mutex_);
  show("done", true);
  clear();
}

void progress::leave() {
  const std::lock_guard lock(mutex_);
  clear();
}

void progress::clear() {
  if (terminal_ && shown_)
    std::fputs(style_ == style::passing ? fmt::format("\r{:100}\r", "").c_str() : "\n", stderr);
  shown_ = false;
}

void progress::show(const std::string& what, bool last) {
  using namespace std::chrono_literals;
  if (style_ == style::none) return;
  const auto now = std::chrono::steady_clock::now();
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  if (style_ == style::passing) {
    if (!terminal_ || now - begin_ < 1s || (shown_ && now - last_ < 100ms)) return;
  } else if (!last && !terminal_ && shown_ && now - last_ < 10s) {
    return;
  }
  last_ = now;
  shown_ = true;
  const double share = total_ > 0 ? std::min(done_ / total_, 1.0) : 1, fresh = done_ - skipped_;
  const std::string left = last         ? "0:00"
                           : fresh == 0 ? "?"
                                        : clock(elapsed * std::max(total_ - done_, 0.0) / fresh);
  const int full = static_cast<int>(share * 20);
  const std::string line =
      total_ > 0 || style_ == style::kept
          ? fmt::format("[{:#<{}}{:.<{}}] {:3.0f} %  elapsed {}, left {}  {}", "", full, "",
                        20 - full, 100 * share, clock(elapsed), left, io::printable(what))
          : fmt::format("elapsed {}  {}", clock(elapsed), io::printable(what));
  std::fputs(
      terminal_ ? fmt::format("\r{:<100.100}", line).c_str() : fmt::format("{}\n", line).c_str(),
      stderr);
  std::fflush(stderr);
}

waiting::waiting(progress& bar, std::string what) {
  using namespace std::chrono_literals;
  if (!bar.visible()) return;
  try {
    clock_ = std::thread([this, &bar, what = std::move(what)] {
      std::unique_lock lock(mutex_);
      while (!ended_.wait_for(lock, 100ms, [this] { return end_; })) bar.start(what);
    });
  } catch (const std::system_error&) {  // no more threads: it goes on unseen
  }
}

waiting::~waiting() {
  if (!clock_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  clock_.join();
}

void add_quiet(CLI::App& command, bool& quiet, const std::string& help) {
  command.add_flag("-q,--quiet", quiet, help);
}

}  // namespace bitfold::cli
