#include "cli/shapes.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include <bitfold/error.hpp>
#include <bitfold/view.hpp>

#include "cli/common.hpp"
#include "io/digest.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"

namespace bitfold::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t most_outputs = std::uint64_t{1} << 48;

std::vector<std::int64_t> parse_axes(const std::string& list) {
  std::vector<std::int64_t> axes;
  for (const std::string& text : split(list)) {
    std::int64_t axis = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, problem] = std::from_chars(text.data(), end, axis);
    if (problem != std::errc() || stop != end)
      refuse(fmt::format("--axis: {} is no axis; whole numbers, separated by commas",
                         io::in_quotes(text)));
    axes.push_back(axis);
  }
  return axes;
}

// The integers of a .npy file of one axis.
std::vector<std::int64_t> read_places(const std::string& option, const std::string& file) {
  try {
    const auto [format, arrays] = io::read_file(file, {{}, {}, io::file_format::npy});
    const auto bad = [&](const std::string& what) { refuse(io::printable(file) + ": " + what); };
    if (format != io::file_format::npy) bad("not a .npy file");
    const io::array& a = arrays.at(0);
    if (a.shape.size() != 1)
      bad(fmt::format("shape: {}, and one axis is needed", io::shape_text(a.shape)));
    const auto integer = io::arithmetic_of(a.type);
    if (!integer || is_float(*integer) || is_bool(a.type))
      bad(fmt::format("dtype: {}, and integers are needed", name(a.type)));
    std::vector<std::int64_t> places(a.count);
    visit(*integer, [&]<class T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<T>)
        for (std::size_t i = 0; i < places.size(); ++i) {
          T v;
          std::memcpy(&v, a.data + i * sizeof v, sizeof v);
          if (std::cmp_greater(v, std::numeric_limits<std::int64_t>::max()))
            bad(fmt::format("element {}: {} does not fit i64", i, v));
          places[i] = static_cast<std::int64_t>(v);
        }
    });
    io::check_mapped_files();
    return places;
  } catch (const error& e) {
    throw error(e.code(), option + ": " + e.what());
  }
}

view view_of(const io::array& a, dtype type, const void* data) {
  if (a.shape.size() > max_axes)
    refuse(fmt::format("shape: {} axes, and --axis is for arrays of at most {}", a.shape.size(),
                       max_axes));
  std::vector<std::int64_t> extents;
  for (const std::uint64_t extent : a.shape) {
    if (std::cmp_greater(extent, std::numeric_limits<std::int64_t>::max()))
      refuse(fmt::format("shape: {} does not fit i64", extent));
    extents.push_back(static_cast<std::int64_t>(extent));
  }
  return row_major(type, data, extents);
}

// One or two arrays.
struct views {
  numbers_of_operands numbers;
  view x;
  std::optional<view> y;
  views(const io::array& a, const io::array* b)
      : numbers(a, b), x(view_of(a, numbers.type(), numbers.x())) {
    if (b) y = view_of(*b, numbers.type(), numbers.y());
  }
  const view* second() const { return y ? &*y : nullptr; }
  std::vector<std::uint64_t> result_shape(std::span<const int> axes, bool keepdims = false) const {
    const auto extents = result_extents(x, second(), axes, keepdims);
    return {extents.begin(), extents.end()};
  }
};

// The axes counted from the first.
std::vector<int> axes_of(const std::vector<std::int64_t>& given, std::int64_t rank) {
  std::vector<int> axes;
  for (const std::int64_t axis : given) {
    if (axis < -rank || axis >= rank)
      refuse(
          fmt::format("--axis {}: the array has {} {}", axis, rank, rank == 1 ? "axis" : "axes"));
    axes.push_back(static_cast<int>(axis < 0 ? axis + rank : axis));
    if (std::count(axes.begin(), axes.end(), axes.back()) > 1)
      refuse(fmt::format("--axis {}: given twice", axis));
  }
  return axes;
}

std::string base_name(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto format = io::format_of_name(file);
  if (format == io::file_format::index)
    return name.substr(0, name.size() - io::index_ending.size());
  return format ? file.stem().string() : name;
}

// A tensor's name as a part of a file's: '/' and 0, which it cannot hold, and '%' as %2F, %00 and
// %25.
std::string escaped(const std::string& tensor) {
  std::string text;
  for (const char c : tensor)
    text += c == '/' ? "%2F" : c == '\0' ? "%00" : c == '%' ? "%25" : std::string(1, c);
  return text;
}

}  // namespace

