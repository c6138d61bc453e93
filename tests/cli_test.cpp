// The command line, as a user meets it. (`record` and `check` are in record_test.cpp.)
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include <bitfold/bound.hpp>
#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/reference.hpp>

#include "cli.hpp"
#include "data.hpp"
#include "environment.hpp"

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

std::string write_data(const bytes::directory& dir, const std::string& file,
                       const std::vector<std::byte>& data) {
  return dir.write(file, std::string(reinterpret_cast<const char*>(data.data()), data.size()));
}

}  // namespace

TEST_CASE("reduce: every method, as text and as JSON, equals the reference") {
  const bytes::directory dir;
  const auto values = floats(5000);
  const auto file = dir.write("x.npy", npy_of(values));
  for (const auto& m : all_methods) {
    for (const auto acc : test::accumulators_of(dtype::f32, m.id)) {
      const std::string method(m.name);
      CAPTURE(method);
      const auto r = make_reduction(op_id::sum, m.id, dtype::f32, acc, dtype::f64);
      const scalar expected = reference(r, values.data(), values.size());
      std::vector<std::string> arguments{"reduce",      "sum", "--method", method,
                                         "--out-dtype", "f64", file};
      if (acc) arguments.insert(arguments.end(), {"--acc", std::string(name(*acc))});
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
                                       {"acc", acc ? json(name(*acc)) : json()},
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
  const auto values = floats(300'000);  // enough to be shared out
  const auto file = dir.write("x.npy", npy_of(values));
  for (const method_id m : {method_id::tree, method_id::exact})
    for (const std::string& ops : {std::string("sum"), list_of(ops_of(1, m == method_id::exact))}) {
      const std::string method(name(m));
      const auto expected = bitfold_cli({"reduce", ops, "--method", method, file});
      REQUIRE(expected.status == 0);
      const auto reduced =
          reference(make_reduction(op_id::sum, m, dtype::f32), values.data(), values.size());
      CHECK(contains(expected.out, "  " + to_hex(reduced) + "\n"));
      for (const auto t : cpu::available_targets())
        for (const std::string threads : {"0", "1", "3"})
          CHECK(bitfold_cli({"reduce", ops, "--method", method, "--threads", threads, "--target",
                             std::string(cpu::name(t)), file})
                    .out == expected.out);
    }
}

TEST_CASE("reduce: every operation of every type, several at once, equals the reference") {
  const bytes::directory dir;
  constexpr std::size_t n = 700;
  for (const dtype t : tested_types())
    for (const auto kind : {test::kind::special, test::kind::near_one}) {
      const auto data = test::make_data(t, kind, n, 1), other = test::make_data(t, kind, n, 2);
      const auto x = write_data(dir, "x", data), y = write_data(dir, "y", other);
      for (const auto& [inputs, exact] : {std::pair{1, false}, {2, false}, {1, true}, {2, true}}) {
        const auto ops = ops_of(inputs, exact);
        std::vector<std::string> arguments{"reduce", list_of(ops), "--dtype", std::string(name(t)),
                                           x};
        if (inputs == 2) arguments.push_back(y);
        if (exact) arguments.insert(arguments.end(), {"--method", "exact"});
        const auto text = bitfold_cli(arguments);
        arguments.push_back("--json");
        const auto objects = bitfold_cli(arguments);
        CAPTURE(arguments, text.err, objects.err);
        CHECK(text.status == 0);
        CHECK(objects.status == 0);
        const auto lines = lines_of(text.out), json_lines = lines_of(objects.out);
        REQUIRE(lines.size() == ops.size());
        REQUIRE(json_lines.size() == ops.size());
        for (std::size_t k = 0; k < ops.size(); ++k) {
          const bool by_exact = exact && info(ops[k]).has_exact;
          const auto r =
              make_reduction(ops[k], by_exact ? std::optional(method_id::exact) : std::nullopt, t);
          const scalar expected = inputs == 2 ? reference(r, data.data(), other.data(), n)
                                              : reference(r, data.data(), n);
          CHECK(lines[k] == x + "  " + (inputs == 2 ? y + "  " : "") + "[700]  " +
                                std::string(name(t)) + "  " + std::string(name(ops[k])) + "  " +
                                to_string(expected) + "  " + to_hex(expected));
          const auto j = json::parse(json_lines[k]);
          CHECK(j["op"] == name(ops[k]));
          CHECK(j["bits"] == to_hex(expected));
          CHECK(j["out_dtype"] == name(expected.type));
          CHECK(j["method"] == (by_exact ? json("exact") : r.method() ? json("tree") : json()));
          CHECK(j["acc"] == (accumulates(ops[k]) && !by_exact ? json(name(r.acc())) : json()));
          CHECK(j["file"] == x);
          CHECK(j.contains("file2") == (inputs == 2));
          if (inputs == 2) CHECK(j["file2"] == y);
          CHECK_FALSE(j.contains("ddof"));
        }
      }
    }
}

TEST_CASE("reduce: one operation alone, in the order asked, and over several arrays") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1, -2, 0}));
  for (const auto& [op, line] : {std::pair{"mean", "-0.33333334  beaaaaab"},
                                 {"max", "1  3f800000"},
                                 {"argmin", "1  0000000000000001"},
                                 {"count_nonzero", "2  0000000000000002"},
                                 {"any", "1  01"},
                                 {"all", "0  00"}})
    CHECK(bitfold_cli({"reduce", op, file}).out == file + "  [3]  f32  " + line + "\n");
  const auto j = json::parse(bitfold_cli({"reduce", "argmax", "--json", file}).out);
  CHECK(j["value"] == 0);
  CHECK(j["out_dtype"] == "i64");

  const auto tensors = dir.write(
      "m.safetensors", bytes::safetensors("{" + bytes::tensor("b", "F32", "[2]", 0, 8) + "," +
                                              bytes::tensor("a", "I8", "[2,1]", 8, 10) + "}",
                                          bytes::of<float>({1, 2}) + "\x03\xfc"));
  CHECK(bitfold_cli({"reduce", "max,sum,max", tensors}).out ==
        tensors + ":b  [2]  f32  max  2  40000000\n" + tensors +
            ":b  [2]  f32  sum  3  40400000\n" + tensors + ":b  [2]  f32  max  2  40000000\n" +
            tensors + ":a  [2,1]  i8  max  3  03\n" + tensors +
            ":a  [2,1]  i8  sum  -1  ffffffffffffffff\n" + tensors + ":a  [2,1]  i8  max  3  03\n");
}

