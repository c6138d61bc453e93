#include "io/shards.hpp"

#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/field.hpp"

namespace bitfold::io {
namespace {

// Reads weight_map, and passes over all else.
class index_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::map<std::string, std::vector<std::string>> files;
  bool has_map = false;

  bool key(string_t& key) override {
    if (depth_ == 1) {
      in_map_ = key == "weight_map";
      if (in_map_ && std::exchange(has_map, true)) bad("weight_map", "stands there twice");
    } else if (in_map_) {
      tensor_ = key;
      if (!tensors_.insert(key).second) bad(location(), "stands there twice");
    }
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || !in_map_) return value();
    if (text.empty() || text.find('\0') != text.npos) bad(location(), "is no file's name");
    files[text].push_back(tensor_);
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 1 && in_map_) bad(location(), "is no file's name");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1) in_map_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    value();
    ++depth_;
    return true;
  }
  bool end_array() override { return --depth_, true; }
  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool parse_error(std::size_t offset, const std::string&,
                   const nlohmann::detail::exception&) override {
    bad("index", fmt::format("not JSON at byte {}", offset));
  }

 private:
  std::size_t depth_ = 0;
  bool in_map_ = false;
  std::string tensor_;
  std::set<std::string> tensors_;

  std::string location() const { return "weight_map " + in_quotes(tensor_); }
  bool value() const {
    if (depth_ == 0) bad("index", "is no JSON object");
    if (in_map_)
      depth_ == 1 ? bad("weight_map", "is no object") : bad(location(), "is no file's name");
    return true;
  }
};

}  // namespace

bool looks_like_index(std::span<const std::byte> text) {
  constexpr std::size_t far_enough = std::size_t{1} << 20;  // what comes before is short
  const std::string_view all = as_text(text).substr(0, far_enough);
  const auto first = all.find_first_not_of(" \t\r\n");
  return first != all.npos && all[first] == '{' && all.find("\"weight_map\"") != all.npos;
}

std::map<std::string, std::vector<std::string>> parse_index(std::span<const std::byte> text) {
  if (as_text(text).find('\0') != std::string_view::npos) bad("index", "contains a zero byte");
  index_reader reader;
  nlohmann::json::sax_parse(as_text(text), &reader);
  if (!reader.has_map) bad("weight_map", "missing");
  return std::move(reader.files);
}

}  // namespace bitfold::io
