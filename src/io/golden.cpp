#include "io/golden.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bitfold/error.hpp>

#include "io/field.hpp"
#include "io/result.hpp"

namespace bitfold::io {
namespace {

using nlohmann::json;

constexpr std::string_view format_name = "bitfold-golden";
constexpr int format_version = 1;
constexpr std::size_t max_depth = 16;

std::string json_text(std::string_view text) { return json(text).dump(); }

// The document tree of `text`, less what JSON leaves open: of two equal keys the library would keep
// one silently, and nesting has no limit. (Its parser with a callback could tell too, but looks
// through all of a list whenever an element of it ends.) What files[].arrays[] holds, which is
// nearly all, is given to `array` as it ends, with its path, and is not kept: that would take ten
// times the memory of the text.
class tree_reader : public nlohmann::json_sax<json> {
 public:
  using reader_of_array =
      std::function<void(std::size_t file, const json&, const std::string& path)>;
  explicit tree_reader(reader_of_array array) : array_(std::move(array)) {}

  json read(std::string_view text) {
    // The parser would take a zero byte for the end of the text.
    if (const auto zero = text.find('\0'); zero != std::string_view::npos)
      bad("golden file", fmt::format("a zero byte at {}", zero));
    size_ = text.size();
    json::sax_parse(text, this);
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& text) override { return add(std::move(text)); }
  bool binary(binary_t&) override { return add(nullptr); }  // JSON has none
  bool start_object(std::size_t) override { return enter(json::object()); }
  bool start_array(std::size_t) override { return enter(json::array()); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& key) override {
    level& l = levels_.back();
    const auto [member, is_new] = l.container->get_ref<json::object_t&>().emplace(key, nullptr);
    l.member = &*member;
    if (!is_new) bad(printable(location(), 200), "stands there twice");
    return true;
  }
  bool parse_error(std::size_t offset, const std::string&,
                   const nlohmann::detail::exception& e) override {
    if (!dynamic_cast<const json::parse_error*>(&e))  // such as a number beyond any double
      bad("golden file", "not JSON that can be read");
    bad("golden file", offset > size_ ? "ends in the middle (not whole JSON)"
                                      : fmt::format("not JSON at byte {}", offset));
  }

 private:
  struct level {
    json* container;
    json::object_t::value_type* member;  // the current one, of an object
  };
  reader_of_array array_;
  std::size_t size_ = 0;
  json root_;
  std::vector<level> levels_;

  // The path to what is about to be placed, or was placed last.
  std::string location(std::size_t placed = 0) const {
    std::string path;
    for (const level& l : levels_) {
      if (l.container->is_array())
        path += fmt::format("[{}]", l.container->size() - (&l == &levels_.back() ? placed : 1));
      else
        path += (path.empty() ? "" : ".") + printable(l.member->first, 40);
    }
    return path.empty() ? "golden file" : path;
  }
  json* place(json&& value) {
    if (levels_.empty()) return &(root_ = std::move(value));
    const level& l = levels_.back();
    if (l.container->is_object()) return &(l.member->second = std::move(value));
    l.container->push_back(std::move(value));
    return &l.container->back();
  }
  bool add(json&& value) {
    place(std::move(value));
    return true;
  }
  bool enter(json&& container) {
    if (levels_.size() == max_depth) bad(printable(location(), 200), "nested too deeply");
    levels_.push_back({place(std::move(container)), nullptr});
    return true;
  }
  bool leave() {
    json* const ended = levels_.back().container;
    levels_.pop_back();
    if (is_array_of_file()) {
      array_(levels_[1].container->size() - 1, *ended, location(1));
      *ended = json(json::value_t::discarded);
    }
    return true;
  }
  // Whether files[].arrays[] is what has ended.
  bool is_array_of_file() const {
    const auto in = [&](std::size_t level, const char* key) {
      return levels_[level].container->is_object() && levels_[level].member->first == key &&
             levels_[level + 1].container->is_array();
    };
    return levels_.size() == 4 && in(0, "files") && in(2, "arrays");
  }
};

// A value in the tree and the path to it.
struct node {
  const json& value;
  std::string path;

