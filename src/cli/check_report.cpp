#include "cli/check_report.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/testing.hpp>

#include "cli/colours.hpp"
#include "cli/common.hpp"
#include "cli/operands.hpp"
#include "io/field.hpp"
#include "io/result.hpp"

namespace bitfold::cli {
namespace {

using testing::no_distance;

// What an array is called.
std::string label(const file_report& f, const std::string& array) {
  std::vector<std::string> names = f.files;
  if (!array.empty())
    for (std::string& name : names) name += ":" + array;
  return text_of(names);
}

std::string lines_of(const std::vector<detail>& details) {
  std::string text;
  for (const detail& d : details) text += d.text;
  return text;
}

// Whether what was compared lies elsewhere than what was recorded.
bool is_elsewhere(const file_report& f) { return !f.checked.empty() && f.checked != f.files; }

std::string lines_of(const file_report& f) {
  std::string text;
  if (is_elsewhere(f) && !good(f))
    text += fmt::format("checked {}, recorded as {}\n", io::printable(text_of(f.checked)),
                        io::printable(text_of(f.files)));
  const auto line = [&](verdict v, const std::string& what) {
    text += word_of(v, 8) + io::printable(what) + "\n";
  };
  if (f.whole) line(*f.whole, label(f, ""));
  for (const array_report& a : f.arrays)
    if (!good(a.what)) {
      line(a.what, label(f, a.array));
      text += lines_of(a.details);
    }
  return text;
}

struct verdict_counts {
  std::map<verdict, std::size_t> arrays, whole;  // of arrays; of files of which there are none
  std::size_t all = 0, unread = 0;               // arrays; files
};

verdict_counts counts_of(const std::vector<file_report>& files) {
  verdict_counts found;
  for (const file_report& f : files) {
    for (const array_report& a : f.arrays) ++found.arrays[a.what];
    found.all += f.arrays.size();
    if (f.whole) ++found.whole[*f.whole];
    found.unread += f.error.has_value();
  }
  return found;
}

std::string summary_of(const std::vector<file_report>& files, std::optional<std::uint64_t> ulps) {
  const verdict_counts found = counts_of(files);
  const char* const unit = files[0].files.size() == 2 ? "pair of files" : "file";
  const auto plural = [](std::size_t n, const char* what) {
    std::string unit(what);
    if (n != 1) unit.insert(std::min(unit.find(' '), unit.size()), "s");  // pairs of files
    return fmt::format("{} {}", n, unit);
  };
  std::vector<std::string> parts;
  for (const auto& [v, n] : found.arrays)
    parts.push_back(v == verdict::within ? fmt::format("{} within {}", n, plural(*ulps, "ulp"))
                                         : fmt::format("{} {}", n, word_of(v, 0)));
  for (const auto& [v, n] : found.whole) parts.push_back(plural(n, unit) + " " + word_of(v, 0));
  if (found.unread) parts.push_back(plural(found.unread, unit) + " not read");
  return fmt::format(
      "{}, {}: {}\n", plural(files.size(), unit), plural(found.all, "array"),
      parts.empty() ? "nothing to compare" : fmt::format("{}", fmt::join(parts, ", ")));
}

// "file":..., and "file2":... of a pair; then "checked":... where it lies elsewhere.
std::string json_files(const file_report& f) {
  std::string text;
  const auto add = [&](const char* field, const std::vector<std::string>& files) {
    for (std::size_t k = 0; k < files.size(); ++k)
      text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", io::of_input(k, field),
                          json_string(files[k]));
  };
  add("file", f.files);
  if (is_elsewhere(f)) add("checked", f.checked);
  return text;
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

}  // namespace

detail changed(std::string_view what, std::string_view golden, std::string_view now) {
  return {moved_line(what, golden, now),
          fmt::format(R"({{"what":"{}","golden":"{}","now":"{}"}})", what, golden, now)};
}

detail changed(std::string_view what, const std::vector<std::uint64_t>& golden,
               const std::vector<std::uint64_t>& now) {
  const std::string before = io::shape_text(golden), after = io::shape_text(now);
  return {moved_line(what, before, after),
          fmt::format(R"({{"what":"{}","golden":{},"now":{}}})", what, before, after)};
}

std::uint64_t distance_of(const io::golden_result& golden, scalar now) {
  const bool truth = info(golden.what.op()).types == typing::truth;
  return truth && golden.value != now ? no_distance : testing::ulp_distance(golden.value, now);
}

detail moved(const io::golden_result& golden, scalar now) {
  const std::uint64_t ulps = distance_of(golden, now);
  const std::string distance = ulps == no_distance ? "no distance"
                               : ulps == 1         ? "1 ulp"
                                                   : fmt::format("{} ulps", ulps);
  std::string label(name(golden.what.op()));
  if (golden.what.method()) label += fmt::format(" {}", name(*golden.what.method()));
  return {moved_line(label, text_of(golden.value), text_of(now), "  " + distance),
          fmt::format(R"({{"what":"{}","method":{},"golden":{},"golden_bits":"{}","now":{},)"
                      R"("now_bits":"{}","ulps":{}}})",
                      name(golden.what.op()), io::json_method(golden.what),
                      io::json_value(golden.value), to_hex(golden.value), io::json_value(now),
                      to_hex(now), ulps == no_distance ? "null" : std::to_string(ulps))};
}

detail located(std::string_view what, const std::string& file) {
  return {detail_line(what, io::printable(file)),
          fmt::format(R"({{"what":"{}","file":{}}})", what, json_string(file))};
}

bool good(const file_report& f) {
  return !f.whole && !f.error &&
         std::all_of(f.arrays.begin(), f.arrays.end(), [](auto& a) { return good(a.what); });
}

std::string text_of(const std::vector<file_report>& files, std::optional<std::uint64_t> ulps) {
  std::string text;
  for (const file_report& f : files) text += lines_of(f);
  return text + summary_of(files, ulps);
}

std::string json_of(const std::vector<file_report>& files) {
  std::string text;
  for (const file_report& f : files) {
    const std::string names = json_files(f);
    if (f.whole) text += fmt::format("{{{},\"verdict\":\"{}\"}}\n", names, name(*f.whole));
    if (f.error)
      text +=
          fmt::format("{{{},\"verdict\":\"unread\",\"error\":{}}}\n", names, json_string(*f.error));
    for (const array_report& a : f.arrays) {
      if (a.what == verdict::same) continue;
      std::vector<std::string> details;
      for (const detail& d : a.details) details.push_back(d.json);
      text += fmt::format(R"({{{},"tensor":{},"verdict":"{}","details":[{}]}})"
                          "\n",
                          names, a.array.empty() ? "null" : json_string(a.array), name(a.what),
                          fmt::join(details, ","));
    }
  }
  const verdict_counts found = counts_of(files);
  text += fmt::format("{{\"files\":{},\"arrays\":{}", files.size(), found.all);
  for (const auto& [v, n] : found.arrays) text += fmt::format(",\"{}\":{}", name(v), n);
  for (const auto& [v, n] : found.whole) text += fmt::format(",\"{}_files\":{}", name(v), n);
  if (found.unread) text += fmt::format(",\"unread_files\":{}", found.unread);
  return text + "}\n";
}

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
      test(a.array, good(a.what) ? "" : failure(a.what, lines_of(a.details)));
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

}  // namespace bitfold::cli
