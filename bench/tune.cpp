// A sweep of the tables that plans are made with (src/gpu/tuning.cpp), on the GPU that is here: for
// each line, requests that it chooses, with its numbers halved and doubled, and without it. (Of
// outputs, what is enough is changed up to eightfold: how the last wave of blocks fills a GPU
// depends on it.) The same plan is not timed twice. No number moves a bit, so that any may be
// tried. Needs no nvcc.
//
//   bitfold_bench_tune RESULT.jsonl [WORD [REQUESTS]]
//
// WORD: of the lines whose name has it. REQUESTS: of those whose name this regular expression
// finds.
//
// Times are medians of 9, each of a CUDA graph that holds the passes several times, the table's and
// the change's in turn.
#include <algorithm>
#include <bitfold/cuda.hpp>
#include <bitfold/error.hpp>
#include <bitfold/view.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <regex>
#include <tuple>

#include "binned.hpp"
#include "gpu/devices.hpp"
#include "gpu/launcher.hpp"
#include "gpu/request.hpp"
#include "gpu_time.hpp"
#include "result_lines.hpp"

namespace {

using namespace bitfold;

constexpr std::size_t most_bytes = std::size_t{1} << 30;

/// What is asked: its plan by a table, and its name.
struct request {
  std::string name;
  std::function<gpu::plan(const gpu::device_facts&)> plan_for;
  std::size_t reductions, outputs;
};

/// A table with one thing changed. It holds the lines that its numbers point to.
struct change {
  std::string what;
  std::vector<gpu::array_line> arrays;
  std::vector<gpu::outputs_line> outputs;
  std::vector<gpu::sort_line> sorts;
  std::vector<gpu::exact_line> exact;
  gpu::tuning numbers;

  change(std::string name, const gpu::tuning& from)
      : what(std::move(name)),
        arrays(from.arrays.begin(), from.arrays.end()),
        outputs(from.outputs.begin(), from.outputs.end()),
        sorts(from.sorts.begin(), from.sorts.end()),
        exact(from.exact.alone.begin(), from.exact.alone.end()),
        numbers(from) {}
  const gpu::tuning& table() {
    numbers.arrays = arrays;
    numbers.outputs = outputs;
    numbers.sorts = sorts;
    numbers.exact.alone = exact;
    return numbers;
  }
};

class sweep {
 public:
  sweep(std::string_view word, const std::string& requests)
      : word_(word),
        requests_(requests),
        on_(gpu::facts_of_current_device()),
        table_(*on_.numbers),
        x_(most_bytes),
        list_(most_bytes / 4),
        workspace_(2 * most_bytes),
        results_(most_bytes) {
    // Random bits of ordinary numbers, whatever their type; and keys.
    std::vector<std::uint32_t> words(std::size_t{1} << 22);
    std::uint64_t z = 1;
    for (std::uint32_t& w : words) {
      z = z * 6364136223846793005u + 1442695040888963407u;
      w = (static_cast<std::uint32_t>(z >> 32) & 0x83ff83ffu) | 0x3c003c00u;
    }
    for (std::size_t at = 0; at < most_bytes; at += 4 * words.size())
      gpu::copy_to_device(x_.begin() + at, words.data(), 4 * words.size());
    std::vector<std::int64_t> keys(std::size_t{1} << 24);
    for (std::int64_t& k : keys) {
      z = z * 6364136223846793005u + 1442695040888963407u;
      k = static_cast<std::int64_t>((z >> 40) % 1000);
    }
    gpu::copy_to_device(list_.begin(), keys.data(), 8 * keys.size());
    cuda::synchronize(nullptr);
  }

  void all() {
    arrays();
    outputs();
    sorts();
    exact();
  }
  void write(std::ostream& to, const bench::json& header) const { cases_.write(to, header); }

 private:
  // ---- What people ask for ----------------------------------------------------------------------

