// `bitfold record` and `bitfold check`, as a user meets them; and the parser of golden files.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <thread>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include <bitfold/error.hpp>
#include <bitfold/reference.hpp>

#include "cli.hpp"
#include "io/digest.hpp"
#include "io/golden.hpp"

namespace {

using namespace bitfold;
using namespace cli;
using nlohmann::json;

// 16-bit words that are numbers as F16 and as BF16, and 32- and 64-bit ones when taken together.
std::string some_bytes(std::size_t size, std::uint32_t seed) {
  std::string out;
  out.reserve(size);
  while (out.size() < size) {
    seed = seed * 1664525u + 1013904223u;
    out += static_cast<char>(seed >> 24);
    out += static_cast<char>(0x30 + (seed >> 16 & 7));
  }
  out.resize(size);
  return out;
}

const std::vector<tensor> mixed{{"first", "F32", "[100,10]", some_bytes(4000, 1)},
                                {"b.f16", "F16", "[1000]", some_bytes(2000, 2)},
                                {"c.bf16", "BF16", "[2,500]", some_bytes(2000, 3)},
                                {"d.i64", "I64", "[125]", some_bytes(1000, 4)},
                                {"e.none", "F32", "[0,3]", ""},
                                {"f.i8", "I8", "[11,3]", some_bytes(33, 6)},
                                {"last", "F64", "[300]", some_bytes(2400, 5)}};

// Runs `record` and returns what it wrote.
std::string record(std::vector<std::string> arguments) {
  const bytes::directory dir;
  arguments.insert(arguments.begin(), {"record", "--out", dir.path("golden.json")});
  const auto r = bitfold_cli(arguments);
  CAPTURE(arguments, r.err);
  REQUIRE(r.status == 0);
  CHECK(r.out.empty());
  CHECK(r.err.empty());
  return content(dir.path("golden.json"));
}

// Runs `check`, which must exit with `status` and print these lines (their beginnings).
void check_check(const std::vector<std::string>& arguments, int status,
                 const std::vector<std::string>& expected) {
  auto all = arguments;
  all.insert(all.begin(), "check");
  const auto r = bitfold_cli(all);
  CAPTURE(arguments, r.out, r.err, expected);
  CHECK(r.status == status);
  if (status <= 1) CHECK(r.err.empty());
  const auto lines = lines_of(r.out);
  REQUIRE(lines.size() == expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].starts_with(expected[i]));
}

std::string error_of(const std::string& golden) {
  try {
    io::parse_golden(golden);
    return "";
  } catch (const error& e) {
    CHECK(e.code() == errc::bad_input);
    return e.what();
  }
}

// Of the array called c, which is an error.
std::string only_results_gone(const std::string& text) {
  const auto at = text.find("[{", text.find("\"name\": \"c\"") + 1), end = text.find("}]}", at);
  return text.substr(0, at) + "[" + text.substr(end + 1);
}

std::string x_of(const bytes::directory& dir) {
  return dir.write("x.npy", cli::npy_of({1}));  // axes_cli_test.cpp may come before, with its own
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("record: digests, bits and values of every array, the reference's") {
  const bytes::directory dir;
  const auto file = dir.write("m.safetensors", safetensors_of(mixed));
  const auto text = record(
      {"--ops", "all", "--method", "all", "--acc", "f64", dir.write("x.npy", npy_of({1, 2}))});
  CHECK(json::parse(text)["files"][0]["arrays"][0]["results"][0]["acc"] == "f64");
  CHECK(io::golden_text(io::parse_golden(text)) == text);

  const auto golden = json::parse(record({"--ops", "all", "--method", "all", file}));
  CHECK(golden["format"] == "bitfold-golden");
  CHECK(golden["version"] == 1);
  CHECK(golden["bitfold"] == BITFOLD_VERSION);
  CHECK(golden["order_version"] == order::version);
  REQUIRE(golden["files"].size() == 1);
  CHECK(golden["files"][0]["file"] == file);
  const auto& arrays = golden["files"][0]["arrays"];
  REQUIRE(arrays.size() == mixed.size());
  for (const auto& a : arrays) {
    const auto t = std::find_if(mixed.begin(), mixed.end(),
                                [&](const tensor& x) { return a["name"] == x.name; });
    REQUIRE(t != mixed.end());
    CAPTURE(t->name);
    io::digest digest;
    digest.add(t->bytes.data(), t->bytes.size());
    CHECK(a["digest"] == digest.hex());
    CHECK(a["shape"] == json::parse(t->shape));
    const auto in = *parse_dtype(a["dtype"].get<std::string>());
    std::size_t k = 0;
    for (const op_info& op : all_op_infos) {
      if (op.inputs != 1 || (t->bytes.empty() && op.empty == if_empty::refused)) continue;
      for (const auto method : methods_of(op.id)) {
        const auto r = make_reduction(op.id, method, in);
        const auto expected = reference(r, t->bytes.data(), t->bytes.size() / size_of(in));
        const bool adds =
            method != method_id::exact &&
            (op.types == typing::additive || op.types == typing::real || op.types == typing::wide);
        const auto& result = a["results"][k++];
        CHECK(result["op"] == op.name);
        CHECK(result["method"] == (method ? json(name(*method)) : json()));
        CHECK(result["acc"] == (adds ? json(name(r.acc())) : json()));
        CHECK(result["out"] == name(r.out()));
        CHECK(result["bits"] == to_hex(expected));
        CHECK_FALSE(result.contains("ddof"));
        const auto value = json::parse(to_string(expected), nullptr, false);  // nan is none
        CHECK(result["value"].dump() ==
              (value.is_discarded() ? json(to_string(expected)) : value).dump());
      }
    }
    CHECK(a["results"].size() == k);
  }
  // XXH3-128 of nothing, as xxHash's own tests have it.
  CHECK(arrays[4]["digest"] == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("record, check: operations that take no method, ddof, and arrays without elements") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1, 2, 4}));
  const auto text = record({"--ops", "var,max,sum", "--method", "kahan,tree", "--ddof", "1", file});
  const auto results = json::parse(text)["files"][0]["arrays"][0]["results"];
  REQUIRE(results.size() == 4);
  CHECK(results[0]["op"] == "sum");
  CHECK(results[0]["method"] == "tree");
  CHECK(results[1]["method"] == "kahan");
  CHECK(results[2]["op"] == "max");
  CHECK(results[2]["method"].is_null());
  CHECK(results[2]["acc"].is_null());
  CHECK(results[3]["op"] == "var");
  CHECK(results[3]["ddof"] == 1);
  CHECK(io::golden_text(io::parse_golden(text)) == text);
  const auto golden = dir.write("golden.json", text);
  check_check({golden}, 0, {"1 file, 1 array: 1 same"});
  dir.write("x.npy", npy_of({1, 2, 5}));
  check_check(
      {golden}, 1,
      {"moved", "    content ", "    sum tree        7 (40e00000) -> 8 (41000000)  ",
       "    sum kahan       ", "    max             4 (40800000) -> 5 (40a00000)  2097152 ulps",
       "    var             ", "1 file, 1 array: 1 moved"});

  const auto out = dir.path("out.json");
  for (const auto& [arguments, message] :
       {std::pair{std::vector<std::string>{"--ops", "max", "--method", "all"},
                  "--method tree,pairwise,kahan,sequential,exact: max takes none"},
        {{"--ops", "max,any", "--acc", "f64"}, "--acc f64: max, any take none"},
        {{"--ops", "max", "--ddof", "1"}, "--ddof 1: max takes none"},
        {{"--ops", "dot"}, "dot"}}) {
    auto all = arguments;
    all.insert(all.begin(), "record");
    all.insert(all.end(), {file, "--out", out});
    check_usage(all, {message});
  }
  const auto empty = dir.write("empty.npy", npy_of({}));
  check_usage({"record", "--ops", "sum,argmin", file, empty, "--out", out},
              {empty + ": shape: [0] has no elements, and argmin of none is not defined"});
  CHECK_FALSE(std::filesystem::exists(out));
  // The name of an operation too.
  const auto two =
      json::parse(record({"--ops", "all,any", file}))["files"][0]["arrays"][0]["results"];
  REQUIRE(two.size() == 2);
  CHECK(two[0]["op"] == "any");
  CHECK(two[1]["op"] == "all");
  const auto all = dir.write("all.json", record({"--ops", "all", file, empty}));
  const auto files = json::parse(content(all))["files"];
  CHECK(files[0]["arrays"][0]["results"].size() > files[1]["arrays"][0]["results"].size());
  check_check({all}, 0, {"2 files, 2 arrays: 2 same"});
}

