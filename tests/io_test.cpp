// Reading arrays: every accepted variant of each format, and every way to be malformed.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bitfold/error.hpp>

#include "catch.hpp"
#include "io/arrays.hpp"
#include "io/field.hpp"
#include "io/mapping.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"
#include "zip_bytes.hpp"

namespace {

using namespace bitfold;
using shape = std::vector<std::uint64_t>;

// A copy of exactly this size, so that ASan sees a read past the end.
std::shared_ptr<std::byte[]> exact(const std::string& file) {
  std::shared_ptr<std::byte[]> copy(new std::byte[file.size()]);
  std::memcpy(copy.get(), file.data(), file.size());
  return copy;
}

io::array parse_npy(const std::string& file, std::optional<io::element_type> type = {}) {
  const auto copy = exact(file);
  return io::parse_npy({copy.get(), file.size()}, type, copy);
}

std::vector<io::array> parse_safetensors(const std::string& file,
                                         const std::optional<std::string>& tensor = {}) {
  const auto copy = exact(file);
  return io::parse_safetensors({copy.get(), file.size()}, tensor, copy);
}

std::string data_of(const io::array& a) {
  return {reinterpret_cast<const char*>(a.data), a.bytes()};
}

std::string reversed(std::string s) {
  std::reverse(s.begin(), s.end());
  return s;
}

// The code and text of the error that f throws; what() is always one printable line.
std::pair<int, std::string> failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const error& e) {
    const std::string what = e.what();
    CHECK(io::printable(what) == what);
    return {static_cast<int>(e.code()), what};
  }
  return {0, "no error"};
}

void check_bad(const std::string& expected_start, const std::function<void()>& f) {
  const auto [code, what] = failure(f);
  CAPTURE(expected_start, what);
  CHECK(code == static_cast<int>(errc::bad_input));
  CHECK(what.starts_with(expected_start));
}

// 0, 1, 2, ... in the row-major order of `extents`, as Fortran order stores it.
template <class T>
std::vector<T> fortran_counter(const shape& extents) {
  const auto count = *io::element_count(extents, sizeof(T));
  std::vector<T> stored(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t rest = i, at = 0, stride = count;
    for (auto extent = extents.rbegin(); extent != extents.rend(); ++extent) {
      stride /= *extent;
      at += rest % *extent * stride;
      rest /= *extent;
    }
    stored[at] = static_cast<T>(i);
  }
  return stored;
}

}  // namespace

TEST_CASE("printable text") {
  const auto row = GENERATE(table<std::string, std::string>({
      {"plain text", "plain text"},
      {"a\nb\x1b[0m\x7f", "a\\x0ab\\x1b[0m\\x7f"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
       "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"\xc2\x9b", "\\xc2\\x9b"},  // a C1 control character
      // what turns the direction of text, and ends of lines
      {"a\u202eb\u2066c\u2028", "a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xe2\\x80\\xa8"},
      {"\xff\xc3", "\\xff\\xc3"},                             // not UTF-8; cut short
      {"\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf"},  // overlong
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                    // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},           // beyond U+10FFFF
  }));
  CHECK(io::printable(std::get<0>(row)) == std::get<1>(row));
  CHECK(io::printable(std::string(300, 'x'), 100).size() <= 103);
  CHECK(io::in_quotes(std::string(1000, '\n')).size() <= 105);
}

TEST_CASE("npy: every element type and byte order") {
  struct row {
    const char* descr;
    dtype type;
  };
  const auto [descr, type] = GENERATE(values<row>({{"f2", dtype::f16},
                                                   {"f4", dtype::f32},
                                                   {"f8", dtype::f64},
                                                   {"i1", dtype::i8},
                                                   {"i2", dtype::i16},
                                                   {"i4", dtype::i32},
                                                   {"i8", dtype::i64},
                                                   {"u1", dtype::u8},
                                                   {"u2", dtype::u16},
                                                   {"u4", dtype::u32},
                                                   {"u8", dtype::u64}}));
  const char order = GENERATE('<', '>', '=', '|');
  const std::size_t size = size_of(type);
  if (order == '|' && size > 1) {
    check_bad("descr: '|" + std::string(descr) + "'", [&, descr = descr] {
      parse_npy(bytes::npy(std::string("|") + descr, "(1,)", std::string(size, 0)));
    });
    return;
  }
  const std::string first = std::string("\x01\x02\x03\x04\x05\x06\x07\x08").substr(0, size);
  const std::string second = std::string("\x11\x12\x13\x14\x15\x16\x17\x18").substr(0, size);
  const bool big = order == '>';
  const std::string body = big ? reversed(first) + reversed(second) : first + second;
  CAPTURE(order, descr);
  const auto a = parse_npy(bytes::npy(order + std::string(descr), "(2,)", body));
  CHECK(a.type == type);
  CHECK(a.count == 2);
  CHECK(a.shape == shape{2});
  CHECK(a.name.empty());
  CHECK(data_of(a) == first + second);
}

TEST_CASE("npy: versions, shapes and spellings of the header") {
  const std::string body = bytes::of<float>({1, 2, 3, 4, 5, 6});
  for (int major = 1; major <= 3; ++major) {
    const auto a = parse_npy(
        bytes::npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", body, major));
    CHECK(a.shape == shape{2, 3});
    CHECK(data_of(a) == body);
  }
  const std::string long_header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)" + std::string(70000, ' ') + "}";
  CHECK(data_of(parse_npy(bytes::npy_of(long_header, body, 2))) == body);

  const auto shapes = std::vector<std::pair<std::string, shape>>{
      {"(6,)", {6}},       {"(6, )", {6}},           {"(2,3)", {2, 3}},
      {"(2, 3,)", {2, 3}}, {"(1, 6, 1)", {1, 6, 1}}, {"(1, 2, 1, 3, 1)", {1, 2, 1, 3, 1}}};
  for (const auto& [text, expected] : shapes) {
    CAPTURE(text);
    CHECK(parse_npy(bytes::npy("<f4", text, body)).shape == expected);
  }
  for (const std::string header :
       {"{'descr':'<f4','fortran_order':False,'shape':(6,)}",
        "{ \"shape\" : ( 6 , ) , 'descr' : \"<f4\" , 'fortran_order' : False , }",
        "{'fortran_order': True, 'descr': '<f4', 'shape': (6,), }"}) {
    CAPTURE(header);
    CHECK(data_of(parse_npy(bytes::npy_of(header, body))) == body);
  }

  const auto zero_d = parse_npy(bytes::npy("<f8", "()", bytes::of<double>({42})));
  CHECK(zero_d.shape.empty());
  CHECK(zero_d.count == 1);
  CHECK(data_of(zero_d) == bytes::of<double>({42}));
  for (const std::string text : {"(0,)", "(3, 0)", "(0, 18446744073709551615, 2)"})
    CHECK(parse_npy(bytes::npy("<f8", text, "")).count == 0);
}

