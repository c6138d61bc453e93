// Inputs in pieces: files and pipes that are read so, `bitfold reduce --stream`, `-` and `--total`.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <nlohmann/json.hpp>

#include <bitfold/error.hpp>
#include <bitfold/reference.hpp>

#include "cli.hpp"
#include "data.hpp"
#include "io/stream.hpp"
#include "main.hpp"
#include "zip_bytes.hpp"

namespace {

using namespace bitfold;
using namespace cli;
using nlohmann::json;

std::string text_of(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

// A pipe by a path, into which a thread writes.
class fed_pipe {
 public:
  fed_pipe(const bytes::directory& dir, const std::string& name, std::string content)
      : path_(dir.path(name)) {
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads may stop
    REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
    writer_ = std::thread([this, content = std::move(content)] {
      const int fd = ::open(path_.c_str(), O_WRONLY);
      for (std::size_t at = 0; at < content.size();) {
        const ssize_t n = ::write(fd, content.data() + at, content.size() - at);
        if (n <= 0) break;
        at += static_cast<std::size_t>(n);
      }
      ::close(fd);
    });
  }
  ~fed_pipe() {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK);  // if nobody did
    writer_.join();
    ::close(fd);
    std::filesystem::remove(path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::thread writer_;
};

// The values of all arrays, and what is wrong with them, read in pieces of that many bytes.
struct contents {
  std::string problem;  // without the name
  std::vector<std::string> values;
  std::vector<std::vector<std::uint64_t>> shapes;
};
template <class F>
std::string problem_of(const std::string& path, F f) {
  try {
    f();
    return "";
  } catch (const error& e) {
    const std::string what = e.what();
    REQUIRE(what.starts_with(path + ": "));
    return what.substr(path.size() + 2);
  }
}
contents streamed(const std::string& path, const io::read_options& options, std::size_t piece) {
  contents c;
  c.problem = problem_of(path, [&] {
    io::stream s(path, options);
    std::vector<std::byte> buffer(piece);
    for (std::size_t k = 0; k < s.arrays().size(); ++k) {
      const std::size_t size = size_of(io::arithmetic(s.arrays()[k].type));
      std::string values;
      for (std::size_t n = 1; n > 0;) {
        n = s.read(k, buffer);
        values.append(reinterpret_cast<const char*>(buffer.data()), n * size);
      }
      CHECK(values.size() == s.arrays()[k].count * size);
      c.values.push_back(values);
      c.shapes.push_back(s.arrays()[k].shape);
    }
    s.check_end();
  });
  return c;
}
contents mapped(const std::string& path, const io::read_options& options) {
  contents c;
  c.problem = problem_of(path, [&] {
    for (const io::array& a : io::read_arrays(path, options)) {
      c.values.emplace_back(reinterpret_cast<const char*>(a.data), a.bytes());
      c.shapes.push_back(a.shape);
    }
  });
  return c;
}

struct tensor_file {
  std::string header, body;
  void add(const std::string& name, dtype type, const std::string& shape,
           const std::string& content) {
    std::string upper(bitfold::name(type));
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    const int begin = static_cast<int>(body.size());
    body += content;
    header += (header.empty() ? "" : ",") +
              bytes::tensor(name, upper, shape, begin, static_cast<int>(body.size()));
  }
  std::string text() const { return bytes::safetensors("{" + header + "}", body); }
};

const std::vector<std::string> exactly{"reduce", "--method", "exact"};
std::vector<std::string> arguments(std::vector<std::string> more) {
  more.insert(more.begin(), exactly.begin(), exactly.end());
  return more;
}
std::string all_replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// One of every operation of so many inputs that has an exact form.
std::string exact_ops(int inputs) {
  std::string list;
  for (const op_info& op : all_op_infos)
    if (op.has_exact && op.inputs == inputs)
      list += (list.empty() ? "" : ",") + std::string(op.name);
  return list;
}

}  // namespace

TEST_CASE("stream: whole or cut off anywhere, it says what a mapped file says") {
  const bytes::directory dir;
  const auto floats = bytes::of<float>({1, -2.5f, 3, 1e30f, 5, 6});
  tensor_file tensors;
  tensors.add("b", dtype::f32, "[2,3]", floats);
  tensors.add("none", dtype::i8, "[0,7]", "");
  tensors.add("a", dtype::u16, "[]", "xy");
  struct row {
    const char* name;
    std::string content;
    io::read_options options = {};
  };
  for (const row& r :
       {row{"little.npy", bytes::npy("<f4", "(2, 3)", floats)},
        row{"big", bytes::npy(">f4", "(6,)", floats)},
        row{"shorts", bytes::npy(">u2", "(12,)", floats)},
        row{"longs", bytes::npy(">i8", "(3, 1)", floats)},
        row{"v2.npy",
            bytes::npy_of("{'descr': '<f8', 'fortran_order': True, 'shape': (3,)}", floats, 2)},
        row{"scalar.npy", bytes::npy("|u1", "()", "x")},
        row{"none.npy", bytes::npy(">f4", "(0, 3)", "")}, row{"tensors", tensors.text()},
        row{"one.safetensors", tensors.text(), {{}, "a", {}}},
        row{"raw", floats, {dtype::f32, {}, {}}}, row{"no raw", floats},
        row{"no tensor", floats, {dtype::f32, "a", {}}}}) {
    CAPTURE(r.name);
    for (std::size_t n = 0; n <= r.content.size() + 1; ++n) {
      const std::string content = n <= r.content.size() ? r.content.substr(0, n) : r.content + "x";
      const auto path = dir.write(r.name, content);
      const auto want = mapped(path, r.options);
      CAPTURE(n, want.problem);
      for (const std::size_t piece : {8, 16, 4096}) {
        const auto got = streamed(path, r.options, piece);
        CHECK(got.problem == want.problem);
        CHECK(got.values == want.values);
        CHECK(got.shapes == want.shapes);
      }
      if (std::string(r.name).ends_with(".npy") || std::string(r.name).ends_with(".safetensors"))
        continue;  // named so
      const fed_pipe pipe(dir, "pipe", content);
      const auto got = streamed(pipe.path(), r.options, 8);
      CAPTURE(got.problem);
      // The same, but that a pipe does not say how long it is.
      CHECK(got.problem.empty() == want.problem.empty());
      if (want.problem.empty()) CHECK(got.values == want.values);
      if (want.problem.empty()) CHECK(got.shapes == want.shapes);
    }
  }
  // Fortran's order is that of the file.
  const auto fortran =
      streamed(dir.write("f.npy", bytes::npy("<f4", "(2, 3)", floats, true)), {}, 8);
  CHECK(fortran.values == std::vector{floats});
  CHECK(streamed(dir.path(""), {}, 8).problem == "file: is a directory");
  CHECK(streamed(dir.path("nothing"), {}, 8).problem == "file: No such file or directory");
  const fed_pipe pipe(dir, "huge", bytes::little_endian(99'999'999, 8) + "{   ");
  CHECK(streamed(pipe.path(), {}, 8).problem == "header length: truncated file");
  const fed_pipe npy(dir, "huge npy", std::string("\x93NUMPY\2\0\xff\xff\xff\x7f", 12));
  CHECK(streamed(npy.path(), {}, 8)
            .problem.starts_with("header length: 2147483659 bytes before the data"));
}

TEST_CASE("stream: from a pipe arrays come one after the other") {
  const bytes::directory dir;
  tensor_file tensors;
  tensors.add("a", dtype::u8, "[20000]", std::string(20000, '\1'));
  tensors.add("b", dtype::u8, "[3]", "xyz");
  const fed_pipe pipe(dir, "pipe", tensors.text());
  io::stream s(pipe.path(), {});
  std::vector<std::byte> buffer(1000);  // more than is kept of the start
  CHECK(s.read(1, buffer) == 3);
  CHECK(std::memcmp(buffer.data(), "xyz", 3) == 0);
  CHECK_THROWS_WITH(s.read(0, buffer),
                    pipe.path() +
                        ": order: the data of this array are past; from a pipe, arrays come "
                        "in the order of the file");
  s.check_end();
}

TEST_CASE("reduce --stream and -: what a mapped file gives, at a constant memory") {
  const bytes::directory dir;
  for (const dtype t : tested_types())
    for (const auto kind : {test::kind::near_one, test::kind::special}) {
      if (kind == test::kind::special && t != dtype::f32) continue;
      // Several pieces of one of the types; of others one.
      const std::size_t n = t == dtype::f64 || t == dtype::bf16 ? 10'000'000 / size_of(t) : 3000;
      const std::string x = text_of(test::make_data(t, kind, n, 1)),
                        y = text_of(test::make_data(t, kind, n, 2));
      tensor_file both, swapped;
      both.add("one", t, "[" + std::to_string(n) + "]", x);
      both.add("two", t, "[" + std::to_string(n) + "]", y);
      swapped.add("two", t, "[" + std::to_string(n) + "]", y);
      swapped.add("one", t, "[" + std::to_string(n) + "]", y);
      const std::string type(name(t));
      const auto rx = dir.write("rx", x), ry = dir.write("ry", y);
      const auto sx = dir.write("x.safetensors", both.text()),
                 sy = dir.write("y.safetensors", swapped.text());
      for (const int inputs : {1, 2})
        for (const bool raw : {true, false}) {
          std::vector<std::string> files{raw ? rx : sx};
          if (inputs == 2) files.push_back(raw ? ry : sy);
          auto all = arguments({exact_ops(inputs), "--json", "--bound"});
          if (raw) all.insert(all.end(), {"--dtype", type});
          all.insert(all.end(), files.begin(), files.end());
          const auto want = bitfold_cli(all);
          CAPTURE(all, want.err);
          REQUIRE(want.status == 0);
          REQUIRE(!want.out.empty());
          for (const std::string threads : {"1", "3"}) {
            auto stream = all;
            stream.insert(stream.end(), {"--stream", "--threads", threads});
            const auto got = bitfold_cli(stream);
            CHECK(got.err.empty());
            CHECK(got.status == 0);
            CHECK((got.out == want.out));
          }
          for (auto& a : all)
            if (a == files[0]) a = "-";
          const auto redirected = bitfold_cli(all, {.in = files[0]});
          CHECK((redirected.out == all_replaced(want.out, files[0], "-")));
          if (raw || inputs == 1) {
            const fed_pipe pipe(dir, "pipe", content(files[0]));
            CHECK((bitfold_cli(all, {.in = pipe.path()}).out == redirected.out));
          }
        }
    }
  const auto zeros = dir.path("zeros");
  std::ofstream{zeros};
  std::filesystem::resize_file(zeros, std::uintmax_t{1} << 30);
  long most = 0;  // KiB of memory that it ever had, as far as it is seen
  const auto watch = [&](pid_t child) {
    for (siginfo_t ended{}; ended.si_pid == 0;) {
      REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
      const std::string status = content("/proc/" + std::to_string(child) + "/status");
      if (const auto at = status.find("VmHWM:"); at != std::string::npos)
        most = std::max(most, std::strtol(status.c_str() + at + 6, nullptr, 10));
      look_again_soon();
    }
  };
  CHECK(bitfold_cli(arguments({"--stream", "sum", "--dtype", "f32", zeros}), {.meanwhile = watch})
            .out == zeros + "  [268435456]  f32  0  00000000\n");
  CHECK(most < 512 << 10);  // half of the file
}

TEST_CASE("reduce --stream and -: what follows, and what becomes shorter after it was read") {
  const bytes::directory dir;
  const auto npy = bytes::npy("<f4", "(1,)", "1234");
  const fed_pipe longer(dir, "longer", npy + "x"),
      shorter(dir, "shorter", npy.substr(0, npy.size() - 1));
  const auto run = [&](const std::string& in) {
    const auto r = bitfold_cli(arguments({"sum", "-"}), {.in = in});
    CHECK(r.out.empty());
    CHECK(r.status == 3);
    return r.err;
  };
  CHECK(run(longer.path()) == "bitfold: -: size: more than the 132 bytes that its head says\n");
  CHECK(run(shorter.path()) ==
        "bitfold: -: file: ends after 131 bytes, in the middle of the data\n");
  const auto file = dir.write("x.npy", npy);
  io::stream s(file, {});
  std::vector<std::byte> buffer(100);
  CHECK(s.read(0, buffer) == 1);
  s.check_end();
  std::filesystem::resize_file(file, 130);
  CHECK_THROWS_WITH(s.check_end(), file + ": file: became shorter while it was read");
}

TEST_CASE("reduce --stream and -: pairs") {
  const bytes::directory dir;
  const auto npy = [&](const char* name, const std::string& shape, bool fortran = false) {
    return dir.write(name, bytes::npy("<f4", shape, bytes::of<float>({1, 2, 3, 4, 5, 6}), fortran));
  };
  const auto c = npy("c.npy", "(2, 3)"), f = npy("f.npy", "(2, 3)", true),
             flat = npy("flat.npy", "(6,)");
  const auto column = npy("column.npy", "(6, 1)", true);
  const auto dot = [](std::vector<std::string> files, const std::string& in = "/dev/null") {
    files.insert(files.begin(), {"dot", "--stream"});
    const auto r = bitfold_cli(arguments(files), {.in = in});
    return r.status == 0 ? r.out : r.err;
  };
  CHECK(dot({c, c}) == c + "  " + c + "  [2,3]  f32  91  42b60000\n");
  CHECK(dot({f, f}) == f + "  " + f + "  [2,3]  f32  91  42b60000\n");
  CHECK(dot({"-", column}, column) == "-  " + column + "  [6,1]  f32  91  42b60000\n");
  CHECK(dot({c, f}) ==
        "bitfold: " + c + " and " + f +
            ": order: Fortran's and C's, which cannot be read in pieces side by side\n");
  CHECK(dot({c, flat}) == "bitfold: " + c + " and " + flat + ": shape: [2,3] and [6]\n");
  const auto raw = dir.write("raw", bytes::of<float>({1, 2, 3, 4, 5, 6}));
  const auto shorter = dir.write("shorter", bytes::of<float>({1, 2, 3, 4, 5}));
  CHECK(dot({"--dtype", "f32", "-", flat}, raw) == "-  " + flat + "  [6]  f32  91  42b60000\n");
  CHECK(dot({"--dtype", "f32", "-", c}, raw) == "bitfold: - and " + c + ": shape: [6] and [2,3]\n");
  CHECK(dot({"--dtype", "f32", "-", raw}, shorter) ==
        "bitfold: - and " + raw + ": shape: one ends before the other\n");
  CHECK(dot({"--dtype", "f32", raw, "-"}, shorter) ==
        "bitfold: " + raw + " and -: shape: one ends before the other\n");
  CHECK(dot({"--dtype", "f32", raw, shorter}) ==
        "bitfold: " + raw + " and " + shorter + ": shape: [6] and [5]\n");
}

TEST_CASE("reduce --total: all arrays of all files are one") {
  const bytes::directory dir;
  for (const dtype t : {dtype::f16, dtype::f32, dtype::f64, dtype::i32}) {
    const std::size_t n = 5000, cut = 1234;
    const auto x = test::make_data(t, test::kind::any_bits, n, 3),
               y = test::make_data(t, test::kind::any_bits, n, 4);
    const auto part = [&](const std::vector<std::byte>& v, std::size_t from, std::size_t to) {
      return text_of(v).substr(from * size_of(t), (to - from) * size_of(t));
    };
    const auto shards = [&](const std::string& name, const std::vector<std::byte>& v) {
      tensor_file f;
      f.add("p", t, "[1000]", part(v, 0, 1000));
      f.add("none", t, "[0]", "");
      f.add("q", t, "[2,117]", part(v, 1000, cut));
      return std::vector{dir.write(name + ".safetensors", f.text()),
                         dir.write(name + ".raw", part(v, cut, n))};
    };
    const auto xs = shards("x", x), ys = shards("y", y);
    for (const int inputs : {1, 2}) {
      std::vector<std::string> files;
      for (int k = 0; k < 2; ++k) {
        files.push_back(xs[k]);
        if (inputs == 2) files.push_back(ys[k]);
      }
      std::string lines;
      for (const op_info& op : all_op_infos) {
        if (!op.has_exact || op.inputs != inputs) continue;
        const scalar v = reference(make_reduction(op.id, method_id::exact, t), x.data(),
                                   inputs == 2 ? y.data() : nullptr, n);
        lines += "total  [5000]  " + std::string(name(t)) + "  " + std::string(op.name) + "  " +
                 to_string(v) + "  " + to_hex(v) + "\n";
      }
      auto all = arguments({exact_ops(inputs), "--total", "--dtype", std::string(name(t))});
      all.insert(all.end(), files.begin(), files.end());
      CAPTURE(all);
      CHECK(bitfold_cli(all).out == lines);
      auto stream = all;
      stream.push_back("--stream");
      CHECK(bitfold_cli(stream).out == lines);
      std::replace(all.begin(), all.end(), xs[1], std::string("-"));  // and mapped ones before it
      CHECK(bitfold_cli(all, {.in = xs[1]}).out == lines);
      stream.insert(stream.end(), {"--json", "--bound"});
      const auto j = json::parse(lines_of(bitfold_cli(stream).out).at(0));
      CHECK(j["files"] == files);
      CHECK(j["arrays"] == 4);
      CHECK(j["shape"] == json{5000});
      CHECK(j.contains("bound"));
      CHECK_FALSE(j.contains("file"));
      CHECK_FALSE(j.contains("tensor"));
    }
  }
  const auto a = dir.write("a.npy", bytes::npy("<f4", "(1,)", "1234")),
             b = dir.write("b.npy", bytes::npy("<f8", "(1,)", "12345678"));
  const auto fails = [&](std::vector<std::string> more, int status, const std::string& problem) {
    more.insert(more.begin(), {"sum", "--total"});
    for (const bool stream : {false, true}) {
      if (stream) more.push_back("--stream");
      const auto r = bitfold_cli(arguments(more));
      CAPTURE(more, r.err);
      CHECK(r.status == status);
      CHECK(r.out.empty());
      CHECK(r.err == "bitfold: " + problem + "\n");
    }
  };
  fails({a, b}, 2, b + ": dtype: f64, but what came before is f32; --total takes one");
  fails({a, dir.path("none")}, 3, dir.path("none") + ": file: No such file or directory");
  fails({"--out-dtype", "i32", a}, 2,
        a + ": out dtype: i32 is an integer type, but sum of f32 is not");
  fails({dir.write("nothing.safetensors", bytes::safetensors("{}", ""))}, 2,
        "--total: the files hold no array, and so no type");
}

TEST_CASE("reduce --overflow") {
  const bytes::directory dir;
  using longs = std::vector<std::int64_t>;
  const auto largest = std::numeric_limits<std::int64_t>::max();
  const auto npy = [&](const char* name, const longs& v) {
    return dir.write(name, bytes::npy("<i8", "(" + std::to_string(v.size()) + ",)", bytes::of(v)));
  };
  const auto fits = npy("fits.npy", {largest, 1, -1}), wraps = npy("wraps.npy", {largest, 1});
  for (const std::vector<std::string>& way : {std::vector<std::string>{}, {"--stream"}}) {
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.end(), way.begin(), way.end());
      const auto r = bitfold_cli(arguments(more));
      return std::to_string(r.status) + " " + r.out + r.err;
    };
    CHECK(run({"sum", wraps}) ==
          "0 " + wraps + "  [2]  i64  -9223372036854775808  8000000000000000\n");
    CHECK(run({"sum", "--overflow", "wrap", wraps}) == run({"sum", wraps}));
    CHECK(run({"sum,mean", "--overflow", "error", wraps, fits}) ==
          "3 " + fits + "  [3]  i64  sum  9223372036854775807  7fffffffffffffff\n" + fits +
              "  [3]  i64  mean  3074457345618258432  43c5555555555555\n" + "bitfold: " + wraps +
              ": --overflow error: sum does not fit i64\n");
    CHECK(run({"sum", "--overflow", "error", "--out-dtype", "u64", wraps}) ==
          "0 " + wraps + "  [2]  i64  9223372036854775808  8000000000000000\n");
    CHECK(run({"mean", "--overflow", "error", wraps}) ==
          "0 " + wraps + "  [2]  i64  4611686018427387904  43d0000000000000\n");
    CHECK(run({"sum", "--overflow", "error", "--total", fits, wraps}) ==
          "3 bitfold: --overflow error: sum does not fit i64\n");
    CHECK(run({"dot", "--overflow", "error", fits, fits}) ==
          "3 bitfold: " + fits + " and " + fits + ": --overflow error: dot does not fit i64\n");
  }
  // Beside what has no exact form.
  const auto r = bitfold_cli(arguments({"max,sum", "--overflow", "error", fits}));
  CHECK(r.out == fits + "  [3]  i64  max  9223372036854775807  7fffffffffffffff\n" + fits +
                     "  [3]  i64  sum  9223372036854775807  7fffffffffffffff\n");
}

