// reduce --axis, --offsets, --keys and --out, as a user meets them.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include "cli.hpp"
#include "data.hpp"
#include "io/arrays.hpp"
#include "io/digest.hpp"
#include "main.hpp"

namespace {

using namespace bitfold;
using namespace cli;
using nlohmann::json;

using extents = std::vector<std::int64_t>;

std::string as_text(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

std::string list(const extents& shape) {
  std::string s;
  for (const auto extent : shape) s += (s.empty() ? "" : ",") + std::to_string(extent);
  return s;
}

// A .safetensors file of one tensor, "w", which may have any type.
std::string write_tensor(const bytes::directory& dir, const std::string& file, dtype t,
                         const extents& shape, const std::vector<std::byte>& data) {
  std::string type(name(t));
  for (char& c : type) c = static_cast<char>(std::toupper(c));
  return dir.write(file, bytes::safetensors("{" +
                                                bytes::tensor("w", type, "[" + list(shape) + "]", 0,
                                                              static_cast<int>(data.size())) +
                                                "}",
                                            as_text(data)));
}

template <class T>
std::string npy_of(const std::string& descr, const std::vector<T>& values) {
  return bytes::npy(descr, "(" + std::to_string(values.size()) + ",)", bytes::of(values));
}

std::string digest_of(const std::vector<std::byte>& data) {
  io::digest d;
  d.add(data.data(), data.size());
  return d.hex();
}

// What a line is to say, and what a file is to hold.
struct expected {
  reduction of;
  extents shape;
  std::vector<std::byte> data;

  std::string text() const { return "[" + list(shape) + "]  " + digest_of(data); }
};

// By the reference; of the elements of two inputs that broadcast.
expected along(const reduction& r, const view& x, const view* y, const std::vector<int>& axes,
               bool keepdims) {
  expected e{r, result_extents(x, y, axes, keepdims), {}};
  std::size_t n = 1;
  for (const auto extent : e.shape) n *= static_cast<std::size_t>(extent);
  e.data.resize(n * size_of(r.out()));
  reference(r, x, y, axes, e.data.data());
  return e;
}

void check_json(const std::string& line, const expected& want) {
  const json j = json::parse(line);
  CHECK(j["op"] == name(want.of.op()));
  CHECK(j["out_dtype"] == name(want.of.out()));
  CHECK(j["out_shape"] == want.shape);
  CHECK(j["digest"] == digest_of(want.data));
  CHECK_FALSE(j.contains("value"));
  const std::size_t size = size_of(want.of.out()), n = want.data.size() / size;
  CHECK(j["first"].size() == std::min<std::size_t>(n, 8));
  for (std::size_t i = 0; i < j["first"].size(); ++i) {
    const std::string value = to_string(load_scalar(want.of.out(), &want.data[i * size]));
    CHECK(j["first"][i] ==
          (value == "nan" || value == "inf" || value == "-inf" ? json(value) : json::parse(value)));
  }
}

void check_file(const std::string& path, const expected& want) {
  INFO(path);
  const auto arrays = io::read_arrays(path);
  REQUIRE(arrays.size() == 1);
  CHECK(arrays[0].type == want.of.out());
  CHECK(extents(arrays[0].shape.begin(), arrays[0].shape.end()) == want.shape);
  REQUIRE(arrays[0].count * size_of(want.of.out()) == want.data.size());
  CHECK(std::memcmp(arrays[0].data, want.data.data(), want.data.size()) == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(arrays[0].data) % 64 == 0);  // as NumPy aligns them
}

// The values 0, 1, ... in an array of these extents.
std::string counting(const std::string& shape, std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  return bytes::npy("<f4", shape, bytes::of(values));
}

}  // namespace

TEST_CASE(
    "reduce --axis: every operation of every type equals the reference, on a line, in JSON and in "
    "files") {
  const bytes::directory dir;
  const extents shape{7, 70, 3}, second{70, 1};
  const std::pair<std::string, std::vector<int>> axes[] = {
      {"1", {1}}, {"-1,0", {0, 2}}, {"0,1,2", {0, 1, 2}}};
  for (const dtype t : tested_types()) {
    const auto data = test::make_data(t, test::kind::special, 7 * 70 * 3, 1),
               other = test::make_data(t, test::kind::near_one, 70, 2);
    const auto file = write_tensor(dir, "x.safetensors", t, shape, data),
               file2 = write_tensor(dir, "y.safetensors", t, second, other);
    const view x = row_major(t, data.data(), shape), y = row_major(t, other.data(), second);
    for (const int inputs : {1, 2})
      for (const auto& [option, reduced] : axes) {
        const bool keepdims = reduced.size() == 2;
        std::vector<std::string> arguments{"reduce", list_of(ops_of(inputs)), "--axis", option,
                                           file};
        if (inputs == 2) arguments.push_back(file2);
        if (keepdims) arguments.emplace_back("--keepdims");
        CAPTURE(arguments);
        const auto text = bitfold_cli(arguments);
        auto with = arguments;
        with.emplace_back("--json");
        const auto objects = bitfold_cli(with);
        const std::string out =
            dir.path("out" + std::string(name(t)) + std::to_string(inputs) + option);
        with.back() = "--out=" + out;
        const auto written = bitfold_cli(with);
        CAPTURE(text.err, objects.err, written.err);
        CHECK(text.status == 0);
        CHECK(objects.status == 0);
        CHECK(written.out.empty());
        const auto lines = lines_of(text.out), json_lines = lines_of(objects.out);
        const auto ops = ops_of(inputs);
        REQUIRE(lines.size() == ops.size());
        REQUIRE(json_lines.size() == ops.size());
        // bf16, which .npy files have not, is refused before anything is written.
        CHECK(written.status == (t == dtype::bf16 ? 2 : 0));
        CHECK(files_in(out).size() == (t == dtype::bf16 ? 0 : ops.size()));
        if (t == dtype::bf16) CHECK(contains(written.err, ": --out: "));
        for (std::size_t k = 0; k < ops.size(); ++k) {
          const auto want = along(make_reduction(ops[k], {}, t), x, inputs == 2 ? &y : nullptr,
                                  reduced, keepdims);
          const std::string op(name(ops[k]));
          CHECK(lines[k] == file + ":w  " + (inputs == 2 ? file2 + ":w  " : "") + "[7,70,3]  " +
                                std::string(name(t)) + "  " + op + "  " + want.text());
          check_json(json_lines[k], want);
          if (t != dtype::bf16)
            check_file(out + (inputs == 2 ? "/x-y.w." : "/x.w.") + op + ".npy", want);
        }
      }
  }
}

TEST_CASE("reduce --axis: methods, accumulators, types, ddof and threads") {
  const bytes::directory dir;
  const extents shape{9, 1000};
  const auto data = test::make_data(dtype::f32, test::kind::near_one, 9000, 3);
  const auto file = dir.write("x.npy", bytes::npy("<f4", "(9, 1000)", as_text(data)));
  const view x = row_major(dtype::f32, data.data(), shape);
  for (const auto& m : all_methods) {
    const auto r = make_reduction(
        op_id::sum, m.id, dtype::f32,
        m.id == method_id::exact ? std::nullopt : std::optional(dtype::f64), dtype::f64);
    std::vector<std::string> arguments{
        "reduce", "sum", "--axis=-1", "--method", std::string(m.name), "--out-dtype", "f64", file};
    if (m.id != method_id::exact) arguments.insert(arguments.end(), {"--acc", "f64"});
    for (const char* threads : {"1", "2", "7"}) {
      arguments.insert(arguments.end(), {"--threads", threads});
      CHECK(bitfold_cli(arguments).out ==
            file + "  [9,1000]  f32  " + along(r, x, nullptr, {1}, false).text() + "\n");
      arguments.resize(arguments.size() - 2);
    }
  }
  const auto var = make_reduction(op_id::var, {}, dtype::f32, {}, {}, 1);
  for (const auto& t : cpu::available_targets())
    CHECK(bitfold_cli({"reduce", "var", "--ddof", "1", "--axis", "0", "--target",
                       std::string(cpu::name(t)), file})
              .out ==
          file + "  [9,1000]  f32  " + along(var, x, nullptr, {0}, false).text() + "\n");
}

TEST_CASE("reduce --axis: Fortran's order, big endian, raw files, several tensors") {
  const bytes::directory dir;
  std::vector<float> values(12);
  for (std::size_t i = 0; i < 12; ++i) values[i] = 1 / static_cast<float>(i + 1);
  std::vector<float> columns(12);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) columns[j * 3 + i] = values[i * 4 + j];
  std::string swapped = bytes::of(values);
  for (std::size_t i = 0; i < swapped.size(); i += 4)
    std::reverse(swapped.begin() + static_cast<std::ptrdiff_t>(i),
                 swapped.begin() + static_cast<std::ptrdiff_t>(i) + 4);
  const auto plain = dir.write("x.npy", bytes::npy("<f4", "(3, 4)", bytes::of(values)));
  const auto fortran = dir.write("f.npy", bytes::npy("<f4", "(3, 4)", bytes::of(columns), true));
  const auto big = dir.write("b.npy", bytes::npy(">f4", "(3, 4)", swapped));
  const view x = row_major(dtype::f32, values.data(), {3, 4});
  const auto r = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  for (const int axis : {0, 1}) {
    const std::string line = "  [3,4]  f32  " + along(r, x, nullptr, {axis}, false).text() + "\n";
    CHECK(bitfold_cli({"reduce", "sum", "--axis", std::to_string(axis - 2), plain, fortran, big})
              .out == plain + line + fortran + line + big + line);
  }
  const auto raw = dir.write("x.raw", bytes::of(values));
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "0", "--dtype", "f32", raw}).out ==
        raw + "  [12]  f32  " +
            along(r, row_major(dtype::f32, values.data(), {12}), nullptr, {0}, false).text() +
            "\n");

  // Names that no file can have.
  const auto tensors = dir.write(
      "m.safetensors", bytes::safetensors("{" + bytes::tensor("a/b%", "F32", "[3,4]", 0, 48) + "," +
                                              bytes::tensor("c", "F32", "[1,2]", 48, 56) + "}",
                                          bytes::of(values) + bytes::of<float>({1, 2})));
  const auto out = dir.path("out");
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "1", "--out", out, tensors, raw, "--dtype", "f32"})
            .status == 2);  // raw has one axis
  CHECK(files_in(out) == std::set<std::string>{"m.a%2Fb%25.sum.npy", "m.c.sum.npy"});
  check_file(out + "/m.a%2Fb%25.sum.npy", along(r, x, nullptr, {1}, false));
  const auto zero =
      dir.write("z.safetensors",
                bytes::safetensors("{" + bytes::tensor("a\\u0000b", "F32", "[1,2]", 0, 8) + "," +
                                       bytes::tensor("a\\u0000c", "F32", "[1,2]", 8, 16) + "}",
                                   bytes::of<float>({1, 2, 3, 4})));
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "1", "--out", dir.path("zero"), zero}).status == 0);
  CHECK(files_in(dir.path("zero")) == std::set<std::string>{"z.a%00b.sum.npy", "z.a%00c.sum.npy"});
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "0", "--out", out, "--dtype", "f32", raw}).status ==
        0);
  CHECK(files_in(out).contains("x.raw.sum.npy"));
}