TEST_CASE("record, check: by method exact, whatever the order") {
  const bytes::directory dir;
  std::vector<float> values{1e30f, 3, -1e30f, 0x1p-140f, 5};
  const auto file = dir.write("x.npy", npy_of(values));
  const auto text = record({"--ops", "sum,mean,var,std,max", "--method", "tree,exact", "--ddof",
                            "1", "--acc", "f64", file});
  const auto results = json::parse(text)["files"][0]["arrays"][0]["results"];
  std::string list;
  for (const auto& r : results)
    list += r["op"].get<std::string>() + " " + r["method"].dump() + " " + r["acc"].dump() + "\n";
  CHECK(list ==
        "sum \"tree\" \"f64\"\nsum \"exact\" null\nmean \"tree\" \"f64\"\nmean \"exact\" null\nmax "
        "null null\n"
        "var null \"f64\"\nvar \"exact\" null\nstd null \"f64\"\nstd \"exact\" null\n");
  CHECK(results[1]["bits"] == "41000000");  // 8
  CHECK(io::golden_text(io::parse_golden(text)) == text);
  const auto exact = dir.write("exact.json", record({"--ops", "all", "--method", "exact", file}));
  const auto plain = dir.write("tree.json", record({file}));
  check_check({exact}, 0, {"1 file, 1 array: 1 same"});
  std::swap(values[0], values[1]);
  std::swap(values[1], values[3]);
  dir.write("x.npy", npy_of(values));
  check_check({plain, "--ulps", "0"}, 1, {"moved", "    sum tree ", "1 file, 1 array: 1 moved"});
  const auto sums =
      dir.write("sums.json", record({"--ops", "sum,var,norm_l2", "--method", "exact", file}));
  std::reverse(values.begin(), values.end());
  dir.write("x.npy", npy_of(values));
  check_check({sums, "--ulps", "0"}, 0, {"1 file, 1 array: 1 same"});
  check_check({sums}, 1,
              {"moved", "    content ", "    sum exact       8 (41000000)  0 ulps",
               "    norm_l2 exact ", "    var exact ", "1 file, 1 array: 1 moved"});
  check_usage({"record", "--ops", "sum", "--method", "exact", "--acc", "f64", file, "--out",
               dir.path("out")},
              {"--acc f64: sum takes none by method exact"});

  struct row {
    std::string from, to, expected;
  };
  const auto good = content(sums);
  for (const row& r :
       {row{"\"acc\": null", "\"acc\": \"f32\"",
            "files[0].arrays[0].results[0].acc: is not null, but sum by exact has none"},
        row{"\"acc\": null, ", "", "files[0].arrays[0].results[0].acc: missing"},
        row{"\"op\": \"sum\"", "\"op\": \"prod\"",
            "files[0].arrays[0].results[0].method: is not null, but prod has none"},
        row{"\"method\": \"exact\"", "\"method\": \"tree\"",
            "files[0].arrays[0].results[0].acc: is no text"},
        row{"\"method\": \"exact\"", "\"method\": \"exactly\"",
            "files[0].arrays[0].results[0].method: 'exactly'"},
        row{"\"op\": \"var\", \"method\": \"exact\", \"acc\": null",
            "\"op\": \"var\", \"method\": \"tree\", \"acc\": \"f32\"",
            "files[0].arrays[0].results[2]: method: var takes none but exact"},
        row{"\"op\": \"var\", \"method\": \"exact\"", "\"op\": \"var\", \"method\": 1",
            "files[0].arrays[0].results[2].method: is no text"}}) {
    CAPTURE(r.from, r.to);
    const auto e = error_of(replaced(good, r.from, r.to));
    CAPTURE(e);
    CHECK(e.starts_with(r.expected));
  }
}

TEST_CASE("record, check, reduce: types without arithmetic have a digest, and bool is 0 or 1") {
  const bytes::directory dir;
  const std::string truths("\0\1\2\377", 4);
  std::vector<tensor> tensors{{"a", "F8_E4M3", "[3]", "abc"},
                              {"b", "BOOL", "[4]", truths},
                              {"c", "F32", "[1]", bytes::of<float>({2})},
                              {"d", "F4", "[2,1]", "x"},
                              {"e", "C64", "[0]", ""},
                              {"f", "F8_E8M0", "[1]", "\1"}};
  const auto file = dir.write("m.safetensors", safetensors_of(tensors));
  const auto text = record({"--ops", "all", "--method", "tree,exact", file});
  CHECK(io::golden_text(io::parse_golden(text)) == text);
  const auto arrays = json::parse(text)["files"][0]["arrays"];
  REQUIRE(arrays.size() == tensors.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto a = arrays[i];
    const auto name = a["name"].get<std::string>();
    const auto& t =
        *std::find_if(tensors.begin(), tensors.end(), [&](auto& x) { return x.name == name; });
    io::digest digest;
    digest.add(t.bytes.data(), t.bytes.size());
    CHECK(a["digest"] == digest.hex());  // of the bytes as they are
    CHECK(a["results"].empty() == (t.name != "b" && t.name != "c"));
  }
  CHECK(arrays[0]["dtype"] == "f8_e4m3");
  CHECK(arrays[1]["dtype"] == "bool");
  // As in Python: of 0 and 1, sums and products signed.
  const std::string ones("\0\1\1\1", 4);
  std::size_t k = 0;
  for (const op_info& op : all_op_infos)
    for (const auto method : {op.takes_method ? std::optional(method_id::tree) : std::nullopt,
                              std::optional(method_id::exact)}) {
      if (op.inputs != 1 || (method == method_id::exact && !op.has_exact)) continue;
      const auto r =
          make_reduction(op.id, method, dtype::u8, {},
                         op.types == typing::additive ? std::optional(dtype::i64) : std::nullopt);
      const auto& result = arrays[1]["results"][k++];
      CAPTURE(op.name);
      CHECK(result["op"] == op.name);
      CHECK(result["out"] == name(r.out()));
      CHECK(result["bits"] == to_hex(reference(r, ones.data(), ones.size())));
    }
  CHECK(arrays[1]["results"].size() == k);

  const auto golden = dir.write("golden.json", text);
  const auto only =
      dir.write("only.json", record({"--ops", "max", file}));  // e has no elements, nor arithmetic
  for (const auto& g : {golden, only}) {
    check_check({g}, 0, {"1 file, 6 arrays: 6 same"});
    check_check({g, "--ulps", "0"}, 0, {"1 file, 6 arrays: 6 same"});
  }
  tensors[0].bytes[1] ^= 1;
  tensors[1].bytes[2] ^= 1;
  dir.write("m.safetensors", safetensors_of(tensors));
  check_check({only}, 1,
              {"moved   " + file + ":a", "    content ", "moved   " + file + ":b", "    content ",
               "    max             1 (01)  0 ulps", "1 file, 6 arrays: 4 same, 2 moved"});
  // Where no result tells how far it moved, it may not.
  check_check({only, "--ulps", "9"}, 1,
              {"moved   " + file + ":a", "    content ", "1 file, 6 arrays: 5 same, 1 moved"});

  const auto r = bitfold_cli({"reduce", "sum", file});
  CHECK(r.status == 3);
  CHECK(r.out ==
        file + ":b  [4]  bool  3  0000000000000003\n" + file + ":c  [1]  f32  2  40000000\n");
  CHECK(r.err ==
        "bitfold: " + file +
            ": 4 of 6 arrays have no result, for want of arithmetic: 'a' is f8_e4m3, ...\n");
  check_usage({"reduce", "sum", "--tensor", "a", file},
              {file, "tensor 'a': dtype: f8_e4m3 has no arithmetic"});
  const auto axes = bitfold_cli({"reduce", "max", "--axis", "0", "--out", dir.path("out"), file});
  CHECK(axes.status == 3);
  CHECK(files_in(dir.path("out")) == std::set<std::string>{"m.b.max.npy", "m.c.max.npy"});
  check_usage({"reduce", "sum", "--method", "exact", "--total", file}, {"dtype: "});
  const auto bools = dir.write("b.npy", bytes::npy("|b1", "(4,)", truths));
  for (const auto& how : {std::vector<std::string>{}, {"--stream"}, {"--total"}}) {
    auto all = how;
    all.insert(all.begin(), {"reduce", "sum,mean", "--method", "exact", bools});
    const auto got = bitfold_cli(all);
    CHECK(contains(got.out, "sum  3  0000000000000003\n"));
    CHECK(contains(got.out, "mean  0.75  "));
  }
  CHECK(contains(bitfold_cli({"reduce", "dot", bools, bools}).out, "  3  0000000000000003"));
  const auto keys = dir.write("k.npy", bytes::npy("|i1", "(4,)", std::string(4, '\0')));
  for (const auto& how : {std::pair{"--axis", std::string("0")}, {"--keys", keys}})
    CHECK(contains(bitfold_cli({"reduce", "sum", "--json", how.first, how.second, bools}).out,
                   "\"first\":[3]"));
  check_usage({"reduce", "sum", "--keys", bools, bools},
              {"--keys", "dtype: bool, and integers are needed"});

  // Where the type is not told, --dtype says it, and then the golden file does.
  const auto bf16 =
      dir.write("h.npy", bytes::npy("<V2", "(2,)", std::string("\x80\x3f\x80\x3f", 4)));
  check_usage({"record", x_of(dir), bf16, "--dtype", "bf16", "--out", dir.path("no")},
              {"dtype: f32, not the bf16"});
  const auto of_bf16 = dir.write("h.json", record({bf16, "--dtype", "bf16"}));
  check_check({of_bf16}, 0, {"1 file, 1 array: 1 same"});
  CHECK(bitfold_cli({"reduce", "sum", bf16, "--dtype", "bf16"}).out ==
        bf16 + "  [2]  bf16  2  4000\n");
  const auto bits =
      dir.write("c.json", record({"--dtype", "c128", dir.write("c", std::string(32, 'x'))}));
  check_check({bits}, 0, {"1 file, 1 array: 1 same"});

  // Golden files that are none.
  const auto e = error_of(replaced(text, "\"dtype\": \"bool\"", "\"dtype\": \"c64\""));
  CHECK(e == "files[0].arrays[1].results: is not empty, but c64 has no arithmetic");
  CHECK(error_of(replaced(only_results_gone(text), "\"name\": \"c\"", "\"name\": \"c2\"")) ==
        "files[0].arrays[2].results: is empty");
}

