// bitfold check
#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/testing.hpp>

#include "cli/arguments.hpp"
#include "cli/check_report.hpp"
#include "cli/chosen.hpp"
#include "cli/common.hpp"
#include "cli/fingerprint.hpp"
#include "cli/operands.hpp"
#include "cli/progress.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/golden.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"

namespace bitfold::cli {
namespace {

namespace fs = std::filesystem;

using testing::no_distance;

struct check_arguments {
  std::string golden;
  std::optional<std::uint64_t> ulps;
  bool bits = false;  // what happens without --ulps
  bool json = false, quiet = false;
  std::optional<std::string> junit;
  int threads = 0;
  std::vector<std::string> files;
};

// An array, or two, of the same name, dtype and shape.
array_report compare(const io::golden_array& old, const fingerprint& now,
                     std::optional<std::uint64_t> ulps) {
  // Where no result tells how far it moved, it may not.
  const bool counts = !ulps || old.results.empty();
  const bool same_content = !counts || now.digests == old.digests;
  bool same_results = true, near = true;
  for (std::size_t k = 0; k < old.results.size(); ++k) {
    const std::uint64_t distance = distance_of(old.results[k], now.results[k]);
    same_results = same_results && old.results[k].value == now.results[k];
    near = near && distance != no_distance && distance <= ulps.value_or(0);
  }
  if (same_results && same_content) return {old.name, verdict::same, {}};
  std::vector<detail> details;
  for (std::size_t k = 0; k < now.digests.size(); ++k)
    details.push_back(changed(io::of_input(k, "content"), old.digests[k], now.digests[k]));
  for (std::size_t k = 0; k < old.results.size(); ++k)
    details.push_back(moved(old.results[k], now.results[k]));
  return {old.name, ulps && near && same_content ? verdict::within : verdict::moved, details};
}

std::vector<array_report> check_arrays(const io::golden_file& old, file_names files,
                                       const std::vector<std::vector<io::array>>& arrays,
                                       const check_arguments& args, progress& bar) {
  const std::size_t inputs = arrays.size();
  std::vector<std::map<std::string_view, const io::array*>> by_name(inputs);
  for (std::size_t k = 0; k < inputs; ++k)
    for (const io::array& a : arrays[k]) by_name[k][a.name] = &a;

  std::vector<array_report> reports;
  std::vector<fingerprint_job> jobs;
  std::vector<std::pair<std::size_t, const io::golden_array*>> compared;  // for each job
  for (const io::golden_array& g : old.arrays) {
    const io::array* mapped[2] = {};
    std::vector<detail> changes, absent;
    for (std::size_t k = 0; k < inputs; ++k) {
      const auto found = by_name[k].extract(g.name);
      if (found.empty()) {
        if (inputs == 2) absent.push_back(located("not in", files[k]));
        continue;
      }
      const io::array& a = *(mapped[k] = found.mapped());
      if (a.type != g.type)
        changes.push_back(changed(io::of_input(k, "dtype"), io::name(g.type), io::name(a.type)));
      if (a.shape != g.shape)
        changes.push_back(changed(io::of_input(k, "shape"), g.shape, a.shape));
    }
    if (!mapped[0] || !mapped[inputs - 1]) {
      reports.push_back({g.name, verdict::missing, absent});
      continue;
    }
    if (!changes.empty()) {
      reports.push_back({g.name, verdict::changed, changes});
      continue;
    }
    compared.emplace_back(reports.size(), &g);
    reports.push_back({g.name, verdict::same, {}});
    jobs.push_back({{mapped[0], mapped[1]}, {}});
    for (const auto& result : g.results) jobs.back().reductions.push_back(result.what);
  }
  const auto measured = fingerprints(jobs, !args.ulps, args.threads, bar);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    reports[compared[i].first] = compare(*compared[i].second, measured[i], args.ulps);
  for (std::size_t k = 0; k < inputs; ++k)
    for (const io::array& a : arrays[k]) {
      if (!by_name[k].contains(a.name) || (k == 1 && by_name[0].contains(a.name))) continue;
      const bool in_both = inputs == 1 || by_name[1 - k].contains(a.name);
      reports.push_back({a.name, verdict::added, {}});
      if (!in_both) reports.back().details.push_back(located("only in", files[k]));
    }
  return reports;
}

// ---- Which file is which ------------------------------------------------------------------------

// What two paths may have in common, from little to all, each with a number: the last component,
// the last two, ..., the same path in other words, the same text.
using likeness = std::uint64_t;
std::vector<std::pair<likeness, std::string>> features(const std::string& path,
                                                       const fs::path& folder) {
  constexpr likeness same_text = std::numeric_limits<likeness>::max();
  std::vector<std::pair<likeness, std::string>> all;
  const fs::path parts = fs::path(path).lexically_normal();
  std::string end;
  for (auto part = parts.end(); part != parts.begin();) {
    end = (--part)->string() + '\0' + end;
    all.emplace_back(all.size() + 1, end);
  }
  all.emplace_back(same_text - 1, (folder / path).lexically_normal().string());
  all.emplace_back(same_text, path);
  return all;
}

// The paths of a recorded file, or of the two of a pair.
std::vector<std::string> paths_of(const io::golden_file& f) {
  std::vector<std::string> paths;
  for (const io::golden_source& s : f.sources) paths.push_back(s.file);
  return paths;
}

// For each recorded file, or pair, the given one (none: it is missing); and those given that belong
// to none.
struct matching {
  std::vector<std::vector<std::string>> given;
  std::vector<std::vector<std::string>> added;
};

matching match(const io::golden& g, const std::vector<std::string>& all) {
  matching m;
  m.given.resize(g.files.size());
  if (all.empty()) {
    for (std::size_t i = 0; i < g.files.size(); ++i) m.given[i] = paths_of(g.files[i]);
    return m;
  }
  const std::size_t inputs = g.files[0].sources.size();
  if (all.size() % inputs != 0)
    throw error(errc::usage,
                fmt::format("FILE: the golden file is of pairs of files, not {}", all.size()));
  if (g.files.size() == 1 && all.size() == inputs) {  // whatever they are called now
    m.given[0] = all;
    return m;
  }
  std::error_code ignored;  // of a current directory that is gone
  const fs::path folder = fs::current_path(ignored);
  // Calls f(alike, key) for what a file, or both of a pair, may have in common with others: of a
  // pair the path that is less alike decides, and then the other.
  using alike = std::pair<likeness, likeness>;
  const auto for_each_feature = [&](const std::vector<std::string>& files, auto f) {
    for (const auto& [x, first] : features(files[0], folder)) {
      if (inputs == 1)
        f(alike{x, x}, fmt::format("{}{}{}", x, '\0', first));
      else
        for (const auto& [y, second] : features(files[1], folder))
          f(alike{std::minmax(x, y)},
            fmt::format("{1}{0}{2}{0}{3}{0}{4}", '\0', x, first, y, second));
    }
  };
  struct recorded {
    std::size_t last = 0, count = 0;  // of the recorded files that have the feature
  };
  std::unordered_map<std::string, recorded> by_feature;
  for (std::size_t i = 0; i < g.files.size(); ++i)
    for_each_feature(paths_of(g.files[i]), [&](alike, const std::string& key) {
      recorded& r = by_feature[key];
      r.last = i;
      ++r.count;
    });
  for (const file_names group : groups_of(all, inputs)) {
    const std::vector<std::string> files(group.begin(), group.end());
    alike best{};
    std::size_t match = 0, ties = 0;
    for_each_feature(files, [&](alike common, const std::string& key) {
      const auto found = by_feature.find(key);
      if (found == by_feature.end() || common < best) return;
      ties = common == best ? ties + found->second.count : found->second.count;
      best = common;
      match = found->second.last;
    });
    if (best.first == 0) {
      m.added.push_back(files);
      continue;
    }
    if (ties > 1)
      throw error(errc::usage, fmt::format("{}: could be {} of the recorded {}",
                                           io::printable(text_of(files)), ties,
                                           inputs == 1 ? "files; give more of its path"
                                                       : "pairs; give more of their paths"));
    if (!m.given[match].empty())
      throw error(errc::usage,
                  fmt::format("{}: the second {} for the recorded {}; the first is {}",
                              io::printable(text_of(files)), inputs == 1 ? "file" : "pair",
                              io::printable(text_of(paths_of(g.files[match]))),
                              io::printable(text_of(m.given[match]))));
    m.given[match] = files;
  }
  return m;
}

file_report check_files(const io::golden_file& old, file_names files, const check_arguments& args,
                        const std::vector<std::string>& tensors, progress& bar) {
  std::vector<std::vector<io::array>> arrays;
  for (std::size_t k = 0; k < files.size(); ++k) {
    io::read_options options{.recorded = old.sources[k].format};
    // It was so in spite of its name.
    options.raw = options.recorded == io::file_format::raw &&
                  io::format_of_name(old.sources[k].file).has_value();
    // Raw files do not tell their type, nor .npy files every one.
    for (const io::golden_array& a : old.arrays)
      if (options.recorded == io::file_format::raw || !io::npy_tells(a.type)) options.type = a.type;
    arrays.push_back(io::read_arrays(files[k], options));
    choose(tensors, arrays.back());
  }
  const waiting clock(bar, files[0]);
  auto found = check_arrays(old, files, arrays, args, bar);
  io::check_mapped_files();
  return {paths_of(old), std::move(found), {}, {}, {files.begin(), files.end()}};
}

// The names of the arrays of a file that was not recorded, or of a pair; none where they have none.
std::vector<array_report> arrays_of_new(file_names files, const std::vector<std::string>& tensors) {
  std::vector<array_report> arrays;
  for (const std::string& file : files) {
    if (!io::has_named_arrays(file) || files.size() > 1) continue;
    for (const io::array& a : io::read_arrays(file))
      if (io::is_chosen(tensors, a.name)) arrays.push_back({a.name, verdict::added, {}});
  }
  return arrays;
}

std::string why_not_looked_at(const std::exception& e) {
  return dynamic_cast<const std::bad_alloc*>(&e) ? "out of memory" : e.what();
}

// Whether the arrays of such a file have names, by which they are found in another one.
bool has_names(const io::golden_file& f) {
  return f.sources.size() == 1 && !io::holds_one(f.sources[0].format);
}

// Arrays that are missing from the file that they were recorded of, and are new in another one: the
// same tensors in other shards. Each is compared as if it were where it was. `reports` are of the
// recorded files and then of those that belong to none, which have their arrays.
template <class Attempt>
void check_moved_arrays(const io::golden& g, const matching& m, const check_arguments& args,
                        std::vector<file_report>& reports, progress& bar, Attempt attempt) {
  struct place {
    std::size_t report, array;  // of `reports` and of its arrays
    const io::golden_array* recorded;
  };
  std::map<std::string_view, std::vector<place>> missing, added;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const bool recorded = i < g.files.size();
    if (recorded && !has_names(g.files[i])) continue;
    std::map<std::string_view, const io::golden_array*> by_name;
    if (recorded)
      for (const io::golden_array& a : g.files[i].arrays) {
        by_name[a.name] = &a;
        if (reports[i].whole == verdict::missing)
          reports[i].arrays.push_back({a.name, verdict::missing, {}});
      }
    for (std::size_t k = 0; k < reports[i].arrays.size(); ++k) {
      const array_report& a = reports[i].arrays[k];
      if (a.what == verdict::missing) missing[a.array].push_back({i, k, by_name.at(a.array)});
      if (a.what == verdict::added) added[a.array].push_back({i, k, nullptr});
    }
  }
  // What is compared, for each file that has it.
  std::map<std::size_t, std::vector<std::pair<place, place>>> moved;
  for (const auto& [name, from] : missing)
    if (const auto to = added.find(name);
        to != added.end() && from.size() == 1 && to->second.size() == 1)
      moved[to->second[0].report].emplace_back(from[0], to->second[0]);
  std::map<std::size_t, std::set<std::size_t>> taken;  // arrays that are told of elsewhere
  for (const auto& entry : moved) {
    const std::size_t to = entry.first;  // clang 14 lets no lambda have a structured binding
    const std::vector<std::pair<place, place>>& places = entry.second;
    const std::vector<std::string>& files =
        to < g.files.size() ? m.given[to] : m.added[to - g.files.size()];
    io::golden_file part{{{files[0], io::file_format::safetensors}}, {}};
    for (const auto& [from, there] : places) part.arrays.push_back(*from.recorded);
    attempt(reports[to], files, [&] {
      const file_report found = check_files(part, files, args, g.tensors, bar);
      for (std::size_t k = 0; k < places.size(); ++k) {
        const auto& [from, there] = places[k];
        if (reports[from.report].error) continue;  // since
        array_report& report = reports[from.report].arrays[from.array];
        report = found.arrays[k];
        if (!good(report.what)) report.details.push_back(located("now in", files[0]));
        reports[from.report].whole = reports[to].whole = {};
        taken[to].insert(there.array);
      }
    });
  }
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].whole)
      reports[i].arrays.clear();  // nothing of it was found: it is told of as one
    std::vector<array_report> rest;
    for (std::size_t k = 0; k < reports[i].arrays.size(); ++k)
      if (!taken[i].contains(k)) rest.push_back(std::move(reports[i].arrays[k]));
    reports[i].arrays = std::move(rest);
  }
}

