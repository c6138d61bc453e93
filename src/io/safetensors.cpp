#include "io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/field.hpp"

namespace bitfold::io {
namespace {

constexpr std::uint64_t max_header = 100'000'000;  // the official limit

struct tensor_info {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;
};

// Reads the header event by event: a document tree would be many times larger than the text, keep
// only one of two equal keys, and let values of the wrong shape through to be checked later.
class header_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, tensor_info> tensors;

  bool key(string_t& key) override {
    switch (where_) {
      case in_header:
        name_ = key;
        if (key == "__metadata__" ? std::exchange(has_metadata_, true)
                                  : !tensors.try_emplace(key).second)
          bad("header", "repeated key " + in_quotes(key));
        break;
      case in_tensor: {
        const auto field = std::find(fields.begin(), fields.end(), key);
        field_ = key;
        unknown_ = field == fields.end();
        if (!unknown_ &&
            std::exchange(seen_[static_cast<std::size_t>(field - fields.begin())], true))
          bad(location(), "repeated field");
        break;
      }
      default: break;  // of __metadata__, which nobody asks for
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (of_unknown()) return enter_unknown();
    if (where_ == outside) {
      where_ = in_header;
    } else if (where_ == in_header) {
      where_ = name_ == "__metadata__" ? in_metadata : in_tensor;
      field_.clear();
      unknown_ = false;
      seen_ = {};
    } else {
      wrong("an object");
    }
    return true;
  }
  bool end_object() override {
    if (where_ == in_unknown) return leave_unknown();
    for (std::size_t i = 0; where_ == in_tensor && i < fields.size(); ++i) {
      field_ = fields[i];
      if (!seen_[i]) bad(location(), "missing");
    }
    where_ = in_header;
    return true;
  }
  bool string(string_t& text) override {
    if (of_unknown()) return true;
    if (where_ == in_tensor && field_ == "dtype")
      tensors[name_].dtype = text;
    else if (where_ != in_metadata)
      wrong("a string");
    return true;
  }
  bool start_array(std::size_t) override {
    if (of_unknown()) return enter_unknown();
    if (where_ != in_tensor || field_ == "dtype") wrong("an array");
    where_ = in_numbers;
    numbers_.clear();
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (of_unknown()) return true;
    if (where_ != in_numbers) wrong("a number");
    numbers_.push_back(value);
    return true;
  }
  bool end_array() override {
    if (where_ == in_unknown) return leave_unknown();
    auto& tensor = tensors[name_];
    if (field_ == "shape") {
      tensor.shape = numbers_;
    } else {
      if (numbers_.size() != 2) bad(location(), fmt::format("{} numbers, not 2", numbers_.size()));
      tensor.begin = numbers_[0];
      tensor.end = numbers_[1];
    }
    where_ = in_tensor;
    return true;
  }
  bool null() override {
    if (where_ == in_header && name_ == "__metadata__") return true;
    return other("null");
  }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return other("a number that is no 64-bit integer");
  }
  bool binary(binary_t&) override { return other("binary"); }
  bool parse_error(std::size_t offset, const std::string&,
                   const nlohmann::detail::exception&) override {
    bad("header", fmt::format("not JSON at byte {}", offset));
  }

 private:
  static constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};
  enum { outside, in_header, in_metadata, in_tensor, in_numbers, in_unknown } where_ = outside;
  std::string name_, field_;  // of the tensor and of its field
  std::array<bool, fields.size()> seen_{};
  bool unknown_ = false;           // the tensor's field
  std::size_t unknown_depth_ = 0;  // of lists and objects within it
  bool has_metadata_ = false;
  std::vector<std::uint64_t> numbers_;

  std::string location() const {
    if (where_ == outside) return "header";
    if (name_ == "__metadata__") return name_;
    const std::string tensor = "tensor " + in_quotes(name_);
    return where_ == in_header || field_.empty() ? tensor : tensor + " " + printable(field_, 100);
  }
  // The value of a field that the format does not know, which may be anything.
  bool of_unknown() const { return where_ == in_unknown || (where_ == in_tensor && unknown_); }
  bool enter_unknown() {
    where_ = in_unknown;
    ++unknown_depth_;
    return true;
  }
  bool leave_unknown() {
    if (--unknown_depth_ == 0) where_ = in_tensor;
    return true;
  }
  bool other(std::string_view what) const { return of_unknown() ? true : (wrong(what), false); }
  [[noreturn]] void wrong(std::string_view what) const {
    bad(location(), fmt::format("{} is out of place here", what));
  }
};

// Their names in a header are ours in upper case, of those that the format has.
std::optional<element_type> parse_type(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'a' && c <= 'z') return std::nullopt;
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower == "c128" ? std::nullopt : element_type::parse(lower);
}

// The first eight bytes, which must be there.
std::uint64_t header_length(std::span<const std::byte> file) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<std::uint64_t>(file[i]);
  return length;
}

}  // namespace