TEST_CASE("reduce --bound: a column of text, a field of JSON, and what has none") {
  const bytes::directory dir;
  const auto values = floats(5000), others = floats(5000);
  const auto file = dir.write("x.npy", npy_of(values)), second = dir.write("y.npy", npy_of(others));
  for (const auto& [inputs, exact] : {std::pair{1, false}, {2, false}, {1, true}, {2, true}}) {
    std::vector<reduction> all;
    std::vector<op_id> ops;
    for (const op_id op : ops_of(inputs))
      if (exact ? info(op).has_exact : has_error_bound(op)) {
        ops.push_back(op);
        all.push_back(
            make_reduction(op, exact ? std::optional(method_id::exact) : std::nullopt, dtype::f32));
      }
    const auto want = cpu::reduce_with_bounds(all, values.data(),
                                              inputs == 2 ? others.data() : nullptr, values.size());
    std::vector<std::string> arguments{
        "reduce", list_of(ops), "--bound", "--method", exact ? "exact" : "tree", file};
    if (inputs == 2) arguments.push_back(second);
    const auto text = lines_of(bitfold_cli(arguments).out);
    arguments.push_back("--json");
    const auto objects = lines_of(bitfold_cli(arguments).out);
    REQUIRE(text.size() == all.size());
    REQUIRE(objects.size() == all.size());
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::string bound = to_string(load_scalar(dtype::f64, &want[k].bound));
      CHECK(text[k].ends_with("  " + to_hex(want[k].value) + "  +- " + bound));
      CHECK(objects[k].ends_with(",\"bits\":\"" + to_hex(want[k].value) + "\",\"bound\":" + bound +
                                 "}"));
      CHECK(json::parse(objects[k])["bound"] == want[k].bound);
    }
  }
  const auto infinite = dir.write("inf.npy", npy_of({std::numeric_limits<float>::infinity()}));
  CHECK(lines_of(bitfold_cli({"reduce", "sum", "--bound", infinite}).out)[0].ends_with(
      "  inf  7f800000  +- inf"));
  CHECK(json::parse(bitfold_cli({"reduce", "sum", "--bound", "--json", infinite}).out)["bound"] ==
        "inf");
  for (const std::string op : {"prod", "var", "std", "skewness", "kurtosis", "logsumexp"})
    check_usage({"reduce", "sum," + op, "--bound", "no such file"},
                {"--bound: " + op + " has none"});
  check_usage({"reduce", "sum,prod,var", "--bound", "--method", "exact", "no such file"},
              {"--bound: prod has none"});
}