  [[noreturn]] void wrong(std::string_view what) const { bad(path, what); }
  node operator[](const std::string& key) const {
    if (!value.is_object()) wrong("is no object");
    const auto found = value.find(key);
    const std::string location = path == "golden file" ? key : path + "." + key;
    if (found == value.end()) bad(location, "missing");
    return {*found, location};
  }
  std::vector<node> items() const {
    if (!value.is_array()) wrong("is no list");
    std::vector<node> list;
    for (std::size_t i = 0; i < value.size(); ++i)
      list.push_back({value[i], fmt::format("{}[{}]", path, i)});
    return list;
  }
  const std::string& text() const {
    if (!value.is_string()) wrong("is no text");
    return value.get_ref<const std::string&>();
  }
  const std::string& file_name() const {
    if (text().empty() || text().find('\0') != std::string::npos) wrong("is no file's name");
    return text();
  }
  std::uint64_t number() const {
    if (!value.is_number_unsigned()) wrong("is no whole number from 0 to 2^64 - 1");
    return value.get<std::uint64_t>();
  }
  // What `parse` knows under this name.
  template <class Parse>
  auto named(Parse parse) const {
    const auto found = parse(text());
    if (!found) wrong(in_quotes(text()) + " is not known to this version of bitfold");
    return *found;
  }
  // What stands where there is no such choice.
  void none(std::string_view of) const {
    if (!value.is_null()) wrong(fmt::format("is not null, but {} has none", of));
  }
  // So many lower-case hex digits.
  const std::string& hex(std::size_t digits) const {
    if (text().size() != digits ||
        text().find_first_not_of("0123456789abcdef") != std::string::npos)
      wrong(fmt::format("{} is not {} hex digits", in_quotes(text()), digits));
    return text();
  }
};

// Of what is exact there is but one.
int definition_of(op_id op, std::optional<method_id> method) {
  return method == method_id::exact ? 1 : info(op).definition;
}

golden_result parse_result(const node& n, dtype in, bool empty) {
  const auto parse_type = [](std::string_view t) { return parse_dtype(t); };
  const auto op = n["op"].named([](std::string_view t) { return parse_op(t); });
  if (empty && info(op).empty == if_empty::refused)
    n["op"].wrong(fmt::format("{} of no elements is not defined", name(op)));
  std::optional<method_id> method;
  std::optional<dtype> acc;
  if (const node field = n["method"];
      info(op).takes_method || (info(op).has_exact && !field.value.is_null()))
    method = field.named([](std::string_view t) { return parse_method(t); });
  else
    field.none(name(op));
  if (const node field = n["acc"]; accumulates(op, method))
    acc = field.named(parse_type);
  else
    field.none(method ? fmt::format("{} by {}", name(op), name(*method)) : std::string(name(op)));
  const dtype out = n["out"].named(parse_type);
  int ddof = 0;
  if (n.value.contains("ddof")) {
    const node field = n["ddof"];
    if (field.number() > std::numeric_limits<int>::max()) field.wrong("is too large");
    ddof = static_cast<int>(field.number());
  }
  try {
    const reduction r = make_reduction(op, method, in, acc, out, ddof);
    const std::uint64_t definition = n.value.contains("definition") ? n["definition"].number() : 1;
    if (const auto mine = static_cast<std::uint64_t>(definition_of(op, method)); definition != mine)
      n.wrong(fmt::format(
          "{} recorded by definition {}, but this bitfold has definition {}; record it anew",
          name(op), definition, mine));
    return {r, {out, std::stoull(n["bits"].hex(2 * size_of(out)), nullptr, 16)}};
  } catch (const error& e) {
    if (e.code() == errc::bad_input) throw;
    n.wrong(e.what());
  }
}

// Of which the number of inputs is not known yet: see check_inputs.
golden_array parse_array(const node& n) {
  golden_array a{n["name"].text(), n["dtype"].named(element_type::parse), {}, {}, {}};
  const node shape = n["shape"];
  for (const node& extent : shape.items()) a.shape.push_back(extent.number());
  const auto count = element_count(a.shape, item_bytes(a.type));
  if (!count) shape.wrong("does not fit in 64 bits");
  for (std::size_t k = 0; k == 0 || (k == 1 && n.value.contains(of_input(k, "digest"))); ++k)
    a.digests.push_back(n[of_input(k, "digest")].hex(32));
  const node results = n["results"];
  const auto in = arithmetic_of(a.type);
  for (const node& result : results.items()) {
    if (!in) results.wrong(fmt::format("is not empty, but {} has no arithmetic", name(a.type)));
    a.results.push_back(parse_result(result, *in, *count == 0));
  }
  if (in && a.results.empty()) results.wrong("is empty");  // `check --ulps` would compare nothing
  return a;
}

// That the array, at that path, is of so many inputs.
void check_inputs(golden_array& a, const std::string& path, std::size_t inputs) {
  for (std::size_t k = 0; k < a.results.size(); ++k)
    if (const op_id op = a.results[k].what.op();
        static_cast<std::size_t>(info(op).inputs) != inputs)
      bad(fmt::format("{}.results[{}].op", path, k),
          fmt::format("{} takes {}", name(op), inputs == 1 ? "two inputs" : "one input"));
  if (a.digests.size() < inputs) bad(path + "." + of_input(1, "digest"), "missing");
  a.digests.resize(inputs);
}

// The first golden files of version 1 do not tell: the name did then, and raw files had the others.
file_format parse_format_of(const node& file, const golden_file& g, std::size_t k) {
  if (k == 0 && !file.value.contains("format")) {
    if (g.arrays.size() != 1) return file_format::safetensors;
    const auto named = format_of_name(g.sources[0].file);
    return named == file_format::npy || named == file_format::safetensors ? *named
                                                                          : file_format::raw;
  }
  const node format = file[of_input(k, "format")];
  const auto f = format.named([](std::string_view t) { return parse_format(t); });
  if (holds_one(f) && g.arrays.size() != 1)
    format.wrong(fmt::format("'{}', but there are {} arrays", name(f), g.arrays.size()));
  return f;
}

// Of a regular file, or of what comes from a pipe or a terminal.
std::string whole_text(const std::filesystem::path& path, std::uint64_t max_size) {
  const auto failed = [](int error_number) {
    bad("file", std::generic_category().message(error_number));
  };
  const auto file =
      std::unique_ptr<std::FILE, int (*)(std::FILE*)>(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) failed(errno);
  const auto refuse_above_most = [&](std::uintmax_t size) {
    if (size > max_size)
      bad("file", fmt::format("more than {} bytes are too many for a golden file", max_size));
  };
  std::error_code no_size;
  const auto known = std::filesystem::file_size(path, no_size);
  if (!no_size) refuse_above_most(known);
  std::string text;
  for (std::size_t size = 0;;) {
    // Of a file, its size and the byte that is not there.
    const std::uint64_t more = size == 0 && !no_size ? known + 1 : 2 * size;
    text.resize(std::min<std::uint64_t>(std::max<std::uint64_t>(more, 1 << 16), max_size + 1));
    size += std::fread(text.data() + size, 1, text.size() - size, file.get());
    refuse_above_most(size);
    if (size == text.size()) continue;
    if (std::ferror(file.get())) failed(errno);
    text.resize(size);
    return text;
  }
}

}  // namespace

bool is_chosen(const std::vector<std::string>& patterns, const std::string& name) {
  return patterns.empty() || name.empty() ||
         std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
           return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
         });
}