TEST_CASE("reduce --out FILE: one result, which the command reads again") {
  const bytes::directory dir;
  const auto file = dir.write("x.npy", counting("(2, 3, 4)", 24)), out = dir.path("result.npy");
  const auto r = bitfold_cli({"reduce", "mean", "--axis", "0,2", "--keepdims", "--out", out, file});
  CAPTURE(r.err);
  CHECK(r.status == 0);
  CHECK(r.out.empty());
  CHECK(content(out) == bytes::npy("<f4", "(1, 3, 1)", bytes::of<float>({7.5, 11.5, 15.5})));
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "0,1,2", out})
            .out.starts_with(out + "  [1,3,1]  f32  []  "));
  // The printed digest is that of the file's elements.
  const auto line = bitfold_cli({"reduce", "mean", "--axis", "0,2", file}).out,
             golden = dir.path("golden.json");
  CHECK(bitfold_cli({"record", "--out", golden, out}).status == 0);
  CHECK(contains(content(golden), line.substr(line.size() - 33, 32)));
  // No axis is left, or no element: numbers and nothing at all.
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "0,1,2", "--out", out, file}).status == 0);
  CHECK(content(out) == bytes::npy("<f4", "()", bytes::of<float>({276})));
  const auto none = dir.write("none.npy", counting("(3, 0, 4)", 0));
  CHECK(bitfold_cli({"reduce", "argmax", "--axis", "0", "--out", out, none}).status == 0);
  CHECK(content(out) == bytes::npy("<i8", "(0, 4)", ""));
  CHECK(bitfold_cli({"reduce", "any", "--axis", "1", "--out", out, none}).status == 0);
  CHECK(content(out) == bytes::npy("|u1", "(3, 4)", std::string(12, '\0')));
}