void add_shape_options(CLI::App& command, shape_options& options) {
  command.add_option(
      "--axis", options.axis,
      "The axes to reduce, separated by commas, as 0,2; -1 is the last one. The other axes are the "
      "result's");
  command.add_flag("--keepdims", options.keepdims,
                   "With --axis: reduced axes stay, with 1 element");
  command.add_option("--offsets", options.offsets,
                     "A .npy file of integers: result k is of elements offsets[k] to offsets[k + "
                     "1] - 1 of an array of "
                     "one axis");
  command.add_option(
      "--keys", options.keys,
      "A .npy file of integers, one for each element of an array of one axis: result k is of the "
      "elements with key k");
  command
      .add_option("--outputs", options.outputs,
                  "With --keys: the number of results (default: the largest key and 1)")
      ->check(whole_number(most_outputs));
  command.add_option("--out", options.out,
                     "With --axis, --offsets or --keys: the .npy file for the result of one "
                     "operation of one array, or "
                     "a folder for a file of each, FILE.OP.npy or FILE.TENSOR.OP.npy");
  // For tests: as if so much of the GPU's memory were free.
  command.add_option("--gpu-memory", options.gpu_memory)
      ->check(whole_number(std::uint64_t{1} << 60))
      ->group("");
}

void check_shape_options(const shape_options& o) {
  if (o.axis) parse_axes(*o.axis);
  if (o.offsets && (o.axis || o.keys))
    refuse(std::string("--offsets: not with ") + (o.axis ? "--axis" : "--keys"));
  if (o.keys && o.axis) refuse("--keys: not with --axis");
  if (o.keepdims && !o.axis) refuse("--keepdims: is for --axis");
  if (o.outputs && !o.keys) refuse("--outputs: is for --keys");
  if (o.out && !o.given()) refuse("--out: is for --axis, --offsets or --keys");
  if (o.out && o.out->empty()) refuse("--out: no name");
}

std::string result_array::digest() const {
  io::digest d;
  d.add(bytes.data(), bytes.size());
  return d.hex();
}

grouping::grouping(const shape_options& options) : options_(options) {
  if (options.axis) axes_ = parse_axes(*options.axis);
  if (options.offsets) {
    places_ = read_places("--offsets", *options.offsets);
    outputs_ = std::max<std::size_t>(places_.size(), 1) - 1;
  }
  if (options.keys) {
    places_ = read_places("--keys", *options.keys);
    const auto largest = std::max_element(places_.begin(), places_.end());
    outputs_ = options.outputs ? *options.outputs
               : largest == places_.end() || *largest < 0
                   ? 0
                   : static_cast<std::uint64_t>(*largest) + 1;
    if (outputs_ > most_outputs)
      refuse(fmt::format("--keys: {}: key {} asks for more than {} results",
                         io::printable(*options.keys), *largest, most_outputs));
  }
}

std::vector<std::uint64_t> grouping::common_shape(const io::array& x, const io::array* y) const {
  return y && options_.axis ? views(x, y).result_shape({}) : x.shape;
}

