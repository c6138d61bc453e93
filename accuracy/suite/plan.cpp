// What is to be done.
#include <array>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "accuracy/suite.hpp"
#include "studies.hpp"

namespace bitfold::accuracy {
namespace {

// Where a report would show every method it leaves two out, whose engines are those of others.
bool has_shown_method(const contestant_info& i) {
  if (!i.promise) return true;
  const std::optional<method_id> method = i.promise->method();
  return method != method_id::pairwise && method != method_id::sequential;
}
bool is_shown(const contestant_info& i) { return i.op == op_id::sum || has_shown_method(i); }

}  // namespace

std::vector<unit> plan(contestants& who, const suite_options& o) {
  std::vector<unit> units;
  const auto add = [&](std::string key, std::string what, double weight, auto study) {
    units.push_back({std::move(key), std::move(what), weight,
                     [study = std::move(study)] { return json_of(study()); }});
  };
  using chosen = bool(const contestant_info&);
  const auto of_type = [&who](dtype t, chosen* takes_part) {
    std::vector<contestant*> list;
    for (const auto& c : who.list)
      if (c->info.in == t && takes_part(c->info)) list.push_back(c.get());
    return list;
  };
  constexpr auto sums = [](const contestant_info& i) { return i.op == op_id::sum && i.main; };
  constexpr auto all_sums = [](const contestant_info& i) { return i.op == op_id::sum; };
  constexpr auto operations = [](const contestant_info& i) { return i.main; };
  const std::array floats{dtype::f32, dtype::f64, dtype::f16, dtype::bf16};
  const auto add_study = [&](study s, std::size_t n, chosen* takes_part) {
    auto list = of_type(s.type, takes_part);
    if (list.empty()) return;
    const double weight =
        static_cast<double>(n * list.size()) * (s.samples + s.permutations + 1) + 3e5;
    const std::string key = fmt::format("{}/{}/{}/{}", s.name, name(s.type), s.input, n);
    const std::string what = fmt::format("{}: {} {}[{}]", s.name, s.input, name(s.type), n);
    add(key, what, weight, [s = std::move(s), list = std::move(list), seed = o.seed] {
      return run_study(s, list, seed);
    });
  };

  for (const auto& c : who.list)
    if (!c->info.promise && c->info.op == op_id::sum)
      add("integers/" + c->info.id, "small integers: " + c->info.id,
          static_cast<double>(c->variations().size()) * 4e5,
          [c = c.get()] { return run_integers(*c); });
  const std::size_t n = o.full ? 1000003 : 200003;
  for (dtype t : floats)
    for (const input& in : all_inputs())
      add_study(
          {"inputs", std::string(in.name), t, from(in, n, t), o.full ? 4 : 3, o.full ? 8 : 4, true},
          n, sums);
  for (dtype t : floats) {
    if (!o.full && t != dtype::f32 && t != dtype::f64) continue;
    for (const char* in : {"uniform", "normal"})
      for (int power = 4; power <= (o.full ? 24 : 20); power += 2) {
        const std::size_t count = std::size_t{1} << power;
        add_study({"length", in, t, from(input_named(in), count, t), power <= 16 ? 8 : 2, 0, false},
                  count, sums);
      }
  }
  for (dtype t : {dtype::f32, dtype::f64})
    for (int power : condition_powers(o.full)) {
      const std::size_t count = o.full ? 100003 : 10007;
      const double condition = std::pow(10.0, power);
      add_study(
          {"condition", condition_name(power), t,
           [=](std::uint64_t seed) { return pack(cancellation(count, seed, t, condition), t); }, 3,
           0, false},
          count, sums);
    }
  for (dtype t : all_dtypes) {
    const std::size_t count = 10007;
    if (is_float(t))
      for (const char* in : {"uniform", "normal", "condition-1e8"})
        add_study({"types", in, t, from(input_named(in), count, t), 2, 0, false}, count, all_sums);
    else
      add_study({"types", "integers", t, integers(count, t), 2, 0, false}, count, all_sums);
  }
  for (dtype t : all_dtypes) {
    const auto add_pair = [&](const char* in, const maker& make, std::size_t count) {
      add_study({"operations", in, t, twice(make), 2, 0, false, 2}, count, operations);
    };
    const std::size_t count = 10007;
    if (!is_float(t)) {
      add_pair("integers", integers(count, t), count);
      continue;
    }
    for (const char* in : {"uniform", "normal", "condition-1e8"})
      add_pair(in, from(input_named(in), count, t), count);
    add_pair("positive", from(input_named("positive"), 100, t), 100);  // whose product is finite
  }
  for (const std::string& file : o.files)
    for (const auto& [input, a] : arrays_of(file))
      add_study(
          {"files", input, io::arithmetic(a.type),
           [a = a](std::uint64_t) { return std::vector<std::byte>(a.data, a.data + a.bytes()); }, 1,
           o.full ? 8 : 4, true},
          a.count, sums);
  const auto bits = std::make_shared<bits_of_many>();
  for (const auto& c : who.list)
    if (c->info.main && is_shown(c->info)) bits->who.push_back(c.get());
  for (std::size_t k = 0; k < bits->who.size(); ++k) {
    const contestant& c = *bits->who[k];
    add("bits/" + c.info.id, "bits: " + c.info.id, static_cast<double>(c.variations().size()) * 4e5,
        [=, seed = o.seed, full = o.full] { return run_bits(*bits, k, seed, full ? 5 : 2); });
  }
  std::vector<int> powers =
      o.full ? std::vector{10, 12, 14, 16, 18, 20, 22, 24, 26} : std::vector{10, 14, 18, 22, 24};
  const auto add_speed = [&](dtype t, int power, chosen* takes_part, int inputs, const char* what) {
    auto list = of_type(t, takes_part);
    // The longest on the GPU alone: there it is soon done.
    if (power >= 28) std::erase_if(list, [](contestant* c) { return c->info.device != "cuda"; });
    if (list.empty()) return;
    const std::size_t count = std::size_t{1} << power;
    add(fmt::format("speed/{}/{}{}", name(t), count, what),
        fmt::format("speed{}: {}[2^{}]", what, name(t), power),
        power >= 28 ? 5e8 : static_cast<double>(list.size() * count) * 0.7 + 1e6,
        [=, full = o.full] { return run_speed(list, t, count, inputs, full); });
  };
  for (dtype t : floats)
    for (int power : powers)
      if (o.full || t == dtype::f32 || power == 18 || power == 24) add_speed(t, power, sums, 1, "");
  constexpr auto of_one = [](const contestant_info& i) {
    return i.main && i.op != op_id::sum && info(i.op).inputs == 1 && is_shown(i);
  };
  constexpr auto of_two = [](const contestant_info& i) {
    return i.main && info(i.op).inputs == 2 && is_shown(i);
  };
  for (dtype t : floats)
    for (int power : o.full ? std::vector{24, 28} : std::vector{18}) {
      add_speed(t, power, of_one, 1, "/operations");
      add_speed(t, power, of_two, 2, "/operations of two inputs");
    }
  if (o.full) {
    for (dtype t : floats) add_speed(t, 28, sums, 1, "");
    add_speed(dtype::f32, 30, sums, 1, "");
  }
  constexpr auto shown_sums = [](const contestant_info& i) {
    return i.main && i.op == op_id::sum && has_shown_method(i);
  };
  for (dtype t : floats)
    for (const char* device : {"cpu", "cuda"}) {
      auto list = of_type(t, shown_sums);
      std::erase_if(list,
                    [&](contestant* c) { return !c->has_axes() || c->info.device != device; });
      if (list.empty()) continue;
      const int power = (o.full ? 24 : 20) + (device == std::string_view("cuda") ? 4 : 0);
      for (const bool rows : {true, false})
        for (const std::size_t length :
             o.full ? std::vector<std::size_t>{16, 64, 256, 1000, 4096, 32768, 1 << 20}
                    : std::vector<std::size_t>{16, 256, 4096, 65536}) {
          const shape s{t, rows, length, std::size_t{1} << power,
                        std::size_t{1} << (o.full ? 24 : 22)};
          const std::string where = fmt::format("{}/{}/{}/{}", name(t), s.layout(), length, device),
                            what = fmt::format("{} of {} {}", s.layout(), length, name(t));
          const auto share = static_cast<double>(list.size());
          add("batches/" + where, "batches: " + what,
              share * static_cast<double>(s.elements_of_batch) * 0.25 + 1e6,
              [=, seed = o.seed] { return run_batches(list, s, seed); });
          add("shapes/" + where, "shapes: " + what, share * static_cast<double>(s.elements) + 1e6,
              [=, times = o.full ? 9 : 5] { return run_shape(list, s, times); });
        }
    }
  for (dtype t : floats) {
    std::vector<product_contestant*> products;
    for (const auto& c : who.products)
      if (c->info.in == t) products.push_back(c.get());
    if (products.empty()) continue;
    const product_shape s = o.full ? product_shape{32, 4003, 32} : product_shape{16, 1003, 16},
                        timed =
                            o.full ? product_shape{1024, 1024, 1024} : product_shape{256, 256, 256};
    const auto cost = [&](const product_shape& of) {
      return static_cast<double>(products.size() * of.outputs() * of.inner);
    };
    for (const product_input& in : all_product_inputs())
      add(fmt::format("products/{}/{}", name(t), in.name),
          fmt::format("products: {} {}", in.name, name(t)), cost(s) * 15 + 3e5,
          [=, &in, seed = o.seed] { return run_products(products, in, s, t, seed); });
    add(fmt::format("product_speed/{}", name(t)), fmt::format("products: speed, {}", name(t)),
        cost(timed) + 1e7,
        [=, times = o.full ? 9 : 5] { return run_product_speed(products, timed, t, times); });
  }
  for (const auto& c : who.products)
    add("product_bits/" + c->info.id, "products: bits, " + c->info.id, 1e7,
        [c = c.get(), seed = o.seed, repeats = o.full ? 5 : 2] {
          return run_product_bits(*c, {64, 500, 48}, seed, repeats);
        });
  for (dtype t : floats) {
    std::vector<rank_contestant*> ranks;
    for (const auto& c : who.ranks)
      if (c->info.in == t) ranks.push_back(c.get());
    const std::size_t count = 32, results = o.full ? 16384 : 1024;
    for (const char* in : {"normal", "uniform", "gradients", "condition-1e4"})
      if (!ranks.empty())
        add(fmt::format("ranks/{}/{}", name(t), in), fmt::format("ranks: {} {}", in, name(t)),
            static_cast<double>(ranks.size() * count * results) * 60 + 3e5, [=, seed = o.seed] {
              return run_ranks(ranks, input_named(in), t, count, results, seed);
            });
  }
  return units;
}

}  // namespace bitfold::accuracy