TEST_CASE("reduce --stream, -, --total and --overflow are for method exact") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", bytes::npy("<f4", "(1,)", "1234"));
  for (const auto& [options, name] :
       {std::pair{std::vector<std::string>{"--stream", file}, "--stream"},
        {{"--total", file}, "--total"},
        {{"--overflow", "error", file}, "--overflow"},
        {{"-"}, "FILE -, standard input"}}) {
    for (const std::vector<std::string>& method :
         {std::vector<std::string>{}, {"--method", "tree"}, {"--method", "kahan"}}) {
      std::vector<std::string> all{"reduce", "sum"};
      all.insert(all.end(), method.begin(), method.end());
      all.insert(all.end(), options.begin(), options.end());
      check_usage(all, {std::string(name) + ": is for --method exact\n"});
    }
    std::vector<std::string> all{"reduce", "sum,max", "--method", "exact"};
    all.insert(all.end(), options.begin(), options.end());
    if (options[0] != "--overflow")
      check_usage(all, {std::string(name) + ": max has no exact form\n"});
    all[1] = "sum";
    all.insert(all.end(), {"--device", "cuda"});
    check_usage(all, {std::string(name) + ": is for --device cpu\n"});
  }
  check_usage(arguments({"sum", "-", "-"}), {"FILE: standard input (-) is given twice"});
  check_usage(arguments({"sum", "--overflow", "maybe", file}), {"--overflow", "wrap", "error"});
}

