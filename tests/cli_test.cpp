// The command line, as a user meets it. (`record` and `check` are in record_test.cpp.)
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>

#include "cli.hpp"

namespace {

using namespace bitfold;
using namespace cli;
using nlohmann::json;

// Values whose sum depends on the order and on the method.
std::vector<float> floats(std::size_t n) {
  std::vector<float> values(n);
  std::uint32_t state = 1;
  for (auto& v : values) {
    state = state * 1664525u + 1013904223u;
    v = std::ldexp(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f,
                   static_cast<int>(state >> 8 & 15));
  }
  return values;
}

std::string npy_of(const std::vector<float>& values) {
  return bytes::npy("<f4", "(" + std::to_string(values.size()) + ",)", bytes::of(values));
}

}  // namespace

TEST_CASE("reduce: every method, as text and as JSON, equals the reference") {
  const bytes::directory dir;
  const auto values = floats(5000);
  const auto file = dir.write("x.npy", npy_of(values));
  for (const auto& m : all_methods) {
    for (const std::string acc : {"f32", "f64"}) {
      const std::string method(m.name);
      CAPTURE(method, acc);
      const auto r = make_reduction(op_id::sum, m.id, dtype::f32, parse_dtype(acc), dtype::f64);
      const scalar expected = reference(r, values.data(), values.size());
      const std::vector<std::string> arguments{"reduce", "sum",         "--method", method, "--acc",
                                               acc,      "--out-dtype", "f64",      file};
      const auto text = bitfold_cli(arguments);
      CHECK(text.status == 0);
      CHECK(text.err.empty());
      CHECK(text.out ==
            file + "  [5000]  f32  " + to_string(expected) + "  " + to_hex(expected) + "\n");

      auto with_json = arguments;
      with_json.push_back("--json");
      const auto j = bitfold_cli(with_json);
      CHECK(j.status == 0);
      CHECK(contains(j.out, "\"value\":" + to_string(expected) + ","));
      CHECK(json::parse(j.out) == json{{"file", file},
                                       {"tensor", nullptr},
                                       {"shape", {5000}},
                                       {"dtype", "f32"},
                                       {"op", "sum"},
                                       {"method", method},
                                       {"acc", acc},
                                       {"out_dtype", "f64"},
                                       {"order_version", order::version},
                                       {"device", "cpu"},
                                       {"value", std::stod(to_string(expected))},
                                       {"bits", to_hex(expected)}});
    }
  }
}