TEST_CASE("reduce: options are for the operations that take them") {
  const bytes::directory dir;
  const auto values = floats(5000);
  const auto file = dir.write("x.npy", npy_of(values));
  struct row {
    std::vector<std::string> arguments;
    std::vector<reduction> expected;
  };
  using enum op_id;
  const auto f32 = dtype::f32, f64 = dtype::f64;
  for (const auto& [arguments, expected] :
       {row{{"sum,max,mean", "--method", "kahan"},
            {make_reduction(sum, method_id::kahan, f32), make_reduction(max, {}, f32),
             make_reduction(mean, method_id::kahan, f32)}},
        row{{"norm_l2,var,argmax,sum", "--acc", "f64", "--out-dtype", "f64", "--ddof", "1"},
            {make_reduction(norm_l2, {}, f32, {}, f64), make_reduction(var, {}, f32, f64, f64, 1),
             make_reduction(argmax, {}, f32), make_reduction(sum, {}, f32, f64, f64)}},
        row{{"sum,max,var,skewness", "--method", "exact", "--out-dtype", "f64", "--ddof", "1"},
            {make_reduction(sum, method_id::exact, f32, {}, f64), make_reduction(max, {}, f32),
             make_reduction(var, method_id::exact, f32, {}, f64, 1),
             make_reduction(skewness, {}, f32, {}, f64)}},
        row{{"var,sum", "--method", "kahan"},
            {make_reduction(var, {}, f32), make_reduction(sum, method_id::kahan, f32)}},
        row{{"logsumexp,mean", "--method", "exact", "--acc", "f64"},
            {make_reduction(logsumexp, {}, f32, f64), make_reduction(mean, method_id::exact, f32)}},
        row{{"std", "--ddof", "2"}, {make_reduction(op_id::std, {}, f32, {}, {}, 2)}},
        row{{"sum", "--method", "sequential"},
            {make_reduction(sum, method_id::sequential, f32)}}}) {
    std::vector<std::string> all{"reduce", "--json", file};
    all.insert(all.begin() + 1, arguments.begin(), arguments.end());
    const auto r = bitfold_cli(all);
    CAPTURE(all, r.err);
    const auto lines = lines_of(r.out);
    REQUIRE(lines.size() == expected.size());
    for (std::size_t k = 0; k < lines.size(); ++k) {
      const auto j = json::parse(lines[k]);
      CHECK(j["op"] == name(expected[k].op()));
      CHECK(j["method"] == (expected[k].method() ? json(name(*expected[k].method())) : json()));
      CHECK(j["bits"] == to_hex(reference(expected[k], values.data(), values.size())));
      CHECK(j.value("ddof", 0) == expected[k].ddof());
    }
  }
  check_usage({"reduce", "max", "--method", "kahan", file}, {"--method kahan: max takes none\n"});
  check_usage({"reduce", "max", "--method", "exact", file}, {"--method exact: max takes none\n"});
  check_usage({"reduce", "max,var", "--method", "tree", file},
              {"--method tree: max, var take none but exact"});
  check_usage({"reduce", "dot,cosine", "--method", "exact", file, file},
              {"--method exact: cosine has no exact form"});
  check_usage({"reduce", "sum,var", "--method", "exact", "--acc", "f64", file},
              {"--acc f64: sum, var take none by method exact"});
  check_usage({"reduce", "max,any", "--method", "tree", file},
              {"--method tree: max, any take none"});
  for (const std::string op : {"min", "argmax", "any", "count_nonzero", "norm_l2"})
    check_usage({"reduce", op, "--acc", "f64", file}, {"--acc f64: " + op + " takes none"});
  for (const std::string op : {"min", "argmax", "any", "count_nonzero"})
    check_usage({"reduce", op, "--out-dtype", "f64", file},
                {"--out-dtype f64: " + op + " takes none"});
  check_usage({"reduce", "sum,max", "--ddof", "1", file}, {"--ddof 1: sum, max take none"});
  check_usage({"reduce", "sum", "--ddof", "0", file}, {"--ddof 0: sum takes none"});
  for (const std::string text : {"-1", "1.5", "2147483648", "one"})
    check_usage({"reduce", "var", "--ddof=" + text, file}, {"--ddof", text});
  check_usage({"reduce", "mean", "--out-dtype", "i32", file}, {file, "out dtype", "mean"});
}