  static std::vector<reduction> list(std::initializer_list<op_id> ops, dtype t) {
    std::vector<reduction> all;
    for (const op_id op : ops)
      all.push_back(make_reduction(
          op, info(op).takes_method ? std::optional(method_id::tree) : std::nullopt, t));
    return all;
  }
  static std::vector<std::pair<std::string, std::vector<reduction>>> lists(dtype t) {
    using enum op_id;
    const std::string of = "/" + std::string(name(t));
    return {{"sum" + of, list({sum}, t)},
            {"argmax" + of, list({argmax}, t)},
            {"sum+min+max+mean+std" + of, list({sum, min, max, mean, op_id::std}, t)}};
  }
  static request array(const std::string& name, const std::vector<reduction>& all, std::size_t n) {
    return {name + "/" + std::to_string(n),
            [all, n](const gpu::device_facts& on) { return gpu::plan_of({all, n, true}, {}, on); },
            all.size(), 1};
  }
  request axes(const std::string& of, const std::vector<reduction>& all,
               const std::vector<std::int64_t>& extents, const std::vector<int>& along,
               const std::vector<int>& order = {}, bool is_sliced = false) const {
    std::string name = of + "/";
    for (const std::int64_t e : extents)
      name += (name.back() == '/' ? "" : "x") + std::to_string(e);
    if (is_sliced) name += " without the first column";
    if (!order.empty()) name += " in order ";
    for (const int axis : order) name += std::to_string(axis);
    name += " over ";
    for (const int axis : along) name += std::to_string(axis);
    view stored = row_major(all[0].in(), x_.begin(), extents);
    if (is_sliced) stored = sliced(stored, stored.rank - 1, 1, extents.back() - 1);
    const detail::layout l =
        detail::layout_of(order.empty() ? stored : permuted(stored, order), nullptr, along);
    return {name, [all, l](const gpu::device_facts& on) { return gpu::plan_axes(all, l, {}, on); },
            all.size(), l.outputs};
  }

  // ---- Measuring --------------------------------------------------------------------------------

  gpu::plan plan_of(const request& r, const gpu::tuning& by) const {
    gpu::device_facts on = on_;
    on.numbers = &by;
    return r.plan_for(on);
  }
  static bool same(const gpu::plan& a, const gpu::plan& b) {
    return std::ranges::equal(a.steps, b.steps, [](const gpu::step& s, const gpu::step& t) {
      const auto *p = std::get_if<gpu::pass>(&s), *q = std::get_if<gpu::pass>(&t);
      if (!p || !q) return !p == !q;
      return p->blocks == q->blocks && p->threads == q->threads &&
             p->with.bytes() == q->with.bytes() &&
             gpu::signature_of(p->what) == gpu::signature_of(q->what);
    });
  }
  static bool is_chosen(const gpu::plan& p, std::string_view line) {
    return std::ranges::any_of(p.steps, [&](const gpu::step& s) {
      const auto* const one = std::get_if<gpu::pass>(&s);
      return one && one->line == line;
    });
  }

  // Microseconds of both, in turn.
  std::pair<double, double> times(const request& r, const gpu::plan& one, const gpu::plan& other) {
    std::vector<void*> to;
    for (std::size_t k = 0; k < r.reductions; ++k)
      to.push_back(results_.begin() + k * ((8 * r.outputs + 255) / 256 * 256));
    const gpu::addresses at{x_.begin(), x_.begin(), list_.begin(), workspace_.begin(), to.data()};
    if (std::max(one.workspace, other.workspace) > 2 * most_bytes) return {0, 0};
    const auto run = [&](const gpu::plan& p, gpu::stream on) { gpu::run(p, at, on); };
    run(other, watch_.stream);
    run(one, watch_.stream);
    const double ms = std::max(1e-3, watch_.milliseconds([&] { run(one, watch_.stream); }));
    const int copies = static_cast<int>(std::clamp(0.5 / ms, 1.0, 40.0));
    const speed::graph first(watch_.stream, copies, [&](gpu::stream s) { run(one, s); }),
        second(watch_.stream, copies, [&](gpu::stream s) { run(other, s); });
    std::vector<double> a, b;
    for (int k = 0; k < 10; ++k) {
      a.push_back(watch_.milliseconds([&] { first.launch(); }));
      b.push_back(watch_.milliseconds([&] { second.launch(); }));
    }
    const auto median = [&](std::vector<double>& of) {
      of.erase(of.begin());
      std::nth_element(of.begin(), of.begin() + 4, of.end());
      return 1e3 * of[4] / copies;
    };
    return {median(a), median(b)};
  }