TEST_CASE("reduce --offsets and --keys: places of any integer type, one and two inputs") {
  const bytes::directory dir;
  const std::size_t n = 100;
  const auto data = test::make_data(dtype::f32, test::kind::near_one, n, 4),
             other = test::make_data(dtype::f32, test::kind::near_one, n, 5);
  const auto x = dir.write("x.npy", bytes::npy("<f4", "(100,)", as_text(data))),
             y = dir.write("y.npy", bytes::npy("<f4", "(100,)", as_text(other)));
  const auto elements_of = [&](const std::vector<std::byte>& from,
                               const std::vector<std::size_t>& at) {
    std::vector<std::byte> some;
    for (const std::size_t i : at) some.insert(some.end(), &from[4 * i], &from[4 * i] + 4);
    return some;
  };
  for (const dtype t : tested_types()) {
    if (is_float(t)) continue;
    visit(t, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<T>) {
        const std::string descr = (sizeof(T) == 1 ? "|" : "<") + std::string(name(t)).substr(0, 1) +
                                  std::to_string(sizeof(T));
        const std::vector<T> offsets{2, 2, 30, 31, 99};
        std::vector<T> keys(n);
        std::vector<std::vector<std::size_t>> segments(4), groups(7);
        for (std::size_t k = 0; k < 4; ++k)
          for (auto i = static_cast<std::size_t>(offsets[k]);
               i < static_cast<std::size_t>(offsets[k + 1]); ++i)
            segments[k].push_back(i);
        for (std::size_t i = 0; i < n; ++i) {
          keys[i] = static_cast<T>(i * i % 7 % 5);
          groups[static_cast<std::size_t>(keys[i])].push_back(i);
        }
        auto to_last = groups;
        to_last.resize(5);
        const auto offsets_file = dir.write("o.npy", npy_of(descr, offsets)),
                   keys_file = dir.write("k.npy", npy_of(descr, keys));
        for (const auto& [options, places] :
             {std::pair{std::vector<std::string>{"--offsets", offsets_file}, segments},
              {{"--keys", keys_file}, to_last},
              {{"--keys", keys_file, "--outputs", "7"}, groups}})
          for (const char* op : {"sum", "dot"}) {
            const auto r = make_reduction(*parse_op(op), {}, dtype::f32);
            const bool two = info(r.op()).inputs == 2;
            expected want{r,
                          {static_cast<std::int64_t>(places.size())},
                          std::vector<std::byte>(places.size() * 4)};
            for (std::size_t k = 0; k < places.size(); ++k) {
              const auto a = elements_of(data, places[k]), b = elements_of(other, places[k]);
              store_scalar(two ? reference(r, a.data(), b.data(), places[k].size())
                               : reference(r, a.data(), places[k].size()),
                           &want.data[4 * k]);
            }
            std::vector<std::string> arguments{"reduce", op, x};
            if (two) arguments.push_back(y);
            arguments.insert(arguments.end(), options.begin(), options.end());
            CAPTURE(arguments);
            CHECK(bitfold_cli(arguments).out ==
                  x + "  " + (two ? y + "  " : "") + "[100]  f32  " + want.text() + "\n");
            const auto out = dir.path("out.npy");
            arguments.insert(arguments.end(), {"--out", out});
            CHECK(bitfold_cli(arguments).status == 0);
            check_file(out, want);
          }
      }
    });
  }
}

