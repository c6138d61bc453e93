// The suite and its report: wrong contestants are exposed, right ones are not; reports are read,
// written and compared.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include <bitfold/cpu.hpp>
#include <bitfold/reference.hpp>

#include "accuracy/inputs.hpp"
#include "accuracy/measures.hpp"
#include "accuracy/report.hpp"
#include "accuracy/suite.hpp"
#include "accuracy/suite/studies.hpp"
#include "catch.hpp"
#include "gpu/kernels.hpp"
#include "io_bytes.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;

namespace {

contestant_info info_of_test(const std::string& id, std::string acc,
                             std::optional<reduction> promise = {}) {
  return {.id = id,
          .name = id,
          .family = "test",
          .device = "cpu",
          .about = "for this test",
          .in = dtype::f32,
          .acc = std::move(acc),
          .out = dtype::f32,
          .promise = promise,
          .bound = promise};
}

// A contestant that promises the bits of a method in f32, and does something else or the same.
class liar final : public contestant {
 public:
  using sum = scalar (*)(const array_view& x, const reduction& r, int threads);
  liar(std::string id, sum f, method_id method = method_id::tree)
      : contestant(info_of_test(id, "f32", make_reduction(op_id::sum, method, dtype::f32))),
        f_(f) {}
  std::vector<variation> variations() const override {
    return {{"1 thread", true, 1}, {"3 threads", false, 3}};
  }
  scalar run(const array_view& x, std::size_t way) override {
    return f_(x, *info.promise, variations()[way].threads);
  }

 private:
  sum f_;
};

scalar honest(const array_view& x, const reduction& r, int threads) {
  return cpu::reduce(r, x.data, x.n, {.threads = threads});
}
scalar drops_one(const array_view& x, const reduction& r, int threads) {
  return cpu::reduce(r, x.data, x.n - 1, {.threads = threads});
}
scalar one_ulp_off(const array_view& x, const reduction& r, int threads) {
  scalar s = honest(x, r, threads);
  return {s.type, s.bits + 1};
}
// Right on one thread; on more, each thread sums its share.
scalar order_by_threads(const array_view& x, const reduction& r, int threads) {
  const auto* p = static_cast<const std::byte*>(x.data);
  const std::size_t share = x.n / static_cast<std::size_t>(threads);
  float total = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t) {
    const std::size_t first = t * share;
    const std::size_t count = t + 1 == static_cast<std::size_t>(threads) ? x.n - first : share;
    float part;
    const scalar s = reference(r, p + first * sizeof part, count);
    store_scalar(s, &part);
    total += part;
  }
  return load_scalar(dtype::f32, &total);
}
// Far outside of the bound.
scalar doubles(const array_view& x, const reduction& r, int threads) {
  float v;
  store_scalar(honest(x, r, threads), &v);
  v *= 2;
  return load_scalar(dtype::f32, &v);
}

// Off by more than what the additions that were done allow, by less than what any could.
scalar beyond_running_bound(const array_view& x, const reduction& r, int) {
  const real exact = sum_exactly(x.type, x.data, x.n).sum;
  return round_correctly(exact + 1.1 * trace_of(r, x.data, x.n).running_bound, dtype::f32);
}

scalar looks_at_the_order(const array_view& x, const reduction& r, int threads) {
  const auto* p = static_cast<const float*>(x.data);
  return (p[0] < p[1] ? one_ulp_off : honest)(x, r, threads);
}

// A short run: the sameness of bits, and two inputs.
json run(contestants& who) {
  json report = start_report(who, {}, "a test");
  for (const unit& u : plan(who, {}))
    if (u.key.starts_with("integers/") || u.key.starts_with("bits/") ||
        u.key.starts_with("inputs/f32/normal/") || u.key.starts_with("length/f32/uniform/16") ||
        u.key.starts_with("speed/f32/1024"))
      add_rows(report, u.run());
  add_headlines(report);
  return report;
}

json run(liar::sum f, method_id method = method_id::tree) {
  contestants who;
  who.list.push_back(std::make_unique<liar>("suspect", f, method));
  return run(who);
}

bool has_finding(const json& report, std::string_view kind, std::string_view where) {
  return std::any_of(report["findings"].begin(), report["findings"].end(), [&](const json& f) {
    return f["contestant"] == "suspect" && f["kind"] == kind &&
           f["where"].get<std::string>().find(where) != std::string::npos;
  });
}

std::filesystem::path write(const std::string& text) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("bitfold-report-test-{}.json", getpid());
  std::ofstream(path) << text;
  return path;
}

std::string message_of(const std::string& text) {
  const auto path = write(text);
  try {
    read_report(path);
  } catch (const error& e) {
    std::filesystem::remove(path);
    CHECK(e.code() == errc::bad_input);
    return e.what();
  }
  std::filesystem::remove(path);
  return "";
}

}  // namespace

TEST_CASE("an honest contestant keeps its promises") {
  const json report = run(honest);
  CHECK(report["findings"].empty());
  for (const json& row : report["bits"]) CHECK(row["equal"] == true);
  CHECK(report["bits"].size() == 2);
  CHECK(report["speed"].size() == 1);
  CHECK(report["headlines"].size() == 5);
  CHECK(report["headlines"][0]["value"] == "2 of 2");
}