  void compare(std::string_view line, const std::vector<request>& requests,
               std::vector<change> changes) {
    if (line.find(word_) == std::string_view::npos) return;
    struct trial {
      const request& of;
      std::string what;
      gpu::plan table, changed;
    };
    std::vector<trial> trials;
    for (const request& r : requests)
      for (change& c : changes) try {
          trial t{r, c.what, plan_of(r, table_), plan_of(r, c.table())};
          if (!same(t.table, t.changed)) trials.push_back(std::move(t));
        } catch (const error&) {  // no kernel takes that
        }
    std::vector<gpu::kernel> kernels;
    for (const trial& t : trials)
      for (const gpu::plan* p : {&t.table, &t.changed})
        std::ranges::copy(gpu::kernels_of(*p), std::back_inserter(kernels));
    try {
      gpu::prepare(kernels, gpu::current_device());
    } catch (const error&) {  // a shape that is too large: those that can be had are there
    }
    // A case for each request: the table's time, and beside it that of each change.
    for (const request& r : requests) {
      double us = 0;
      bench::json changed;
      for (const trial& t : trials) {
        if (&t.of != &r) continue;
        double now = 0, then = 0;
        try {
          std::tie(now, then) = times(r, t.table, t.changed);
        } catch (const error&) {  // a shape that is too large
        }
        if (now == 0) continue;
        us = us == 0 ? now : std::min(us, now);
        changed[t.what] = std::round(1000 * then / now) / 1000;
      }
      if (us == 0) continue;
      const std::string name = std::string(line) + " | " + r.name;
      cases_.add(name, std::nullopt, {{"us", us}, {"changed", changed}});
      std::printf("%s: %.2f us, %s\n", name.c_str(), us, changed.dump().c_str());
      std::fflush(stdout);
    }
  }

  /// Of some that a line chooses, the first of each list.
  std::vector<request> chosen(std::string_view line, const std::vector<request>& from,
                              std::size_t most) const {
    std::vector<request> some;
    for (const request& r : from)
      if (some.size() < most && std::regex_search(r.name, requests_) &&
          is_chosen(plan_of(r, table_), line))
        some.push_back(r);
    return some;
  }

  // Multiples of a number of a line: half and double, and 2 to the power of up to `most_power`.
  template <class Lines, class T>
  void vary(std::vector<change>& to, const std::string& name, Lines change::* lines, std::size_t k,
            T std::remove_reference_t<decltype((std::declval<Lines&>()[0]))>::* number, T least,
            T most, int most_power = 1) const {
    for (int power = -most_power; power <= most_power; ++power) {
      const T factor = static_cast<T>(1 << std::abs(power));
      change c(name + (power == -1 ? " halved"
                       : power == 1
                           ? " doubled"
                           : (power < 0 ? " / " : " x ") + std::to_string(1 << std::abs(power))),
               table_);
      T& value = (c.*lines)[k].*number;
      const T before = value;
      value =
          std::clamp<T>(static_cast<T>(power > 0 ? value * factor : value / factor), least, most);
      if (value != before && before != 0) to.push_back(std::move(c));
    }
  }
  template <class Lines>
  void leave_out(std::vector<change>& to, Lines change::* lines, std::size_t k) const {
    change c("left out", table_);
    (c.*lines).erase((c.*lines).begin() + static_cast<std::ptrdiff_t>(k));
    to.push_back(std::move(c));
  }