TEST_CASE("record, check: the same tensors in other shards") {
  const bytes::directory dir;
  const auto shard = [&](const std::string& name, std::size_t from, std::size_t to) {
    std::vector<tensor> some(mixed.begin() + static_cast<std::ptrdiff_t>(from),
                             mixed.begin() + static_cast<std::ptrdiff_t>(to));
    return dir.write(name, safetensors_of(some));
  };
  const auto index =
      [&](const std::string& name,
          const std::vector<std::pair<std::string, std::pair<std::size_t, std::size_t>>>& shards) {
        json map;
        for (const auto& [file, range] : shards) {
          shard(file, range.first, range.second);
          for (auto i = range.first; i < range.second; ++i) map[mixed[i].name] = file;
        }
        return dir.write(name, json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
      };
  std::filesystem::create_directory(dir.path("new"));
  const auto one = dir.write("m.safetensors", safetensors_of(mixed));
  const auto two = index("two.safetensors.index.json",
                         {{"m-1-of-2.safetensors", {0, 3}}, {"m-2-of-2.safetensors", {3, 7}}});
  const auto three = index("three.safetensors.index.json", {{"m-1-of-3.safetensors", {0, 1}},
                                                            {"m-2-of-3.safetensors", {1, 5}},
                                                            {"m-3-of-3.safetensors", {5, 7}}});
  const auto m = [&](const std::string& part) { return dir.path("m-" + part + ".safetensors"); };
  const auto of_two = dir.write("two.json", record({two})),
             of_one = dir.write("one.json", record({one})),
             of_files = dir.write("files.json", record({m("1-of-2"), m("2-of-2")}));
  CHECK(json::parse(content(of_two))["files"][0]["format"] == "safetensors-index");
  CHECK(replaced(content(of_two), two, three) == record({three}));  // in one order
  for (const auto& golden : {of_two, of_one})
    for (const auto& file : {one, two, three})
      check_check({golden, file}, 0, {"1 file, 7 arrays: 7 same"});
  check_check({of_files, m("1-of-3"), m("2-of-3"), m("3-of-3")}, 0, {"5 files, 7 arrays: 7 same"});
  check_check({of_files, three}, 0, {"3 files, 7 arrays: 7 same"});
  check_check({of_two, m("1-of-3"), m("2-of-3"), m("3-of-3")}, 0, {"4 files, 7 arrays: 7 same"});
  // A shard is read too.
  for (const std::string& file : {two, dir.write("index", content(two))})
    check_usage({"record", file, "--out", m("1-of-2")}, {m("1-of-2"), "--out"});
  check_usage({"check", of_two, two, "--junit", m("2-of-2")}, {m("2-of-2"), "--junit"});
  CHECK(content(m("2-of-2")) == safetensors_of({mixed.begin() + 3, mixed.end()}));
  // From one of the recorded files to the other.
  const auto first = content(m("1-of-2")), second = content(m("2-of-2"));
  shard("m-1-of-2.safetensors", 0, 2);
  shard("m-2-of-2.safetensors", 2, 7);
  check_check({of_files}, 0, {"2 files, 7 arrays: 7 same"});
  dir.write("m-1-of-2.safetensors", first);
  dir.write("m-2-of-2.safetensors", second);

  // What differs is told of where it was; what is nowhere, or twice, is not found.
  auto bytes = content(m("2-of-3"));
  bytes[bytes.size() - 1] ^= 1;  // of e or, since that is empty, of d
  dir.write("m-2-of-3.safetensors", bytes);
  check_check({of_files, m("1-of-3"), m("2-of-3"), m("3-of-3")}, 1,
              {"moved   " + m("2-of-2") + ":d.i64", "    content ", "    sum tree",
               "    now in          " + m("2-of-3"), "5 files, 7 arrays: 6 same, 1 moved"});
  check_check(
      {of_files, m("2-of-3"), m("3-of-3")}, 1,
      {"missing " + m("1-of-2") + ":first", "moved   " + m("2-of-2") + ":d.i64", "    content ",
       "    sum tree", "    now in          ", "4 files, 7 arrays: 5 same, 1 moved, 1 missing"});
  check_check({of_files, m("1-of-2"),
               dir.write("other.safetensors", safetensors_of({{"new", "F32", "[0]", ""}}))},
              1,
              {"missing " + m("2-of-2"), "new     " + dir.path("other.safetensors"),
               "3 files, 3 arrays: 3 same, 1 file missing, 1 file new"});
  shard("m-2-of-3.safetensors", 1, 5);
  check_check({of_files, m("1-of-3"), m("2-of-3"), m("3-of-3"),
               dir.write("copy.safetensors", content(m("1-of-3")))},
              1,
              {"missing " + m("1-of-2") + ":first", "new     " + m("1-of-3"),
               "new     " + dir.path("copy.safetensors"),
               "6 files, 7 arrays: 6 same, 1 missing, 2 files new"});
  // A shard that cannot be read is no difference.
  dir.write("m-2-of-3.safetensors", "");
  const auto broken = bitfold_cli({"check", of_files, m("1-of-3"), m("2-of-3"), m("3-of-3")});
  CHECK(broken.status == 3);
  CHECK(broken.err.starts_with("bitfold: " + m("2-of-3") + ": header length: "));
  CHECK(bitfold_cli({"check", of_two, three}).status == 3);
}

TEST_CASE("check: what could not be looked at is no difference, and no new file") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1})), y = dir.write("y.npy", npy_of({2}));
  const auto golden = dir.write("golden.json", record({x, y}));
  const auto gone = dir.path("gone.npy");
  const auto r = bitfold_cli({"check", golden, x, y, gone});
  CHECK(r.status == 3);
  CHECK(r.err == "bitfold: " + gone + ": file: No such file or directory\n");
  CHECK(r.out == "3 files, 2 arrays: 2 same, 1 file not read\n");
  const auto pairs = dir.write("pairs.json", record({"--ops", "dot", x, y, y, x}));
  CHECK(bitfold_cli({"check", pairs, x, y, y, x, x, gone}).status == 3);
  if (bitfold::test::sanitized) return;  // which needs more memory than there is

  // A copy of an array in Fortran's order takes as much again.
  constexpr std::uintmax_t size = std::uintmax_t{1} << 30;
  std::ofstream(dir.path("f.npy"))
      << bytes::npy("<f4", "(2, " + std::to_string(size / 8) + ")", "", true);
  const auto head = std::filesystem::file_size(dir.path("f.npy"));
  std::filesystem::resize_file(dir.path("f.npy"), head + size);
  const auto large = dir.write(
      "large.json", replaced(replaced(record({x, y}), x, dir.path("f.npy")), "\"shape\": [1]",
                             "\"shape\": [2," + std::to_string(size / 8) + "]"));
  const auto full =
      bitfold_cli({"check", "--threads", "1", large}, {.address_space = size * 7 / 4});
  CHECK(full.status == 3);
  CHECK(full.err == "bitfold: " + dir.path("f.npy") + ": out of memory\n");
  CHECK(full.out == "2 files, 1 array: 1 same, 1 file not read\n");
}

TEST_CASE("check, reduce --out: many files take no more than so many times one") {
  const bytes::directory dir;
  constexpr int count = 2000;
  std::vector<std::string> files;
  for (const std::string folder : {"a", "b", "out"})
    std::filesystem::create_directory(dir.path(folder));
  for (int i = 0; i < count; ++i)
    files.push_back(dir.write("a/" + std::to_string(i) + ".npy", npy_of({float(i)})));
  // By the end of the path.
  auto arguments = files;
  arguments.insert(arguments.begin(), {"check", dir.write("golden.json", record(files))});
  std::filesystem::rename(dir.path("a"), dir.path("c"));
  for (std::size_t i = 2; i < arguments.size(); ++i)
    arguments[i] = dir.path("c/" + std::to_string(i - 2) + ".npy");
  constexpr double most = bitfold::test::sanitized ? 40 : 8;  // 20 where each looks at all
  CHECK(seconds_of(arguments) < most);
  arguments.erase(arguments.begin(), arguments.begin() + 2);
  arguments.insert(arguments.begin(), {"reduce", "sum", "--axis", "0", "--out", dir.path("out")});
  CHECK(seconds_of(arguments) < most);
  CHECK(files_in(dir.path("out")).size() == count);
}

