// What NumPy and PyTorch make of arrays along axes, in any layout, beside bitfold: the same values,
// within bitfold's bound plus theirs. Without the library the test is skipped.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include <bitfold/cpu.hpp>

#include "accuracy/bounds.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "catch.hpp"
#include "io_bytes.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;

namespace {

// An array in memory, the axes and elements of it that are seen, and those that are reduced; the
// second input, which broadcasts, is of the last two axes, and of one element along the last.
struct layout {
  std::vector<std::int64_t> shape;
  std::vector<int> order, steps, axes;
};
const layout layouts[] = {
    {{4, 6, 5}, {0, 1, 2}, {1, 1, 1}, {2}},
    {{4, 6, 5}, {0, 1, 2}, {1, 1, 1}, {0}},
    {{4, 6, 5}, {0, 1, 2}, {1, 1, 1}, {0, 2}},
    {{4, 6, 5}, {2, 0, 1}, {1, 1, 1}, {1}},
    {{4, 6, 5}, {0, 2, 1}, {1, -1, 2}, {0, 1}},
    {{3, 300}, {0, 1}, {1, 1}, {1}},
    {{300, 3}, {0, 1}, {1, 1}, {0}},
    {{300, 3}, {1, 0}, {-1, -1}, {1}},
    {{2, 3, 2, 9}, {3, 1, 0, 2}, {2, 1, 1, 1}, {0, 3}},
    {{2, 70, 2}, {0, 1, 2}, {1, 1, 1}, {0, 1, 2}},
};

struct peer_case {
  layout of;
  dtype type;
  std::vector<std::byte> first, second;  // in memory