  // ---- Subjects ---------------------------------------------------------------------------------

  void arrays() {
    std::vector<request> all;
    for (const dtype t : {dtype::f32, dtype::f16})
      for (const auto& [name, some] : lists(t))
        for (const std::size_t n :
             {std::size_t{1} << 10, std::size_t{3000}, std::size_t{1} << 13, std::size_t{1} << 15,
              std::size_t{100000}, std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{5} << 20,
              std::size_t{10} << 20, std::size_t{1} << 24, std::size_t{1} << 26,
              std::size_t{1} << 28})
          all.push_back(array(name, some, n));
    for (std::size_t k = 0; k < table_.arrays.size(); ++k) {
      std::vector<change> changes;
      vary(changes, "warps", &change::arrays, k, &gpu::array_line::warps, 1, 16);
      vary(changes, "tiles", &change::arrays, k, &gpu::array_line::tiles, 1, 1024);
      if (k + 1 < table_.arrays.size()) leave_out(changes, &change::arrays, k);
      compare(table_.arrays[k].name, chosen(table_.arrays[k].name, all, 12), std::move(changes));
    }
    shapes_of_arrays();
    std::vector<change> changes;
    for (const std::size_t folds : {2, 4, 12, 16}) {
      change c("folds " + std::to_string(folds), table_);
      c.numbers.most_folds = folds;
      c.numbers.most_state_bytes = 16 * folds;
      changes.push_back(std::move(c));
    }
    std::vector<request> many;
    for (const dtype t : {dtype::f32, dtype::f16, dtype::f64}) {
      std::vector<reduction> every;
      for (const op_info& op : all_op_infos)
        if (op.inputs == 1 && op.id != op_id::count_distinct) every.push_back(list({op.id}, t)[0]);
      for (const int power : {10, 20, 26})
        many.push_back(array("every/" + std::string(name(t)), every, std::size_t{1} << power));
    }
    compare("folds in a kernel", many, std::move(changes));
  }

  // Arrays of some tiles, by blocks of so many warps and nodes of so many tiles.
  void shapes_of_arrays() {
    std::vector<request> some;
    for (const auto& [name, all] : lists(dtype::f32))
      for (const std::size_t tiles :
           {100, 500, 1024, 1500, 2048, 3000, 4096, 5000, 6000, 7000, 8192, 10240, 12000, 16384,
            20000, 25000, 32768, 50000, 100000})
        some.push_back(array(name, all, tiles * 1024));
    std::vector<change> changes;
    for (const int warps : {4, 8})
      for (const int tiles : {4, 8, 16, 32, 64, 128}) {
        change c(std::to_string(warps) + " warps, nodes of " + std::to_string(tiles), table_);
        std::erase_if(c.arrays, [](const gpu::array_line& l) { return l.tiles > 0; });
        c.arrays.push_back({"all", gpu::any_number, gpu::any_number, warps, tiles});
        changes.push_back(std::move(c));
      }
    compare("shapes of arrays", some, std::move(changes));
  }