TEST_CASE("reduce: operations of two inputs take files in pairs") {
  const bytes::directory dir;
  const auto a = dir.write("a.npy", npy_of({1, 2})), b = dir.write("b.npy", npy_of({3, 4}));
  CHECK(bitfold_cli({"reduce", "dot", a, b, b, b}).out ==
        a + "  " + b + "  [2]  f32  11  41300000\n" + b + "  " + b + "  [2]  f32  25  41c80000\n");

  // Tensors by name, in the first file's order.
  const auto tensors = [&](const std::string& file, const std::vector<std::string>& names,
                           const std::string& shape = "[1]", const std::string& type = "F32") {
    std::string header, body;
    for (const auto& name : names) {
      const int begin = static_cast<int>(body.size());
      body += bytes::of<float>({static_cast<float>(name[0])});
      header += (header.empty() ? "" : ",") + bytes::tensor(name, type, shape, begin, begin + 4);
    }
    return dir.write(file, bytes::safetensors("{" + header + "}", body));
  };
  const auto x = tensors("x.safetensors", {"A", "B"}), y = tensors("y.safetensors", {"B", "A"});
  CHECK(bitfold_cli({"reduce", "dot", x, y}).out ==
        x + ":A  " + y + ":A  [1]  f32  4225  45840800\n" + x + ":B  " + y +
            ":B  [1]  f32  4356  45882000\n");
  const auto j = json::parse(bitfold_cli({"reduce", "mse", "--tensor", "A", "--json", x, y}).out);
  CHECK(j["file"] == x);
  CHECK(j["file2"] == y);
  CHECK(j["tensor"] == "A");

  // A pair that does not match, between two that do.
  const auto pair = [&](const std::string& first, const std::string& second, int status,
                        const std::string& problem) {
    const auto r = bitfold_cli({"reduce", "dot", a, b, first, second, b, a});
    CAPTURE(r.out, r.err);
    CHECK(r.status == status);
    CHECK(r.out == a + "  " + b + "  [2]  f32  11  41300000\n" + b + "  " + a +
                       "  [2]  f32  11  41300000\n");
    CHECK(r.err == "bitfold: " + problem + "\n");
  };
  const auto both = [](const std::string& first, const std::string& second) {
    return first + " and " + second + ": ";
  };
  const auto c = dir.write("c.npy", npy_of({1, 2, 3}));
  const auto d = dir.write("d.npy", bytes::npy("<f8", "(2,)", bytes::of<double>({1, 2})));
  const auto e = dir.write("e.npy", bytes::npy("<f4", "(1, 2)", bytes::of<float>({1, 2})));
  pair(a, c, 2, both(a, c) + "shape: [2] and [3]");
  pair(a, e, 2, both(a, e) + "shape: [2] and [1,2]");
  pair(d, a, 2, both(d, a) + "dtype: f64 and f32");
  const auto z = tensors("z.safetensors", {"A", "B"}, "[1,1]");
  pair(x, z, 2, both(x, z) + "tensor 'A': shape: [1] and [1,1]");
  const auto more = tensors("more.safetensors", {"A", "B", "C"});
  pair(x, more, 2, x + ": no tensor 'C', which " + more + " has");
  pair(more, x, 2, x + ": no tensor 'C', which " + more + " has");
  pair(a, x, 2, x + ": no array without a name, which " + a + " has");
  pair(a, dir.path("none.npy"), 3, dir.path("none.npy") + ": file: No such file or directory");

  check_usage({"reduce", "dot", a}, {"FILE: dot takes files in pairs, not 1"});
  check_usage({"reduce", "dot,mse", a, b, a}, {"FILE: dot takes files in pairs, not 3"});
  check_usage({"reduce", "sum,dot", a, b}, {"OP: sum takes 1 input, but dot takes 2"});
  check_usage({"reduce", "dot,sum", a, b}, {"OP: dot takes 2 inputs, but sum takes 1"});
}

TEST_CASE("reduce: what an array without elements has no result of") {
  const bytes::directory dir;
  const auto good = dir.write("good.npy", npy_of({1, 2}));
  const auto empty = dir.write("empty.npy", npy_of({}));
  const auto half = dir.write(
      "half.safetensors", bytes::safetensors("{" + bytes::tensor("a", "F32", "[1]", 0, 4) + "," +
                                                 bytes::tensor("b", "F32", "[0,3]", 4, 4) + "}",
                                             "1234"));
  for (const op_info& op : all_op_infos) {
    if (op.inputs != 1) continue;
    const std::string name(op.name);
    const auto alone = bitfold_cli({"reduce", name, empty});
    const auto several = bitfold_cli({"reduce", "sum," + name, half, good});
    CAPTURE(name, alone.err, several.err);
    if (op.empty != if_empty::refused) {
      CHECK(alone.status == 0);
      const scalar expected = reference(make_reduction(op.id, {}, dtype::f32), nullptr, 0);
      CHECK(alone.out ==
            empty + "  [0]  f32  " + to_string(expected) + "  " + to_hex(expected) + "\n");
      CHECK(lines_of(several.out).size() == 6);
      continue;
    }
    CHECK(alone.status == 2);
    CHECK(alone.out.empty());
    CHECK(alone.err == "bitfold: " + empty + ": shape: [0] has no elements, and " + name +
                           " of none is not defined\n");
    CHECK(several.status == 2);
    CHECK(lines_of(several.out).size() == 2);
    CHECK(several.out.starts_with(good));
    CHECK(several.err == "bitfold: " + half + ": tensor 'b': shape: [0,3] has no elements, and " +
                             name + " of none is not defined\n");
  }
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
  // JSON has other controls as they are, but terminals obey them.
  const auto control = dir.write("\u009b2J\x7f.npy", npy_of({1}));
  const auto escaped = bitfold_cli({"reduce", "sum", "--json", control});
  CHECK(json::parse(escaped.out)["file"] == control);
  CHECK(escaped.out.find("\u009b") == std::string::npos);
  CHECK(escaped.out.find('\x7f') == std::string::npos);
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
  // Raw, whatever it looks like, with --raw alone.
  check_usage({"reduce", "sum", "--dtype", "u8", npy},
              {npy + ": dtype: f32, not the u8 of --dtype", "--acc"});
  const auto raw = bitfold_cli({"reduce", "sum", "--raw", "--dtype", "u8", npy});
  CHECK(raw.out.starts_with(npy + "  [136]  u8  "));
  check_usage({"reduce", "sum", "--raw", npy}, {"--raw", "--dtype"});
  check_usage({"reduce", "sum", dir.write("raw", "12345678")}, {"dtype: needed"});
}

