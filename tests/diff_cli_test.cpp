// bitfold diff, as a user meets it.
#include <cmath>

#include <nlohmann/json.hpp>

#include <bitfold/arith.hpp>
#include <bitfold/testing.hpp>

#include "cli.hpp"

namespace {

using namespace bitfold;
using namespace cli;
using nlohmann::json;

std::vector<json> lines_of_json(const std::vector<std::string>& arguments, int status) {
  std::vector<std::string> all{"diff", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const outcome o = bitfold_cli(all);
  CAPTURE(o.err);
  CHECK(o.status == status);
  std::vector<json> found;
  for (const std::string& line : lines_of(o.out)) found.push_back(json::parse(line));
  return found;
}

// The largest distance and its place, one element after the other.
struct largest {
  double distance = 0;
  std::size_t at = 0;
  void add(double d, std::size_t i) {
    if (d > distance) distance = d, at = i;
  }
};

template <class T>
json expected(const std::vector<T>& x, const std::vector<T>& y) {
  std::size_t different = 0, first = 0, nan = 0;
  largest ulps, absolute, relative;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (testing::same_bits(x[i], y[i])) continue;
    if (different++ == 0) first = i;
    const std::uint64_t steps = testing::ulp_distance(x[i], y[i]);
    if constexpr (std::is_integral_v<T>) {
      absolute.add(static_cast<double>(steps), i);
    } else {
      const double p = arith::widen<double>(x[i]), q = arith::widen<double>(y[i]);
      if (std::isnan(p) != std::isnan(q)) {
        ++nan;
      } else if (!std::isnan(p)) {
        ulps.add(static_cast<double>(steps), i);
        absolute.add(std::abs(p - q), i);
        relative.add(std::abs(p - q) / std::max(std::abs(p), std::abs(q)), i);
      }
    }
  }
  json all{{"different", different}, {"first", json::array({first})}, {"one_nan", nan}};
  const auto put = [&](const char* name, const largest& l) {
    if (l.distance > 0) all[name] = {{"distance", l.distance}, {"at", json::array({l.at})}};
  };
  put("ulps", ulps);
  put("absolute", absolute);
  put("relative", relative);
  return all;
}

// Of floats none is so large that a difference is infinite, but of f16 and bf16.
template <class T>
T value_of(std::uint32_t bits) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits >> 7);
  else
    return arith::round_to<T>(static_cast<double>(bits >> 8) / 1024 - 8192);
}

// What expected() says of a line.
json seen(const json& line) {
  json all;
  for (const char* field : {"different", "first", "one_nan"}) all[field] = line.at(field);
  for (const char* field : {"ulps", "absolute", "relative"})
    if (line.contains(field))
      all[field] = {{"distance", line[field]["distance"].get<double>()}, {"at", line[field]["at"]}};
  return all;
}

}  // namespace

TEST_CASE("diff finds what a loop over all elements finds, of every type, for any threads") {
  const bytes::directory dir;
  for (const dtype type : tested_types()) {
    CAPTURE(name(type));
    visit(type, [&]<class T>(std::type_identity<T>) {
      const std::size_t n = (std::size_t{1} << 18) + 1000;  // more than one part
      std::vector<T> x(n), y;
      std::uint32_t seed = 1;
      const auto random = [&] { return seed = seed * 1664525u + 1013904223u; };
      for (T& v : x) v = value_of<T>(random());
      y = x;
      for (std::size_t i = 100; i < n; i += 1 + random() % 5000) {
        y[i] = value_of<T>(random());
        if constexpr (!std::is_integral_v<T>)
          if (random() % 8 == 0) y[i] = arith::canonical_nan<T>;
      }
      const std::string a = dir.write("a", bytes::of(x)), b = dir.write("b", bytes::of(y));
      const json want = expected(x, y);
      for (const std::string threads : {"1", "3"}) {
        const auto found =
            lines_of_json({"--dtype", std::string(name(type)), "--threads", threads, a, b}, 1);
        REQUIRE(found.size() == 2);
        CHECK(seen(found[0]) == want);
        CHECK(found[0]["elements"] == n);
        CHECK(found[1] == json{{"arrays", 1}, {"moved", 1}});
      }
    });
  }
}

