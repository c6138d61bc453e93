// Scatters on the CPU: what scatter.hpp says, to the bit.
#include <bitfold/reference.hpp>
#include <bitfold/scatter.hpp>

#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "data.hpp"
#include "main.hpp"
#include "refusals.hpp"

using namespace bitfold;
using test::forced_target;

namespace {

using offsets = std::array<std::int64_t, max_axes>;

// An array with its axes in any order in memory, with room between elements or none.
struct laid_out {
  view of;
  std::size_t elements = 0;  // that it takes
};
laid_out laid_out_as(dtype type, std::span<const std::int64_t> extents, test::random_bits& next) {
  laid_out a{{type, nullptr, static_cast<int>(extents.size())}, 0};
  std::vector<int> order(extents.size());
  std::iota(order.begin(), order.end(), 0);
  if (next() % 2) std::swap(order[next() % order.size()], order[next() % order.size()]);
  std::int64_t stride = next() % 4 == 0 ? 2 : 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    const auto axis = static_cast<std::size_t>(order[k]);
    a.of.extent[axis] = extents[axis];
    a.of.stride[axis] = stride;
    stride *= std::max<std::int64_t>(extents[axis], 1);
  }
  a.elements = static_cast<std::size_t>(stride);
  return a;
}

// Calls f(digits) for each position of x.
template <class F>
void for_each_position(const view& x, F f) {
  offsets digit{};
  for (std::uint64_t n = detail::layout_of(x, nullptr, {}).outputs; n > 0; --n) {
    f(digit);
    for (int k = x.rank; k-- > 0;) {
      const auto i = static_cast<std::size_t>(k);
      if (++digit[i] < x.extent[i]) break;
      digit[i] = 0;
    }
  }
}
std::int64_t offset_in(const view& x, const offsets& digit) {
  std::int64_t at = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(x.rank); ++k) at += digit[k] * x.stride[k];
  return at;
}

struct scatter_case {
  scattering how;
  view x, keys, base;
  int axis = 0;
  std::vector<std::byte> x_data, base_data;
  std::vector<std::int64_t> key_data;

  std::string describe() const {
    std::string s = std::string(name(how.op)) + " " + std::string(name(how.method)) + " of " +
                    std::string(name(x.type)) + (how.with_base ? " with base" : "") +
                    (how.leaves_out ? " leaving out" : "") + ", axis " + std::to_string(axis) +
                    " of";
    for (std::size_t k = 0; k < static_cast<std::size_t>(x.rank); ++k)
      s += " " + std::to_string(x.extent[k]) + "(" + std::to_string(x.stride[k]) + ", " +
           std::to_string(keys.stride[k]) + ", " + std::to_string(base.stride[k]) + ")";
    return s + " onto " + std::to_string(base.extent[static_cast<std::size_t>(axis)]);
  }
  void place() {
    x.data = x_data.data();
    keys.data = key_data.data();
    base.data = base_data.data();
  }
};

// What a place has of elements T, as scatter.hpp says it.
template <class T>
T result_of(const scattering& how, const std::vector<T>& elements, const T* base) {
  const bool mean = how.op == op_id::mean, with_base = how.with_base && base;
  const std::uint64_t count = elements.size() + with_base;
  if (how.op == op_id::max || how.op == op_id::min) {
    std::vector<T> all(elements);
    if (with_base) all.push_back(*base);
    return reference(make_reduction(how.op, {}, dtype_of<T>), all.data(), all.size())
        .template as<T>();
  }
  const auto reduced = [&](dtype out) {
    const reduction r = how.op == op_id::prod
                            ? make_reduction(op_id::prod, {}, dtype_of<T>, {}, out)
                            : make_reduction(op_id::sum, how.method, dtype_of<T>, {}, out);
    return reference(r, elements.data(), elements.size());
  };
  if constexpr (std::is_integral_v<T>) {
    using A = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    A a = reduced(dtype_of<A>).template as<A>();
    if (with_base)
      a = how.op == op_id::prod ? arith::mul(a, static_cast<A>(*base))
                                : arith::add(a, static_cast<A>(*base));
    if (mean) {
      const A n = static_cast<A>(count), down = a % n < 0 ? 1 : 0;
      a = a / n - down;
    }
    return static_cast<T>(a);
  } else {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    A a = reduced(dtype_of<A>).template as<A>();
    const A b = with_base ? arith::widen<A>(*base) : A{};
    if (with_base) a = how.op == op_id::prod ? b * a : b + a;
    if (mean) a = a / static_cast<A>(count);
    return arith::round_to<T>(a);
  }
}