TEST_CASE("reduce: a file that becomes shorter does not stop the others") {
  const bytes::directory dir;
  const auto one = dir.write("one", "\1"), two = dir.write("two", "\2"), huge = dir.path("huge");
  const auto r = bitfold_cli({"reduce", "sum", "--dtype", "u8", one, huge, two},
                             {.meanwhile = shorten_when_read(huge)});
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
  check_usage({"frobnicate"}, {"frobnicate: there is no such command (bitfold --help"});
  check_usage({"redcue"},
              {"redcue: there is no such command; did you mean reduce? (bitfold --help"});
  check_usage({"dif"}, {"; did you mean diff?"});
  check_usage({"nope"}, {"nope: there is no such command (bitfold --help"});
  check_usage({"reduce"}, {"OP"});
  check_usage({"reduce", "sum"}, {"FILE"});
  check_usage({"reduce", "product", file}, {"product", "sum"});
  for (const std::string list : {"sum,", ",sum", "sum,,max", ""})
    check_usage({"reduce", list, file}, {"OP: '' is not one of sum, "});
  check_usage({"reduce", "sum,product", file}, {"OP: 'product' is not one of sum, "});
  check_usage({"reduce", "maen", file}, {"; did you mean mean?"});
  check_usage({"check", file, "--jsno"}, {"not expected: --jsno; did you mean --json? ("});
  check_usage({"reduce", "sum", "--kepdims=1", file}, {"; did you mean --keepdims?"});
  check_usage({"reduce", "sum", "--method", "exat", file}, {"}; did you mean exact? ("});
  check_usage({"check", file, "-x", "--quite"}, {"; did you mean --quiet?"});
  for (const char* word : {"--zebra", "-x"})
    check_usage({"check", file, word}, {std::string("not expected: ") + word + " ("});
  std::vector<std::string> methods{"--method"}, dtypes{"f128"};
  for (const auto& m : all_methods) methods.emplace_back(m.name);
  for (const auto t : all_dtypes) dtypes.emplace_back(name(t));
  check_usage({"reduce", "sum", "--method", "magic", file}, methods);
  check_usage({"reduce", "sum", "--method", "0", file}, methods);
  check_usage({"reduce", "sum", "--dtype", "f128", file}, dtypes);
  check_usage({"reduce", "sum", "--out-dtype", "f128", file}, dtypes);
  check_usage({"reduce", "sum", "--acc", "f16", file}, {"--acc", "f32", "f64"});
  check_usage({"reduce", "sum", "--device", "abacus", file}, {"abacus", "cpu", "cuda"});
  check_usage({"reduce", "sum", "--target", "mmx", file},
              {"mmx", "scalar", "avx2", "avx512", "neon"});
  check_usage({"reduce", "sum", "--threads", "-1", file}, {"--threads"});
  check_usage({"reduce", "sum", "--threads", "many", file}, {"--threads"});
  check_usage({"reduce", "sum", "--frob", file}, {"--frob"});
  check_usage({"reduce", "sum", "--out-dtype", "i32", file}, {file, "out dtype"});
  check_usage({"reduce", "sum", "--tensor", "w", file}, {file, "tensor"});
  const auto available = cpu::available_targets();
  for (const auto t : cpu::all_targets)
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
  const auto other = dir.write("y.npy", npy_of(std::vector<float>(values.rbegin(), values.rend())));
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"reduce", "sum,var,argmax", file},
        {"reduce", "dot,mse", file, other}}) {
    auto on_gpu = what;
    on_gpu.insert(on_gpu.end(), {"--device", "cuda"});
    const auto r = bitfold_cli(on_gpu);
    if (cuda::devices().empty()) {
      CHECK(r.status == 4);
      CHECK(r.out.empty());
      CHECK(lines_of(r.err).size() == 1);
      CHECK(contains(r.err, "no usable GPU"));
    } else {
      CHECK(r.status == 0);
      CHECK(r.out == bitfold_cli(what).out);
    }
  }
}

TEST_CASE("reduce --explain says what a GPU would do, where there is none") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of(floats(1 << 20)));
  const auto explained = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"reduce", "sum,max", "--device", "cuda", "--explain", file};
    all.insert(all.end(), more.begin(), more.end());
    const auto r = bitfold_cli(all);
    CHECK(r.status == 0);
    CHECK(r.err.empty());
    return r.out;
  };
  const std::string whole = explained({});
  CHECK(contains(whole, "x.npy  [1048576]  f32"));
  CHECK(contains(whole, "pass 1: tile_nodes: sum by tree + max; "));
  CHECK(contains(whole, "pass 2: states: "));
  CHECK(contains(whole, " reads f32, 4194304 bytes"));
  CHECK(contains(whole, "workspace: "));
  const auto offsets = dir.write(
      "o.npy", bytes::npy("<i8", "(3,)", bytes::of(std::vector<std::int64_t>{0, 5, 1 << 20})));
  CHECK(contains(explained({"--offsets", offsets}), "short_segments: sum by tree + max"));
  CHECK(contains(explained({"--axis", "0"}), "tile_nodes: sum by tree + max"));
  check_usage({"reduce", "sum", "--explain", file}, {"--explain", "--device cuda"});
  check_usage({"reduce", "sum", "--device", "cuda", "--explain", "--json", file}, {"--explain"});
}

