#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

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

void progress::leave() {
  if (terminal_ && shown_)
    std::fputs(style_ == style::passing ? fmt::format("\r{:100}\r", "").c_str() : "\n", stderr);
  shown_ = false;
}

void progress::show(const std::string& what, bool last) {
  using namespace std::chrono_literals;
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
                                        : clock(elapsed * (total_ - done_) / fresh);
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

}  // namespace bitfold::cli