TEST_CASE("reduce: threads and targets do not change the bits") {
  const bytes::directory dir;
  const auto values = floats(100'000);
  const auto file = dir.write("x.npy", npy_of(values));
  const auto expected = bitfold_cli({"reduce", "sum", file});
  REQUIRE(expected.status == 0);
  const auto reduced = reference(make_reduction(op_id::sum, method_id::tree, dtype::f32),
                                 values.data(), values.size());
  CHECK(contains(expected.out, "  " + to_hex(reduced) + "\n"));
  for (const auto t : cpu::available_targets())
    for (const std::string threads : {"0", "1", "3"})
      CHECK(bitfold_cli({"reduce", "sum", "--threads", threads, "--target",
                         std::string(cpu::name(t)), file})
                .out == expected.out);
}

TEST_CASE("reduce: values that JSON has no numbers for, and 16-bit ones") {
  const bytes::directory dir;
  struct row {
    dtype type;
    std::uint16_t bits;
    const char *value, *hex;
  };
  const row rows[] = {
      {dtype::f16, 0x7e01, "\"nan\"", "7e00"},  {dtype::f16, 0x7c00, "\"inf\"", "7c00"},
      {dtype::f16, 0xfc00, "\"-inf\"", "fc00"}, {dtype::f16, 0x3555, "0.3333", "3555"},
      {dtype::f16, 0x8000, "-0", "8000"},       {dtype::f16, 0x0001, "6e-08", "0001"},
      {dtype::bf16, 0x7fff, "\"nan\"", "7fc0"}, {dtype::bf16, 0x7f80, "\"inf\"", "7f80"},
      {dtype::bf16, 0x3eab, "0.334", "3eab"},   {dtype::bf16, 0xbf80, "-1", "bf80"}};
  for (const auto& r : rows) {
    const auto file = dir.write("x.bin", bytes::of<std::uint16_t>({r.bits}));
    const auto result =
        bitfold_cli({"reduce", "sum", "--dtype", std::string(name(r.type)), "--json", file});
    CAPTURE(r.value, result.out, result.err);
    REQUIRE(result.status == 0);
    CHECK(json::parse(result.out)["bits"] == r.hex);
    CHECK(contains(result.out, "\"value\":" + std::string(r.value) + ",\"bits\""));
  }
}

TEST_CASE("reduce: integers, safetensors, raw and empty files") {
  const bytes::directory dir;
  const auto integers = dir.write(
      "i.npy",
      bytes::npy("<u8", "(1, 2)", bytes::of<std::uint64_t>({1ull << 63, (1ull << 63) - 1})));
  CHECK(bitfold_cli({"reduce", "sum", integers}).out ==
        integers + "  [1,2]  u64  18446744073709551615  ffffffffffffffff\n");
  CHECK(json::parse(bitfold_cli({"reduce", "sum", "--json", integers}).out)["value"] ==
        18446744073709551615ull);

  const auto tensors = dir.write(
      "m.safetensors", bytes::safetensors("{" + bytes::tensor("b\\n", "F32", "[2]", 0, 8) + "," +
                                              bytes::tensor("a", "I8", "[2,1]", 8, 10) + "}",
                                          bytes::of<float>({1, 2}) + "\x03\xfc"));
  CHECK(bitfold_cli({"reduce", "sum", tensors}).out ==
        tensors + ":b\\x0a  [2]  f32  3  40400000\n" + tensors +
            ":a  [2,1]  i8  -1  ffffffffffffffff\n");
  CHECK(bitfold_cli({"reduce", "sum", "--tensor", "a", tensors}).out ==
        tensors + ":a  [2,1]  i8  -1  ffffffffffffffff\n");
  const auto j = lines_of(bitfold_cli({"reduce", "sum", "--json", tensors}).out);
  REQUIRE(j.size() == 2);
  CHECK(json::parse(j[0])["tensor"] == "b\n");
  CHECK(json::parse(j[1])["shape"] == json{2, 1});
  CHECK(json::parse(j[1])["out_dtype"] == "i64");

  const auto raw = dir.write("raw", bytes::of<double>({0.1, 0.2}));
  CHECK(bitfold_cli({"reduce", "sum", "--dtype", "f64", raw}).out ==
        raw + "  [2]  f64  0.30000000000000004  3fd3333333333334\n");
  const auto empty = dir.write("empty", "");
  CHECK(bitfold_cli({"reduce", "sum", "--dtype", "f32", empty}).out ==
        empty + "  [0]  f32  0  00000000\n");
}

TEST_CASE("reduce: a bad file does not stop the others") {
  const bytes::directory dir;
  const auto good = dir.write("good.npy", npy_of({1, 2}));
  const auto bad = dir.write("bad.npy", npy_of({1, 2}) + "x");
  // Its first tensor is fine; still nothing of it is printed.
  const auto half = dir.write(
      "half.safetensors", bytes::safetensors("{" + bytes::tensor("a", "F32", "[1]", 0, 4) + "," +
                                                 bytes::tensor("b", "I32", "[1]", 4, 8) + "}",
                                             "12345678"));
  const auto r = bitfold_cli({"reduce", "sum", bad, good, dir.path("none.npy"), good});
  CHECK(r.status == 3);
  const auto line = good + "  [2]  f32  3  40400000\n";
  CHECK(r.out == line + line);
  const auto errors = lines_of(r.err);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].starts_with("bitfold: " + bad + ": shape: "));
  CHECK(errors[1].starts_with("bitfold: " + dir.path("none.npy") + ": file: "));

  const auto acc = bitfold_cli({"reduce", "sum", "--acc", "f32", "--out-dtype", "f16", half, good});
  CHECK(acc.status == 2);
  CHECK(acc.out == good + "  [2]  f32  3  4200\n");
  CHECK(acc.err.starts_with("bitfold: " + half + ": tensor 'b': acc: "));
  CHECK(lines_of(acc.err).size() == 1);

  // The status is that of the first failure.
  CHECK(bitfold_cli({"reduce", "sum", dir.write("raw", "1234"), bad}).status == 2);
  CHECK(bitfold_cli({"reduce", "sum", bad, dir.path("raw")}).status == 3);
}

TEST_CASE("reduce: file names that are no UTF-8, or look like something else") {
  const bytes::directory dir;
  const auto odd = dir.write("\xff\n.npy", npy_of({1}));
  const auto j = bitfold_cli({"reduce", "sum", "--json", odd});
  CHECK(j.status == 0);
  CHECK(json::parse(j.out)["file"] == dir.path("\xef\xbf\xbd\n.npy"));
  const auto text = bitfold_cli({"reduce", "sum", odd});
  CHECK(text.out == dir.path("\\xff\\x0a.npy") + "  [1]  f32  1  3f800000\n");
  // "info" is a file here, not the subcommand.
  const auto info = bitfold_cli({"reduce", "sum", "info", "order"});
  CHECK(info.status == 3);
  CHECK(info.err.starts_with("bitfold: info: file: No such file"));
  CHECK(bitfold_cli({"reduce", "sum", "--", "-x.npy"}).err.starts_with("bitfold: -x.npy: file: "));
}