bool looks_like_safetensors(std::span<const std::byte> start, std::uint64_t size) {
  constexpr std::string_view after = "\"} \t\r\n";  // the {, in JSON
  return start.size() > 9 && start[8] == std::byte{'{'} &&
         after.find(static_cast<char>(start[9])) != after.npos &&
         header_length(start) <= std::min(max_header, size - 8);
}

std::uint64_t safetensors_head_size(std::span<const std::byte> start, std::uint64_t size) {
  if (size < 8) bad("header length", fmt::format("the file has {} bytes", size));
  const std::uint64_t length = header_length(start);
  if (length > max_header)
    bad("header length", fmt::format("{} bytes, above the limit of {}", length, max_header));
  if (length > size - 8)
    bad("header length", fmt::format("{} bytes, but {} are left in the file", length, size - 8));
  return 8 + length;
}

std::vector<array_place> parse_safetensors_head(std::span<const std::byte> head,
                                                const std::optional<std::string>& tensor,
                                                std::optional<std::uint64_t> data,
                                                std::uint64_t& end) {
  const std::string_view text = as_text(head).substr(8);
  // The JSON parser would take a zero byte for the end of the text.
  if (const auto first = text.find_first_not_of(" \t\r\n");
      first == text.npos || text[first] != '{')
    bad("header", "does not start with {");
  if (text.find('\0') != std::string_view::npos) bad("header", "contains a zero byte");
  header_reader header;
  nlohmann::json::sax_parse(text, &header);

  // The tensors, in order, cover the buffer exactly. An empty one comes before its neighbour.
  using entry = std::pair<const std::string, tensor_info>;
  std::vector<entry*> order;
  for (auto& e : header.tensors) order.push_back(&e);
  const auto offsets = [](const entry* e) { return std::pair(e->second.begin, e->second.end); };
  std::stable_sort(order.begin(), order.end(),
                   [&](auto* a, auto* b) { return offsets(a) < offsets(b); });
  const auto field = [](const entry& e, const char* f) {
    return fmt::format("tensor {} {}", in_quotes(e.first), f);
  };
  std::uint64_t covered = 0;
  for (const entry* e : order) {
    const auto [first, last] = offsets(e);
    if (first > last || (data && last > *data))
      bad(field(*e, "data_offsets"),
          data ? fmt::format("[{},{}] is not a range of the {} bytes of data", first, last, *data)
               : fmt::format("[{},{}] is not a range", first, last));
    if (first != covered)
      bad(field(*e, "data_offsets"),
          fmt::format(
              "starts at {}, which leaves a hole or an overlap: the tensor before ends at {}",
              first, covered));
    covered = last;
  }
  if (data && covered != *data)
    bad("data_offsets", fmt::format("the tensors end at {} of {} bytes of data", covered, *data));
  end = head.size() + covered;

  std::vector<array_place> places;
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return std::tie(a->second.begin, a->first) < std::tie(b->second.begin, b->first);
  });
  for (entry* e : order) {
    auto& [dtype_text, shape, first, last] = e->second;
    const bool wanted = !tensor || *tensor == e->first;
    const auto type = parse_type(dtype_text);
    if (!type) {
      if (!wanted) continue;
      bad(field(*e, "dtype"),
          in_quotes(dtype_text) + " is no type of safetensors (F32, BOOL, F8_E4M3 ...)");
    }
    const auto count = element_count(shape, item_bytes(*type));
    if (!count) bad(field(*e, "shape"), "the tensor does not fit in 64 bits");
    if (*count % 8 * type->properties().bits % 8 != 0)
      bad(field(*e, "shape"),
          fmt::format("{} elements of {} do not end with a byte", *count, name(*type)));
    if (const std::uint64_t bytes = bytes_of(*type, *count); bytes != last - first)
      bad(field(*e, "data_offsets"),
          fmt::format("[{},{}] is {} bytes, but {} elements of {} are {}", first, last,
                      last - first, *count, name(*type), bytes));
    if (wanted) places.push_back({e->first, *type, std::move(shape), *count, head.size() + first});
  }
  if (tensor && places.empty()) bad("tensor " + in_quotes(*tensor), "not in the file");
  return places;
}

std::vector<array> parse_safetensors(std::span<const std::byte> file,
                                     const std::optional<std::string>& tensor,
                                     const std::shared_ptr<const void>& owner) {
  const std::uint64_t head = safetensors_head_size(file, file.size());
  std::uint64_t end = 0;
  std::vector<array> arrays;
  for (auto& p : parse_safetensors_head(file.first(head), tensor, file.size() - head, end))
    arrays.push_back(
        {std::move(p.name), p.type, std::move(p.shape), p.count, file.data() + p.begin, owner});
  return arrays;
}

}  // namespace bitfold::io