TEST_CASE("check: a golden file takes little more memory than its text and what it says") {
  if (bitfold::test::sanitized) return;  // whose memory is not given back
  const bytes::directory dir;
  auto text = record({dir.write("x.npy", npy_of({1}))});
  const auto begin = text.find("  {\"name\""), end = text.find("\n]}");
  std::string arrays;
  for (int i = 0; i < 60'000; ++i)
    arrays += (i ? ",\n" : "") + replaced(text.substr(begin, end - begin), "\"\"",
                                          "\"layer." + std::to_string(i) + "\"");
  text = replaced(text.replace(begin, end - begin, arrays), "\"npy\"", "\"safetensors\"");
  const auto path = dir.write("golden.json", text);
  // In a process of its own, whose memory was never larger.
  const pid_t child = ::fork();
  if (child == 0) {
    const auto kib = [](const char* field) {
      const auto status = content("/proc/self/status");
      return std::stoull(status.substr(status.find(field) + std::strlen(field)));
    };
    std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
    const auto before = kib("VmRSS:");
    const auto golden = io::read_golden(path);
    const bool little = (kib("VmHWM:") - before) * 1024 < 4 * text.size();
    ::_exit(golden.files[0].arrays.size() == 60'000 && little ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("record: lists of operations and methods") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1})), out = dir.path("out.json");
  const auto refused = [&](const std::vector<std::string>& options, const std::string& expected) {
    auto all = options;
    all.insert(all.begin(), {"record", x, "--out", out});
    check_usage(all, {expected});
    CHECK_FALSE(std::filesystem::exists(out));
  };
  refused({"--ops", "all,all"}, "--ops: all is given twice");
  refused({"--ops", "all", "--ops", "all"}, "--ops: all is given twice");
  refused({"--ops", "sum,max,sum"}, "--ops: sum is given twice");
  for (const std::string list : {"sum,,max", ",sum", "sum,", "", ","})
    refused({"--ops", list}, "--ops: '' is not one of sum, ");
  for (const std::string list : {"tree,,kahan", ",", ""})
    refused({"--method", list}, "--method: '' is not one of tree, ");
  refused({"--ops", "[sum]"}, "--ops: '[sum]' is not one of");
}

TEST_CASE("record: what check would refuse is not written") {
  io::golden g{BITFOLD_VERSION, {{{{"x.npy", io::file_format::npy}}, {}}}};
  const auto refused = [&](const std::string& expected) {
    try {
      io::golden_text(g);
      FAIL_CHECK("written");
    } catch (const error& e) {
      CHECK(std::string(e.what()).starts_with(expected));
    }
  };
  refused("files[0].format: 'npy', but there are 0 arrays");
  g.files[0].arrays.push_back({"", dtype::f32, {1}, {std::string(32, '0')}, {}});
  refused("files[0].arrays[0].results: is empty");
  g.files[0].arrays[0].type = *io::element_type::parse("c64");
  CHECK_NOTHROW(io::golden_text(g));
  g.files.push_back(g.files[0]);
  refused("files[1].file: 'x.npy' stands there twice");
  g.files.pop_back();
  g.files[0].arrays[0].name = "\xff";
  refused("tensor '\\xff': its name is not UTF-8");
  g.files.clear();
  refused("files: is empty");
}

TEST_CASE("record, check: operations of two inputs, of files in pairs") {
  const bytes::directory dir;
  // As `mixed`, in another order and with other elements.
  std::vector<tensor> others(mixed.rbegin(), mixed.rend());
  for (tensor& t : others) t.bytes = some_bytes(t.bytes.size(), 77);
  const auto a = dir.write("a.safetensors", safetensors_of(mixed)),
             b = dir.write("b.safetensors", safetensors_of(others));
  const auto x = dir.write("x.npy", npy_of({1, 2, 3})),
             y = dir.write("y.bin", bytes::of(std::vector<float>{4, 5, 6}));

  // Every one of them has the reference's bits, and both inputs a digest.
  const std::string ops = list_of(ops_of(2));
  const auto text = record({"--ops", ops, "--method", "tree,pairwise,kahan,sequential", a, b});
  CHECK(io::golden_text(io::parse_golden(text)) == text);
  const auto golden = json::parse(text);
  REQUIRE(golden["files"].size() == 1);
  CHECK(golden["files"][0]["file"] == a);
  CHECK(golden["files"][0]["file2"] == b);
  CHECK(golden["files"][0]["format2"] == "safetensors");
  const auto& arrays = golden["files"][0]["arrays"];
  REQUIRE(arrays.size() == mixed.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto named = [&](const tensor& t) {
      return t.name == arrays[i]["name"].get<std::string>();
    };
    const tensor& first = *std::find_if(mixed.begin(), mixed.end(), named);
    const tensor& second = *std::find_if(others.begin(), others.end(), named);
    CAPTURE(first.name);
    for (const auto& [field, of] : {std::pair{"digest", &first}, {"digest2", &second}}) {
      io::digest digest;
      digest.add(of->bytes.data(), of->bytes.size());
      CHECK(arrays[i][field] == digest.hex());
    }
    const auto in = *parse_dtype(arrays[i]["dtype"].get<std::string>());
    std::size_t k = 0;
    for (const op_id op : ops_of(2)) {
      for (const auto method : methods_of(op)) {
        if (method == method_id::exact) continue;  // which not all have
        const auto expected = reference(make_reduction(op, method, in), first.bytes.data(),
                                        second.bytes.data(), first.bytes.size() / size_of(in));
        const auto& result = arrays[i]["results"][k++];
        CHECK(result["op"] == name(op));
        CHECK(result["bits"] == to_hex(expected));
      }
    }
    CHECK(arrays[i]["results"].size() == k);
  }
  CHECK(record({"--ops", ops, "--method", "tree,pairwise,kahan,sequential", "--threads", "3", a,
                b}) == text);

  const auto exact = json::parse(
      record({"--ops", "dot", "--method", "exact", x, x}))["files"][0]["arrays"][0]["results"];
  CHECK(exact[0]["method"] == "exact");
  CHECK(exact[0]["value"] == 14.0);

  // The same; moved in either of the two; in the digest alone.
  const auto pair = dir.write("pair.json", text);
  check_check({pair}, 0, {"1 pair of files, 7 arrays: 7 same"});
  check_check({pair, a, b}, 0, {"1 pair of files, 7 arrays: 7 same"});
  check_check({pair, "--ulps", "0"}, 0, {"1 pair of files, 7 arrays: 7 same"});
  const auto dots =
      dir.write("dots.json", record({"--ops", "dot,mse", "--dtype", "f32", x, y, x, x}));
  check_check({dots}, 0, {"2 pairs of files, 2 arrays: 2 same"});
  dir.write("y.bin", bytes::of(std::vector<float>{4, 5, 7}));
  check_check({dots}, 1,
              {"moved   " + x + " and " + y, "    content         ", "    content2        ",
               "    dot tree        32 (42000000) -> 35 (420c0000)",
               "    mse tree        9 (41100000) -> 11.333",
               "2 pairs of files, 2 arrays: 1 same, 1 moved"});
  const auto r = bitfold_cli({"check", dots});
  CHECK_FALSE(contains(lines_of(r.out)[1], "->"));  // x is the same
  CHECK(contains(lines_of(r.out)[2], "->"));
  check_check({dots, "--ulps", "786432", x, y, x, x}, 1,
              {"moved", "    dot", "    mse", "2 pairs"});
  check_check({dots, "--ulps", "10000000", x, y, x, x}, 0,
              {"2 pairs of files, 2 arrays: 1 same, 1 within 10000000 ulps"});
  dir.write("y.bin", bytes::of(std::vector<float>{4, 5, 6}));

  // Which pair is which: by both paths. The inputs do not change places.
  check_check({dots, x, x, x, y}, 0, {"2 pairs of files, 2 arrays: 2 same"});
  check_check(
      {dots, x, x}, 1,
      {"missing " + x + " and " + y, "2 pairs of files, 1 array: 1 same, 1 pair of files missing"});
  check_check(
      {dots, x, y, x, x, y, x}, 1,
      {"new     " + y + " and " + x, "3 pairs of files, 2 arrays: 2 same, 1 pair of files new"});
  check_usage({"check", dots, x, y, x}, {"FILE", "pairs", "3"});
  check_usage({"check", dots, x, y, x, y}, {"second"});

  // Several with one in common: the other decides.
  for (const auto part : {"1", "2", "c", "c/1", "c/2"})
    std::filesystem::create_directory(dir.path(part));
  const auto common = dir.write("ref.npy", npy_of({1})),
             there = dir.write("c/ref.npy", npy_of({1}));
  const auto one1 = dir.write("1/a.npy", npy_of({2})), one2 = dir.write("2/a.npy", npy_of({3}));
  dir.write("c/1/a.npy", npy_of({2}));
  dir.write("c/2/a.npy", npy_of({3}));
  for (const bool last : {false, true}) {
    const auto pairs = [&](const std::string& a, const std::string& b, const std::string& r) {
      return last ? std::vector{a, r, b, r} : std::vector{r, a, r, b};
    };
    auto recorded = pairs(one1, one2, common);
    recorded.insert(recorded.begin(), {"--ops", "mse"});
    auto given = pairs(dir.path("c/2/a.npy"), dir.path("c/1/a.npy"), there);
    given.insert(given.begin(), dir.write("common.json", record(recorded)));
    check_check(given, 0, {"2 pairs of files, 2 arrays: 2 same"});
  }

  // A tensor that is gone, or new, in one of the two, and one of another shape.
  const auto names = [&](const char* file, std::vector<tensor> tensors) {
    return dir.write(file, safetensors_of(tensors));
  };
  const tensor p{"p", "F32", "[2]", some_bytes(8, 1)}, q{"q", "F32", "[2]", some_bytes(8, 2)},
      s{"s", "F32", "[2]", some_bytes(8, 3)};
  const auto l = names("l.safetensors", {p, q}), m = names("m.safetensors", {p, q});
  const auto lm = dir.write("lm.json", record({"--ops", "dot", l, m}));
  names("m.safetensors", {p, s});
  check_check({lm}, 1,
              {"missing " + l + ":q and " + m + ":q", "    not in          " + m,
               "new     " + l + ":s and " + m + ":s", "    only in         " + m,
               "1 pair of files, 3 arrays: 1 same, 1 missing, 1 new"});
  names("m.safetensors", {p, {"q", "F32", "[1,2]", q.bytes}});
  check_check({lm}, 1, {"changed ", "    shape2          [2] -> [1,2]", "1 pair of files"});

  // JUnit, and a file that cannot be read.
  const auto junit = dir.path("junit.xml");
  CHECK(bitfold_cli({"check", lm, "--junit", junit}).status == 1);
  CHECK(contains(content(junit), "classname=\"" + l + " and " + m + "\" name=\"p\"/>"));
  check_usage({"check", lm, "--junit", m}, {m, "--junit"});
  std::filesystem::remove(m);
  const auto gone = bitfold_cli({"check", lm});
  CHECK(gone.status == 3);
  CHECK(gone.err.starts_with("bitfold: " + m + ": "));
  CHECK(gone.out == "1 pair of files, 0 arrays: 1 pair of files not read\n");

  // What is no pair, in words that name it, and no file.
  const auto out = dir.path("none.json");
  const auto refused = [&](std::vector<std::string> arguments, std::vector<std::string> words) {
    arguments.insert(arguments.begin(), {"record", "--dtype", "f32", "--out", out});
    check_usage(arguments, words);
    CHECK_FALSE(std::filesystem::exists(out));
  };
  refused({"--ops", "dot", x}, {"FILE", "dot takes files in pairs, not 1"});
  refused({"--ops", "sum,dot", x, y}, {"--ops", "sum takes 1 input, but dot takes 2"});
  refused({"--ops", "dot,all", x, y}, {"--ops", "all takes 1 input, but dot takes 2"});
  refused({"--ops", "dot", x, y, x, y}, {x + " and " + y, "given twice"});
  refused({"--ops", "dot", x, dir.write("w.npy", npy_of({1, 2}))}, {x, "shape: [3] and [2]"});
  refused({"--ops", "dot", l, x}, {"no tensor 'p'"});

  // `all` is all that each of them takes.
  const auto cosine = json::parse(
      record({"--ops", "mse,cosine", "--method", "all", x, x}))["files"][0]["arrays"][0]["results"];
  CHECK(cosine.size() == methods_of(op_id::mse).size() + methods_of(op_id::cosine).size());

  // Golden files of pairs that are none.
  const struct {
    const char *from, *to, *expected;
  } rows[] = {
      {"\"file2\"", "\"fileZ\"", "files[0].arrays[0].results[0].op: dot takes two inputs"},
      {"\"format2\"", "\"formatZ\"", "files[0].format2: missing"},
      {"\"format2\": \"npy\"", "\"format2\": \"zip\"", "files[0].format2: 'zip' is not known"},
      {"\"digest2\"", "\"digestZ\"", "files[0].arrays[0].digest2: missing"},
      {"\"op\": \"dot\"", "\"op\": \"sum\"",
       "files[0].arrays[0].results[0].op: sum takes one input"},
  };
  const auto two = record({"--ops", "dot", x, x});
  for (const auto& row : rows) {
    CAPTURE(row.from, row.to);
    const auto e = error_of(replaced(two, row.from, row.to));
    CAPTURE(e);
    CHECK(e.starts_with(row.expected));
  }
  const auto with_entry = [](const std::string& golden, const std::string& of) {
    const auto begin = of.find("{\"file\"");
    const auto entry = of.substr(begin, of.rfind("\n]\n}") - begin);
    return replaced(golden, "\"files\": [", "\"files\": [" + entry + ",");
  };
  const auto one = record({x});
  CHECK(error_of(with_entry(two, one)) == "files[1].file2: files[0] has none");
  CHECK(error_of(with_entry(one, two)) == "files[1].file2: missing");
  CHECK(error_of(with_entry(two, two)) ==
        "files[1].file: '" + x + "' and '" + x + "' stand there twice");
  for (const std::string path : {"", "a\\u0000"})
    for (const std::string field : {"file", "file2"}) {
      const auto name = "\"" + field + "\": \"";
      CHECK(error_of(replaced(two, name + x, name + path)) ==
            "files[0]." + field + ": is no file's name");
    }
}

TEST_CASE("check --ulps: integer results") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({9, 1, 5, 8}));
  const auto places = dir.write("places.json", record({"--ops", "argmax,count_nonzero", file}));
  const auto truth = dir.write("truth.json", record({"--ops", "any,all", file}));
  dir.write("x.npy", npy_of({0, 1, 5, 8}));
  check_check({places, "--ulps", "3"}, 0, {"1 file, 1 array: 1 within 3 ulps"});
  check_check({places, "--ulps", "2"}, 1,
              {"moved", "    argmax          0 (0000000000000000) -> 3 (0000000000000003)  3 ulps",
               "    count_nonzero   4 (0000000000000004) -> 3 (0000000000000003)  1 ulp",
               "1 file, 1 array: 1 moved"});
  // One step would be all there is.
  check_check({truth, "--ulps", "1000"}, 1,
              {"moved", "    any             1 (01)  0 ulps",
               "    all             1 (01) -> 0 (00)  no distance", "1 file, 1 array: 1 moved"});
}

TEST_CASE("check: labels of any length") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1}));
  const auto golden =
      dir.write("golden.json", record({"--ops", "sum_squares", "--method", "sequential", file}));
  dir.write("x.npy", npy_of({2}));
  check_check({golden, "--ulps", "0"}, 1,
              {"moved", "    sum_squares sequential 1 (3f800000) -> 4 (40800000)  16777216 ulps",
               "1 file"});
}