TEST_CASE("a dropped element is exposed") {
  const json report = run(drops_one);
  CHECK(has_finding(report, "bits", "normal"));
  CHECK(has_finding(report, "bound", "uniform"));
  CHECK(report["headlines"][0]["value"] == "0 of 2");
  CHECK(summary(report).find("BROKEN PROMISE  suspect: bits") != std::string::npos);
}

TEST_CASE("a result that is one ulp off is exposed") {
  const json report = run(one_ulp_off);
  CHECK(has_finding(report, "bits", "normal"));
  CHECK(has_finding(report, "bits", "1 thread, array"));
}

TEST_CASE("an order that depends on the number of threads is exposed") {
  const json report = run(order_by_threads);
  CHECK(has_finding(report, "bits", "3 threads, array"));
  CHECK_FALSE(has_finding(report, "bits", "1 thread,"));
  CHECK(report["bits"][0]["equal"] == true);
  CHECK(report["bits"][1]["equal"] == false);
  CHECK(report["bits"][0]["digest"] != report["bits"][1]["digest"]);
  CHECK(report["headlines"][0]["value"] == "1 of 2");
}

TEST_CASE("an error above the bound is exposed") {
  CHECK(has_finding(run(doubles), "bound", "normal"));
}

TEST_CASE("an exact sum that depends on the order of the elements is exposed") {
  const auto permutations = [](const json& report) {
    for (const json& row : report["accuracy"])
      if (row["study"] == "inputs") return row["permutations"];
    return json();
  };
  const json kept = run(honest, method_id::exact);
  CHECK(kept["findings"].empty());
  CHECK(permutations(kept) == json{{"tried", 4}, {"distinct", 1}});
  const json broken = run(looks_at_the_order, method_id::exact);
  CHECK(has_finding(broken, "bits", ", permutation "));
  CHECK(permutations(broken) == json{{"tried", 4}, {"distinct", 2}});
  // To the other methods another order is another input.
  CHECK(permutations(run(honest))["distinct"] > 1);
}

TEST_CASE("the price of the truth is exact's time over tree's at the same length") {
  contestants who;
  who.list.push_back(std::make_unique<liar>("bitfold/sum/tree/f32/f32/f32/cpu", honest));
  who.list.push_back(
      std::make_unique<liar>("bitfold/sum/exact/f32/exact/f32/cpu", honest, method_id::exact));
  json report = run(who);
  REQUIRE(report["speed"].size() == 2);
  report["speed"][0].update(
      {{"seconds", 2e-7}, {"fastest", 1e-7}, {"slowest", 4e-7}, {"noisy", false}});
  report["speed"][1].update(
      {{"seconds", 3e-7}, {"fastest", 2e-7}, {"slowest", 9e-7}, {"noisy", false}});
  const auto price = [&] {
    add_headlines(report);
    return report["headlines"].back();
  };
  CHECK(price()["value"] == "1.50×");
  CHECK(price()["label"].get<std::string>().ends_with(": exact, f32, n = 2^10"));
  for (const std::size_t noisy : {0u, 1u}) {
    report["speed"][noisy]["noisy"] = true;
    CHECK(price()["value"] == "noisy, 0.50× to 9.00×");
    report["speed"][noisy]["noisy"] = false;
  }
  for (json& row : report["speed"]) row.erase("noisy"), row.erase("fastest"), row.erase("slowest");
  CHECK(price()["value"] == "1.50×");  // of the first reports nobody knows
  report["speed"][1]["n"] = 2048;
  CHECK(price()["label"] == "not measured");
}

TEST_CASE("the speed shows its noise, the load and whether the data lie in a cache") {
  contestants who;
  for (const auto& [name, method] :
       {std::pair{"tree", method_id::tree}, {"kahan", method_id::kahan}})
    who.list.push_back(std::make_unique<liar>(fmt::format("bitfold/sum/{}/f32/f32/f32/cpu", name),
                                              honest, method));
  json report = run(who);
  REQUIRE(report["speed"].size() == 2);
  for (json& row : report["speed"])
    row.update({{"seconds", 2e-7},
                {"fastest", 1e-7},
                {"slowest", 8e-7},
                {"noisy", false},
                {"gbps", 10},
                {"ceiling_ratio", 0.5}});
  report["machine"]["cores"] = 2;
  report["machine"]["cpu_cache"] = 4096;
  for (json& row : report["ceilings"]) row["others"] = 1.5;
  const auto headline = [&] {
    add_headlines(report);
    return report["headlines"][2];
  };
  const auto note = [&] { return headline()["note"].get<std::string>(); };
  CHECK(headline()["value"] == "50 %");
  CHECK(note().starts_with("10 GB/s, kahan 10 GB/s, of 4 KiB, which fit in 4 KiB of cache, on "));
  CHECK(note().find(", of whose 2 cores others kept 1.5 busy, ") != std::string::npos);
  report["machine"]["cpu_cache"] = 4095;
  CHECK(note().find("which do not fit in ") != std::string::npos);
  report["speed"][0]["noisy"] = true;
  CHECK(headline()["value"] == "noisy, 12 % to 100 %");
  CHECK(note().starts_with("noisy, 2.5 to 20 GB/s, kahan 10 GB/s, "));
  CHECK(compare(report, report).text.find(" ~10 ") != std::string::npos);
  CHECK(summary(report).find("~10.0") != std::string::npos);
  for (json& row : report["ceilings"]) row["others"] = nullptr;
  report["machine"].erase("cpu_cache");
  CHECK(note().find("cache") == std::string::npos);
  CHECK(note().find("busy") == std::string::npos);
}