TEST_CASE("npy: as Python 2 wrote it") {
  const std::string body = bytes::of<float>({1, 2, 3, 4, 5, 6});
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }";
  CHECK(parse_npy(bytes::npy_of(header, body, 1)).shape == shape{2, 3});
  CHECK(parse_npy(bytes::npy_of(header, body, 2)).shape == shape{2, 3});
  check_bad("shape: ", [&] { parse_npy(bytes::npy_of(header, body, 3)); });  // which it could not
}

TEST_CASE("npy: types without arithmetic, and those that NumPy has no name for") {
  const std::string body = "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20";
  const auto type_of = [&](const std::string& descr, int elements,
                           std::optional<io::element_type> given = {}) {
    const auto a = parse_npy(bytes::npy(descr, "(" + std::to_string(elements) + ",)", body), given);
    CHECK(data_of(a) == body);
    return std::string(name(a.type));
  };
  CHECK(type_of("|b1", 16) == "bool");
  CHECK(type_of("<f1", 16) == "f8_e5m2");
  CHECK(type_of("<c8", 2) == "c64");
  CHECK(type_of("<c16", 1) == "c128");
  CHECK(type_of("<V2", 8, dtype::bf16) == "bf16");
  CHECK(type_of("|V2", 8, dtype::bf16) == "bf16");
  CHECK(type_of("|V1", 16, io::element_type::parse("f8_e4m3")) == "f8_e4m3");
  const auto refused = [&](const char* expected, const char* descr,
                           std::optional<io::element_type> given = {}) {
    check_bad(expected, [&] { parse_npy(bytes::npy(descr, "(8,)", body), given); });
  };
  refused(
      "descr: '<V2' does not say of what type the bytes are; NumPy writes bfloat16 so: --dtype "
      "bf16",
      "<V2");
  refused("descr: '|V1' does not say", "|V1", dtype::bf16);
  refused("descr: '<V2' does not say", "<V2", io::element_type::parse("f4"));
  // Each part of a complex number has a byte order.
  const std::string parts = "\2\1\4\3\6\5\10\7\12\11\14\13\16\15\20\17";
  std::string big;
  for (const std::size_t at : {0, 4, 8, 12}) big += reversed(body.substr(at, 4));
  CHECK(data_of(parse_npy(bytes::npy(">c8", "(2,)", big))) == body);
  CHECK(data_of(parse_npy(bytes::npy(
            ">c16", "(1,)", reversed(body.substr(0, 8)) + reversed(body.substr(8))))) == body);
  CHECK(data_of(parse_npy(bytes::npy("<c8", "(2, 2)", body + parts, true))) ==
        body.substr(0, 8) + parts.substr(0, 8) + body.substr(8) + parts.substr(8));
}

TEST_CASE("npy: several arrays in one file are named") {
  const auto one = bytes::npy("<f4", "(2,)", bytes::of<float>({1, 2}));
  check_bad("size: another array follows the first", [&] { parse_npy(one + one); });
  check_bad("shape: 2 elements", [&] { parse_npy(one + one.substr(0, 5)); });
}

TEST_CASE("npy: data is not copied unless it must be") {
  const auto file = bytes::npy("<f4", "(2, 3)", bytes::of<float>({1, 2, 3, 4, 5, 6}));
  const auto copy = exact(file);
  const auto in_file = [&](const io::array& a) {
    return a.data >= copy.get() && a.data + a.count * 4 == copy.get() + file.size();
  };
  CHECK(in_file(io::parse_npy({copy.get(), file.size()}, {}, copy)));
}

TEST_CASE("npy: Fortran order comes out in row-major order") {
  const auto extents = GENERATE(values<shape>({{2, 3},
                                               {3, 2},
                                               {1, 5, 1, 4},
                                               {5, 1},
                                               {17, 33},
                                               {2, 3, 4},
                                               {19, 2, 35},
                                               {2, 3, 4, 5, 6},
                                               {40, 3, 1, 2, 21},
                                               {1, 1, 1}}));
  const std::string text = [&] {
    std::string s = "(";
    for (const auto extent : extents) s += std::to_string(extent) + ",";
    return s + ")";
  }();
  CAPTURE(text);
  const auto count = *io::element_count(extents, 8);
  const auto check = [&]<class T>(const std::string& descr, T) {
    std::vector<T> expected(count), stored = fortran_counter<T>(extents);
    for (std::uint64_t i = 0; i < count; ++i) expected[i] = static_cast<T>(i);
    const auto a = parse_npy(bytes::npy("<" + descr, text, bytes::of(stored), true));
    CHECK(a.shape == extents);
    CHECK(data_of(a) == bytes::of(expected));
    std::string big = bytes::of(stored);
    for (std::size_t i = 0; i < big.size(); i += sizeof(T))
      std::reverse(big.begin() + static_cast<std::ptrdiff_t>(i),
                   big.begin() + static_cast<std::ptrdiff_t>(i + sizeof(T)));
    CHECK(data_of(parse_npy(bytes::npy(">" + descr, text, big, true))) == bytes::of(expected));
  };
  check("u1", std::uint8_t{});
  check("i2", std::int16_t{});
  check("f4", float{});
  check("f8", double{});
}

