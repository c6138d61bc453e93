#include "compiler_processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

extern char** environ;

namespace bitfold::gpu {
namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
constexpr int idle_milliseconds = 20'000;   // after which a process ends
constexpr std::size_t most_processes = 16;  // each takes some 100 MB

// ---- Messages: texts, each behind its length ----------------------------------------------------

using message = std::vector<std::string>;

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}
bool receive_all(int from, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(from, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}
std::string bytes_of(std::uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

bool send(int to, const message& texts) {
  std::string all = bytes_of(texts.size());
  for (const std::string& text : texts) all += bytes_of(text.size()) + text;
  return send_all(to, all);
}
std::optional<message> receive(int from) {
  const auto number = [&](std::uint64_t most) -> std::optional<std::uint64_t> {
    std::uint64_t found = 0;
    if (!receive_all(from, reinterpret_cast<char*>(&found), sizeof found) || found > most)
      return {};
    return found;
  };
  const auto count = number(16);
  if (!count) return {};
  message texts(*count);
  for (std::string& text : texts) {
    const auto size = number(most_bytes);
    if (!size) return {};
    text.resize(*size);
    if (!receive_all(from, text.data(), text.size())) return {};
  }
  return texts;
}

// ---- The processes ------------------------------------------------------------------------------

struct served {
  pid_t process;
  int socket;
};

std::optional<served> start(const std::vector<std::string>& command) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  std::vector<char*> arguments;
  for (const std::string& text : command) arguments.push_back(const_cast<char*>(text.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // Whoever waits for the end of this process's output does not wait for the others'.
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  const int failed =
      ::posix_spawnp(&process, arguments[0], &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(ends[1]);
  if (failed) {
    ::close(ends[0]);
    return {};
  }
  return served{process, ends[0]};
}

// It ended, or does when it finds the socket closed.
void leave(const served& one) {
  ::close(one.socket);
  ::waitpid(one.process, nullptr, 0);
}

struct pool {
  std::mutex guard;
  std::vector<std::string> command;
  std::vector<served> idle;
  std::size_t busy = 0;
  pid_t owner = ::getpid();
};
pool& the_pool() {
  // Never destroyed: the processes end when this one does.
  static auto& all = *new pool;
  return all;
}

// One that nobody asks, of as many as there are processors beside the caller's.
std::optional<served> take(const std::string& library) {
  pool& all = the_pool();
  const std::lock_guard lock(all.guard);
  if (all.command.empty()) return {};
  if (all.owner != ::getpid()) {  // after a fork: the others are the parent's
    for (const served& one : all.idle) ::close(one.socket);
    all.idle.clear();
    all.busy = 0;
    all.owner = ::getpid();
  }
  if (all.busy + 1 >=
      std::min<std::size_t>(std::thread::hardware_concurrency(), most_processes + 1))
    return {};
  // Those that ended, as nobody asked them for some time.
  std::erase_if(all.idle, [](const served& one) {
    const bool ended = ::waitpid(one.process, nullptr, WNOHANG) != 0;
    if (ended) ::close(one.socket);
    return ended;
  });
  std::optional<served> found;
  if (!all.idle.empty()) {
    found = all.idle.back();
    all.idle.pop_back();
  } else {
    std::vector<std::string> command = all.command;
    command.push_back(library);
    found = start(command);
    if (!found) all.command.clear();  // nor will another one
  }
  all.busy += found.has_value();
  return found;
}
void give_back(const served& one, bool works) {
  if (!works) leave(one);
  pool& all = the_pool();
  const std::lock_guard lock(all.guard);
  --all.busy;
  if (works) all.idle.push_back(one);
}

}  // namespace

std::optional<machine_code> compile_elsewhere(const kernel_source& source, int major, int minor,
                                              const std::string& library) {
  const auto by = take(library);
  if (!by) return {};
  std::optional<message> answer;
  if (send(by->socket,
           {source.text, source.expression, std::to_string(major), std::to_string(minor)}))
    answer = receive(by->socket);
  give_back(*by, answer.has_value());
  if (!answer || answer->size() != 3) return {};
  message& of = *answer;
  if (!of[0].empty()) throw error(static_cast<errc>(std::atoi(of[0].c_str())), of[1]);
  return machine_code{std::move(of[1]), std::move(of[2])};
}

}  // namespace bitfold::gpu

namespace bitfold::cuda {

void compile_by(std::vector<std::string> command) {
  gpu::pool& all = gpu::the_pool();
  const std::lock_guard lock(all.guard);
  all.command = std::move(command);
  for (const gpu::served& one : all.idle) gpu::leave(one);
  all.idle.clear();
}

int compile_for_others(const std::string& library) {
  std::signal(SIGINT, SIG_IGN);  // it ends with the process that asks
#ifdef SYS_close_range
  ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);  // what that one had open
#endif
  look_for_compiler_at(library);
  pollfd from{STDIN_FILENO, POLLIN, 0};
  while (::poll(&from, 1, gpu::idle_milliseconds) > 0) {
    const auto asked = gpu::receive(STDIN_FILENO);
    if (!asked || asked->size() != 4) return 0;
    gpu::message answer;
    try {
      gpu::machine_code made =
          gpu::compile({(*asked)[0], (*asked)[1]}, std::atoi((*asked)[2].c_str()),
                       std::atoi((*asked)[3].c_str()));
      answer = {"", std::move(made.name), std::move(made.image)};
    } catch (const error& e) {
      answer = {std::to_string(static_cast<int>(e.code())), e.what(), ""};
    }
    if (!gpu::send(STDIN_FILENO, answer)) return 0;
  }
  return 0;
}

}  // namespace bitfold::cuda