TEST_CASE("kernels: list, clear, make") {
  const bytes::directory dir;
  const std::string pack = dir.path("pack");
  check_usage({"kernels", "list", "--pack", pack}, {"--pack", pack});
  check_usage({"kernels", "clear", "--pack", pack}, {"--pack", pack});
  check_usage({"kernels", "clear", "--pack", ""}, {"--pack"});
  std::filesystem::create_directory(pack);
  std::filesystem::permissions(pack, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  check_usage({"kernels", "list", "--pack", pack}, {"--pack", pack, "not this user's alone"});
  std::filesystem::permissions(pack, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::remove);
  CHECK(bitfold_cli({"kernels", "list", "--pack", pack}).out.empty());
  CHECK(bitfold_cli({"kernels", "clear", "--pack", pack}).out ==
        "0 files removed from " + pack + "\n");
  for (const auto& [option, value] :
       {std::pair{"--dtype", "f64"}, {"--acc", "f64"}, {"--ddof", "1"}})
    check_usage({"kernels", "clear", "--pack", pack, option, value}, {option, "make"});
  check_usage({"kernels"}, {"ACTION"});
  check_usage({"kernels", "drop"}, {"ACTION"});
  check_usage({"kernels", "list", "sum"}, {"OP"});
  check_usage({"kernels", "make", "--gpu", "9.0"}, {"OP"});
  check_usage({"kernels", "make", "sum"}, {"--gpu"});
  for (const char* gpu : {"9", "9.", ".0", "9.0.0", "a.b", "9.10"})
    check_usage({"kernels", "make", "sum", "--gpu", gpu}, {"--gpu", "9.0"});
  check_usage({"kernels", "make", "summ", "--gpu", "9.0"}, {"summ"});
  check_usage({"kernels", "make", "sum", "--gpu", "9.0", "--shape", "3,x"}, {"--shape"});
  check_usage({"kernels", "make", "sum", "--gpu", "9.0", "--axis", "0"}, {"--shape"});
  check_usage({"kernels", "make", "sum", "--gpu", "9.0", "--shape", "3,4", "--axis", "2"},
              {"axis"});
  if (test::sanitized) return;  // NVIDIA's compiler may have faults of its own
  const auto made = bitfold_cli({"kernels", "make", "sum", "--gpu", "9.0", "--shape", "64,1000",
                                 "--axis", "1", "--pack", pack});
  if (json::parse(bitfold_cli({"info", "--json"}).out)["gpu_compiler"].is_null()) {
    CHECK(made.status == 4);
    CHECK(contains(made.err, "install NVRTC"));
    return;
  }
  CHECK(made.status == 0);
  CHECK(contains(made.out, "1 kernels for compute capability 9.0"));
  const auto listed = bitfold_cli({"kernels", "list", "--pack", pack});
  CHECK(lines_of(listed.out).size() == 1);
  CHECK(contains(listed.out, "sm_90 by any NVRTC  bitfold::cuda::fold_"));
  CHECK(contains(listed.out, "  of sum  "));
  CHECK(bitfold_cli({"kernels", "clear", "--pack", pack}).out ==
        "1 files removed from " + pack + "\n");
  // What is made of whole arrays serves all that reduce has of them.
  for (const std::vector<std::string>& op :
       {std::vector<std::string>{"sum"}, {"sum", "--method", "exact"}, {"count_distinct"}}) {
    const auto make = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all{"kernels", "make", "--gpu", "9.0", "--pack", pack};
      all.insert(all.end(), op.begin(), op.end());
      all.insert(all.end(), more.begin(), more.end());
      CHECK(bitfold_cli(all).status == 0);
      return lines_of(bitfold_cli({"kernels", "list", "--pack", pack}).out).size();
    };
    const std::size_t of_arrays = make({});
    for (const char* shape : {"1", "1,1", "2", "3,5", "1000000"})
      CHECK(make({"--shape", shape}) == of_arrays);
  }
}

