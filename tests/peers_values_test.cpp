// What NumPy and PyTorch compute, beside bitfold: the same values within bitfold's bound plus
// theirs, and just the same ones where an operation is exact. Without the library the test is
// skipped.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

#include <bitfold/cpu.hpp>
#include <bitfold/cuda.hpp>

#include "accuracy/bounds.hpp"
#include "accuracy/contestant.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/oracle.hpp"
#include "catch.hpp"

using namespace bitfold;
using namespace bitfold::accuracy;

namespace {

constexpr const char* with_nan = "normal, with NaN";

// Two arrays of a family, one behind the other.
std::vector<std::byte> two_arrays(std::string_view family, std::size_t n, dtype t) {
  if (!is_float(t)) {
    random_source random(n);
    std::vector<std::byte> bytes(2 * n * size_of(t));
    for (auto& b : bytes) b = static_cast<std::byte>(random.bits() >> 56);
    return bytes;
  }
  const std::string_view name = family == with_nan ? "normal" : family;
  const auto in = std::find_if(all_inputs().begin(), all_inputs().end(),
                               [&](const input& i) { return i.name == name; });
  REQUIRE(in != all_inputs().end());
  std::vector<double> both = in->make(n, 1, t);
  const std::vector<double> second = in->make(n, 2, t);
  both.insert(both.end(), second.begin(), second.end());
  if (family == with_nan)
    for (std::size_t i = 3; i < both.size(); i += 7)
      both[i] = std::numeric_limits<double>::quiet_NaN();
  return pack(both, t);
}

bool same(const real& a, const real& b) { return a == b || (isnan(a) && isnan(b)); }

// Whether two numbers were compared: not where a bound is infinite, or theirs is not known.
bool compare(contestant& who, const array_view& x, std::size_t way,
             std::optional<method_id> method) {
  const contestant_info& i = who.info;
  const reduction r = make_reduction(i.op, method, i.in);
  REQUIRE(r.out() == i.out);
  const elements in{x.type, x.data, x.second(i.op), x.n};
  const real ours = value_of(cpu::reduce(r, in.x, in.y, in.n)), theirs = value_of(who.run(x, way));
  INFO("bitfold " << name(method) << " has " << ours.str(20) << ", the peer " << theirs.str(20));
  if (isnan(exact_value(r, in))) {
    CHECK(isnan(ours));
    CHECK(isnan(theirs));
    return false;
  }
  const auto acc = parse_dtype(i.acc);
  if (!acc && !i.acc.empty()) return false;
  const real both = error_bound(r, in) + any_order_bound(i.op, acc.value_or(dtype::f64), i.out, in);
  if (!isfinite(both)) return false;
  const bool a_place = i.op == op_id::argmin || i.op == op_id::argmax;
  if (a_place && i.family == "PyTorch") {  // any index of equal elements
    const auto element = [&](const real& index) {
      return value_of(load_scalar(i.in, static_cast<const std::byte*>(x.data) +
                                            static_cast<std::size_t>(index) * size_of(i.in)));
    };
    CHECK(same(element(ours), element(theirs)));
  } else if (both == 0) {
    CHECK(same(ours, theirs));
  } else {
    INFO("bound " << both.str(5));
    CHECK(abs(ours - theirs) <= both);
  }
  return true;
}

void check_values(const std::string& family) {
  contestants c;
  add_python(c, true, !cuda::devices().empty());
  for (const auto& m : c.missing)
    if (m.name == family) {
      std::printf("skipped: %s: %s\n", m.name.c_str(), m.why.c_str());
      return;
    }
  std::map<const contestant_info*, int> compared;
  std::set<const contestant_info*> without;  // of an element type, in this version
  std::uint64_t id = 1 << 30;
  for (dtype t : all_dtypes)
    for (const char* input :
         {"uniform", "normal", "gradients", "relu", "alternating", "condition-1e8", with_nan})
      for (std::size_t n : {1, 9, 1000}) {
        if (!is_float(t) && input != std::string_view("uniform")) continue;
        if (n == 1 && input == std::string_view("condition-1e8")) continue;
        const auto bytes = two_arrays(input, n, t);
        const array_view x{t, bytes.data(), n, ++id, 2};
        for (const auto& who : c.list) {
          if (who->info.family != family || who->info.in != t) continue;
          for (std::size_t way = 0; way < who->variations().size(); ++way) {
            INFO(who->info.id << ", " << who->variations()[way].label << ", " << input
                              << ", n = " << n);
            for (const auto& m : methods_of(who->info.op)) try {
                compared[&who->info] += compare(*who, x, way, m);
              } catch (const error& e) {
                if (std::string(e.what()).find("not implemented for") == std::string::npos) throw;
                without.insert(&who->info);
              }
          }
        }
      }
  REQUIRE(!compared.empty());
  for (const auto& [who, times] : compared) {
    INFO(who->id << " was compared " << times << " times");
    const bool is_known = who->acc.empty() || parse_dtype(who->acc);
    CHECK((times > 0 || !is_known || without.contains(who)));
  }
}

// As written down, in T.
template <class T>
struct plain {
  static T sum(const std::vector<T>& x) {
    T s = 0;
    for (T v : x) s += v;
    return s;
  }
  static T dot(const std::vector<T>& x, const std::vector<T>& y) {
    T s = 0;
    for (std::size_t i = 0; i < x.size(); ++i) s += x[i] * y[i];
    return s;
  }
  static T mean(const std::vector<T>& x) { return sum(x) / static_cast<T>(x.size()); }
  static T norm(const std::vector<T>& x) { return std::sqrt(dot(x, x)); }
  static T cosine(const std::vector<T>& x, const std::vector<T>& y) {
    return dot(x, y) / (norm(x) * norm(y));
  }
  static T two_passes(std::vector<T> x) {
    const T m = mean(x);
    for (T& v : x) v -= m;
    return dot(x, x) / static_cast<T>(x.size());
  }
  static T welford(const std::vector<T>& x) {
    T m = 0, squares = 0, n = 0;
    for (T v : x) {
      const T from_old = v - m;
      m += from_old / ++n;
      squares += from_old * (v - m);
    }
    return squares / n;
  }
};

template <class T>
void check_plain() {
  constexpr dtype t = dtype_of<T>;
  using p = plain<T>;
  int bounded = 0;
  for (const input& i : all_inputs())
    for (std::size_t n : {2, 300}) {
      if (i.name.starts_with("condition") && n == 2) continue;
      const auto bytes = two_arrays(i.name, n, t);
      const T* data = reinterpret_cast<const T*>(bytes.data());
      const std::vector<T> x(data, data + n), y(data + n, data + 2 * n);
      const auto check = [&](op_id op, T got) {
        const elements in{t, x.data(), info(op).inputs == 2 ? y.data() : nullptr, n};
        const real bound = any_order_bound(op, t, t, in);
        INFO(name(op) << " " << name(t) << " " << i.name << " n = " << n);
        CHECK((!isfinite(bound) || abs(real(got) - exact_value(op, in)) <= bound));
        bounded += isfinite(bound);
      };
      check(op_id::sum, p::sum(x));
      check(op_id::dot, p::dot(x, y));
      check(op_id::mean, p::mean(x));
      check(op_id::norm_l2, p::norm(x));
      check(op_id::cosine, p::cosine(x, y));
      check(op_id::var, p::two_passes(x));
      check(op_id::var, p::welford(x));
      check(op_id::std, std::sqrt(p::two_passes(x)));
    }
  CHECK(bounded > 200);
}

}  // namespace

TEST_CASE("peers: NumPy's values are bitfold's, within the bounds of both", "[numpy]") {
  check_values("NumPy");
}

TEST_CASE("peers: PyTorch's values are bitfold's, within the bounds of both", "[torch]") {
  check_values("PyTorch");
}

TEST_CASE("peers: what is computed in any order is within its bound", "[peers]") {
  check_plain<float>();
  check_plain<double>();
  const std::vector<float> x(300, 0.1f);
  const elements in{dtype::f32, x.data(), nullptr, x.size()};
  CHECK(any_order_bound(op_id::sum, dtype::f32, dtype::f32, in) ==
        error_bound(make_reduction(op_id::sum, method_id::sequential, dtype::f32), in));
  CHECK(any_order_bound(op_id::max, dtype::f32, dtype::f32, in) == 0);
  CHECK(isinf(any_order_bound(op_id::kurtosis, dtype::f32, dtype::f32, in)));
  CHECK(isinf(any_order_bound(op_id::sum, dtype::f16, dtype::f16, in)));
}