  void outputs() {
    struct shape {
      std::vector<std::int64_t> extents;
      std::vector<int> along, order{};  // of a transposed array: its axes as they are stored
      bool is_sliced = false;
    };
    const std::vector<shape> shapes{{{1 << 20, 16}, {1}},          {{1 << 20, 64}, {1}},
                                    {{1 << 16, 1024}, {1}},        {{64, 4096}, {1}},
                                    {{8192, 4096}, {1}},           {{1 << 15, 1000}, {1}},
                                    {{1000, 1001}, {1}},           {{1 << 15, 1001}, {1}},
                                    {{1 << 18, 129}, {1}},         {{4096, 16384}, {1}},
                                    {{32, 1 << 20}, {1}},          {{128, 50257}, {1}},
                                    {{4000, 50257}, {1}},          {{1 << 22, 7}, {1}},
                                    {{20, 1 << 20}, {0}},          {{50, 1 << 20}, {0}},
                                    {{1000, 4001}, {0}},           {{1000, 20001}, {0}},
                                    {{1000, 100001}, {0}},         {{100, 30001}, {0}},
                                    {{100000, 33}, {0}},           {{100000, 101}, {0}},
                                    {{1 << 20, 33}, {0}},          {{1 << 18, 33}, {1}},
                                    {{1 << 18, 50}, {1}},          {{1 << 18, 65}, {1}},
                                    {{1 << 18, 81}, {1}},          {{1 << 18, 100}, {1}},
                                    {{1 << 18, 200}, {1}},         {{1 << 16, 2049}, {1}},
                                    {{4096, 4096}, {0}},           {{1 << 20, 64}, {0}},
                                    {{1 << 22, 3}, {0}},           {{1000, 1001}, {0}},
                                    {{300000, 257}, {0}},          {{32, 64, 56, 56}, {0, 2, 3}},
                                    {{32, 64, 56, 56}, {1}},       {{256, 2048, 7, 7}, {2, 3}},
                                    {{16384, 4096}, {1}},          {{16384, 4096}, {0}},
                                    {{1335, 50257}, {1}},          {{256, 262144}, {0}},
                                    {{334, 64, 56, 56}, {0, 2, 3}}};
    const std::vector<shape> slices{{{16384, 4096}, {1}, {}, true},
                                    {{16384, 4096}, {0}, {}, true},
                                    {{1335, 50258}, {1}, {}, true},
                                    {{334, 64, 56, 56}, {2, 3}, {}, true}};
    const std::vector<shape> transposed{{{8192, 8192}, {0, 1}, {1, 0}},
                                        {{4097, 4099}, {0, 1}, {1, 0}},
                                        {{1001, 1000}, {0, 1}, {1, 0}},
                                        {{64, 56, 56, 64}, {0, 1, 2, 3}, {0, 3, 1, 2}},
                                        {{64, 56, 56, 64}, {1, 2, 3}, {0, 3, 1, 2}},
                                        {{334, 56, 56, 64}, {2, 3}, {0, 3, 1, 2}},
                                        {{334, 56, 56, 64}, {0, 2, 3}, {0, 3, 1, 2}},
                                        {{170, 12, 512, 64}, {1, 3}, {0, 1, 3, 2}}};
    std::vector<request> all;
    for (const dtype t : {dtype::f32, dtype::f16})
      for (const auto& [name, some] : lists(t))
        for (const auto& of : {shapes, slices, transposed})
          for (const shape& s : of)
            all.push_back(axes(name, some, s.extents, s.along, s.order, s.is_sliced));
    for (std::size_t k = 0; k < table_.outputs.size(); ++k) {
      std::vector<change> changes;
      vary(changes, "threads", &change::outputs, k, &gpu::outputs_line::threads, 32, 512);
      vary(changes, "enough", &change::outputs, k, &gpu::outputs_line::enough, gpu::index{1},
           gpu::index{1} << 30, 3);
      vary(changes, "more", &change::outputs, k, &gpu::outputs_line::more, gpu::index{1},
           gpu::index{1} << 30);
      if (k + 1 < table_.outputs.size()) leave_out(changes, &change::outputs, k);
      if (table_.outputs[k].by == gpu::strategy::columns)
        vary(changes, "beside", &change::outputs, k, &gpu::outputs_line::beside, gpu::index{1},
             gpu::index{64}, 2);
      compare(table_.outputs[k].name, chosen(table_.outputs[k].name, all, 40), std::move(changes));
    }
  }