std::vector<std::byte> by_the_book(const scatter_case& c) {
  return visit(c.x.type, [&]<class T>(std::type_identity<T>) {
    const auto *const x = reinterpret_cast<const T*>(c.x_data.data()),
                      *const base = reinterpret_cast<const T*>(c.base_data.data());
    std::vector<std::vector<T>> places(c.base_data.size() / sizeof(T));
    const auto along = static_cast<std::size_t>(c.axis);
    for_each_position(c.x, [&](offsets digit) {
      const T element = x[offset_in(c.x, digit)];
      const std::int64_t key = c.key_data[static_cast<std::size_t>(offset_in(c.keys, digit))];
      if (key < 0 || key >= c.base.extent[along]) return;
      digit[along] = key;
      places[static_cast<std::size_t>(offset_in(c.base, digit))].push_back(element);
    });
    std::vector<std::byte> out = c.base.data ? c.base_data : std::vector<std::byte>();
    out.resize(c.base_data.size());
    for (std::size_t k = 0; k < places.size(); ++k)
      if (!places[k].empty()) {
        const T result = result_of(c.how, places[k], c.base.data ? &base[k] : nullptr);
        std::memcpy(&out[k * sizeof(T)], &result, sizeof(T));
      }
    return out;
  });
}

std::vector<std::byte> scattered(const scatter_case& c, int threads, bool in_place = false) {
  std::vector<std::byte> out(c.base_data.size());
  view base = c.base;
  if (base.data) out = c.base_data;  // and between the elements
  if (in_place) base.data = out.data();
  cpu::scatter(c.how, c.x, c.keys, c.axis, base, out.data(),
               {.threads = threads, .target = forced_target});
  return out;
}

// Random keys: of all places, of some, of one.
void fill_keys(scatter_case& c, test::random_bits& next) {
  const auto places = static_cast<std::uint64_t>(c.base.extent[static_cast<std::size_t>(c.axis)]);
  const std::uint64_t way = next() % 4,
                      some = way == 1 ? std::min<std::uint64_t>(places, 3) : places;
  const std::uint64_t only = next() % places;
  for (auto& key : c.key_data) {
    key = static_cast<std::int64_t>(way == 2 ? only : next() % some);
    if (c.how.leaves_out && next() % 5 == 0)
      key = next() % 2 ? -1 - key : key + std::int64_t(places);
  }
}

scatter_case make_case(dtype type, const scattering& how, std::vector<std::int64_t> extents,
                       int axis, std::int64_t places, bool same_keys, test::random_bits& next,
                       bool plain = false) {
  scatter_case c{how, {}, {}, {}, axis, {}, {}, {}};
  const auto lay = [&](dtype t, std::span<const std::int64_t> e) {
    laid_out a = laid_out_as(t, e, next);
    for (; plain && a.of.stride[e.size() - 1] != 1;) a = laid_out_as(t, e, next);
    return a;
  };
  const laid_out x = lay(type, extents);
  laid_out keys = lay(dtype::i64, extents);
  if (same_keys)
    for (std::size_t k = 0; k < extents.size(); ++k)
      if (k != static_cast<std::size_t>(axis)) keys.of.stride[k] = 0;
  std::vector<std::int64_t> onto = extents;
  onto[static_cast<std::size_t>(axis)] = places;
  for (auto& e : onto)
    if (!plain && next() % 8 == 0) ++e;
  const laid_out base = lay(type, onto);
  c.x = x.of, c.keys = keys.of, c.base = base.of;
  const auto kind = next() % 3 ? test::kind::near_one : test::kind::special;
  c.x_data = test::make_data(type, kind, x.elements, next());
  c.base_data = test::make_data(type, kind, base.elements, next());
  c.key_data.resize(keys.elements);
  fill_keys(c, next);
  return c;
}

