// Every printed number: it reads back, and is the shortest.
#include <charconv>
#include <cstdio>

#include "tests/main.hpp"
#include "sums.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;
using namespace bitfold::test::truth;
using test::describe, test::float_types, test::for_each_reduction, test::scalar_of;

namespace {

// The significant digits of a decimal, without leading and trailing zeros.
std::string significant(const std::string& text) {
  std::string digits;
  for (char c : text.substr(0, text.find('e')))
    if (c >= '0' && c <= '9' && (c != '0' || !digits.empty())) digits += c;
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
  return digits;
}

// Whether some decimal of `digits` significant digits reads as v: one next to |v| below or above.
bool some_decimal_reads_as(scalar v, const real& value, int digits) {
  char exact[900];  // all digits of any double
  std::snprintf(exact, sizeof exact, "%.800e", std::fabs(static_cast<double>(value)));
  const std::string text = exact, cut = text.substr(0, 1) + text.substr(2, digits - 1);
  const int exponent = std::atoi(text.substr(text.find('e') + 1).c_str()) - (digits - 1);
  for (int up : {0, 1}) {
    const real candidate(std::to_string(std::stoll(cut) + up) + "e" + std::to_string(exponent));
    if (round_correctly(value < 0 ? -candidate : candidate, v.type) == v) return true;
  }
  return false;
}

void check_text(scalar v) {
  const real value = value_of(v);
  const std::string text = to_string(v);
  if (!isfinite(value)) {
    if (text != (isnan(value) ? "nan" : value > 0 ? "inf" : "-inf")) FAIL_CHECK(to_hex(v) << text);
    return;
  }
  if (round_correctly(real(text), v.type) != v) FAIL_CHECK(to_hex(v) << " prints as " << text);
  // Shortest counts characters: a large integer may show all its digits where that is no longer
  // than fewer of them and an exponent.
  const auto digits = static_cast<int>(significant(text).size());
  const bool integer = text.find_first_of(".e") == std::string::npos;
  for (int k = integer ? 1 : digits - 1; k > 0 && k < std::min(digits, 18); ++k)
    if (some_decimal_reads_as(v, value, k)) {
      const int scientific = (value < 0) + (k == 1 ? 1 : k + 1) + 4;
      if (!integer || scientific < static_cast<int>(text.size()))
        FAIL_CHECK(to_hex(v) << " prints as " << text << ": " << k << " digits would do");
      break;
    }
}

}  // namespace

TEST_CASE("text: decimals read back and are the shortest", "[truth][text]") {
  for (dtype t : {dtype::f16, dtype::bf16})
    for (std::uint64_t b = 0; b < 0x10000; ++b)
      if (test::takes(b + (b >> 8), 3)) check_text({t, b});
  random_source random(6);
  for (int i = 0; i < 5000; ++i) {
    check_text({dtype::f32, random.bits() >> 32});
    check_text({dtype::f64, random.bits()});
    check_text({dtype::f64, static_cast<std::uint64_t>(i)});
    check_text({dtype::f32, static_cast<std::uint64_t>(i % 256) << 23});  // powers of two
    check_text({dtype::f64, static_cast<std::uint64_t>(i % 2047) << 52});
    check_text(scalar_of(static_cast<double>(i)));
    check_text(scalar_of(i / 100.0));
  }
  CHECK(to_string(scalar_of(1.0f)) == "1");
  CHECK(to_string(scalar_of(0.1)) == "0.1");
  CHECK(to_string(scalar_of(-0.0)) == "-0");
  CHECK(to_string(round_correctly(real(0.1), dtype::bf16)) == "0.1");
  CHECK(to_string(scalar_of(std::int8_t{-128})) == "-128");
  CHECK(to_string(scalar_of(UINT64_MAX)) == "18446744073709551615");
  CHECK(to_string(scalar_of(INT64_MIN)) == "-9223372036854775808");
}

TEST_CASE("text: hex is the bits at full width", "[truth][text]") {
  CHECK(to_hex(scalar_of(1.0f)) == "3f800000");
  CHECK(to_hex(scalar_of(-0.0)) == "8000000000000000");
  CHECK(to_hex({dtype::f16, 0x0001}) == "0001");
  CHECK(to_hex({dtype::bf16, 0x7fc0}) == "7fc0");
  CHECK(to_hex(scalar_of(std::int8_t{-1})) == "ff");
  CHECK(to_hex(scalar_of(std::int32_t{10})) == "0000000a");
  random_source random(7);
  for (dtype t : all_dtypes)
    for (int i = 0; i < 200; ++i) {
      const scalar v{t, random.bits() >> (64 - 8 * size_of(t))};
      const std::string hex = to_hex(v);
      CHECK(hex.size() == 2 * size_of(t));
      CHECK(std::stoull(hex, nullptr, 16) == v.bits);
    }
}
