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
#include <fmt/ranges.h>

#include <bitfold/error.hpp>
#include <bitfold/testing.hpp>

#include "cli/arguments.hpp"
#include "cli/common.hpp"
#include "cli/fingerprint.hpp"
#include "cli/operands.hpp"
#include "cli/verdict.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/golden.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"

namespace bitfold::cli {
namespace {

namespace fs = std::filesystem;

using testing::no_distance;
using testing::ulp_distance;

struct check_arguments {
  std::string golden;
  std::optional<std::uint64_t> ulps;
  bool bits = false;  // what happens without --ulps
  std::optional<std::string> junit;
  int threads = 0;
  std::vector<std::string> files;
};

// ---- What is found ------------------------------------------------------------------------------

struct array_report {
  std::string array;  // the tensor's name; may be empty
  verdict what;
  std::string detail;  // lines
};

struct file_report {
  std::vector<std::string>
      files;  // as they were recorded: one, or two of which the arrays were reduced together
  std::vector<array_report> arrays;
  // Where there is nothing to compare:
  std::optional<verdict> whole;      // missing or added
  std::optional<std::string> error;  // why the file could not be read
};

// What an array is called.
std::string label(const file_report& f, const std::string& array) {
  std::vector<std::string> names = f.files;
  if (!array.empty())
    for (std::string& name : names) name += ":" + array;
  return text_of(names);
}

// An answer of yes or no that changed is no number of steps away.
std::uint64_t distance_of(const io::golden_result& old, scalar now) {
  const bool truth = info(old.what.op()).types == typing::truth;
  return truth && old.value != now ? no_distance : ulp_distance(old.value, now);
}

std::string result_line(const io::golden_result& old, scalar now) {
  const std::uint64_t ulps = distance_of(old, now);
  const std::string distance = ulps == no_distance ? "no distance"
                               : ulps == 1         ? "1 ulp"
                                                   : fmt::format("{} ulps", ulps);
  std::string label(name(old.what.op()));
  if (old.what.method()) label += fmt::format(" {}", name(*old.what.method()));
  return moved_line(label, text_of(old.value), text_of(now), "  " + distance);
}

// An array, or two, of the same name, dtype and shape.
array_report compare(const io::golden_array& old, const fingerprint& now,
                     std::optional<std::uint64_t> ulps) {
  // Where no result tells how far it moved, it may not.
  const bool counts = !ulps || old.results.empty();
  const bool same_content = !counts || now.digests == old.digests;
  bool same_results = true, near = true;
  std::string lines;
  for (std::size_t k = 0; k < old.results.size(); ++k) {
    const std::uint64_t distance = distance_of(old.results[k], now.results[k]);
    same_results = same_results && old.results[k].value == now.results[k];
    near = near && distance != no_distance && distance <= ulps.value_or(0);
    lines += result_line(old.results[k], now.results[k]);
  }
  if (same_results && same_content) return {old.name, verdict::same, ""};
  if (ulps && near && same_content) return {old.name, verdict::within, ""};
  std::string contents;
  for (std::size_t k = 0; k < now.digests.size(); ++k)
    contents += moved_line(io::of_input(k, "content"), old.digests[k], now.digests[k]);
  return {old.name, verdict::moved, contents + lines};
}

std::vector<array_report> check_arrays(const io::golden_file& old, file_names files,
                                       const std::vector<std::vector<io::array>>& arrays,
                                       const check_arguments& args) {
  const std::size_t inputs = arrays.size();
  std::vector<std::map<std::string_view, const io::array*>> by_name(inputs);
  for (std::size_t k = 0; k < inputs; ++k)
    for (const io::array& a : arrays[k]) by_name[k][a.name] = &a;

  std::vector<array_report> reports;
  std::vector<fingerprint_job> jobs;
  std::vector<std::pair<std::size_t, const io::golden_array*>> compared;  // for each job
  for (const io::golden_array& g : old.arrays) {
    const io::array* mapped[2] = {};
    std::string changes, absent;
    for (std::size_t k = 0; k < inputs; ++k) {
      const auto found = by_name[k].extract(g.name);
      if (found.empty()) {
        if (inputs == 2) absent += detail_line("not in", io::printable(files[k]));
        continue;
      }
      const io::array& a = *(mapped[k] = found.mapped());
      if (a.type != g.type || a.shape != g.shape)
        changes +=
            moved_line(io::of_input(k, "dtype"), io::name(g.type), io::name(a.type)) +
            moved_line(io::of_input(k, "shape"), io::shape_text(g.shape), io::shape_text(a.shape));
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
    reports.push_back({g.name, verdict::same, ""});
    jobs.push_back({{mapped[0], mapped[1]}, {}});
    for (const auto& result : g.results) jobs.back().reductions.push_back(result.what);
  }
  const auto measured = fingerprints(jobs, !args.ulps, args.threads);
  for (std::size_t i = 0; i < jobs.size(); ++i)
    reports[compared[i].first] = compare(*compared[i].second, measured[i], args.ulps);
  for (std::size_t k = 0; k < inputs; ++k)
    for (const io::array& a : arrays[k]) {
      if (!by_name[k].contains(a.name) || (k == 1 && by_name[0].contains(a.name))) continue;
      const bool in_both = inputs == 1 || by_name[1 - k].contains(a.name);
      reports.push_back(
          {a.name, verdict::added, in_both ? "" : detail_line("only in", io::printable(files[k]))});
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

file_report check_files(const io::golden_file& old, file_names files, const check_arguments& args) {
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
  }
  auto found = check_arrays(old, files, arrays, args);
  io::check_mapped_files();
  return {paths_of(old), std::move(found), {}, {}};
}

// ---- What is told -------------------------------------------------------------------------------

std::string lines_of(const file_report& f) {
  std::string text;
  const auto line = [&](verdict v, const std::string& what) {
    text += fmt::format("{:<8}{}\n", name(v), io::printable(what));
  };
  if (f.whole) line(*f.whole, label(f, ""));
  for (const array_report& a : f.arrays)
    if (!good(a.what)) {
      line(a.what, label(f, a.array));
      text += a.detail;
    }
  return text;
}

std::string summary_of(const std::vector<file_report>& files, std::optional<std::uint64_t> ulps) {
  std::map<verdict, std::size_t> arrays, whole;
  std::size_t count = 0, errors = 0;
  const char* const unit = files[0].files.size() == 2 ? "pair of files" : "file";
  for (const file_report& f : files) {
    for (const array_report& a : f.arrays) ++arrays[a.what];
    count += f.arrays.size();
    if (f.whole) ++whole[*f.whole];
    errors += f.error.has_value();
  }
  const auto plural = [](std::size_t n, const char* what) {
    std::string unit(what);
    if (n != 1) unit.insert(std::min(unit.find(' '), unit.size()), "s");  // pairs of files
    return fmt::format("{} {}", n, unit);
  };
  std::vector<std::string> parts;
  for (const auto& [v, n] : arrays)
    parts.push_back(v == verdict::within ? fmt::format("{} within {}", n, plural(*ulps, "ulp"))
                                         : fmt::format("{} {}", n, name(v)));
  for (const auto& [v, n] : whole) parts.push_back(plural(n, unit) + " " + std::string(name(v)));
  if (errors) parts.push_back(plural(errors, unit) + " not read");
  return fmt::format(
      "{}, {}: {}\n", plural(files.size(), unit), plural(count, "array"),
      parts.empty() ? "nothing to compare" : fmt::format("{}", fmt::join(parts, ", ")));
}

// For an attribute or text of XML 1.0. `text` is printable (see io::printable), but for line ends.
std::string xml(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      default: out += text[i];
    }
    // U+FFFE and U+FFFF, which XML does not have, become U+FFFD.
    if (out.ends_with("\xef\xbf\xbe") || out.ends_with("\xef\xbf\xbf")) out.back() = '\xbd';
  }
  return out;
}

// One test suite for each file, one test case for each array.
std::string junit_of(const std::vector<file_report>& files) {
  std::string suites;
  std::size_t all_tests = 0, all_failures = 0, all_errors = 0;
  for (const file_report& f : files) {
    const std::string file = xml(io::printable(label(f, "")));
    std::string cases;
    std::size_t tests = 0, failures = 0;
    const auto test = [&](const std::string& array, const std::string& inside) {
      ++tests;
      const std::string head = fmt::format("    <testcase classname=\"{}\" name=\"{}\"", file,
                                           array.empty() ? file : xml(io::printable(array)));
      cases += inside.empty() ? head + "/>\n" : head + ">" + inside + "</testcase>\n";
    };
    const auto failure = [&](verdict v, const std::string& detail) {
      ++failures;
      return fmt::format("<failure type=\"{0}\" message=\"{0}\">{1}</failure>", name(v),
                         xml(detail));
    };
    for (const array_report& a : f.arrays)
      test(a.array, good(a.what) ? "" : failure(a.what, a.detail));
    if (f.whole) test("", failure(*f.whole, ""));
    if (f.error) test("", fmt::format("<error type=\"bad input\" message=\"{}\"/>", xml(*f.error)));
    suites += fmt::format(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n{}  </testsuite>\n",
        file, tests, failures, f.error ? 1 : 0, cases);
    all_tests += tests;
    all_failures += failures;
    all_errors += f.error.has_value();
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"bitfold check\" tests=\"{}\" failures=\"{}\" errors=\"{}\">\n{}"
      "</testsuites>\n",
      all_tests, all_failures, all_errors, suites);
}

// The names of the arrays of a file that was not recorded, or of a pair; none where they have none.
std::vector<array_report> arrays_of_new(file_names files) {
  std::vector<array_report> arrays;
  for (const std::string& file : files) {
    if (!io::has_named_arrays(file) || files.size() > 1) continue;
    for (io::array& a : io::read_arrays(file)) arrays.push_back({a.name, verdict::added, ""});
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
                        std::vector<file_report>& reports, Attempt attempt) {
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
          reports[i].arrays.push_back({a.name, verdict::missing, ""});
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
      const file_report found = check_files(part, files, args);
      for (std::size_t k = 0; k < places.size(); ++k) {
        const auto& [from, there] = places[k];
        if (reports[from.report].error) continue;  // since
        array_report& report = reports[from.report].arrays[from.array];
        report = found.arrays[k];
        if (!good(report.what)) report.detail += detail_line("now in", io::printable(files[0]));
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

int check(const check_arguments& args) {
  const io::golden g = io::read_golden(args.golden);
  const matching m = match(g, args.files);
  if (args.junit) {
    std::vector<std::string> inputs{args.golden};
    for (const auto* list : {&m.added, &m.given})
      for (const auto& files : *list) inputs.insert(inputs.end(), files.begin(), files.end());
    refuse_overwriting("--junit", *args.junit, inputs);
  }
  std::vector<file_report> reports;
  int status = 0;
  // What could not be looked at must not read as a difference.
  const auto attempt = [&](file_report& report, const std::vector<std::string>& files, auto f) {
    const auto failed = [&](const std::string& why, errc code) {
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
  };
  for (std::size_t i = 0; i < g.files.size(); ++i) {
    reports.push_back({paths_of(g.files[i]), {}, {}, {}});
    if (m.given[i].empty())
      reports[i].whole = verdict::missing;
    else
      attempt(reports[i], m.given[i],
              [&] { reports[i] = check_files(g.files[i], m.given[i], args); });
  }
  for (const auto& files : m.added) {
    reports.push_back({files, {}, verdict::added, {}});
    attempt(reports.back(), files, [&] { reports.back().arrays = arrays_of_new(files); });
  }
  check_moved_arrays(g, m, args, reports, attempt);

  std::string text;
  bool all_good = true;
  for (const file_report& f : reports) {
    text += lines_of(f);
    all_good = all_good && !f.whole && !f.error &&
               std::all_of(f.arrays.begin(), f.arrays.end(), [](auto& a) { return good(a.what); });
  }
  if (args.junit) write_file(*args.junit, junit_of(reports));
  write_out(text + summary_of(reports, args.ulps));
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
