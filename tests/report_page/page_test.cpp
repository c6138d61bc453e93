// The report's page: what goes into it, and what is refused.
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include <bitfold/error.hpp>

#include "accuracy/page/page_files.hpp"
#include "accuracy/page/render.hpp"
#include "tests/catch.hpp"

namespace {

using bitfold::accuracy::render;
using nlohmann::json;

const json small = json::parse(R"({
  "format": "bitfold-report", "version": 1, "mode": "quick", "date": "2026-11-21T12:00:00Z",
  "command": "bitfold report", "seed": 1, "bitfold": {}, "machine": {}, "software": [], "missing": [],
  "headlines": [], "findings": [], "inputs": [{"id": "a", "about": "", "kind": "generated"}],
  "contestants": [{"id": "c", "name": "c", "family": "plain", "device": "cpu", "in": "f32", "acc": "",
                   "out": "f32", "promise": false, "main": true, "about": ""}],
  "accuracy": [{"contestant": "c", "input": "a", "in": "f32", "n": 1, "study": "inputs", "ulps": "inf"}],
  "bits": [], "speed": [], "ceilings": []})");

std::string message_of(const std::string& text) {
  try {
    render(text, "r.json");
  } catch (const bitfold::error& e) {
    CHECK(e.code() == bitfold::errc::bad_input);
    CHECK(std::string(e.what()).find('\n') == std::string::npos);
    return e.what();
  }
  return "accepted";
}

// The text of the element <script ... id="ID">, as an HTML parser finds its end.
std::string script(const std::string& page, const std::string& id) {
  const auto start = page.find("id=\"" + id + "\">") + id.size() + 6;
  return page.substr(start, page.find("</script", start) - start);
}

std::string file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the page holds the report, whatever its strings are") {
  json report = small;
  for (const char* name : {"</script><script>alert(1)</script>", "<!-- <script>",
                           "{{page.js}} {{report}}", "\xe2\x80\xa8 \" \\ \x01 \\u003c"})
    report["inputs"].push_back({{"id", name}, {"about", name}, {"kind", "file"}});
  const std::string page = render(report.dump());
  CHECK(json::parse(script(page, "report")) == report);
  CHECK(script(page, "report").find('<') == std::string::npos);
  CHECK(json::parse(script(page, "specs")).contains("curves"));
  CHECK(page.find(file(BITFOLD_PAGE_DIR "/page.js")) != std::string::npos);
  CHECK(page.find(file(BITFOLD_PAGE_DIR "/page.css")) != std::string::npos);
  CHECK(page.find("\n})();</script>\n<script>") != std::string::npos);
}

TEST_CASE("the embedded files are those of the source, and end no script element") {
  for (const auto& [name, content] : bitfold::accuracy::page::files) {
    INFO(name);
    if (name != "vega.js")
      CHECK(content == file(BITFOLD_PAGE_DIR +
                            std::string(name.ends_with(".json") ? "/figures/" : "/") + name));
    if (name.ends_with(".js")) {
      CHECK(content.find("</script") == std::string::npos);
      CHECK(content.find("<!--") == std::string::npos);
    }
  }
}

TEST_CASE("the page can do without the plot library") {
  const std::string page = render(small.dump(), "r.json", "");
  CHECK(page.size() < 100'000);
  CHECK(json::parse(script(page, "report")) == small);
  CHECK(render(small.dump(), "r.json", "the library").find("the library") != std::string::npos);
}

TEST_CASE("what is not a report of version 1 is refused with one line that names the field") {
  REQUIRE(message_of(small.dump()) == "accepted");
  CHECK(message_of("") == "r.json: not JSON (at byte 1)");
  CHECK(message_of(small.dump().substr(0, 100)) == "r.json: not JSON (at byte 101)");
  CHECK(message_of("{\"a\": \"\xff\"}").starts_with("r.json: not JSON"));
  CHECK(message_of("{\"a\": 1e999}").starts_with("r.json: not JSON"));
  CHECK(message_of("[]") == "r.json: format: is not \"bitfold-report\"");

  const auto with = [](const char* pointer, const json& value) {
    json report = small;
    report[json::json_pointer(pointer)] = value;
    return message_of(report.dump());
  };
  CHECK(with("/format", "other") == "r.json: format: is not \"bitfold-report\"");
  CHECK(with("/version", 2) == "r.json: version: this bitfold reads version 1");
  CHECK(with("/version", "1") == "r.json: version: this bitfold reads version 1");
  CHECK(with("/machine", nullptr) == "r.json: machine: is not an object");
  CHECK(with("/speed", json::object()) == "r.json: speed: is not a list");
  CHECK(with("/wrong", json::object()) == "r.json: wrong: is not a list");
  CHECK(with("/wrong", {{{"contestant", "d"}, {"where", ""}}}) ==
        "r.json: wrong[0].contestant: is not the id of a contestant");
  CHECK(with("/wrong", {{{"contestant", "c"}, {"where", ""}}}) == "accepted");
  CHECK(with("/shapes", 1) == "r.json: shapes: is not a list");
  const json batch{
      {"contestant", "c"}, {"in", "f32"}, {"layout", "rows"}, {"length", 16}, {"distinct", 1}};
  CHECK(with("/batches", json::array({batch})) == "accepted");
  CHECK(with("/batches", json::array({{{"contestant", "d"}}})) ==
        "r.json: batches[0].contestant: is not the id of a contestant");
  CHECK(with("/ranks", 1) == "r.json: ranks: is not a list");
  json ranks{{"contestant", "c"}, {"input", "a"},        {"in", "f32"},   {"ranks", 2},
             {"changed", 0},      {"contributions", 32}, {"results", 100}};
  CHECK(with("/ranks", json::array({ranks})) == "accepted");
  ranks["contestant"] = "d";
  CHECK(with("/ranks", json::array({ranks})) ==
        "r.json: ranks[0].contestant: is not the id of a contestant");
  for (const char* list : {"products", "product_bits", "product_speed"})
    CHECK(with((std::string("/") + list).c_str(), {{{"contestant", "c"}, {"in", "f32"}}})
              .starts_with(std::string("r.json: ") + list + "[0]."));
  CHECK(with("/accuracy/0", 7) == "r.json: accuracy[0]: is not an object");
  CHECK(with("/accuracy/0/n", "many") == "r.json: accuracy[0].n: is not a number");
  CHECK(with("/accuracy/0/study", 1) == "r.json: accuracy[0].study: is not a string");
  CHECK(with("/accuracy/0/contestant", "d") ==
        "r.json: accuracy[0].contestant: is not the id of a contestant");
  CHECK(with("/findings/0", {{"contestant", "d"}, {"kind", "bits"}, {"where", ""}}) ==
        "r.json: findings[0].contestant: is not the id of a contestant");
  for (const auto& [field, value] : small.items()) {
    if (field == "seed") continue;  // nothing depends on it
    json report = small;
    report.erase(field);
    CHECK(message_of(report.dump()).starts_with("r.json: " + field + ": "));
  }
}
