#include "python.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "peers_py.hpp"  // made of peers.py by CMake: peers_py

extern char** environ;

namespace bitfold::accuracy {
namespace {

using steady = std::chrono::steady_clock;

constexpr int memory_there = 3;   // its descriptor in the helper
constexpr double patience = 300;  // seconds: importing PyTorch may take one minute of them
constexpr int most_starts = 3;
constexpr std::size_t longest_line = 1 << 20;

std::string system_error(const std::string& what) { return what + ": " + std::strerror(errno); }

python_helper::line split(const std::string& text, char at) {
  python_helper::line fields(1);
  for (char c : text)
    if (c == at)
      fields.emplace_back();
    else
      fields.back() += c;
  return fields;
}

std::string join(const python_helper::line& fields) {
  std::string text;
  for (const auto& f : fields) text += (&f == &fields.front() ? "" : "\t") + f;
  return text;
}

// For a message: one short line of printable characters.
std::string excerpt(std::string text) {
  constexpr std::size_t enough = 200;
  if (text.size() > enough) text = text.substr(0, enough) + "...";
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

template <class T>
std::optional<T> parse(const std::string& text, int base = 10) {
  T value{};
  const char* const end = text.data() + text.size();
  std::from_chars_result r{};
  if constexpr (std::is_floating_point_v<T>)
    r = std::from_chars(text.data(), end, value);
  else
    r = std::from_chars(text.data(), end, value, base);
  if (r.ec != std::errc{} || r.ptr != end) return {};
  return value;
}

}  // namespace

// ---- The process

python_helper::python_helper(std::string interpreter, std::string script, double patience)
    : interpreter_(std::move(interpreter)), script_(std::move(script)), patience_(patience) {}

python_helper::~python_helper() { stop(); }

void python_helper::start() {
  if (++starts_ > most_starts)
    throw error(errc::bad_input,
                interpreter_ + ": given up after " + std::to_string(most_starts) + " starts");
  loaded_.reset();
  unread_.clear();
  // One socket is its standard input and output: writing to one whose reader is gone need not raise
  // SIGPIPE, as it would on a pipe.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw error(errc::bad_input, system_error("socketpair"));
  socket_ = ends[0];
  memory_ = memfd_create("bitfold", MFD_CLOEXEC);
  if (memory_ < 0) {
    const std::string why = system_error("memfd_create");
    close(ends[1]);
    stop();
    throw error(errc::bad_input, why);
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, memory_, memory_there);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // In a process group of its own: Ctrl-C is for the suite, which ends a unit in good order.
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
  std::string program = interpreter_, option = "-c", script = script_;
  char* arguments[] = {program.data(), option.data(), script.data(), nullptr};
  pid_t pid = -1;
  const int err = posix_spawnp(&pid, program.c_str(), &files, &how, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  close(ends[1]);
  if (err != 0) {
    stop();
    throw error(errc::bad_input,
                interpreter_ + ": " + std::strerror(err) +
                    " (the environment variable BITFOLD_PYTHON names the interpreter)");
  }
  pid_ = pid;
}

void python_helper::stop() noexcept {
  if (socket_ >= 0) close(socket_);  // it sees the end of its input
  if (memory_ >= 0) close(memory_);
  socket_ = memory_ = -1;
  if (pid_ < 0) return;
  for (int i = 0; i < 200 && waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    if (i == 199) {
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      break;
    }
    usleep(10000);
  }
  pid_ = -1;
}

void python_helper::give_up(const std::string& why) {
  if (pid_ >= 0) kill(-pid_, SIGKILL);
  stop();
  throw error(errc::bad_input, interpreter_ + ": " + why);
}

std::string python_helper::read_line() {
  const auto until = steady::now() + std::chrono::duration<double>(patience_);
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      std::string text = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return text;
    }
    if (unread_.size() > longest_line) give_up("answered without end: " + excerpt(unread_));
    const double left = std::chrono::duration<double>(until - steady::now()).count();
    pollfd p{socket_, POLLIN, 0};
    const int ready = left > 0 ? poll(&p, 1, static_cast<int>(left * 1000) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      give_up("no answer for " + std::to_string(static_cast<int>(patience_)) + " s; killed");
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // Wait for it rather than kill it, to say how it ended; it may have closed its output only.
      int status = 0;
      pid_t ended = 0;
      for (int i = 0; i < 100 && ended == 0; ++i, usleep(10000))
        ended = waitpid(pid_, &status, WNOHANG);
      if (ended != pid_) give_up("closed its output");
      pid_ = -1;
      give_up(WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                  : "ended with status " + std::to_string(WEXITSTATUS(status)));
    }
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
}

std::vector<python_helper::line> python_helper::exchange(const line& request) {
  if (pid_ < 0) throw error(errc::bad_input, interpreter_ + ": not running");
  const std::string text = join(request) + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t k = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) break;  // it is gone: reading says how
    sent += static_cast<std::size_t>(k);
  }
  std::vector<line> answer;
  for (;;) {
    const std::string got = read_line();
    line fields = split(got, '\t');
    if (fields[0] == "error")
      throw error(errc::bad_input,
                  request[0] + ": " + excerpt(got.substr(std::min(got.size(), std::size_t{6}))));
    const bool last = fields[0] == "ok";
    const auto is_one_of = [&](auto... kinds) { return ((fields[0] == kinds) || ...); };
    if (!last && !is_one_of("found", "missing", "op", "product"))
      give_up("no answer to \"" + request[0] + "\": " + excerpt(got));
    answer.push_back(std::move(fields));
    if (last) return answer;
  }
}

