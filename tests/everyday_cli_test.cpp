// What the command line is every day: check --json, record --tensor, --quiet, colours, progress.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli.hpp"
#include "environment.hpp"

namespace {

using namespace cli;
using bitfold::test::environment;
using nlohmann::json;

std::string recorded(const bytes::directory& dir, std::vector<std::string> arguments) {
  const std::string golden = dir.path("golden.json");
  arguments.insert(arguments.begin(), {"record", "--out", golden});
  const outcome r = bitfold_cli(arguments);
  CAPTURE(r.err);
  REQUIRE(r.status == 0);
  CHECK(r.out.empty());
  return golden;
}

std::vector<json> json_lines(const outcome& r) {
  std::vector<json> all;
  for (const std::string& line : lines_of(r.out)) all.push_back(json::parse(line));
  return all;
}

const std::string one = bytes::of<float>({1}), two = bytes::of<float>({2});

}  // namespace

TEST_CASE("check --json: an object for each array that differs, and a summary") {
  const bytes::directory dir;
  const auto a = dir.write("a.safetensors", safetensors_of({{"same", "F32", "[1]", one},
                                                            {"moved", "F32", "[1]", one},
                                                            {"shape", "F32", "[1]", one},
                                                            {"gone", "F32", "[1]", one}})),
             b = dir.write("b.npy", npy_of({1})), c = dir.write("c.npy", npy_of({1}));
  const auto golden = recorded(dir, {a, b, c});
  const outcome same = bitfold_cli({"check", "--json", golden});
  CHECK(same.status == 0);
  CHECK(json_lines(same) == std::vector<json>{json{{"files", 3}, {"arrays", 6}, {"same", 6}}});

  const float next = std::nextafter(1.0f, 2.0f);
  dir.write("a.safetensors", safetensors_of({{"same", "F32", "[1]", one},
                                             {"moved", "F32", "[1]", bytes::of<float>({next})},
                                             {"shape", "F32", "[1,1]", one},
                                             {"fresh", "F32", "[1]", one}}));
  dir.write("b.npy", "no file of NumPy's");
  std::filesystem::remove(c);
  const outcome r = bitfold_cli({"check", "--json", golden, a, b});
  CHECK(r.status == 3);
  const auto lines = json_lines(r);
  REQUIRE(lines.size() == 7);
  CHECK(lines[0]["file"] == a);
  CHECK(lines[0]["tensor"] == "moved");
  CHECK(lines[0]["verdict"] == "moved");
  CHECK(lines[0]["details"].size() == 2);
  CHECK(lines[0]["details"][0]["what"] == "content");
  CHECK(lines[0]["details"][0]["golden"] != lines[0]["details"][0]["now"]);
  CHECK(lines[0]["details"][1] == json{{"what", "sum"},
                                       {"method", "tree"},
                                       {"golden", 1},
                                       {"golden_bits", "3f800000"},
                                       {"now", 1.0000001},
                                       {"now_bits", "3f800001"},
                                       {"ulps", 1}});
  CHECK(lines[1]["details"] ==
        json::array({json{{"what", "shape"}, {"golden", {1}}, {"now", json::array({1, 1})}}}));
  CHECK(lines[2] ==
        json{{"file", a}, {"tensor", "gone"}, {"verdict", "missing"}, {"details", json::array()}});
  CHECK(lines[3]["verdict"] == "new");
  CHECK(lines[4]["verdict"] == "unread");
  CHECK(contains(lines[4]["error"].get<std::string>(), "b.npy: magic"));
  CHECK(lines[5] == json{{"file", c}, {"verdict", "missing"}});
  CHECK(lines[6] == json{{"files", 3},
                         {"arrays", 5},
                         {"same", 1},
                         {"moved", 1},
                         {"changed", 1},
                         {"missing", 1},
                         {"new", 1},
                         {"missing_files", 1},
                         {"unread_files", 1}});

  dir.write("c.npy", npy_of({next}));
  const outcome within = bitfold_cli(
      {"check", "--json", "--ulps", "1", recorded(dir, {dir.write("b.npy", npy_of({1}))}), c});
  CHECK(within.status == 0);
  CHECK(json_lines(within)[0]["verdict"] == "within");
  check_usage({"check", "--json", "--quiet", golden}, {"--json", "--quiet"});
}