void check(scatter_case c, std::initializer_list<int> threads) {
  c.place();
  for (const bool onto_zeros : {false, true}) {
    if (onto_zeros) c.base.data = nullptr;
    const auto want = by_the_book(c);
    for (const int n : threads) {
      INFO(c.describe() << (onto_zeros ? " zeros, " : ", ") << n << " threads");
      CHECK((scattered(c, n) == want));  // without all the bytes
      if (!onto_zeros) CHECK((scattered(c, n, true) == want));
    }
  }
}

std::vector<scattering> all_scatterings(dtype type) {
  std::vector<scattering> all;
  for (const op_id op : {op_id::sum, op_id::mean, op_id::prod, op_id::min, op_id::max})
    for (const method_info& m : all_methods) {
      const bool adds = op == op_id::sum || op == op_id::mean;
      if (!adds && m.id != method_id::tree) continue;
      if (m.id == method_id::exact && !is_float(type)) continue;
      for (const bool with_base : {true, false})
        for (const bool leaves_out : {false, true})
          all.push_back({op, m.id, with_base, leaves_out});
    }
  return all;
}

}  // namespace

TEST_CASE("scatter: bits are those of the definition, whatever the layout and the threads") {
  test::random_bits next{1};
  for (const dtype type : all_dtypes)
    for (const scattering& how : all_scatterings(type))
      for (int round = 0; round < 3; ++round) {
        const std::size_t rank = 1 + next() % 4;
        std::vector<std::int64_t> extents;
        for (std::size_t k = 0; k < rank; ++k)
          extents.push_back(static_cast<std::int64_t>(1 + next() % (rank < 3 ? 40 : 9)));
        const int axis = static_cast<int>(next() % rank);
        const auto along = static_cast<std::size_t>(axis);
        if (next() % 3 == 0) extents[along] += static_cast<std::int64_t>(next() % 500);
        const auto places = static_cast<std::int64_t>(1 + next() % 30);
        check(make_case(type, how, extents, axis, places, next() % 2, next), {1, 3});
      }
}