std::vector<python_helper::line> python_helper::list(bool cpu, bool cuda) {
  greeting_ = {"list", cpu ? "1" : "0", cuda ? "1" : "0"};
  start();
  auto answer = exchange(greeting_);
  answer.pop_back();  // "ok"
  return answer;
}

void python_helper::load(const array_view& x) {
  if (pid_ < 0) {
    start();
    exchange(greeting_);
  }
  if (loaded_ == x.id) return;
  loaded_.reset();
  const std::size_t size = x.bytes();
  for (std::size_t done = 0; done < size;) {
    const ssize_t k = pwrite(memory_, static_cast<const char*>(x.data) + done, size - done,
                             static_cast<off_t>(done));
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0)
      throw error(errc::bad_input,
                  system_error("handing " + std::to_string(size) + " bytes to Python"));
    done += static_cast<std::size_t>(k);
  }
  exchange({"load", std::string(name(x.type)), std::to_string(size), std::to_string(x.inputs)});
  if (ftruncate(memory_, 0) != 0) throw error(errc::bad_input, system_error("ftruncate"));
  loaded_ = x.id;
}

python_helper::line python_helper::ask(const line& request) {
  line answer = exchange(request).back();
  answer.erase(answer.begin());
  return answer;
}

// ---- What it has

namespace {

// Ways to run it, by thread counts; "-" is the one without threads of its own.
std::vector<variation> ways_of(const std::vector<std::string>& threads) {
  std::vector<variation> all;
  for (const auto& t : threads)
    if (t == "-")
      all.push_back({"default", true, 0});
    else
      all.push_back({t + (t == "1" ? " thread" : " threads"), true, std::atoi(t.c_str())});
  return all;
}

std::vector<double> times_of(const python_helper::line& answer, const std::string& key, int times) {
  std::vector<double> out;
  for (const auto& field : split(join(answer), ' '))
    if (const auto s = parse<double>(field); s && *s > 0) out.push_back(*s);
  if (out.size() != static_cast<std::size_t>(times))
    throw error(errc::bad_input, key + ": these are no times: " + excerpt(join(answer)));
  return out;
}

class python_call final : public contestant {
 public:
  python_call(contestant_info i, std::string key, std::size_t most,
              std::vector<std::string> threads, bool axes, std::shared_ptr<python_helper> helper)
      : contestant(std::move(i)),
        key_(std::move(key)),
        most_(most),
        threads_(std::move(threads)),
        axes_(axes),
        helper_(std::move(helper)) {}
  std::vector<variation> variations() const override { return ways_of(threads_); }
  bool takes(std::size_t n) const override { return most_ == 0 || n <= most_; }
  bool has_axes() const override { return axes_; }
  scalar run(const array_view& x, std::size_t way) override {
    return run(x, {"run", key_, threads_.at(way)});
  }
  scalar run_along(const array_view& x, const matrix& as, std::size_t way) override {
    return run(x, with_shape({"run", key_, threads_.at(way)}, as));
  }
  std::vector<double> seconds(const array_view& x, std::size_t way, int times) override {
    return seconds(x, times, {"time", key_, threads_.at(way), std::to_string(times)});
  }
  std::vector<double> seconds_along(const array_view& x, const matrix& as, std::size_t way,
                                    int times) override {
    return seconds(x, times,
                   with_shape({"time", key_, threads_.at(way), std::to_string(times)}, as));
  }

 private:
  static python_helper::line with_shape(python_helper::line request, const matrix& as) {
    for (const std::size_t n : {as.rows, as.columns, static_cast<std::size_t>(as.axis)})
      request.push_back(std::to_string(n));
    return request;
  }
  scalar run(const array_view& x, const python_helper::line& request) {
    helper_->load(x);
    const auto answer = helper_->ask(request);
    const auto bits = answer.size() == 1 && answer[0].size() == 2 * size_of(info.out)
                          ? parse<std::uint64_t>(answer[0], 16)
                          : std::nullopt;
    if (!bits) throw error(errc::bad_input, key_ + ": these are no bits: " + excerpt(join(answer)));
    return {info.out, *bits};
  }
  std::vector<double> seconds(const array_view& x, int times, const python_helper::line& request) {
    helper_->load(x);
    return times_of(helper_->ask(request), key_, times);
  }