TEST_CASE("order") {
  for (const auto& m : all_methods)
    for (const auto& [text, format] :
         {std::pair{"text", order_format::text}, std::pair{"expression", order_format::expression},
          std::pair{"dot", order_format::dot}})
      // (A process with sanitizers takes a while to begin.)
      for (const int n : test::sanitized ? std::vector{65} : std::vector{0, 1, 65, 700}) {
        const auto r = bitfold_cli(
            {"order", std::to_string(n), "--method", std::string(m.name), "--format", text});
        CHECK(r.status == 0);
        CHECK(r.out == print_order(static_cast<std::uint64_t>(n), m.id, format));
      }
  CHECK(bitfold_cli({"order", "--method", "exact", "10000000000"}).out ==
        "any order: there is no tree to show\n");
  CHECK(bitfold_cli({"order", "3"}).out == print_order(3, method_id::tree, order_format::text));
  CHECK(bitfold_cli({"order", "0"}).out == "empty\n");
  // (Tens of megabytes, of which nothing is read.)
  CHECK(bitfold_cli({"order", "65536"}, {.out = "/dev/null"}).status == 0);
  CHECK(bitfold_cli({"order", "--method", "sequential", "4096"}, {.out = "/dev/null"}).status == 0);
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

TEST_CASE("ops") {
  const auto objects = lines_of(bitfold_cli({"ops", "--json"}).out);
  const auto text = bitfold_cli({"ops"});
  CHECK(text.status == 0);
  const auto lines = lines_of(text.out);
  REQUIRE(objects.size() == all_op_infos.size());
  REQUIRE(lines.size() > all_op_infos.size());
  for (std::size_t k = 0; k < objects.size(); ++k) {
    const op_info& op = all_op_infos[k];
    const auto j = json::parse(objects[k]);
    CHECK(j["op"] == op.name);
    CHECK(j["inputs"] == op.inputs);
    json methods = json::array();
    for (const auto& m : all_methods)
      if (takes(op.id, m.id)) methods.push_back(m.name);
    CHECK(j["methods"] == methods);
    // And what it says holds. (A process with sanitizers takes a while to begin.)
    if (!test::sanitized || k % 5 == 0) {
      const auto is_taken = [&](std::vector<std::string> options) {
        options.insert(options.begin(), {"reduce", std::string(op.name)});
        options.insert(options.end(), {"no.npy", "no.npy"});
        return bitfold_cli(options).status != 2;
      };
      for (const method_id m : {method_id::exact, method_id::tree})
        CHECK(is_taken({"--method", std::string(name(m))}) == takes(op.id, m));
      CHECK(j["acc"] == is_taken({"--acc", "f64"}));
      CHECK(j["out_dtype"] == is_taken({"--out-dtype", "f64"}));
      CHECK(j["ddof"] == is_taken({"--ddof", "1"}));
      CHECK(j["bound"] == is_taken({"--bound"}));
    }
    CHECK(j["types"].is_string());
    CHECK(j["definition"] == op.definition);
    CHECK(j["summary"] == op.summary);
    // What it says of no elements is what the reference gives.
    if (op.empty == if_empty::refused) {
      CHECK(j["empty"].is_null());
    } else {
      const auto value = to_string(reference(make_reduction(op.id, {}, dtype::f64), nullptr, 0));
      CHECK((j["empty"].is_string() ? j["empty"].get<std::string>() : j["empty"].dump()) == value);
    }
    CHECK(lines[k + 1].starts_with(std::string(op.name) + " "));
    CHECK(contains(lines[k + 1], std::string(op.summary)));
    std::istringstream columns(lines[k + 1]);
    std::string column;
    for (int skip = 0; skip < 4; ++skip) columns >> column;
    CHECK(column == (op.has_exact ? "yes" : "none"));
  }
  CHECK(json::parse(objects[0]) ==
        json{{"op", "sum"},
             {"inputs", 1},
             {"methods", {"tree", "pairwise", "kahan", "sequential", "exact"}},
             {"acc", true},
             {"out_dtype", true},
             {"ddof", false},
             {"bound", true},
             {"types", "additive"},
             {"empty", 0},
             {"definition", 1},
             {"summary", "the sum"}});
}

TEST_CASE("info, version, help") {
  const auto j = json::parse(bitfold_cli({"info", "--json"}).out);
  CHECK(j["order_version"] == order::version);
  CHECK(j["version"].get<std::string>() == BITFOLD_VERSION);
  CHECK(j["cpu_targets"].size() == cpu::available_targets().size());
  CHECK(j["cpu_target"] == std::string(cpu::name(cpu::available_targets().back())));
  // (The command line looks for one among Python's packages, too.)
  if (!j["gpu_compiler"].is_null())
    CHECK(j["gpu_compiler"].get<std::string>().starts_with("NVRTC "));
  else
    CHECK(cuda::compiler().empty());
  CHECK(j["gpus"] == json(cuda::devices()));
  const auto info = bitfold_cli({"info"});
  CHECK(info.status == 0);
  {
    const bytes::directory dir;
    const test::environment cache("BITFOLD_CACHE", dir.path("to/be/made"));
    CHECK(json::parse(bitfold_cli({"info", "--json"}).out)["gpu_kernels"] ==
          dir.path("to/be/made"));
    const test::environment none("BITFOLD_CACHE", "/dev/null/none");
    CHECK(json::parse(bitfold_cli({"info", "--json"}).out)["gpu_kernels"].is_null());
    CHECK(contains(bitfold_cli({"info"}).out, "gpu kernels are not kept (/dev/null"));
  }
  CHECK(contains(info.out, "order version " + std::to_string(order::version) + "\n"));
  CHECK(bitfold_cli({"--version"}).out == "bitfold " BITFOLD_VERSION "\n");

  const auto help = bitfold_cli({"--help"});
  CHECK(help.status == 0);
  CHECK(help.err.empty());
  for (const auto part : {"reduce", "ops", "order", "info", "--version"})
    CHECK(contains(help.out, part));
  const auto reduce = bitfold_cli({"reduce", "--help"});
  CHECK(reduce.status == 0);
  for (const auto part :
       {"--method", "--device", "--acc", "--out-dtype", "--ddof", "--threads", "--target",
        "--dtype", "--tensor", "--bound", "--stream", "--total", "--overflow", "--json"})
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
                                                    {"ops"},
                                                    {"info"},
                                                    {"--help"},
                                                    {"--version"}}) {
    const auto r = bitfold_cli(arguments, {.out = "/dev/full"});
    CAPTURE(arguments);
    CHECK(r.status == 1);
    CHECK(r.err.starts_with("bitfold: cannot write the output: "));
    CHECK(lines_of(r.err).size() == 1);
  }
  // A pipe whose reader has gone is an error too, not a death by signal.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  const auto r = bitfold_cli({"info"}, {.out = "/proc/self/fd/" + std::to_string(ends[1])});
  close(ends[1]);
  CHECK(r.status == 1);
  CHECK(contains(r.err, "cannot write"));
}