  void sorts() {
    std::vector<request> all;
    for (const dtype t : {dtype::f32, dtype::f64})
      for (const int power : {16, 20, 24, 26}) {
        const reduction r = make_reduction(op_id::count_distinct, {}, t);
        all.push_back(
            array("count_distinct/" + std::string(name(t)), {r}, std::size_t{1} << power));
      }
    for (const dtype t : {dtype::f16, dtype::f32, dtype::f64})
      for (const std::size_t n : {std::size_t{1} << 20, std::size_t{1} << 24}) {
        const std::vector<reduction> sum = list({op_id::sum}, t);
        all.push_back({"sum/" + std::string(name(t)) + " by 1000 keys/" + std::to_string(n),
                       [sum, n](const gpu::device_facts& on) {
                         return gpu::plan_keys(sum, false, n, 1000, {}, on);
                       },
                       1, 1000});
      }
    for (std::size_t k = 0; k < table_.sorts.size(); ++k) {
      std::vector<change> changes;
      for (const auto& [threads, items, blocks] : {std::tuple{256, 14, 3},
                                                   {256, 19, 3},
                                                   {256, 23, 2},
                                                   {384, 12, 3},
                                                   {384, 16, 2},
                                                   {384, 20, 2},
                                                   {512, 11, 2},
                                                   {512, 16, 2},
                                                   {512, 19, 2}}) {
        change c(std::to_string(threads) + " x " + std::to_string(items) + " x " +
                     std::to_string(blocks),
                 table_);
        gpu::sort_line& l = c.sorts[k];
        l.threads = threads, l.items = items, l.least_blocks = blocks;
        changes.push_back(std::move(c));
      }
      compare(table_.sorts[k].name, chosen(table_.sorts[k].name, all, 6), std::move(changes));
    }
  }

  void exact() {
    for (std::size_t k = 0; k < table_.exact.alone.size(); ++k) {
      const gpu::exact_line& line = table_.exact.alone[k];
      std::vector<request> some;
      for (const op_info& op : all_op_infos) {
        if (!op.has_exact || !some.empty()) continue;
        const reduction r = make_reduction(op.id, method_id::exact, line.type);
        gpu::term_set terms = 0;
        for (const exact::term t : detail::terms_of(r)) terms |= gpu::only(t);
        if (terms != line.terms) continue;
        for (const int power : {20, 26})
          some.push_back(array(std::string(op.name) + "_exact/" + std::string(name(line.type)), {r},
                               std::size_t{1} << power));
      }
      std::vector<change> changes;
      vary(changes, "packs", &change::exact, k, &gpu::exact_line::packs, 1, 16);
      vary(changes, "threads", &change::exact, k, &gpu::exact_line::threads, 32, 512);
      for (change& c : changes) {  // each thread keeps its registers
        gpu::exact_line& l = c.exact[k];
        for (int* const blocks : {&l.blocks, &l.blocks_of_pieces})
          *blocks = *blocks * line.threads / l.threads;
      }
      vary(changes, "blocks", &change::exact, k, &gpu::exact_line::blocks, 1, 16);
      compare("exact", some, std::move(changes));
    }
  }

  std::string word_;
  std::regex requests_;
  const gpu::device_facts& on_;
  const gpu::tuning& table_;
  gpu::device_memory x_, list_, workspace_, results_;
  speed::stopwatch watch_;
  bench::cases cases_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 4)
    throw error(errc::usage, "usage: bitfold_bench_tune RESULT.jsonl [WORD [REQUESTS]]");
  if (cuda::devices().empty()) throw error(errc::no_device, "no usable GPU");
  (void)gpu::current_device();
  sweep s(argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
  s.all();
  bench::json header = bench::header("tune", argc, argv);
  header["gpu"] = cuda::devices()[0];
  header["gpu_compiler"] = cuda::compiler();
  header["table"] = gpu::facts_of_current_device().numbers->name;
  std::ofstream file(argv[1]);
  s.write(file, header);
  return file.flush() ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
