// The typed face of views: what bitfold::reduce makes of axes, segments, keys and windows has the
// bits of cpu::reduce; and scalars.
#include <bitfold/reduce.hpp>

#include <array>
#include <numeric>
#include <sstream>

#include "catch.hpp"
#include "data.hpp"
#include "main.hpp"
#include "refusals.hpp"

using namespace bitfold;
using test::why;

namespace {

cpu::options here() { return {.target = test::forced_target}; }

// As std::mdspan has it, which this compiler may not.
template <class T, std::size_t Rank>
struct mdspan {
  using element_type = T;
  T* data;
  std::array<int, Rank> extents;
  std::array<std::ptrdiff_t, Rank> strides;
  bool strided = true;
  T* data_handle() const { return data; }
  static constexpr std::size_t rank() { return Rank; }
  bool is_strided() const { return strided; }
  int extent(std::size_t k) const { return extents[k]; }
  std::ptrdiff_t stride(std::size_t k) const { return strides[k]; }
};

template <class T>
bool same(const result_array<T>& a, std::type_identity_t<std::span<const T>> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), b.size() * sizeof(T)) == 0;
}
std::vector<std::int64_t> extents(const auto& a) {
  return {a.extents().begin(), a.extents().end()};
}
using shape = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("typed: axes, segments, keys and windows have the bits of the untyped calls") {
  std::vector<float> data(6 * 5 * 70);
  test::random_bits next{3};
  for (float& v : data) v = static_cast<float>(static_cast<std::int64_t>(next())) * 0x1p-60f;
  const auto x = row_major(data, {6, 5, 70});
  static_assert(std::is_same_v<decltype(x), const view_of<float>>);
  const auto mean = make_reduction(op_id::mean, method_id::tree, dtype::f32);
  const auto place = make_reduction(op_id::argmax, {}, dtype::f32);
  const reduction both[] = {mean, place};
  const int which[] = {0, 2};
  std::vector<float> means(5);
  std::vector<std::int64_t> places(5);
  void* const out[] = {means.data(), places.data()};
  cpu::reduce(both, x, nullptr, which, out, here());

  const auto [m, p] = reduce(here(), x, axes{0, 2}, ops::mean, ops::argmax);
  static_assert(std::is_same_v<decltype(m), const result_array<float>> &&
                std::is_same_v<decltype(p), const result_array<std::int64_t>>);
  CHECK(same(m, means));
  CHECK(same(p, places));
  CHECK(extents(m) == shape{5});
  CHECK(m(3) == means[3]);
  const auto& at = m;  // clang 14 lets no lambda have a structured binding
  CHECK(why([&] { (void)at(0, 3); }) == "index: of 2 axes, where there are 1");
  CHECK(why([&] { (void)at(-1); }).starts_with("index: -1 along axis 0 of extent "));
  CHECK(why([&] { (void)at(1 << 20); }).starts_with("index: 1048576 along axis 0 of extent "));
  CHECK(extents(reduce(here(), x, axes{0, 2}.kept(), ops::mean)) == shape{1, 5, 1});
  CHECK(same(reduce(here(), x, axes(which), ops::mean), means));
  CHECK(same(reduce(here(), x, axes{}, ops::max), data));
  CHECK(extents(reduce(here(), x, axes{}, ops::max)) == shape{6, 5, 70});
  const auto doubles = reduce(here(), x, axes{2}, ops::sum.by<method_id::kahan>().as<double>());
  static_assert(std::is_same_v<decltype(doubles), const result_array<double>>);
  CHECK(doubles(4, 2) == doubles[22]);
  CHECK(same(reduce(here(), sliced(x, 1, 2, 1), axes{0, 2}, ops::mean),
             std::span(means).subspan(2, 1)));
  CHECK(same(reduce(here(), permuted(x, std::array{2, 1, 0}), axes{1, 2}, ops::max),
             reduce(here(), x, axes{0, 1}, ops::max)));
  // A list in braces is as an array.
  const view& untyped = x;
  static_assert(std::is_same_v<decltype(permuted(x, {2, 1, 0})), view_of<float>>);
  CHECK(permuted(x, {2, 0, 1}).stride == permuted(x, std::array{2, 0, 1}).stride);
  CHECK(permuted(untyped, {2, 0, 1}).extent == permuted(untyped, std::array{2, 0, 1}).extent);
  CHECK(result_extents(untyped, nullptr, {0, 2}, true) == shape{1, 5, 1});
  const auto sliding = windows(x, {{.axis = 2, .size = 3, .stride = 2}, {.axis = 0, .size = 2}});
  static_assert(std::is_same_v<decltype(sliding), const view_of<float>>);
  const shape slid{5, 5, 34, 3, 2};
  CHECK(std::equal(slid.begin(), slid.end(), sliding.extent.begin()));
  CHECK(windows(untyped, {{.axis = 2, .size = 3, .stride = 2}, {.axis = 0, .size = 2}}).stride ==
        sliding.stride);
  CHECK(windows_extents(untyped, {{.axis = 1, .size = 2, .padding = 1}}) == shape{6, 6, 70});
  CHECK(why([&] { (void)permuted(x, {1, 0}); }) == "order: 2 axes of 3");

  // An mdspan, of the same elements turned round.
  const mdspan<float, 3> turned{data.data(), {70, 6, 5}, {1, 350, 70}};
  CHECK(
      same(reduce(here(), turned, axes{0, 1}, ops::max), reduce(here(), x, axes{0, 2}, ops::max)));
  CHECK(
      same(reduce(here(), pairs(turned, turned), axes{2, 1}, ops::dot),
           reduce(here(), pairs(permuted(x, std::array{2, 0, 1}), turned), axes{2, 1}, ops::dot)));
  CHECK(why([&] {
          reduce(mdspan<float, 3>{data.data(), {1, 1, 1}, {}, false}, axes{0}, ops::sum);
        }).starts_with("x: an mdspan"));

  // Pairs broadcast.
  const auto dots = reduce(here(), pairs(x, sliced(x, 0, 1, 1)), axes{2}, ops::dot);
  CHECK(extents(dots) == shape{6, 5});
  const std::span<const float> all(data);
  CHECK(dots(3, 4) ==
        reduce(here(), pairs(all.subspan((3 * 5 + 4) * 70, 70), all.subspan((5 + 4) * 70, 70)),
               ops::dot));

  const std::vector<std::int64_t> offsets{0, 3, 3, 1000};
  const auto segments = reduce(here(), data, by_segment{offsets}, ops::sum, ops::count_nonzero);
  CHECK(std::get<0>(segments)[2] == reduce(here(), all.subspan(3, 997), ops::sum));
  CHECK(std::get<1>(segments)[1] == 0);
  std::vector<std::int64_t> keys(data.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int64_t>(i % 3);
  const auto by = reduce(here(), data, by_key{keys, 4}, ops::sum);
  CHECK(extents(by) == shape{4});
  CHECK(by[1] == reduce(here(), row_major(data, {700, 3}), axes{0}, ops::sum)[1]);
  CHECK(reduce(here(), pairs(data, data), by_key{keys, 4}, ops::dot)[0] ==
        reduce(here(), data, by_key{keys, 4}, ops::sum_squares)[0]);
  const auto pool =
      reduce(here(), x, by_window{{.axis = 2, .size = 3, .stride = 2, .padding = 1}}, ops::max);
  CHECK(extents(pool) == shape{6, 5, 35});
  CHECK(pool(0, 0, 1) == std::max({data[1], data[2], data[3]}));
}

TEST_CASE("typed: results go where there is room for them, or nothing is written") {
  std::vector<float> data(12);
  std::iota(data.begin(), data.end(), 1.0f);
  const auto x = row_major(data, {3, 4});
  std::vector<float> sums(3, -1.0f);
  std::array<std::int64_t, 3> places{};
  reduce(here(), x, axes{1}, into(sums, places), ops::sum, ops::argmax);
  CHECK(sums == std::vector<float>{10, 26, 42});
  CHECK(places == std::array<std::int64_t, 3>{3, 3, 3});
  std::vector<float> wrong(4, -1.0f);
  CHECK(why([&] { reduce(x, axes{1}, into(wrong), ops::sum); }) == "out: room for 4 results of 3");
  CHECK(why([&] { reduce(x, axes{1}, into(wrong, places), ops::sum, ops::argmax); }) ==
        "out: room for 4 results of 3");
  CHECK(wrong == std::vector<float>(4, -1.0f));
  reduce(x, axes{1}, into(std::span(wrong).first(3)), ops::sum);
  CHECK(wrong == std::vector<float>{10, 26, 42, -1});
}

TEST_CASE("typed: what cannot be done is refused by name") {
  std::vector<float> data(12);
  const auto x = row_major(data, {3, 4});
  CHECK(why([&] { row_major(data, {3, 5}); }) == "extents: of 15 elements, where x has 12");
  CHECK(why([&] { row_major(data, {-3, -4}); }).starts_with("extents: "));
  CHECK(why([&] { view_of<double>(static_cast<const view&>(x)); }) == "x: of type f32, not f64");
  CHECK(why([&] { reduce(x, axes{2}, ops::sum); }).starts_with("axis: "));
  CHECK(why([&] { reduce(x, axes{1, 1}, ops::sum); }).starts_with("axis: "));
  const std::vector<std::int64_t> keys(3), none, falls{0, 5, 3};
  CHECK(why([&] { reduce(data, by_key{keys, 1}, ops::sum); }) == "keys: 3 of 12 elements");
  CHECK(why([&] { reduce(data, by_segment{none}, ops::sum); }).starts_with("offsets: "));
  CHECK(why([&] { reduce(data, by_segment{falls}, ops::sum); }).starts_with("offsets[2]: "));
  CHECK(why([&] { reduce(x, by_window{{.axis = 5, .size = 1}}, ops::sum); }).starts_with("axis: "));
}

TEST_CASE("typed: a scalar as a number, and printed") {
  CHECK(scalar{dtype::f32, 0x40490fdb}.as<float>() == 0x1.921fb6p+1f);
  CHECK(scalar{dtype::f32, 0x40490fdb}.as<double>() == 0x1.921fb6p+1);
  CHECK(scalar{dtype::f16, 0x3e00}.as<float>() == 1.5f);
  CHECK(scalar{dtype::bf16, 0x3fc0}.as<double>() == 1.5);
  CHECK(scalar{dtype::f16, 0x3e00}.as<float16>().bits == 0x3e00);
  CHECK(scalar{dtype::i8, 0xff}.as<std::int64_t>() == -1);
  CHECK(scalar{dtype::u32, 0xffffffff}.as<double>() == 4294967295.0);
  CHECK(scalar{dtype::u64, ~std::uint64_t{0}}.as<unsigned long long>() == ~0ull);
  CHECK(why([] { (void)scalar{dtype::f64, 0}.as<float>(); }) ==
        "scalar: of type f64, whose values a f32 does not all hold");
  CHECK(why([] {
          (void)scalar{dtype::f32, 0}.as<std::int64_t>();
        }).starts_with("scalar: of type f32"));
  CHECK(why([] {
          (void)scalar{dtype::i8, 0}.as<std::uint64_t>();
        }).starts_with("scalar: of type i8"));
  CHECK(why([] { (void)scalar{dtype::i64, 0}.as<double>(); }).starts_with("scalar: of type i64"));
  CHECK(why([] { (void)scalar{dtype::f16, 0}.as<bfloat16>(); }).starts_with("scalar: of type f16"));
  std::ostringstream out;
  out << scalar{dtype::f32, 0x3fc00000} << " " << cpu::sum(std::array{1, 2, 3});
  CHECK(out.str() == "1.5 6");
  const float three[] = {1, 2, 3};
  CHECK(cpu::sum(three, method_id::tree, here()).as<float>() == 6);
  CHECK(cpu::sum(std::vector<double>{1, 2}, method_id::exact).as<double>() == 3);
  CHECK(cpu::sum(std::span(three).first(2)).as<double>() == 3);
}