namespace {

// Takes its time: as long as `times` say, one call after the other.
class unsteady final : public contestant {
 public:
  explicit unsteady(std::vector<double> times)
      : contestant(info_of_test("unsteady", "f32")), times_(std::move(times)) {}
  scalar run(const array_view& x, std::size_t) override {
    return cpu::reduce(make_reduction(op_id::sum, method_id::tree, dtype::f32), x.data, x.n);
  }
  std::vector<double> seconds(const array_view&, std::size_t, int times) override {
    ++calls;
    std::vector<double> out;
    for (int k = 0; k < times; ++k) out.push_back(times_[at_++ % times_.size()]);
    return out;
  }
  int calls = 0;

 private:
  std::vector<double> times_;
  std::size_t at_ = 0;
};

}  // namespace

TEST_CASE("what is noisy is timed again, and says so") {
  const auto timed = [](std::vector<double> times) {
    contestants who;
    who.list.push_back(std::make_unique<unsteady>(std::move(times)));
    json row;
    for (const unit& u : plan(who, {}))
      if (u.key.starts_with("speed/f32/1024")) row = u.run()["speed"].at(0);
    return std::pair(row, static_cast<unsteady&>(*who.list[0]).calls);
  };
  const auto [calm, once] = timed({1e-3, 1.01e-3});
  CHECK(once == 2);  // how long it takes, and the runs
  CHECK(calm["noisy"] == false);
  CHECK(calm["fastest"] == 1e-3);
  CHECK(calm["slowest"] == 1.01e-3);
  const auto [noisy, again] = timed({1e-3, 3e-3});
  CHECK(again == 4);
  CHECK(noisy["noisy"] == true);
  CHECK(noisy["fastest"] == 1e-3);
  CHECK(noisy["slowest"] == 3e-3);
  // An outlier of the first runs is one of many then.
  std::vector<double> times(40, 1e-3);
  times[3] = 1.3e-3;
  const auto [settled, repeated] = timed(times);
  CHECK(repeated == 3);
  CHECK(settled["noisy"] == false);
  CHECK(timed({0.7}).first["noisy"] == nullptr);  // a single run
}

TEST_CASE("a peer that fails is left out and named; bitfold may not fail") {
  struct failing final : contestant {
    explicit failing(contestant_info i) : contestant(std::move(i)) {}
    scalar run(const array_view& x, std::size_t) override {
      if (x.n > 100) throw error(errc::bad_input, "too long for me");
      return {dtype::f32, 0};
    }
  };
  contestants who;
  who.list.push_back(std::make_unique<failing>(info_of_test("weak", "")));
  const json report = run(who);
  CHECK(report["findings"].empty());
  CHECK(report["failures"].size() == 4);  // each unit but the short one
  for (const json& f : report["failures"]) CHECK(f["why"] == "too long for me");
  REQUIRE(report["accuracy"].size() == 1);
  CHECK(report["accuracy"][0]["n"] == 16);
  CHECK(report["bits"].empty());
  CHECK(summary(report).find("Failed: weak at bits: too long for me") != std::string::npos);

  contestants bad;
  bad.list.push_back(std::make_unique<failing>(
      info_of_test("weak", "", make_reduction(op_id::sum, method_id::tree, dtype::f32))));
  for (const unit& u : plan(bad, {}))
    if (u.key.starts_with("bits/") || u.key.starts_with("inputs/f32/normal/"))
      CHECK_THROWS_AS(u.run(), error);
}

