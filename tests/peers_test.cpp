// The suite's peers: they are called rightly, and what is missing, broken, stuck or wrong is said
// and harms nothing. Nothing here fails because a peer is absent or cannot add.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "accuracy/contestants/device.hpp"
#include "accuracy/contestants/library.hpp"
#include "accuracy/contestants/python.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "accuracy/suite.hpp"
#include "catch.hpp"
#include "environment.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using bitfold::test::environment;

namespace {

// ---- Whose sums are right

scalar as_scalar(double value, dtype t) { return load_scalar(t, pack({&value, 1}, t).data()); }

std::uint64_t next_id() {
  static std::uint64_t id = 0;
  return ++id;
}

// Ours is what is said of a contestant and how it is called. Whether a peer then adds rightly is
// its own affair, and may depend on the machine: that is said, and no failure.
void check_peers(const contestants& c) {
  std::set<std::string> ids;
  for (const auto& who : c.list) {
    CAPTURE(who->info.id);
    CHECK(ids.insert(who->info.id).second);
    CHECK(!who->info.about.empty());
    REQUIRE(!who->variations().empty());
    for (const wrong_sum& w : wrong_sums(*who)) {
      CHECK(w.got.type == who->info.out);
      WARN("wrong here: " << who->info.id << ", " << w.variation << ": " << w.array << " sums to "
                          << to_string(w.expected) << ", got " << to_string(w.got));
    }
  }
}

// Those with axes sum the first row or column, and time all of them.
void check_along(const contestants& c) {
  const std::vector<double> values{3, 1, 2, 7, 5, 2, 4, 1, 6, 3};
  for (const auto& who : c.list) {
    if (!who->has_axes() || who->info.op != op_id::sum) continue;
    const auto bytes = pack(values, who->info.in);
    const array_view x{who->info.in, bytes.data(), values.size(), next_id()};
    for (const auto& [as, sum] :
         {std::pair{matrix{2, 5, 1}, 18.0}, {{2, 5, 0}, 5.0}, {{5, 2, 1}, 4.0}, {{5, 2, 0}, 20.0}})
      for (std::size_t way = 0; way < who->variations().size(); ++way) {
        INFO(who->info.id << ", " << who->variations()[way].label << ", " << as.rows << " x "
                          << as.columns << ", axis " << as.axis);
        CHECK(to_string(who->run_along(x, as, way)) == to_string(as_scalar(sum, who->info.out)));
        CHECK(who->seconds_along(x, as, way, 2).size() == 2);
      }
  }
}

// The products of 2 x 3 and 3 x 2 small integers, of operands by rows and by columns, in each
// variation; and the times of those.
void check_products(const contestants& c) {
  const std::vector<double> a{1, 2, 3, -1, 0, 2}, by_columns{1, -1, 2, 0, 3, 2};
  const std::vector<double> b{2, 1, 0, -3, 1, 1}, b_by_columns{2, 0, 1, 1, -3, 1};
  const double product[] = {5, -2, 0, 1};
  std::set<std::string> ids;
  for (const auto& who : c.products) {
    CHECK(ids.insert(who->info.id).second);
    CHECK(!who->info.about.empty());
    for (const bool left : {false, true})
      for (const bool right : {false, true}) {
        std::vector<double> both = left ? by_columns : a;
        const auto& second = right ? b_by_columns : b;
        both.insert(both.end(), second.begin(), second.end());
        const auto bytes = pack(both, who->info.in);
        const array_view x{who->info.in, bytes.data(), both.size(), next_id()};
        const product_shape s{2, 3, 2, left, right};
        for (std::size_t way = 0; way < who->variations().size(); ++way) {
          INFO(who->info.id << ", " << who->variations()[way].label << ", " << left << right);
          CHECK(who->run(x, s, way) == pack(product, who->info.out));
          if (way == 0) CHECK(who->seconds(x, s, way, 2).size() == 2);
        }
      }
  }
}

// Of stand-ins that compute rightly.
void check_right(const contestants& c) {
  const std::vector<double> both{3, 1, 2, 7, 5, 2, 4, 1, 6, 3};  // two arrays of five
  for (const auto& who : c.list) {
    const dtype t = who->info.in;
    const auto bytes = pack(both, t);
    const array_view x{t, bytes.data(), 5, next_id(), 2};
    const real exact = exact_value(who->info.op, {t, x.data, x.second(who->info.op), x.n});
    for (std::size_t way = 0; way < who->variations().size(); ++way) {
      const scalar got = who->run(x, way);
      INFO(who->info.id << ", " << who->variations()[way].label << ": " << to_string(got));
      CHECK(got.type == who->info.out);
      CHECK(error_in_ulps(got, exact) <= 1);
    }
  }
  check_along(c);
  check_products(c);
  for (const auto& who : c.list)
    for (const wrong_sum& w : wrong_sums(*who))
      FAIL_CHECK(who->info.id << ", " << w.variation << ": " << w.array << " sums to "
                              << to_string(w.expected) << ", got " << to_string(w.got));
}

// One or two elements: no kernel is needed for those, and a call with other data shows.
void check_first_elements(const contestants& c) {
  for (const auto& who : c.list)
    for (std::size_t n : {1, 2})
      for (std::size_t way = 0; way < who->variations().size(); ++way) {
        INFO(who->info.id << ", " << who->variations()[way].label << ", n = " << n);
        const exact_input x = small_integers(n, n, false);
        const auto bytes = pack(x.x, who->info.in);
        if (who->info.op != op_id::sum) continue;
        const scalar got = who->run({who->info.in, bytes.data(), n, next_id()}, way);
        CHECK(to_string(got) == to_string(as_scalar(x.sum, who->info.out)));
      }
}

// Only that there are as many times as asked for: how long they are is nobody's promise.
void check_times(const contestants& c) {
  const exact_input in = small_integers(2000, 5, false);
  for (dtype t : {dtype::f16, dtype::bf16, dtype::f32, dtype::f64, dtype::i32}) {
    const auto bytes = pack(in.x, t);
    const array_view view{t, bytes.data(), in.x.size() / 2, next_id(), 2};
    for (const auto& who : c.list) {
      if (who->info.in != t || !who->suits(view)) continue;
      for (std::size_t way = 0; way < who->variations().size(); ++way) {
        INFO(who->info.id << ", " << who->variations()[way].label);
        const auto times = who->seconds(view, way, 3);
        CHECK(times.size() == 3);
        for (double s : times) CHECK(s > 0);
      }
    }
  }
}

// Those that the build was given; there is no stand-in for them.
contestants linked_peers() {
  contestants c;
  add_xsum(c);
  add_reproblas(c);
  return c;
}

contestants cpu_peers() {
  contestants c = linked_peers();
  add_openblas(c);
  add_python(c, true, false);
  return c;
}

contestants gpu_peers() {
  contestants c;
  add_cuda_peers(c);
  add_python(c, false, true);
  return c;
}

// ---- What goes wrong in Python

// The shell stands in for python3: it takes -c too, and is everywhere.
struct shell {
  python_helper helper;
  explicit shell(const std::string& script) : helper("/bin/sh", script, 1) {}
};

constexpr const char* lists_nothing = "read request; echo ok; ";

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const error& e) {
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  return "no error";
}