TEST_CASE("names of files are taken as they are") {
  const bytes::directory dir;
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(dir.path(""));
  for (const std::string name : {"w", "a", "b"})
    dir.write(name, npy_of({-1}));  // what they might be taken for
  std::vector<std::string> names{"[w]", "[a,b]", "[]",    "{}",  "{a}", "%%",    "++",
                                 "a,b", ",",     "\"w\"", "'w'", "`w`", "check", "reduce",
                                 "w ",  " w",    "w=a",   "a;b", "\1w", "\1",    "true",
                                 "w\n", "*",     "~",     "$w",  "\\w", "007"};
  const auto write = [&](const std::string& name, std::size_t i) {
    dir.write(name, npy_of({static_cast<float>(i)}));
  };
  for (const bool after_dashes : {false, true}) {
    if (after_dashes) names.insert(names.end(), {"--", "-w", "--out", "--out=w", "-h"});
    const auto call = [&](std::vector<std::string> words, const std::vector<std::string>& files) {
      if (after_dashes) words.emplace_back("--");
      words.insert(words.end(), files.begin(), files.end());
      return bitfold_cli(words);
    };
    // Together, and alone, where a list would be another number of them.
    for (std::size_t i = 0; i < names.size(); ++i) write(names[i], i);
    const auto lines = lines_of(call({"reduce", "sum", "--json"}, names).out);
    REQUIRE(lines.size() == names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      CHECK(contains(lines[i], "\"value\":" + std::to_string(i) + ","));
    CHECK(call({"record", "--out", "golden.json"}, names).status == 0);
    auto checked = names;
    checked.insert(checked.begin(), "golden.json");
    CHECK(contains(call({"check"}, checked).out, std::to_string(names.size()) + " same\n"));
    for (const std::string name : {"[w]", "[a,b]", "{}", "%%", "++", "check", "--", "--out"}) {
      if (!after_dashes && name.starts_with('-')) continue;
      CAPTURE(name, after_dashes);
      CHECK(call({"record", "--out", "one.json"}, {name}).status == 0);
      CHECK(call({"check"}, {"one.json", name}).out == "1 file, 1 array: 1 same\n");
      CHECK(call({"check"}, {"one.json", "w"}).status == 1);
      // And as GOLDEN, and after options.
      CHECK(bitfold_cli({"record", "w", "--out", name}).status == 0);
      CHECK(call({"check", "--junit", name + ".xml"}, {name, "w"}).status == 0);
      CHECK(content(dir.path(name + ".xml")).starts_with("<?xml"));
    }
  }
  std::filesystem::current_path(here);
}

TEST_CASE("reduce: words that would promise more than they do") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1, 2})),
             i = dir.write("i.npy", bytes::npy("<i8", "(1,)", "12345678")),
             d = dir.write("d.npy", bytes::npy("<f8", "(1,)", bytes::of<double>({1})));
  // NumPy's dtype is that of the accumulator.
  check_usage({"reduce", "sum", "--dtype", "f64", x},
              {x + ": dtype: f32, not the f64 of --dtype", "--acc"});
  check_usage({"reduce", "sum", "--out-dtype", "f64", x},
              {"--out-dtype f64: sum of f32 adds in f32; --acc f64"});
  check_usage({"reduce", "mean,dot", "--out-dtype", "f64", x, x}, {"two calls"});
  check_usage({"reduce", "norm_l1", "--out-dtype", "f64", x},
              {"--out-dtype f64: norm_l1 of f32 adds in f32"});
  check_usage({"reduce", "sum", "--out-dtype", "f32", i},
              {"--out-dtype f32: sum of i64 adds integers, modulo 2^64", "--method exact"});
  for (const auto& arguments : {std::vector<std::string>{"--acc", "f64", "--out-dtype", "f64", x},
                                {"--acc", "f32", "--out-dtype", "f64", x},
                                {"--out-dtype", "f16", x},
                                {"--out-dtype", "f32", d},
                                {"--out-dtype", "f64", "--method", "exact", x},
                                {"--out-dtype", "f32", "--method", "exact", i},
                                {"--out-dtype", "i32", i},
                                {"--dtype", "f32", x}}) {
    auto all = arguments;
    all.insert(all.begin(), {"reduce", "sum"});
    CAPTURE(arguments);
    CHECK(bitfold_cli(all).status == 0);
  }
  CHECK(bitfold_cli({"reduce", "mean", "--out-dtype", "f32", i}).status == 0);  // adds in f64
}