TEST_CASE("scatter: long lines, many places, wide rows and columns") {
  test::random_bits next{2};
  for (const dtype type : test::types({dtype::bf16}, {dtype::f32, dtype::f64, dtype::i32}))
    for (const op_id op : {op_id::sum, op_id::mean, op_id::max}) {
      const scattering how{op, method_id::tree, op != op_id::mean, false};
      const auto run = [&](std::vector<std::int64_t> extents, int axis, std::int64_t places,
                           bool same) {
        check(make_case(type, how, std::move(extents), axis, places, same, next, true), {1, 3});
      };
      run({30'000}, 0, 70'000, false);    // cut up by its keys
      run({300'000}, 0, 20, false);       // by several threads
      run({600'000}, 0, 200'000, false);  // both
      run({3, 3000}, 1, 2000, false);     // where it lies
      run({40, 1500}, 1, 700, true);      // the same keys again
      run({40, 700}, 1, 100, false);      // lines take turns,
      run({50, 512}, 1, 100, false);      // and lag, at a power of two
      run({40, 700}, 1, 100, true);       // and do not
      run({700, 70}, 0, 600, false);      // columns
      run({900, 1100}, 0, 400, true);     // rows, wider than a block
      run({3000, 40}, 0, 3, true);        // of which many go to one place
      run({64, 20, 33}, 1, 15, false);    // columns of planes
      run({64, 30, 33}, 1, 15, true);     // rows of planes
      // Long columns, as one line where they lie so.
      for (const bool leaves_out : {false, true}) {
        scattering of_columns = how;
        of_columns.leaves_out = leaves_out;
        for (int round = 0; round < 3; ++round)
          check(make_case(type, of_columns, {17'000, 3}, 0, 9'000, false, next, true), {1, 3});
      }
    }
}

TEST_CASE("scatter: places of few and of many elements among one another") {
  test::random_bits next{9};
  const auto run = [&](dtype type, const scattering& how, std::vector<std::size_t> of_places) {
    std::vector<std::int64_t> keys;
    for (std::size_t k = 0; k < of_places.size(); ++k)
      keys.insert(keys.end(), of_places[k], static_cast<std::int64_t>(k));
    for (std::size_t i = keys.size(); i-- > 1;) std::swap(keys[i], keys[next() % (i + 1)]);
    if (how.leaves_out)
      for (std::size_t i = 0; i < keys.size(); i += 5) keys[i] = i % 2 ? -1 : 1 << 20;
    scatter_case c = make_case(type, how, {static_cast<std::int64_t>(keys.size())}, 0,
                               static_cast<std::int64_t>(of_places.size()), true, next, true);
    c.keys = row_major(dtype::i64, nullptr, {static_cast<std::int64_t>(keys.size())});
    c.key_data = keys;
    check(c, {1, 3});
  };
  for (const dtype type : {dtype::f16, dtype::f32, dtype::f64, dtype::u16})
    for (scattering how : all_scatterings(type)) {
      if (how.op == op_id::min || how.op == op_id::mean) continue;
      const auto with = [&](std::size_t places, std::size_t few, std::vector<std::size_t> others) {
        std::vector<std::size_t> all(places);
        for (auto& n : all) n = next() % (few + 1);
        for (const std::size_t n : others) all[next() % places] = n;
        run(type, how, all);
      };
      with(64, 2, {7});                        // as they come
      with(100, 6, {8, 9});                    // in 8 lanes, or a place has more
      with(90, 10, {15, 16, 17, 40});          // in 16
      with(50, 40, {31, 32, 33, 64});          // in all of them
      with(48, 90, {255, 256, 257, 300, 90});  // and more than a leaf
      with(9, 1, {700, 600, 40});              // most of them of few places
      with(300, 7, {1});
    }
}

TEST_CASE("scatter: the order of the elements is that of the axis") {
  // In any other order the large ones would not cancel before the small one comes.
  const std::vector<float> x{1e30f, -1e30f, 1, 2, 1e30f, -1e30f};
  const std::vector<std::int64_t> keys{0, 0, 0, 1, 1, 1};
  std::vector<float> out(2);
  const auto line = [&](dtype t, const void* data, std::int64_t n) {
    return row_major(t, data, {n});
  };
  cpu::scatter({}, line(dtype::f32, x.data(), 6), line(dtype::i64, keys.data(), 6), 0,
               line(dtype::f32, out.data(), 2), out.data(), {.target = forced_target});
  CHECK(out == std::vector<float>{1, 0});
}

TEST_CASE("scatter: mistakes are errors, and in place nothing is written") {
  const std::vector<float> x(6, 1);
  std::vector<float> base(4, 5), out(4, 7);
  const auto run = [&](scattering how, std::vector<std::int64_t> keys, void* to, int axis = 0,
                       dtype of_keys = dtype::i64, std::int64_t columns = 2) {
    cpu::scatter(how, row_major(dtype::f32, x.data(), {3, 2}),
                 row_major(of_keys, keys.data(), {3, 2}), axis,
                 row_major(dtype::f32, base.data(), {2, columns}), to, {.target = forced_target});
  };
  const std::vector<std::int64_t> right{0, 1, 1, 0, 0, 0};
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{2}, INT64_MIN, INT64_MAX})
    for (std::size_t k = 0; k < right.size(); ++k) {
      auto keys = right;
      keys[k] = wrong;
      CHECK_THROWS_AS(run({}, keys, out.data()), error);
      CHECK_THROWS_AS(run({}, keys, base.data()), error);
      CHECK(base == std::vector<float>(4, 5));
    }
  test::random_bits next{3};
  for (const bool strided : {false, true}) {  // a mistake in the last of many lines
    scatter_case c = make_case(dtype::f32, {}, {8, 600}, 1, 600, false, next, true);
    if (strided) {
      c.key_data.resize(2 * 8 * 600);
      c.keys.stride = {1200, 2};
    } else {
      c.keys.stride = {600, 1};
    }
    fill_keys(c, next);
    c.place();
    c.key_data[static_cast<std::size_t>(7 * c.keys.stride[0] + 599 * c.keys.stride[1])] = 600;
    const auto before = c.base_data;
    const auto call = [&] { cpu::scatter(c.how, c.x, c.keys, 1, c.base, c.base_data.data()); };
    test::check_refused("keys: ", call, [&] { return c.base_data == before; });
  }
  run({}, right, out.data());
  CHECK(out == std::vector<float>{7, 7, 6, 6});
  const auto refused = [&](const std::string& start, auto call) {
    test::check_refused(start, call, [&] { return out == std::vector<float>{7, 7, 6, 6}; });
  };
  refused("op: var", [&] { run({.op = op_id::var}, right, out.data()); });
  refused("axis: 2", [&] { run({}, right, out.data(), 2); });
  refused("keys: i32", [&] { run({}, right, out.data(), 0, dtype::i32); });
  refused("base: shorter", [&] { run({}, right, out.data(), 0, dtype::i64, 1); });
  refused("out: null", [&] { run({}, right, nullptr); });
  refused("method: exact", [&] {
    const view one = row_major(dtype::i32, x.data(), {1});
    cpu::scatter({.method = method_id::exact}, one, row_major(dtype::i64, right.data(), {1}), 0,
                 one, out.data());
  });
}

namespace {

// What `places` have of rows that a list names, times weights, as scatter.hpp says it.
template <class T>
std::vector<std::byte> rows_by_the_book(const scattering& how, const listed_rows& x,
                                        const std::vector<std::vector<std::size_t>>& places) {
  using A = std::conditional_t<
      std::is_integral_v<T>, T,
      std::conditional_t<std::is_same_v<T, double>, double, float>>;  // in which is computed
  const auto* const from = static_cast<const T*>(x.x);
  const auto* const weights = static_cast<const T*>(x.weights);
  std::vector<std::byte> out;
  for (const auto& rows : places)
    for (std::size_t c = 0; c < x.n; ++c) {
      std::vector<A> elements;
      for (const std::size_t i : rows) {
        const std::size_t row = x.list ? static_cast<std::size_t>(x.list[i]) : i;
        if constexpr (std::is_integral_v<T>)
          elements.push_back(from[row * x.n + c]);
        else
          elements.push_back(arith::mul(arith::widen<A>(from[row * x.n + c]),
                                        weights ? arith::widen<A>(weights[i]) : A{1}));
      }
      T result{};
      if constexpr (std::is_integral_v<T>) {
        if (!rows.empty()) result = result_of<A>(how, elements, nullptr);
      } else if (!rows.empty()) {
        result = arith::round_to<T>(result_of<A>(how, elements, nullptr));
      }
      const auto* const bytes = reinterpret_cast<const std::byte*>(&result);
      out.insert(out.end(), bytes, bytes + sizeof result);
    }
  return out;
}

}  // namespace

TEST_CASE("scatter: rows of a list, with weights, by keys and between offsets") {
  test::random_bits next{7};
  for (const dtype type : {dtype::f16, dtype::f32, dtype::f64, dtype::i32})
    for (scattering how : all_scatterings(type)) {
      if (how.with_base) continue;
      const bool weighs = is_float(type) && (how.op == op_id::sum || how.op == op_id::mean);
      const std::size_t count = 90 + next() % 200, rows = 40, n = next() % 2 ? 37 : 3, places = 9;
      const auto x = test::make_data(type, next() % 3 ? test::kind::near_one : test::kind::special,
                                     rows * n, next());
      const auto weights = test::make_data(type, test::kind::near_one, count, next());
      std::vector<std::int64_t> list(count), keys(count), offsets(places + 1);
      for (auto& row : list) row = static_cast<std::int64_t>(next() % rows);
      for (auto& key : keys) {  // one place has very many, one nothing
        key = static_cast<std::int64_t>(next() % 2 ? 4 : next() % (places - 1));
        if (how.leaves_out && next() % 5 == 0) key = next() % 2 ? -1 : std::int64_t{places};
      }
      for (auto& offset : offsets) offset = static_cast<std::int64_t>(next() % count);
      std::sort(offsets.begin(), offsets.end());
      offsets[0] = 0, offsets[3] = offsets[2];
      for (const bool with_keys : {true, false})
        for (const bool weighted : {false, true}) {
          if (weighted && !weighs) continue;
          const listed_rows of{type,     count,       n,
                               x.data(), list.data(), weighted ? weights.data() : nullptr};
          std::vector<std::vector<std::size_t>> all(places);
          for (std::size_t i = 0; i < count; ++i)
            if (with_keys) {
              if (keys[i] >= 0 && keys[i] < std::int64_t{places})
                all[static_cast<std::size_t>(keys[i])].push_back(i);
            } else {
              for (std::size_t k = 0; k < places; ++k)
                if (offsets[k] <= std::int64_t(i) && std::int64_t(i) < offsets[k + 1])
                  all[k].push_back(i);
            }
          const auto want = visit(type, [&]<class T>(std::type_identity<T>) {
            return rows_by_the_book<T>(how, of, all);
          });
          for (const int threads : {1, 3}) {
            std::vector<std::byte> out(want.size(), std::byte{0xab});
            cpu::scatter_rows(
                how, of,
                {places, with_keys ? keys.data() : nullptr, with_keys ? nullptr : offsets.data()},
                out.data(), {.threads = threads, .target = forced_target});
            INFO(name(how.op) << " " << name(how.method) << " of " << name(type) << ", rows of "
                              << n << (with_keys ? ", keys" : ", offsets")
                              << (weighted ? ", weights, " : ", ") << threads << " threads");
            CHECK((out == want));
          }
        }
    }
}

TEST_CASE("scatter: mistakes of rows are errors") {
  const std::vector<float> x(6, 1);
  const std::vector<std::int64_t> keys{0, 2, 1}, up{0, 2, 3}, down{0, 2, 1}, late{1, 2, 3},
      far{0, 2, 4};
  std::vector<float> out(4, 7);
  const listed_rows rows{dtype::f32, 3, 2, x.data()};
  const scattering sum{.with_base = false};
  const auto refused = [&](const std::string& start, const scattering& how, const listed_rows& of,
                           const places_of_rows& to) {
    test::check_refused(
        start, [&] { cpu::scatter_rows(how, of, to, out.data()); },
        [&] { return out == std::vector<float>(4, 7); });
  };
  refused("how: ", {}, rows, {2, nullptr, up.data()});
  refused("keys: ", sum, rows, {2, keys.data(), up.data()});
  refused("keys: ", sum, rows, {2, nullptr, nullptr});
  refused("keys: ", sum, rows, {2, keys.data(), nullptr});
  refused("keys: there are some, and no places", sum, rows, {0, keys.data(), nullptr});
  for (const auto& wrong : {down, late, far})
    refused("offsets: ", sum, rows, {2, nullptr, wrong.data()});
  const listed_rows weighted{dtype::f32, 3, 2, x.data(), nullptr, x.data()};
  refused("weights: ", {.op = op_id::max, .with_base = false}, weighted, {2, nullptr, up.data()});
  refused("op: var", {.op = op_id::var, .with_base = false}, rows, {2, nullptr, up.data()});
  CHECK_THROWS_AS(cpu::scatter_rows(sum, rows, {2, nullptr, up.data()}, nullptr), error);
  cpu::scatter_rows(sum, rows, {2, nullptr, up.data()}, out.data());
  CHECK(out == std::vector<float>{2, 2, 1, 1});
}