TEST_CASE("reduce --stream: a bad file does not stop the others, nor one that becomes shorter") {
  const bytes::directory dir;
  const auto one = dir.write("one", "\1"), two = dir.write("two", "\2"),
             odd = dir.write("bad.npy", "x");
  const auto huge = dir.path("huge");
  std::ofstream{huge};
  std::filesystem::resize_file(huge, long_file);
  const auto real = std::filesystem::canonical(huge);
  // Cut as soon as it is open, long before it is read.
  const auto cut = [&](pid_t child) {
    const auto is_open = [&] {
      std::error_code gone;
      for (const auto& fd :
           std::filesystem::directory_iterator("/proc/" + std::to_string(child) + "/fd", gone))
        if (std::filesystem::read_symlink(fd, gone) == real) return true;
      return false;
    };
    while (!is_open()) {
      siginfo_t ended{};
      REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) == 0);
      if (ended.si_pid != 0) return;
    }
    std::filesystem::resize_file(huge, 4096);
  };
  const auto r = bitfold_cli(arguments({"sum", "--stream", "--dtype", "u8", one, odd, huge, two}),
                             {.meanwhile = cut});
  CAPTURE(r.out, r.err);
  CHECK(r.status == 3);
  CHECK(r.out ==
        one + "  [1]  u8  1  0000000000000001\n" + two + "  [1]  u8  2  0000000000000002\n");
  CHECK(r.err == "bitfold: " + odd + ": magic: not a npy file\nbitfold: " + huge +
                     ": file: became shorter while it was read\n");
}