TEST_CASE("check --json of pairs") {
  const bytes::directory dir;
  const auto a = dir.write("a.npy", npy_of({1})), b = dir.write("b.npy", npy_of({1}));
  const auto golden = recorded(dir, {"--ops", "dot", a, b});
  dir.write("b.npy", npy_of({2}));
  const auto lines = json_lines(bitfold_cli({"check", "--json", golden}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["file"] == a);
  CHECK(lines[0]["file2"] == b);
  CHECK(lines[0]["tensor"].is_null());
  CHECK(lines[0]["details"][1]["what"] == "content2");
}

TEST_CASE("record --tensor: names and patterns, and check looks at no others") {
  const bytes::directory dir;
  const auto file = [&](const std::string& name, const std::string& bias,
                        const char* more = nullptr) {
    std::vector<tensor> all{{"layers.0.weight", "F32", "[1]", one},
                            {"layers.0.bias", "F32", "[1]", bias},
                            {"layers.1.bias", "F32", "[1]", bias},
                            {"layers.[01].bias", "F32", "[1]", bias},
                            {"head", "F32", "[1]", one}};
    if (more) all.push_back({more, "F32", "[1]", one});
    return dir.write(name, safetensors_of(all));
  };
  const auto a = file("a.safetensors", one), alone = dir.write("alone.npy", npy_of({1}));
  const auto names = [&](const std::string& golden) {
    std::vector<std::string> all;
    const json read = json::parse(content(golden));
    for (const json& f : read["files"])
      for (const json& array : f["arrays"]) all.push_back(array["name"]);
    return all;
  };
  const auto golden = recorded(dir, {"--tensor", "layers.0.*", "--tensor", "head", a, alone});
  CHECK(names(golden) == std::vector<std::string>{"layers.0.weight", "layers.0.bias", "head", ""});
  CHECK(bitfold_cli({"check", golden}).out == "2 files, 4 arrays: 4 same\n");
  file("a.safetensors", one, "layers.2.bias");
  CHECK(bitfold_cli({"check", golden}).status == 0);
  file("a.safetensors", one, "layers.0.more");
  CHECK(contains(bitfold_cli({"check", golden}).out, "new     " + a + ":layers.0.more\n"));

  // What is a name means that array alone, now and when it is checked.
  file("a.safetensors", one);
  const auto literal = recorded(dir, {"--tensor=layers.[01].bias", a});
  CHECK(names(literal) == std::vector<std::string>{"layers.[01].bias"});
  CHECK(bitfold_cli({"check", literal}).out == "1 file, 1 array: 1 same\n");

  // In shards that were cut anew.
  const auto shards = recorded(dir, {"--tensor", "layers.*.bias", file("x.safetensors", one)});
  const auto first = dir.write("first.safetensors",
                               safetensors_of({{"layers.0.bias", "F32", "[1]", one},
                                               {"head", "F32", "[1]", one}})),
             second = dir.write("second.safetensors",
                                safetensors_of({{"layers.1.bias", "F32", "[1]", one},
                                                {"layers.[01].bias", "F32", "[1]", one}}));
  CHECK(bitfold_cli({"check", shards, first, second}).status == 0);

  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), {"record", "--out", dir.path("no.json")});
    check_usage(arguments, {why});
    CHECK_FALSE(std::filesystem::exists(dir.path("no.json")));
  };
  refused({"--tensor", "lairs.*", a}, "--tensor 'lairs.*': no array of " + a + " has such a name");
  refused({"--tensor", "heat", a}, "no array of " + a + " has such a name; did you mean head?");
  refused({"--tensor", "head", "--tensor", "x*", a, alone}, "'x*': no array of the 2 files has");
}

TEST_CASE("--quiet: check and diff say nothing but errors, and the status tells") {
  const bytes::directory dir;
  const auto a = dir.write("a.npy", npy_of({1}));
  const auto golden = recorded(dir, {a});
  const auto b = dir.write("b.npy", npy_of({2}));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", "-q", golden, b}, {"diff", "--quiet", a, b}}) {
    const outcome r = bitfold_cli(arguments);
    CHECK(r.status == 1);
    CHECK((r.out + r.err).empty());
  }
  const outcome gone = bitfold_cli({"check", "-q", golden, dir.path("gone.npy")});
  CHECK(gone.status == 3);
  CHECK(gone.out.empty());
  CHECK(contains(gone.err, "gone.npy"));
  const auto report = dir.path("report.xml");
  CHECK(bitfold_cli({"check", "-q", "--junit", report, golden, b}).status == 1);
  CHECK(contains(content(report), "failures=\"1\""));
}