std::string of_input(std::size_t k, std::string_view field) {
  return std::string(field) + (k == 0 ? "" : "2");
}

namespace {

std::string text_of(const golden& g) {
  std::string text = fmt::format(
      "{{\n\"format\": \"{}\",\n\"version\": {},\n\"bitfold\": {},\n\"order_version\": {},\n"
      "{}\"files\": [",
      format_name, format_version, json_text(g.bitfold), order::version,
      g.tensors.empty() ? "" : fmt::format("\"tensors\": {},\n", json(g.tensors).dump()));
  for (std::size_t f = 0; f < g.files.size(); ++f) {
    const auto& [sources, arrays] = g.files[f];
    text += f ? ",\n{" : "\n{";
    for (std::size_t k = 0; k < sources.size(); ++k)
      text +=
          fmt::format("\"{}\": {}, \"{}\": \"{}\", ", of_input(k, "file"),
                      json_text(sources[k].file), of_input(k, "format"), name(sources[k].format));
    text += "\"arrays\": [";
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const golden_array& a = arrays[i];
      text += fmt::format("{}\n  {{\"name\": {}, \"dtype\": \"{}\", \"shape\": {}, ", i ? "," : "",
                          json_text(a.name), name(a.type), shape_text(a.shape));
      for (std::size_t k = 0; k < a.digests.size(); ++k)
        text += fmt::format("\"{}\": \"{}\", ", of_input(k, "digest"), a.digests[k]);
      text += "\"results\": [";
      for (std::size_t k = 0; k < a.results.size(); ++k) {
        const auto& [r, v] = a.results[k];
        const int definition = definition_of(r.op(), r.method());
        text += fmt::format(
            "{}{{\"op\": \"{}\", {}\"method\": {}, \"acc\": {}, \"out\": \"{}\", {}\"value\": {}, "
            "\"bits\": \"{}\"}}",
            k ? ", " : "", name(r.op()),
            definition != 1 ? fmt::format("\"definition\": {}, ", definition) : "", json_method(r),
            json_acc(r), name(r.out()),
            r.ddof() != 0 ? fmt::format("\"ddof\": {}, ", r.ddof()) : "", json_value(v), to_hex(v));
      }
      text += "]}";
    }
    text += "\n]}";
  }
  return text += "\n]\n}\n";
}

}  // namespace