  view x() const {
    view v = permuted(row_major(type, first.data(), of.shape), of.order);
    for (int k = 0; k < v.rank; ++k) {
      const std::int64_t step = of.steps[static_cast<std::size_t>(k)], extent = v.extent[k];
      v = sliced(v, k, step < 0 ? extent - 1 : 0, (extent - 1) / std::abs(step) + 1, step);
    }
    return v;
  }
  std::vector<std::int64_t> second_shape() const {
    const view v = x();
    return {v.extent[v.rank - 2], 1};
  }
  view y() const { return row_major(type, second.data(), second_shape()); }
};

// The elements of each output, one behind the other, element by element.
struct gathered {
  std::vector<std::byte> x, y;
};
std::vector<gathered> gather(const peer_case& c) {
  const view x = c.x(), y = c.y();
  std::size_t total = 1, outputs = 1;
  for (int k = 0; k < x.rank; ++k) {
    total *= static_cast<std::size_t>(x.extent[k]);
    if (std::find(c.of.axes.begin(), c.of.axes.end(), k) == c.of.axes.end())
      outputs *= static_cast<std::size_t>(x.extent[k]);
  }
  std::vector<gathered> all(outputs);
  for (std::size_t i = 0; i < total; ++i) {
    std::size_t left = i, output = 0, scale = 1;
    std::int64_t at = 0, second = 0;
    for (int k = x.rank - 1; k >= 0; --k) {
      const auto extent = static_cast<std::size_t>(x.extent[k]), digit = left % extent;
      left /= extent;
      at += static_cast<std::int64_t>(digit) * x.stride[k];
      if (k == x.rank - 2) second = static_cast<std::int64_t>(digit);
      if (std::find(c.of.axes.begin(), c.of.axes.end(), k) != c.of.axes.end()) continue;
      output += digit * scale;
      scale *= extent;
    }
    const auto add = [&](std::vector<std::byte>& to, const view& from, std::int64_t place) {
      const auto size = static_cast<std::int64_t>(size_of(c.type));
      const auto* const p = static_cast<const std::byte*>(from.data) + place * size;
      to.insert(to.end(), p, p + size);
    };
    add(all[output].x, x, at);
    add(all[output].y, y, second);
  }
  return all;
}

std::vector<std::byte> elements_in_memory(dtype t, std::size_t n, std::uint64_t seed,
                                          bool with_nan) {
  random_source random(seed);
  if (!is_float(t)) {
    std::vector<std::byte> bytes(n * size_of(t));
    for (auto& b : bytes) b = static_cast<std::byte>(random.bits() >> 56);
    return bytes;
  }
  std::vector<double> values(n);
  for (double& v : values) v = random.normal();
  for (std::size_t i = 3; i < n && with_nan; i += 17)
    values[i] = std::numeric_limits<double>::quiet_NaN();
  return pack(values, t);
}

bool same(const real& a, const real& b) { return a == b || (isnan(a) && isnan(b)); }

std::string text_of(const auto& list) {
  std::string text;
  for (const auto i : list) text += (text.empty() ? "" : ",") + std::to_string(i);
  return text;
}

void check_along_axes(const std::string& library) {
  const bytes::directory dir;
  const char* const chosen = std::getenv("BITFOLD_PYTHON");
  const std::string python = chosen && *chosen ? chosen : "python3";
  if (std::system((python + " -c pass 2>/dev/null").c_str()) != 0) {
    std::printf("skipped: %s: no %s\n", library.c_str(), python.c_str());
    return;
  }
  std::map<std::string, peer_case> cases;
  std::string lines;
  for (const dtype t : all_dtypes)
    for (const bool with_nan : {false, true})
      for (const layout& l : layouts) {
        if (with_nan && !is_float(t)) continue;
        const std::string id =
            std::string(name(t)) + (with_nan ? "-nan-" : "-") + std::to_string(&l - layouts);
        const auto n = static_cast<std::size_t>(
            std::accumulate(l.shape.begin(), l.shape.end(), std::int64_t{1}, std::multiplies<>()));
        const auto write = [&](const std::string& file, const std::vector<std::byte>& data) {
          dir.write(file, {reinterpret_cast<const char*>(data.data()), data.size()});
        };
        peer_case& c = cases[id] = {l, t, elements_in_memory(t, n, cases.size(), with_nan), {}};
        c.second = elements_in_memory(t, static_cast<std::size_t>(c.second_shape()[0]),
                                      1000 + cases.size(), false);
        write(id, c.first);
        write(id + ".y", c.second);
        lines += id + "\t" + std::string(name(t)) + "\t" + text_of(l.shape) + "\t" +
                 text_of(l.order) + "\t" + text_of(l.steps) + "\t" + text_of(l.axes) + "\t" +
                 text_of(c.second_shape()) + "\n";
      }
  dir.write("cases", lines);
  const std::string said = dir.path("said");
  REQUIRE(
      std::system((python + " " BITFOLD_AXES_PY " " + library + " " + dir.path("") + " > " + said)
                      .c_str()) == 0);
  if (std::string why; std::getline(std::ifstream(said) >> std::ws, why)) {
    REQUIRE(why.starts_with("skipped: "));
    std::printf("%s\n", why.c_str());
    return;
  }

  std::map<std::string, int> compared;  // by operation
  std::ifstream results(dir.path("results"));
  for (std::string id, op, acc; results >> id >> op >> acc;) {
    const peer_case& c = cases.at(id);
    const auto r = make_reduction(*parse_op(op), {}, c.type);
    const auto outputs = gather(c);
    const std::size_t size = size_of(r.out());
    const view x = c.x(), y = c.y();
    const bool two = info(r.op()).inputs == 2;
    std::vector<std::byte> ours(outputs.size() * size);
    void* const out = ours.data();
    cpu::reduce({&r, 1}, x, two ? &y : nullptr, c.of.axes, {&out, 1});
    std::ifstream file(dir.path(id + "." + op), std::ios::binary);
    const std::string theirs{std::istreambuf_iterator<char>(file), {}};
    INFO(library << " " << op << " of " << id);
    REQUIRE(theirs.size() == ours.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const elements in{c.type, outputs[k].x.data(), two ? outputs[k].y.data() : nullptr,
                        outputs[k].x.size() / size_of(c.type)};
      const real a = value_of(load_scalar(r.out(), &ours[k * size])),
                 b = value_of(load_scalar(r.out(), &theirs[k * size]));
      INFO("output " << k << ": bitfold " << a.str(20) << ", the peer " << b.str(20));
      if (const real v = exact_value(r, in); isnan(v)) {
        CHECK(isnan(a));
        CHECK(isnan(b));
      } else if ((r.op() == op_id::argmin || r.op() == op_id::argmax) &&
                 library == "torch") {  // any index of equal elements
        const auto element = [&](const real& i) {
          return value_of(
              load_scalar(c.type, &outputs[k].x[static_cast<std::size_t>(i) * size_of(c.type)]));
        };
        CHECK(same(element(a), element(b)));
      } else {
        const real both =
            error_bound(r, in) +
            any_order_bound(r.op(), parse_dtype(acc).value_or(dtype::f64), r.out(), in);
        if (both == 0)
          CHECK(same(a, b));
        else if (isfinite(both))
          CHECK(abs(a - b) <= both);
        else
          continue;
      }
      ++compared[op];
    }
  }
  CHECK(compared.size() >= 19);
  for (const auto& [op, times] : compared) {
    INFO(op << " was compared " << times << " times");
    CHECK(times >= 100);
  }
}

}  // namespace

TEST_CASE("peers: along axes NumPy's values are bitfold's, within the bounds of both", "[numpy]") {
  check_along_axes("numpy");
}

TEST_CASE("peers: along axes PyTorch's values are bitfold's, within the bounds of both",
          "[torch]") {
  check_along_axes("torch");
}