TEST_CASE("a peer that cannot add is wrong here, which breaks no promise") {
  // Of long arrays it leaves out the last element on two threads, as a kernel for one CPU may.
  struct miscounting final : contestant {
    explicit miscounting(contestant_info i) : contestant(std::move(i)) {}
    std::vector<variation> variations() const override {
      return {{"1 thread", true, 1}, {"2 threads", true, 2}};
    }
    scalar run(const array_view& x, std::size_t way) override {
      return reference(make_reduction(op_id::sum, method_id::tree, x.type), x.data,
                       x.n - (way == 1 && x.n > 100 ? 1 : 0));
    }
  };
  contestants who;
  for (dtype t : {dtype::f32, dtype::i32, dtype::u8})
    who.list.push_back(std::make_unique<miscounting>(
        contestant_info{.id = "weak/" + std::string(name(t)),
                        .name = "weak",
                        .family = "test",
                        .device = "cpu",
                        .about = "",
                        .in = t,
                        .acc = "",
                        .out = make_reduction(op_id::sum, method_id::tree, t).out()}));
  json report = run(who);
  REQUIRE(report["wrong"].size() == 3);
  const exact_input x = small_integers(1000, 1000, false);
  const auto text = [](double v) { return fmt::format("{:.0f}", v); };
  CHECK(report["wrong"][0] == json{{"contestant", "weak/f32"},
                                   {"variation", "2 threads"},
                                   {"where", "f32[1000]"},
                                   {"expected", text(x.sum)},
                                   {"got", text(x.sum - x.x.back())}});
  CHECK(report["wrong"][1]["where"] == "i32[1000]");
  CHECK(report["wrong"][2]["where"] == "u8[1000]");
  CHECK(report["findings"].empty());
  CHECK(report["failures"].empty());
  CHECK_FALSE(report["accuracy"].empty());
  const std::string shown = summary(report);
  CHECK(shown.find("Wrong here: weak/f32, 2 threads: the small integers f32[1000] sum to " +
                   text(x.sum) + ", got ") != std::string::npos);
  CHECK(shown.find("small integers               1       wrong here") != std::string::npos);

  const auto path = write(report_text(report));
  CHECK(read_report(path) == report);
  json changed = report;
  changed["wrong"][0]["contestant"] = "nobody";
  CHECK(message_of(report_text(changed)).find("wrong.contestant: ") != std::string::npos);
  changed["wrong"][0].erase("contestant");
  CHECK(message_of(report_text(changed)).find("wrong[0].contestant: ") != std::string::npos);
  changed["wrong"] = 1;
  CHECK(message_of(report_text(changed)).find("wrong: ") != std::string::npos);
  report.erase("wrong");  // as in the first reports
  write(report_text(report));
  CHECK(read_report(path) == report);
  CHECK(summary(report).find("rong here") == std::string::npos);
  std::filesystem::remove(path);
}

TEST_CASE("who can add is not wrong") {
  contestants who;
  add_plain(who);
  for (const auto& c : who.list) CHECK(wrong_sums(*c).empty());
  for (const unit& u : plan(who, {}))
    if (u.key.starts_with("integers/")) CHECK(u.run()["wrong"].empty());
  CHECK(run(honest)["wrong"].empty());
}

TEST_CASE("an error above the running bound alone is exposed") {
  const json report = run(beyond_running_bound);
  const auto is_about = [](std::string_view bound) {
    return [bound](const json& f) {  // on the long array: on short ones the two bounds are close
      return f["kind"] == "bound" && f["where"].get<std::string>().starts_with("normal f32[2") &&
             f["expected"].get<std::string>().find(bound) != std::string::npos;
    };
  };
  CHECK(std::any_of(report["findings"].begin(), report["findings"].end(), is_about("running")));
  CHECK(std::none_of(report["findings"].begin(), report["findings"].end(), is_about("a-priori")));
}

TEST_CASE("a wrong sum is exposed where only time is measured") {
  contestants who;
  who.list.push_back(std::make_unique<liar>("suspect", one_ulp_off));
  for (const unit& u : plan(who, {}))
    if (u.key == "speed/f32/1024") {
      const json rows = u.run();
      REQUIRE(rows["findings"].size() == 1);
      CHECK(rows["findings"][0]["where"] == "speed, f32[1024], 1 thread");
    }
}

namespace {

// Sums rows and columns, and may look at how many there are.
class along_axes final : public contestant {
 public:
  using result = scalar (*)(const reduction& r, const view& x, const matrix& as);
  along_axes(bool promises, result f)
      : contestant(info_of_test("suspect", "f32", promises ? std::optional(tree) : std::nullopt)),
        f_(f) {}
  scalar run(const array_view& x, std::size_t) override { return cpu::reduce(tree, x.data, x.n); }
  bool has_axes() const override { return true; }
  scalar run_along(const array_view& x, const matrix& as, std::size_t) override {
    CHECK(as.rows * as.columns == x.n);
    return f_(
        tree,
        row_major(x.type, x.data,
                  {static_cast<std::int64_t>(as.rows), static_cast<std::int64_t>(as.columns)}),
        as);
  }

 private:
  inline static const reduction tree = make_reduction(op_id::sum, method_id::tree, dtype::f32);
  const result f_;
};

scalar first_by(const reduction& r, const view& x, const matrix& as) {
  std::vector<float> sums(as.outputs());
  cpu::reduce(r, x, {as.axis}, sums.data());
  return load_scalar(dtype::f32, sums.data());
}
scalar first_alone(const reduction& r, const view& x, const matrix& as) {
  return first_by(r, x, as);
}
// Where there are many, as NumPy's columns, one element after the other.
scalar first_by_batch(const reduction& r, const view& x, const matrix& as) {
  return first_by(
      as.outputs() < 64 ? r : make_reduction(op_id::sum, method_id::sequential, dtype::f32), x, as);
}

json run_shapes(bool promises, along_axes::result f) {
  contestants who;
  who.list.push_back(std::make_unique<along_axes>(promises, f));
  json report = start_report(who, {}, "a test");
  for (const unit& u : plan(who, {}))
    if (u.key.starts_with("batches/") || u.key == "shapes/f32/columns/256/cpu")
      add_rows(report, u.run());
  add_headlines(report);
  return report;
}

}  // namespace