const float one_value = 1;
array_view one(std::uint64_t id) { return {dtype::f32, &one_value, 1, id}; }

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// A program that add_python takes for an interpreter.
struct program {
  std::string path =
      std::filesystem::temp_directory_path() / ("bitfold-peers-" + std::to_string(getpid()));
  explicit program(const std::string& script) {
    std::ofstream(path) << "#!/bin/sh\n" << script;
    chmod(path.c_str(), 0700);
  }
  ~program() { std::filesystem::remove(path); }
};

std::string why_missing(const contestants& c, const std::string& name) {
  for (const auto& m : c.missing)
    if (m.name == name) return m.why;
  return "not missing";
}

}  // namespace

TEST_CASE("peers: OpenBLAS is called with the array, its length and the threads", "[peers]") {
  const environment stand_in("BITFOLD_OPENBLAS", BITFOLD_STAND_IN_OPENBLAS);
  contestants c;
  add_openblas(c);
  CHECK(c.missing.empty());
  CHECK(c.list.size() == 2 * (3 + 4));  // sums; dot, asum, nrm2, amax
  CHECK(c.products.size() == 2);
  check_right(c);
  const auto threads = library{BITFOLD_STAND_IN_OPENBLAS}.find<int()>("openblas_get_num_threads");
  REQUIRE(threads);
  for (const auto& who : c.list) {
    INFO(who->info.id);
    REQUIRE(who->variations().size() == 2);
    for (std::size_t way : {0, 1}) {
      const double nothing[] = {0, 0};
      who->run({who->info.in, nothing, 1, next_id(), 2}, way);
      CHECK(threads() == who->variations()[way].threads);
    }
  }
  for (const auto& who : c.products) {
    std::set<int> counts;
    for (std::size_t way = 0; way < who->variations().size(); ++way) {
      const double nothing[] = {0, 0};
      who->run({who->info.in, nothing, 2, next_id()}, {1, 1, 1}, way);
      CHECK(threads() == who->variations()[way].threads);
      counts.insert(threads());
    }
    CHECK(counts == std::set{1, 2, 3, 4});
  }
}