namespace {
const std::string wiped = "\r" + std::string(100, ' ') + "\r";
}  // namespace

TEST_CASE("reduce -: a progress bar on a terminal, when it takes longer") {
  const bytes::directory dir;
  const std::string path = dir.path("slow");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const auto run = [&](const std::string& err) {
    std::thread writer([&] {
      const int fd = ::open(path.c_str(), O_WRONLY);
      const std::string megabytes(5 << 20, '\1');
      for (int k = 0; k < 2; ++k) {
        for (std::size_t at = 0; at < megabytes.size();)
          at += static_cast<std::size_t>(::write(fd, megabytes.data() + at, megabytes.size() - at));
        if (k == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1300));
      }
      ::close(fd);
    });
    const auto r = bitfold_cli(arguments({"sum", "--dtype", "u8", "-"}), {.in = path, .err = err});
    writer.join();
    CHECK(r.out == "-  [10485760]  u8  10485760  0000000000a00000\n");
    return r.err;
  };
  CHECK(run("").empty());
  const std::string shown = shown_on_a_terminal(run);
  CHECK(shown.starts_with("\relapsed 0:0"));
  CHECK(shown.ends_with(wiped));
}

// It takes longer because it is stopped for a second, after some of many parts.
TEST_CASE(
    "reduce --device cuda: a progress bar on a terminal, of a file that goes through in parts",
    "[cuda]") {
  const bytes::directory dir;
  const std::string path = dir.path("long");
  make_holes(path, std::uintmax_t{1} << 30);
  const auto run = [&](const std::string& err) {
    const auto r = bitfold_cli(
        {"reduce", "sum", "--device", "cuda", "--gpu-memory", "4194304", "--dtype", "u8", path},
        {.err = err, .meanwhile = when_read(path, [](pid_t child) {
                       ::kill(child, SIGSTOP);
                       std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                       ::kill(child, SIGCONT);
                     })});
    CAPTURE(r.err);
    CHECK(r.status == 0);
    CHECK(r.out == path + "  [1073741824]  u8  0  0000000000000000\n");
    return r.err;
  };
  CHECK(run("").empty());
  const std::string shown = shown_on_a_terminal(run);
  CAPTURE(shown);
  CHECK(shown.starts_with("\r["));
  CHECK(contains(shown, " %  elapsed 0:0"));
  CHECK(contains(shown, ", left "));
  CHECK(shown.ends_with(wiped));
}