TEST_CASE("record: one array per line, and the same text from any number of threads") {
  const bytes::directory dir;
  const auto file = dir.write("m.safetensors", safetensors_of(mixed));
  const auto text = record({file});
  CHECK(record({"--threads", "1", file}) == text);
  CHECK(record({"--threads", "7", file}) == text);
  CHECK(record({"--threads", "1000000000", file}) == text);
  std::size_t lines = 0;
  for (const auto& line : lines_of(text)) lines += line.starts_with("  {\"name\": ");
  CHECK(lines == mixed.size());
  CHECK(io::golden_text(io::parse_golden(text)) == text);
  // The choice of methods is a set, in the registry's order.
  CHECK(record({"--method", "kahan,tree", file}) ==
        record({"--method", "tree", "--method", "kahan", "--method", "tree", file}));
}

TEST_CASE("record: values that JSON has no numbers for, names that need escapes") {
  const bytes::directory dir;
  const float inf = std::numeric_limits<float>::infinity();
  const auto text =
      record({dir.write("a\n\"\xc3\xa4.npy", npy_of({NAN})), dir.write("inf.npy", npy_of({-inf}))});
  const auto files = json::parse(text)["files"];
  CHECK(files[0]["file"] == dir.path("a\n\"\xc3\xa4.npy"));
  CHECK(files[0]["arrays"][0]["results"][0]["value"] == "nan");
  CHECK(files[1]["arrays"][0]["results"][0]["value"] == "-inf");
  check_check({dir.write("g.json", text)}, 0, {"2 files, 2 arrays: 2 same"});
}

TEST_CASE("record: where it fails there is no file, and an old one stays") {
  const bytes::directory dir;
  const auto good = dir.write("good.npy", npy_of({1}));
  const auto bad = dir.write("bad.npy", npy_of({1}) + "x");
  const auto integers = dir.write("i.npy", bytes::npy("<i4", "(1,)", "1234"));
  const auto out = dir.path("out.json");
  const auto entries = [&] {
    return std::distance(
        std::filesystem::directory_iterator(std::filesystem::path(out).parent_path()), {});
  };
  const auto before = entries();
  const auto r = bitfold_cli({"record", good, bad, "--out", out});
  CHECK(r.status == 3);
  CHECK(r.err.starts_with("bitfold: " + bad + ": shape: "));
  CHECK(lines_of(r.err).size() == 1);
  check_usage({"record", "--acc", "f32", good, integers, "--out", out}, {integers, "acc"});
  check_usage({"record", good, "--out", out, good}, {good, "twice"});
  check_usage({"record", good, bad, "--out", bad}, {bad, "--out"});
  check_usage({"record", good}, {"--out"});
  check_usage({"record", "--out", out}, {"FILE"});
  check_usage({"record", "--method", "tree,magic", good, "--out", out}, {"magic", "kahan", "all"});
  check_usage({"record", "--ops", "product", good, "--out", out}, {"product", "sum"});
  check_usage({"record", "--ops", "sum,cosine", good, "--out", out}, {"cosine", "sum"});
  check_usage({"record", dir.write("raw", "1234"), "--out", out}, {"dtype"});
  check_usage({"record", dir.write("\xff.npy", npy_of({1})), "--out", out}, {"\\xff.npy", "UTF-8"});
  CHECK(entries() == before + 2);  // raw and \xff.npy

  const auto nowhere = bitfold_cli({"record", good, "--out", dir.path("none/out.json")});
  CHECK(nowhere.status == 1);
  CHECK(contains(nowhere.err, "none/out.json: cannot be written: No such file"));
  CHECK(bitfold_cli({"record", good, "--out", "/dev/full"}).status == 1);
  CHECK(std::filesystem::is_character_file("/dev/full"));

  dir.write("out.json", "old");
  CHECK(bitfold_cli({"record", bad, "--out", out}).status == 3);
  CHECK(content(out) == "old");
  // A link stays a link.
  std::filesystem::create_symlink("out.json", dir.path("link.json"));
  CHECK(bitfold_cli({"record", good, "--out", dir.path("link.json")}).status == 0);
  CHECK(std::filesystem::is_symlink(dir.path("link.json")));
  CHECK(content(out) == record({good}));
  CHECK(entries() == before + 4);
}

TEST_CASE("check: any one flipped bit is found, and its tensor named") {
  const bytes::directory dir;
  const auto content = safetensors_of(mixed);
  const auto golden =
      dir.write("golden.json", record({dir.write("m.safetensors", content), "--method", "all"}));
  const auto file = dir.path("m.safetensors");
  check_check({golden, file}, 0, {"1 file, 7 arrays: 7 same"});

  std::size_t at = content.size() - 4000 - 2000 - 2000 - 1000 - 33 - 2400;
  for (const tensor& t : mixed) {
    if (t.bytes.empty()) continue;
    const std::size_t last = t.bytes.size() - 1, middle = t.bytes.size() / 2;
    for (const auto& [byte, bit] : {std::pair{std::size_t{0}, 0}, std::pair{middle, 0},
                                    std::pair{middle, 3}, std::pair{last, 0}, std::pair{last, 7}}) {
      auto flipped = content;
      flipped[at + byte] = static_cast<char>(flipped[at + byte] ^ 1 << bit);
      dir.write("m.safetensors", flipped);
      const std::vector<std::string> expected{"moved   " + file + ":" + t.name,
                                              "    content ",
                                              "    sum tree ",
                                              "    sum pairwise ",
                                              "    sum kahan ",
                                              "    sum sequential ",
                                              "    sum exact ",
                                              "1 file, 7 arrays: 6 same, 1 moved"};
      check_check({golden, file}, 1, expected);
      check_check({golden, "--bits", "--threads", "1", file}, 1, expected);
    }
    at += t.bytes.size();
  }
}

TEST_CASE("check: one low bit in 64 MiB") {
  const bytes::directory dir;
  std::vector<tensor> tensors;
  for (int i = 0; i < 60; ++i)
    tensors.push_back({"layer." + std::to_string(i), "F32", "[256,1024]", some_bytes(1 << 20, i)});
  tensors.push_back({"large", "F32", "[40,256,1024]", some_bytes(40 << 20, 99)});
  auto content = safetensors_of(tensors);
  const auto file = dir.write("m.safetensors", content);
  const auto text = record({file});
  const auto golden = dir.write("golden.json", text);
  check_check({golden}, 0, {"1 file, 61 arrays: 61 same"});
  io::digest digest;
  digest.add(tensors.back().bytes.data(), tensors.back().bytes.size());
  CHECK(io::parse_golden(text).files[0].arrays.back().digests == std::vector{digest.hex()});
  const std::size_t header = content.size() - (100u << 20);
  for (const auto& [at, name] : {std::pair{header + (17u << 20) + 12345 * 4, "layer.17"},
                                 std::pair{content.size() - (20u << 20), "large"}}) {
    content[at] = static_cast<char>(content[at] ^ 1);
    dir.write("m.safetensors", content);
    check_check({golden}, 1,
                {"moved   " + file + ":" + name, "    content ", "    sum tree ",
                 "1 file, 61 arrays: 60 same, 1 moved"});
    content[at] = static_cast<char>(content[at] ^ 1);
  }
}