std::string golden_text(const golden& g) {
  for (const golden_file& f : g.files)
    for (const golden_array& a : f.arrays)
      if (!is_utf8(a.name)) bad("tensor " + in_quotes(a.name), "its name is not UTF-8");
  for (const std::string& pattern : g.tensors)
    if (!is_utf8(pattern)) bad("tensors", in_quotes(pattern) + " is not UTF-8");
  std::string text = text_of(g);
  if (text.size() > largest_golden)
    bad("golden file", fmt::format("{} bytes, and {} are the most; record less in one", text.size(),
                                   largest_golden));
  parse_golden(text);
  return text;
}

golden parse_golden(std::string_view text) {
  std::vector<std::vector<golden_array>> arrays;  // of each file
  std::optional<error> wrong;                     // the first; told when the version is known
  const auto read_array = [&](std::size_t file, const json& value, const std::string& path) {
    if (wrong) return;
    try {
      arrays.resize(std::max(arrays.size(), file + 1));
      arrays[file].push_back(parse_array({value, path}));
    } catch (const error& e) {
      wrong = e;
    }
  };
  const json tree = tree_reader(read_array).read(text);
  const node root{tree, "golden file"};
  if (const node format = root["format"]; format.text() != format_name)
    format.wrong(fmt::format("{}, not '{}'", in_quotes(format.text()), format_name));
  if (const node version = root["version"]; version.number() != format_version)
    version.wrong(
        fmt::format("{}, but this bitfold reads version {}", version.number(), format_version));
  if (const node order = root["order_version"]; order.number() != order::version)
    order.wrong(fmt::format(
        "recorded in order version {}, but this bitfold adds in order version {}; record it anew",
        order.number(), order::version));
  golden g{root["bitfold"].text(), {}};
  if (wrong) throw *wrong;
  if (root.value.contains("tensors"))
    for (const node& pattern : root["tensors"].items()) g.tensors.push_back(pattern.text());
  std::set<std::vector<std::string>> files;
  const node all_files = root["files"];
  for (const node& f : all_files.items()) {
    std::vector<std::string> paths{f["file"].file_name()};
    if (f.value.contains("file2")) paths.push_back(f["file2"].file_name());
    const std::size_t inputs = paths.size();
    if (!g.files.empty() && g.files[0].sources.size() != inputs)
      f["file2"].wrong(fmt::format("{} has none", all_files.path + "[0]"));
    g.files.emplace_back();
    golden_file& file = g.files.back();
    for (const std::string& path : paths) file.sources.push_back({path, file_format::raw});
    if (!files.insert(paths).second)
      f["file"].wrong(in_quotes(paths[0]) +
                      (inputs == 1 ? " stands there twice"
                                   : " and " + in_quotes(paths[1]) + " stand there twice"));
    const node list = f["arrays"];
    if (!list.value.is_array()) list.wrong("is no list");
    if (!list.value.empty()) {
      arrays.resize(std::max(arrays.size(), g.files.size()));
      file.arrays = std::move(arrays[g.files.size() - 1]);
    }
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < list.value.size(); ++i) {
      const std::string path = fmt::format("{}[{}]", list.path, i);
      if (!list.value[i].is_discarded()) bad(path, "is no object");
      check_inputs(file.arrays[i], path, inputs);
      const std::string& name = file.arrays[i].name;
      if (!names.insert(name).second) bad(path + ".name", in_quotes(name) + " stands there twice");
    }
    for (std::size_t k = 0; k < inputs; ++k) file.sources[k].format = parse_format_of(f, file, k);
  }
  if (g.files.empty()) all_files.wrong("is empty");
  return g;
}

golden read_golden(const std::filesystem::path& path, std::uint64_t max_size) {
  try {
    return parse_golden(whole_text(path, max_size));
  } catch (const error& e) {
    throw error(e.code(), printable(path.string()) + ": " + e.what());
  }
}

}  // namespace bitfold::io