TEST_CASE("peers: what is no OpenBLAS is missing, with its name", "[peers]") {
  const environment nowhere("BITFOLD_OPENBLAS", "/nonexistent/libopenblas.so");
  contestants c;
  add_openblas(c);
  CHECK(c.list.empty());
  CHECK(why_missing(c, "OpenBLAS").find("/nonexistent/libopenblas.so: ") == 0);
}

TEST_CASE("peers: Python's operations are called with the arrays", "[peers]") {
  const program p("PYTHONPATH=" BITFOLD_STAND_IN_PYTHON " exec python3 -B \"$@\"\n");
  const environment python("BITFOLD_PYTHON", p.path);
  contestants c;
  add_python(c, true, false);
  CHECK(c.missing.empty());
  const auto of = [&](const std::string& family, dtype t) {
    std::multiset<op_id> ops;
    for (const auto& who : c.list)
      if (who->info.family == family && who->info.in == t) ops.insert(who->info.op);
    return ops.size();
  };
  CHECK(of("Python", dtype::f64) == 1);
  CHECK(of("NumPy", dtype::f16) == 22);
  CHECK(of("NumPy", dtype::u16) == 20);        // sum_squares and dot would not be i64
  CHECK(of("PyTorch", dtype::f32) == 23 + 1);  // sum in its two modes
  CHECK(of("PyTorch", dtype::bf16) == 17 + 1);
  CHECK(std::count_if(c.list.begin(), c.list.end(),
                      [](const auto& who) { return who->has_axes(); }) == 11 + 6 * 2);
  CHECK(c.products.size() == 3 + 4);
  check_right(c);
}

TEST_CASE("peers: those on the CPU can be called", "[peers]") {
  const contestants c = cpu_peers();
  check_peers(c);
  check_along(c);
  check_products(c);
  check_first_elements(linked_peers());
}

TEST_CASE("peers: those on the CPU give as many times as asked for", "[peers]") {
  const contestants c = cpu_peers();
  check_times(c);
  CHECK(c.found.size() + c.missing.size() >= 5);  // OpenBLAS, xsum, ReproBLAS, NumPy, PyTorch
  for (const auto& m : c.missing) CHECK(m.why.size() > 10);
}

TEST_CASE("peers: a sum of magnitudes refuses negative values", "[peers]") {
  const float nonnegative[] = {1, 0, 2, 0, 0, 0}, mixed[] = {1, -1, 2, 0, 0, 0};
  const contestants c = cpu_peers();
  for (const auto& who : c.list) {
    if (who->info.in != dtype::f32) continue;
    INFO(who->info.id);
    CHECK(who->suits({dtype::f32, nonnegative, 3, next_id(), 2}));
    CHECK(who->suits({dtype::f32, mixed, 3, next_id(), 2}) ==
          (who->info.id != "openblas/asum/f32"));
    CHECK(who->suits({dtype::f32, nonnegative, 3, next_id()}) == (info(who->info.op).inputs == 1));
  }
}

TEST_CASE("peers: without Python they are missing, with the reason", "[peers]") {
  const auto [interpreter, reason] = GENERATE(table<std::string, std::string>({
      {"/bin/false", "/bin/false: ended with status 1"},
      {"/nonexistent/python", "/nonexistent/python: No such file or directory"},
  }));
  const environment python("BITFOLD_PYTHON", interpreter);
  contestants c;
  add_python(c, true, false);
  CHECK(c.list.empty());
  CHECK(c.found.empty());
  for (const char* name : {"NumPy", "PyTorch"}) CHECK(why_missing(c, name).find(reason) == 0);
}

