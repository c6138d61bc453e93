// Runs the built command (BITFOLD_CLI) for tests, and looks at its two streams and its status.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <bitfold/op.hpp>

#include "catch.hpp"
#include "io_bytes.hpp"
#include "main.hpp"

extern char** environ;

namespace cli {

using bytes::content;
using bytes::files_in;

struct outcome {
  int status;  // -1: not a normal exit
  std::string out, err;
};

// Where its streams come from and go to; out and err are files of its own if they are not given.
struct surroundings {
  std::string in = "/dev/null", out = "", err = "";
  int out_flags = 0;                                    // to open it with, besides
  std::uintmax_t address_space = 0;                     // bytes that it has at most, if not 0
  std::function<void(pid_t)> meanwhile = [](pid_t) {};  // called when it has started
};

// Runs bitfold with these arguments.
inline outcome bitfold_cli(std::vector<std::string> arguments, const surroundings& with = {}) {
  const bytes::directory dir;
  const std::string out = with.out.empty() ? dir.path("out") : with.out,
                    err = with.err.empty() ? dir.path("err") : with.err;
  arguments.insert(arguments.begin(), BITFOLD_CLI);
  if (with.address_space)  // the command's: this process may have more, such as of a GPU's driver
    arguments.insert(arguments.begin(), {"/bin/sh", "-c", "ulimit -v \"$0\" && exec \"$@\"",
                                         std::to_string(with.address_space / 1024)});
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, with.in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | with.out_flags,
                                   0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  with.meanwhile(child);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, with.out.empty() ? content(out) : "",
          with.err.empty() ? content(err) : ""};
}

// What it takes of processors, whatever else the machine does.
inline double seconds_of(const std::vector<std::string>& arguments) {
  const auto used = [] {
    rusage all;
    ::getrusage(RUSAGE_CHILDREN, &all);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(all.ru_utime) + seconds(all.ru_stime);
  };
  const double before = used();
  const auto r = bitfold_cli(arguments);
  CAPTURE(r.err);
  CHECK(r.status == 0);
  return used() - before;
}

// A file of so many bytes, all holes.
inline void make_holes(const std::string& path, std::uintmax_t bytes) {
  std::ofstream{path};
  std::filesystem::resize_file(path, bytes);
}

// KiB of that file that a process has mapped and read, or 0.
inline long kib_read(pid_t process, const std::string& path) {
  const std::string maps = content("/proc/" + std::to_string(process) + "/smaps");
  const auto size = maps.find("\nRss:", maps.find(path));  // from the end if it is not there: none
  return size == maps.npos ? 0 : std::strtol(maps.c_str() + size + 5, nullptr, 10);
}

// Leaves the processor to the command, which it would otherwise take as much of to look at it.
inline void look_again_soon() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// For `meanwhile`: calls then(child) as soon as the command has read some megabytes of that file,
// long before its end if it is long. (No time tells that: a command may be stopped anywhere, such
// as where it maps the file to see what it is, of which it reads no megabyte.)
template <class Then>
std::function<void(pid_t)> when_read(const std::string& path, Then then) {
  return [path = std::filesystem::canonical(path).string(), then](pid_t child) {
    while (kib_read(child, path) < 16 << 10) {
      siginfo_t ended{};
      REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
      if (ended.si_pid != 0) return;  // the test will say what it did instead
      look_again_soon();
    }
    then(child);
  };
}
// The same of a long file, which is made here and then cut to one page, while the command reads it
// for some tenths of a second.
inline constexpr std::uintmax_t long_file = std::uintmax_t{1}
                                            << (bitfold::test::sanitized ? 30 : 33);
inline std::function<void(pid_t)> shorten_when_read(const std::string& path,
                                                    std::uintmax_t size = long_file) {
  make_holes(path, size);
  return when_read(path, [path](pid_t) { std::filesystem::resize_file(path, 4096); });
}

// What run(path) leaves on a terminal of that path.
template <class Run>
std::string shown_on_a_terminal(Run run) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE((::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0));
  const std::string slave = ::ptsname(terminal);
  const int kept_open = ::open(slave.c_str(), O_RDWR | O_NOCTTY);
  REQUIRE(::fcntl(terminal, F_SETFL, O_NONBLOCK) == 0);  // there may be nothing
  run(slave);
  char seen[4096];
  const ssize_t n = ::read(terminal, seen, sizeof seen);
  ::close(kept_open);
  ::close(terminal);
  return {seen, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The element types that tests of them all go through: where a command takes its time to start, one
// of each way through it.
inline std::vector<bitfold::dtype> tested_types() {
  using enum bitfold::dtype;
  if (bitfold::test::sanitized) return {bf16, f32, i16};
  return {bitfold::all_dtypes.begin(), bitfold::all_dtypes.end()};
}

struct tensor {
  std::string name, type, shape, bytes;
};

inline std::string safetensors_of(const std::vector<tensor>& tensors) {
  std::string header = "{", body;
  for (const auto& t : tensors) {
    const int begin = static_cast<int>(body.size());
    body += t.bytes;
    if (header.size() > 1) header += ",";
    header += bytes::tensor(t.name, t.type, t.shape, begin, static_cast<int>(body.size()));
  }
  return bytes::safetensors(header + "}", body);
}

inline std::string npy_of(const std::vector<float>& values) {
  return bytes::npy("<f4", "(" + std::to_string(values.size()) + ",)", bytes::of(values));
}

/// Exact: those that method exact may be asked of, beside others that take no method.
inline std::vector<bitfold::op_id> ops_of(int inputs, bool exact = false) {
  std::vector<bitfold::op_id> ops;
  for (const bitfold::op_info& op : bitfold::all_op_infos)
    if (op.inputs == inputs && (!exact || op.has_exact || !op.takes_method)) ops.push_back(op.id);
  return ops;
}

// As OP of the command line.
inline std::string list_of(const std::vector<bitfold::op_id>& ops) {
  std::string list;
  for (const auto op : ops) list += (list.empty() ? "" : ",") + std::string(name(op));
  return list;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void check_usage(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& parts) {
  const auto r = bitfold_cli(arguments);
  CAPTURE(arguments, r.err);
  CHECK(r.status == 2);
  CHECK(r.out.empty());
  CHECK(r.err.starts_with("bitfold: "));
  CHECK(lines_of(r.err).size() == 1);
  for (const auto& part : parts) CHECK(contains(r.err, part));
}

}  // namespace cli