std::vector<result_array> grouping::reduce(const std::vector<reduction>& all, const io::array& x,
                                           const io::array* y, const executor& exec) const {
  std::vector<result_array> results;
  std::vector<void*> out;
  const auto make_room = [&](const std::vector<std::uint64_t>& shape) {
    const auto n = io::element_count(shape, sizeof(std::uint64_t));
    if (!n || *n > most_outputs)
      refuse(fmt::format("shape: {} results are too many", io::shape_text(shape)));
    try {
      for (const reduction& r : all)
        results.push_back({r, shape, std::vector<std::byte>(*n * size_of(r.out()))});
    } catch (const std::bad_alloc&) {
      const char* const named = options_.outputs   ? "--outputs"
                                : options_.keys    ? "--keys"
                                : options_.offsets ? "--offsets"
                                                   : "shape";
      refuse(
          fmt::format("{}: the memory has no room for {} results", named, io::shape_text(shape)));
    }
    for (result_array& r : results) out.push_back(r.bytes.data());
  };
  if (options_.axis) {
    const views v(x, y);
    const auto axes = axes_of(axes_, static_cast<std::int64_t>(common_shape(x, y).size()));
    make_room(v.result_shape(axes, options_.keepdims));
    if (exec.device)
      reduce_in_parts(*exec.device, all, v.x, v.second(), axes, out, exec.done);
    else
      cpu::reduce(all, v.x, v.second(), axes, out, exec.cpu);
    return results;
  }
  if (x.shape.size() != 1)
    refuse(fmt::format("shape: {}, and {} is for arrays of one axis", io::shape_text(x.shape),
                       options_.offsets ? "--offsets" : "--keys"));
  if (options_.keys && places_.size() != x.count)
    refuse(fmt::format("shape: {}, and --keys has {}", io::shape_text(x.shape), places_.size()));
  make_room({outputs_});
  const numbers_of_operands numbers(x, y);
  const std::string& file = options_.offsets ? *options_.offsets : *options_.keys;
  try {
    if (options_.offsets && exec.device)
      reduce_segments_in_parts(*exec.device, all, numbers.x(), numbers.y(), x.count, places_, out,
                               exec.done);
    else if (options_.offsets)
      cpu::reduce_segments(all, numbers.x(), numbers.y(), x.count, places_, out, exec.cpu);
    else if (exec.device)
      reduce_by_key_in_parts(*exec.device, all, numbers.x(), numbers.y(), places_, outputs_, out,
                             exec.done);
    else
      cpu::reduce_by_key(all, numbers.x(), numbers.y(), places_, outputs_, out, exec.cpu);
  } catch (const error& e) {
    throw error(e.code(), fmt::format("{} {}: {}", options_.offsets ? "--offsets" : "--keys",
                                      io::printable(file), e.what()));
  }
  return results;
}

result_files::result_files(const shape_options& options, std::size_t operations, std::size_t groups,
                           std::vector<std::string> inputs)
    : out_(options.out.value_or("")), inputs_([&] {
        for (const auto& file : {options.offsets, options.keys})
          if (file) inputs.push_back(*file);
        return input_files(wanted() ? inputs : std::vector<std::string>());
      }()) {
  if (is_file() && (operations > 1 || groups > 1))
    refuse(fmt::format("--out {}: a file for the results of {} {}; a name without .npy is a folder",
                       io::printable(out_), operations > 1 ? operations : groups,
                       operations > 1 ? "operations" : "arrays"));
  if (is_file()) inputs_.refuse_overwriting("--out", out_);
}

bool result_files::is_file() const { return io::format_of_name(out_) == io::file_format::npy; }

void result_files::check(const std::vector<reduction>& all) const {
  for (const reduction& r : all)
    if (wanted() && r.out() == dtype::bf16)
      refuse(fmt::format("--out: {} gives bf16, which .npy files have not; see --out-dtype",
                         name(r.op())));
}

void result_files::add(contents& files_to_write, std::span<const std::string> files,
                       const std::string& tensor, std::vector<result_array> results) const {
  if (!wanted()) return;
  std::string stem;
  for (const std::string& file : files) stem += (stem.empty() ? "" : "-") + base_name(file);
  if (!tensor.empty()) stem += "." + escaped(tensor);
  for (result_array& r : results) {
    const std::string path =
        is_file()
            ? out_
            : (fs::path(out_) / fmt::format("{}.{}.npy", stem, name(r.request.op()))).string();
    if (!is_file()) inputs_.refuse_overwriting("--out", path);
    std::string place = place_of(path);
    if (files_to_write.contains(place) || written_.contains(place))
      refuse(fmt::format("--out {}: two results go there", io::printable(path)));
    files_to_write.emplace(std::move(place), file{path, std::move(r)});
  }
}

void result_files::write(const contents& all) {
  if (is_file() && all.empty())
    refuse(fmt::format("--out {}: there is no array", io::printable(out_)));
  bool created = false;
  if (wanted() && !is_file() && !all.empty()) {
    std::error_code failed;
    created = fs::create_directories(out_, failed);
    if (failed)
      throw std::runtime_error(
          fmt::format("--out {}: cannot be made: {}", io::printable(out_), failed.message()));
  }
  try {
    new_files files;
    for (const auto& [place, f] : all)
      files.add(f.path, io::npy_text(f.result.request.out(), f.result.shape, f.result.bytes));
    files.commit();
  } catch (...) {
    std::error_code ignored;
    if (created) fs::remove(out_, ignored);
    throw;
  }
  for (const auto& entry : all) written_.insert(entry.first);
}

}  // namespace bitfold::cli