// The files that are read, in their order.
std::vector<std::string> files_of(const matching& m) {
  std::vector<std::string> all;
  for (const auto* list : {&m.given, &m.added})
    for (const auto& files : *list) all.insert(all.end(), files.begin(), files.end());
  return all;
}

int check(const check_arguments& args) {
  const io::golden g = io::read_golden(args.golden);
  const matching m = match(g, args.files);
  if (args.junit) {
    std::vector<std::string> inputs = files_of(m);
    inputs.insert(inputs.begin(), args.golden);
    refuse_overwriting("--junit", *args.junit, inputs);
  }
  std::vector<file_report> reports;
  int status = 0;
  bytes_read bar(files_of(m), args.quiet);
  // What could not be looked at must not read as a difference.
  const auto attempt = [&](file_report& report, const std::vector<std::string>& files, auto f) {
    const auto failed = [&](const std::string& why, errc code) {
      bar.leave();
      complain(why);
      report = {report.files, {}, {}, why};
      if (status == 0) status = static_cast<int>(code);
    };
    try {
      f();
    } catch (const error& e) {
      failed(e.what(), e.code());
    } catch (const std::exception& e) {  // no memory, no threads
      failed(io::printable(text_of(files)) + ": " + why_not_looked_at(e), errc::bad_input);
    }
    bar.end_of(files);
  };
  for (std::size_t i = 0; i < g.files.size(); ++i) {
    reports.push_back({paths_of(g.files[i]), {}, {}, {}});
    if (m.given[i].empty())
      reports[i].whole = verdict::missing;
    else
      attempt(reports[i], m.given[i],
              [&] { reports[i] = check_files(g.files[i], m.given[i], args, g.tensors, bar); });
  }
  for (const auto& files : m.added) {
    reports.push_back({files, {}, verdict::added, {}});
    attempt(reports.back(), files,
            [&] { reports.back().arrays = arrays_of_new(files, g.tensors); });
  }
  check_moved_arrays(g, m, args, reports, bar, attempt);
  bar.leave();

  if (args.junit) write_file(*args.junit, junit_of(reports));
  if (!args.quiet) write_out(args.json ? json_of(reports) : text_of(reports, args.ulps));
  const bool all_good =
      std::all_of(reports.begin(), reports.end(), [](auto& f) { return good(f); });
  return status != 0 ? status : all_good ? 0 : failure;
}

}  // namespace