TEST_CASE("npy: malformed") {
  const std::string body = bytes::of<float>({1, 2});
  const std::string good = bytes::npy("<f4", "(2,)", body);
  REQUIRE(parse_npy(good).count == 2);

  SECTION("every truncation") {
    for (std::size_t n = 0; n < good.size(); ++n) {
      CAPTURE(n);
      const char* const field = n < 6                           ? "magic:"
                                : n < 8                         ? "version:"
                                : n < good.size() - body.size() ? "header length:"
                                                                : "shape:";
      check_bad(field, [&] { parse_npy(good.substr(0, n)); });
    }
  }
  SECTION("around the header") {
    check_bad("shape: 2 elements of f32 are 8 bytes, but the file has 9",
              [&] { parse_npy(good + "x"); });
    check_bad("magic:", [&] { parse_npy("PK\x03\x04" + good.substr(4)); });
    for (const std::string& version :
         {std::string("\0\0", 2), std::string("\4\0", 2), std::string("\1\1", 2)})
      check_bad("version:", [&] { parse_npy(std::string(good).replace(6, 2, version)); });
    check_bad("header length: 65535 bytes",
              [&] { parse_npy(std::string(good).replace(8, 2, "\xff\xff")); });
    check_bad("header length: 4294967295 bytes",
              [&] { parse_npy(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)); });
  }
  SECTION("header text") {
    const auto [field, header] = GENERATE(table<std::string, std::string>({
        {"header:", ""},
        {"header:", "("},
        {"header:", "{,}"},
        {"header:", "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}"},
        {"header:", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)"},
        {"header:", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,),,}"},
        {"header:", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"},
        {"header:", std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\0", 56)},
        {"header:", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}"},
        {"header:", "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"},
        {"header:", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}"},
        {"header:", "{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (2,)}"},
        {"header:", "{'descr"},
        {"header:", "{'\x1b\n': 1}"},
        {"descr:", "{}"},
        {"descr:", "{'fortran_order': False, 'shape': (2,)}"},
        {"descr:", "{'descr': 4, 'fortran_order': False, 'shape': (2,)}"},
        {"descr: structured", "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}"},
        {"descr:", "{'descr': \"<f4', 'fortran_order': False"},
        {"fortran_order:", "{'descr': '<f4', 'shape': (2,)}"},
        {"fortran_order:", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"},
        {"fortran_order:", "{'descr': '<f4', 'fortran_order': false, 'shape': (2,)}"},
        {"header:", "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2,)}"},
        {"shape:", "{'descr': '<f4', 'fortran_order': False}"},
        {"shape:", "{'descr': '<f4', 'fortran_order': False, 'shape': 2}"},
        {"shape:", "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}"},
    }));
    CAPTURE(header);
    check_bad(field, [&, header = header] { parse_npy(bytes::npy_of(header, body)); });
  }
  SECTION("shape") {
    const std::string text =
        GENERATE("(2)", "(,)", "(2,,)", "(-2,)", "(+2,)", "(02,)", "(2.0,)", "(2e0,)", "(0x2,)",
                 "(2l,)", "(L,)", "(2LL,)", "(1_0,)", "('2',)", "(2", "(2,", "(None,)", "((2,),)",
                 "(3,)", "(1,)", "()", "(0,)", "(18446744073709551616,)", "(4611686018427387905,)",
                 "(4294967296, 4294967296)", "(2, 9223372036854775808)");
    CAPTURE(text);
    check_bad("shape:", [&] { parse_npy(bytes::npy("<f4", text, body)); });
  }
  SECTION("descr") {
    const std::string descr = GENERATE("", "<", "f4", "<f", "<f3", "<f16", "<c4", "<c32", "|c8",
                                       "|O", "|S4", "<U1", "|V2", "<V2", ">V2", "|V4", "<M8", "<m8",
                                       "<f4 ", " <f4", "!f4", "<e4", "<i3", "<b2", "\x1b[2J");
    const auto [code, what] = failure([&] { parse_npy(bytes::npy(descr, "(2,)", body)); });
    CAPTURE(descr, what);
    CHECK(code == 3);
    CHECK(what.starts_with("descr: " + io::in_quotes(descr)));
  }
}

TEST_CASE("safetensors: every element type, order, metadata") {
  struct row {
    const char* text;
    io::element_type type;
  };
  const auto type = [](const char* name) { return *io::element_type::parse(name); };
  // Eight bytes are elements of each.
  const row rows[] = {{"F16", dtype::f16},
                      {"BF16", dtype::bf16},
                      {"F32", dtype::f32},
                      {"F64", dtype::f64},
                      {"I8", dtype::i8},
                      {"I16", dtype::i16},
                      {"I32", dtype::i32},
                      {"I64", dtype::i64},
                      {"U8", dtype::u8},
                      {"U16", dtype::u16},
                      {"U32", dtype::u32},
                      {"U64", dtype::u64},
                      {"BOOL", type("bool")},
                      {"F4", type("f4")},
                      {"F6_E2M3", type("f6_e2m3")},
                      {"F6_E3M2", type("f6_e3m2")},
                      {"F8_E4M3", type("f8_e4m3")},
                      {"F8_E5M2", type("f8_e5m2")},
                      {"F8_E8M0", type("f8_e8m0")},
                      {"F8_E4M3FNUZ", type("f8_e4m3fnuz")},
                      {"F8_E5M2FNUZ", type("f8_e5m2fnuz")},
                      {"C64", type("c64")}};
  // All but c128, which the format has not.
  CHECK(std::size(rows) == all_dtypes.size() + io::other_elements.size() - 1);
  // One tensor of each type, laid out against the order of their names.
  std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"}", body;
  char name = 'z';
  for (const auto& r : rows) {
    const int begin = static_cast<int>(body.size()),
              end = begin + static_cast<int>(bytes_of(r.type, 8));
    header += "," + bytes::tensor(std::string(1, name--), r.text, "[2,1,4]", begin, end);
    for (int i = begin; i < end; ++i) body += static_cast<char>(7 * i + 1);
  }
  const std::string file = bytes::safetensors(header + "}   ", body);
  const auto arrays = parse_safetensors(file);
  REQUIRE(arrays.size() == std::size(rows));
  std::string joined;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CHECK(arrays[i].name == std::string(1, static_cast<char>('z' - i)));
    CHECK(arrays[i].type == rows[i].type);
    CHECK(arrays[i].shape == shape{2, 1, 4});
    CHECK(arrays[i].count == 8);
    joined += data_of(arrays[i]);
  }
  CHECK(joined == body);
  const auto one = parse_safetensors(file, "y");
  REQUIRE(one.size() == 1);
  CHECK(one[0].type == dtype::bf16);
  CHECK(data_of(one[0]) == body.substr(16, 16));
}

TEST_CASE("safetensors: what the official reader takes") {
  const std::string body = "12345678", w = bytes::tensor("w", "F32", "[2]", 0, 8);
  const std::string known = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  for (const std::string& header :
       {"{\"__metadata__\":null," + w + "}", " \t\r\n{" + w + "}  \n", "{ " + w + " }",
        "{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}," + w + "}",
        "{\"w\":{" + known + ",\"extra\":1}}",
        "{\"w\":{\"extra\":{\"dtype\":[1,{\"x\":null}]}," + known +
            ",\"more\":[[]],\"text\":\"\",\"z\":-1.5,\"y\":false}}"}) {
    CAPTURE(header);
    const auto arrays = parse_safetensors(bytes::safetensors(header, body));
    REQUIRE(arrays.size() == 1);
    CHECK(arrays[0].type == dtype::f32);
    CHECK(data_of(arrays[0]) == body);
  }
}

TEST_CASE("safetensors: empty tensors, scalars, ties, names") {
  CHECK(parse_safetensors(bytes::safetensors("{}", "")).empty());
  CHECK(parse_safetensors(bytes::safetensors("{\"__metadata__\":{}}", "")).empty());
  const auto arrays = parse_safetensors(bytes::safetensors(
      "{" + bytes::tensor("d", "F32", "[0,3]", 4, 4) + "," + bytes::tensor("b", "F32", "[]", 0, 4) +
          "," + bytes::tensor("c", "I8", "[0]", 0, 0) + "," +
          bytes::tensor("a", "I8", "[0]", 4, 4) +
          ", \"\\u0000\\n\" : { \"shape\" : [ 1 ], \"data_offsets\":[4,5], \"dtype\":\"U8\" } }",
      "abcde"));
  REQUIRE(arrays.size() == 5);
  const char* const names[] = {"b", "c", "\0\n", "a", "d"};
  CHECK(arrays[0].name == names[0]);
  CHECK(arrays[0].shape.empty());
  CHECK(data_of(arrays[0]) == "abcd");
  CHECK(arrays[1].name == names[1]);
  CHECK(arrays[2].name == std::string("\0\n", 2));
  CHECK(arrays[3].name == names[3]);
  CHECK(arrays[4].name == names[4]);
  CHECK(arrays[4].shape == shape{0, 3});
}

