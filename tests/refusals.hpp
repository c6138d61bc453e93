// What cannot be done with views, windows, segments and keys, for both engines: the argument is
// named, and nothing is written.
#pragma once

#include <bitfold/error.hpp>
#include <bitfold/view.hpp>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"

namespace bitfold::test {

/// In what words call() is refused.
inline std::string why(auto call) {
  try {
    call();
  } catch (const error& e) {
    CHECK(e.code() == errc::usage);
    return e.what();
  }
  return "not refused";
}

/// Calls call(), which must be refused in words that begin like this, and leave things as
/// untouched() finds them.
template <class Call, class Untouched>
void check_refused(const std::string& start, Call call, Untouched untouched) {
  try {
    call();
    FAIL_CHECK("accepted: " << start);
  } catch (const error& e) {
    CHECK(e.code() == errc::usage);
    if (std::string(e.what()).rfind(start, 0) != 0) CHECK(std::string(e.what()) == start);
  }
  INFO(start);
  CHECK(untouched());
}

/// An engine has `data`, 24 elements of f32, and `out`, 1000 bytes, where it can reach them; its
/// calls are those of bitfold/cpu.hpp of one reduction, and check offsets and keys; untouched()
/// tells whether nothing was written where its calls might write.
template <class Engine>
void check_refusals(const Engine& by) {
  const view x = row_major(dtype::f32, by.data, {2, 3, 4});
  const reduction sum = make_reduction(op_id::sum, method_id::tree, dtype::f32),
                  dot = make_reduction(op_id::dot, method_id::tree, dtype::f32),
                  max = make_reduction(op_id::max, {}, dtype::f32);
  const auto refused = [&](const std::string& start, auto call) {
    check_refused(start, call, [&] { return by.untouched(); });
  };
  const auto one = [&](const view& v, std::vector<int> axes) {
    by.reduce(sum, v, nullptr, axes, by.out);
  };
  const auto two = [&](const view& a, const view* b) { by.reduce(dot, a, b, {0}, by.out); };
  refused("axis: 3 of an array of 3 axes", [&] { one(x, {3}); });
  refused("axis: -1 of an array of 3 axes", [&] { one(x, {-1}); });
  refused("axis: 1 is given twice", [&] { one(x, {1, 0, 1}); });
  refused("out: null pointer", [&] { by.reduce(sum, x, nullptr, {1}, nullptr); });
  refused("x.type: 99 is none of bitfold's", [&] {
    view v = x;
    v.type = static_cast<dtype>(99);
    one(v, {0});
  });
  refused("x.rank: 9", [&] {
    view v = x;
    v.rank = 9;
    one(v, {1});
  });
  refused("x.extent[1]: -3", [&] {
    view v = x;
    v.extent[1] = -3;
    one(v, {1});
  });
  refused("x.data: null", [&] {
    view v = x;
    v.data = nullptr;
    one(v, {1});
  });
  refused("x: more than 2^60", [&] {
    view v = x;
    v.extent = {1 << 30, 1 << 30, 2};
    one(v, {1});
  });
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  refused("x: more than 2^60", [&] { one(row_major(dtype::f32, by.data, {huge, huge}), {1}); });
  refused("x: more than 2^60", [&] { one(row_major(dtype::f32, nullptr, {huge, huge, 0}), {2}); });
  refused("reductions: of f32", [&] {
    view v = x;
    v.type = dtype::i32;
    one(v, {1});
  });
  refused("y: dot takes two inputs", [&] { two(x, nullptr); });
  refused("y: extents 4 and 5", [&] {
    const view y = row_major(dtype::f32, by.data, {5});
    two(x, &y);
  });
  refused("y: f64, and x is f32", [&] {
    const view y = row_major(dtype::f64, by.data, {1});
    two(x, &y);
  });
  refused("output 0: no elements, and max",
          [&] { by.reduce(max, row_major(dtype::f32, nullptr, {2, 0}), nullptr, {1}, by.out); });

  const auto pooled = [&](const reduction& r, const window& w, const view& of) {
    by.windows(r, of, {w});
  };
  refused("window.size: 0", [&] { pooled(sum, {0, 0}, x); });
  refused("axis: 0 is given twice", [&] { by.windows(sum, x, {window{0, 1}, window{0, 2}}); });
  refused("window.size: a window of 3 elements is longer than axis 0, which has 2",
          [&] { pooled(sum, {0, 3}, x); });
  refused("window.size: a window of 3 elements, 3 apart, is longer than axis 2, which has 4 and 1",
          [&] { pooled(sum, {.axis = 2, .size = 3, .dilation = 3, .padding = 1}, x); });
  refused("window.size: a window of 1 elements is longer than axis 1, which has 0",
          [&] { pooled(sum, {1, 1}, row_major(dtype::f32, nullptr, {2, 0})); });
  refused("window.padding: -1 is negative",
          [&] { pooled(sum, {.axis = 0, .size = 2, .padding = -1}, x); });
  refused("window.padding: a window that begins 3",
          [&] { pooled(sum, {.axis = 0, .size = 2, .dilation = 2, .padding = 3}, x); });
  refused("axis: 3 of", [&] { pooled(sum, {.axis = 3, .size = 2, .padding = 1}, x); });
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  refused("window: more than 2^60", [&] {
    pooled(sum, {.axis = 0, .size = 2, .stride = 1, .dilation = most, .padding = most}, x);
  });
  refused("window.padding: with it windows are cut off",
          [&] { pooled(sum, {.axis = 0, .size = 100'000, .padding = 99'999}, x); });
  refused("window.padding: with it windows are cut off", [&] {
    by.windows(sum, x,
               {window{.axis = 1, .size = 300, .padding = 299},
                window{.axis = 2, .size = 300, .padding = 299}});
  });
  refused("x: more than 2^60 windows",
          [&] { pooled(sum, {.axis = 1, .size = 2}, row_major(dtype::f32, by.data, {huge, 4})); });
  // Of four windows of two elements, 4 apart, the two in the middle have none: outputs 12 to 35.
  refused("output 12: no elements, and max",
          [&] { pooled(max, {.axis = 0, .size = 2, .dilation = 4, .padding = 3}, x); });

  refused("offsets[2]: 3 is below", [&] { by.segments(sum, 24, {0, 4, 3}); });
  refused("offsets[0]: -1 of 24", [&] { by.segments(sum, 24, {-1, 4}); });
  refused("offsets[1]: 25 of 24", [&] { by.segments(sum, 24, {0, 25}); });
  refused("keys[1]: 3 is not from 0 to 2", [&] { by.by_key(sum, {0, 3}, 3); });
  refused("keys[0]: -1 is not from 0 to 2", [&] { by.by_key(sum, {-1, 3}, 3); });
  refused("keys: 2, and no outputs", [&] { by.by_key(sum, {0, 3}, 0); });
}

}  // namespace bitfold::test
