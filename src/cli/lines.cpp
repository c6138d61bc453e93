#include "cli/lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bitfold/order.hpp>

#include "cli/common.hpp"
#include "io/result.hpp"

namespace bitfold::cli {

shown show(const result& got) {
  std::string text = fmt::format("{}  {}", to_string(got.value), to_hex(got.value)),
              json = fmt::format(R"("value":{},"bits":"{}")", io::json_value(got.value),
                                 to_hex(got.value));
  if (got.bound) {
    const scalar bound = load_scalar(dtype::f64, &*got.bound);
    text += "  +- " + to_string(bound);
    json += ",\"bound\":" + io::json_value(bound);
  }
  return {text, json};
}
shown show(const result_array& got) {
  constexpr std::size_t most_shown = 8;
  const std::size_t size = size_of(got.request.out());
  std::vector<std::string> first;
  for (std::size_t i = 0; i < most_shown && i < got.bytes.size() / size; ++i)
    first.push_back(io::json_value(load_scalar(got.request.out(), &got.bytes[i * size])));
  const std::string shape = io::shape_text(got.shape), digest = got.digest();
  return {shape + "  " + digest, fmt::format(R"("out_shape":{},"digest":"{}","first":[{}])", shape,
                                             digest, fmt::join(first, ","))};
}

std::string text_line(const subject& s, const std::string& op, const shown& got) {
  std::string line;
  if (s.arrays)
    line = "total  ";
  else
    for (const std::string& file : s.files)
      line += io::printable(s.name.empty() ? file : file + ":" + s.name) + "  ";
  return fmt::format("{}{}  {}  {}{}\n", line, io::shape_text(s.shape), name(s.type), op, got.text);
}

std::string json_line(const subject& s, const reduction& r, const std::string& device,
                      const shown& got) {
  std::string source;
  if (s.arrays)
    source = fmt::format("\"files\":{},\"arrays\":{}",
                         json_strings({s.files.begin(), s.files.end()}), *s.arrays);
  else
    source = fmt::format(
        "\"file\":{},{}\"tensor\":{}", json_string(s.files[0]),
        s.files.size() == 2 ? fmt::format("\"file2\":{},", json_string(s.files[1])) : "",
        s.name.empty() ? "null" : json_string(s.name));
  return fmt::format(R"({{{},"shape":{},"dtype":"{}","op":"{}","method":{},"acc":{},)"
                     R"("out_dtype":"{}",{}"order_version":{},"device":"{}",{}}})"
                     "\n",
                     source, io::shape_text(s.shape), name(s.type), name(r.op()),
                     io::json_method(r), io::json_acc(r), name(r.out()),
                     r.ddof() != 0 ? fmt::format("\"ddof\":{},", r.ddof()) : "", order::version,
                     device, got.json);
}

}  // namespace bitfold::cli
