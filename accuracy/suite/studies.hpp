// What the files of the suite share: arrays, what a study notes beside its rows, and the studies,
// which the plan lists.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bitfold/error.hpp>

#include "accuracy/contestant.hpp"
#include "accuracy/inputs.hpp"
#include "accuracy/products.hpp"
#include "accuracy/rows.hpp"
#include "io/arrays.hpp"

namespace bitfold::accuracy {

// ---- Arrays

std::uint64_t next_id();

struct array {
  std::vector<std::byte> bytes;
  array_view view;
  array(dtype t, std::vector<std::byte> b, int inputs = 1)
      : view{t, nullptr, 0, next_id(), inputs} {
    hold(std::move(b));
  }
  array(array&&) = default;  // a moved vector keeps its memory
  void hold(std::vector<std::byte> b) {
    bytes = std::move(b);
    view.data = bytes.data();
    view.n = bytes.size() / size_of(view.type) / static_cast<std::size_t>(view.inputs);
  }
};

using maker = std::function<std::vector<std::byte>(std::uint64_t seed)>;

maker from(const input& in, std::size_t n, dtype t);
maker integers(std::size_t n, dtype t);  ///< random bits
maker twice(maker make);                 ///< two arrays of a kind, one behind the other

std::vector<std::byte> shuffled(const array_view& x, std::uint64_t seed);

/// A block that repeats: the values do not matter for times, and this is soon made.
array repeated(dtype t, std::size_t n, int inputs = 1);

/// The arrays of a file that take part, and what they are called. Errors (errc::bad_input): there
/// are none.
std::vector<std::pair<std::string, io::array>> arrays_of(const std::string& file);

const input& input_named(std::string_view name);

std::string condition_name(int power);
/// The condition numbers of their figure, as powers of 10.
std::vector<int> condition_powers(bool full);

// ---- What a study needs

scalar reference_of(const reduction& r, const array_view& x);

struct reduction_less {
  bool operator()(const reduction& a, const reduction& b) const;
};
template <class T>
using by_reduction = std::map<reduction, T, reduction_less>;

bool takes_any_order(const reduction& r);

/// Of a contestant of any kind.
template <class Contestant>
finding_row finding(const Contestant& c, const char* kind, std::string where, std::string expected,
                    std::string got) {
  return {c.info.id, kind, std::move(where), std::move(expected), std::move(got)};
}

double median(std::vector<double> v);

/// The coefficient of variation; none of a single one.
std::optional<double> variation_of(const std::vector<double>& samples);
/// Whether times vary so much that their median says little: by more than a tenth.
std::optional<bool> is_noisy(const std::vector<double>& samples);

/// How busy others keep the CPU's cores while this process does something.
class machine_load {
 public:
  /// Looks as long as it lives.
  class watch {
   public:
    explicit watch(machine_load& to);
    watch(const watch&) = delete;
    ~watch();

   private:
    machine_load& to_;
    double wall_, own_;
    std::optional<double> all_;
  };
  /// Cores, on average; none where the system does not tell, or it was too short a time.
  std::optional<double> others() const;

 private:
  double wall_ = 0, busy_ = 0;
};

// Threads of libraries that ran before may still spin for some time (OpenBLAS's do for some 25 ms);
// those of the next one would wait for them.
void let_others_settle(const std::string& device, const variation& way);

/// Of seconds(how many times); a slow one is timed less often, and a noisy one again.
template <class Seconds>
std::vector<double> samples_of(const std::string& device, const variation& way, int times,
                               Seconds seconds) {
  let_others_settle(device, way);
  const int runs = std::clamp(static_cast<int>(0.5 / seconds(1)[0]), 1, times);
  std::vector<double> samples = seconds(runs);
  for (int again = 0; again < 2 && is_noisy(samples).value_or(false); ++again) {
    const std::vector<double> more = seconds(runs);
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

/// An array for run, or with a matrix for run_along.
struct to_run {
  array_view x;
  std::optional<matrix> as = {};
};
enum class which_ways { first, timed, all };
/// Adds c's calls of these arrays, whose elements are not read, in these variations.
void add_requests(std::vector<cuda::request>& to, const contestant& c,
                  const std::vector<to_run>& arrays, which_ways which);
/// Compiles what these are to run in these variations, all kernels at once: each run would wait for
/// its own.
void compile_ahead(const std::vector<contestant*>& who, const std::vector<to_run>& arrays,
                   which_ways which);

// Runs what a peer does. One that fails is left out from here on, with its reason; bitfold may not
// fail.
class attempts {
 public:
  explicit attempts(std::string where) : where_(std::move(where)) {}
  template <class Contestant, class F>
  bool operator()(const Contestant& c, F f) {
    if (failed_.contains(&c)) return false;
    if (c.info.promise) {
      f();
      return true;
    }
    try {
      f();
      return true;
    } catch (const error& e) {
      failed_.insert(&c);
      failures.push_back({c.info.id, where_, e.what()});
      return false;
    }
  }
  template <class Contestant>
  bool failed(const Contestant& c) const {
    return failed_.contains(&c);
  }
  std::vector<failure_row> failures;

 private:
  std::string where_;
  std::set<const void*> failed_;
};

// ---- The studies

struct study {
  std::string name, input;
  dtype type;
  maker make;
  int samples, permutations;
  bool timed;
  int inputs = 1;  // arrays that `make` makes, one behind the other
};
report_rows run_study(const study& s, const std::vector<contestant*>& everyone, std::uint64_t seed);

/// Who can add.
report_rows run_integers(contestant& c);

/// Whose bits are looked at, each in a unit of its own.
struct bits_of_many {
  std::vector<contestant*> who;
  std::size_t compiled = 0;  ///< those before this one, ahead of their turn
};
/// Sameness of bits, of one of them.
report_rows run_bits(bits_of_many& all, std::size_t which, std::uint64_t seed, int repeats);

report_rows run_speed(const std::vector<contestant*>& everyone, dtype t, std::size_t n, int inputs,
                      bool full);

/// Rows or columns of an array.
struct shape {
  dtype type;
  bool rows;                                // reduced, or columns
  std::size_t length;                       // of each
  std::size_t elements, elements_of_batch;  // at most: of the array that is timed, of a batch

  const char* layout() const { return rows ? "rows" : "columns"; }
  matrix of(std::size_t outputs) const {
    return rows ? matrix{outputs, length, 1} : matrix{length, outputs, 0};
  }
};
/// Does the first output keep its bits, alone and among others?
report_rows run_batches(const std::vector<contestant*>& everyone, const shape& s,
                        std::uint64_t seed);
report_rows run_shape(const std::vector<contestant*>& everyone, const shape& s, int times);

/// Products of matrices of type t: errors and bounds of each element; sameness of bits, of which
/// each contestant runs `repeats` times in each variation; times.
report_rows run_products(const std::vector<product_contestant*>& everyone,
                         const product_input& input, const product_shape& s, dtype t,
                         std::uint64_t seed);
report_rows run_product_bits(product_contestant& c, const product_shape& s, std::uint64_t seed,
                             int repeats);
report_rows run_product_speed(const std::vector<product_contestant*>& everyone,
                              const product_shape& s, dtype t, int times);

/// Sums of `count` contributions of n elements, at most 32, by 1, 2, 3, 4 and 8 ranks.
report_rows run_ranks(const std::vector<rank_contestant*>& everyone, const input& in, dtype t,
                      std::size_t count, std::size_t n, std::uint64_t seed);

}  // namespace bitfold::accuracy