TEST_CASE("a batch that shows is exposed, in rows and in columns") {
  const json kept = run_shapes(true, first_alone), broken = run_shapes(true, first_by_batch),
             peer = run_shapes(false, first_by_batch);
  CHECK(kept["batches"].size() == 2 * 4);
  CHECK(kept["findings"].empty());
  for (const json& row : kept["batches"]) {
    CHECK(row["distinct"] == 1);
    CHECK(row["changed"].is_null());
    CHECK(row["largest"] == (row["length"] == 65536 ? 64 : 1024));
  }
  CHECK(summary(kept).find("suspect, cpu                          rows: 4 of 4 columns: 4 of 4") !=
        std::string::npos);
  // Where 16 elements have one order by both methods, nothing can show.
  for (const json* report : {&broken, &peer})
    for (const json& row : (*report)["batches"]) {
      if (row["length"] == 16) continue;
      CHECK(row["distinct"] == 2);
      CHECK(row["changed"] == 64);
    }
  for (const char* where :
       {"rows of 256 f32, the first of 64", "columns of 4096 f32, the first of 1024"}) {
    CHECK(has_finding(broken, "bits", where));
    CHECK_FALSE(has_finding(peer, "bits", where));
  }
  CHECK_FALSE(has_finding(broken, "bits", "the first of 2,"));
  CHECK(peer["findings"].empty());
  REQUIRE(kept["shapes"].size() == 1);
  CHECK(kept["shapes"][0]["outputs"] == 4096);
  CHECK(kept["shapes"][0]["bytes"] == 4 << 20);
  for (const char* field : {"seconds", "gbps", "ceiling_ratio"})
    CHECK(kept["shapes"][0][field] > 0);
}

TEST_CASE("stagnations of the loops that people write") {
  contestants who;
  add_plain(who);
  const std::vector<std::uint16_t> f16{0x6800, 0x3c00, 0x0000, 0x3c00,
                                       0xe800, 0x7bff, 0x7bff, 0x3c00};
  // 2048 + 1 stays; + 0 does not count; + 1 stays; - 2048 = 0; + 65504 into 0; then infinity twice.
  const array_view x{dtype::f16, f16.data(), f16.size(), 1000001};
  int found = 0;
  for (const auto& c : who.list)
    if (c->info.id == "plain/loop/f16/f16") {
      ++found;
      CHECK(c->stagnations(x) == std::optional<std::uint64_t>(2));
      const std::vector<std::uint16_t> lost{0x3c00, 0x6c00};  // 1 + 4096: the sum is what is lost
      CHECK(c->stagnations({dtype::f16, lost.data(), 2, 1000002}) ==
            std::optional<std::uint64_t>(1));
    }
  CHECK(found == 1);
  // Where bitfold adds in the same order, the counts are the same.
  add_bitfold(who, true, false);
  std::map<std::string, json> rows;
  for (const unit& u : plan(who, {}))
    if (u.key == "length/f32/normal/4096") {
      const json result = u.run();
      for (const json& row : result["accuracy"]) rows[row["contestant"].get<std::string>()] = row;
    }
  REQUIRE(rows["plain/loop/f32/f32"]["stagnations"].is_number());
  CHECK(rows["plain/loop/f32/f32"]["stagnations"] ==
        rows["bitfold/sum/sequential/f32/f32/f32/cpu"]["stagnations"]);
}

TEST_CASE(
    "findings of one kind are limited: here to three for each of four units, and one of speed") {
  const json report = run(one_ulp_off);
  CHECK(std::count_if(report["findings"].begin(), report["findings"].end(),
                      [](const json& f) { return f["kind"] == "bits"; }) == 4 * 3 + 1);
}

TEST_CASE("the plan has every registered op, method and type, each under its own name") {
  contestants who;
  add_bitfold(who, true, false);
  std::set<std::string> ids, keys;
  for (const auto& c : who.list) CHECK(ids.insert(c->info.id).second);
  for (op_id op : all_ops)
    for (const auto& m : methods_of(op))
      for (dtype t : all_dtypes) {
        const reduction r = make_reduction(op, m, t);
        CHECK(std::any_of(who.list.begin(), who.list.end(),
                          [&](const auto& c) { return c->info.main && *c->info.promise == r; }));
      }
  const json report = start_report(who, {}, "a test");
  for (std::size_t k = 0; k < who.list.size(); ++k) {
    const json& c = report["contestants"][k];
    const reduction& r = *who.list[k]->info.promise;
    CHECK(c["op"] == name(r.op()));
    CHECK(c["method"] == (r.method() ? json(name(*r.method())) : json()));
    CHECK((!c["main"].get<bool>() || r.op() == op_id::sum));
  }
  for (bool full : {false, true}) {
    keys.clear();
    for (const unit& u : plan(who, {full, 1, {}})) {
      CHECK(keys.insert(u.key).second);
      if (u.key == "inputs/f32/normal/200003") CHECK(u.what == "inputs: normal f32[200003]");
    }
  }
}