TEST_CASE("colours are for terminals, and not where NO_COLOR or TERM forbid them") {
  const bytes::directory dir;
  const auto a = dir.write("a.npy", npy_of({1}));
  const auto golden = recorded(dir, {a});
  const auto b = dir.write("b.npy", npy_of({2}));
  const auto seen = [&](const std::vector<std::string>& arguments, bool on_err) {
    return shown_on_a_terminal([&](const std::string& terminal) {
      bitfold_cli(arguments,
                  on_err ? surroundings{.err = terminal} : surroundings{.out = terminal});
    });
  };
  const std::vector<std::string> check{"check", golden, b}, diff{"diff", a, b}, wrong{"diff", a};
  const std::string red = "\x1b[31m", plain = "\x1b[0m";
  const environment terminal("TERM", "xterm");
  CHECK(contains(seen(check, false), red + "moved" + plain + "   " + a));
  CHECK(seen(diff, false).starts_with(red + "moved" + plain + "   " + a));
  CHECK(contains(seen({"diff", a, a}, false), "\x1b[32msame" + plain));
  CHECK(seen(wrong, true).starts_with(red + "bitfold:" + plain + " FILE"));
  CHECK_FALSE(contains(bitfold_cli(check).out, "\x1b"));
  CHECK_FALSE(contains(bitfold_cli(wrong).err, "\x1b"));
  for (const auto& [name, value] : {std::pair{"NO_COLOR", "1"}, {"TERM", "dumb"}}) {
    const environment forbids(name, value);
    CHECK_FALSE(contains(seen(check, false), "\x1b"));
    CHECK_FALSE(contains(seen(wrong, true), "\x1b"));
    ::setenv("TERM", "xterm", 1);
  }
}

// They take longer because they are stopped for a second.
TEST_CASE("a progress bar on a terminal, where it takes longer, and none with --quiet") {
  const bytes::directory dir;
  const std::string path = dir.path("long"), golden = dir.path("golden.json");
  // It is stopped while it reads, which takes longer where all is sanitized.
  make_holes(path, std::uintmax_t{1} << (bitfold::test::sanitized ? 28 : 31));
  const auto seen = [&](std::vector<std::string> arguments) {
    return shown_on_a_terminal([&](const std::string& terminal) {
      const outcome r =
          bitfold_cli(arguments, {.err = terminal, .meanwhile = when_read(path, [](pid_t child) {
                                                     ::kill(child, SIGSTOP);
                                                     std::this_thread::sleep_for(
                                                         std::chrono::milliseconds(1100));
                                                     ::kill(child, SIGCONT);
                                                   })});
      CHECK(r.status == 0);
    });
  };
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"record", "--dtype", "u8", "--out", golden, path},
        {"check", golden},
        {"reduce", "sum", "--dtype", "u8", path}}) {
    const std::string shown = seen(arguments);
    CAPTURE(arguments, shown);
    CHECK(shown.starts_with("\r["));
    CHECK(contains(shown, " %  elapsed 0:0"));
    CHECK(contains(shown, path));
  }
  CHECK(seen({"reduce", "sum", "--quiet", "--dtype", "u8", path}).empty());
}

TEST_CASE("NVRTC of PyPI's packages is found, in the environment of the python3 that PATH finds") {
  const bytes::directory dir;
  const std::filesystem::path python(dir.path("environment"));
  const auto lib = python / "lib/python3.12/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(lib);
  std::filesystem::create_directories(python / "bin");
  std::ofstream(python / "bin/python3");
  std::filesystem::create_symlink(BITFOLD_STAND_IN_NVRTC, lib / "libnvrtc.so.13");
  const environment files("BITFOLD_CACHE", dir.path("kernels"));
  const auto said = [] { return lines_of(bitfold_cli({"info"}).out).at(3); };
  const std::string path = std::getenv("PATH");
  const environment found("PATH", (python / "bin").string() + ":" + path);
  CHECK(said() == "gpu compiler NVRTC 13.77");
  {
    const environment behind("PATH", path + ":" + (python / "bin").string());
    CHECK(said() != "gpu compiler NVRTC 13.77");  // another python3 comes first
  }
  const environment named("BITFOLD_NVRTC", "/there/is/none");
  CHECK(said() == "gpu compiler none (NVRTC is not installed)");
}
