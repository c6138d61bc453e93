// bitfold diff
#include <algorithm>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/arguments.hpp"
#include "cli/chosen.hpp"
#include "cli/colours.hpp"
#include "cli/common.hpp"
#include "cli/differences.hpp"
#include "cli/operands.hpp"
#include "cli/progress.hpp"
#include "cli/verdict.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/result.hpp"

namespace bitfold::cli {
namespace {

struct diff_arguments {
  std::vector<std::string> files;
  std::vector<std::string> tensors;  // patterns
  std::optional<std::uint64_t> ulps;
  bool json = false, quiet = false;
  int threads = 0;
  raw_options raw;
};

// An array of one file and that of the same name of the other; one of them may be null.
struct pair {
  const io::array *a, *b;
  const io::array& any() const { return a ? *a : *b; }
};

struct comparison {
  verdict what;
  differences found{};  // of arrays that moved, or are within the tolerance
};

// The arrays of a file that are compared.
struct file_arrays {
  std::vector<io::array> all;
  bool only_one;  // the file has, named or not
};

bool has(const file_arrays& file, const std::string& name) {
  return std::any_of(file.all.begin(), file.all.end(),
                     [&](const io::array& x) { return x.name == name; });
}

// Of two files with one array each these are a pair, whatever their names; and so is an array that
// is chosen of one file, and the other's only one, which has no name.
std::vector<pair> pairs_of(const file_arrays& a, const file_arrays& b) {
  const auto unnamed = [](const file_arrays& f) { return f.only_one && has(f, ""); };
  if (a.all.size() == 1 && b.all.size() == 1 &&
      ((a.only_one && b.only_one) || unnamed(a) || unnamed(b)))
    return {{&a.all[0], &b.all[0]}};
  std::map<std::string_view, const io::array*> by_name;
  for (const io::array& y : b.all) by_name[y.name] = &y;
  std::vector<pair> pairs;
  for (const io::array& x : a.all) {
    const auto found = by_name.extract(x.name);
    pairs.push_back({&x, found.empty() ? nullptr : found.mapped()});
  }
  for (const io::array& y : b.all)
    if (by_name.contains(y.name)) pairs.push_back({nullptr, &y});
  return pairs;
}

file_arrays arrays_of(const diff_arguments& args, const std::string& file) {
  file_arrays found{io::read_arrays(file, args.raw.reading()), false};
  found.only_one = found.all.size() == 1;
  return found;
}

// Leaves those that --tensor names.
void choose(const diff_arguments& args, file_arrays& a, file_arrays& b) {
  std::vector<std::string> names;
  for (const file_arrays* const file : {&a, &b})
    for (const io::array& x : file->all) names.push_back(x.name);
  const auto patterns = patterns_of(args.tensors, names, text_of(args.files));
  cli::choose(patterns, a.all);
  cli::choose(patterns, b.all);
}

comparison compare(const pair& p, const diff_arguments& args) {
  if (!p.b) return {verdict::missing};
  if (!p.a) return {verdict::added};
  if (!(p.a->type == p.b->type) || p.a->shape != p.b->shape) return {verdict::changed};
  const differences found = differences_of(*p.a, *p.b, args.threads);
  if (found.count == 0) return {verdict::same};
  const bool near = args.ulps && has_distances(p.a->type) && found.nan == 0 &&
                    (!found.ulps || found.ulps->distance <= *args.ulps);
  return {near ? verdict::within : verdict::moved, found};
}

// "[0,3]": an element's place in an array of that shape.
std::string place(std::uint64_t at, const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> index(shape.size());
  for (std::size_t k = shape.size(); k-- > 0; at /= shape[k]) index[k] = at % shape[k];
  return io::shape_text(index);
}

std::string number(std::uint64_t n) { return std::to_string(n); }
std::string number(double x) { return to_string(load_scalar(dtype::f64, &x)); }

template <class Distance>
std::string furthest_line(std::string_view label, const std::optional<furthest<Distance>>& f,
                          const std::vector<std::uint64_t>& shape) {
  if (!f) return "";
  return detail_line(label, fmt::format("{} at {}: {} -> {}", number(f->distance),
                                        place(f->at, shape), text_of(f->a), text_of(f->b)));
}

// The steps of integers are their differences.
std::string_view steps_of(io::element_type t) {
  const auto type = io::arithmetic_of(t);
  return type && is_float(*type) ? "ulps" : "absolute";
}

std::string described(const pair& p, const comparison& c, const diff_arguments& args) {
  const io::array& x = p.any();
  const std::string label = x.name.empty() ? text_of(args.files) : x.name;
  std::string text = fmt::format("{}{}  {}  {}\n", word_of(c.what, 8), io::printable(label),
                                 io::shape_text(x.shape), name(x.type));
  if (c.what == verdict::changed) {
    if (!(p.a->type == p.b->type)) text += moved_line("dtype", name(p.a->type), name(p.b->type));
    if (p.a->shape != p.b->shape)
      text += moved_line("shape", io::shape_text(p.a->shape), io::shape_text(p.b->shape));
  }
  if (c.what != verdict::moved && c.what != verdict::within) return text;
  const differences& d = c.found;
  text +=
      detail_line("elements", fmt::format("{} of {}, the first at {}{}", d.count, x.count,
                                          place(d.first, x.shape),
                                          d.nan ? fmt::format("; {} with one NaN", d.nan) : ""));
  text += furthest_line("absolute", d.absolute, x.shape) +
          furthest_line("relative", d.relative, x.shape) +
          furthest_line(steps_of(x.type), d.ulps, x.shape);
  return text;
}

template <class Distance>
std::string json_field(std::string_view label, const std::optional<furthest<Distance>>& f,
                       const std::vector<std::uint64_t>& shape) {
  if (!f) return "";
  std::string distance = number(f->distance);
  if (distance == "inf") distance = "\"inf\"";
  return fmt::format(R"(,"{}":{{"distance":{},"at":{},"a":{},"b":{}}})", label, distance,
                     place(f->at, shape), io::json_value(f->a), io::json_value(f->b));
}

std::string json_of(const pair& p, const comparison& c) {
  const io::array& x = p.any();
  const auto layout = [](const io::array* y) {
    return y ? fmt::format(R"({{"dtype":"{}","shape":{}}})", name(y->type),
                           io::shape_text(y->shape))
             : "null";
  };
  std::string text = fmt::format(R"({{"tensor":{},"verdict":"{}","a":{},"b":{})",
                                 x.name.empty() ? "null" : json_string(x.name), name(c.what),
                                 layout(p.a), layout(p.b));
  if (c.what == verdict::moved || c.what == verdict::within) {
    const differences& d = c.found;
    text += fmt::format(R"(,"elements":{},"different":{},"first":{},"one_nan":{})", x.count,
                        d.count, place(d.first, x.shape), d.nan);
    text += json_field("absolute", d.absolute, x.shape) +
            json_field("relative", d.relative, x.shape) +
            json_field(steps_of(x.type), d.ulps, x.shape);
  }
  return text + "}\n";
}

using counts = std::map<verdict, std::size_t>;

std::string summary_of(const counts& found, std::size_t all, std::optional<std::uint64_t> ulps) {
  std::vector<std::string> parts;
  for (const auto& [what, n] : found)
    parts.push_back(what == verdict::within
                        ? fmt::format("{} within {} ulp{}", n, *ulps, *ulps == 1 ? "" : "s")
                        : fmt::format("{} {}", n, word_of(what, 0)));
  return fmt::format("{} array{}: {}\n", all, all == 1 ? "" : "s",
                     all ? fmt::format("{}", fmt::join(parts, ", ")) : "nothing to compare");
}

std::string json_of(const counts& found, std::size_t all) {
  std::string text = fmt::format("{{\"arrays\":{}", all);
  for (const auto& [what, n] : found) text += fmt::format(",\"{}\":{}", name(what), n);
  return text + "}\n";
}

int diff(const diff_arguments& args) {
  if (args.files.size() != 2)
    refuse(fmt::format("FILE: {} of them, where diff takes two", args.files.size()));
  file_arrays a = arrays_of(args, args.files[0]), b = arrays_of(args, args.files[1]);
  choose(args, a, b);
  const std::vector<pair> pairs = pairs_of(a, b);
  std::uint64_t bytes = 0;
  for (const pair& p : pairs) bytes += p.a && p.b ? 2 * p.a->bytes() : 0;
  counts found;
  std::string text;
  {
    progress bar(static_cast<double>(bytes), passing_unless(args.quiet));
    for (const pair& p : pairs) {
      const waiting clock(bar, p.any().name);
      const comparison c = compare(p, args);
      ++found[c.what];
      if (c.what != verdict::same) text += args.json ? json_of(p, c) : described(p, c, args);
      bar.finish(p.a && p.b ? 2 * static_cast<double>(p.a->bytes()) : 0);
    }
  }
  io::check_mapped_files();
  if (!args.quiet)
    write_out(text + (args.json ? json_of(found, pairs.size())
                                : summary_of(found, pairs.size(), args.ulps)));
  return found[verdict::same] + found[verdict::within] == pairs.size() ? 0 : failure;
}

}  // namespace

subcommand add_diff(CLI::App& app) {
  const auto args = std::make_shared<diff_arguments>();
  CLI::App* command =
      app.add_subcommand("diff", "Compare two files: which arrays differ, where, and how far");
  add_files(*command, "FILE", args->files, std::string(files_help) + ": two")->required();
  command
      ->add_option("--tensor", args->tensors,
                   "Compare these arrays alone: a name, or a pattern such as 'layers.0.*'")
      ->allow_extra_args(false);
  command
      ->add_option("--ulps", args->ulps,
                   "Let every element move by so many ulps, or integers by so much")
      ->check(whole_number(std::numeric_limits<std::uint64_t>::max() - 1));
  auto* const as_json = command->add_flag(
      "--json", args->json, "One JSON object a line: each array that differs, then a summary");
  add_quiet(*command, args->quiet, "Print nothing but errors: the exit status tells");
  command->get_option("--quiet")->excludes(as_json);
  add_raw_options(*command, args->raw);
  add_threads(*command, args->threads);
  command->footer(
      "Arrays are compared by name; of two files of one array each these are, whatever their\n"
      "names. Prints each array that differs: how many elements have other bits, the largest\n"
      "distance (absolute, relative to the larger of the two, in ulps) and where, then a summary.\n"
      "Exit status: 0 all the same, or within --ulps, 1 any difference, 2 usage, 3 a file cannot\n"
      "be read. See docs/regression.md.");
  return {command, [args] { return diff(*args); }};
}

}  // namespace bitfold::cli