TEST_CASE("every op is measured, with the reference's bits and within its bound") {
  contestants who;
  add_bitfold(who, true, false);
  int units = 0;
  for (const unit& u : plan(who, {}))
    for (const char* key : {"operations/f16/normal/10007", "operations/f64/condition-1e8/10007",
                            "operations/i32/integers/10007"})
      if (u.key == key) {
        ++units;
        const json result = u.run();
        CHECK(result["findings"].empty());
        CHECK(result["failures"].empty());
        std::set<std::string> measured;
        for (const json& row : result["accuracy"]) {
          CAPTURE(row["contestant"].get<std::string>());
          measured.insert(row["contestant"].get<std::string>().substr(
              0, row["contestant"].get<std::string>().find('/', 8)));
          CHECK((row["correct_bits"].is_number() && row["correct_bits"] >= 0));
        }
        for (const op_info& op : all_op_infos)
          CHECK(measured.contains("bitfold/" + std::string(op.name)));
      }
  CHECK(units == 3);
}

TEST_CASE("integers that do not fit: exact is held to the true sum, the others to it modulo 2^64") {
  contestants who;
  add_bitfold(who, true, false);
  std::map<std::string, json> rows;
  for (const unit& u : plan(who, {}))
    if (u.key == "types/u64/integers/10007") {
      const json result = u.run();
      CHECK(result["findings"].empty());
      for (const json& row : result["accuracy"]) rows[row["contestant"].get<std::string>()] = row;
    }
  const json& exact = rows["bitfold/sum/exact/u64/exact/f64/cpu"];
  const json& tree = rows["bitfold/sum/tree/u64/u64/f64/cpu"];
  CHECK(std::stod(exact["exact"].get<std::string>()) > 0x1p70);
  CHECK(std::stod(tree["exact"].get<std::string>()) <= 0x1p64);
  for (const json& row : {exact, tree}) CHECK(row["ulps"] <= 0.5);
  CHECK(rows["bitfold/sum/exact/u64/exact/u64/cpu"]["bits"] ==
        rows["bitfold/sum/tree/u64/u64/u64/cpu"]["bits"]);
}

TEST_CASE("a report reads back as it was written") {
  const json report = run(honest);
  const auto path = write(report_text(report));
  CHECK(read_report(path) == report);
  std::filesystem::remove(path);
}

TEST_CASE("a report that is malformed is one clear error") {
  const json report = run(honest);
  CHECK(message_of(report_text(report).substr(0, 3000)).find("is not JSON") != std::string::npos);
  CHECK(message_of("[]").find("is not a JSON object") != std::string::npos);
  CHECK(message_of("{}").find("format: ") != std::string::npos);
  const auto broken = [&](auto change) {
    json copy = report;
    change(copy);
    return message_of(report_text(copy));
  };
  CHECK(broken([](json& r) { r["version"] = 2; }).find("version: ") != std::string::npos);
  CHECK(broken([](json& r) { r.erase("machine"); }).find("machine: ") != std::string::npos);
  CHECK(broken([](json& r) { r["accuracy"][0]["ulps"] = "many"; }).find("accuracy[0].ulps: ") !=
        std::string::npos);
  CHECK(broken([](json& r) {
          r["speed"][0]["contestant"] = "nobody";
        }).find("speed.contestant: ") != std::string::npos);
  CHECK(broken([](json& r) { r["contestants"][0]["op"] = 1; }).find(": op: ") != std::string::npos);
  CHECK(broken([](json& r) { r["contestants"][0].erase("op"); }) == "");  // as in the first reports
  CHECK(broken([](json& r) { r["contestants"][0].erase("promise"); }).find(": promise: ") !=
        std::string::npos);
  CHECK(broken([](json& r) { r["machine"]["gpus"] = {1}; }).find("machine.gpus: ") !=
        std::string::npos);
  CHECK(broken([](json& r) { r["bits"][0].erase("equal"); }).find("bits.equal: ") !=
        std::string::npos);
  CHECK(broken([](json& r) {
          r["accuracy"][0].erase("permutations");
        }).find("accuracy.permutations: ") != std::string::npos);
  const json batch{{"contestant", "suspect"}, {"in", "f32"},   {"layout", "rows"},
                   {"variation", ""},         {"length", 16},  {"batches", 4},
                   {"largest", 1024},         {"distinct", 1}, {"changed", nullptr}};
  CHECK(broken([&](json& r) { r["batches"] = {batch}; }) == "");
  CHECK(broken([&](json& r) { r.erase("batches"); }) == "");
  CHECK(broken([&](json& r) {
          (r["batches"] = {batch})[0].erase("distinct");
        }).find("batches[0].distinct: ") != std::string::npos);
  CHECK(broken([&](json& r) {
          (r["batches"] = {batch})[0]["contestant"] = "nobody";
        }).find("batches.contestant: ") != std::string::npos);
  CHECK(message_of(std::string(100000, '[') + std::string(100000, ']')).find("nested too deeply") !=
        std::string::npos);
}