TEST_CASE(
    "reduce --axis, --offsets, --keys, --out: errors name the file and the option, and nothing is "
    "written") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", counting("(3, 4)", 12)),
             v = dir.write("v.npy", counting("(5,)", 5)),
             w = dir.write("w.npy", counting("(2, 4)", 8));
  const auto offsets = dir.write("o.npy", npy_of<std::int32_t>("<i4", {0, 2, 5})),
             keys = dir.write("k.npy", npy_of<std::int32_t>("<i4", {0, 2, 1, 0, 2}));
  const auto folder = dir.path("out"), file = dir.path("out.npy");
  const auto before = files_in(dir.path(""));
  const auto refused = [&](std::vector<std::string> arguments,
                           const std::vector<std::string>& parts) {
    arguments.insert(arguments.begin(), "reduce");
    check_usage(arguments, parts);
    if (std::find(arguments.begin(), arguments.end(), "--out") == arguments.end() &&
        std::find(arguments.begin(), arguments.end(), "--json") == arguments.end()) {
      arguments.insert(arguments.end(), {"--out", folder});
      check_usage(arguments, parts);
    }
    CHECK(files_in(dir.path("")) == before);
  };
  // Together they make no sense.
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--axis", "0"}, {"--offsets", offsets}, {"--keys", keys}}) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), {v, "sum"});
      std::rotate(more.begin(), more.end() - 1, more.end());
      more.insert(more.end(), option.begin(), option.end());
      return more;
    };
    refused(with({"--stream", "--method", "exact"}), {"--stream: not with " + option[0]});
    refused(with({"--total", "--method", "exact"}), {"--total: not with " + option[0]});
    refused(with({"--overflow", "wrap", "--method", "exact"}),
            {"--overflow: not with " + option[0]});
    refused(with({"-", "--method", "exact"}), {"standard input: not with " + option[0]});
    refused(with({"--bound"}), {"--bound: not with " + option[0]});
    refused(with({"--json", "--out", folder}), {"--json: not with --out"});
    refused(with({"--device", "cuda", "--method", "sequential"}),
            {"--method sequential: not available with --device cuda"});
    if (option[0] != "--axis") refused(with({"--axis", "0"}), {option[0] + ": not with --axis"});
    if (option[0] != "--axis") refused(with({"--keepdims"}), {"--keepdims: is for --axis"});
    if (option[0] != "--keys") refused(with({"--outputs", "3"}), {"--outputs: is for --keys"});
  }
  refused({"sum", "--offsets", offsets, "--keys", keys, v}, {"--offsets: not with --keys"});
  check_usage({"reduce", "sum", "--out", file, v}, {"--out: is for --axis, --offsets or --keys"});
  check_usage({"reduce", "sum", "--keepdims", v}, {"--keepdims: is for --axis"});
  check_usage({"reduce", "sum", "--axis", "0", "--gpu-memory", "1", v},
              {"--gpu-memory: is for --device cuda"});
  check_usage({"reduce", "sum", "--bound", "--device", "cuda", "--gpu-memory", "1", v},
              {"--gpu-memory: is for --device cuda without --bound"});
  // Axes.
  for (const std::string axis : {"", "a", "0,", "0,x", "1.5", "99999999999999999999"})
    refused({"sum", "--axis", axis, x}, {"--axis: ", "no axis"});
  for (const std::string axis : {"2", "-3", "0,2"})
    refused({"sum", "--axis", axis, x}, {x + ": --axis ", "2 axes"});
  for (const std::string axis : {"0,0", "1,-1"})
    refused({"sum", "--axis", axis, x}, {x + ": --axis ", "twice"});
  refused({"dot", "--axis", "0", x, w}, {x + " and " + w, "broadcast"});
  refused({"dot", "--axis", "0", x}, {"FILE", "pairs"});
  refused({"dot", "--keys", keys, v, x}, {v + " and " + x, "shape"});
  // Extents of no elements, and more axes than there may be.
  const auto hostile = [&](const std::string& shape, std::size_t n, const std::string& axis,
                           const std::string& part) {
    refused({"sum", "--axis", axis, dir.write("x.npy", counting(shape, n))}, {x, part});
  };
  hostile("(0, 4611686018427387904, 4611686018427387904)", 0, "0", "results are too many");
  hostile("(0, 1152921504606846976)", 0, "0", "results are too many");
  hostile("(0, 4611686018427387904, 4611686018427387904)", 0, "1", "more than 2^60");
  hostile("(0, 9223372036854775808)", 0, "0", "does not fit i64");
  hostile("(1, 1, 1, 1, 1, 1, 1, 1, 1)", 1, "0", "9 axes");
  dir.write("x.npy", counting("(3, 4)", 12));
  // Offsets and keys.
  const auto places = [&](const std::string& option, const std::string& npy,
                          const std::vector<std::string>& parts) {
    const auto path = dir.write("o2.npy", npy);
    const auto r = bitfold_cli({"reduce", "sum", option, path, "--out", file, v});
    CAPTURE(r.err, option);
    CHECK(r.status == 2);
    CHECK(r.out.empty());
    CHECK(lines_of(r.err).size() == 1);
    for (const auto& part : parts) CHECK(contains(r.err, part));
    CHECK(contains(r.err, option));
    CHECK(contains(r.err, path));
    CHECK_FALSE(std::filesystem::exists(file));
    std::filesystem::remove(path);
  };
  places("--offsets", npy_of<std::int32_t>("<i4", {0, 3, 2}), {v, "offsets[2]: 2"});
  places("--offsets", npy_of<std::int32_t>("<i4", {0, 6}), {v, "offsets[1]: 6 of 5"});
  places("--offsets", npy_of<std::int32_t>("<i4", {-1, 5}), {v, "offsets[0]: -1"});
  places("--offsets", npy_of<std::int32_t>("<i4", {}), {v, "offsets: none"});
  places("--keys", npy_of<std::int32_t>("<i4", {0, 1, -2, 0, 0}), {v, "keys[2]: -2"});
  for (const std::string option : {"--offsets", "--keys"}) {
    places(option, npy_of<std::uint64_t>("<u8", {0, 1, 1ull << 63, 0, 0}),
           {"element 2: 9223372036854775808 does not fit i64"});
    places(option, npy_of({0, 1}), {"dtype: f32"});
    places(option, bytes::npy("<i4", "(2, 1)", bytes::of<std::int32_t>({0, 1})), {"shape: [2,1]"});
    places(option, bytes::safetensors("{}", ""), {"not a .npy file"});
    CHECK(bitfold_cli({"reduce", "sum", option, dir.path("nowhere"), v}).status == 3);
    refused({"sum", option, option == "--keys" ? keys : offsets, x}, {x, "shape: [3,4]", option});
  }
  places("--keys", npy_of<std::int64_t>("<i8", {0, 1, std::int64_t{1} << 50, 0, 0}), {"more than"});
  refused({"sum", "--keys", keys, "--outputs", "2", v},
          {v, "--keys " + keys + ": keys[1]: 2 is not from 0 to 1"});
  refused({"sum", "--keys", dir.write("k.npy", npy_of<std::int32_t>("<i4", {0, 1})), v},
          {v, "shape: [5]", "--keys has 2"});
  refused({"sum", "--keys", keys, "--outputs", "-1", v}, {"--outputs"});
  // What has no result.
  refused({"max", "--offsets", dir.write("o.npy", npy_of<std::int32_t>("<i4", {0, 2, 2, 5})), v},
          {v, "output 1", "max of none"});
  const auto none = dir.write("none.npy", counting("(0, 4)", 0));
  check_usage({"reduce", "argmin", "--axis", "0", none}, {none, "argmin of none"});
}

