// Results with whatever threads there are, before main, at the end of threads and of the program,
// and in the child of a fork. With the stand-in machine preloaded (stand_in_machine.cpp).
#include <bitfold/reduce.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cpu/task.hpp"

using namespace bitfold;

namespace {

// Every way to share work out: in chunks, by outputs, and count_distinct's own.
std::vector<std::string> all_results(int threads) {
  static const auto& x = *new std::vector<float>([] {
    std::vector<float> v(1 << 19);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = 1.0f / static_cast<float>(i * 40503 % 65537 + 1);
    return v;
  }());
  const cpu::options opts{.threads = threads};
  const auto [sum, exact, distinct] =
      reduce(opts, x, ops::sum, ops::sum.by<method_id::exact>(), ops::count_distinct);
  const auto rows = reduce(opts, row_major(x, {1024, 512}), axes{1}, ops::sum);
  const auto columns = reduce(opts, row_major(x, {1024, 512}), axes{0}, ops::var);
  std::vector<std::string> all{std::to_string(distinct),
                               to_hex(cpu::sum(x, method_id::kahan, opts))};
  for (const float r : {sum, exact, rows[1023], columns[511]})
    all.push_back(to_hex(load_scalar(dtype::f32, &r)));
  return all;
}

// What a function of the caller's own throws on another thread is thrown here.
bool throws(int threads) {
  static const auto& x = *new std::vector<float>(1 << 19, 1.0f);
  try {
    const auto f = [](const float& v) {
      return v == 1 ? throw std::runtime_error("one of the caller's") : v;
    };
    (void)reduce(cpu::options{.threads = threads}, transform(f, x), ops::sum);
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
}

void check(const char* where) {
  static const auto& want = *new std::vector<std::string>(all_results(1));
  for (const int threads : {0, 2, 3, 8, 2}) {
    // What was freed and is still used shows in what takes its place.
    std::vector<std::unique_ptr<long[]>> mine;
    for (int i = 0; i < 1000; ++i) mine.emplace_back(new long[8]{1, 1, 1, 1, 1, 1, 1, 1});
    bool same = all_results(threads) == want && throws(threads);
    for (const auto& m : mine)
      for (int k = 0; k < 8; ++k) same = same && m[static_cast<std::size_t>(k)] == 1;
    if (same) continue;
    std::fprintf(stderr, "%s, threads=%d: other results, or memory of others changed\n", where,
                 threads);
    std::_Exit(1);
  }
}

struct at_end {
  const char* where;
  ~at_end() { check(where); }
};
struct from_first_to_last : at_end {
  from_first_to_last() : at_end{"a static's destructor, after its constructor"} {
    check("before main");
  }
};
at_end made_before_the_first_call{"a static's destructor"};
from_first_to_last made_with_the_first_call;

}  // namespace

int main() {
  if (cpu::threads_for({}, ~std::size_t{0}) != 8) {
    std::fputs("the stand-in machine is not preloaded\n", stderr);
    return 1;
  }
  static thread_local const at_end of_main{"a thread_local's destructor at the end"};
  (void)of_main.where;
  check("main");
  try {
    std::thread([] {
      static thread_local const at_end of_thread{"a thread_local's destructor"};
      (void)of_thread.where;
      check("another thread");
    }).join();
  } catch (const std::system_error&) {  // none can be made
  }
  if (const pid_t child = fork(); child == 0) {
    alarm(60);
    check("the child of a fork");
    std::_Exit(0);
  } else {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "the child of a fork: status %d\n", status);
      return 1;
    }
  }
}