TEST_CASE("safetensors: one tensor among others of unknown type") {
  const std::string file =
      bytes::safetensors("{" + bytes::tensor("a", "F8_NEW", "[4]", 0, 4) + "," +
                             bytes::tensor("b", "F32", "[1]", 4, 8) + "}",
                         "....abcd");
  check_bad("tensor 'a' dtype: 'F8_NEW'", [&] { parse_safetensors(file); });
  check_bad("tensor 'a' dtype: 'F8_NEW'", [&] { parse_safetensors(file, "a"); });
  check_bad("tensor 'nope': not in the file", [&] { parse_safetensors(file, "nope"); });
  check_bad("tensor '__metadata__': not in the file",
            [&] { parse_safetensors(file, "__metadata__"); });
  REQUIRE(parse_safetensors(file, "b").size() == 1);
  CHECK(data_of(parse_safetensors(file, "b")[0]) == "abcd");
}

TEST_CASE("safetensors: malformed") {
  const std::string good_header = "{" + bytes::tensor("w", "F32", "[2]", 0, 8) + "}";
  const std::string body = "12345678", good = bytes::safetensors(good_header, body);
  REQUIRE(parse_safetensors(good).size() == 1);

  SECTION("every truncation") {
    for (std::size_t n = 0; n < good.size(); ++n) {
      CAPTURE(n);
      check_bad(n < good.size() - body.size() ? "header length:" : "tensor 'w' data_offsets:",
                [&] { parse_safetensors(good.substr(0, n)); });
    }
  }
  SECTION("header length") {
    const auto with_length = [&](std::uint64_t n) {
      return bytes::little_endian(n, 8) + good.substr(8);
    };
    check_bad("header length:", [&] { parse_safetensors("1234567"); });
    check_bad("header length:", [&] { parse_safetensors(with_length(good.size() - 7)); });
    check_bad("header length: 100000001 bytes, above",
              [&] { parse_safetensors(with_length(100'000'001)); });
    check_bad("header length:", [&] { parse_safetensors(with_length(~0ull)); });
    check_bad("header:", [&] { parse_safetensors(with_length(0)); });
  }
  SECTION("header text") {
    const auto [field, header] = GENERATE_COPY(table<std::string, std::string>({
        {"header: does not start", "\xef\xbb\xbf" + good_header},
        {"header: does not start", "[]"},
        {"header: not JSON", "{"},
        {"header: not JSON", "{'w':1}"},
        {"header: not JSON", good_header + "x"},
        {"header: not JSON", good_header + good_header},
        {"header: not JSON", good_header.substr(0, good_header.size() - 1) + ",}"},
        {"header: not JSON", "{\"\xff\":1}"},
        {"header: not JSON", "{\"\n\":1}"},
        {"header: not JSON", "{\"\\ud800\":1}"},
        {"header: contains a zero byte", good_header + std::string("\0", 1)},
        {"header: repeated key 'w'", "{" + bytes::tensor("w", "F32", "[2]", 0, 8) + "," +
                                         bytes::tensor("w", "F32", "[2]", 0, 8) + "}"},
        {"header: repeated key '\\x1b'", "{" + bytes::tensor("\\u001b", "I8", "[0]", 0, 0) + "," +
                                             bytes::tensor("\\u001b", "I8", "[0]", 0, 0) + "}"},
        {"header: repeated key '__metadata__'", "{\"__metadata__\":{},\"__metadata__\":{}}"},
        {"__metadata__:", "{\"__metadata__\":[]}"},
        {"__metadata__:", "{\"__metadata__\":\"x\"}"},
        {"__metadata__:", "{\"__metadata__\":{\"a\":1}}"},
        {"__metadata__:", "{\"__metadata__\":{\"a\":{}}}"},
        {"__metadata__:", "{\"__metadata__\":{\"a\":[\"x\"]}}"},
        {"tensor 'w':", "{\"w\":1}"},
        {"tensor 'w':", "{\"w\":-1}"},
        {"tensor 'w':", "{\"w\":1.5}"},
        {"tensor 'w':", "{\"w\":true}"},
        {"tensor 'w':", "{\"w\":null}"},
        {"tensor 'w':", "{\"w\":\"x\"}"},
        {"tensor 'w':", "{\"w\":[]}"},
        {"header:", "{\"w\":1e999}"},
    }));
    CAPTURE(header);
    check_bad(field, [&, header = header] { parse_safetensors(bytes::safetensors(header, body)); });
  }
  SECTION("fields of a tensor") {
    const auto [field, fields] = GENERATE(table<std::string, std::string>({
        {" dtype: missing", ""},
        {" dtype: missing", R"("shape":[2],"data_offsets":[0,8])"},
        {" shape: missing", R"("dtype":"F32","data_offsets":[0,8])"},
        {" data_offsets: missing", R"("dtype":"F32","shape":[2])"},
        {" data_offsets: missing", R"("dtype":"F32","shape":[2],"extra":{"data_offsets":[0,8]})"},
        {" dtype: repeated",
         R"("extra":[1],"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"},
        {" dtype: repeated", R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"},
        {" shape: repeated", R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"},
        {" dtype: a number", R"("dtype":32,"shape":[2],"data_offsets":[0,8])"},
        {" dtype: an array", R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])"},
        {" dtype: null", R"("dtype":null,"shape":[2],"data_offsets":[0,8])"},
        {" shape: a number", R"("dtype":"F32","shape":2,"data_offsets":[0,8])"},
        {" shape: a string", R"("dtype":"F32","shape":"2","data_offsets":[0,8])"},
        {" shape: a string", R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"},
        {" shape: a negative", R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"},
        {" shape: a number that", R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"},
        {" shape: a number that", R"("dtype":"F32","shape":[2e0],"data_offsets":[0,8])"},
        {" shape: a number that",
         R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"},
        {" shape: an array", R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])"},
        {" shape: an object", R"("dtype":"F32","shape":{},"data_offsets":[0,8])"},
        {" shape: the tensor does not fit",
         R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,8])"},
        {" shape: the tensor does not fit",
         R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"},
        {" data_offsets: [0,8] is 8 bytes", R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"},
        {" data_offsets: [0,8] is 8 bytes", R"("dtype":"F32","shape":[],"data_offsets":[0,8])"},
        {" data_offsets: [0,8] is 8 bytes", R"("dtype":"F32","shape":[0],"data_offsets":[0,8])"},
        {" data_offsets: [0,8] is 8 bytes", R"("dtype":"F64","shape":[2],"data_offsets":[0,8])"},
        {" data_offsets: 0 numbers", R"("dtype":"F32","shape":[2],"data_offsets":[])"},
        {" data_offsets: 1 numbers", R"("dtype":"F32","shape":[2],"data_offsets":[8])"},
        {" data_offsets: 3 numbers", R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])"},
        {" data_offsets: [8,0]", R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"},
        {" data_offsets: [0,9]", R"("dtype":"F32","shape":[2],"data_offsets":[0,9])"},
        {" data_offsets: [0,184",
         R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])"},
        {" data_offsets: starts at 4", R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"},
        {" dtype: 'F8'", R"("dtype":"F8","shape":[8],"data_offsets":[0,8])"},
        {" dtype: 'C128'", R"("dtype":"C128","shape":[1],"data_offsets":[0,8])"},
        {" shape: 15 elements of f4 do not end",
         R"("dtype":"F4","shape":[15],"data_offsets":[0,8])"},
        {" shape: 10 elements of f6_e2m3 do not end",
         R"("dtype":"F6_E2M3","shape":[10],"data_offsets":[0,8])"},
        {" data_offsets: [0,8] is 8 bytes, but 14 elements of f4 are 7",
         R"("dtype":"F4","shape":[14],"data_offsets":[0,8])"},
        {" dtype: 'f32'", R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"},
        {" dtype: ''", R"("dtype":"","shape":[2],"data_offsets":[0,8])"},
        {" dtype: '\\x0a'", R"("dtype":"\n","shape":[2],"data_offsets":[0,8])"},
    }));
    CAPTURE(fields);
    check_bad("tensor 'w'" + field, [&, fields = fields] {
      parse_safetensors(bytes::safetensors("{\"w\":{" + fields + "}}", body));
    });
  }
  SECTION("cover of the data") {
    const auto two = [&](int begin_a, int end_a, int begin_b, int end_b, const std::string& data) {
      const auto tensor = [](const char* name, int begin, int end) {
        return bytes::tensor(name, "I8", "[" + std::to_string(end - begin) + "]", begin, end);
      };
      return bytes::safetensors(
          "{" + tensor("a", begin_a, end_a) + "," + tensor("b", begin_b, end_b) + "}", data);
    };
    CHECK(parse_safetensors(two(0, 4, 4, 8, body)).size() == 2);
    CHECK(parse_safetensors(two(4, 8, 0, 4, body)).size() == 2);
    check_bad("tensor 'b' data_offsets: starts at 3",
              [&] { parse_safetensors(two(0, 4, 3, 8, body)); });
    check_bad("tensor 'b' data_offsets: starts at 5",
              [&] { parse_safetensors(two(0, 4, 5, 8, body)); });
    check_bad("tensor 'b' data_offsets: starts at 0",
              [&] { parse_safetensors(two(0, 8, 0, 8, body)); });
    check_bad("tensor 'b' data_offsets: starts at 2",
              [&] { parse_safetensors(two(0, 8, 2, 2, body)); });
    check_bad("data_offsets: the tensors end at 8 of 9",
              [&] { parse_safetensors(two(0, 4, 4, 8, body + "9")); });
    check_bad("data_offsets: the tensors end at 0 of 8",
              [&] { parse_safetensors(bytes::safetensors("{}", body)); });
  }
  SECTION("deep nesting takes no stack") {
    const std::string deep = "{\"w\":" + std::string(1'000'000, '[');
    check_bad("tensor 'w'", [&] { parse_safetensors(bytes::safetensors(deep, body)); });
  }
}

TEST_CASE("files") {
  const bytes::directory dir;
  const std::string body = bytes::of<float>({1, 2, 3});
  const auto starts = [](const auto& result, int code, const std::string& start) {
    CAPTURE(result.second, start);
    CHECK(result.first == code);
    CHECK(result.second.starts_with(start));
  };
  const auto read = [](const std::string& path, const io::read_options& options = {}) {
    return failure([&] { io::read_arrays(path, options); });
  };

  SECTION("each format, by extension") {
    const auto npy = io::read_arrays(dir.write("a.npy", bytes::npy("<f4", "(3,)", body)));
    REQUIRE(npy.size() == 1);
    CHECK(data_of(npy[0]) == body);
    CHECK(io::read_arrays(dir.write("a.NPY", bytes::npy("<f4", "(3,)", body))).size() == 1);
    const auto tensors = io::read_arrays(
        dir.write("a.safetensors",
                  bytes::safetensors("{" + bytes::tensor("w", "F32", "[3]", 0, 12) + "}", body)));
    REQUIRE(tensors.size() == 1);
    CHECK(tensors[0].name == "w");
    CHECK(data_of(tensors[0]) == body);
    const auto raw = io::read_arrays(dir.write("a.bin", body), {dtype::f32, {}});
    REQUIRE(raw.size() == 1);
    CHECK(raw[0].type == dtype::f32);
    CHECK(raw[0].shape == shape{3});
    CHECK(raw[0].count == 3);
    CHECK(data_of(raw[0]) == body);
  }
  SECTION("the data outlives the file") {
    const auto path = dir.write("gone.bin", body);
    const auto raw = io::read_arrays(path, {dtype::u8, {}});
    std::filesystem::remove(path);
    CHECK(data_of(raw.at(0)) == body);
  }
  SECTION("empty files") {
    const auto raw = io::read_arrays(dir.write("empty.bin", ""), {dtype::f64, {}});
    REQUIRE(raw.size() == 1);
    CHECK(raw[0].count == 0);
    CHECK(raw[0].shape == shape{0});
    const auto npy = dir.write("empty.npy", ""), tensors = dir.write("empty.safetensors", "");
    starts(read(npy), 3, npy + ": magic:");
    starts(read(tensors), 3, tensors + ": header length:");
  }
  SECTION("each format, by content or by what was recorded") {
    using io::file_format;
    const auto npy = bytes::npy("<f4", "(3,)", body);
    const auto tensors =
        bytes::safetensors("{" + bytes::tensor("w", "F32", "[3]", 0, 12) + "}", body);
    struct row {
      std::string name, content;
      io::read_options options;
      std::optional<file_format> format;  // nothing: an error
    };
    const auto recorded = [](file_format f, std::optional<dtype> raw = {}) {
      return io::read_options{raw, {}, f};
    };
    const io::read_options u8{dtype::u8}, f32{dtype::f32}, as_raw{.type = dtype::u8, .raw = true};
    for (const auto& [name, content, options, format] : {
             // The name first, then the content; what is neither is raw. A type that would do
             // nothing is an error.
             row{"a", npy, {}, file_format::npy},
             row{"a.new", tensors, {}, file_format::safetensors},
             row{"a.npy", npy, f32, file_format::npy},
             row{"a.npy", npy, u8, {}},
             row{"a.safetensors", tensors, u8, {}},
             row{"a.npy", tensors, {}, {}},
             row{"a.safetensors", npy, {}, {}},
             row{"a.new", npy, f32, file_format::npy},
             row{"a.new", npy, u8, {}},
             row{"a.new", tensors, u8, {}},
             row{"a.new", npy, as_raw, file_format::raw},
             row{"a.npy", tensors, as_raw, file_format::raw},
             row{"a.pt", "PK\3\4", as_raw, file_format::raw},
             row{"a.new", body, {.raw = true}, {}},
             row{"a.new", body, u8, file_format::raw},
             row{"a.new", body, {}, {}},
             row{"a.new", "", {}, {}},
             // As recorded, unless the content is of the other format.
             row{"a.new", npy, recorded(file_format::npy), file_format::npy},
             row{"a.safetensors", npy, recorded(file_format::npy), file_format::npy},
             row{"a.npy", tensors, recorded(file_format::npy), file_format::safetensors},
             row{"a.new", npy, recorded(file_format::safetensors), file_format::npy},
             row{"a.new", body, recorded(file_format::npy), {}},
             row{"a.new", npy, recorded(file_format::raw, dtype::u8), file_format::raw},
             row{"a.npy", npy, recorded(file_format::raw, dtype::u8), file_format::npy},
             row{"a.new", body, recorded(file_format::raw), {}},
         }) {
      CAPTURE(name, content, format.has_value());
      const auto path = dir.write(name, content);
      std::optional<file_format> read_as;
      const auto [code, what] =
          failure([&, options = options] { read_as = io::read_file(path, options).format; });
      CAPTURE(what);
      CHECK((read_as == format));
      CHECK((code != 0) == !format);
    }
  }
  SECTION("errors name the file and the field") {
    const auto raw = dir.write("a.bin", body + "x");
    starts(read(raw), 2, raw + ": dtype: needed for raw data");
    starts(read(dir.write("six", "12345"), {io::element_type::parse("f6_e2m3")}), 3,
           dir.path("six") + ": size: 5 bytes is not a multiple of the 3 bytes of f6_e2m3");
    CHECK(io::read_arrays(dir.write("six", "123456"), {io::element_type::parse("f6_e2m3")})
              .at(0)
              .count == 8);
    starts(read(raw, {dtype::f32, {}}), 3, raw + ": size: 13 bytes");
    starts(read(raw, {dtype::u8, "w"}), 2, raw + ": tensor:");
    const auto npy = dir.write("short.npy", bytes::npy("<f4", "(4,)", body));
    starts(read(npy), 3, npy + ": shape:");
    starts(read(npy, {{}, "w"}), 2, npy + ": tensor:");
    starts(read(dir.path("none.npy")), 3, dir.path("none.npy") + ": file: No such file");
    std::filesystem::create_directory(dir.path("d.npy"));
    starts(read(dir.path("d.npy")), 3, dir.path("d.npy") + ": file: is a directory");
    REQUIRE(::mkfifo(dir.path("pipe.npy").c_str(), 0600) == 0);
    starts(read(dir.path("pipe.npy")), 3, dir.path("pipe.npy") + ": file: is not a regular file");
    // Nothing of this is a matter of types.
    starts(read(dir.path("")), 3, dir.path("") + ": file: is a directory");
    starts(read(dir.path("none")), 3, dir.path("none") + ": file: No such file");
    starts(read("/proc/self/status", {dtype::u8, {}, {}}), 3,
           "/proc/self/status: file: says that it is empty");
    starts(read(dir.path("a\nb.npy")), 3, dir.path("a\\x0ab.npy") + ": file:");
  }
}

TEST_CASE(
    "files: formats that are not read are named, with what to do, also where there is a type") {
  const bytes::directory dir;
  const auto zip = [](const std::string& entry) { return bytes::zip({{entry, "x"}}); };
  const struct {
    const char* name;
    std::string content;
    const char *expected, *advice;
  } rows[] = {
      {"a.bin", zip("archive/data.pkl"), "a PyTorch checkpoint, by its content", "safetensors"},
      {"a.bin", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M",
       "a PyTorch checkpoint, by its content", "safetensors"},
      {"a.pt", "whatever", "a PyTorch checkpoint, by its name", "safetensors"},
      {"a.PTH", "whatever", "a PyTorch checkpoint, by its name", "safetensors"},
      {"a", zip("a.txt"), "a zip archive, by its content", "unpack"},
      {"a", "PK\5\6" + std::string(18, '\0'), "a zip archive, by its content", "unpack"},
      {"a", "\x80\x04\x95\x08", "a pickle, by its content", "numpy.save"},
      {"a", "\x80\x02]q", "a pickle, by its content", "numpy.save"},
      {"a.gguf", "whatever", "a GGUF file, by its name", "gguf"},
      {"a.bin", "GGUF\3", "a GGUF file, by its content", "gguf"},
      {"a", "\x89HDF\r\n\x1a\n", "an HDF5 file, by its content", "h5py"},
      {"a.h5", "whatever", "an HDF5 file, by its name", "h5py"},
      {"a.onnx", "whatever", "an ONNX model, by its name", "onnx"},
      {"a", "\x08\x07\x12\x07pytorch\x1a\x05", "an ONNX model, by its content", "onnx"},
      {"a.parquet", "whatever", "a Parquet file, by its name", "pyarrow"},
      {"a", "PAR1\x15", "a Parquet file, by its content", "pyarrow"},
      {"a.arrow", "whatever", "an Arrow file, by its name", "pyarrow"},
      {"a", "ARROW1\0", "an Arrow file, by its content", "pyarrow"},
      {"a.csv", "a,b\n1,2\n", "text, by its name", "loadtxt"},
      {"a", "1.5,-2e3\n3,4\n", "text, by its content", "loadtxt"},
      {"a.json", "{}", "text, by its name", "loadtxt"},
      {"a", "\x1f\x8b\x08\x01", "compressed by gzip, by its content", "zcat"},
      {"a", "\x28\xb5\x2f\xfd\x01", "compressed by zstd, by its content", "zstdcat"},
      {"a",
       "\xfd"
       "7zXZ\x01",
       "compressed by xz, by its content", "xzcat"},
      {"a", "BZh9", "compressed by bzip2, by its content", "bzcat"}};
  for (const auto& row : rows) {
    CAPTURE(row.name, row.expected);
    const auto path = dir.write(row.name, row.content);
    for (const io::read_options& how : {io::read_options{}, {dtype::u8}}) {
      const auto [code, what] = failure([&] { io::read_arrays(path, how); });
      CHECK(code == 3);
      CHECK(what.starts_with(path + ": format: " + row.expected));
      CHECK(what.find(row.advice) != std::string::npos);
      CHECK(what.find("--raw") != std::string::npos);
    }
    // Whoever recorded it as raw, or says so, has it so.
    for (const io::read_options& how :
         {io::read_options{dtype::u8, {}, io::file_format::raw}, {.type = dtype::u8, .raw = true}})
      CHECK(data_of(io::read_arrays(path, how).at(0)) == row.content);
    std::filesystem::remove(path);
  }
  // What has none of these names and beginnings is raw.
  for (const std::string content :
       {"PK\3", "\x80\x04", "GGU", "12345678", "\x08\x01\x02\x03", "1 2"})
    CHECK(io::read_arrays(dir.write("a.bin", content), {dtype::u8}).size() == 1);
}

TEST_CASE("npz: stored, deflated, zip64; and malformed") {
  const std::string floats = bytes::of<float>({1, 2, 3}), a = bytes::npy("<f4", "(3,)", floats),
                    zeros(100'000, '\0'), z = bytes::npy("|u1", "(100000,)", zeros);
  const auto parse = [](const std::string& file, const std::optional<std::string>& tensor = {},
                        std::optional<io::element_type> type = {}) {
    const auto copy = exact(file);
    return io::parse_npz({copy.get(), file.size()}, type, tensor, copy);
  };
  for (const bool wide : {false, true})
    for (const bool deflated : {false, true}) {
      CAPTURE(wide, deflated);
      const auto file = bytes::zip({{"a.npy", a, deflated}, {"layer/z.npy", z, deflated}}, wide);
      const auto arrays = parse(file);
      REQUIRE(arrays.size() == 2);
      CHECK(arrays[0].name == "a");
      CHECK(data_of(arrays[0]) == floats);
      CHECK(arrays[1].name == "layer/z");
      CHECK(data_of(arrays[1]) == zeros);
      CHECK(parse(file, "layer/z").size() == 1);
      check_bad("tensor 'nope': not in the file", [&] { parse(file, "nope"); });
      for (std::size_t n = 0; n < file.size(); n += 1 + n / 16) {
        const auto [code, what] = failure([&] { parse(file.substr(0, n)); });
        if (code != 3) FAIL_CHECK(n << " " << what);
      }
      // Any byte that is another is found, or is one that says nothing: a date, say.
      const auto small = bytes::zip({{"a.npy", a, deflated}}, wide);
      for (std::size_t n = 0; n < small.size(); ++n) {
        auto other = small;
        other[n] = static_cast<char>(other[n] ^ 0x15);
        const auto [code, what] = failure([&] {
          const auto got = parse(other);
          REQUIRE(got.size() == 1);
          CHECK(data_of(got[0]) == floats);
        });
        if (code != 0 && code != 3) FAIL_CHECK(n << " " << what);
      }
    }
  CHECK(parse(bytes::zip({})).empty());
  const auto bf16 = bytes::zip({{"a.npy", a}, {"b.npy", bytes::npy("<V2", "(1,)", "ab")}});
  check_bad("entry 'b.npy' descr: '<V2' does not say", [&] { parse(bf16); });
  CHECK(parse(bf16, {}, dtype::bf16).at(1).type == dtype::bf16);
  check_bad("entry 'a.txt': is no .npy file", [&] { parse(bytes::zip({{"a.txt", a}})); });
  check_bad("entry 'a.npy': stands there twice",
            [&] { parse(bytes::zip({{"a.npy", a}, {"a.npy", a}})); });
  check_bad("entry '\\xff.npy': its name is not UTF-8",
            [&] { parse(bytes::zip({{"\xff.npy", a}})); });
  check_bad("entry 'a.npy' magic: not a npy file",
            [&] { parse(bytes::zip({{"a.npy", "12345678"}})); });
  const auto changed = [&](std::size_t from_end, char to) {
    auto file = bytes::zip({{"a.npy", a}});
    file[file.size() - 22 - 46 - 5 + from_end] = to;  // of the directory's entry
    return file;
  };
  check_bad("entry 'a.npy' data: encrypted", [&] { parse(changed(8, 1)); });
  check_bad("entry 'a.npy' data: compressed by method 14", [&] { parse(changed(10, 14)); });
  check_bad("entry 'a.npy' data: damaged: its CRC-32", [&] { parse(changed(16, 'x')); });
  check_bad("entry 'a.npy' data: cannot be inflated", [&] { parse(changed(10, 8)); });
  check_bad("entry 'a.npy' size: is not that", [&] { parse(changed(24, 'x')); });
  check_bad("zip archive: no directory", [&] { parse("PK\3\4"); });

  const bytes::directory dir;
  const auto path = dir.write("a.npz", bytes::zip({{"a.npy", a, true}}));
  CHECK(io::read_file(path).format == io::file_format::npz);
  CHECK((io::read_file(dir.write("b", bytes::content(path))).format == io::file_format::npz));
  const auto [code, what] = failure([&] { io::read_file(path, {dtype::f64}); });
  CHECK(code == 2);
  CHECK(what.starts_with(path + ": dtype: tensor 'a' is f32, not the f64 of --dtype"));
  CHECK(io::read_file(dir.write("c.npz", bf16), {dtype::bf16}).arrays.size() == 2);
}

TEST_CASE("an index of shards: one checkpoint, in whatever files") {
  const bytes::directory dir;
  const auto shard = [&](const std::string& name, const std::vector<std::string>& tensors) {
    std::string header, body;
    for (const auto& t : tensors) {
      header +=
          (header.empty() ? "" : ",") + bytes::tensor(t, "U8", "[1]", static_cast<int>(body.size()),
                                                      static_cast<int>(body.size()) + 1);
      body += t;
    }
    return dir.write(name, bytes::safetensors("{" + header + "}", body));
  };
  shard("m-00001-of-00002.safetensors", {"z", "b"});
  shard("m-00002-of-00002.safetensors", {"a"});
  const auto index = [&](const std::string& map, const char* name = "m.safetensors.index.json") {
    return dir.write(name, "{\"metadata\": {\"total_size\": 3}, \"weight_map\": " + map + "}");
  };
  const std::string map =
      R"({"z": "m-00001-of-00002.safetensors", "a": "m-00002-of-00002.safetensors", "b": "m-00001-of-00002.safetensors"})";
  for (const char* name : {"m.safetensors.index.json", "other.json"}) {
    const auto [format, arrays] = io::read_file(index(map, name));
    CHECK((format == io::file_format::index));
    REQUIRE(arrays.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(arrays[i].name == std::string(1, "abz"[i]));  // by name, in whatever file
      CHECK(data_of(arrays[i]) == arrays[i].name);
    }
    CHECK(io::read_arrays(dir.path(name), {.tensor = "z"}).size() == 1);
  }
  dir.write("old.bin", bytes::zip({{"archive/data.pkl", "x"}}));
  dir.write("raw.bin", "abc");
  const struct {
    std::string map;
    const char* expected;
  } rows[] = {{R"({"a": "none.safetensors"})", "none.safetensors: file: No such file"},
              {R"({"a": "old.bin"})", "old.bin: format: a PyTorch checkpoint"},
              {R"({"a": "m.safetensors.index.json"})",
               "m.safetensors.index.json: format: an index is of .safetensors"},
              {R"({"q": "m-00002-of-00002.safetensors"})",
               "m-00002-of-00002.safetensors: tensor 'a': is not in the index"},
              {R"({"a": "m-00002-of-00002.safetensors", "q": "m-00002-of-00002.safetensors"})",
               "m-00002-of-00002.safetensors: tensor 'q': is in the index, but not in the file"},
              {R"({"a": 1})", "weight_map 'a': is no file's name"},
              {R"({"a": ""})", "weight_map 'a': is no file's name"},
              {R"({"a": {"b": "c"}})", "weight_map 'a': is no file's name"},
              {R"({"a": ["c"]})", "weight_map 'a': is no file's name"},
              {R"({"a": "x", "a": "x"})", "weight_map 'a': stands there twice"},
              {"3", "weight_map: is no object"},
              {"[]", "weight_map: is no object"},
              {"{", "index: not JSON at byte"},
              {"{}, \"weight_map\": {}", "weight_map: stands there twice"}};
  for (const auto& row : rows) {
    const auto path = index(row.map);
    CAPTURE(row.map);
    check_bad(path + ": " + row.expected, [&] { io::read_arrays(path); });
  }
  const auto path = dir.path("m.safetensors.index.json");
  for (const auto& [content, expected] : {std::pair{"{}", "weight_map: missing"},
                                          {"[1]", "index: is no JSON object"},
                                          {"", "index: not JSON"},
                                          {"3", "index: is no JSON object"}}) {
    dir.write("m.safetensors.index.json", content);
    check_bad(path + ": " + expected, [&] { io::read_arrays(path); });
  }
  index(map);
  check_bad(path + ": tensor 'nope': not in the index",
            [&] { io::read_arrays(path, {.tensor = "nope"}); });
  CHECK(failure([&] { io::read_arrays(path, {dtype::f32}); }).first == 2);
}

TEST_CASE("what is reduced of bool is 0 or 1, and of other types there is none") {
  const std::string bytes("\0\1\2\377", 4);
  const auto a = parse_npy(bytes::npy("|b1", "(4,)", bytes));
  CHECK(data_of(a) == bytes);
  const auto n = io::numbers_of(a);
  CHECK(n.type == dtype::u8);
  CHECK(std::string(reinterpret_cast<const char*>(n.data), 4) == std::string("\0\1\1\1", 4));
  const auto truths = parse_npy(bytes::npy("|b1", "(2,)", std::string("\0\1", 2)));
  CHECK(io::numbers_of(truths).data == truths.data);  // which needs no copy
  const auto [code, what] =
      failure([] { io::numbers_of(parse_npy(bytes::npy("<c8", "(1,)", "12345678"))); });
  CHECK(code == 2);
  CHECK(what.starts_with("dtype: c64 has no arithmetic"));
}

TEST_CASE("files that become shorter") {
  io::survive_shorter_files();
  const bytes::directory dir;
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto mapped = [](const std::string& path) {
    return io::read_arrays(path, {dtype::u8, {}, {}});
  };
  const auto message = [](const std::string& path) {
    return path + ": file: became shorter while it was read";
  };

  SECTION("what is gone reads as zeros, on any thread, and is told") {
    const auto a = dir.write("a", std::string(64 * page, 'a'));
    const auto b = dir.write("b", std::string(64 * page, 'b'));
    const auto first = mapped(a), second = mapped(b);
    CHECK(failure(io::check_mapped_files).first == 0);
    std::filesystem::resize_file(b, page + 1);
    const std::string expected = std::string(page + 1, 'b') + std::string(63 * page - 1, '\0');
    std::vector<std::string> seen(4);
    std::vector<std::thread> threads;
    for (auto& s : seen) threads.emplace_back([&] { s = data_of(second.at(0)); });
    for (auto& t : threads) t.join();
    for (const auto& s : seen) CHECK((s == expected));
    CHECK((data_of(first.at(0)) == std::string(64 * page, 'a')));
    check_bad(message(b), io::check_mapped_files);
    // It stays so when the file has grown again.
    std::filesystem::resize_file(b, 64 * page);
    check_bad(b + ": file: could not be read: it was shorter for a while", io::check_mapped_files);
  }
  SECTION("only while it is mapped") {
    for (int times = 0; times < 3; ++times) {
      const auto path = dir.write("a", std::string(3 * page, 'a'));
      const auto arrays = mapped(path);
      std::filesystem::resize_file(path, 0);
      CHECK(data_of(arrays.at(0)).back() == 0);
      check_bad(message(path), io::check_mapped_files);
    }
    CHECK(failure(io::check_mapped_files).first == 0);
    const auto path = dir.write("a", std::string(3 * page, 'a'));
    const auto arrays = mapped(path);
    CHECK(failure(io::check_mapped_files).first == 0);
  }
  SECTION("within its last page, where nothing else tells") {
    const auto path = dir.write("a", "12345678");
    const auto arrays = mapped(path);
    std::filesystem::resize_file(path, 4);
    check_bad(message(path), io::check_mapped_files);
    std::filesystem::resize_file(path, 9);  // a longer one holds all that was mapped
    CHECK(failure(io::check_mapped_files).first == 0);
  }
  SECTION("while it is parsed") {
    // Cut as soon as it is mapped: whatever the parser makes of it, it is this that is told.
    const auto header = bytes::tensor("w", "U8", "[2]", 0, 2);
    for (const auto& [name, content] :
         {std::pair{"a.npy", bytes::npy("<f4", "(2, 3)", std::string(24, 'x'), true)},
          std::pair{"m.safetensors",
                    bytes::safetensors("{" + header + std::string(8 * page, ' ') + "}", "xx")}}) {
      const auto path = dir.write(name, content);
      std::atomic<bool> done = false;
      std::thread cutter([&, name = name, content = content] {
        while (!done) {
          std::filesystem::resize_file(path, 10);
          dir.write(name, content);
        }
      });
      for (int times = 0; times < 2000; ++times) {
        const auto [code, what] = failure([&] { io::read_arrays(path); });
        if (code != 0 && code != 3) FAIL_CHECK(what);
      }
      done = true;
      cutter.join();
      CHECK(failure([&] { io::read_arrays(path); }).first == 0);
    }
  }
  SECTION("a bus error elsewhere goes where it went before") {
    const auto path = dir.write("a", std::string(2 * page, 'a'));
    const auto fault = [&] {
      const int fd = ::open(path.c_str(), O_RDWR);
      const auto* p = static_cast<const volatile char*>(
          ::mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE, fd, 0));
      const auto other = mapped(path);
      if (::ftruncate(fd, 0) == 0) static_cast<void>(p[page]);
      ::_exit(0);
    };
    const auto status_of = [](const std::function<void()>& f) {
      const pid_t child = ::fork();
      if (child == 0) f();
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      return status;
    };
    const int by_default = status_of([&] {
      ::signal(SIGBUS, SIG_DFL);
      io::survive_shorter_files();
      fault();
    });
    CHECK((WIFSIGNALED(by_default) && WTERMSIG(by_default) == SIGBUS));
    const int sent = status_of([&] {
      ::signal(SIGBUS, SIG_DFL);
      io::survive_shorter_files();
      ::raise(SIGBUS);
      ::_exit(0);
    });
    CHECK((WIFSIGNALED(sent) && WTERMSIG(sent) == SIGBUS));
    const int handled = status_of([&] {
      ::signal(SIGBUS, [](int) { ::_exit(7); });
      io::survive_shorter_files();
      io::survive_shorter_files();  // is not its own handler before
      fault();
    });
    CHECK((WIFEXITED(handled) && WEXITSTATUS(handled) == 7));
  }
}