TEST_CASE("two runs compare") {
  const json a = run(honest);
  CHECK_FALSE(compare(a, a).worse);
  const auto changed = [&](auto change) {
    json b = a;
    change(b);
    return compare(a, b);
  };
  const auto bits = changed([](json& b) { b["accuracy"][0]["bits"] = "00000000"; });
  CHECK(bits.worse);
  CHECK(bits.text.find("WORSE  bits: suspect on normal") != std::string::npos);
  CHECK(changed([](json& b) { b["bits"][1]["digest"] = "0"; }).worse);
  CHECK(changed([](json& b) {
          b["accuracy"][0]["bound_relative"] = 2 * number(b["accuracy"][0]["bound_relative"]);
        }).worse);
  CHECK(changed([](json& b) { b["accuracy"][0]["bound_relative"] = nullptr; }).worse);  // lost
  CHECK_FALSE(changed([](json& b) {
                b["accuracy"][0]["bound_relative"] = number(b["accuracy"][0]["bound_relative"]) / 2;
              }).worse);
  // Another order is another promise; another speed is none.
  CHECK_FALSE(changed([](json& b) {
                b["bitfold"]["order_version"] = 2;
                b["accuracy"][0]["bits"] = "00000000";
              }).worse);
  CHECK_FALSE(changed([](json& b) { b["speed"][0]["gbps"] = 0.001; }).worse);
  // Nothing in common is no agreement; a file that was exchanged is no change of bits.
  CHECK_THROWS_AS(changed([](json& b) { b["accuracy"] = b["bits"] = json::array(); }), error);
  const auto of_file = [](json report) {
    report["accuracy"][0]["study"] = "files";
    return report;
  };
  json other = of_file(a);
  other["accuracy"][0]["exact"] = "7";
  other["accuracy"][0]["bits"] = "00000000";
  CHECK_FALSE(compare(of_file(a), other).worse);
  CHECK(compare(of_file(a), other).text.find("1 results are of files with other content") !=
        std::string::npos);
  // A promise that is broken in B only.
  const auto with_finding = changed([](json& b) {
    b["findings"].push_back({{"contestant", "suspect"},
                             {"kind", "bits"},
                             {"where", "here"},
                             {"expected", "1"},
                             {"got", "2"}});
  });
  CHECK(with_finding.worse);
  CHECK(with_finding.text.find("WORSE  promise broken: suspect") != std::string::npos);
  CHECK(compare(a, run(one_ulp_off)).worse);
  CHECK_FALSE(compare(run(one_ulp_off), a).text.find("promise broken") != std::string::npos);
}

namespace {

// Every text of a report, but for those fields, which decide what is told, with what a terminal
// would obey and a line of its own behind it.
json poisoned(json x, const std::set<std::string>& kept, const std::string& key = "") {
  if (kept.contains(key)) return x;
  if (x.is_string() && x != "nan" && x != "inf" && x != "-inf")
    return x.get<std::string>() +
           "\x1b[2J\u009b2J\x7f\u202e\r\nNo promised bit or bound is worse in B.\n";
  if (x.is_structured())
    for (auto& [name, value] : x.items()) value = poisoned(value, kept, x.is_object() ? name : key);
  return x;
}

}  // namespace

TEST_CASE("texts of a report do not command the terminal, nor make lines") {
  json a = run(doubles);
  CHECK(!a["findings"].empty());
  a["missing"] = json::array({{{"name", "no peer"}, {"why", "gone"}}});
  a["failures"] = json::array({{{"contestant", "suspect"}, {"where", "here"}, {"why", "so"}}});
  a["wrong"] = json::array({json_of(wrong_row{"suspect", "1", "here", "1", "2"})});
  a["batches"] =
      json::array({json_of(batch_row{"suspect", "f32", "rows", 16, "", 4, 1024, 1, {}})});
  const auto suspect = []<class Row>(Row r) {
    r.contestant = "suspect";
    r.in = "f32";
    return r;
  };
  auto product = suspect(product_row{});
  product.input = "normal";
  product.digest = "1";
  auto over_ranks = suspect(rank_row{});
  over_ranks.input = "normal";
  over_ranks.ranks = 2;
  over_ranks.digest = "1";
  a["products"] = json::array({json_of(product)});
  a["product_bits"] = json::array({json_of(suspect(product_bits_row{}))});
  a["product_speed"] = json::array({json_of(suspect(product_speed_row{}))});
  a["ranks"] = json::array({json_of(over_ranks)});
  a["machine"]["gpus"] = {"a GPU"};
  json b = a;
  b["products"][0]["digest"] = "2";
  b["accuracy"][0]["bits"] = "00000000";
  b["accuracy"][0]["bound_relative"] = nullptr;
  b["bits"][0]["digest"] = "0";
  b["findings"][0]["where"] = "elsewhere";
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto check = [&](const std::string& text, const std::string& clean) {
    CHECK(lines(text) == lines(clean));
    for (const char* bad : {"\x1b", "\xc2\x9b", "\x7f", "\r", "\u202e"}) {
      CAPTURE(bad);
      CHECK(text.find(bad) == std::string::npos);
    }
  };
  const std::set<std::string> few{"study"}, more{"study", "in", "device", "layout"};
  const comparison clean = compare(a, b), found = compare(poisoned(a, few), poisoned(b, few));
  CHECK(found.worse);
  CHECK(lines(clean.text) > 10);
  check(found.text, clean.text);
  check(summary(poisoned(b, more)), summary(b));
}

