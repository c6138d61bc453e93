// The report that units add their rows to.
#include <algorithm>
#include <ctime>
#include <optional>

#include <fmt/format.h>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>
#include <bitfold/order.hpp>

#include "accuracy/build_info.hpp"
#include "accuracy/suite.hpp"
#include "studies.hpp"

namespace bitfold::accuracy {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

json start_report(const contestants& who, const suite_options& o, const std::string& command) {
  report_rows rows;
  for (const auto& s : who.found) rows.software.push_back({s.name, s.version});
  for (const auto& m : who.missing) rows.missing.push_back({m.name, m.why});
  for (const auto& c : who.list) {
    const contestant_info& i = c->info;
    const auto method = i.promise ? i.promise->method() : std::nullopt;
    rows.contestants.push_back({
        .id = i.id,
        .name = i.name,
        .family = i.family,
        .method = method ? std::optional<std::string>(name(*method)) : std::nullopt,
        .device = i.device,
        .in = std::string(name(i.in)),
        .acc = i.acc,
        .out = std::string(name(i.out)),
        .promise = i.promise.has_value(),
        .main = i.main && i.op == op_id::sum,
        .about = i.about,
        .op = std::string(name(i.op)),
    });
  }
  // Those that are no reductions: of their own operation, and not among those that figures of sums
  // show.
  const auto add_entry = [&](const auto& i, std::optional<std::string_view> method,
                             const char* op) {
    rows.contestants.push_back({
        .id = i.id,
        .name = i.name,
        .family = i.family,
        .method = method ? std::optional<std::string>(*method) : std::nullopt,
        .device = i.device,
        .in = std::string(name(i.in)),
        .acc = i.acc,
        .out = std::string(name(i.out)),
        .promise = i.promise.has_value(),
        .main = false,
        .about = i.about,
        .op = op,
    });
  };
  for (const auto& c : who.products)
    add_entry(c->info,
              c->info.promise ? std::optional(product_method_name(c->info.promise->method()))
                              : std::nullopt,
              "matmul");
  for (const auto& c : who.ranks)
    add_entry(c->info,
              c->info.promise ? std::optional(name(c->info.promise->method())) : std::nullopt,
              "all_reduce");
  const auto add_input = [&](std::string id, std::string about, const char* kind) {
    for (const input_row& known : rows.inputs)
      if (known.id == id) return;
    rows.inputs.push_back({std::move(id), std::move(about), kind});
  };
  for (const input& in : all_inputs())
    add_input(std::string(in.name), std::string(in.description), "generated");
  for (const product_input& in : all_product_inputs())
    add_input(std::string(in.name), "products: " + std::string(in.description), "generated");
  for (int power : condition_powers(o.full))
    add_input(condition_name(power), fmt::format("cancellation with condition number 1e{}", power),
              "generated");
  add_input("integers", "random bits", "generated");
  for (const std::string& file : o.files)
    for (const auto& [input, a] : arrays_of(file)) add_input(input, "from a file", "file");

  std::vector<std::string> targets;
  for (cpu::target t : cpu::available_targets()) targets.emplace_back(cpu::name(t));
  json report{
      {"format", "bitfold-report"},
      {"version", 1},
      {"mode", o.full ? "full" : "quick"},
      {"date", utc_now()},
      {"command", command},
      {"seed", o.seed},
      {"bitfold",
       {{"version", build::version}, {"order_version", order::version}, {"commit", build::commit}}},
      {"machine",
       {{"system", build::system_name()},
        {"cpu", build::cpu_model()},
        {"cores", all_cores()},
        {"cpu_targets", targets},
        {"gpus", cuda::devices()},
        {"cpu_cache", json_of(build::cpu_cache())},
        {"gpu_cache", json_of(gpu_cache())},
        {"compiler", build::compiler},
        {"cuda", build::cuda.empty() ? json() : json(build::cuda)}}},
  };
  report.update(json_of(rows));
  return report;
}

void add_rows(json& report, const json& rows) {
  // A few findings of a kind tell what is wrong; a contestant that is wrong everywhere would fill
  // the report.
  constexpr std::ptrdiff_t most_of_unit = 3, most = 30;
  json fresh = json::array();
  const auto count_like = [](const json& list, const json& row) {
    return std::count_if(list.begin(), list.end(), [&](const json& f) {
      return f["contestant"] == row["contestant"] && f["kind"] == row["kind"];
    });
  };
  for (const auto& [field, list] : rows.items())
    for (const json& row : list) {
      if (field == "findings") {
        if (count_like(fresh, row) >= most_of_unit || count_like(report[field], row) >= most)
          continue;
        fresh.push_back(row);
      }
      report[field].push_back(row);
    }
}

}  // namespace bitfold::accuracy