subcommand add_check(CLI::App& app) {
  const auto args = std::make_shared<check_arguments>();
  CLI::App* command =
      app.add_subcommand("check", "Compare files with what `bitfold record` stored of them");
  command->add_option("GOLDEN", args->golden, "The file that `bitfold record` wrote")->required();
  add_files(
      *command, "FILE", args->files,
      "The files to check (default: the recorded paths), in pairs where these were recorded. Of "
      "several, each is compared with the recorded file of the same path, or else whose path ends "
      "alike");
  auto* bits = command->add_flag("--bits", args->bits,
                                 "All bits, of the content and of every result (the default)");
  command
      ->add_option("--ulps", args->ulps,
                   "Let every result move by so many ulps; the content may be anything, but of "
                   "arrays that have no results")
      ->check(whole_number(std::numeric_limits<std::uint64_t>::max()))
      ->excludes(bits);
  command->add_option("--junit", args->junit, "Write a JUnit report too");
  auto* const as_json = command->add_flag(
      "--json", args->json, "One JSON object a line: each array that differs, then a summary");
  add_quiet(*command, args->quiet, "Print nothing but errors: the exit status tells");
  command->get_option("--quiet")->excludes(as_json);
  add_threads(*command, args->threads);
  command->footer(
      "Prints each array that differs, with old and new values, then a summary. Exit status: 0 "
      "all\n"
      "the same, 1 any difference, missing or new, 3 a file or the golden file cannot be read, or\n"
      "memory or threads run out, whatever else was found.\n"
      "See docs/regression.md.");
  return {command, [args] {
            try {
              return check(*args);
            } catch (const std::bad_alloc& e) {  // not the status of a difference
              throw error(errc::bad_input,
                          io::printable(args->golden) + ": " + why_not_looked_at(e));
            }
          }};
}

}  // namespace bitfold::cli