TEST_CASE("reduce --out: where it may write, and what fails there") {
  const bytes::directory dir;
  const auto x = dir.write("x.npy", counting("(3, 4)", 12)),
             keys = dir.write("k.npy", npy_of<std::int32_t>("<i4", {0}));
  const auto file = dir.path("r.npy"), folder = dir.path("folder");
  const std::string old = content(x);
  check_usage({"reduce", "sum,max", "--axis", "0", "--out", file, x},
              {"--out " + file, "2 operations", "folder"});
  check_usage({"reduce", "sum", "--axis", "0", "--out", file, x, x},
              {"--out " + file, "2 arrays", "folder"});
  const auto two = dir.write("two.safetensors",
                             bytes::safetensors("{" + bytes::tensor("a", "U8", "[1]", 0, 1) + "," +
                                                    bytes::tensor("b", "U8", "[1]", 1, 2) + "}",
                                                "ab"));
  const auto empty = dir.write("empty.safetensors", bytes::safetensors("{}", ""));
  check_usage({"reduce", "sum", "--axis", "0", "--out", file, two},
              {two, "--out " + file, "two results"});
  check_usage({"reduce", "sum", "--axis", "0", "--out", file, empty},
              {"--out " + file, "no array"});
  CHECK_FALSE(std::filesystem::exists(file));
  // Inputs are not written over, neither are results.
  check_usage({"reduce", "sum", "--axis", "0", "--out", x, x}, {x, "--out", "overwrite"});
  check_usage({"reduce", "sum", "--keys", keys, "--out", keys, two}, {keys, "--out", "overwrite"});
  CHECK(content(x) == old);
  const auto sum = dir.write("x.sum.npy", old);
  const auto over =
      bitfold_cli({"reduce", "max,sum", "--axis", "0", "--out", dir.path(""), x, sum});
  CHECK(over.status == 2);
  CHECK(lines_of(over.err).size() == 1);
  CHECK(contains(over.err, sum + ": is also --out"));
  CHECK(files_in(dir.path("")).erase("x.sum.sum.npy") == 1);  // of the other file
  CHECK(content(sum) == old);
  CHECK_FALSE(std::filesystem::exists(dir.path("x.max.npy")));
  check_usage({"reduce", "sum,sum", "--axis", "0", "--out", folder, x},
              {x, "folder/x.sum.npy: two results"});
  CHECK_FALSE(std::filesystem::exists(folder));
  const auto linked = dir.path("linked");  // two names of one file
  std::filesystem::create_directory(linked);
  std::filesystem::create_symlink("./x.max.npy", linked + "/x.sum.npy");
  check_usage({"reduce", "max,sum", "--axis", "0", "--out", linked, x},
              {x, "linked/x.sum.npy: two results"});
  CHECK(files_in(linked) == std::set<std::string>{"x.sum.npy"});
  std::filesystem::create_directory(dir.path("other"));
  const auto again = dir.write("other/x.npy", counting("(2, 2)", 4));
  const auto r = bitfold_cli({"reduce", "sum", "--axis", "0", "--out", folder, x, again});
  CHECK(r.status == 2);
  CHECK(contains(r.err, again));
  CHECK(contains(r.err, "two results"));
  CHECK(content(folder + "/x.sum.npy") ==
        bytes::npy("<f4", "(4,)", bytes::of<float>({12, 15, 18, 21})));
  // A file that fails leaves the others' results, and none of its own.
  const auto bad = dir.write("bad.npy", "\x93NUMPY"),
             flat = dir.write("flat.npy", counting("(4,)", 4));
  std::filesystem::remove_all(folder);
  const auto some = bitfold_cli({"reduce", "sum", "--axis", "1", "--out", folder, bad, flat, x});
  CHECK(some.status == 3);
  CHECK(lines_of(some.err).size() == 2);
  CHECK(files_in(folder) == std::set<std::string>{"x.sum.npy"});
  // Nor does one whose results cannot all be written; the files behind it are still reduced.
  std::filesystem::create_directories(folder + "/y.mean.npy");
  const auto y = dir.write("y.npy", counting("(2, 2)", 4));
  const auto half_written =
      bitfold_cli({"reduce", "max,mean,sum", "--axis", "0", "--out", folder, y, x});
  CHECK(half_written.status == 1);
  CHECK(contains(half_written.err, "y.mean.npy: cannot be written: "));
  CHECK(files_in(folder) ==
        std::set<std::string>{"x.max.npy", "x.mean.npy", "x.sum.npy", "y.mean.npy"});
  // Results that there is no memory for. (With a sanitizer that is the end.)
  const auto huge = dir.write("huge.npy", bytes::npy("<f4", "(70368744177664, 0)", ""));
  if (!test::sanitized) {
    const auto no_room = bitfold_cli({"reduce", "sum", "--axis", "1", huge, x});
    CHECK(no_room.status != 0);
    CHECK(contains(no_room.err,
                   huge + ": shape: the memory has no room for [70368744177664] results"));
    CHECK(contains(no_room.out, x));
    const auto single = dir.write("single.npy", npy_of({1}));
    check_usage({"reduce", "sum", "--keys", keys, "--outputs", "281474976710656", single},
                {single + ": --outputs: the memory has no room"});
  }
  // What cannot be written, or made.
  CHECK(
      bitfold_cli({"reduce", "sum", "--axis", "0", "--out", dir.path("no/where.npy"), x}).status ==
      1);
  const auto long_name = dir.write(std::string(249, 'x') + ".npy", counting("(2, 2)", 4));
  CHECK(bitfold_cli({"reduce", "sum", "--axis", "0", "--out", dir.path("new"), long_name}).status ==
        1);
  CHECK_FALSE(std::filesystem::exists(dir.path("new")));
  const auto in_a_file = bitfold_cli({"reduce", "sum", "--axis", "0", "--out", flat + "/below", x});
  CHECK(in_a_file.status == 1);
  CHECK(contains(in_a_file.err, "--out " + flat + "/below"));
  // Half-way: the old result stays, and nothing else is left.
  const auto kept = dir.write("kept.npy", old), one = dir.write("one.npy", npy_of({1}));
  const auto names = files_in(dir.path(""));
  rlimit limit;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{1 << 16, limit.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto half =
      bitfold_cli({"reduce", "sum", "--keys", keys, "--outputs", "100000", "--out", kept, one});
  ::setrlimit(RLIMIT_FSIZE, &limit);
  CAPTURE(half.err);
  CHECK(half.status == 1);
  CHECK(contains(half.err, "kept.npy: cannot be written: "));
  CHECK(content(kept) == old);
  CHECK(files_in(dir.path("")) == names);
}

TEST_CASE(
    "reduce --device cuda --axis, --offsets, --keys: the same lines and files, in one part and in "
    "many",
    "[cuda]") {
  const bytes::directory dir;
  std::vector<std::int64_t> offsets{1, 1}, keys(20'000);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = static_cast<std::int64_t>(i < 90 ? i : i * i % 91 % 90);
  while (offsets.back() < 19'000)
    offsets.push_back(offsets.back() + 1 +
                      static_cast<std::int64_t>(offsets.size() * offsets.size() % 400));
  const auto some = std::vector<std::int64_t>(offsets.begin() + 1, offsets.end());
  const auto with_empty = dir.write("empty.npy", npy_of("<i8", offsets)),
             without = dir.write("o.npy", npy_of("<i8", some)),
             keys_file = dir.write("k.npy", npy_of("<i8", keys));
  const auto on = [](const std::string& device, std::vector<std::string> arguments,
                     const std::string& out) {
    arguments.insert(arguments.begin(), "reduce");
    arguments.insert(arguments.end(), {"--device", device});
    if (!out.empty()) arguments.push_back("--out=" + out);
    return bitfold_cli(arguments);
  };
  // As if only so much memory were free, where it is given.
  const auto check = [&](const std::vector<std::string>& arguments, std::size_t memory) {
    auto limited = arguments;
    if (memory) limited.insert(limited.end(), {"--gpu-memory", std::to_string(memory)});
    const auto want = on("cpu", arguments, ""), got = on("cuda", limited, "");
    CAPTURE(limited, want.err, got.err);
    CHECK(want.status == 0);
    CHECK(got.status == 0);
    CHECK(got.err.empty());
    CHECK(got.out == want.out);
  };
  const std::size_t n = keys.size();
  for (const dtype t : {dtype::f32, dtype::bf16, dtype::i16}) {
    const auto data = test::make_data(t, test::kind::near_one, n, 1);
    const std::vector<std::byte> other(data.begin(),
                                       data.begin() + static_cast<std::ptrdiff_t>(40 * size_of(t)));
    const auto x = write_tensor(dir, "x.safetensors", t, {10, 40, 50}, data),
               y = write_tensor(dir, "y.safetensors", t, {40, 1}, other),
               v = write_tensor(dir, "v.safetensors", t, {static_cast<std::int64_t>(n)}, data);
    const std::size_t third = n * size_of(t) / 3;
    for (const char* axis : {"0", "1", "2", "0,2", "1,2", "0,1"}) {
      check({list_of(ops_of(1)), "--axis", axis, x}, 0);
      check({"sum,max", "--axis", axis, x}, third);
      check({"dot", "--axis", axis, x, y}, third);
    }
    check({list_of(ops_of(2)), "--axis", "-1", x, y}, 0);
    for (const std::vector<std::string>& groups :
         {std::vector<std::string>{"--offsets", without}, {"--keys", keys_file}})
      for (const std::size_t memory : {std::size_t{0}, (groups[0] == "--keys" ? 4 : 2) * third}) {
        check({memory ? "sum,max" : list_of(ops_of(1)), groups[0], groups[1], v}, memory);
        check({"dot", groups[0], groups[1], v, v}, memory);
      }
    check({"sum,any", "--offsets", with_empty, v}, 0);
    if (t != dtype::f32) continue;
    check({"sum", "--method", "exact", "--axis", "1", x}, third);
    check({"sum", "--method", "exact", "--keys", keys_file, "--outputs", "100", v}, 0);
    for (const char* device : {"cpu", "cuda"})
      CHECK(on(device, {"mean", "--axis", "1", x}, dir.path(device + std::string(".npy"))).status ==
            0);
    CHECK((content(dir.path("cuda.npy")) == content(dir.path("cpu.npy"))));
    // What does not fit, and what the CPU refuses too.
    const auto large =
        on("cuda", {"count_distinct", "--axis", "0,1,2", x, "--gpu-memory", std::to_string(third)},
           dir.path("none.npy"));
    CHECK(large.status == 2);
    CHECK(contains(large.err, x));
    CHECK(contains(large.err, "output 0: its 20000 elements are more than the GPU takes"));
    CHECK(contains(large.err, "count_distinct: sorts all elements at once"));
    CHECK_FALSE(std::filesystem::exists(dir.path("none.npy")));
    const auto falling = dir.write("falling.npy", npy_of<std::int64_t>("<i8", {0, 5, 4})),
               high = dir.write("high.npy", npy_of("<i8", std::vector<std::int64_t>(n, 7)));
    for (const std::vector<std::string>& bad :
         {std::vector<std::string>{"max", "--offsets", with_empty, v},
          {"sum", "--offsets", falling, v},
          {"sum", "--keys", high, "--outputs", "7", v}}) {
      const auto want = on("cpu", bad, ""), got = on("cuda", bad, "");
      CHECK(got.status == 2);
      CHECK(got.out.empty());
      CHECK(got.err == want.err);
    }
  }
}

TEST_CASE("reduce --device cuda: one output that is longer than the memory", "[cuda]") {
  const bytes::directory dir;
  const std::int64_t n = 300'000;
  const auto data = test::make_data(dtype::f32, test::kind::near_one, n, 1);
  const auto x = write_tensor(dir, "x.safetensors", dtype::f32, {3, n / 3}, data);
  std::vector<std::int64_t> keys(n, 1);
  keys[5] = keys[70'000] = 0;
  const auto v = write_tensor(dir, "v.safetensors", dtype::f32, {n}, data),
             keys_file = dir.write("k.npy", npy_of("<i8", keys)),
             offsets = dir.write("o.npy", npy_of<std::int64_t>("<i8", {1, 5, n - 3}));
  const std::string memory = std::to_string(n * 4 / 3);
  for (std::vector<std::string> arguments : {std::vector<std::string>{"sum,max,std,argmin", x},
                                             {"mean,norm_l2", "--method", "exact", "--json", x},
                                             {"dot,mse", x, x},
                                             {"sum,mean", "--method", "kahan", "--axis", "0,1", x},
                                             {"sum", "--keys", keys_file, v},
                                             {"var", "--offsets", offsets, v}}) {
    arguments.insert(arguments.begin(), "reduce");
    auto limited = arguments;
    limited.insert(limited.end(), {"--device", "cuda", "--gpu-memory", memory});
    auto want = bitfold_cli(arguments), got = bitfold_cli(limited);
    CAPTURE(limited, got.err);
    CHECK(got.status == 0);
    for (std::size_t at; (at = got.out.find("\"cuda\"")) != std::string::npos;)
      got.out.replace(at, 6, "\"cpu\"");
    CHECK(got.out == want.out);
  }
  const auto tiny = bitfold_cli({"reduce", "sum", "--device", "cuda", "--gpu-memory", "1000", x});
  CHECK(tiny.status == 2);
  CHECK(tiny.out.empty());
  CHECK(contains(tiny.err, "memory: "));
}

TEST_CASE("reduce --axis, --offsets, --keys: what docs/shapes.md shows") {
  const bytes::directory dir;
  dir.write("x.npy", counting("(2, 3, 4)", 24));
  dir.write("v.npy", counting("(10,)", 10));
  dir.write("w.npy", npy_of({1, 0, 0, 1}));
  dir.write("offsets.npy", npy_of<std::int64_t>("<i8", {0, 3, 3, 10}));
  dir.write("keys.npy", npy_of<std::int64_t>("<i8", {2, 0, 2, 2, 1, 0, 0, 0, 0, 2}));
  const std::string text = content(BITFOLD_SHAPES_DOC), start = "```sh\n";
  const auto begin = text.find(start);
  REQUIRE(begin != std::string::npos);
  const auto lines = lines_of(text.substr(
      begin + start.size(), text.find("```", begin + start.size()) - begin - start.size()));
  const auto here = std::filesystem::current_path();
  int commands = 0;
  for (std::size_t i = 0; i < lines.size(); ++commands) {
    std::istringstream words(lines[i].substr(0, lines[i].find(" #")));
    std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    REQUIRE(arguments.size() > 2);
    REQUIRE((arguments[0] == "$" && arguments[1] == "bitfold"));
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    std::string out;
    for (++i; i < lines.size() && lines[i][0] != '$'; ++i) out += lines[i] + "\n";
    std::filesystem::current_path(dir.path(""));
    const auto r = bitfold_cli(arguments);
    std::filesystem::current_path(here);
    CAPTURE(arguments, r.err);
    CHECK(r.status == 0);
    CHECK(r.out == out);
  }
  CHECK(commands == 6);
  CHECK(files_in(dir.path("stats")) == std::set<std::string>{"x.mean.npy", "x.max.npy"});
  CHECK(content(dir.path("rows.npy")) ==
        bytes::npy("<f4", "(2, 3, 1)", bytes::of<float>({6, 22, 38, 54, 70, 86})));
  CHECK(content(dir.path("bins.npy")) == npy_of({27, 4, 14, 0}));
}

// Empty, where it is said that the test is skipped.
static std::string python_with_numpy() {
  const char* chosen = std::getenv("BITFOLD_PYTHON");
  const std::string python = chosen ? chosen : "python3";
  if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return python;
  std::printf("skipped: %s has no module numpy\n", python.c_str());
  return "";
}

TEST_CASE("reduce: what NumPy writes", "[numpy]") {
  const bytes::directory dir;
  const std::string python = python_with_numpy();
  if (python.empty()) return;
  const auto script =
      dir.write("write.py",
                "import sys, numpy as np\n"
                "arrays = dict(a=np.float32([1, 2]), b=np.array([True, False, True]), "
                "c=np.zeros((300, 300)),\n"
                "              d=np.asfortranarray(np.arange(6, dtype='>i2').reshape(2, 3)))\n"
                "np.savez(sys.argv[1] + 'stored.npz', **arrays)\n"
                "np.savez_compressed(sys.argv[1] + 'deflated.npz', **arrays)\n"
                "np.savez(sys.argv[1] + 'complex.npz', z=np.complex128([1 + 2j]))\n");
  REQUIRE(std::system((python + " " + script + " " + dir.path("")).c_str()) == 0);
  for (const std::string name : {"stored.npz", "deflated.npz"}) {
    const auto file = dir.path(name);
    CHECK(bitfold_cli({"reduce", "sum", file}).out ==
          file + ":a  [2]  f32  3  40400000\n" + file + ":b  [3]  bool  2  0000000000000002\n" +
              file + ":c  [300,300]  f64  0  0000000000000000\n" + file +
              ":d  [2,3]  i16  15  000000000000000f\n");
  }
  const auto golden = dir.path("golden.json");
  CHECK(bitfold_cli({"record", dir.path("stored.npz"), "--out", golden}).status == 0);
  CHECK(bitfold_cli({"check", golden, dir.path("deflated.npz")}).out ==
        "1 file, 4 arrays: 4 same\n");
  CHECK(bitfold_cli({"record", dir.path("complex.npz"), "--out", golden}).status == 0);
  CHECK(bitfold_cli({"check", golden}).out == "1 file, 1 array: 1 same\n");
}

TEST_CASE("reduce --out: NumPy reads the files", "[numpy]") {
  const bytes::directory dir;
  const std::string python = python_with_numpy();
  if (python.empty()) return;
  const auto script =
      dir.write("read.py",
                "import sys, numpy\n"
                "for f in sys.argv[1:]:\n"
                "    x = numpy.load(f)\n"
                "    print(x.dtype.str, list(x.shape), x.flags.c_contiguous, x.tobytes().hex())\n");
  std::string files, wanted;
  for (const dtype t : tested_types()) {
    if (t == dtype::bf16) continue;
    const auto data = test::make_data(t, test::kind::special, 24, 6);
    const auto x = write_tensor(dir, std::string(name(t)) + ".safetensors", t, {2, 3, 4}, data);
    for (const auto& [axis, reduced, shape] : {std::tuple{"0", std::vector{0}, "[3, 4]"},
                                               {"0,2", {0, 2}, "[3]"},
                                               {"0,1,2", {0, 1, 2}, "[]"}}) {
      const std::string out = dir.path(std::string(name(t)) + axis + ".npy");
      REQUIRE(bitfold_cli({"reduce", "max", "--axis", axis, "--out", out, x}).status == 0);
      files += " " + out;
      const auto want = along(make_reduction(op_id::max, {}, t),
                              row_major(t, data.data(), {2, 3, 4}), nullptr, reduced, false);
      wanted += (size_of(t) == 1 ? "|" : "<") + std::string(name(t)).substr(0, 1) +
                std::to_string(size_of(t)) + " " + shape + " True ";
      for (const std::byte b : want.data) {
        char hex[3];
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(b));
        wanted += hex;
      }
      wanted += "\n";
    }
  }
  const auto got = dir.path("got");
  REQUIRE(std::system((python + " " + script + files + " > " + got).c_str()) == 0);
  CHECK(content(got) == wanted);
}