TEST_CASE("check --ulps: results may move so far, content as it likes") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1, 0}));
  const auto golden = dir.write("golden.json", record({file}));
  dir.write("x.npy", npy_of({1.0000004f, 0}));
  check_check({golden, "--ulps", "3"}, 0, {"1 file, 1 array: 1 within 3 ulps"});
  check_check(
      {golden, "--ulps", "2"}, 1,
      {"moved   " + file, "    sum tree        1 (3f800000) -> 1.0000004 (3f800003)  3 ulps",
       "1 file, 1 array: 1 moved"});
  check_check({golden}, 1,
              {"moved   " + file, "    content         ",
               "    sum tree        1 (3f800000) -> 1.0000004 (3f800003)  3 ulps",
               "1 file, 1 array: 1 moved"});
  // The same sum of other elements.
  dir.write("x.npy", npy_of({0, 1}));
  check_check({golden, "--ulps", "0"}, 0, {"1 file, 1 array: 1 same"});
  check_check({golden}, 1,
              {"moved   " + file, "    content         ",
               "    sum tree        1 (3f800000)  0 ulps", "1 file, 1 array: 1 moved"});
  // A NaN is no number of ulps away.
  dir.write("x.npy", npy_of({NAN, 1}));
  check_check({golden, "--ulps", "18446744073709551615"}, 1,
              {"moved   " + file, "    sum tree        1 (3f800000) -> nan (7fc00000)  no distance",
               "1 file, 1 array: 1 moved"});
  // -0 is no distance from +0, but no equal bits.
  dir.write("x.npy", npy_of({0, 0}));
  const auto zero = dir.write("zero.json", record({file}));
  dir.write("x.npy", npy_of({-0.0f, -0.0f}));
  check_check({zero, "--ulps", "0"}, 0, {"1 file, 1 array: 1 within 0 ulps"});
  check_check({zero, "--bits"}, 1,
              {"moved", "    content", "    sum tree        0 (00000000) -> -0 (80000000)  0 ulps",
               "1 file, 1 array: 1 moved"});
  check_usage({"check", golden, "--ulps", "1", "--bits"}, {"--ulps", "--bits"});
  for (const std::string text : {"-1", "99999999999999999999", "18446744073709551616", "1.5"})
    check_usage({"check", golden, "--ulps=" + text},
                {"--ulps", "'" + text + "' is no whole number from 0 to 18446744073709551615"});
  check_usage({"check", golden, "--ulps", "few"}, {"--ulps"});
}

TEST_CASE("check: missing, new and changed tensors") {
  const bytes::directory dir;
  const auto file = dir.write("m.safetensors", safetensors_of(mixed));
  const auto golden = dir.write("golden.json", record({file}));
  auto other = mixed;
  other[0].shape = "[10,100]";
  other[1].type = "BF16";
  other[3].name = "d.int64";
  dir.write("m.safetensors", safetensors_of(other));
  const std::vector<std::string> lines{"changed " + file + ":first",
                                       "    shape           [100,10] -> [10,100]",
                                       "changed " + file + ":b.f16",
                                       "    dtype           f16 -> bf16",
                                       "missing " + file + ":d.i64",
                                       "new     " + file + ":d.int64",
                                       "1 file, 8 arrays: 4 same, 2 changed, 1 missing, 1 new"};
  check_check({golden}, 1, lines);
  check_check({golden, "--ulps", "1000000"}, 1, lines);
}

TEST_CASE("check: which file is compared with which") {
  const bytes::directory dir;
  for (const auto part : {"a", "b", "c"}) std::filesystem::create_directory(dir.path(part));
  const auto write = [&](const std::string& name, float value) {
    return dir.write(name, npy_of({value}));
  };
  const auto ax = write("a/x.npy", 1), ay = write("a/y.npy", 2), bx = write("b/x.npy", 3);
  const auto one = dir.write("one.json", record({ax}));
  const auto two = dir.write("two.json", record({ax, ay}));
  const auto three = dir.write("three.json", record({ax, ay, bx}));

  check_check({three}, 0, {"3 files, 3 arrays: 3 same"});  // as recorded
  check_check({three, bx, ay, ax}, 0, {"3 files, 3 arrays: 3 same"});
  // Elsewhere, the end of the path decides.
  const auto cx = write("c/x.npy", 1), cy = write("c/y.npy", 2);
  check_check({two, cy, cx}, 0, {"2 files, 2 arrays: 2 same"});
  check_usage({"check", three, cx}, {cx, "2 of the recorded files"});
  check_usage({"check", two, cx, ax}, {ax, "second", cx});
  check_check({two, cy}, 1, {"missing " + ax, "2 files, 1 array: 1 same, 1 file missing"});
  check_check({two, ax, ay, write("c/z.npy", 1)}, 1,
              {"new     " + dir.path("c/z.npy"), "3 files, 2 arrays: 2 same, 1 file new"});
  // The same path wins over one that ends alike, in any spelling.
  write("x.npy", 4);
  {
    const auto here = std::filesystem::current_path();
    std::filesystem::current_path(dir.path(""));
    const auto same = dir.write("same.json", record({"x.npy", "a/x.npy", "b/x.npy"}));
    for (const std::string top : {"x.npy", "./x.npy", "a/../x.npy", ".//x.npy", "FULL"})
      for (const std::string in_a : {"a/x.npy", "./a/x.npy", "b/../a/x.npy", "a//x.npy"}) {
        const auto x = top == "FULL" ? dir.path("x.npy") : top;
        check_check({same, in_a, "b/x.npy", x}, 0, {"3 files, 3 arrays: 3 same"});
        check_check({same, x, "./b/x.npy", in_a}, 0, {"3 files, 3 arrays: 3 same"});
      }
    check_usage({"check", same, "x.npy", "./x.npy"}, {"./x.npy", "second", "x.npy"});
    check_usage({"check", same, "c/x.npy"}, {"c/x.npy", "3 of the recorded files"});
    std::filesystem::current_path(here);
  }
  // One with one, whatever its name.
  check_check({one, dir.path("c/z.npy")}, 0, {"1 file, 1 array: 1 same"});
  check_check({one, cy}, 1,
              {"checked " + cy + ", recorded as " + ax, "moved   " + ax, "    content",
               "    sum tree", "1 file"});
  check_check({two, cx, write("c/y.npy", 3)}, 1,
              {"checked " + cy + ", recorded as " + ay, "moved   " + ay, "    content",
               "    sum tree", "2 files"});
  const auto elsewhere = bitfold_cli({"check", "--json", one, cy});
  CHECK(contains(elsewhere.out, "{\"file\":\"" + ax + "\",\"checked\":\"" + cy + "\",\"tensor\""));

  // A file that cannot be read does not stop the others.
  dir.write("a/x.npy", "no array");
  const auto r = bitfold_cli({"check", three});
  CHECK(r.status == 3);
  CHECK(r.err.starts_with("bitfold: " + ax + ": "));
  CHECK(lines_of(r.err).size() == 1);
  CHECK(r.out == "3 files, 2 arrays: 2 same, 1 file not read\n");
  std::filesystem::remove(ax);
  CHECK(bitfold_cli({"check", three}).status == 3);
  // Nor does what was found before it hide that it could not be read.
  const auto late = dir.write("late.json", record({ay, bx, cy}));
  write("a/y.npy", 2.5);
  std::filesystem::remove(bx);
  const auto found = bitfold_cli({"check", late});
  CHECK(found.status == 3);
  CHECK(contains(found.out, "3 files, 2 arrays: 1 same, 1 moved, 1 file not read\n"));
}

TEST_CASE("check: a file is read as what it is, or was recorded as, whatever its name") {
  const bytes::directory dir;
  const auto npy = npy_of({1, 2}), tensors = safetensors_of(mixed);
  // Raw elements that look like a npy file.
  const auto raw = dir.write("raw.bin", npy);
  struct row {
    const char* format;
    std::vector<std::string> arguments;
    std::string content, same;
  };
  for (const auto& [format, arguments, content, same] :
       {row{"npy", {dir.write("a.npy", npy)}, npy, "1 array: 1 same"},
        row{"safetensors", {dir.write("m.safetensors", tensors)}, tensors, "7 arrays: 7 same"},
        row{"safetensors", {dir.write("m.old", tensors)}, tensors, "7 arrays: 7 same"},
        row{"safetensors",
            {dir.write("none.safetensors", safetensors_of({}))},
            safetensors_of({}),
            "0 arrays: nothing to compare"},
        row{"raw", {raw, "--raw", "--dtype", "u8"}, npy, "1 array: 1 same"}}) {
    const auto text = record(arguments);
    CAPTURE(text);
    CHECK(json::parse(text)["files"][0]["format"] == format);
    const auto golden = dir.write("golden.json", text);
    for (const auto name : {"x.new", "x", "x.npy.new", "x.bin"})
      check_check({golden, dir.write(name, content)}, 0, {"1 file, " + same});
    if (format != std::string("raw")) {
      // The wrong name of the two; a file that was cut is still what was recorded.
      for (const auto name : {"x.npy", "x.safetensors"})
        check_check({golden, dir.write(name, content)}, 0, {"1 file, " + same});
      const auto cut = dir.write("x.new", content.substr(0, content.size() / 2));
      const auto r = bitfold_cli({"check", golden, cut});
      CHECK(r.status == 3);
      CHECK(r.err.starts_with("bitfold: " + cut + ": "));
      CHECK_FALSE(contains(r.err, "dtype: needed"));
    }
    // Golden files from before there was the field: the recorded name tells.
    const auto old =
        dir.write("old.json", replaced(text, "\"format\": \"" + std::string(format) + "\", ", ""));
    if (arguments[0] != dir.path("m.old"))
      check_check({old, dir.write("x.new", content)}, 0, {"1 file, " + same});
  }
  const auto in_spite =
      dir.write("in_spite.json", record({dir.path("a.npy"), "--raw", "--dtype", "u8"}));
  check_check({in_spite}, 0, {"1 file, 1 array: 1 same"});
  // Another format than the recorded one, by its content or by its name.
  const auto golden = dir.write("golden.json", record({dir.path("a.npy")}));
  check_check({golden, dir.path("m.old")}, 1,
              {"checked " + dir.path("m.old") + ", recorded as " + dir.path("a.npy"),
               "missing " + dir.path("a.npy"), "new ", "new ", "new ", "new ", "new ", "new ",
               "new ", "1 file, 8 arrays: 1 missing, 7 new"});
  const auto floats = dir.write(
      "raw.json", record({dir.write("f.bin", bytes::of<float>({1, 2})), "--dtype", "f32"}));
  check_check({floats, dir.path("a.npy")}, 0, {"1 file, 1 array: 1 same"});
}