TEST_CASE("reduce: what is no array at all is told before a --dtype is asked for") {
  const bytes::directory dir;
  for (const auto& [path, problem] :
       {std::pair{dir.path(""), "is a directory"}, std::pair{dir.path("none"), "No such file"},
        std::pair{std::string("/proc/self/status"), "says that it is empty"}})
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{}, {"--dtype", "u8"}, {"--tensor", "w"}}) {
      std::vector<std::string> arguments{"reduce", "sum", path};
      arguments.insert(arguments.end(), options.begin(), options.end());
      const auto r = bitfold_cli(arguments);
      CAPTURE(arguments, r.out, r.err);
      CHECK(r.status == 3);
      CHECK(r.out.empty());
      CHECK(r.err.starts_with("bitfold: " + path + ": file: " + problem));
      CHECK(lines_of(r.err).size() == 1);
    }
}

TEST_CASE("reduce: a name without a known ending") {
  const bytes::directory dir;
  const auto npy = dir.write("a.npy.new", npy_of({1, 2}));
  CHECK(bitfold_cli({"reduce", "sum", npy}).out == npy + "  [2]  f32  3  40400000\n");
  const auto tensors = dir.write(
      "m.new", bytes::safetensors("{" + bytes::tensor("w", "U8", "[2]", 0, 2) + "}", "\1\2"));
  CHECK(bitfold_cli({"reduce", "sum", tensors}).out ==
        tensors + ":w  [2]  u8  3  0000000000000003\n");
  // With --dtype it is raw, whatever it looks like.
  const auto raw = bitfold_cli({"reduce", "sum", "--dtype", "u8", npy});
  CHECK(raw.out.starts_with(npy + "  [136]  u8  "));
  check_usage({"reduce", "sum", dir.write("raw", "12345678")}, {"dtype: needed"});
}

TEST_CASE("reduce: a file that becomes shorter does not stop the others") {
  const bytes::directory dir;
  const auto one = dir.write("one", "\1"), two = dir.write("two", "\2"), huge = dir.path("huge");
  const auto r = bitfold_cli({"reduce", "sum", "--dtype", "u8", one, huge, two}, "", 0,
                             shorten_when_mapped(huge));
  CAPTURE(r.out, r.err);
  CHECK(r.status == 3);
  CHECK(r.out ==
        one + "  [1]  u8  1  0000000000000001\n" + two + "  [1]  u8  2  0000000000000002\n");
  CHECK(r.err == "bitfold: " + huge + ": file: became shorter while it was read\n");
}

TEST_CASE("reduce: usage errors name the argument and the choices") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1}));
  check_usage({}, {"subcommand"});
  check_usage({"frobnicate"}, {"subcommand"});
  check_usage({"reduce"}, {"OP"});
  check_usage({"reduce", "sum"}, {"FILE"});
  check_usage({"reduce", "product", file}, {"product", "sum"});
  std::vector<std::string> methods{"--method"}, dtypes{"f128"};
  for (const auto& m : all_methods) methods.emplace_back(m.name);
  for (const auto t : all_dtypes) dtypes.emplace_back(name(t));
  check_usage({"reduce", "sum", "--method", "magic", file}, methods);
  check_usage({"reduce", "sum", "--method", "0", file}, methods);
  check_usage({"reduce", "sum", "--dtype", "f128", file}, dtypes);
  check_usage({"reduce", "sum", "--out-dtype", "f128", file}, dtypes);
  check_usage({"reduce", "sum", "--acc", "f16", file}, {"--acc", "f32", "f64"});
  check_usage({"reduce", "sum", "--device", "abacus", file}, {"abacus", "cpu", "cuda"});
  check_usage({"reduce", "sum", "--target", "mmx", file}, {"mmx", "scalar", "avx2", "avx512"});
  check_usage({"reduce", "sum", "--threads", "-1", file}, {"--threads"});
  check_usage({"reduce", "sum", "--threads", "many", file}, {"--threads"});
  check_usage({"reduce", "sum", "--frob", file}, {"--frob"});
  check_usage({"reduce", "sum", "--out-dtype", "i32", file}, {file, "out dtype"});
  check_usage({"reduce", "sum", "--tensor", "w", file}, {file, "tensor"});
  const auto available = cpu::available_targets();
  for (const auto t : {cpu::target::avx2, cpu::target::avx512})
    if (std::find(available.begin(), available.end(), t) == available.end())
      check_usage({"reduce", "sum", "--target", std::string(cpu::name(t)), file},
                  {"--target", "available: scalar"});
}

