// Several files that are written together, as results and reports are.
#include "io/new_files.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>

#include "catch.hpp"
#include "io_bytes.hpp"

using namespace bitfold;

using bytes::content;
using bytes::files_in;

TEST_CASE("new files: where one cannot be put in its place, none is") {
  const bytes::directory dir;
  const auto old = dir.write("old", "what was there");
  const std::string fresh = dir.path("fresh"), blocked = dir.path("blocked");
  {
    io::new_files files;
    for (const auto& path : {old, fresh, blocked, dir.path("last")}) files.add(path, "new");
    CHECK(content(old) == "what was there");
    std::filesystem::create_directory(blocked);
    CHECK_THROWS_WITH(files.commit(), blocked + ": cannot be written: Is a directory");
  }
  CHECK(content(old) == "what was there");
  CHECK(files_in(dir.path("")) == std::set<std::string>{"old", "blocked"});
  std::filesystem::remove(blocked);
  {
    io::new_files files;
    for (const auto& path : {old, fresh, blocked}) files.add(path, "new");
    files.commit();
  }
  for (const auto& path : {old, fresh, blocked}) CHECK(content(path) == "new");
  CHECK(files_in(dir.path("")) == std::set<std::string>{"old", "blocked", "fresh"});
}

TEST_CASE("new files: an error has the path that was given, and the number of what is wrong") {
  const bytes::directory dir;
  const std::string path = dir.path("nowhere/file");
  try {
    io::write_file(path, "new");
    FAIL();
  } catch (const io::write_error& e) {
    CHECK(e.path == path);
    CHECK(e.number == ENOENT);
    CHECK(e.what() == path + ": cannot be written: No such file or directory");
  }
}

TEST_CASE("new files: what a killed process of the same number left is not in the way") {
  const bytes::directory dir;
  std::set<std::string> left;
  for (int k = 0; k < 20; ++k)
    left.insert(".bitfold." + std::to_string(::getpid()) + "." + std::to_string(k) + ".tmp");
  for (const auto& name : left) dir.write(name, "half");
  io::write_file(dir.path("x"), "new");
  CHECK(content(dir.path("x")) == "new");
  auto all = left;
  all.insert("x");
  CHECK(files_in(dir.path("")) == all);
}

TEST_CASE("new files: a signal that ends the process leaves none half-way") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const bytes::directory dir;
    const auto old = dir.write("old", "what was there");
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      io::clean_up_on_signals();
      io::new_files files;
      for (const auto& path : {old, dir.path("a"), dir.path("b")}) files.add(path, "new");
      std::raise(number);
      std::_Exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == number);
    CHECK(content(old) == "what was there");
    CHECK(files_in(dir.path("")) == std::set<std::string>{"old"});
  }
}