TEST_CASE("reduce --stream: many short tensors, several formats, and bool") {
  const auto value_and_bits = [](std::uint64_t sum) {
    return std::to_string(sum) + "  " + to_hex(scalar{dtype::u64, sum}) + "\n";
  };
  const bytes::directory dir;
  tensor_file tensors;
  std::string expected;
  const auto path = dir.path("m.safetensors");
  for (int i = 0; i < 3000; ++i) {
    const auto name = std::to_string(10000 + i);
    tensors.add(name, dtype::u8, "[1]", std::string(1, static_cast<char>(i)));
    expected += path + ":" + name + "  [1]  u8  " + value_and_bits(i % 256);
  }
  dir.write("m.safetensors", tensors.text());
  const std::vector<std::string> arguments{"reduce", "sum", "--method", "exact", "--stream", path};
  CHECK(bitfold_cli(arguments).out == expected);
  // Where buffers of 4 MiB are filled for each of them, 8.
  CHECK(seconds_of({"reduce", "dot", "--method", "exact", "--stream", path, path}) <
        (bitfold::test::sanitized ? 10 : 4));

  const auto npz = dir.write("a.npz", bytes::zip({{"a.npy", npy_of({1})}}));
  check_usage({"reduce", "sum", "--method", "exact", "--stream", npz},
              {npz + ": format: npz, which is not read in pieces"});
  const auto index =
      dir.write("m.safetensors.index.json", "{\"weight_map\": {\"10000\": \"m.safetensors\"}}");
  check_usage({"reduce", "sum", "--method", "exact", "--stream", index},
              {index + ": format: safetensors-index, which", "give its files"});
  const auto pickle = bitfold_cli({"reduce", "sum", "--method", "exact", "--dtype", "u8", "-"},
                                  {.in = dir.write("p", "\x80\x04\x95\x08")});
  CHECK(pickle.status == 3);
  CHECK(contains(pickle.err, "-: format: a pickle, by its content"));
  const auto two = dir.write("two.npy", npy_of({1}) + npy_of({2}));
  for (const surroundings& from : {surroundings{}, {.in = two}}) {
    const auto r = bitfold_cli(
        {"reduce", "sum", "--method", "exact", "--stream", from.in == two ? "-" : two}, from);
    CHECK(r.status == 3);
    CHECK(contains(r.err, ": size: another array follows the first"));
  }
  // From a pipe, whose beginning is read to tell the format.
  for (const std::size_t n : {0, 1, 11, 12, 200, 255, 256, 257, 5000}) {
    const fed_pipe pipe(dir, "pipe" + std::to_string(n),
                        bytes::npy("|b1", "(" + std::to_string(n) + ",)", std::string(n, '\3')));
    CHECK(bitfold_cli({"reduce", "sum", "--method", "exact", "--stream", pipe.path()}).out ==
          pipe.path() + "  [" + std::to_string(n) + "]  bool  " + value_and_bits(n));
  }
}