TEST_CASE("record, check: no output takes the place of what is read") {
  const bytes::directory dir;
  std::filesystem::create_directory(dir.path("d"));
  const auto x = dir.write("x.npy", npy_of({1})), y = dir.write("y.npy", npy_of({2}));
  const auto golden = dir.write("golden.json", record({x, y}));
  std::filesystem::create_symlink("x.npy", dir.path("soft"));
  std::filesystem::create_hard_link(x, dir.path("hard"));
  std::filesystem::create_symlink("golden.json", dir.path("soft.json"));
  const auto before_x = content(x), before_golden = content(golden);
  const auto unchanged = [&] {
    CHECK(content(x) == before_x);
    CHECK(content(golden) == before_golden);
    CHECK_FALSE(std::filesystem::exists(dir.path("gone.npy")));
  };
  for (const auto name : {"x.npy", "d/../x.npy", "soft", "hard", ".//x.npy"}) {
    const auto out = dir.path(name);
    CAPTURE(out);
    check_usage({"check", golden, "--junit", out}, {"--junit", x});
    check_usage({"check", golden, "--junit", out, y, x}, {"--junit", x});
    check_usage({"record", y, x, "--out", out}, {"--out", x});
    unchanged();
  }
  for (const auto name : {"golden.json", "d/../golden.json", "soft.json"})
    check_usage({"check", golden, "--junit", dir.path(name)}, {"--junit", golden});
  // Where a recorded file should be, too.
  const auto gone = dir.write("gone.npy", npy_of({1}));
  const auto with_gone = dir.write("gone.json", record({gone}));
  std::filesystem::remove(gone);
  check_usage({"check", with_gone, "--junit", dir.path("d/../gone.npy")}, {"--junit", gone});
  unchanged();
}

TEST_CASE("check: a result by another definition is to be recorded anew") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1, 2, 4}));
  const auto text = record({"--ops", "sum,var", x});
  CHECK(json::parse(text)["files"][0]["arrays"][0]["results"][1]["definition"] == 2);
  CHECK(!contains(record({"--ops", "var", "--method", "exact", x}), "definition"));
  CHECK(bitfold_cli({"check", dir.write("now.json", text)}).status == 0);
  for (const auto& [then, number] : {std::pair{"", "1"}, std::pair{"\"definition\": 3, ", "3"}}) {
    const auto old = dir.write("then.json", replaced(text, "\"definition\": 2, ", then));
    const auto found = bitfold_cli({"check", old});
    CHECK(found.status == 3);
    CHECK(contains(found.err, "results[1]: var recorded by definition " + std::string(number) +
                                  ", but this bitfold has definition 2; record it anew"));
  }
}

TEST_CASE("record, check: files on stdout are added to what is there") {
  const auto is_stdout = [](const char* name) {
    struct stat named, open;
    return ::stat(name, &named) == 0 && ::fstat(STDOUT_FILENO, &open) == 0 &&
           named.st_dev == open.st_dev && named.st_ino == open.st_ino;
  };
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1}));
  const auto text = record({x}), golden = dir.write("golden.json", text);
  for (const auto name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    CAPTURE(name);
    // A machine may lack the links in /dev, or have another program's file in their place.
    if (std::string(name).starts_with("/dev") && !is_stdout(name)) {
      WARN("left out, as it is no name of stdout here");
      continue;
    }
    const auto log = dir.write("log", "before\n");
    CHECK(bitfold_cli({"record", x, "--out", name}, {.out = log, .out_flags = O_APPEND}).status ==
          0);
    CHECK(content(log) == "before\n" + text);
    const auto out = dir.write("out", "before");
    CHECK(bitfold_cli({"check", golden, "--junit", name}, {.out = out, .out_flags = O_TRUNC})
              .status == 0);
    CHECK(content(out).starts_with("<?xml"));
    CHECK(content(out).ends_with("</testsuites>\n1 file, 1 array: 1 same\n"));
  }
  // By its own name, and by way of another descriptor.
  const auto log = dir.write("log", "before\n");
  CHECK(bitfold_cli({"record", x, "--out", log}, {.out = log, .out_flags = O_APPEND}).status == 0);
  CHECK(content(log) == "before\n" + text);
  const int fd = ::open(log.c_str(), O_WRONLY | O_APPEND);
  REQUIRE(fd >= 0);
  CHECK(bitfold_cli({"record", x, "--out", "/dev/fd/" + std::to_string(fd)}).status == 0);
  ::close(fd);
  CHECK(content(log) == "before\n" + text + text);
}

TEST_CASE("record: a replaced file keeps its mode, a link that leads nowhere is followed") {
  namespace fs = std::filesystem;
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1}));
  const auto text = record({x}), out = dir.write("out.json", "old");
  for (const auto mode : {fs::perms{0640}, fs::perms{0604}, fs::perms{0600}, fs::perms{0666}}) {
    fs::permissions(out, mode);
    CHECK(bitfold_cli({"record", x, "--out", out}).status == 0);
    CHECK(fs::status(out).permissions() == mode);
  }
  fs::create_directory(dir.path("d"));
  fs::create_symlink("d/second", dir.path("first"));
  fs::create_symlink("../target.json", dir.path("d/second"));
  CHECK(bitfold_cli({"record", x, "--out", dir.path("first")}).status == 0);
  CHECK(fs::is_symlink(dir.path("first")));
  CHECK(fs::is_symlink(dir.path("d/second")));
  CHECK(content(dir.path("target.json")) == text);
  fs::create_symlink("round", dir.path("round"));
  const auto round = bitfold_cli({"record", x, "--out", dir.path("round")});
  CHECK(round.status == 1);
  CHECK(contains(round.err, "round: cannot be written: "));
  CHECK(lines_of(round.err).size() == 1);
  CHECK(fs::is_symlink(dir.path("round")));

  const auto name = dir.path(std::string(250, 'n'));
  for (int times = 0; times < 2; ++times) {
    CHECK(bitfold_cli({"record", x, "--out", name}).status == 0);
    CHECK(content(name) == text);
  }
  CHECK(std::distance(fs::directory_iterator(dir.path("")), {}) == 7);  // nothing else is left
}

TEST_CASE("check: a golden file from a pipe") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", npy_of({1}));
  const auto text = record({x});
  const auto fifo = dir.path("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::thread writer([&] { std::ofstream(fifo) << text; });
  const auto r = bitfold_cli({"check", fifo});
  const int reader =
      ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);  // or the writer could wait for ever
  writer.join();
  ::close(reader);
  CHECK(r.status == 0);
  CHECK(r.out == "1 file, 1 array: 1 same\n");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  check_check({"/dev/fd/" + std::to_string(ends[0])}, 0, {"1 file, 1 array: 1 same"});
  ::close(ends[0]);
  // Too long a one is not read to its end.
  const auto on_closed_pipe = std::signal(SIGPIPE, SIG_IGN);
  std::thread endless([&] {
    std::ofstream out(fifo);
    while (out) out << text << std::flush;
  });
  CHECK_THROWS_WITH(io::read_golden(fifo, 100'000),
                    fifo + ": file: more than 100000 bytes are too many for a golden file");
  endless.join();
  std::signal(SIGPIPE, on_closed_pipe);
  const auto folder = bitfold_cli({"check", dir.path("")});
  CHECK(folder.status == 3);
  CHECK(contains(folder.err, ": file: Is a directory"));
}

TEST_CASE("record, check: a file that becomes shorter") {
  // A record takes many times as long as a sum.
  constexpr auto size = bitfold::test::sanitized ? long_file / 8 : long_file;
  const bytes::directory dir;
  const auto one = dir.write("one", "\1"), huge = dir.path("huge");
  const auto line = "bitfold: " + huge + ": file: became shorter while it was read\n";
  const auto out = dir.path("out.json");
  const auto r = bitfold_cli({"record", "--dtype", "u8", huge, one, "--out", out},
                             {.meanwhile = shorten_when_read(huge, size)});
  CHECK(r.status == 3);
  CHECK(r.err == line);
  CHECK_FALSE(std::filesystem::exists(out));

  dir.write("huge", "\1");
  const auto golden = dir.write("golden.json", record({"--dtype", "u8", huge, one}));
  // Of its size, so that its elements are read.
  dir.write("golden.json", replaced(content(golden), "\"shape\": [1]",
                                    "\"shape\": [" + std::to_string(size) + "]"));
  const auto c = bitfold_cli({"check", golden}, {.meanwhile = shorten_when_read(huge, size)});
  CHECK(c.status == 3);
  CHECK(c.err == line);
  CHECK(c.out == "2 files, 1 array: 1 same, 1 file not read\n");
}

TEST_CASE("check: raw files need no --dtype, their golden file has it") {
  const bytes::directory dir;
  const auto file = dir.write("x.raw", bytes::of<double>({0.1, 0.2}));
  const auto golden = dir.write("golden.json", record({"--dtype", "f64", file}));
  check_check({golden, file}, 0, {"1 file, 1 array: 1 same"});
  dir.write("x.raw", bytes::of<double>({0.1, 0.2, 0}));
  check_check({golden, file}, 1,
              {"changed " + file, "    shape           [2] -> [3]", "1 file, 1 array: 1 changed"});
  dir.write("x.raw", "1234567");
  CHECK(bitfold_cli({"check", golden, file}).status == 3);
}