TEST_CASE("diff tells which arrays differ, where and how far") {
  const bytes::directory dir;
  const std::string same = bytes::of<float>({1, 2}), zero = bytes::of<float>({0, 1, 2, 3}),
                    other = bytes::of<float>({-0.0f, 1, 4, 3});
  const auto a = dir.write("a.safetensors",
                           safetensors_of({{"same", "F32", "[2]", same},
                                           {"values", "F32", "[2,2]", zero},
                                           {"shape", "F32", "[2]", same},
                                           {"gone", "F32", "[2]", same},
                                           {"bits", "F4", "[4]", "\x12\x34"},
                                           {"flags", "BOOL", "[2]", std::string("\0\1", 2)}}));
  const auto b =
      dir.write("b.safetensors", safetensors_of({{"same", "F32", "[2]", same},
                                                 {"values", "F32", "[2,2]", other},
                                                 {"shape", "F32", "[1,2]", same},
                                                 {"bits", "F4", "[4]", "\x12\x54"},
                                                 {"flags", "BOOL", "[2]", std::string("\1\1", 2)},
                                                 {"fresh", "F32", "[2]", same}}));
  const outcome o = bitfold_cli({"diff", a, b});
  CHECK(o.status == 1);
  CHECK(o.err.empty());
  CHECK(o.out ==
        "moved   values  [2,2]  f32\n"
        "    elements        2 of 4, the first at [0,0]\n"
        "    absolute        2 at [1,0]: 2 (40000000) -> 4 (40800000)\n"
        "    relative        0.5 at [1,0]: 2 (40000000) -> 4 (40800000)\n"
        "    ulps            8388608 at [1,0]: 2 (40000000) -> 4 (40800000)\n"
        "changed shape  [2]  f32\n"
        "    shape           [2] -> [1,2]\n"
        "missing gone  [2]  f32\n"
        "moved   bits  [4]  f4\n"
        "    elements        1 of 4, the first at [3]\n"
        "moved   flags  [2]  bool\n"
        "    elements        1 of 2, the first at [0]\n"
        "new     fresh  [2]  f32\n"
        "7 arrays: 1 same, 3 moved, 1 changed, 1 missing, 1 new\n");
  CHECK(bitfold_cli({"diff", a, a}).out == "6 arrays: 6 same\n");
  CHECK(bitfold_cli({"diff", a, a}).status == 0);
  CHECK(bitfold_cli({"diff", "--tensor", "s*e", a, a}).out == "2 arrays: 2 same\n");
  const auto one = dir.write("one.npy", npy_of({1, 2}));  // arrays that are alone need no name
  CHECK(bitfold_cli({"diff", "--tensor", "same", a, one}).out == "1 array: 1 same\n");
  const auto left = dir.write("left.safetensors", safetensors_of({{"[ab]", "F32", "[2]", same},
                                                                  {"a", "F32", "[2]", same},
                                                                  {"l.0.b", "F32", "[2]", same}})),
             right =
                 dir.write("right.safetensors",
                           safetensors_of({{"[ab]", "F32", "[2]", same.substr(4) + same.substr(4)},
                                           {"a", "F32", "[2]", same},
                                           {"l.1.b", "F32", "[2]", same}}));
  CHECK(bitfold_cli({"diff", "--tensor", "[ab]", left, right}).out.starts_with("moved   [ab]  "));
  CHECK(bitfold_cli({"diff", "--tensor", "[a]", left, right}).out == "1 array: 1 same\n");
  CHECK(bitfold_cli({"diff", "--tensor", "l.*.b", left, right}).out ==
        "missing l.0.b  [2]  f32\nnew     l.1.b  [2]  f32\n2 arrays: 1 missing, 1 new\n");
  const auto alone = dir.write("alone.safetensors", safetensors_of({{"w", "F32", "[2]", same}}));
  CHECK(bitfold_cli({"diff", alone, one}).status == 0);
}

TEST_CASE("diff --ulps lets elements move so far, but makes no NaN a number") {
  const bytes::directory dir;
  const float nan = std::nanf("");
  const auto a = dir.write("a.npy", npy_of({1, 2, nan})),
             b = dir.write("b.npy", npy_of({1, std::nextafter(2.0f, 3.0f), nan})),
             c = dir.write("c.npy", npy_of({1, 2, 3}));
  CHECK(bitfold_cli({"diff", a, b}).status == 1);
  const outcome near = bitfold_cli({"diff", "--ulps", "1", a, b});
  CHECK(near.status == 0);
  CHECK(near.out.starts_with("within  "));
  CHECK(near.out.ends_with("1 array: 1 within 1 ulp\n"));
  CHECK(bitfold_cli({"diff", "--ulps", "0", a, b}).status == 1);
  CHECK(bitfold_cli({"diff", "--ulps", "100000000000", a, c}).status == 1);
}

TEST_CASE("diff refuses what it cannot compare") {
  const bytes::directory dir;
  const auto a = dir.write("a.npy", npy_of({1})), raw = dir.write("raw", "1234");
  check_usage({"diff"}, {"FILE"});
  check_usage({"diff", a}, {"FILE: 1 of them, where diff takes two"});
  check_usage({"diff", a, raw}, {raw + ": dtype: needed"});
  check_usage({"diff", "--ulps", "-1", a, a}, {"--ulps"});
  check_usage({"diff", "--tensor", "w", a, a}, {"--tensor 'w': no array of " + a});
  const auto gone = bitfold_cli({"diff", a, dir.path("gone.npy")});
  CHECK(gone.status == 3);
  CHECK(gone.out.empty());
  const auto huge = dir.path("huge");
  const auto r =
      bitfold_cli({"diff", "--dtype", "u8", huge, huge}, {.meanwhile = shorten_when_read(huge)});
  CHECK(r.status == 3);
  CHECK(r.out.empty());
  CHECK(r.err == "bitfold: " + huge + ": file: became shorter while it was read\n");
}