TEST_CASE("peers: Python's list of sums is checked", "[peers]") {
  const auto [line, reason] = GENERATE(table<std::string, std::string>({
      {"hello there", "no answer to \"list\": hello there"},
      {"op", "list: not understood: op"},
      {"op\\tplus\\tk\\tn\\tf\\tcpu\\tf32\\ta\\tf32\\t0\\t1\\t0\\tabout",
       "list: not understood: op?plus"},
      {"op\\tsum\\tk\\tn\\tf\\tcpu\\tf31\\ta\\tf32\\t0\\t1\\t0\\tabout",
       "list: not understood: op?sum?k?n?f?cpu?f31"},
      {"op\\tsum\\tk\\tn\\tf\\tcpu\\tf32\\ta\\tf32\\tmany\\t1\\t0\\tabout",
       "list: not understood: op?sum?k?n"},
      {"product\\tk\\tn\\tf\\tcpu\\tf32\\ta\\tf31\\t1\\tabout",
       "list: not understood: product?k?n?f?cpu?f32"},
      {"error\\tout of paper", "list: out of paper"},
  }));
  const program p("read request; printf '" + line + "\\nok\\n'; read request");
  const environment python("BITFOLD_PYTHON", p.path);
  contestants c;
  add_python(c, true, false);
  CHECK(c.list.empty());
  INFO(why_missing(c, "NumPy"));
  CHECK(why_missing(c, "NumPy").find(reason) != std::string::npos);
}

TEST_CASE("peers: Python's answers are checked", "[peers]") {
  const auto [answer, reason] = GENERATE(table<std::string, std::string>({
      {"ok", "k: these are no bits: "},
      {"ok\\t3f8000", "k: these are no bits: 3f8000"},
      {"ok\\t3f80000x", "k: these are no bits: 3f80000x"},
      {"ok\\t3f800000\\t3f800000", "k: these are no bits"},
      {"3f800000", "no answer to \"run\": 3f800000"},
      {"error\\tno such number", "run: no such number"},
  }));
  const program p(
      "read request; printf "
      "'op\\tsum\\tk\\tn\\tf\\tcpu\\tf32\\ta\\tf32\\t0\\t1\\t0\\tabout\\nok\\n'; "
      "read request; echo ok; read request; printf '" +
      answer + "\\n'; read request");
  const environment python("BITFOLD_PYTHON", p.path);
  contestants c;
  add_python(c, true, false);
  REQUIRE(c.list.size() == 1);
  const std::string got = error_of([&] { c.list[0]->run(one(1), 0); });
  INFO(got);
  CHECK(got.find(reason) != std::string::npos);
}

TEST_CASE("peers: Python's answers to a product are checked", "[peers]") {
  const auto [answer, reason] = GENERATE(table<std::string, std::string>({
      {"ok\\t0000803f", "no error"},
      {"ok", "k: these are no bits: "},
      {"ok\\t0000803", "k: these are no bits: 0000803"},
      {"ok\\t0000803x", "k: these are no bits: 0000803x"},
      {"error\\tno such product", "product: no such product"},
  }));
  const program p(
      "read request; printf 'product\\tk\\tn\\tf\\tcpu\\tf32\\ta\\tf32\\t1\\tabout\\nok\\n'; "
      "read request; echo ok; read request; printf '" +
      answer + "\\n'; read request");
  const environment python("BITFOLD_PYTHON", p.path);
  contestants c;
  add_python(c, true, false);
  REQUIRE(c.products.size() == 1);
  const float both[] = {1, 1};
  std::vector<std::byte> bits;
  const std::string got =
      error_of([&] { bits = c.products[0]->run({dtype::f32, both, 2, next_id()}, {1, 1, 1}, 0); });
  INFO(got);
  CHECK(got.find(reason) != std::string::npos);
  const double one_is[] = {1};
  if (reason == "no error") CHECK(bits == pack(one_is, dtype::f32));
}

TEST_CASE("peers: a helper that ends is started again, twice at most", "[peers]") {
  const std::size_t files = open_files();
  {
    shell s(std::string(lists_nothing) + "read request; exit 3");
    s.helper.list(true, false);
    for (int i = 0; i < 3; ++i)
      CHECK(error_of([&] { s.helper.load(one(1)); }) == "/bin/sh: ended with status 3");
    CHECK(error_of([&] { s.helper.load(one(1)); }) == "/bin/sh: given up after 3 starts");
    CHECK(error_of([&] { s.helper.ask({"run"}); }) == "/bin/sh: not running");
  }
  CHECK(open_files() == files);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child is left
}