  std::string key_;
  std::size_t most_;
  std::vector<std::string> threads_;
  bool axes_;
  std::shared_ptr<python_helper> helper_;
};

class python_product final : public product_contestant {
 public:
  python_product(entry_info<matrix_product> i, std::string key, std::vector<std::string> threads,
                 std::shared_ptr<python_helper> helper)
      : product_contestant(std::move(i)),
        key_(std::move(key)),
        threads_(std::move(threads)),
        helper_(std::move(helper)) {}
  std::vector<variation> variations() const override {
    auto all = ways_of(threads_);
    for (std::size_t way = 1; way < all.size(); ++way) all[way].timed = all[way].threads == 1;
    return all;
  }
  std::vector<std::byte> run(const array_view& x, const product_shape& s,
                             std::size_t way) override {
    helper_->load(x);
    const auto answer = helper_->ask(with_shape({"product", key_, threads_.at(way)}, s));
    std::vector<std::byte> out;
    if (answer.size() == 1 && answer[0].size() == 2 * s.outputs() * size_of(info.out))
      for (std::size_t i = 0; i < answer[0].size(); i += 2)
        if (const auto byte = parse<unsigned char>(answer[0].substr(i, 2), 16))
          out.push_back(std::byte{*byte});
    if (out.size() != s.outputs() * size_of(info.out))
      throw error(errc::bad_input, key_ + ": these are no bits: " + excerpt(join(answer)));
    return out;
  }
  std::vector<double> seconds(const array_view& x, const product_shape& s, std::size_t way,
                              int times) override {
    helper_->load(x);
    return times_of(helper_->ask(with_shape(
                        {"time_product", key_, threads_.at(way), std::to_string(times)}, s)),
                    key_, times);
  }

 private:
  static python_helper::line with_shape(python_helper::line request, const product_shape& s) {
    for (const std::size_t n : {s.rows, s.inner, s.columns, std::size_t{s.left_by_columns},
                                std::size_t{s.right_by_columns}})
      request.push_back(std::to_string(n));
    return request;
  }

  std::string key_;
  std::vector<std::string> threads_;
  std::shared_ptr<python_helper> helper_;
};

// One line of "list".
void add(contestants& out, const python_helper::line& l,
         const std::shared_ptr<python_helper>& helper) {
  if (l[0] == "found" && l.size() == 3) {
    out.found.push_back({l[1], l[2]});
  } else if (l[0] == "missing" && l.size() == 3) {
    out.missing.push_back({l[1], l[2]});
  } else if (l[0] == "product") {
    const auto in = l.size() == 10 ? parse_dtype(l[5]) : std::nullopt;
    const auto result = in ? parse_dtype(l[7]) : std::nullopt;
    if (!result) throw error(errc::bad_input, "list: not understood: " + excerpt(join(l)));
    out.products.push_back(
        std::make_unique<python_product>(entry_info<matrix_product>{.id = l[1] + "/" + l[5],
                                                                    .name = l[2],
                                                                    .family = l[3],
                                                                    .device = l[4],
                                                                    .about = l[9],
                                                                    .in = *in,
                                                                    .acc = l[6],
                                                                    .out = *result},
                                         l[1], split(l[8], ' '), helper));
  } else {
    const auto op = l.size() == 13 ? parse_op(l[1]) : std::nullopt;
    const auto in = op ? parse_dtype(l[6]) : std::nullopt;
    const auto result = in ? parse_dtype(l[8]) : std::nullopt;
    const auto most = result ? parse<std::size_t>(l[9]) : std::nullopt;
    if (!most) throw error(errc::bad_input, "list: not understood: " + excerpt(join(l)));
    contestant_info i{.id = l[2] + "/" + l[6],
                      .name = l[3],
                      .family = l[4],
                      .device = l[5],
                      .about = l[12],
                      .in = *in,
                      .acc = l[7],
                      .out = *result,
                      .op = *op};
    out.list.push_back(std::make_unique<python_call>(std::move(i), l[2], *most, split(l[10], ' '),
                                                     l[11] == "1", helper));
  }
}

}  // namespace

void add_python(contestants& out, bool cpu, bool cuda) {
  const char* chosen = std::getenv("BITFOLD_PYTHON");
  const auto helper =
      std::make_shared<python_helper>(chosen && *chosen ? chosen : "python3", peers_py, patience);
  try {
    contestants here;
    for (const auto& l : helper->list(cpu, cuda)) add(here, l, helper);
    std::move(here.list.begin(), here.list.end(), std::back_inserter(out.list));
    std::move(here.products.begin(), here.products.end(), std::back_inserter(out.products));
    std::move(here.found.begin(), here.found.end(), std::back_inserter(out.found));
    std::move(here.missing.begin(), here.missing.end(), std::back_inserter(out.missing));
  } catch (const error& e) {
    if (cpu) out.missing.push_back({"NumPy", e.what()});
    out.missing.push_back({"PyTorch", e.what()});
  }
}

}  // namespace bitfold::accuracy