TEST_CASE("reduce --device cuda") {
  const bytes::directory dir;
  const auto values = floats(100'000);
  const auto file = dir.write("x.npy", npy_of(values));
  check_usage({"reduce", "sum", "--device", "cuda", "--method", "sequential", file},
              {"sequential", "cuda"});
  check_usage({"reduce", "sum", "--device", "cuda", "--threads", "2", file}, {"--threads"});
  const auto r = bitfold_cli({"reduce", "sum", "--device", "cuda", file});
  if (cuda::devices().empty()) {
    CHECK(r.status == 4);
    CHECK(r.out.empty());
    CHECK(lines_of(r.err).size() == 1);
    CHECK(contains(r.err, cuda::built() ? "no usable GPU" : "without CUDA"));
  } else {
    CHECK(r.status == 0);
    CHECK(r.out == bitfold_cli({"reduce", "sum", file}).out);
  }
}

TEST_CASE("order") {
  for (const auto& m : all_methods)
    for (const auto& [text, format] :
         {std::pair{"text", order_format::text}, std::pair{"expression", order_format::expression},
          std::pair{"dot", order_format::dot}})
      for (const int n : {0, 1, 65, 700}) {
        const auto r = bitfold_cli(
            {"order", std::to_string(n), "--method", std::string(m.name), "--format", text});
        CHECK(r.status == 0);
        CHECK(r.out == print_order(static_cast<std::uint64_t>(n), m.id, format));
      }
  CHECK(bitfold_cli({"order", "3"}).out == print_order(3, method_id::tree, order_format::text));
  CHECK(bitfold_cli({"order", "0"}).out == "empty\n");
  CHECK(bitfold_cli({"order", "65536"}).status == 0);
  CHECK(bitfold_cli({"order", "--method", "sequential", "4096"}).status == 0);
  check_usage({"order", "65537"}, {"N: 65537", "65536"});
  check_usage({"order", "--method", "sequential", "4097"}, {"N: 4097", "4096"});
  check_usage({"order", "18446744073709551616"}, {"N"});
  check_usage({"order", "-1"}, {"N"});
  // Decimal digits alone, never octal or modulo 2^64, for every count.
  for (const std::string n :
       {"010", "00", "-18446744073709551613", "", " 3", "+3", "0x10", "1e3", "1'000", "1_000"}) {
    check_usage({"order", n}, {"N: '" + n + "' is no whole number"});
    check_usage({"reduce", "sum", "--threads=" + n, "x.npy"}, {"--threads"});
  }
  check_usage({"order", "3.5"}, {"3.5"});
  check_usage({"order"}, {"N"});
  check_usage({"order", "3", "--format", "svg"}, {"svg", "expression"});
}

TEST_CASE("info, version, help") {
  const auto j = json::parse(bitfold_cli({"info", "--json"}).out);
  CHECK(j["order_version"] == order::version);
  CHECK(j["version"].get<std::string>() == BITFOLD_VERSION);
  CHECK(j["cpu_targets"].size() == cpu::available_targets().size());
  CHECK(j["cpu_target"] == std::string(cpu::name(cpu::available_targets().back())));
  CHECK(j["cuda_built"] == cuda::built());
  CHECK(j["gpus"] == json(cuda::devices()));
  const auto info = bitfold_cli({"info"});
  CHECK(info.status == 0);
  CHECK(contains(info.out, "order version " + std::to_string(order::version) + "\n"));
  CHECK(bitfold_cli({"--version"}).out == "bitfold " BITFOLD_VERSION "\n");

  const auto help = bitfold_cli({"--help"});
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  for (const auto part : {"reduce", "order", "info", "--version"}) CHECK(contains(help.out, part));
  const auto reduce = bitfold_cli({"reduce", "--help"});
  CHECK(reduce.status == 0);
  for (const auto part : {"--method", "--device", "--acc", "--out-dtype", "--threads", "--target",
                          "--dtype", "--tensor", "--json"})
    CHECK(contains(reduce.out, part));
  for (const auto& m : all_methods)
    CHECK(contains(reduce.out, std::string(m.name) + ": " + std::string(m.summary)));
}

TEST_CASE("output that cannot be written") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1}));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"reduce", "sum", file},
                                                    {"reduce", "sum", "--json", file},
                                                    {"order", "3"},
                                                    {"info"},
                                                    {"--help"},
                                                    {"--version"}}) {
    const auto r = bitfold_cli(arguments, "/dev/full");
    CAPTURE(arguments);
    CHECK(r.status == 1);
    CHECK(r.err.starts_with("bitfold: cannot write the output: "));
    CHECK(lines_of(r.err).size() == 1);
  }
  // A pipe whose reader has gone is an error too, not a death by signal.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  const auto r = bitfold_cli({"info"}, "/proc/self/fd/" + std::to_string(ends[1]));
  close(ends[1]);
  CHECK(r.status == 1);
  CHECK(contains(r.err, "cannot write"));
}