TEST_CASE("numbers that JSON has not") {
  CHECK(number(INFINITY) == "inf");
  CHECK(number(-INFINITY) == "-inf");
  CHECK(number(NAN) == "nan");
  CHECK(number(0.1234567891).dump() == "0.123457");
  CHECK(number(json("-inf")) == -INFINITY);
  CHECK(std::isnan(number(json())));
}

namespace {

std::string source_file(const std::string& name) {
  std::string text = bytes::content(std::string(BITFOLD_SOURCE) + '/' + name);
  REQUIRE(!text.empty());
  return text;
}

// What the first group of `form` matches.
std::vector<std::string> all_matches(const std::string& text, const char* form) {
  const std::regex regex(form);
  std::vector<std::string> found;
  for (std::sregex_iterator m(text.begin(), text.end(), regex), end; m != end; ++m)
    found.push_back((*m)[1]);
  return found;
}

// The fields of each list.
std::map<std::string, std::vector<std::string>> fields_of_lists() {
  std::map<std::string, std::vector<std::string>> lists;
  each_field<report_rows>([&]<class Row>(const field<report_rows, std::vector<Row>>& list) {
    each_field<Row>([&](const auto& f) { lists[list.name].emplace_back(f.name); });
  });
  return lists;
}

}  // namespace

TEST_CASE("docs/report-format.md lists each list's fields, in their order") {
  std::map<std::string, std::vector<std::string>> listed;
  std::string section;
  std::istringstream doc(source_file("docs/report-format.md"));
  for (std::string line; std::getline(doc, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (section.empty() || !line.starts_with("| `")) continue;
    // The first column has a field, or several.
    for (auto& name : all_matches(line.substr(0, line.find(" | ")), "`([^`]*)`"))
      listed[section].push_back(std::move(name));
  }
  const auto lists = fields_of_lists();
  CHECK(listed.size() == lists.size());
  for (const auto& [name, fields] : lists) {
    CAPTURE(name);
    CHECK(listed[name] == fields);
  }
}

TEST_CASE("the page and report-table read no field that rows have not") {
  std::set<std::string> fields;
  for (const auto& [list, names] : fields_of_lists()) fields.insert(names.begin(), names.end());
  const auto check = [&](const char* file, const char* form, const char* from = "") {
    const std::string text = source_file(file);
    const auto read = all_matches(text.substr(text.find(from)), form);
    CHECK(read.size() > 10);
    for (const std::string& name : read) {
      CAPTURE(file, name);
      CHECK(fields.contains(name));
    }
  };
  check("accuracy/page/render.cpp", R"_(\{"(\w+)", (?:text|number)\})_", "row_fields = ");
  // There a row is `r`, and in report-table a contestant `c`.
  for (const char* file : {"figures.js", "products.js", "tables.js"})
    check((std::string("accuracy/page/") + file).c_str(), R"(\br\.(?!(?:map|children)\b)(\w+))");
  check("accuracy/page/page.js", R"(\br\.(?!map\b)(\w+))");
  check("scripts/report-table", R"_(\b[rc]\["(\w+)"\])_");
}

TEST_CASE("a report on a GPU compiles ahead what it runs", "[cuda]") {
  contestants all;
  add_bitfold(all, false, true);
  std::vector<contestant*> who, launched;
  for (const auto& c : all.list) {
    const reduction& r = *c->info.promise;
    if (!c->info.main || r.in() != dtype::f16) continue;
    who.push_back(c.get());
    const bool few = r.op() == op_id::sum || r.op() == op_id::dot || r.op() == op_id::argmax;
    if (few) launched.push_back(c.get());
  }
  CHECK(who.size() > launched.size());
  CHECK(launched.size() >= 5);
  // As long as it takes several blocks, and the second array begins at no multiple of 16 bytes.
  const array one = repeated(dtype::f16, 10007, 2), rows = repeated(dtype::f16, 4 * 100);
  const matrix as{4, 100, 1};
  compile_ahead(who, {{one.view}}, which_ways::first);
  compile_ahead(launched, {{one.view}}, which_ways::all);
  compile_ahead({who[0]}, {{rows.view, as}}, which_ways::timed);
  const auto compiled = [] {
    const auto counts = gpu::counts_of_loads();
    return counts.compiled + counts.read;
  };
  const auto before = compiled();
  CHECK(before > 0);
  const auto run = [&](contestant* c, std::size_t way) {
    CAPTURE(c->info.id, c->variations()[way].label);
    (void)c->run(one.view, way);
    CHECK(compiled() == before);
  };
  for (contestant* c : who) run(c, 0);
  for (contestant* c : launched)
    for (std::size_t way = 1; way < c->variations().size(); ++way) run(c, way);
  (void)who[0]->run_along(rows.view, as, 0);
  CHECK(compiled() == before);
}