TEST_CASE("peers: a helper that crashed is said to have, without SIGPIPE", "[peers]") {
  shell s(std::string(lists_nothing) + "kill -SEGV $$");
  s.helper.list(true, false);
  siginfo_t ended;
  REQUIRE(waitid(P_PID, static_cast<id_t>(s.helper.pid()), &ended, WEXITED | WNOWAIT) == 0);
  CHECK(error_of([&] { s.helper.load(one(1)); }) ==
        "/bin/sh: killed by signal " + std::to_string(SIGSEGV));
}

TEST_CASE("peers: a helper that hangs is killed", "[peers]") {
  shell s(std::string(lists_nothing) + "while true; do sleep 1; done");
  s.helper.list(true, false);
  const pid_t pid = s.helper.pid();
  CHECK(error_of([&] { s.helper.load(one(1)); }) == "/bin/sh: no answer for 1 s; killed");
  CHECK(kill(pid, 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("peers: a helper that answers without end is stopped", "[peers]") {
  shell s("while true; do printf 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'; done");
  CHECK(error_of([&] { s.helper.list(true, false); }).find("/bin/sh: answered without end: yyy") ==
        0);
}

TEST_CASE("peers: an array is handed over once, and its memory given back", "[peers]") {
  // It counts its requests, and answers with the bytes of the first float.
  shell s(std::string(lists_nothing) +
          "k=0; while read request; do k=$((k + 1)); case $request in "
          "load*) b=$(od -An -tx4 -N4 /dev/fd/3); echo ok;; "
          "size*) printf 'ok\\t%s\\n' $(stat -L -c %s /dev/fd/3);; "
          "*) printf 'ok\\t%s\\t%s\\n' $k $b;; esac; done");
  s.helper.list(true, false);
  s.helper.load(one(1));
  s.helper.load(one(1));
  CHECK(s.helper.ask({"run"}) == python_helper::line{"2", "3f800000"});
  CHECK(s.helper.ask({"size"}) == python_helper::line{"0"});
  s.helper.load(one(2));
  CHECK(s.helper.ask({"run"})[0] == "5");
}

TEST_CASE("peers: those on the GPU can be called", "[peers][cuda]") {
  const contestants c = gpu_peers();
  check_along(c);
  check_peers(c);
  check_first_elements(c);
}

TEST_CASE("peers: those on the GPU give as many times as asked for", "[peers][cuda]") {
  check_times(gpu_peers());
  const std::vector<double> ones(1 << 20, 1);
  CHECK(read_ceiling_cuda({dtype::f64, ones.data(), ones.size(), next_id()}, 2) > 0);
}

TEST_CASE("peers: one array at a time is on the GPU", "[peers][cuda]") {
  const float a[] = {1, 2}, b[] = {3, 4, 5};
  const auto first = [](const array_view& x) { return fetch(dtype::f32, on_device(x).data); };
  CHECK(first({dtype::f32, a, 2, 1000}) == as_scalar(1, dtype::f32));
  CHECK(first({dtype::f32, b, 3, 1000}) == as_scalar(1, dtype::f32));  // kept
  CHECK(first({dtype::f32, b, 3, 1001}) == as_scalar(3, dtype::f32));
  const array_view two = on_device({dtype::f32, a, 1, 1002, 2});
  CHECK(fetch(dtype::f32, two.second(op_id::dot)) == as_scalar(2, dtype::f32));
  CHECK_THROWS_AS(time_on_device([](CUstream_st*) { throw error(errc::usage, "no"); }, 1), error);
  CHECK(time_on_device([](CUstream_st*) {}, 2).size() == 2);
}

// peers_tests "[.list]" prints who is here, with a result each.
TEST_CASE("peers: list", "[.list]") {
  contestants c = cpu_peers();
  add_cuda_peers(c);
  add_python(c, false, true);
  for (const auto& f : c.found)
    std::printf("found    %-12s %s\n", f.name.c_str(), f.version.c_str());
  for (const auto& m : c.missing) std::printf("missing  %-12s %s\n", m.name.c_str(), m.why.c_str());
  const exact_input in = small_integers(1 << 20, 1, false);
  for (const auto& who : c.list) {
    const auto bytes = pack(in.x, who->info.in);
    const array_view view{who->info.in, bytes.data(), in.x.size() / 2, next_id(), 2};
    for (std::size_t way = 0; way < who->variations().size(); ++way)
      std::printf("%-38s %-11s %s %10.2f us  %s\n", who->info.id.c_str(),
                  who->variations()[way].label.c_str(), to_string(who->run(view, way)).c_str(),
                  who->seconds(view, way, 1)[0] * 1e6, who->info.about.c_str());
  }
}