TEST_CASE("check --junit: one test case for each array, any name escaped") {
  const bytes::directory dir;
  const auto tensors = [](float value) {
    return safetensors_of({{"<&\\\"'\\u0001\\n\\uffff", "F32", "[1]", bytes::of<float>({value})},
                           {"same", "F32", "[1]", bytes::of<float>({2})}});
  };
  const auto file = dir.write("m.safetensors", tensors(1));
  const auto gone = dir.write("gone.npy", npy_of({1}));
  const auto golden = dir.write("golden.json", record({file, gone}));
  dir.write("m.safetensors", tensors(1.5));
  const auto added = dir.write("\xff<.npy", npy_of({1}));
  const auto junit = dir.path("junit.xml");
  check_check({golden, "--junit", junit, "--ulps", "1", file, added}, 1,
              {"moved   " + file, "    sum tree", "missing " + gone, "new     ",
               "3 files, 2 arrays: 1 same, 1 moved, 1 file missing, 1 file new"});
  const auto path = [&](const std::string& name) { return dir.path(name); };
  CHECK(content(junit) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"bitfold check\" tests=\"4\" failures=\"3\" errors=\"0\">\n"
        "  <testsuite name=\"" +
            file +
            "\" tests=\"2\" failures=\"1\" errors=\"0\">\n"
            "    <testcase classname=\"" +
            file +
            "\" name=\"&lt;&amp;&quot;'\\x01\\x0a\xef\xbf\xbd\">"
            "<failure type=\"moved\" message=\"moved\">    sum tree        1 (3f800000) -&gt; "
            "1.5 (3fc00000)  4194304 ulps&#10;</failure></testcase>\n"
            "    <testcase classname=\"" +
            file +
            "\" name=\"same\"/>\n"
            "  </testsuite>\n"
            "  <testsuite name=\"" +
            gone +
            "\" tests=\"1\" failures=\"1\" errors=\"0\">\n"
            "    <testcase classname=\"" +
            gone + "\" name=\"" + gone +
            "\">"
            "<failure type=\"missing\" message=\"missing\"></failure></testcase>\n"
            "  </testsuite>\n"
            "  <testsuite name=\"" +
            path("\\xff&lt;.npy") +
            "\" tests=\"1\" failures=\"1\" errors=\"0\">\n"
            "    <testcase classname=\"" +
            path("\\xff&lt;.npy") + "\" name=\"" + path("\\xff&lt;.npy") +
            "\"><failure type=\"new\" message=\"new\"></failure></testcase>\n"
            "  </testsuite>\n"
            "</testsuites>\n");

  dir.write("m.safetensors", "");
  CHECK(bitfold_cli({"check", golden, "--junit", junit}).status == 3);
  CHECK(contains(content(junit),
                 "<error type=\"bad input\" message=\"" + file + ": header length: "));
  CHECK(contains(content(junit), "tests=\"2\" failures=\"0\" errors=\"1\""));
  const auto r = bitfold_cli({"check", golden, "--junit", dir.path("none/junit.xml"), gone, file});
  CHECK(r.status == 1);
  CHECK(contains(r.err, "junit.xml: cannot be written"));
}

TEST_CASE("check: golden files that are no golden files") {
  const bytes::directory dir;
  const auto file = dir.write("m.safetensors", safetensors_of(mixed));
  const auto good = record({file});
  CHECK(error_of(good) == "");
  // Cut anywhere (the newline at the end is not needed).
  for (std::size_t size = 0; size + 1 < good.size(); ++size) {
    const auto e = error_of(good.substr(0, size));
    if (!e.starts_with("golden file: ends in the middle")) FAIL_CHECK(size << " " << e);
  }
  struct row {
    const char *from, *to, *expected;
  };
  const row rows[] = {
      {"{", "[", "golden file: not JSON at byte"},
      {"bitfold-golden", "bitfold-report", "format: 'bitfold-report', not 'bitfold-golden'"},
      {"\"format\"", "\"fromat\"", "format: missing"},
      {"\"version\": 1", "\"version\": 2", "version: 2, but this bitfold reads version 1"},
      {"\"version\": 1", "\"version\": \"1\"", "version: is no whole number"},
      {"\"version\": 1", "\"version\": -1", "version: is no whole number"},
      {"\"version\": 1", "\"version\": 1.0", "version: is no whole number"},
      {"\"order_version\": 1", "\"order_version\": 7",
       "order_version: recorded in order version 7, but this bitfold adds in order version 1; "
       "record "
       "it anew"},
      {"\"bitfold\": \"", "\"bitfold\": null, \"x\": \"", "bitfold: is no text"},
      {"\"files\": [", "\"files\": {}, \"x\": [", "files: is no list"},
      {"\"files\": [", "\"files\": [5, ", "files[0]: is no object"},
      {"\"files\": [", "\"files\": [], \"x\": [", "files: is empty"},
      {"\"format\": \"safetensors\"", "\"format\": \"zip\"", "files[0].format: 'zip' is not known"},
      {"\"format\": \"safetensors\"", "\"format\": 1", "files[0].format: is no text"},
      {"\"format\": \"safetensors\"", "\"format\": \"raw\"",
       "files[0].format: 'raw', but there are 7 arrays"},
      {"\"format\": \"safetensors\"", "\"format\": \"npy\"",
       "files[0].format: 'npy', but there are 7 arrays"},
      {"\"results\": [", "\"results\": [], \"x\": [", "files[0].arrays[0].results: is empty"},
      {"\"dtype\": \"f32\"", "\"dtype\": \"f33\"", "files[0].arrays[0].dtype: 'f33' is not known"},
      {"\"name\": \"b.f16\"", "\"name\": \"first\"",
       "files[0].arrays[1].name: 'first' stands there twice"},
      {"\"name\": \"b.f16\"", "\"name\": \"b\", \"name\": \"c\"",
       "files[0].arrays[1].name: stands there twice"},
      {"[100,10]", "[100,-10]", "files[0].arrays[0].shape[1]: is no whole number"},
      {"[100,10]", "[4294967296,4294967296]", "files[0].arrays[0].shape: does not fit"},
      {"[100,10]", "7", "files[0].arrays[0].shape: is no list"},
      {"\"digest\": \"", "\"digest\": \"0", "files[0].arrays[0].digest: '0"},
      {"\"digest\": \"", "\"digest\": \"x\", \"y\": \"",
       "files[0].arrays[0].digest: 'x' is not 32 hex digits"},
      {"\"op\": \"sum\"", "\"op\": \"product\"", "files[0].arrays[0].results[0].op: 'product'"},
      {"\"method\": \"tree\"", "\"method\": \"bush\"",
       "files[0].arrays[0].results[0].method: 'bush'"},
      {"\"acc\": \"f32\"", "\"acc\": \"i64\"", "files[0].arrays[0].results[0]: acc: "},
      {"\"out\": \"f32\"", "\"out\": \"f16\"", "files[0].arrays[0].results[0].bits: '"},
      {"\"bits\": \"", "\"bits\": \"-", "files[0].arrays[0].results[0].bits: '-"},
      {"\"bits\"", "\"Bits\"", "files[0].arrays[0].results[0].bits: missing"},
  };
  for (const auto& r : rows) {
    CAPTURE(r.from, r.to);
    const auto e = error_of(replaced(good, r.from, r.to));
    CAPTURE(e);
    CHECK(e.starts_with(r.expected));
  }
  // Results of other operations.
  const auto max = record({"--ops", "max,var", "--ddof", "1", dir.write("x.npy", npy_of({1}))});
  const row others[] = {
      {"\"op\": \"max\", \"method\": null, \"acc\": null",
       "\"op\": \"dot\", \"method\": \"tree\", \"acc\": \"f32\"",
       "files[0].arrays[0].results[0].op: dot takes two inputs"},
      {"\"op\": \"max\"", "\"op\": \"sum\"", "files[0].arrays[0].results[0].method: is no text"},
      {"\"method\": null", "\"method\": \"tree\"",
       "files[0].arrays[0].results[0].method: is not null, but max has none"},
      {"\"method\": null, ", "", "files[0].arrays[0].results[0].method: missing"},
      {"\"acc\": null", "\"acc\": \"f32\"",
       "files[0].arrays[0].results[0].acc: is not null, but max has none"},
      {"\"acc\": null, ", "", "files[0].arrays[0].results[0].acc: missing"},
      {"\"acc\": \"f32\"", "\"acc\": null", "files[0].arrays[0].results[1].acc: is no text"},
      {"\"out\": \"f32\"", "\"out\": \"f64\"", "files[0].arrays[0].results[0]: out dtype: max of"},
      {"\"out\": \"f32\", \"value\"", "\"out\": \"f32\", \"ddof\": 1, \"value\"",
       "files[0].arrays[0].results[0]: ddof: max takes none"},
      {"\"ddof\": 1", "\"ddof\": \"1\"", "files[0].arrays[0].results[1].ddof: is no whole number"},
      {"\"ddof\": 1", "\"ddof\": 2147483648", "files[0].arrays[0].results[1].ddof: is too large"},
      {"\"shape\": [1]", "\"shape\": [0]",
       "files[0].arrays[0].results[0].op: max of no elements is not defined"},
  };
  for (const auto& r : others) {
    CAPTURE(r.from, r.to);
    const auto e = error_of(replaced(max, r.from, r.to));
    CAPTURE(e);
    CHECK(e.starts_with(r.expected));
  }
  CHECK(error_of(replaced(max, "\"ddof\": 1, ", "\"ddof\": 0, ")) == "");
  CHECK(error_of("7") == "golden file: is no object");
  CHECK(error_of(good + "x").starts_with("golden file: not JSON at byte"));
  CHECK(error_of(replaced(good, "first", std::string("\0", 1))).starts_with("golden file: a zero"));
  CHECK(error_of(replaced(good, "first", "\xff")).starts_with("golden file: not JSON at byte"));
  CHECK(error_of(replaced(good, "[100,10]", "[1e999]")) ==
        "golden file: not JSON that can be read");
  CHECK(contains(error_of(std::string(1'000'000, '[')), "nested too deeply"));
  // What is not known is not looked at.
  CHECK(error_of(replaced(good, "\"version\"", "\"note\": [{}, 1], \"version\"")) == "");
  CHECK(error_of(replaced(good, "\"value\"", "\"old value\"")) == "");

  // From the command line: the file and the field, on one line, with status 3 and no other output.
  const auto junit = dir.path("junit.xml");
  for (const auto& [text, field] :
       {std::pair{good.substr(0, 300), "golden file: ends"},
        std::pair{std::string(), "golden file: "},
        std::pair{replaced(good, "\"order_version\": 1", "\"order_version\": 0"),
                  "order_version: "}}) {
    const auto golden = dir.write("golden.json", text);
    const auto r = bitfold_cli({"check", golden, "--junit", junit, file});
    CHECK(r.status == 3);
    CHECK(r.out.empty());
    CHECK(r.err.starts_with("bitfold: " + golden + ": " + field));
    CHECK(lines_of(r.err).size() == 1);
    CHECK_FALSE(std::filesystem::exists(junit));
  }
  CHECK(bitfold_cli({"check", dir.path("none.json")}).status == 3);
  CHECK(bitfold_cli({"check", dir.path("")}).status == 3);
  check_usage({"check"}, {"GOLDEN"});
}

TEST_CASE("check: output that cannot be written") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", npy_of({1}));
  const auto golden = dir.write("golden.json", record({file}));
  const auto r = bitfold_cli({"check", golden}, {.out = "/dev/full"});
  CHECK(r.status == 1);
  CHECK(r.err.starts_with("bitfold: cannot write the output: "));
}
